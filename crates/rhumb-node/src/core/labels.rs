//! Labels in place of names, both ways, on the session
//! with the router joined (GDP paper, section 3.5).
//!
//! The router gives us one per flow that we send, by FlowAccept; we give it one per flow that comes
//! to us. A flow is told by both names, as a node may have several. Both tables are bounded and
//! hold for one session. When one is full it is forgotten as a whole, and flows go back to names
//! for a moment: that costs 60 bytes a PDU, and no bookkeeping.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rhumb_link::SessionId;
use rhumb_wire::Name;
use rhumb_wire::pdu::Label;

/// The labels of one session.
#[derive(Debug, Default)]
pub(super) struct Labels {
    session: Option<SessionId>,
    /// What the router takes in place of the names.
    learned: HashMap<Flow, Label>,
    learned_for: HashMap<Label, Flow>,
    /// What we take in place of the names: the position in `given_for`, and the tag above it.
    given: HashMap<Flow, Given>,
    given_for: Vec<Flow>,
    /// Changes when `given_for` is forgotten, so that old labels find nothing.
    tag: u8,
}

/// Who sends, and to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Flow {
    pub(super) from: Name,
    pub(super) to: Name,
}

#[derive(Debug)]
struct Given {
    label: Label,
    told_at: Instant,
}

impl Labels {
    /// Forgets everything unless `session` is the one that the labels are of.
    pub(super) fn keep_to(&mut self, session: SessionId) {
        if self.session != Some(session) {
            self.session = Some(session);
            self.learned.clear();
            self.learned_for.clear();
            self.forget_given();
        }
    }

    /// The router may be a new process, which gives its labels to other flows.
    pub(super) fn forget_all(&mut self) {
        self.session = None;
        self.learned.clear();
        self.learned_for.clear();
        self.forget_given();
    }

    /// The router takes the PDUs of a flow of ours under `label`.
    pub(super) fn learn(&mut self, flow: Flow, label: Label) {
        if self.learned.len() >= MAX_LABELS {
            self.learned.clear();
            self.learned_for.clear();
        }
        if let Some(before) = self.learned.insert(flow, label) {
            self.learned_for.remove(&before);
        }
        self.learned_for.insert(label, flow);
    }

    /// What to put in place of the names.
    pub(super) fn of(&self, flow: &Flow) -> Option<Label> {
        self.learned.get(flow).copied()
    }

    /// The router does not know the label any more. The flow that it stood for, also when asked
    /// again: each PDU that was under way is answered.
    pub(super) fn lapse(&mut self, label: Label) -> Option<Flow> {
        let flow = *self.learned_for.get(&label)?;
        if self.learned.get(&flow) == Some(&label) {
            self.learned.remove(&flow);
        }
        Some(flow)
    }

    /// The label to tell the router for a flow to us, unless it was told a moment ago.
    pub(super) fn give(&mut self, flow: Flow, now: Instant) -> Option<Label> {
        if let Some(given) = self.given.get_mut(&flow) {
            if now < given.told_at + TELL_AGAIN {
                return None;
            }
            given.told_at = now;
            return Some(given.label);
        }
        if self.given_for.len() >= MAX_LABELS {
            self.forget_given();
        }
        let label = Label(u32::from(self.tag) << TAG_SHIFT | self.given_for.len() as u32);
        self.given_for.push(flow);
        self.given.insert(flow, Given { label, told_at: now });
        Some(label)
    }

    /// The flow that a label of ours stands for.
    pub(super) fn flow(&self, label: Label) -> Option<Flow> {
        let known = label.0 >> TAG_SHIFT == u32::from(self.tag);
        let position = (label.0 & ((1 << TAG_SHIFT) - 1)) as usize;
        self.given_for.get(position).filter(|_| known).copied()
    }

    /// Who sends to us, the newest flow first.
    pub(super) fn newest_sources(&self) -> impl Iterator<Item = Name> {
        self.given_for.iter().rev().map(|flow| flow.from)
    }

    fn forget_given(&mut self) {
        self.given.clear();
        self.given_for.clear();
        self.tag = self.tag.wrapping_add(1);
    }
}

/// About 600 KB per direction when full; a node with more
/// peers than that at once is a router's business.
const MAX_LABELS: usize = 4096;
const TAG_SHIFT: u32 = 24;
/// A FlowAccept that got lost is repeated no later; one that is ignored costs no more than this.
const TELL_AGAIN: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(n: u32) -> Flow {
        let mut from = Name([0; 32]);
        from.0[..4].copy_from_slice(&n.to_be_bytes());
        Flow { from, to: Name([9; 32]) }
    }

    #[test]
    fn given_labels_are_bounded_and_old_ones_find_nothing() {
        let start = Instant::now();
        let mut labels = Labels::default();
        let first = labels.give(flow(0), start).unwrap();
        assert_eq!(labels.flow(first), Some(flow(0)));
        assert_eq!(labels.give(flow(0), start), None, "told a moment ago");
        assert_eq!(labels.give(flow(0), start + TELL_AGAIN), Some(first));
        for n in 1..=MAX_LABELS as u32 {
            let label = labels.give(flow(n), start).unwrap();
            assert_eq!(labels.flow(label), Some(flow(n)));
            assert!(labels.given_for.len() <= MAX_LABELS && labels.given.len() <= MAX_LABELS);
        }
        assert_eq!(labels.flow(first), None, "forgotten when the table was full");
    }

    #[test]
    fn learned_labels_are_bounded_and_lapse() {
        let mut labels = Labels::default();
        labels.learn(flow(1), Label(7));
        assert_eq!(labels.of(&flow(1)), Some(Label(7)));
        let other = Flow { to: Name([8; 32]), ..flow(1) };
        assert_eq!(labels.of(&other), None, "another name's flow from the same source");
        for _ in 0..2 {
            assert_eq!(labels.lapse(Label(7)), Some(flow(1)));
            assert_eq!(labels.of(&flow(1)), None);
        }
        labels.learn(flow(1), Label(8));
        assert_eq!(labels.lapse(Label(6)), None);
        assert_eq!(labels.of(&flow(1)), Some(Label(8)));
        for n in 0..2 * MAX_LABELS as u32 {
            labels.learn(flow(n), Label(n));
            assert!(labels.learned.len() <= MAX_LABELS);
            assert!(labels.learned_for.len() <= MAX_LABELS + 1);
        }
    }
}
