//! Labels in place of names, both ways, on the session with the router joined (GDP paper, section 3.5).
//!
//! The router gives us one per flow that we send, by FlowAccept; we give it one per source that sends to us. Both tables
//! are bounded and hold for one session. When one is full it is forgotten as a whole, and flows go back to names for a
//! moment: that costs 60 bytes a PDU, and no bookkeeping.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rhumb_link::SessionId;
use rhumb_wire::Name;
use rhumb_wire::pdu::Label;

/// The labels of one session.
#[derive(Debug, Default)]
pub(super) struct Labels {
    session: Option<SessionId>,
    /// What the router takes in place of a destination.
    by_destination: HashMap<Name, Label>,
    destinations: HashMap<Label, Name>,
    /// What we take in place of a source: the position in `sources`, and the tag above it.
    by_source: HashMap<Name, Given>,
    sources: Vec<Name>,
    /// Changes when `sources` is forgotten, so that old labels find nothing.
    tag: u8,
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
            self.by_destination.clear();
            self.destinations.clear();
            self.forget_sources();
        }
    }

    /// The router may be a new process, which gives its labels to other flows.
    pub(super) fn forget_all(&mut self) {
        self.session = None;
        self.by_destination.clear();
        self.destinations.clear();
        self.forget_sources();
    }

    /// The router takes PDUs to `destination` under `label`.
    pub(super) fn learn(&mut self, destination: Name, label: Label) {
        if self.by_destination.len() >= MAX_LABELS {
            self.by_destination.clear();
            self.destinations.clear();
        }
        if let Some(before) = self.by_destination.insert(destination, label) {
            self.destinations.remove(&before);
        }
        self.destinations.insert(label, destination);
    }

    /// What to put in place of the names.
    pub(super) fn to(&self, destination: &Name) -> Option<Label> {
        self.by_destination.get(destination).copied()
    }

    /// The router does not know the label any more. The destination that it stood for, also when asked again: each PDU
    /// that was under way is answered.
    pub(super) fn lapse(&mut self, label: Label) -> Option<Name> {
        let destination = *self.destinations.get(&label)?;
        if self.by_destination.get(&destination) == Some(&label) {
            self.by_destination.remove(&destination);
        }
        Some(destination)
    }

    /// The label to tell the router for PDUs from `source`, unless it was told a moment ago.
    pub(super) fn give(&mut self, source: Name, now: Instant) -> Option<Label> {
        if let Some(given) = self.by_source.get_mut(&source) {
            if now < given.told_at + TELL_AGAIN {
                return None;
            }
            given.told_at = now;
            return Some(given.label);
        }
        if self.sources.len() >= MAX_LABELS {
            self.forget_sources();
        }
        let label = Label(u32::from(self.tag) << TAG_SHIFT | self.sources.len() as u32);
        self.sources.push(source);
        self.by_source.insert(source, Given { label, told_at: now });
        Some(label)
    }

    /// The source that a label of ours stands for.
    pub(super) fn source(&self, label: Label) -> Option<Name> {
        let known = label.0 >> TAG_SHIFT == u32::from(self.tag);
        let position = (label.0 & ((1 << TAG_SHIFT) - 1)) as usize;
        self.sources.get(position).filter(|_| known).copied()
    }

    fn forget_sources(&mut self) {
        self.by_source.clear();
        self.sources.clear();
        self.tag = self.tag.wrapping_add(1);
    }
}

/// About 400 KB per direction when full; a node with more peers than that at once is a router's business.
const MAX_LABELS: usize = 4096;
const TAG_SHIFT: u32 = 24;
/// A FlowAccept that got lost is repeated no later; one that is ignored costs no more than this.
const TELL_AGAIN: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    fn name(n: u32) -> Name {
        let mut name = Name([0; 32]);
        name.0[..4].copy_from_slice(&n.to_be_bytes());
        name
    }

    #[test]
    fn given_labels_are_bounded_and_old_ones_find_nothing() {
        let start = Instant::now();
        let mut labels = Labels::default();
        let first = labels.give(name(0), start).unwrap();
        assert_eq!(labels.source(first), Some(name(0)));
        assert_eq!(labels.give(name(0), start), None, "told a moment ago");
        assert_eq!(labels.give(name(0), start + TELL_AGAIN), Some(first));
        for n in 1..=MAX_LABELS as u32 {
            let label = labels.give(name(n), start).unwrap();
            assert_eq!(labels.source(label), Some(name(n)));
            assert!(labels.sources.len() <= MAX_LABELS && labels.by_source.len() <= MAX_LABELS);
        }
        assert_eq!(labels.source(first), None, "forgotten when the table was full");
    }

    #[test]
    fn learned_labels_are_bounded_and_lapse() {
        let mut labels = Labels::default();
        labels.learn(name(1), Label(7));
        assert_eq!(labels.to(&name(1)), Some(Label(7)));
        for _ in 0..2 {
            assert_eq!(labels.lapse(Label(7)), Some(name(1)));
            assert_eq!(labels.to(&name(1)), None);
        }
        labels.learn(name(1), Label(8));
        assert_eq!(labels.lapse(Label(6)), None);
        assert_eq!(labels.to(&name(1)), Some(Label(8)));
        for n in 0..2 * MAX_LABELS as u32 {
            labels.learn(name(n), Label(n));
            assert!(labels.by_destination.len() <= MAX_LABELS);
            assert!(labels.destinations.len() <= MAX_LABELS + 1);
        }
    }
}
