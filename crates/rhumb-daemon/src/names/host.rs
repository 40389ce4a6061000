//! Names as hosts of URLs and of DNS: `NAME.rhumb.internal`, or a label of the local book in the
//! place of NAME ([decision 0075](../../../../docs/decisions/0075-programs-by-proxy.md)); and
//! `LABEL.NAME.rhumb.internal`, which NAME's owner publishes.
//!
//! Hosts have no upper and lower case: labels that differ in nothing else stand for none of their
//! names here.

use rhumb_wire::Name;

use super::called::called_by;
use super::{Book, Called};
use crate::remote::parse_name;

/// What hosts that are names end with.
pub const SUFFIX: &str = ".rhumb.internal";

/// Whose host this is; the book is read as it is now.
///
/// # Errors
///
/// Why it is nobody's, in a line.
pub fn of_host(host: &str) -> Result<Called, String> {
    of_host_by(host, || Book::read().map_err(|failure| failure.to_string()))
}

/// As [`of_host`], by another book.
pub(crate) fn of_host_by(
    host: &str,
    book: impl FnOnce() -> Result<Book, String>,
) -> Result<Called, String> {
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let Some(text) = host.strip_suffix(SUFFIX) else {
        return Err(format!("{host:?} is no name: hosts that are end with {SUFFIX}"));
    };
    if text.len() >= Name::TEXT_LEN && !text.contains('.') {
        return parse_name(text).map(Called::Name);
    }
    called_by(text, &book()?, str::eq_ignore_ascii_case)
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
        assert_eq!(of(&format!("{a}{SUFFIX}")), Ok(Called::Name(a)));
        assert_eq!(
            of(&format!("{}.RHUMB.internal.", b.to_string().to_uppercase())),
            Ok(Called::Name(b))
        );
        assert_eq!(of("camera.rhumb.internal"), Ok(Called::Name(a)));
        assert_eq!(of("CAMERA.rhumb.internal"), Ok(Called::Name(a)));
        assert_eq!(of("my.router.rhumb.internal"), Ok(Called::Name(b)));
        assert_eq!(of(&format!("{}{SUFFIX}", &b.to_string()[..10])), Ok(Called::Name(b)));
        let published = of("Door.CAMERA.rhumb.internal").unwrap().to_string();
        assert_eq!(published, format!("door.{}", Name([1; 32])));
        let published = of(&format!("door.{b}{SUFFIX}")).unwrap().to_string();
        assert_eq!(published, format!("door.{b}"));
        for nobody in ["camera", "rhumb.internal", ".rhumb.internal", "example.org", "", "."] {
            assert!(of(nobody).is_err(), "{nobody}");
        }
        let twice = of_host_by("bob.rhumb.internal", || Ok(book(&[("bob", a), ("Bob", b)])));
        assert!(twice.unwrap_err().contains("2 names"));
        let broken = of_host_by("bob.rhumb.internal", || Err("no book".to_owned()));
        assert_eq!(broken, Err("no book".to_owned()));
    }
}
