//! The driver's ends of handles that stand for a name each, such as a name served or a group: they
//! are told how it stands, the latest word only.

use std::collections::HashMap;

use rhumb_wire::Name;
use tokio::sync::watch;

/// Whom to tell how names stand.
pub(super) struct Watched<S> {
    states: HashMap<Name, watch::Sender<S>>,
}

impl<S> Default for Watched<S> {
    fn default() -> Self {
        Self { states: HashMap::new() }
    }
}

impl<S: Copy + PartialEq> Watched<S> {
    /// Takes over to tell about `name`; whoever was told before is told no more.
    pub(super) fn begin(&mut self, name: Name, state: watch::Sender<S>) {
        self.states.insert(name, state);
    }

    /// A handle of `name` is gone. Whether it was the last: a name that was begun anew has another
    /// one.
    pub(super) fn end(&mut self, name: Name) -> bool {
        let is_last = self.states.get(&name).is_some_and(watch::Sender::is_closed);
        if is_last {
            self.states.remove(&name);
        }
        is_last
    }

    /// Whether a name has a handle.
    pub(super) fn has(&self, name: Name) -> bool {
        self.states.contains_key(&name)
    }

    pub(super) fn tell(&self, name: Name, news: S) {
        if let Some(state) = self.states.get(&name) {
            state.send_replace(news);
        }
    }

    /// Tells all whose name stands otherwise, unless it is settled in a way that stays.
    pub(super) fn tell_all(&self, news: S, stays: impl Fn(&S) -> bool) {
        for state in self.states.values() {
            state.send_if_modified(|state| !stays(state) && std::mem::replace(state, news) != news);
        }
    }
}
