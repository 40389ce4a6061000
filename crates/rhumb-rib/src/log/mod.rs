//! The log of a RIB: what it holds, hashed into a map whose root it signs, together with that of
//! all heads before. Whoever keeps a head can have it shown that a later one follows it, and that
//! an answer is as a head says; so a RIB that tells one this and another one that leaves two heads
//! that contradict each other, signed by itself.
//!
//! 1. [`Log::note`] is told what is held of a name whenever that changes.
//! 2. [`Log::advance`] makes the next head of all changes since the last, once a second at most.
//! 3. [`Log::path`] shows what the head says of a name, [`Log::back_to`] that an earlier one led to
//!    it.
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
use rhumb_wire::log::{Hash, Head, MapPath};
use rhumb_wire::{Certificate, Name};

pub use history::History;
pub use map::Map;

/// The log of a RIB.
pub struct Log {
    identity: Arc<Identity>,
    began_ms: u64,
    map: Map,
    history: History,
    head: Option<Head>,
    /// What is held of names that changed since the head.
    changed: HashMap<Name, Vec<Hash>>,
}

impl Log {
    /// A log that begins now, of a RIB that holds nothing yet.
    pub fn new(identity: Arc<Identity>, now_ms: u64) -> Self {
        let (map, history, changed) = (Map::default(), History::default(), HashMap::new());
        Self { identity, began_ms: now_ms, map, history, head: None, changed }
    }

    /// These are held of a name now: all that count, in an order that is always the same. At most
    /// [`MapPath::MAX_FINGERPRINTS`] of them are.
    pub fn note<'a>(&mut self, name: Name, held: impl IntoIterator<Item = &'a Certificate>) {
        let held = held.into_iter().map(fingerprint).take(MapPath::MAX_FINGERPRINTS);
        self.changed.insert(name, held.collect());
    }

    /// The last head.
    pub fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    /// When there is to be another head: when something changed, a second after the last one.
    pub fn due_ms(&self) -> Option<u64> {
        match &self.head {
            None => Some(self.began_ms),
            Some(_) if self.changed.is_empty() => None,
            Some(head) => Some(head.made_ms + EPOCH_MS),
        }
    }

    /// Makes the next head, if it is time. Costs a signature, and per name that changed what it
    /// takes to hash a page and what is above it.
    ///
    /// # Errors
    /// When the library cannot sign; what changed is not lost.
    pub fn advance(&mut self, now_ms: u64) -> Result<Option<&Head>, TrustError> {
        if self.due_ms().is_none_or(|due| due > now_ms) {
            return Ok(None);
        }
        for (name, held) in self.changed.drain() {
            self.map.set(&name, &held);
        }
        if let Some(head) = &self.head
            && self.history.len() == head.epoch
        {
            self.history.push(head);
        }
        let head = self.identity.sign_head(Roots {
            epoch: self.history.len(),
            began_ms: self.began_ms,
            made_ms: now_ms,
            names: self.map.names(),
            map: self.map.root(),
            history: self.history.root(),
        })?;
        Ok(Some(self.head.insert(head)))
    }

    /// The head, and the way to a name of which these are held. Nothing before the first head, and
    /// while a change of the name waits for the next one.
    pub fn path<'a>(
        &self,
        name: &Name,
        held: impl IntoIterator<Item = &'a Certificate>,
    ) -> Option<(&Head, MapPath)> {
        let head = self.head.as_ref().filter(|_| !self.changed.contains_key(name))?;
        let held = held.into_iter().map(fingerprint).take(MapPath::MAX_FINGERPRINTS);
        Some((head, self.map.path(name, held.collect())))
    }

    /// The way from the head back to an earlier one of this epoch; nothing if it is too long ago.
    pub fn back_to(&self, epoch: u64) -> Option<Vec<Hash>> {
        self.history.back_to(epoch)
    }

    /// Bytes that the map takes on the heap, but for what the allocator adds.
    pub fn map_bytes(&self) -> usize {
        self.map.bytes()
    }
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
        let absent = log.path(&holder.name(), []).unwrap().1;
        assert_eq!(held_of(&first, &holder.name(), &absent), Some(&[][..]));

        let (one, two) = (say(1), say(2));
        log.note(holder.name(), [&one]);
        assert!(log.path(&holder.name(), [&one]).is_none(), "no head says so yet");
        assert_eq!((log.due_ms(), log.advance(5999).unwrap()), (Some(6000), None));
        let second = verified(&rib, log.advance(6000).unwrap().unwrap());
        let path = log.path(&holder.name(), [&one]).unwrap().1;
        assert_eq!(held_of(&second, &holder.name(), &path), Some(&[fingerprint(&one)][..]));
        assert_eq!(held_of(&first, &holder.name(), &path), None);
        assert!(is_before(&first, &second, &log.back_to(0).unwrap()));

        log.note(holder.name(), [&two]);
        let third = verified(&rib, log.advance(9000).unwrap().unwrap());
        assert_eq!((third.epoch, third.names), (2, 1));
        for earlier in [&first, &second] {
            assert!(is_before(earlier, &third, &log.back_to(earlier.epoch).unwrap()));
        }
        // The older statement is nowhere any more, and the name is not absent.
        let stale = log.path(&holder.name(), [&one]).unwrap().1;
        assert_eq!(held_of(&third, &holder.name(), &stale), None);
        assert_eq!(held_of(&third, &holder.name(), &absent), None);
        log.note(holder.name(), []);
        let last = verified(&rib, log.advance(10_000).unwrap().unwrap());
        let gone = log.path(&holder.name(), []).unwrap().1;
        assert_eq!(held_of(&last, &holder.name(), &gone), Some(&[][..]));
    }
}
