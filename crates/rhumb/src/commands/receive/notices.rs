//! Lines about what was refused, of which strangers can cause any number: a few a minute are
//! printed, the others are counted. The last ones stand in status.
//!
//! A line about a file is said for each file. One about whoever the rules refuse is said once for
//! each name, as long as that name is remembered, and takes no line from files. Lines have names in
//! them, so they are output: the log has no name of another at `info`.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rhumb_daemon::output::bytes_text;
use rhumb_node::{Refusal, Wanted};
use rhumb_wire::Name;
use serde::Serialize;
use serde_json::{Value, json};

use super::output::Teller;
use super::room::NoRoom;

/// Prints what was refused, as long as it is little.
#[derive(Debug)]
pub(super) struct Notices {
    teller: Teller,
    /// Lines about files, and what fails with them.
    files: Mutex<Budget>,
    /// Lines about whoever the rules refuse.
    others: Mutex<Budget>,
    remembered: Mutex<Remembered>,
}

/// What was refused, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Refused {
    from: Name,
    what: What,
    /// Others that were refused since the last line, and that no line told of.
    others: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    /// Something of whoever the rules refuse.
    Sender(Wanted),
    /// A file for which there is no room.
    File { name: String, length: u64, why: NoRoom },
}

#[derive(Debug, Default)]
struct Budget {
    minute: Option<Instant>,
    said: u32,
    unsaid: u64,
}

impl Notices {
    pub(super) fn new(teller: Teller) -> Self {
        Self {
            teller,
            files: Mutex::default(),
            others: Mutex::default(),
            remembered: Mutex::default(),
        }
    }

    /// The rules refused somebody.
    pub(super) fn refused(&self, Refusal { from, wanted, .. }: Refusal, now: Instant) {
        self.say(from, What::Sender(wanted), now);
    }

    /// There was no room for a file.
    pub(super) fn no_room(&self, from: Name, name: &str, length: u64, why: NoRoom, now: Instant) {
        self.say(from, What::File { name: name.to_owned(), length, why }, now);
    }

    /// Whether there may be a line of the log about something else that strangers can cause.
    pub(super) fn may_warn(&self, now: Instant) -> bool {
        locked(&self.files).take(now).is_some()
    }

    /// What was refused last, by whom it came from and of what kind it was.
    pub(super) fn status(&self, now: Instant) -> Value {
        locked(&self.remembered).status(now)
    }

    fn say(&self, from: Name, what: What, now: Instant) {
        let others = {
            let mut remembered = locked(&self.remembered);
            let entry = remembered.note(from, kind(&what), now);
            let others = match what {
                What::File { .. } => locked(&self.files).take(now),
                _ if entry.is_said => None,
                _ => locked(&self.others).take(now),
            };
            entry.is_said |= others.is_some();
            others
        };
        if let Some(others) = others {
            self.teller.print(&Refused { from, what, others });
        }
    }
}

/// Who was refused last.
#[derive(Debug, Default)]
struct Remembered(VecDeque<Entry>);

#[derive(Debug)]
struct Entry {
    from: Name,
    kind: &'static str,
    times: u64,
    last: Instant,
    /// Whether a line was printed about it.
    is_said: bool,
}

impl Remembered {
    fn note(&mut self, from: Name, kind: &'static str, now: Instant) -> &mut Entry {
        let at = self.0.iter().position(|it| it.from == from && it.kind == kind);
        let mut entry = at.and_then(|at| self.0.remove(at)).unwrap_or(Entry {
            from,
            kind,
            times: 0,
            last: now,
            is_said: false,
        });
        entry.times += 1;
        entry.last = now;
        self.0.truncate(REMEMBERED - 1);
        self.0.push_front(entry);
        &mut self.0[0]
    }

    fn status(&self, now: Instant) -> Value {
        let entry = |it: &Entry| {
            json!({
                "name": it.from.to_string(),
                "wanted": it.kind,
                "age_s": now.saturating_duration_since(it.last).as_secs(),
                "times": it.times,
            })
        };
        self.0.iter().map(entry).collect()
    }
}

fn kind(what: &What) -> &'static str {
    match what {
        What::File { .. } => "file",
        What::Sender(Wanted::Datagram { .. }) => "datagram",
        What::Sender(Wanted::Connection { .. }) => "connection",
        What::Sender(_) => "ping",
    }
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
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
        let why = match self.what {
            What::Sender(_) => return "this name may not send here".to_owned(),
            What::File { why, .. } => why,
        };
        match why {
            NoRoom::TooLarge { limit, for_strangers: true } => format!(
                "larger than {}, which is what strangers may send; give --max-size, or --from NAME",
                bytes_text(limit)
            ),
            NoRoom::TooLarge { limit, for_strangers: false } => {
                format!("larger than {} (--max-size)", bytes_text(limit))
            }
            NoRoom::DiskFull => "the disk would have too little left".to_owned(),
            NoRoom::IsFolder => {
                "a folder, which standard output cannot take; receive it without --stdout"
                    .to_owned()
            }
        }
    }
}

impl Serialize for Refused {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = json!({
            "refused": kind(&self.what),
            "wanted": kind(&self.what),
            "from": self.from.to_string(),
            "reason": self.reason(),
            "others": self.others,
        });
        match &self.what {
            What::File { name, length, .. } => {
                object["refused"] = json!(name);
                object["bytes"] = json!(length);
            }
            What::Sender(Wanted::Datagram { port }) => object["port"] = json!(port),
            _ => {}
        }
        object.serialize(serializer)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            What::File { name, length, .. } => {
                write!(f, "refused {name} ({})", bytes_text(*length))?;
            }
            What::Sender(Wanted::Datagram { port }) => {
                write!(f, "refused a datagram to port {port}")?;
            }
            What::Sender(Wanted::Connection { .. }) => f.write_str("refused a connection")?,
            What::Sender(_) => f.write_str("refused a ping")?,
        }
        write!(f, " from {}: {}", self.from, self.reason())?;
        match self.others {
            0 => Ok(()),
            others => write!(f, " (and {others} more before that)"),
        }
    }
}

/// Enough to see who it is, and nothing that scrolls away what else is there.
const LINES_A_MINUTE: u32 = 5;
const MINUTE: Duration = Duration::from_secs(60);
/// Names and kinds that status shows, and that no second line is said about.
const REMEMBERED: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_daemon::output::Form;

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
        let what = What::File { name: "film".to_owned(), length: 2_000_000_000, why: room };
        let refused = Refused { from, what, others: 3 };
        assert_eq!(
            refused.to_string(),
            format!(
                "refused film (2.0 GB) from {from}: larger than 1.0 GB, which is what strangers may send; give \
                 --max-size, or --from NAME (and 3 more before that)"
            )
        );
        let refused = Refused { from, what: What::Sender(Wanted::Ping), others: 0 };
        assert!(refused.to_string().starts_with(&format!("refused a ping from {from}: this")));
    }

    #[test]
    fn a_ping_is_told_once_for_each_name_and_takes_no_line_from_files() {
        let start = Instant::now();
        let notices = Notices::new(Teller { form: Form::Json, is_beside: false });
        let said = |notices: &Notices| {
            let remembered = locked(&notices.remembered);
            remembered.0.iter().filter(|it| it.is_said).count()
        };
        let refuse = |byte: u8, wanted: Wanted, at: Instant| {
            let (from, to) = (Name([byte; 32]), Name([0; 32]));
            notices.refused(Refusal { from, to, wanted }, at);
        };
        for _ in 0..1000 {
            refuse(1, Wanted::Ping, start);
        }
        assert_eq!(said(&notices), 1);
        assert_eq!(locked(&notices.others).said, 1);
        // Names are free, lines and memory are not.
        for byte in 2..200 {
            refuse(byte, Wanted::Ping, start);
        }
        assert_eq!(locked(&notices.others).said, LINES_A_MINUTE);
        assert_eq!(notices.status(start).as_array().map(Vec::len), Some(REMEMBERED));
        // Who found no line in that minute has one in the next.
        refuse(199, Wanted::Ping, start + MINUTE);
        assert_eq!(said(&notices), 1);
        assert_eq!(notices.status(start + 2 * MINUTE)[0]["times"], 2);
        assert_eq!(notices.status(start + 2 * MINUTE)[0]["age_s"], 60);
        assert_eq!(locked(&notices.files).said, 0, "files have all of their lines");
        for _ in 0..2 {
            notices.no_room(Name([199; 32]), "a", 1, NoRoom::DiskFull, start + MINUTE);
        }
        assert_eq!(locked(&notices.files).said, 2, "a line for each file");
    }
}
