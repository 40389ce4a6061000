//! The end of a transfer. Who ends it says so until the other end has repeated it; who
//! is told repeats it once for each time it is told. So both ends know, whichever
//! datagram is lost, and no answer is ever answered.

use std::time::{Duration, Instant};

use rhumb_wire::transfer::{CancelReason, MessageBody, Verdict};

/// What ends a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastWord {
    Finished(Verdict),
    Cancel(CancelReason),
}

impl LastWord {
    pub(super) fn body(self) -> MessageBody<'static> {
        match self {
            Self::Finished(verdict) => MessageBody::Finished(verdict),
            Self::Cancel(reason) => MessageBody::Cancel(reason),
        }
    }
}

/// One end's part in the end of a transfer.
#[derive(Debug)]
pub(super) struct Farewell {
    word: LastWord,
    /// A message of the other end is to be answered.
    owed: bool,
    /// When to say it again unasked; only for who ended the transfer, and only a few times.
    repeat_at: Option<Instant>,
    repeated: u32,
    /// How often it was said again because a router on the way had it not carried.
    nacked: u32,
}

impl Farewell {
    /// This end ends the transfer.
    pub(super) fn say(word: LastWord, now: Instant) -> Self {
        Self { word, owed: false, repeat_at: Some(now), repeated: 0, nacked: 0 }
    }

    /// The other end has ended it.
    pub(super) fn repeat(word: LastWord) -> Self {
        Self { word, owed: true, repeat_at: None, repeated: 0, nacked: 0 }
    }

    /// A message of the other end came.
    pub(super) fn handle(&mut self, body: &MessageBody<'_>) {
        let is_last_word = matches!(body, MessageBody::Finished(_) | MessageBody::Cancel(_));
        match (self.repeat_at.is_some(), is_last_word) {
            (true, true) => {
                self.repeat_at = None;
                // Both ended it at once: the other end has still to hear ours.
                self.owed = self.repeated == 0;
            }
            // The other end has not heard it yet.
            (true, false) => self.owed = true,
            (false, true) => self.owed = self.repeated == 0,
            (false, false) => {}
        }
    }

    /// A router on the way did not carry it, and does so after a while, perhaps: that was none of
    /// the times. A way that is not known yet takes a few such steps.
    pub(super) fn handle_nack(&mut self, wait: Duration, now: Instant) {
        if let Some(at) = self.repeat_at.as_mut().filter(|_| self.nacked < MOST_NACKED) {
            *at = (*at).min(now + wait);
            self.repeated = self.repeated.saturating_sub(1);
            self.nacked += 1;
        }
    }

    /// What to send now; at most one message per call.
    pub(super) fn poll_transmit(&mut self, now: Instant) -> Option<LastWord> {
        let due = self.repeat_at.is_some_and(|at| at <= now);
        if due {
            self.repeat_at =
                (self.repeated < REPEATS).then(|| now + FIRST_PAUSE * (1 << self.repeated));
            self.repeated += 1;
        }
        (std::mem::take(&mut self.owed) || due).then_some(self.word)
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.repeat_at
    }

    pub(super) fn is_over(&self) -> bool {
        !self.owed && self.repeat_at.is_none()
    }
}

/// Spread over 6.3 s, so that an interruption of seconds is survived.
const REPEATS: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Routers of several domains, each of which asks for keys and ways in turn.
const MOST_NACKED: u32 = 50;

#[cfg(test)]
mod tests {
    use super::*;

    const WORD: LastWord = LastWord::Finished(Verdict::Intact);

    #[test]
    fn what_a_router_did_not_carry_was_not_said_and_is_said_when_the_router_says_so() {
        let mut now = Instant::now();
        let mut said = Farewell::say(WORD, now);
        for _ in 0..MOST_NACKED {
            assert_eq!(said.poll_transmit(now), Some(WORD));
            said.handle_nack(Duration::from_millis(10), now);
            assert_eq!(said.poll_transmit(now), None);
            now += Duration::from_millis(10);
        }
        // Then as if nobody had said anything, as often as ever.
        let mut times = 0;
        while let Some(at) = said.poll_timeout() {
            times += u32::from(said.poll_transmit(at).is_some());
            said.handle_nack(Duration::from_millis(10), at);
        }
        assert_eq!(times, 1 + REPEATS);
    }

    #[test]
    fn is_said_until_repeated() {
        let start = Instant::now();
        let mut said = Farewell::say(WORD, start);
        assert_eq!(said.poll_transmit(start), Some(WORD));
        assert_eq!(said.poll_transmit(start), None);
        said.handle(&MessageBody::Accept { window: 0 });
        assert_eq!(said.poll_transmit(start), Some(WORD), "who still talks has not heard it");
        assert!(!said.is_over());
        said.handle(&WORD.body());
        assert!(said.is_over());
        assert_eq!(said.poll_timeout(), None);
    }

    #[test]
    fn is_given_up_after_a_while() {
        let start = Instant::now();
        let mut said = Farewell::say(WORD, start);
        let (mut now, mut count) = (start, 0);
        while let Some(at) = said.poll_timeout() {
            now = at;
            count += u32::from(said.poll_transmit(now).is_some());
        }
        assert_eq!(count, REPEATS + 1);
        assert_eq!(now - start, FIRST_PAUSE * ((1 << REPEATS) - 1));
        assert!(said.is_over());
        said.handle(&MessageBody::Accept { window: 0 });
        assert_eq!(said.poll_transmit(now), None);
    }

    #[test]
    fn is_repeated_once_for_each_time_it_is_told() {
        let now = Instant::now();
        let mut told = Farewell::repeat(WORD);
        assert_eq!(told.poll_transmit(now), Some(WORD));
        assert!(told.is_over());
        told.handle(&MessageBody::Accept { window: 0 });
        assert_eq!(told.poll_transmit(now), None);
        told.handle(&WORD.body());
        assert_eq!(told.poll_transmit(now), Some(WORD));
    }

    #[test]
    fn two_ends_that_both_end_it_fall_silent() {
        let now = Instant::now();
        let (mut a, mut b) = (Farewell::say(WORD, now), Farewell::say(WORD, now));
        a.poll_transmit(now);
        b.poll_transmit(now);
        a.handle(&WORD.body());
        b.handle(&WORD.body());
        assert!(a.is_over() && b.is_over());
    }

    #[test]
    fn who_is_told_before_it_could_say_its_own_still_answers() {
        let now = Instant::now();
        let mut late = Farewell::say(WORD, now);
        late.handle(&WORD.body());
        assert_eq!(late.poll_transmit(now), Some(WORD));
        assert_eq!(late.poll_transmit(now), None);
        assert!(late.is_over());
    }
}
