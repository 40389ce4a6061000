//! Changes on their way to subscribers: each is sent again until it is acknowledged, a few times.
//!
//! 1. [`Pushes::start`] notes that an asker is to hear about a subject; what it hears is looked up when it is sent, so it
//!    is always the newest.
//! 2. [`Pushes::poll`] says what to send now: new ones first come first served, then those that were not acknowledged in
//!    [`REPEAT_AFTER`], up to [`MAX_REPEATS`] times. No more than [`BURST`] in [`BURST_INTERVAL`], so that the end of a
//!    router with a hundred thousand names does not drown those who are told.
//! 3. [`Pushes::acknowledge`] ends one.
//!
//! INVARIANT: there is at most one for each asker and subject, so no more than there are subscriptions.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use rhumb_wire::Name;
use rhumb_wire::rib::RequestId;

#[derive(Default)]
pub(crate) struct Pushes {
    by_target: HashMap<Target, RequestId>,
    by_id: HashMap<RequestId, Push>,
    /// Not sent yet.
    fresh: VecDeque<RequestId>,
    /// Sent, and when to send again.
    repeats: BTreeSet<(Instant, RequestId)>,
    next_id: u32,
    burst_until: Option<Instant>,
    sent_in_burst: usize,
}

/// Who is told about whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    pub(crate) asker: Name,
    pub(crate) subject: Name,
}

struct Push {
    target: Target,
    sent: u32,
    /// When to send again; none before it was sent.
    repeat_at: Option<Instant>,
}

/// What to do about a push that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    Send(RequestId, Target),
    /// It was never acknowledged.
    GivenUp,
}

impl Pushes {
    /// A subject changed, of which an asker is to hear. What was under way about it before is overtaken.
    pub(crate) fn start(&mut self, target: Target) {
        if let Some(id) = self.by_target.get(&target).copied() {
            self.end(id);
        }
        let id = RequestId(self.next_id);
        self.next_id = self.next_id.wrapping_add(1);
        self.by_target.insert(target, id);
        self.by_id.insert(id, Push { target, sent: 0, repeat_at: None });
        self.fresh.push_back(id);
    }

    /// Whether `asker` acknowledges what was sent to it.
    pub(crate) fn acknowledge(&mut self, asker: &Name, id: RequestId) -> bool {
        let is_its = self.by_id.get(&id).is_some_and(|p| p.target.asker == *asker && p.sent > 0);
        if is_its {
            self.end(id);
        }
        is_its
    }

    /// Forgets one that there is no reason to send any more.
    pub(crate) fn end(&mut self, id: RequestId) {
        let Some(push) = self.by_id.remove(&id) else { return };
        self.by_target.remove(&push.target);
        if let Some(repeat_at) = push.repeat_at {
            self.repeats.remove(&(repeat_at, id));
        }
    }

    /// What is due, one at a time.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Due> {
        if self.burst_until.is_none_or(|until| until <= now) {
            self.burst_until = Some(now + BURST_INTERVAL);
            self.sent_in_burst = 0;
        }
        if self.sent_in_burst >= BURST {
            return None;
        }
        let id = self.next_due(now)?;
        let push = self.by_id.get_mut(&id)?;
        if push.sent > MAX_REPEATS {
            self.end(id);
            return Some(Due::GivenUp);
        }
        push.sent += 1;
        push.repeat_at = Some(now + REPEAT_AFTER);
        self.repeats.insert((now + REPEAT_AFTER, id));
        self.sent_in_burst += 1;
        Some(Due::Send(id, push.target))
    }

    /// When [`Pushes::poll`] may have something.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let repeat = self.repeats.first().map(|(at, _)| *at);
        // New ones that are left after a poll wait for the next burst.
        let fresh = self.burst_until.filter(|_| !self.fresh.is_empty());
        let due = repeat.into_iter().chain(fresh).min()?;
        match self.sent_in_burst >= BURST {
            true => self.burst_until.map(|until| until.max(due)),
            false => Some(due),
        }
    }

    fn next_due(&mut self, now: Instant) -> Option<RequestId> {
        if let Some((at, id)) = self.repeats.first().copied().filter(|(at, _)| *at <= now) {
            self.repeats.remove(&(at, id));
            return Some(id);
        }
        loop {
            let id = self.fresh.pop_front()?;
            // It may have been overtaken.
            if self.by_id.get(&id).is_some_and(|push| push.sent == 0) {
                return Some(id);
            }
        }
    }
}

/// Ten times what a busy network takes.
const REPEAT_AFTER: Duration = Duration::from_millis(200);
/// With a tenth of all datagrams lost, one change in a million is not heard of by this; it is found at the next renewal.
const MAX_REPEATS: u32 = 5;
/// With [`BURST_INTERVAL`] 51,200 a second: half a core's worth.
const BURST: usize = 256;
const BURST_INTERVAL: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn target(number: u8) -> Target {
        Target { asker: Name([1; 32]), subject: Name([number; 32]) }
    }

    #[expect(clippy::disallowed_methods, reason = "a test's clock begins somewhere")]
    fn start() -> Instant {
        Instant::now()
    }

    fn sent(pushes: &mut Pushes, now: Instant) -> Vec<(RequestId, Target)> {
        std::iter::from_fn(|| match pushes.poll(now)? {
            Due::Send(id, target) => Some((id, target)),
            Due::GivenUp => None,
        })
        .collect()
    }

    #[test]
    fn it_is_sent_again_five_times_and_then_given_up() {
        let (mut pushes, mut now) = (Pushes::default(), start());
        pushes.start(target(7));
        let first = sent(&mut pushes, now);
        assert_eq!(first.len(), 1);
        for _ in 0..MAX_REPEATS {
            assert_eq!(sent(&mut pushes, now + REPEAT_AFTER - Duration::from_millis(1)), []);
            now += REPEAT_AFTER;
            assert_eq!(pushes.poll_timeout(), Some(now));
            assert_eq!(sent(&mut pushes, now), first);
        }
        assert_eq!(pushes.poll(now + REPEAT_AFTER), Some(Due::GivenUp));
        assert_eq!((pushes.poll_timeout(), pushes.by_id.len()), (None, 0));
        assert!(!pushes.acknowledge(&target(7).asker, first[0].0));
    }

    #[test]
    fn only_who_was_told_acknowledges_and_only_the_newest() {
        let (mut pushes, now) = (Pushes::default(), start());
        pushes.start(target(7));
        assert!(!pushes.acknowledge(&target(7).asker, RequestId(0)), "it was not sent yet");
        let (old, _) = sent(&mut pushes, now)[0];
        pushes.start(target(7));
        let (new, _) = sent(&mut pushes, now)[0];
        assert!(!pushes.acknowledge(&target(7).asker, old));
        assert!(!pushes.acknowledge(&Name([2; 32]), new));
        assert!(pushes.acknowledge(&target(7).asker, new));
        assert_eq!(pushes.poll(now + REPEAT_AFTER), None);
    }

    #[test]
    fn many_are_sent_in_bursts() {
        let (mut pushes, mut now) = (Pushes::default(), start());
        let count = 2 * BURST + 1;
        for number in 0..count {
            let mut subject = Name([0; 32]);
            subject.0[..8].copy_from_slice(&number.to_be_bytes());
            pushes.start(Target { subject, ..target(0) });
        }
        for expected in [BURST, BURST, 1] {
            let now_sent = sent(&mut pushes, now);
            assert_eq!(now_sent.len(), expected);
            for (id, target) in now_sent {
                assert!(pushes.acknowledge(&target.asker, id));
            }
            now += BURST_INTERVAL;
        }
        assert_eq!((pushes.poll_timeout(), pushes.by_target.len()), (None, 0));
    }
}
