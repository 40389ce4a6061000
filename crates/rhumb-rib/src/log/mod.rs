//! The log of a RIB: what it holds, hashed into a map whose root it signs, together with that of
//! all heads before. Whoever keeps a head can have it shown that a later one follows it, and that
//! an answer is as a head says; so a RIB that tells one this and another one that leaves two heads
//! that contradict each other, signed by itself.
//!
//! 1. [`Log::note`] is told what is held of a name whenever that changes.
//! 2. [`Log::begin`] hands out the next head, of all changes since the last, once a second at most;
//!    [`Making::run`] makes it, on any thread, and [`Log::end`] takes it back.
//! 3. [`Log::path`] shows what the head says of a name, [`Log::way_back`] that an earlier one led
//!    to a later one.
//!
//! INVARIANT: the map is that of the head. What has changed since waits for the next one.
//!
//! Sans-IO: time is an argument, and what is held of a name comes from whoever has the store. It is
//! in memory: a RIB that starts begins another log, which its heads say.

mod history;
mod map;

use std::collections::HashMap;
use std::sync::Arc;

use rhumb_trust::log::{Roots, fingerprint};
use rhumb_trust::{Identity, TrustError};
use rhumb_wire::log::{Hash, Head, MapPath, NOTHING};
use rhumb_wire::{Certificate, Name};

pub use history::History;
pub use map::Map;

/// The log of a RIB.
pub struct Log {
    identity: Arc<Identity>,
    began_ms: u64,
    /// Of the head; away while the next one is made.
    map: Option<Map>,
    history: History,
    head: Option<Head>,
    /// What is held of names that changed since the head.
    changed: HashMap<Name, Vec<Hash>>,
    /// Whether the map has changes that no head was signed for.
    is_ahead: bool,
}

/// The next head, which is being made.
#[derive(Debug)]
pub struct Making {
    identity: Arc<Identity>,
    map: Map,
    changed: HashMap<Name, Vec<Hash>>,
    /// All but what the map says.
    roots: Roots,
}

/// What came of it.
#[derive(Debug)]
pub struct Made {
    map: Map,
    head: Result<Head, TrustError>,
}

impl Log {
    /// A log that begins now, of a RIB that holds nothing yet.
    pub fn new(identity: Arc<Identity>, now_ms: u64) -> Self {
        let (map, history, changed) = (Some(Map::default()), History::default(), HashMap::new());
        Self { identity, began_ms: now_ms, map, history, head: None, changed, is_ahead: false }
    }

    /// These are held of a name now: all that count, in an order that is always the same. At most
    /// [`MapPath::MAX_FINGERPRINTS`] of them are.
    pub fn note<'a>(&mut self, name: Name, held: impl IntoIterator<Item = &'a Certificate>) {
        self.changed.insert(name, fingerprints(held));
    }

    /// These were held of a name before the log began; to be told before the first head.
    pub fn begin_with<'a>(&mut self, name: Name, held: impl IntoIterator<Item = &'a Certificate>) {
        match &mut self.map {
            Some(map) if self.head.is_none() && !self.changed.contains_key(&name) => {
                map.set(&name, &fingerprints(held));
            }
            _ => {}
        }
    }

    /// The last head.
    pub fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    /// When there is to be another head: when something changed, a second after the last one.
    pub fn due_ms(&self) -> Option<u64> {
        match &self.head {
            None => Some(self.began_ms),
            Some(_) if self.changed.is_empty() && !self.is_ahead => None,
            Some(head) => Some(head.made_ms + EPOCH_MS),
        }
    }

    /// The next head to be made, if it is time, and none is.
    pub fn begin(&mut self, now_ms: u64) -> Option<Making> {
        if self.due_ms().is_none_or(|due| due > now_ms) {
            return None;
        }
        let map = self.map.take()?;
        if let Some(head) = &self.head
            && self.history.len() == head.epoch
        {
            self.history.push(head);
        }
        let roots = Roots {
            epoch: self.history.len(),
            began_ms: self.began_ms,
            made_ms: now_ms,
            names: 0,
            map: NOTHING,
            history: self.history.root(),
        };
        let changed = std::mem::take(&mut self.changed);
        Some(Making { identity: self.identity.clone(), map, changed, roots })
    }

    /// Takes a head over that was made.
    ///
    /// # Errors
    /// When the library could not sign it; what changed is in the next one.
    pub fn end(&mut self, made: Made) -> Result<(), TrustError> {
        let Made { map, head } = made;
        self.map = Some(map);
        self.is_ahead = head.is_err();
        self.head = Some(head?);
        Ok(())
    }

    /// Makes the next head here and now, if it is time.
    ///
    /// # Errors
    /// As of [`Log::end`].
    pub fn advance(&mut self, now_ms: u64) -> Result<Option<&Head>, TrustError> {
        let Some(making) = self.begin(now_ms) else { return Ok(None) };
        self.end(making.run())?;
        Ok(self.head())
    }

    /// What the head says of a name, of which these are held. Nothing before the first head, and
    /// while a change of the name waits for the next one, or the next one is being made.
    pub fn path<'a>(
        &self,
        name: &Name,
        held: impl IntoIterator<Item = &'a Certificate>,
    ) -> Option<MapPath> {
        let is_of_head = self.head.is_some() && !self.is_ahead && !self.changed.contains_key(name);
        let map = self.map.as_ref().filter(|_| is_of_head)?;
        Some(map.path(name, fingerprints(held)))
    }

    /// When it began: which log it is, of this RIB's.
    pub fn began_ms(&self) -> u64 {
        self.began_ms
    }

    /// The way from the head of one epoch back to that of an earlier one; nothing if it is too long
    /// ago, or not there.
    pub fn way_back(&self, from: u64, to: u64) -> Option<Vec<Hash>> {
        self.history.way_back(from, to)
    }

    /// How many names the head is of.
    pub fn names(&self) -> u64 {
        self.head.map_or(0, |head| head.names)
    }

    /// Bytes that the map takes on the heap, but for what the allocator adds.
    pub fn map_bytes(&self) -> usize {
        self.map.as_ref().map_or(0, Map::bytes)
    }
}

impl Making {
    /// Makes it. Costs a signature, and per name that changed what it takes to hash a page and what
    /// is above it.
    pub fn run(self) -> Made {
        let Self { identity, mut map, changed, roots } = self;
        for (name, held) in changed {
            map.set(&name, &held);
        }
        let head = identity.sign_head(Roots { names: map.names(), map: map.root(), ..roots });
        Made { map, head }
    }
}

fn fingerprints<'a>(held: impl IntoIterator<Item = &'a Certificate>) -> Vec<Hash> {
    held.into_iter().map(fingerprint).take(MapPath::MAX_FINGERPRINTS).collect()
}

/// A head is a signature, and who asks for proofs verifies one for each: so no more than one in a
/// second, however much is published.
pub const EPOCH_MS: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_trust::log::{held_of, is_before, verify_head};
    use rhumb_trust::{Verified, Window};
    use rhumb_wire::{Role, Scope, Statement};

    fn verified(rib: &Identity, head: &Head) -> Verified<Head> {
        verify_head(*head, rib.metadata(), 1_000_000).unwrap()
    }

    #[test]
    fn what_was_held_before_is_in_the_first_head_unless_it_has_changed_meanwhile() {
        let rib = Arc::new(Identity::generate(Role::Rib, 0).unwrap());
        let holder = Identity::generate(Role::Node, 0).unwrap();
        let say = |sequence| {
            holder.certify(Statement::Withdrawal, sequence, Window::starting(0, 600)).unwrap()
        };
        let (before, newer) = (say(1), say(2));
        let mut log = Log::new(rib.clone(), 5000);
        log.begin_with(Name([7; 32]), [&before]);
        log.note(holder.name(), [&newer]);
        log.begin_with(holder.name(), [&before]);
        let making = log.begin(5000).unwrap();
        assert!(log.begin(9000).is_none(), "one at a time");
        assert!(log.path(&holder.name(), [&newer]).is_none());
        log.note(Name([8; 32]), [&newer]);
        log.end(making.run()).unwrap();
        let head = verified(&rib, log.head().unwrap());
        assert_eq!((head.names, log.due_ms()), (2, Some(6000)));
        let path = log.path(&holder.name(), [&newer]).unwrap();
        assert_eq!(held_of(&head, &holder.name(), &path), Some(&[fingerprint(&newer)][..]));
        assert!(log.path(&Name([8; 32]), [&newer]).is_none(), "it came while that was made");
        log.begin_with(Name([9; 32]), [&before]);
        assert_eq!(log.advance(6000).unwrap().unwrap().names, 3, "the time for that is over");
    }

    #[test]
    fn heads_follow_each_other_and_say_what_is_held() {
        let rib = Arc::new(Identity::generate(Role::Rib, 0).unwrap());
        let holder = Identity::generate(Role::Node, 0).unwrap();
        let say = |sequence| {
            let statement = Statement::Route { via: Name([1; 32]), scope: Scope::Any };
            holder.certify(statement, sequence, Window::starting(0, 600)).unwrap()
        };
        let mut log = Log::new(rib.clone(), 5000);
        let first = verified(&rib, log.advance(5000).unwrap().unwrap());
        assert_eq!((first.epoch, first.names, log.due_ms()), (0, 0, None));
        let absent = log.path(&holder.name(), []).unwrap();
        assert_eq!(held_of(&first, &holder.name(), &absent), Some(&[][..]));

        let (one, two) = (say(1), say(2));
        log.note(holder.name(), [&one]);
        assert!(log.path(&holder.name(), [&one]).is_none(), "no head says so yet");
        assert_eq!((log.due_ms(), log.advance(5999).unwrap()), (Some(6000), None));
        let second = verified(&rib, log.advance(6000).unwrap().unwrap());
        let path = log.path(&holder.name(), [&one]).unwrap();
        assert_eq!(held_of(&second, &holder.name(), &path), Some(&[fingerprint(&one)][..]));
        assert_eq!(held_of(&first, &holder.name(), &path), None);
        assert!(is_before(&first, &second, &log.way_back(0, 1).unwrap()));

        log.note(holder.name(), [&two]);
        let third = verified(&rib, log.advance(9000).unwrap().unwrap());
        assert_eq!((third.epoch, third.names), (2, 1));
        for earlier in [&first, &second] {
            assert!(is_before(earlier, &third, &log.way_back(earlier.epoch, 2).unwrap()));
        }
        // The older statement is nowhere any more, and the name is not absent.
        let stale = log.path(&holder.name(), [&one]).unwrap();
        assert_eq!(held_of(&third, &holder.name(), &stale), None);
        assert_eq!(held_of(&third, &holder.name(), &absent), None);
        log.note(holder.name(), []);
        let last = verified(&rib, log.advance(10_000).unwrap().unwrap());
        let gone = log.path(&holder.name(), []).unwrap();
        assert_eq!(held_of(&last, &holder.name(), &gone), Some(&[][..]));
    }
}
