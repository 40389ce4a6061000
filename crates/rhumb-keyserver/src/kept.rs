//! What a follower keeps of the book while it does not run, as text: so that what was revoked stays
//! so after a restart during which the key server is away.
//!
//! ```text
//! rhumb kept-revocations 1
//! zone _k.example.net
//! 1800000000 1800004100 revoke:42 revoke:42/7 0123456789abcdef
//! end 1 0123456789abcdef
//! ```
//!
//! Lines as in the [`journal`](crate::journal), then how many there were, and the start of a
//! SHA-256 over all before. It is written as a whole or not at all. Invariant: what cannot be read
//! whole is not taken in part, since a line that is missing is a revocation that is not in force.

use std::fmt::Write;

use crate::journal::{line, parse, sum};
use crate::revocation::{Batch, Book, MAX_WORDS};

/// Why a text is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeptError {
    /// It is none of ours, or of a newer format.
    #[error("holds no revocations that this version reads")]
    Foreign,
    /// It is of another zone, whose serials mean nothing here.
    #[error("holds revocations of the zone {0}")]
    OtherZone(String),
    /// This line, from 1, is not as it was written, or the end is missing.
    #[error("is damaged in line {line}")]
    Damaged {
        /// Which.
        line: usize,
    },
}

/// The text of a book; `None` when it has more words than any book is to have.
pub(crate) fn write(zone: &str, book: &Book) -> Option<String> {
    if book.len() > MAX_WORDS {
        return None;
    }
    let batches = book.batches();
    let mut text = format!("{HEADER}\n{ZONE}{zone}\n");
    batches.iter().for_each(|batch| text.push_str(&line(batch)));
    let end = format!("{END}{}", batches.len());
    let sum = sum(&(text.clone() + &end));
    writeln!(text, "{end} {sum}").expect("invariant: a String grows");
    Some(text)
}

/// The book in a text.
pub(crate) fn read(zone: &str, text: &str) -> Result<Book, KeptError> {
    let mut lines = text.split_inclusive('\n').zip(1..);
    let header = lines.next().map(|(line, _)| line.trim_end_matches('\n'));
    if header != Some(HEADER) {
        return Err(KeptError::Foreign);
    }
    let damaged = |line| Err(KeptError::Damaged { line });
    match lines.next().and_then(|(line, _)| line.strip_prefix(ZONE)?.strip_suffix('\n')) {
        Some(its) if its == zone => {}
        Some(its) => return Err(KeptError::OtherZone(its.to_owned())),
        None => return damaged(2),
    }
    let (mut book, mut batches, mut number) = (Book::default(), 0, 2);
    let mut at = HEADER.len() + ZONE.len() + zone.len() + 2;
    for (whole, its_number) in lines {
        number = its_number;
        let Some(content) = whole.strip_suffix('\n') else { return damaged(number) };
        if content.starts_with(END) {
            let (end, found) = content.rsplit_once(' ').unwrap_or((content, ""));
            let is_whole = end == format!("{END}{batches}")
                && at + whole.len() == text.len()
                && sum(&format!("{}{end}", &text[..at])) == found;
            return if is_whole { Ok(book) } else { damaged(number) };
        }
        if !parse(content.as_bytes()).is_some_and(|batch: Batch| book.apply(&batch)) {
            return damaged(number);
        }
        batches += 1;
        at += whole.len();
    }
    damaged(number + 1)
}

/// Bytes of the longest text: each word on a line of its own with numbers of the largest size.
pub const MAX_KEPT_LEN: usize = 256 + MAX_WORDS * 80;

const HEADER: &str = "rhumb kept-revocations 1";
const ZONE: &str = "zone ";
const END: &str = "end ";

#[cfg(test)]
mod tests {
    use rhumb_capability::{DelegationId, Principal};

    use super::*;
    use crate::revocation::{Action, Subject};

    fn book() -> Book {
        let mut book = Book::default();
        for serial in [3, 4, 90] {
            let subject = |principal, id: Option<u32>| Subject {
                principal: Principal(principal),
                delegation: id.and_then(DelegationId::new),
            };
            let changes = vec![
                (Action::Revoke, subject(serial, None)),
                (Action::Revoke, subject(42, Some(serial))),
                (Action::Restore, subject(9, None)),
            ];
            assert!(book.apply(&Batch { serial, until_s: 1000, changes }));
        }
        book
    }

    #[test]
    fn a_book_reads_back_and_belongs_to_its_zone() {
        for book in [Book::default(), book()] {
            let text = write("_k.example", &book).unwrap();
            assert_eq!(read("_k.example", &text), Ok(book));
            let other = KeptError::OtherZone("_k.example".to_owned());
            assert_eq!(read("_k.example.net", &text), Err(other));
        }
        assert_eq!(read("_k.example", "something else\n"), Err(KeptError::Foreign));
        assert_eq!(read("_k.example", ""), Err(KeptError::Foreign));
    }

    #[test]
    fn no_part_of_a_text_is_taken_for_the_whole() {
        let text = write("_k.example", &book()).unwrap();
        for len in 0..text.len() {
            assert!(read("_k.example", &text[..len]).is_err(), "{len}");
        }
        assert!(read("_k.example", &(text.clone() + "\n")).is_err());
        // A line less, with an end that is right by itself.
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        for gone in 2..lines.len() {
            let rest: String =
                lines.iter().enumerate().filter(|(at, _)| *at != gone).map(|it| *it.1).collect();
            assert!(read("_k.example", &rest).is_err(), "without line {}", gone + 1);
        }
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let Ok(changed) = String::from_utf8(bytes) else { continue };
            assert!(read("_k.example", &changed).is_err(), "byte {at}");
        }
    }

    #[test]
    fn the_longest_line_is_within_the_bound() {
        let subject =
            Subject { principal: Principal(u32::MAX), delegation: DelegationId::new(0x00FF_FFFF) };
        let changes = vec![(Action::Restore, subject)];
        // A hundred thousand years hence.
        let batch = Batch { serial: u32::MAX, until_s: 3_155_760_000_000, changes };
        assert!(line(&batch).len() <= 80, "{}", line(&batch));
    }

    proptest::proptest! {
        #[test]
        fn nothing_makes_it_panic(text in "(rhumb kept-revocations 1\n)?(zone _k\n)?(.*\n)*(end .*\n?)?") {
            let _ = read("_k", &text);
        }
    }
}
