//! Labels of the local book: a word that is the same however it is
//! typed, and never looks like a name or an option.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use rhumb_wire::Name;

/// 1 to 32 of `a-z`, `A-Z`, `0-9`, `-`, `_` and `.`, the first a letter or
/// digit. Shorter than a name, and without `@`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label(String);

impl Label {
    /// As it was given: upper and lower case differ.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What a key is called: by its metadata's label if that can be one here, else by its file.
    pub fn of_key(label: Option<&str>, file: &Path) -> Option<Self> {
        let stem = || file.file_stem().and_then(|stem| stem.to_str());
        let given = label.and_then(|label| label.parse().ok());
        given.or_else(|| stem().and_then(|stem| stem.parse().ok()))
    }
}

impl FromStr for Label {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let begins_well = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        match begins_well && text.len() <= LONGEST && text.bytes().all(is_fit) {
            true => Ok(Self(text.to_owned())),
            false => Err(format!(
                "`{text}` cannot be a label; give 1 to {LONGEST} letters (a-z, A-Z), digits, `-`, `_` and `.`"
            )),
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// So that no label is as long as a name.
const LONGEST: usize = 32;
const _: () = assert!(LONGEST < Name::TEXT_LEN);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_one_plain_word() {
        for good in ["b", "bob", "R1", "my.router-2_x", &"a".repeat(LONGEST)] {
            assert_eq!(good.parse::<Label>().unwrap().as_str(), good);
        }
        for bad in ["", "-to", ".", "a b", "a@b", "b\u{f6}b", "b\u{430}b", &"a".repeat(LONGEST + 1)]
        {
            assert!(bad.parse::<Label>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_key_is_called_by_its_label_or_its_file() {
        let called = |label, file| Label::of_key(label, Path::new(file)).map(|it| it.to_string());
        assert_eq!(called(Some("bob"), "node.key").as_deref(), Some("bob"));
        assert_eq!(called(Some("Bob's laptop"), "/x/node.key").as_deref(), Some("node"));
        assert_eq!(called(None, "rib.key").as_deref(), Some("rib"));
        assert_eq!(called(None, "b\u{f6}b.key"), None);
    }
}
