//! Changes on their way to subscribers: each is sent again until it is acknowledged, a few times.
//!
//! 1. [`Pushes::start`] notes that an asker is to hear about a subject; what it hears is looked up
//!    when it is sent, so it is always the newest.
//! 2. [`Pushes::poll`] says what to send now: first those that were never sent, payer by payer
//!    in turns, then those that were not acknowledged in [`REPEAT_AFTER`], up to
//!    [`MAX_REPEATS`] times. No more than [`BURST`] in [`BURST_INTERVAL`], of which
//!    [`REPEATS`] are left for repetitions, so that the end of a router with a hundred
//!    thousand names does not drown those who are told.
//! 3. [`Pushes::acknowledge`] ends one.
//!
//! Of each payer no more are under way than its window: one more for each acknowledgement, half as
//! many for each that was given up, or overtaken after it was repeated. So whoever is silent, in
//! however many sessions of one source, is soon sent one change at a time.
//!
//! INVARIANT: there is at most one for each asker and
//! subject, so no more than there are subscriptions.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use rhumb_wire::Name;
use rhumb_wire::rib::RequestId;

use crate::fair::FairQueue;
use crate::generations::Generations;
use crate::share::Payer;

pub(crate) struct Pushes {
    by_target: HashMap<Target, RequestId>,
    by_id: HashMap<RequestId, Push>,
    /// Not sent yet.
    fresh: FairQueue<RequestId>,
    /// Sent, and when to send again.
    repeats: BTreeSet<(Instant, RequestId)>,
    windows: Generations<Payer, Window>,
    next_id: u32,
    burst_until: Option<Instant>,
    sent_in_burst: usize,
    repeated_in_burst: usize,
}

/// Who is told about whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    pub(crate) asker: Name,
    pub(crate) subject: Name,
}

struct Push {
    target: Target,
    payer: Payer,
    sent: u32,
    /// When to send again; none before it was sent.
    repeat_at: Option<Instant>,
}

/// How many may be under way to a payer, and are.
#[derive(Debug, Clone, Copy)]
struct Window {
    size: u32,
    under_way: u32,
}

/// What to do about a push that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    Send(RequestId, Target),
    /// It was never acknowledged.
    GivenUp,
}

impl Default for Pushes {
    fn default() -> Self {
        Self {
            by_target: HashMap::new(),
            by_id: HashMap::new(),
            fresh: FairQueue::default(),
            repeats: BTreeSet::new(),
            windows: Generations::new(WINDOWS),
            next_id: 0,
            burst_until: None,
            sent_in_burst: 0,
            repeated_in_burst: 0,
        }
    }
}

impl Pushes {
    /// A subject changed, of which an asker is to hear. What
    /// was under way about it before is overtaken.
    pub(crate) fn start(&mut self, target: Target, payer: Payer) {
        if let Some(id) = self.by_target.get(&target).copied() {
            self.overtake(id);
        }
        let id = RequestId(self.next_id);
        self.next_id = self.next_id.wrapping_add(1);
        self.by_target.insert(target, id);
        self.by_id.insert(id, Push { target, payer, sent: 0, repeat_at: None });
        self.fresh.push(payer, target.asker, id);
    }

    /// Ends one that a newer one takes the place of. It was not acknowledged, and so it counts as
    /// that: a little if it was sent just now, as given up if it had to be repeated.
    fn overtake(&mut self, id: RequestId) {
        let unanswered = self.by_id.get(&id).map(|push| (push.payer, push.sent));
        self.end(id);
        let Some((payer, sent)) = unanswered.filter(|(_, sent)| *sent > 0) else { return };
        let window = self.window(payer);
        window.size = (if sent > 1 { window.size / 2 } else { window.size - 1 }).max(1);
    }

    /// Whether `asker` acknowledges what was sent to it.
    pub(crate) fn acknowledge(&mut self, asker: &Name, id: RequestId) -> bool {
        let Some(push) = self.by_id.get(&id) else { return false };
        if push.target.asker != *asker || push.sent == 0 {
            return false;
        }
        let payer = push.payer;
        self.end(id);
        let window = self.window(payer);
        window.size = (window.size + 1).min(MAX_WINDOW);
        true
    }

    /// Forgets one that there is no reason to send any more.
    pub(crate) fn end(&mut self, id: RequestId) {
        let Some(push) = self.by_id.remove(&id) else { return };
        self.by_target.remove(&push.target);
        if let Some(repeat_at) = push.repeat_at {
            self.repeats.remove(&(repeat_at, id));
        }
        if push.sent > 0 {
            let window = self.window(push.payer);
            window.under_way = window.under_way.saturating_sub(1);
            self.fresh.call_back(&push.payer);
        }
    }

    /// What is to be said of one is not at hand yet, but will be.
    pub(crate) fn hurry(&mut self, id: RequestId, now: Instant) {
        let Some(push) = self.by_id.get_mut(&id) else { return };
        if let Some(repeat_at) = push.repeat_at.replace(now + HURRY) {
            self.repeats.remove(&(repeat_at, id));
        }
        self.repeats.insert((now + HURRY, id));
    }

    /// What is due, one at a time.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Due> {
        if self.burst_until.is_none_or(|until| until <= now) {
            self.burst_until = Some(now + BURST_INTERVAL);
            (self.sent_in_burst, self.repeated_in_burst) = (0, 0);
        }
        let id = match self.next_fresh() {
            Some(id) => id,
            None => self.next_repeat(now)?,
        };
        let push = self.by_id.get_mut(&id)?;
        let payer = push.payer;
        if push.sent > MAX_REPEATS {
            push.repeat_at = None;
            self.end(id);
            let window = self.window(payer);
            window.size = (window.size / 2).max(1);
            return Some(Due::GivenUp);
        }
        let is_first = push.sent == 0;
        push.sent += 1;
        push.repeat_at = Some(now + REPEAT_AFTER);
        let target = push.target;
        self.repeats.insert((now + REPEAT_AFTER, id));
        match is_first {
            true => self.window(payer).under_way += 1,
            false => self.repeated_in_burst += 1,
        }
        self.sent_in_burst += 1;
        Some(Due::Send(id, target))
    }

    /// When [`Pushes::poll`] may have something.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let burst = self.burst_until;
        // New ones that are left after a poll wait for the next burst, or for their payer's window.
        let fresh = burst.filter(|_| self.fresh.is_ready());
        let repeat = self.repeats.first().map(|(at, _)| match self.repeated_in_burst >= REPEATS {
            true => burst.map_or(*at, |until| until.max(*at)),
            false => *at,
        });
        let due = repeat.into_iter().chain(fresh).min()?;
        match self.sent_in_burst >= BURST {
            true => burst.map(|until| until.max(due)),
            false => Some(due),
        }
    }

    /// The next that was never sent, of a payer whose window has room.
    fn next_fresh(&mut self) -> Option<RequestId> {
        if self.sent_in_burst - self.repeated_in_burst >= BURST - REPEATS {
            return None;
        }
        while let Some(payer) = self.fresh.next() {
            let window = *self.window(payer);
            if window.under_way >= window.size {
                self.fresh.park_next();
                continue;
            }
            let (_, id) = self.fresh.pop()?;
            // It may have been overtaken.
            if self.by_id.get(&id).is_some_and(|push| push.sent == 0) {
                return Some(id);
            }
        }
        None
    }

    fn next_repeat(&mut self, now: Instant) -> Option<RequestId> {
        if self.repeated_in_burst >= REPEATS {
            return None;
        }
        let (at, id) = self.repeats.first().copied().filter(|(at, _)| *at <= now)?;
        self.repeats.remove(&(at, id));
        Some(id)
    }

    fn window(&mut self, payer: Payer) -> &mut Window {
        let size = match payer {
            Payer::Admitted(_) => ADMITTED_WINDOW,
            Payer::Stranger(_) => STRANGERS_WINDOW,
        };
        self.windows.value_or_insert(&payer, || Window { size, under_way: 0 })
    }
}

/// Ten times what a busy network takes.
const REPEAT_AFTER: Duration = Duration::from_millis(200);
/// A few times what a store elsewhere takes to be read.
const HURRY: Duration = Duration::from_millis(10);
/// With a tenth of all datagrams lost, one change in a million is not heard
/// of by this; it is found at the next renewal.
const MAX_REPEATS: u32 = 5;
/// With [`BURST_INTERVAL`] 51,200 a second: half a core's worth.
const BURST: usize = 256;
/// An eighth of a burst is kept for repetitions, and they have no more: 6,400 a second.
const REPEATS: usize = BURST / 8;
const BURST_INTERVAL: Duration = Duration::from_millis(5);
/// Under way to an admitted router before it acknowledged anything.
const ADMITTED_WINDOW: u32 = 256;
/// Under way to all strangers of a source before any of them acknowledged anything.
const STRANGERS_WINDOW: u32 = 16;
/// At a round trip of 20 ms 200,000 changes a second.
const MAX_WINDOW: u32 = 4096;
/// Payers whose windows are remembered: about 1 MB.
const WINDOWS: usize = 1 << 14;

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_link::Source;

    const ROUTER: Payer = Payer::Admitted(Name([1; 32]));
    const STRANGER: Payer = Payer::Stranger(Source::V4([192, 0, 2, 1]));

    fn target(number: u8) -> Target {
        Target { asker: Name([1; 32]), subject: Name([number; 32]) }
    }

    fn numbered(asker: u8, number: usize) -> Target {
        let mut subject = Name([0; 32]);
        subject.0[..8].copy_from_slice(&number.to_be_bytes());
        Target { asker: Name([asker; 32]), subject }
    }

    #[expect(clippy::disallowed_methods, reason = "a test's clock begins somewhere")]
    fn start() -> Instant {
        Instant::now()
    }

    fn sent(pushes: &mut Pushes, now: Instant) -> Vec<(RequestId, Target)> {
        std::iter::from_fn(|| {
            loop {
                match pushes.poll(now)? {
                    Due::Send(id, target) => return Some((id, target)),
                    Due::GivenUp => {}
                }
            }
        })
        .collect()
    }

    #[test]
    fn it_is_sent_again_five_times_and_then_given_up() {
        let (mut pushes, mut now) = (Pushes::default(), start());
        pushes.start(target(7), ROUTER);
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
        pushes.start(target(7), ROUTER);
        assert!(!pushes.acknowledge(&target(7).asker, RequestId(0)), "it was not sent yet");
        let (old, _) = sent(&mut pushes, now)[0];
        pushes.start(target(7), ROUTER);
        let (new, _) = sent(&mut pushes, now)[0];
        assert!(!pushes.acknowledge(&target(7).asker, old));
        assert!(!pushes.acknowledge(&Name([2; 32]), new));
        assert!(pushes.acknowledge(&target(7).asker, new));
        assert_eq!(pushes.poll(now + REPEAT_AFTER), None);
    }

    #[test]
    fn many_are_sent_in_bursts() {
        let (mut pushes, mut now) = (Pushes::default(), start());
        let count = 2 * (BURST - REPEATS) + 1;
        for number in 0..count {
            pushes.start(numbered(1, number), ROUTER);
        }
        for expected in [BURST - REPEATS, BURST - REPEATS, 1] {
            let now_sent = sent(&mut pushes, now);
            assert_eq!(now_sent.len(), expected);
            for (id, target) in now_sent {
                assert!(pushes.acknowledge(&target.asker, id));
            }
            now += BURST_INTERVAL;
        }
        assert_eq!((pushes.poll_timeout(), pushes.by_target.len()), (None, 0));
    }

    #[test]
    fn whoever_is_silent_is_sent_little_and_holds_up_nobody() {
        let (mut pushes, mut now) = (Pushes::default(), start());
        // Three hundred sessions of one source, each of which is to hear of two hundred names.
        for asker in 2..=255 {
            for number in 0..200 {
                pushes.start(numbered(asker, number), STRANGER);
            }
        }
        let mut to_stranger = 0;
        for round in 0..12_000 {
            let honest = numbered(1, round);
            pushes.start(honest, ROUTER);
            let now_sent = sent(&mut pushes, now);
            let (id, _) = *now_sent.iter().find(|(_, target)| *target == honest).unwrap();
            assert!(pushes.acknowledge(&honest.asker, id), "it was told in the same round");
            to_stranger += now_sent.len() - 1;
            now += Duration::from_millis(5);
        }
        // In a minute: what the first window let out, and then one in 1.2 s, each six times.
        let bound = (16 + 8 + 4 + 2 + 50) * 6;
        assert!(to_stranger <= bound, "{to_stranger}");
        // Once it acknowledges, it is told everything.
        for _ in 0..20_000 {
            for (id, target) in sent(&mut pushes, now) {
                assert!(pushes.acknowledge(&target.asker, id));
            }
            now += Duration::from_millis(5);
        }
        assert_eq!((pushes.by_id.len(), pushes.fresh.len()), (0, 0));
    }
}
