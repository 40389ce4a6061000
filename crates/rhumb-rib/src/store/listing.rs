//! What a store holds, a page at a time, for people who look through it beside the directory.
//!
//! A page begins behind a name and has a bound, so it costs as much whether a store has ten names
//! or ten millions; and where names are in their order, those that begin alike are a range of it.
//! Whoever looks through a store that changes meanwhile sees each name that was there all the time
//! once.

use std::str::FromStr;

use rhumb_wire::Name;

use super::before;
use crate::Entry;

/// Which names a page is to hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wanted {
    /// How they begin.
    pub beginning: Beginning,
    /// The name behind which the page begins, which was the last of the page before.
    pub after: Option<Name>,
    /// How many at the most, no more than [`MOST_LISTED`].
    pub limit: usize,
}

/// How the text of a name begins: up to all of its characters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Beginning(String);

/// So many names, or fewer, in the order of their store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// What is known of each; `None` where the entry is damaged.
    pub names: Vec<(Name, Option<Entry>)>,
    /// Behind which name the next page begins, if there may be another.
    pub next: Option<Name>,
}

impl FromStr for Beginning {
    type Err = NoBeginning;

    fn from_str(text: &str) -> Result<Self, NoBeginning> {
        first_of(text).map(|_| Self(text.to_owned())).ok_or(NoBeginning)
    }
}

/// No name begins so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no name begins so: names are of the letters a to z and the digits 2 to 7, 52 in all")]
pub struct NoBeginning;

impl Beginning {
    /// The characters.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether every name begins so.
    pub fn is_of_all(&self) -> bool {
        self.0.is_empty()
    }

    /// The one name that this is, if it is a whole one.
    pub fn whole(&self) -> Option<Name> {
        self.0.parse().ok()
    }

    fn first(&self) -> Name {
        first_of(&self.0).expect("invariant: some name begins so")
    }

    fn begins(&self, name: &Name) -> bool {
        name.to_string().starts_with(&self.0)
    }
}

/// The first of all names whose text begins so.
fn first_of(text: &str) -> Option<Name> {
    // `a` stands for zeros: names are in the order of their texts, digits behind letters.
    format!("{text:a<len$}", len = Name::TEXT_LEN).parse().ok()
}

impl Wanted {
    /// The page of a store whose order is that of names. `read` gives at most so many behind a
    /// name, or from the first.
    pub(super) fn page_by<E>(
        &self,
        read: impl FnOnce(Option<Name>, usize) -> Result<Vec<(Name, Option<Entry>)>, E>,
    ) -> Result<Page, E> {
        let limit = self.limit.clamp(1, MOST_LISTED);
        let from = self.after.max(before(&self.beginning.first()));
        // One more says whether there is another page.
        let mut names = read(from, limit + 1)?;
        let within = names.iter().take_while(|(name, _)| self.beginning.begins(name)).count();
        names.truncate(within);
        let next = (names.len() > limit).then(|| names[limit - 1].0);
        names.truncate(limit);
        Ok(Page { names, next })
    }
}

/// More than anybody reads at once.
pub const MOST_LISTED: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rhumb_wire::{PublicKey, Role};

    type Listed = Vec<(Name, Option<Entry>)>;

    /// As a store in the order of names answers, none of whose entries can be read.
    fn read(names: &[Name]) -> impl Fn(Option<Name>, usize) -> Result<Listed, ()> {
        move |after, limit| {
            let behind = names.iter().filter(|name| after.is_none_or(|after| **name > after));
            Ok(behind.take(limit).map(|name| (*name, None)).collect())
        }
    }

    fn all(names: &[Name], beginning: &str, limit: usize) -> Vec<Vec<Name>> {
        let mut wanted = Wanted { beginning: beginning.parse().unwrap(), after: None, limit };
        let mut pages = Vec::new();
        loop {
            let page = wanted.page_by(read(names)).unwrap();
            pages.push(page.names.iter().map(|(name, _)| *name).collect());
            match page.next {
                Some(next) => wanted.after = Some(next),
                None => return pages,
            }
        }
    }

    proptest! {
        #[test]
        fn pages_together_hold_every_name_that_begins_so_once(
            firsts in prop::collection::btree_set(any::<[u8; 2]>(), 0..60),
            limit in 1_usize..9,
            characters in 0_usize..5,
            of in 0_usize..60,
        ) {
            let names: Vec<Name> = firsts.iter().map(|[one, two]| {
                let mut name = Name([*two; 32]);
                name.0[0] = *one;
                name
            }).collect();
            let text = names.get(of % names.len().max(1)).map(Name::to_string).unwrap_or_default();
            let beginning = &text[..characters.min(text.len())];
            let expected: Vec<Name> =
                names.iter().filter(|name| name.to_string().starts_with(beginning)).copied().collect();
            let pages = all(&names, beginning, limit);
            prop_assert!(pages.iter().all(|page| page.len() <= limit));
            prop_assert_eq!(pages.concat(), expected);
        }

        #[test]
        fn whatever_is_taken_for_a_beginning_is_one(text in "\\PC{0,60}", of in "[a-z2-7]{0,52}") {
            for text in [text, of] {
                if let Ok(beginning) = text.parse::<Beginning>() {
                    prop_assert!(beginning.begins(&beginning.first()));
                }
            }
        }
    }

    #[test]
    fn what_no_name_begins_with_is_refused_and_a_page_has_a_bound() {
        let whole = Name([9; 32]).to_string();
        assert_eq!(whole.parse::<Beginning>().unwrap().whole(), Some(Name([9; 32])));
        assert_eq!("ab".parse::<Beginning>().unwrap().whole(), None);
        // The last character of a name carries one bit.
        let never = format!("{}b", "a".repeat(51));
        for text in ["A", "1", "a b", "\u{e9}", &format!("{whole}a"), &never] {
            assert_eq!(text.parse::<Beginning>(), Err(NoBeginning), "{text}");
        }
        let names: Vec<Name> = (0..=255).map(|at| Name([at; 32])).collect();
        let pages = all(&names, "", usize::MAX);
        assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [100, 100, 56]);
        assert_eq!(all(&names, "", 0)[0].len(), 1);
        assert_eq!(all(&[], "", 5), [[]]);
    }

    #[test]
    fn a_damaged_entry_is_listed_and_hides_no_other() {
        let key = PublicKey::Ed25519([7; 32]);
        let entry = Entry::new(rhumb_wire::Metadata::new(Role::Node, key, 1), Name([1; 32]));
        let listed = vec![(Name([1; 32]), None), (Name([2; 32]), Some(entry))];
        let wanted = Wanted { limit: 9, ..Wanted::default() };
        let page = wanted.page_by(|_, _| Ok::<_, ()>(listed.clone())).unwrap();
        assert_eq!((page.names, page.next), (listed, None));
    }
}
