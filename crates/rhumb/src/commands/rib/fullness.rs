//! Says once in the log that the store is nearly full, and again when there is room.

use std::time::{Duration, Instant};

use rhumb_rib::{Fill, Held};

/// What was said of how full the store is.
pub(super) struct Fullness {
    look_at: Instant,
    all: Part,
    strangers: Part,
}

struct Part {
    what: &'static str,
    advice: &'static str,
    is_nearly_full: bool,
}

impl Fullness {
    pub(super) fn new(now: Instant) -> Self {
        let part = |what, advice| Part { what, advice, is_nearly_full: false };
        Self {
            look_at: now,
            all: part("the store", "give it more with `disk_mib`, or run another RIB"),
            strangers: part(
                "what strangers may store",
                "name your routers in the rules of access; they have a part of their own",
            ),
        }
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.look_at <= now
    }

    pub(super) fn note(&mut self, fill: &Fill, now: Instant) {
        self.look_at = now + INTERVAL;
        let all = Held {
            names: fill.strangers.names + fill.admitted.names,
            bytes: fill.strangers.bytes + fill.admitted.bytes,
        };
        self.all.note(all, fill.bound);
        self.strangers.note(fill.strangers, fill.strangers_bound);
    }
}

impl Part {
    fn note(&mut self, held: Held, bound: Held) {
        let percent = percent(held, bound);
        if !self.is_nearly_full && percent >= NEARLY_FULL_PERCENT {
            self.is_nearly_full = true;
            tracing::warn!(percent, "{} is nearly full; {}", self.what, self.advice);
        } else if self.is_nearly_full && percent < ROOM_AGAIN_PERCENT {
            self.is_nearly_full = false;
            tracing::info!(percent, "{} has room again", self.what);
        }
    }
}

/// How full something is, by whichever of names and bytes is fuller.
pub(super) fn percent(held: Held, bound: Held) -> u64 {
    let of = |held: u64, bound: u64| held.saturating_mul(100) / bound.max(1);
    of(held.names, bound.names).max(of(held.bytes, bound.bytes))
}

const INTERVAL: Duration = Duration::from_secs(1);
/// A source may then have an eightieth of the whole.
const NEARLY_FULL_PERCENT: u64 = 90;
/// Lower, so that a store at the border is not said to change all the time.
const ROOM_AGAIN_PERCENT: u64 = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fuller_of_both_counts_and_it_is_said_once() {
        let bound = Held { names: 100, bytes: 1000 };
        assert_eq!(percent(Held { names: 50, bytes: 910 }, bound), 91);
        assert_eq!(percent(Held { names: 95, bytes: 0 }, bound), 95);
        assert_eq!(percent(Held { names: 0, bytes: 0 }, Held::default()), 0);
        let mut part = Part { what: "it", advice: "none", is_nearly_full: false };
        for (names, expected) in [(89, false), (90, true), (85, true), (80, true), (79, false)] {
            part.note(Held { names, bytes: 0 }, bound);
            assert_eq!(part.is_nearly_full, expected, "{names}");
        }
    }
}
