//! Lines about what was refused, of which strangers can cause any number: a few a minute are
//! printed, the others are counted.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rhumb_node::{Refusal, Wanted};
use rhumb_wire::Name;
use serde::Serialize;
use serde_json::json;

use super::room::NoRoom;
use crate::output::{Form, bytes_text};

/// Prints what was refused, as long as it is little.
#[derive(Debug)]
pub(super) struct Notices {
    form: Form,
    budget: Mutex<Budget>,
}

/// A file that was refused, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Refused {
    from: Name,
    file: String,
    bytes: u64,
    why: Why,
    /// Others that were refused since the last line, and that no line told of.
    others: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// The rules refuse whoever it was.
    Sender,
    /// There is no room.
    Room(NoRoom),
}

#[derive(Debug, Default)]
struct Budget {
    minute: Option<Instant>,
    said: u32,
    unsaid: u64,
}

impl Notices {
    pub(super) fn new(form: Form) -> Self {
        Self { form, budget: Mutex::default() }
    }

    /// The rules refused somebody. Of pings nothing is said: one goes ahead of every file.
    pub(super) fn refused(&self, Refusal { from, wanted, .. }: Refusal, now: Instant) {
        match wanted {
            Wanted::File { name, length } => self.say(from, &name, length, Why::Sender, now),
            other => tracing::debug!(%from, wanted = ?other, "refused"),
        }
    }

    /// There was no room for a file.
    pub(super) fn no_room(&self, from: Name, name: &str, length: u64, why: NoRoom, now: Instant) {
        self.say(from, name, length, Why::Room(why), now);
    }

    /// Whether there may be a line of the log about something else that strangers can cause.
    pub(super) fn may_warn(&self, now: Instant) -> bool {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner).take(now).is_some()
    }

    fn say(&self, from: Name, file: &str, bytes: u64, why: Why, now: Instant) {
        let others = self.budget.lock().unwrap_or_else(PoisonError::into_inner).take(now);
        if let Some(others) = others {
            self.form.print(&Refused { from, file: file.to_owned(), bytes, why, others });
        }
    }
}

impl Budget {
    /// Whether there may be one more line; if so, how many there were not.
    fn take(&mut self, now: Instant) -> Option<u64> {
        if self.minute.is_none_or(|minute| now >= minute + MINUTE) {
            (self.minute, self.said) = (Some(now), 0);
        }
        if self.said < LINES_A_MINUTE {
            self.said += 1;
            return Some(std::mem::take(&mut self.unsaid));
        }
        self.unsaid += 1;
        None
    }
}

impl Refused {
    fn reason(&self) -> String {
        match self.why {
            Why::Sender => "this name may not send here".to_owned(),
            Why::Room(NoRoom::TooLarge { limit, for_strangers: true }) => format!(
                "larger than {}, which is what strangers may send; give --max-size, or --from NAME",
                bytes_text(limit)
            ),
            Why::Room(NoRoom::TooLarge { limit, for_strangers: false }) => {
                format!("larger than {} (--max-size)", bytes_text(limit))
            }
            Why::Room(NoRoom::DiskFull) => "the disk would have too little left".to_owned(),
        }
    }
}

impl Serialize for Refused {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({
            "refused": self.file,
            "from": self.from.to_string(),
            "bytes": self.bytes,
            "reason": self.reason(),
            "others": self.others,
        })
        .serialize(serializer)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, from, .. } = self;
        write!(f, "refused {file} ({}) from {from}: {}", bytes_text(self.bytes), self.reason())?;
        match self.others {
            0 => Ok(()),
            others => write!(f, " (and {others} more before that)"),
        }
    }
}

/// Enough to see who it is, and nothing that scrolls away what else is there.
const LINES_A_MINUTE: u32 = 5;
const MINUTE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_cannot_flood_a_terminal() {
        let start = Instant::now();
        let mut budget = Budget::default();
        let lines = |budget: &mut Budget, from_s: u64, many: u64| {
            let at = |n: u64| start + Duration::from_secs(from_s) + Duration::from_millis(n);
            (0..many).filter_map(|n| budget.take(at(n))).collect::<Vec<_>>()
        };
        assert_eq!(lines(&mut budget, 0, 10_000), [0; 5]);
        assert!(lines(&mut budget, 59, 10).is_empty());
        assert_eq!(lines(&mut budget, 60, 10), [10_005, 0, 0, 0, 0]);
    }

    #[test]
    fn a_line_says_what_from_whom_and_why() {
        let from = Name([7; 32]);
        let room = NoRoom::TooLarge { limit: 1_000_000_000, for_strangers: true };
        let (file, bytes) = ("film".to_owned(), 2_000_000_000);
        let refused = Refused { from, file, bytes, why: Why::Room(room), others: 3 };
        assert_eq!(
            refused.to_string(),
            format!(
                "refused film (2.0 GB) from {from}: larger than 1.0 GB, which is what strangers may send; give \
                 --max-size, or --from NAME (and 3 more before that)"
            )
        );
        let refused = Refused { why: Why::Sender, others: 0, ..refused };
        assert!(refused.to_string().ends_with("this name may not send here"));
    }
}
