//! Names as hosts of URLs and of DNS: `NAME.rhumb.internal`, or a label of the local book in the
//! place of NAME ([decision 0075](../../../../docs/decisions/0075-programs-by-proxy.md)).
//!
//! Hosts have no upper and lower case: labels that differ in nothing else stand for none of their
//! names here.

use rhumb_wire::Name;

use super::{Book, resolve_by};
use crate::remote::parse_name;

/// What hosts that are names end with.
pub const SUFFIX: &str = ".rhumb.internal";

/// Whose host this is; the book is read as it is now.
///
/// # Errors
///
/// Why it is nobody's, in a line.
pub fn of_host(host: &str) -> Result<Name, String> {
    of_host_by(host, || Book::read().map_err(|failure| failure.to_string()))
}

/// As [`of_host`], by another book.
pub(crate) fn of_host_by(
    host: &str,
    book: impl FnOnce() -> Result<Book, String>,
) -> Result<Name, String> {
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let Some(text) = host.strip_suffix(SUFFIX) else {
        return Err(format!("{host:?} is no name: hosts that are end with {SUFFIX}"));
    };
    if text.len() >= Name::TEXT_LEN {
        return parse_name(text);
    }
    resolve_by(text, &book()?, |label| label.eq_ignore_ascii_case(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Origin;

    fn book(entries: &[(&str, Name)]) -> Book {
        let mut book = Book::default();
        for (label, name) in entries {
            book.add(label.parse().unwrap(), *name, Origin::Added);
        }
        book
    }

    #[test]
    fn hosts_are_names_labels_and_beginnings_before_the_suffix() {
        let (a, b) = (Name([1; 32]), Name([2; 32]));
        let of = |host: &str| of_host_by(host, || Ok(book(&[("Camera", a), ("my.router", b)])));
        assert_eq!(of(&format!("{a}{SUFFIX}")), Ok(a));
        assert_eq!(of(&format!("{}.RHUMB.internal.", b.to_string().to_uppercase())), Ok(b));
        assert_eq!(of("camera.rhumb.internal"), Ok(a));
        assert_eq!(of("CAMERA.rhumb.internal"), Ok(a));
        assert_eq!(of("my.router.rhumb.internal"), Ok(b));
        assert_eq!(of(&format!("{}{SUFFIX}", b.short())), Ok(b));
        for nobody in ["camera", "rhumb.internal", ".rhumb.internal", "example.org", "", "."] {
            assert!(of(nobody).is_err(), "{nobody}");
        }
        let twice = of_host_by("bob.rhumb.internal", || Ok(book(&[("bob", a), ("Bob", b)])));
        assert!(twice.unwrap_err().contains("2 names"));
        let broken = of_host_by("bob.rhumb.internal", || Err("no book".to_owned()));
        assert_eq!(broken, Err("no book".to_owned()));
    }
}
