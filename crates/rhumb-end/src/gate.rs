//! Who may begin a connection now. Names cost nothing and a router on the way may lie about them,
//! so there is no bound per name: what strangers may hold and cost in all is bounded, and whoever
//! is chosen by name has places of his own.
//!
//! Beginning costs this end a signature, a key exchange and some 50 KB until it is finished or
//! given up. When several are under way, a stranger has first to return a token (RFC 9000, section
//! 8.1.2), which costs this end nothing it would have to remember: who only sends, gets no further.
//! Who returns it and goes no further gives way to the next: with all that strangers may begin in a
//! second, a handshake has a third of a second, and five when nobody else wants the place.

use std::time::{Duration, Instant};

use crate::DropReason;

/// How many connections others have begun.
#[derive(Debug)]
pub(crate) struct Gate {
    half_open: Count,
    open: Count,
    /// Handshakes that strangers may begin at once.
    allowance: u32,
    refilled_at: Instant,
}

/// Strangers' apart from those chosen by name.
#[derive(Debug, Default, Clone, Copy)]
struct Count {
    strangers: usize,
    chosen: usize,
}

/// What becomes of who wants to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Begin,
    /// He may, in the place of the one of his kind that has been beginning for longest: who returns
    /// a token and never goes on would keep everybody else out.
    BeginInPlace,
    /// He is to come back with a token.
    Retry,
    Drop(DropReason),
}

impl Gate {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            half_open: Count::default(),
            open: Count::default(),
            allowance: BURST,
            refilled_at: now,
        }
    }

    /// `has_token`: he has returned one. Whoever is let in is counted by [`Gate::begun`]. Whether
    /// strangers have all their places is asked once he has shown whether he is one.
    pub(crate) fn answer(&mut self, is_stranger: bool, has_token: bool, now: Instant) -> Answer {
        let half_open = *self.half_open.of(is_stranger);
        // Who was chosen by name may be made up, too: a router lies about names that it knows.
        if half_open >= RETRY_FROM && !has_token {
            return Answer::Retry;
        }
        let begin = match half_open >= MAX_HALF_OPEN {
            true => Answer::BeginInPlace,
            false => Answer::Begin,
        };
        if !is_stranger {
            return begin;
        }
        self.refill(now);
        match self.allowance.checked_sub(1) {
            Some(left) => {
                self.allowance = left;
                begin
            }
            None if has_token => Answer::Drop(DropReason::TooManyHandshakes),
            None => Answer::Retry,
        }
    }

    pub(crate) fn begun(&mut self, is_stranger: bool) {
        *self.half_open.of(is_stranger) += 1;
    }

    /// Whether one more may be connected.
    pub(crate) fn has_room(&self, is_stranger: bool) -> bool {
        match is_stranger {
            true => self.open.strangers < MAX_STRANGERS,
            false => self.open.chosen < MAX_CHOSEN,
        }
    }

    /// The handshake is over, and the connection is there: of one who looked like a stranger at
    /// first, and of one who is.
    pub(crate) fn opened(&mut self, seemed_stranger: bool, is_stranger: bool) {
        *self.half_open.of(seemed_stranger) -= 1;
        *self.open.of(is_stranger) += 1;
    }

    pub(crate) fn ended(&mut self, is_stranger: bool, was_open: bool) {
        let count = if was_open { &mut self.open } else { &mut self.half_open };
        *count.of(is_stranger) -= 1;
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.refilled_at);
        let steps = u32::try_from(passed.as_millis() / STEP.as_millis()).unwrap_or(u32::MAX);
        if steps > 0 {
            self.refilled_at = now;
            self.allowance = self.allowance.saturating_add(steps).min(BURST);
        }
    }
}

impl Count {
    fn of(&mut self, is_stranger: bool) -> &mut usize {
        if is_stranger { &mut self.strangers } else { &mut self.chosen }
    }
}

/// Connections that strangers have begun, at once: with what each may hold, 256 MiB.
pub(crate) const MAX_STRANGERS: usize = 256;
/// Those of names that were chosen.
const MAX_CHOSEN: usize = 1024;
/// How long one that others began may take: three packets of it may be lost.
pub(crate) const BEGINS_WITHIN: Duration = Duration::from_secs(5);
/// Handshakes under way of each kind: some 3 MB.
pub(crate) const MAX_HALF_OPEN: usize = 64;
/// From so many on a token is asked for: programs begin a few at once.
pub(crate) const RETRY_FROM: usize = 16;
/// Strangers' handshakes: 200 a second, some 8 % of a core.
const STEP: Duration = Duration::from_millis(5);
const BURST: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "the first instant")]
    fn gate() -> (Gate, Instant) {
        let now = Instant::now();
        (Gate::new(now), now)
    }

    #[test]
    fn strangers_fill_their_own_places_and_no_others() {
        let (mut gate, now) = gate();
        for n in 0..MAX_HALF_OPEN {
            let without = gate.answer(true, false, now);
            assert_eq!(without, if n < RETRY_FROM { Answer::Begin } else { Answer::Retry });
            // Trying without a token cost one of the allowance in the first case.
            gate.allowance = BURST;
            assert_eq!(gate.answer(true, true, now), Answer::Begin);
            gate.begun(true);
        }
        assert_eq!(gate.answer(true, true, now), Answer::BeginInPlace);
        assert_eq!(gate.answer(true, false, now), Answer::Retry);
        assert_eq!(gate.answer(false, false, now), Answer::Begin);
        gate.ended(true, false);
        gate.allowance = BURST;
        assert_eq!(gate.answer(true, true, now), Answer::Begin);
    }

    #[test]
    fn strangers_cost_so_much_a_second_and_have_so_many() {
        let (mut gate, now) = gate();
        for _ in 0..BURST {
            assert_eq!(gate.answer(true, false, now), Answer::Begin);
        }
        assert_eq!(gate.answer(true, false, now), Answer::Retry);
        assert_eq!(gate.answer(true, true, now), Answer::Drop(DropReason::TooManyHandshakes));
        assert_eq!(gate.answer(true, true, now + STEP), Answer::Begin);
        for _ in 0..MAX_STRANGERS {
            assert!(gate.has_room(true));
            gate.begun(true);
            gate.opened(true, true);
        }
        assert!(!gate.has_room(true) && gate.has_room(false));
        // Who shows that he is none has a place of another kind.
        gate.begun(true);
        gate.opened(true, false);
        assert_eq!((gate.open.strangers, gate.open.chosen), (MAX_STRANGERS, 1));
        gate.ended(false, true);
        assert_eq!(gate.open.chosen, 0);
    }
}
