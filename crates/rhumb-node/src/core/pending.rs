//! Copies of PDUs that a NACK may still ask for again: the client's half
//! of packet rejection (GDP paper, section 3.3).
//!
//! A PDU comes in as `Unsent`, is `Sent` once, and becomes `Waiting` when a NACK says that it has
//! to be resent later. Silence is success as far as this layer knows: a copy is forgotten
//! [`KEPT_FOR`] after it was sent, or earlier when room is needed. What waits is never forgotten
//! silently: it is sent, or given up after the time configured.
//!
//! INVARIANT: entries are in the order of their tags, the unsent ones are the last `unsent` of
//! them, and their number and bytes never exceed [`MAX_PDUS`] and [`MAX_BYTES`].

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rhumb_wire::Name;
use rhumb_wire::nack::Reason;

use super::jitter::Jitter;

/// The bounded buffer of PDUs that may have to be sent again.
#[derive(Debug)]
pub(super) struct PendingPdus {
    entries: VecDeque<Entry>,
    unsent: usize,
    waiting: usize,
    /// Bytes of all entries.
    bytes: usize,
    /// Bytes of those unsent and waiting, which must not be forgotten.
    held_bytes: usize,
    give_up_after: Duration,
    /// Buffers of forgotten PDUs, for the next ones.
    spare: Vec<Vec<u8>>,
}

/// A PDU as it was taken out of the buffer, without its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Settled {
    pub(super) tag: u32,
    pub(super) to: Name,
    pub(super) kind: PendingKind,
    /// When it was sent last; `None` when it never was.
    pub(super) sent_at: Option<Instant>,
    /// What the last NACK about it said.
    pub(super) reason: Option<Reason>,
}

/// What hangs on a PDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PendingKind {
    /// Data of a program.
    Data,
    /// A ping, whose answer is waited for.
    Ping,
    /// A packet of a connection that is being made.
    Handshake,
}

/// What a NACK did.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing: no such PDU is held.
    Unknown,
    /// The PDU will be sent again.
    Retried(Settled),
    /// The PDU is given up.
    GivenUp(Settled),
}

#[derive(Debug)]
struct Entry {
    tag: u32,
    to: Name,
    kind: PendingKind,
    pdu: Vec<u8>,
    queued_at: Instant,
    state: State,
    nacks: u32,
    reason: Option<Reason>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Unsent,
    Sent { at: Instant },
    Waiting { until: Instant },
}

impl PendingPdus {
    pub(super) fn new(give_up_after: Duration) -> Self {
        Self {
            entries: VecDeque::new(),
            unsent: 0,
            waiting: 0,
            bytes: 0,
            held_bytes: 0,
            give_up_after,
            spare: Vec::new(),
        }
    }

    /// Whether a PDU of `len` bytes can be taken now, perhaps at the cost of copies that were sent.
    pub(super) fn has_room(&self, len: usize) -> bool {
        self.unsent + self.waiting < MAX_PDUS && self.held_bytes + len <= MAX_BYTES
    }

    /// An empty buffer to write the next PDU into.
    pub(super) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes a PDU for sending. The caller has made sure that it [has
    /// room](Self::has_room), and that tags ascend.
    pub(super) fn push(
        &mut self,
        tag: u32,
        to: Name,
        kind: PendingKind,
        pdu: Vec<u8>,
        now: Instant,
    ) {
        self.forget_old(now);
        while self.entries.len() >= MAX_PDUS || self.bytes + pdu.len() > MAX_BYTES {
            let sent = |entry: &Entry| matches!(entry.state, State::Sent { .. });
            let Some(at) = self.entries.iter().position(sent) else { break };
            self.remove(at);
        }
        self.bytes += pdu.len();
        self.held_bytes += pdu.len();
        self.unsent += 1;
        self.entries.push_back(Entry {
            tag,
            to,
            kind,
            pdu,
            queued_at: now,
            state: State::Unsent,
            nacks: 0,
            reason: None,
        });
    }

    /// Hands at most `limit` PDUs whose time has come to `send`: those to be resent first, then new
    /// ones in order. Returns how many.
    pub(super) fn transmit(
        &mut self,
        now: Instant,
        limit: usize,
        mut send: impl FnMut(&[u8]),
    ) -> Transmitted {
        let mut transmitted = Transmitted::default();
        let mut sent_bytes = 0;
        let mut hand_over = |entry: &mut Entry| {
            send(&entry.pdu);
            sent_bytes += entry.pdu.len();
            entry.state = State::Sent { at: now };
        };
        let first_unsent = self.entries.len() - self.unsent;
        if self.waiting > 0 {
            let due = |e: &&mut Entry| matches!(e.state, State::Waiting { until } if until <= now);
            for entry in self.entries.range_mut(..first_unsent).filter(due).take(limit) {
                hand_over(entry);
                transmitted.resent += 1;
            }
        }
        for entry in self.entries.range_mut(first_unsent..).take(limit - transmitted.resent) {
            hand_over(entry);
            transmitted.first += 1;
        }
        self.held_bytes -= sent_bytes;
        self.waiting -= transmitted.resent;
        self.unsent -= transmitted.first;
        transmitted
    }

    /// Acts on a NACK about the PDU of `tag` to `to`.
    pub(super) fn handle_nack(
        &mut self,
        tag: u32,
        to: Name,
        reason: Reason,
        now: Instant,
        jitter: &mut Jitter,
    ) -> Outcome {
        self.forget_old(now);
        let Some(at) = self.position(tag, to) else { return Outcome::Unknown };
        let entry = &mut self.entries[at];
        // A second NACK about one sending, or one about a PDU
        // that was never sent, asks for nothing new.
        let State::Sent { at: sent_at } = entry.state else { return Outcome::Unknown };
        entry.reason = Some(reason);
        let wait = wait_before_resend(reason, entry.nacks);
        let until = wait.map(|wait| now + jitter.lengthen(wait));
        match until.filter(|until| *until < entry.queued_at + self.give_up_after) {
            Some(until) => {
                entry.nacks += 1;
                entry.state = State::Waiting { until };
                self.waiting += 1;
                self.held_bytes += entry.pdu.len();
                Outcome::Retried(Settled { sent_at: Some(sent_at), ..entry.settled() })
            }
            None => Outcome::GivenUp(self.remove(at)),
        }
    }

    /// Takes out the ping of `tag` to `to`, which is answered; says when it was sent last.
    pub(super) fn settle_ping(&mut self, tag: u32, to: Name) -> Option<Instant> {
        let at = self.position(tag, to)?;
        match self.entries[at] {
            Entry { kind: PendingKind::Ping, state: State::Sent { at: sent_at }, .. } => {
                self.remove(at);
                Some(sent_at)
            }
            _ => None,
        }
    }

    /// Takes out one PDU that has not been sent, or not again, within the time configured.
    pub(super) fn poll_given_up(&mut self, now: Instant) -> Option<Settled> {
        if self.next_given_up().is_none_or(|due| due > now) {
            return None;
        }
        let overdue = |entry: &Entry| {
            !matches!(entry.state, State::Sent { .. })
                && entry.queued_at + self.give_up_after <= now
        };
        let at = self.entries.iter().position(overdue)?;
        Some(self.remove(at))
    }

    /// Takes out the data of programs that were sent at `from` or later, as far as copies are still
    /// kept, and wait for no resending.
    pub(super) fn take_data_sent_since(&mut self, from: Instant) -> Vec<Settled> {
        let is_doubtful = |entry: &Entry| {
            entry.kind == PendingKind::Data
                && matches!(entry.state, State::Sent { at } if at >= from)
        };
        let mut taken = Vec::new();
        let mut at = 0;
        while let Some(entry) = self.entries.get(at) {
            if is_doubtful(entry) {
                taken.push(self.remove(at));
            } else {
                at += 1;
            }
        }
        taken
    }

    /// Takes out one PDU longer than `longest` that waits to be sent, or sent again.
    pub(super) fn take_longer_than(&mut self, longest: usize) -> Option<Settled> {
        let is_too_long =
            |entry: &Entry| !matches!(entry.state, State::Sent { .. }) && entry.pdu.len() > longest;
        let at = self.entries.iter().position(is_too_long)?;
        Some(self.remove(at))
    }

    /// When a PDU has to be sent again.
    pub(super) fn next_resend(&self) -> Option<Instant> {
        if self.waiting == 0 {
            return None;
        }
        self.entries
            .range(..self.entries.len() - self.unsent)
            .filter_map(|entry| match entry.state {
                State::Waiting { until } => Some(until),
                _ => None,
            })
            .min()
    }

    /// When a PDU has to be given up unless it is sent.
    pub(super) fn next_given_up(&self) -> Option<Instant> {
        // Nothing unsent is older than the first of them; without
        // waiting ones there is nothing else to look at.
        let range = if self.waiting > 0 { 0 } else { self.entries.len() - self.unsent };
        let entries = self.entries.range(range..);
        entries
            .filter(|entry| !matches!(entry.state, State::Sent { .. }))
            .map(|entry| entry.queued_at + self.give_up_after)
            .min()
    }

    /// PDUs that wait to be sent for the first time.
    pub(super) fn unsent(&self) -> usize {
        self.unsent
    }

    /// Where the PDUs held go, the newest first.
    pub(super) fn newest_destinations(&self) -> impl Iterator<Item = Name> {
        self.entries.iter().rev().map(|entry| entry.to)
    }

    fn position(&self, tag: u32, to: Name) -> Option<usize> {
        let first = self.entries.front()?.tag;
        let at = self
            .entries
            .binary_search_by_key(&tag.wrapping_sub(first), |entry| entry.tag.wrapping_sub(first))
            .ok()?;
        (self.entries[at].to == to).then_some(at)
    }

    /// Forgets the oldest copies while they are past their time.
    fn forget_old(&mut self, now: Instant) {
        while let Some(Entry { state: State::Sent { at }, .. }) = self.entries.front()
            && *at + KEPT_FOR <= now
        {
            self.remove(0);
        }
    }

    fn remove(&mut self, at: usize) -> Settled {
        let mut entry = self.entries.remove(at).expect("invariant: callers pass a position");
        self.bytes -= entry.pdu.len();
        match entry.state {
            State::Unsent => self.unsent -= 1,
            State::Waiting { .. } => self.waiting -= 1,
            State::Sent { .. } => self.held_bytes += entry.pdu.len(),
        }
        self.held_bytes -= entry.pdu.len();
        let settled = entry.settled();
        if self.spare.len() < MAX_SPARE {
            entry.pdu.clear();
            self.spare.push(entry.pdu);
        }
        settled
    }
}

/// How many PDUs were handed over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Transmitted {
    pub(super) first: usize,
    pub(super) resent: usize,
}

impl Entry {
    fn settled(&self) -> Settled {
        let sent_at = match self.state {
            State::Sent { at } => Some(at),
            _ => None,
        };
        Settled { tag: self.tag, to: self.to, kind: self.kind, sent_at, reason: self.reason }
    }
}

/// How long a PDU waits after its `nacks`-th NACK, counted from 0; `None` when waiting is no cure.
fn wait_before_resend(reason: Reason, nacks: u32) -> Option<Duration> {
    let first = match reason {
        Reason::NotYet(_) | Reason::Overloaded(_) | Reason::Unreachable(_) => {
            reason.retry_after()?
        }
        Reason::BadCertificate | Reason::NotAuthorised | Reason::Expired | Reason::NotYetValid => {
            ADVERTISING_TAKES
        }
        // A router renews its capability by itself; if it does not, waiting
        // ends as all waiting does, with this reason.
        Reason::Capability(_) => ADVERTISING_TAKES,
        Reason::UnknownFlow => LEAST_WAIT,
        Reason::TooBig(_) | Reason::TtlExceeded | Reason::Superseded => return None,
    };
    let first = first.max(LEAST_WAIT);
    // A router that says how long a route stays unknown knows better than a doubling does.
    if matches!(reason, Reason::Unreachable(_)) {
        return Some(first);
    }
    // A path is set up hop by hop, and each router knows how long its part
    // takes. Who says so more often is in trouble.
    let doublings = nacks.saturating_sub(HOPS_TO_SET_UP).min(16);
    Some((first * 2u32.saturating_pow(doublings)).min(MAX_WAIT.max(first)))
}

/// Copies held at most: what a router can have to say about, several
/// round trips' worth of a program's datagrams.
pub(super) const MAX_PDUS: usize = 1024;
/// Bytes held at most: reached first by datagrams of 2 KB and more.
pub(super) const MAX_BYTES: usize = 2 << 20;
/// How long a copy is kept after sending: longer than the
/// round trip of any path that people would use.
pub(super) const KEPT_FOR: Duration = Duration::from_secs(3);
/// A router tells what it knows of the wait; one that asks for less would make the node a flood.
const LEAST_WAIT: Duration = Duration::from_millis(1);
/// Repeated NACKs do not stretch the wait beyond this, so that a path that returns is found soon.
const MAX_WAIT: Duration = Duration::from_secs(2);
/// A path has at most 8 routers, and each may say "not yet" once for
/// what it looks up and once for what it presents.
const HOPS_TO_SET_UP: u32 = 16;
/// A round trip to the router and the verification of a signature, with room to spare.
const ADVERTISING_TAKES: Duration = Duration::from_millis(100);
/// Buffers kept for reuse.
const MAX_SPARE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TO: Name = Name([1; 32]);
    const GIVE_UP: Duration = Duration::from_secs(5);

    fn sent(now: Instant, pdus: u32) -> PendingPdus {
        let mut pending = PendingPdus::new(GIVE_UP);
        for tag in 0..pdus {
            pending.push(tag.wrapping_sub(2), TO, PendingKind::Ping, vec![tag as u8; 100], now);
        }
        let transmitted = pending.transmit(now, usize::MAX, |_| {});
        assert_eq!(transmitted, Transmitted { first: pdus as usize, resent: 0 });
        pending
    }

    #[test]
    fn tags_are_found_across_their_wrap() {
        let now = Instant::now();
        let mut pending = sent(now, 4);
        for tag in [0, u32::MAX, 1, u32::MAX - 1] {
            assert_eq!(pending.settle_ping(tag, Name([2; 32])), None);
            assert_eq!(pending.settle_ping(tag, TO), Some(now));
            assert_eq!(pending.settle_ping(tag, TO), None);
        }
        assert_eq!((pending.entries.len(), pending.bytes), (0, 0));
    }

    #[test]
    fn waits_double_and_end_in_giving_up() {
        let start = Instant::now();
        let (mut pending, mut jitter) = (sent(start, 1), Jitter::new(1));
        let tag = 0u32.wrapping_sub(2);
        let mut now = start;
        let mut waits = Vec::new();
        loop {
            match pending.handle_nack(tag, TO, Reason::NotYet(50), now, &mut jitter) {
                Outcome::Retried(_) => {
                    let due = pending.next_resend().unwrap();
                    let early = due - Duration::from_nanos(1);
                    assert_eq!(pending.transmit(early, 9, |_| {}).resent, 0);
                    waits.push(due - now);
                    now = due;
                    assert_eq!(pending.transmit(now, 9, |_| {}).resent, 1);
                }
                Outcome::GivenUp(settled) => {
                    assert_eq!(settled.reason, Some(Reason::NotYet(50)));
                    break;
                }
                Outcome::Unknown => panic!("the PDU is held"),
            }
        }
        assert!(now < start + GIVE_UP);
        assert!(waits.len() >= 5, "{waits:?}");
        // As stated while a path may be being set up, and doubled from then on.
        let (stated, doubled) = waits.split_at(HOPS_TO_SET_UP as usize + 1);
        assert!(stated.iter().all(|wait| *wait < Duration::from_millis(100)), "{waits:?}");
        assert!(doubled.windows(2).all(|pair| pair[1] > pair[0] * 3 / 2), "{waits:?}");
        assert_eq!(pending.entries.len(), 0);
    }

    #[test]
    fn what_was_sent_since_is_taken_out_and_nothing_else() {
        let start = Instant::now();
        let (mut pending, ms) = (PendingPdus::new(GIVE_UP), Duration::from_millis(1));
        for tag in 0..10 {
            let kind = if tag == 8 { PendingKind::Ping } else { PendingKind::Data };
            pending.push(tag, TO, kind, vec![0; 100], start);
            pending.transmit(start + tag * ms, 1, |_| {});
        }
        let mut jitter = Jitter::new(1);
        pending.handle_nack(7, TO, Reason::NotYet(50), start + 10 * ms, &mut jitter);
        pending.push(10, TO, PendingKind::Data, vec![0; 100], start);
        let taken = pending.take_data_sent_since(start + 5 * ms);
        assert_eq!(taken.iter().map(|settled| settled.tag).collect::<Vec<_>>(), [5, 6, 9]);
        assert_eq!((pending.entries.len(), pending.unsent, pending.waiting), (8, 1, 1));
        assert_eq!((pending.bytes, pending.held_bytes), (800, 200));
        assert_eq!(pending.take_data_sent_since(start + 5 * ms), []);
    }

    #[test]
    fn a_second_nack_about_one_sending_changes_nothing() {
        let now = Instant::now();
        let (mut pending, mut jitter) = (sent(now, 1), Jitter::new(1));
        let tag = 0u32.wrapping_sub(2);
        let first = pending.handle_nack(tag, TO, Reason::NotYet(50), now, &mut jitter);
        assert!(matches!(first, Outcome::Retried(_)));
        let due = pending.next_resend();
        for reason in [Reason::TooBig(1), Reason::NotYet(1000), Reason::TtlExceeded] {
            let again = pending.handle_nack(tag, TO, reason, now, &mut jitter);
            assert_eq!(again, Outcome::Unknown);
        }
        assert_eq!(pending.next_resend(), due);
    }

    #[test]
    fn a_copy_is_kept_for_its_time_and_no_longer() {
        let now = Instant::now();
        let mut jitter = Jitter::new(1);
        let tag = 0u32.wrapping_sub(2);
        for (after, held) in [(KEPT_FOR - Duration::from_nanos(1), true), (KEPT_FOR, false)] {
            let outcome =
                sent(now, 1).handle_nack(tag, TO, Reason::NotYet(1), now + after, &mut jitter);
            assert_eq!(matches!(outcome, Outcome::Retried(_)), held);
        }
    }

    #[test]
    fn what_is_not_sent_in_time_is_given_up() {
        let now = Instant::now();
        let mut pending = PendingPdus::new(GIVE_UP);
        pending.push(7, TO, PendingKind::Data, vec![0; 10], now);
        assert_eq!(pending.next_given_up(), Some(now + GIVE_UP));
        assert_eq!(pending.poll_given_up(now + GIVE_UP - Duration::from_nanos(1)), None);
        let settled = pending.poll_given_up(now + GIVE_UP).unwrap();
        assert_eq!((settled.tag, settled.sent_at), (7, None));
        assert_eq!((pending.entries.len(), pending.unsent()), (0, 0));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Push(usize),
        Transmit(usize),
        Nack(u32, u16),
        Settle(u32),
        GiveUp,
        Wait(u16),
    }

    fn any_step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (1..60_000usize).prop_map(Step::Push),
            4 => (0..80usize).prop_map(Step::Transmit),
            4 => (0..64u32, 0..3000u16).prop_map(|(back, ms)| Step::Nack(back, ms)),
            1 => (0..64u32).prop_map(Step::Settle),
            1 => Just(Step::GiveUp),
            1 => (0..4000u16).prop_map(Step::Wait),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn bounds_and_counts_hold_whatever_happens(steps in prop::collection::vec(any_step(), 1..400)) {
            let (mut now, mut tag) = (Instant::now(), u32::MAX - 20);
            let mut pending = PendingPdus::new(GIVE_UP);
            let mut jitter = Jitter::new(1);
            for step in steps {
                match step {
                    Step::Push(len) => if pending.has_room(len) {
                        tag = tag.wrapping_add(1);
                        pending.push(tag, TO, PendingKind::Ping, vec![0; len], now);
                        prop_assert!(pending.position(tag, TO).is_some());
                    },
                    Step::Transmit(limit) => {
                        let mut handed = 0;
                        let transmitted = pending.transmit(now, limit, |_| handed += 1);
                        prop_assert_eq!(transmitted.first + transmitted.resent, handed);
                        prop_assert!(handed <= limit);
                    }
                    Step::Nack(back, ms) => {
                        let tag = tag.wrapping_sub(back);
                        pending.handle_nack(tag, TO, Reason::NotYet(ms), now, &mut jitter);
                    }
                    Step::Settle(back) => { pending.settle_ping(tag.wrapping_sub(back), TO); }
                    Step::GiveUp => while pending.poll_given_up(now).is_some() {},
                    Step::Wait(ms) => now += Duration::from_millis(ms.into()),
                }
                let entries = &pending.entries;
                prop_assert!(entries.len() <= MAX_PDUS && pending.bytes <= MAX_BYTES);
                prop_assert_eq!(pending.bytes, entries.iter().map(|e| e.pdu.len()).sum::<usize>());
                let held = || entries.iter().filter(|e| !matches!(e.state, State::Sent { .. }));
                prop_assert_eq!(pending.held_bytes, held().map(|e| e.pdu.len()).sum::<usize>());
                prop_assert_eq!(pending.unsent + pending.waiting, held().count());
                prop_assert!(entries.range(entries.len() - pending.unsent..).all(|e| e.state == State::Unsent));
                prop_assert!(entries.range(..entries.len() - pending.unsent).all(|e| e.state != State::Unsent));
            }
        }
    }
}
