//! What somebody keeps of each session of an endpoint, found by one index and one comparison.

use std::fmt;

use crate::SessionId;
use crate::slots::Slots;

/// What is kept of sessions. There is room for one where a session and its successors in the same
/// place are: what is entered for a later one takes the place of an earlier one's.
pub struct SessionMap<T>(Slots<T>);

impl<T> SessionMap<T> {
    /// What is kept of a session.
    #[inline]
    pub fn get(&self, session: SessionId) -> Option<&T> {
        self.0.get(session.0)
    }

    /// The same, to be changed.
    #[inline]
    pub fn get_mut(&mut self, session: SessionId) -> Option<&mut T> {
        self.0.get_mut(session.0)
    }

    /// Keeps something of a session that is there now, in the place of what was kept of it.
    pub fn insert(&mut self, session: SessionId, value: T) {
        self.0.put(session.0, value);
    }

    /// Takes out what is kept of a session.
    pub fn remove(&mut self, session: SessionId) -> Option<T> {
        self.0.borrow(session.0)
    }

    /// All sessions of which something is kept.
    pub fn iter(&self) -> impl Iterator<Item = (SessionId, &T)> {
        self.0.iter().map(|(key, value)| (SessionId(key), value))
    }
}

impl<T> Default for SessionMap<T> {
    fn default() -> Self {
        Self(Slots::new())
    }
}

impl<T> fmt::Debug for SessionMap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(|(session, _)| session)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_finds_its_own_and_never_what_is_of_another_in_its_place() {
        let mut sessions = Slots::new();
        let mut id = |ended: Option<SessionId>| {
            ended.map(|ended| sessions.remove(ended.0));
            SessionId(sessions.insert(()))
        };
        let (first, far) = (id(None), id(None));
        let mut map = SessionMap::default();
        assert_eq!(map.get(far), None);
        map.insert(far, 'a');
        map.insert(far, 'b');
        map.insert(first, 'c');
        let second = id(Some(first));
        assert_eq!((map.get(first), map.get(second)), (Some(&'c'), None));
        map.insert(second, 'd');
        assert_eq!(map.get(first), None);
        assert_eq!(map.remove(first), None);
        assert_eq!(map.iter().collect::<Vec<_>>(), [(second, &'d'), (far, &'b')]);
        assert_eq!((map.remove(second), map.get_mut(second)), (Some('d'), None));
    }
}
