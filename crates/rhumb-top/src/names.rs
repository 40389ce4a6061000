//! Names as this machine's book calls them, and short where it calls them nothing.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::text::shown;

/// Finds what the book calls a name, if anything.
type Find = dyn Fn(&str) -> Option<String>;

/// What names are called here.
pub struct Labels {
    find: Box<Find>,
    /// Each look in the book may read files.
    known: RefCell<HashMap<String, Option<String>>>,
}

impl Labels {
    /// By the book, and nothing else: what somebody calls itself is no label.
    pub fn by(find: impl Fn(&str) -> Option<String> + 'static) -> Self {
        Self { find: Box::new(find), known: RefCell::default() }
    }

    /// Without a book.
    pub fn none() -> Self {
        Self::by(|_| None)
    }

    /// The label of a name, or its beginning.
    pub(crate) fn short(&self, name: &str) -> String {
        match self.of(name) {
            Some(label) => shown(&label),
            None if name.len() >= NAME_LEN && name.is_ascii() => shown(&name[..SHORT_LEN]),
            None => shown(name),
        }
    }

    /// A name in full, with its label.
    pub(crate) fn full(&self, name: &str) -> String {
        match self.of(name) {
            Some(label) => format!("{} ({})", shown(name), shown(&label)),
            None => shown(name),
        }
    }

    fn of(&self, name: &str) -> Option<String> {
        let mut known = self.known.borrow_mut();
        if let Some(label) = known.get(name) {
            return label.clone();
        }
        if known.len() >= MOST_KNOWN {
            known.clear();
        }
        let label = (self.find)(name);
        known.insert(name.to_owned(), label.clone());
        label
    }
}

impl std::fmt::Debug for Labels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Labels").finish_non_exhaustive()
    }
}

/// Characters of a name.
const NAME_LEN: usize = 52;
/// As many as commands take for it.
const SHORT_LEN: usize = 10;
/// A router may have many names come and go.
const MOST_KNOWN: usize = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_stands_for_a_name_and_its_beginning_where_there_is_none() {
        let name = "abcdefghijklmnopqrstuvwxyz234567abcdefghijklmnopqrst";
        let other = name.replace('a', "z");
        let known = name.to_owned();
        let labels = Labels::by(move |name| (name == known).then(|| "bob".to_owned()));
        assert_eq!(labels.short(name), "bob");
        assert_eq!(labels.full(name), format!("{name} (bob)"));
        assert_eq!(labels.short(&other), "zbcdefghij");
        assert_eq!(labels.short("x\u{1b}[2J"), "x\\u{1b}[2J");
    }
}
