//! What an argument or a host calls somebody: a name as the book has it, or a label that an owner
//! publishes under its own name, as `camera.alice`.
//!
//! Invariant: the book comes first, so that nobody's word for a label takes the place of what this
//! machine's user calls so. What is published has no dots, so the owner begins behind the first
//! one; and the owner is of the book, or a whole name, and never itself a label that somebody else
//! publishes ([decision 0086](../../../../docs/decisions/0086-published-names.md)).

use std::fmt;

use rhumb_wire::{Name, PublishedLabel};

use super::{Book, local, parse, resolve_by};
use crate::remote::parse_name;

/// Whom somebody means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Called {
    /// Whoever has this name.
    Name(Name),
    /// Whoever its owner says.
    Published(ByOwner),
}

/// A label under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByOwner {
    /// Whose list has it.
    pub owner: Name,
    /// The label.
    pub label: PublishedLabel,
    /// Whether the user's book has the owner, whom strangers' questions must not crowd out.
    pub is_chosen: bool,
}

impl fmt::Display for Called {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Published(it) => write!(f, "{}.{}", it.label, it.owner),
        }
    }
}

/// Whom an argument means: a name as [`parse`] reads it, or a label of an owner that is given so.
pub(crate) fn parse_called(text: &str) -> Result<Called, String> {
    if !text.contains('.') {
        return parse(text).map(Called::Name);
    }
    match local() {
        Ok(book) => called_by(text, book, |label, text| label == text),
        Err(problem) => Err(format!("`{text}` is not a name, and {problem}")),
    }
}

/// Whom a text means, by this book and by what counts as the same label.
pub(super) fn called_by(
    text: &str,
    book: &Book,
    is_same: impl Fn(&str, &str) -> bool,
) -> Result<Called, String> {
    let in_book = |text: &str| match text.len() >= Name::TEXT_LEN {
        true => parse_name(text),
        false => resolve_by(text, book, |label| is_same(label, text)),
    };
    let is_entered = book.entries().any(|entry| is_same(entry.label.as_str(), text));
    let Some((label, owner_text)) = text.split_once('.').filter(|_| !is_entered) else {
        return in_book(text).map(Called::Name);
    };
    let owner = in_book(owner_text).map_err(|problem| {
        format!("`{text}` is not in the book, and {owner_text} publishes no names: {problem}")
    })?;
    let label = label.to_ascii_lowercase().parse().map_err(|_| {
        format!("`{label}` is no label that an owner could publish: {}", super::PUBLISHED_LABELS)
    })?;
    let is_chosen = book.entries().any(|entry| entry.name == owner);
    Ok(Called::Published(ByOwner { owner, label, is_chosen }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Origin;

    fn called(text: &str, entries: &[(&str, Name)]) -> Result<Called, String> {
        let mut book = Book::default();
        for (label, name) in entries {
            book.add(label.parse().unwrap(), *name, Origin::Added);
        }
        called_by(text, &book, |label, text| label == text)
    }

    fn published(label: &str, owner: Name, is_chosen: bool) -> Result<Called, String> {
        Ok(Called::Published(ByOwner { owner, label: label.parse().unwrap(), is_chosen }))
    }

    const ALICE: Name = Name([1; 32]);
    const OTHER: Name = Name([2; 32]);

    #[test]
    fn an_owner_is_a_label_a_beginning_or_a_whole_name() {
        let book = [("alice", ALICE), ("my.router", OTHER)];
        assert_eq!(called("alice", &book), Ok(Called::Name(ALICE)));
        assert_eq!(called("camera.alice", &book), published("camera", ALICE, true));
        assert_eq!(called("Camera.alice", &book), published("camera", ALICE, true));
        let by_beginning = format!("camera.{}", ALICE.short());
        assert_eq!(called(&by_beginning, &book), published("camera", ALICE, true));
        let in_full = format!("camera.{OTHER}");
        assert_eq!(called(&in_full, &book), published("camera", OTHER, true));
        assert_eq!(called(&in_full, &[]), published("camera", OTHER, false));
        // The book's labels may have dots; those that are published have none.
        assert_eq!(called("my.router", &book), Ok(Called::Name(OTHER)));
        assert_eq!(called("door.my.router", &book), published("door", OTHER, true));
    }

    #[test]
    fn what_the_book_has_is_never_what_somebody_publishes() {
        let book = [("alice", ALICE), ("camera.alice", OTHER)];
        assert_eq!(called("camera.alice", &book), Ok(Called::Name(OTHER)));
        // Nor where it is unclear whom the book means.
        let twice = [("alice", ALICE), ("camera.alice", OTHER), ("camera.alice", Name([3; 32]))];
        assert!(called("camera.alice", &twice).unwrap_err().contains("2 names"));
    }

    #[test]
    fn owners_of_owners_and_other_words_are_refused() {
        let book = [("alice", ALICE)];
        for bad in
            ["a.b.alice", "camera.bob", ".alice", "camera.", ".", "-x.alice", "b\u{f6}.alice"]
        {
            assert!(called(bad, &book).is_err(), "{bad}");
        }
        let long = format!("{}.alice", "a".repeat(33));
        assert!(called(&long, &book).unwrap_err().contains("no label that an owner"), "{long}");
    }
}
