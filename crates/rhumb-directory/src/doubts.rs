//! Ways that somebody on them says lead nowhere, and when a RIB was last asked about them for that.
//!
//! A source chooses the TTL of its PDUs and who is in its chain, and can so have any router on the
//! way complain. A complaint is therefore a reason to ask, and never one to forget: what others use
//! stays until something verified says otherwise.
//!
//! INVARIANT: about one name a complaint asks no more often than every
//! [`ASK_AGAIN_AFTER`], while it is remembered.

use std::time::{Duration, Instant};

use rhumb_wire::Name;

use crate::table::Table;

pub(crate) struct Doubts {
    /// Until when no further complaint counts.
    asked: Table<Name, Instant>,
}

impl Doubts {
    pub(crate) fn new() -> Self {
        Self { asked: Table::new(MAX_DOUBTS) }
    }

    /// Whether a complaint about the way to a name is to be looked into; noted if so.
    pub(crate) fn is_worth_asking(&mut self, name: Name, now: Instant) -> bool {
        let is_new = self.asked.current(&name, now).is_none();
        if is_new {
            self.asked.insert(name, now + ASK_AGAIN_AFTER);
        }
        is_new
    }
}

/// As long as a source is told to wait before it tries again.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(200);
/// Names in doubt at once. Whoever has more of them doubted only loses
/// this bound, not that of its session's questions.
const MAX_DOUBTS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test's clock begins somewhere")]
    fn a_name_is_asked_about_five_times_a_second_however_often_it_is_doubted() {
        let (start, mut doubts) = (Instant::now(), Doubts::new());
        let name = |number| Name([number; 32]);
        let mut asked = [0; 2];
        for ms in 0..1000 {
            let now = start + Duration::from_millis(ms);
            for number in [0, 1] {
                asked[number] += usize::from(doubts.is_worth_asking(name(number as u8), now));
            }
        }
        assert_eq!(asked, [5, 5]);
    }
}
