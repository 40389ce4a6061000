//! The removals that a directory knows, in the order in which it came to know them, and who is told
//! of the next ones.
//!
//! 1. An asker says how far it has heard ([`Mark`]) and is answered with what comes behind that, as
//!    much as fits; it asks again until there is nothing more.
//! 2. From then on it is told of each new one, from where its last question began, until it
//!    acknowledges that: as changes are, by [`Pushes`](crate::pushes::Pushes).
//!
//! Positions are this run's: after a restart the store has another identity, and whoever asks is
//! told everything once more.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use rhumb_trust::{Removal, Verified};
use rhumb_wire::Name;
use rhumb_wire::rib::{MAX_REMOVALS, Mark, RemovalLists, StoreId};

use crate::share::Payer;

#[derive(Default)]
pub(crate) struct Book {
    by_position: BTreeMap<u64, Arc<Verified<Removal>>>,
    /// By issuer and by whom it removed.
    positions: HashMap<(Name, Name), u64>,
    last: u64,
    hearers: HashMap<Name, Hearer>,
}

/// Somebody who is told of the next ones.
struct Hearer {
    /// Where its last question began.
    heard_to: u64,
    max_answer_len: usize,
    payer: Payer,
}

impl Book {
    /// A removal counts from now on, and one before it of the same name by the same issuer no more.
    pub(crate) fn enter(&mut self, removal: Arc<Verified<Removal>>) {
        self.forget(&removal);
        self.last += 1;
        self.positions.insert((removal.issuer(), removal.removed()), self.last);
        self.by_position.insert(self.last, removal);
    }

    /// A removal has ended, or is to make room for a newer one.
    pub(crate) fn forget(&mut self, removal: &Removal) {
        let before = self.positions.remove(&(removal.issuer(), removal.removed()));
        before.map(|position| self.by_position.remove(&position));
    }

    /// How far `since` goes in this store.
    fn position_of(since: Mark, store: StoreId) -> u64 {
        if since.store == store { since.position } else { 0 }
    }

    /// Those behind a position that fit so many bytes, and how far they go.
    fn behind(&self, position: u64, max_len: usize) -> (u64, Vec<RemovalLists>) {
        let (mut to, mut len, mut removals) = (position, HEAD_LEN, Vec::new());
        for (at, removal) in self.by_position.range((Bound::Excluded(position), Bound::Unbounded)) {
            len += removal.emit().len();
            if len > max_len || removals.len() == MAX_REMOVALS {
                break;
            }
            removals.push(removal.lists());
            to = *at;
        }
        (to, removals)
    }

    /// What comes behind `since`, for somebody who is told of the next ones if there is room.
    pub(crate) fn answer(
        &mut self,
        asker: Name,
        payer: Payer,
        max_answer_len: usize,
        since: Mark,
        store: StoreId,
    ) -> (Mark, Vec<RemovalLists>) {
        let heard_to = Self::position_of(since, store);
        if self.has_room(&asker, payer) {
            self.hearers.insert(asker, Hearer { heard_to, max_answer_len, payer });
        }
        let (position, removals) = self.behind(heard_to, max_answer_len);
        (Mark { store, position }, removals)
    }

    /// What a hearer has not asked behind yet; none when it has.
    pub(crate) fn news(&self, asker: &Name, store: StoreId) -> Option<(Mark, Vec<RemovalLists>)> {
        let hearer = self.hearers.get(asker)?;
        let (position, removals) = self.behind(hearer.heard_to, hearer.max_answer_len);
        (!removals.is_empty()).then_some((Mark { store, position }, removals))
    }

    /// All who are told of the next ones.
    pub(crate) fn hearers(&self) -> impl Iterator<Item = (Name, Payer)> {
        self.hearers.iter().map(|(name, hearer)| (*name, hearer.payer))
    }

    /// The session of an asker ended.
    pub(crate) fn forget_asker(&mut self, asker: &Name) {
        self.hearers.remove(asker);
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_position.len()
    }

    /// Strangers have so many places, and a source so many of them; whoever has none asks again.
    fn has_room(&self, asker: &Name, payer: Payer) -> bool {
        let Payer::Stranger(_) = payer else { return true };
        if self.hearers.contains_key(asker) {
            return true;
        }
        let strangers = self.hearers.values().filter(|it| matches!(it.payer, Payer::Stranger(_)));
        let (of_source, all) = strangers.fold((0, 0), |(of_source, all), it| {
            (of_source + usize::from(it.payer == payer), all + 1)
        });
        of_source < MAX_HEARERS_OF_A_SOURCE && all < MAX_STRANGERS
    }
}

/// Kind and identifier, mark, count.
const HEAD_LEN: usize = 5 + 24 + 1;
/// The longest removal, so that one fits the smallest datagram that a session may have.
pub(crate) const MAX_REMOVAL_LEN: usize = 1232 - 28 - 76 - HEAD_LEN;
/// Routers that a RIB knows are admitted; others are a few.
const MAX_STRANGERS: usize = 1024;
const MAX_HEARERS_OF_A_SOURCE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_link::Source;
    use rhumb_trust::{Identity, Window};
    use rhumb_wire::Role;

    const STORE: StoreId = StoreId([7; 16]);

    fn removal(domain: &Identity, number: u8, sequence: u64) -> Arc<Verified<Removal>> {
        let window = Window::starting(1000, 60);
        let removal = Removal::sign(domain, None, Name([number; 32]), sequence, window).unwrap();
        Arc::new(removal.verify(1000).unwrap())
    }

    #[test]
    fn whoever_goes_on_where_he_stopped_hears_of_each_once() {
        let domain = Identity::generate(Role::Domain, 0).unwrap();
        let mut book = Book::default();
        (1..=100).for_each(|number| book.enter(removal(&domain, number, 1)));
        let payer = Payer::Admitted(Name([1; 32]));
        let ask = |book: &mut Book, since| book.answer(Name([1; 32]), payer, 1128, since, STORE);
        let (mut mark, mut heard) = (Mark::default(), Vec::new());
        loop {
            let (to, removals) = ask(&mut book, mark);
            assert!(to == mark || to.position > mark.position);
            mark = to;
            if removals.is_empty() {
                break;
            }
            heard.extend(removals.iter().map(|(_, certificates)| certificates[0].statement));
            // What is said anew meanwhile is heard behind the others.
            if heard.len() < 10 {
                book.enter(removal(&domain, 1, 2));
            }
        }
        assert_eq!(heard.len(), 101);
        assert_eq!((heard[0], book.len()), (heard[100], 100));
        assert_eq!(book.news(&Name([1; 32]), STORE), None);
        // The marks of another run say nothing.
        let other = Mark { store: StoreId([8; 16]), ..mark };
        assert!(!ask(&mut book, other).1.is_empty());
        book.enter(removal(&domain, 200, 1));
        ask(&mut book, mark);
        assert_eq!(book.news(&Name([1; 32]), STORE).unwrap().1.len(), 1);
    }

    #[test]
    fn strangers_have_their_places_and_leave_those_of_others() {
        let mut book = Book::default();
        let mut ask = |number: u16, payer| {
            let mut asker = [0; 32];
            asker[..2].copy_from_slice(&number.to_be_bytes());
            book.answer(Name(asker), payer, 1128, Mark::default(), STORE);
            book.hearers.len()
        };
        let stranger = |source| Payer::Stranger(Source::V4([192, 0, 2, source]));
        let of_one = (0..1000).map(|number| ask(number, stranger(1))).last();
        assert_eq!(of_one, Some(MAX_HEARERS_OF_A_SOURCE));
        let of_many = (0..20_000).map(|number| ask(1000 + number, stranger((number % 250) as u8)));
        assert_eq!(of_many.last(), Some(MAX_STRANGERS));
        let admitted = Payer::Admitted(Name([9; 32]));
        assert_eq!(ask(30_000, admitted), MAX_STRANGERS + 1);
    }
}
