//! Names as people give them and see them: a label of the local book in place of 52 characters.
//!
//! 1. A whole name stands for itself, always: no label can look like one.
//! 2. A label stands for the name that this machine's book has under it.
//! 3. Ten characters or more from a name's beginning stand
//!    for it, if one name of the book begins so.
//!
//! A label of somebody else's, behind which a dot and its owner follow, is `called`'s.
//!
//! Invariant: only the book is asked, and only its owner writes it (`rhumb keygen`, `rhumb name`).
//! Labels in somebody's metadata are that holder's own word: they are shown as such ([`said`]) and
//! never looked up. Nothing is asked of the network here. What fits several names is refused, with
//! all of them. Configuration files name in full: who serves must not depend on whose book is at
//! hand ([decision 0041](../../../docs/decisions/0041-book-of-names.md)).

pub mod book;
mod called;
pub mod host;
mod label;

use std::path::Path;
use std::sync::OnceLock;

use rhumb_wire::Name;

use crate::failure::Failure;
use crate::output::remark;
use crate::remote::{Remote, parse_address, parse_name};
pub use book::{Book, Origin};
pub(crate) use called::parse_called;
pub use called::{ByOwner, Called};
pub use label::Label;

/// The name that an argument gives: in full, by a label, or by its beginning.
pub(crate) fn parse(text: &str) -> Result<Name, String> {
    if text.len() >= Name::TEXT_LEN {
        return parse_name(text);
    }
    match local() {
        Ok(book) => resolve(text, book),
        Err(problem) => Err(format!("`{text}` is not a name, and {problem}")),
    }
}

/// `NAME@ADDR` or `ADDR`, where NAME is as in [`parse`].
pub(crate) fn parse_remote(text: &str) -> Result<Remote, String> {
    let (name, address) = match text.split_once('@') {
        Some((name, address)) => (Some(parse(name)?), address),
        None => (None, text),
    };
    Ok(Remote { name, address: parse_address(address)? })
}

/// What the book calls `name`, if anything. A book that cannot be read calls nothing anything.
pub fn label_of(name: Name) -> Option<String> {
    local().as_ref().ok()?.label_of(name).map(Label::to_string)
}

/// `text` with the label behind each name in it that the book has.
pub fn with_labels(text: &str) -> String {
    let of = |word: &str| word.parse().ok().and_then(label_of);
    let mut shown = String::with_capacity(text.len());
    for part in text.split_inclusive(|letter: char| !letter.is_ascii_alphanumeric()) {
        shown.push_str(part);
        let word = part.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric());
        if let Some(label) = of(word) {
            shown.truncate(shown.len() - (part.len() - word.len()));
            shown.push_str(&format!(" ({label}){}", &part[word.len()..]));
        }
    }
    shown
}

/// A label in somebody's metadata, as its holder's word: in quotes, on one
/// line, and without what a terminal would obey.
pub fn said(label: &str) -> String {
    let shown: String = label.chars().flat_map(char::escape_debug).collect();
    format!("calls itself \"{shown}\"")
}

/// Puts the name of a key file into the book, under the label given or else as the file is called:
/// what it is called from now on. The key is made whatever comes of this.
pub fn enter_key(label: Option<&str>, name: Name, path: &Path) -> Option<Label> {
    Label::of_key(label, path).filter(|label| enter(label, name, path))
}

fn enter(label: &Label, name: Name, path: &Path) -> bool {
    let entered = std::path::absolute(path).map_err(Failure::operation).and_then(|path| {
        if path.to_str().is_none() {
            return Err(Failure::setup_text("its path is no text"));
        }
        Book::change(|book| {
            if let Some(other) = book.entries().find(|it| it.label == *label && it.name != name) {
                remark(format_args!(
                    "rhumb: {label} stands for two names now, and so for none: the other is {other}"
                ));
            }
            book.add(label.clone(), name, Origin::Key(path));
            Ok(())
        })
    });
    let said =
        |failure: &Failure| remark(format_args!("rhumb: the key has no label here: {failure}"));
    entered.inspect_err(said).is_ok()
}

fn resolve(text: &str, book: &Book) -> Result<Name, String> {
    resolve_by(text, book, |label| label == text)
}

fn resolve_by(text: &str, book: &Book, is_meant: impl Fn(&str) -> bool) -> Result<Name, String> {
    let called: Vec<&book::Entry> = book
        .entries()
        .filter(|entry| is_meant(entry.label.as_str()) || begins(entry.name, text))
        .collect();
    let mut names: Vec<Name> = called.iter().map(|entry| entry.name).collect();
    names.sort_unstable();
    names.dedup();
    match names[..] {
        [name] => Ok(name),
        [] => Err(format!(
            "{}, and nothing is called so here: `rhumb name` lists what is, `rhumb name add {text} NAME` adds it",
            parse_name(text).err().unwrap_or_default()
        )),
        _ => {
            let all: Vec<String> = called.iter().map(ToString::to_string).collect();
            Err(format!(
                "`{text}` stands for {} names here: {}; give one in full, or take others off the book: \
                 rhumb name remove {text} NAME",
                names.len(),
                all.join("; ")
            ))
        }
    }
}

fn begins(name: Name, text: &str) -> bool {
    text.len() >= SHORT_LEN && name.to_string().starts_with(text)
}

/// The book, read when it is first asked.
fn local() -> &'static Result<Book, String> {
    static BOOK: OnceLock<Result<Book, String>> = OnceLock::new();
    BOOK.get_or_init(|| Book::read().map_err(|failure| failure.to_string()))
}

/// What an owner can call a name.
pub(crate) const PUBLISHED_LABELS: &str =
    "1 to 32 of a-z, 0-9, `-` and `_`, the first a letter or digit";
/// As many characters as [`Name::short`] has: 50 bits. Who would make a second name with the same
/// ones has work for years, and then has to get it into this book.
const SHORT_LEN: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn book(entries: &[(&str, Name)]) -> Book {
        let mut book = Book::default();
        for (label, name) in entries {
            book.add(label.parse().unwrap(), *name, Origin::Added);
        }
        book
    }

    #[test]
    fn labels_and_beginnings_stand_for_what_the_book_has() {
        let (a, b) = (Name([1; 32]), Name([2; 32]));
        let book = book(&[("bob", a), ("router", b)]);
        assert_eq!(resolve("bob", &book), Ok(a));
        assert_eq!(resolve(&b.short(), &book), Ok(b));
        assert_eq!(resolve(&b.to_string()[..30], &book), Ok(b));
        for unknown in [&b.to_string()[..9], "Bob", "bo", "", "router "] {
            assert!(resolve(unknown, &book).unwrap_err().contains("nothing is called so"));
        }
    }

    #[test]
    fn what_fits_several_names_is_refused_with_all_of_them() {
        let (a, b) = (Name([1; 32]), Name([2; 32]));
        let twice = book(&[("bob", a), ("bob", b)]);
        let refusal = resolve("bob", &twice).unwrap_err();
        assert!(refusal.contains("2 names"), "{refusal}");
        assert!(refusal.contains(&a.to_string()) && refusal.contains(&b.to_string()), "{refusal}");
        // Two labels of one name are no two names.
        assert_eq!(resolve(&a.short(), &book(&[("bob", a), ("robert", a)])), Ok(a));
        // One name's beginning, and somebody else's label.
        let trap = book(&[("bob", a), (&a.short(), b)]);
        assert!(resolve(&a.short(), &trap).unwrap_err().contains("2 names"));
        let mut alike = a;
        alike.0[31] ^= 0x80;
        let alike = book(&[("bob", a), ("eve", alike)]);
        assert!(resolve(&a.short(), &alike).unwrap_err().contains("eve"));
    }

    #[test]
    fn a_claimed_label_cannot_move_the_cursor_or_turn_the_line() {
        let shown = said("x\u{1b}[2J\n\u{202e}y\"");
        assert_eq!(shown, "calls itself \"x\\u{1b}[2J\\n\\u{202e}y\\\"\"");
    }
}
