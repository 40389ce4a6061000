//! The places for connections: whoever has shown nothing makes room for whoever comes.
//!
//! Connections cost nothing, and a port on loopback is open to every user of the machine. So there
//! is no queue that somebody could fill: when all places are taken, the oldest connection that has
//! not shown a session is cut, and only if all have, the oldest of them. A browser asks within
//! milliseconds of connecting, so it is through before a flood has gone once around.
//!
//! Invariant: at most [`MOST_CONNECTIONS`].

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

/// All places.
#[derive(Debug, Default)]
pub(crate) struct Places {
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    next: u64,
    /// The oldest first.
    all: VecDeque<Holder>,
    /// How many were cut to make room.
    cut: u64,
}

#[derive(Debug)]
struct Holder {
    number: u64,
    is_known: bool,
    task: Option<AbortHandle>,
}

/// One place, which is free again when this is dropped. Clones are the same place.
#[derive(Debug, Clone)]
pub(crate) struct Place(Arc<Taken>);

#[derive(Debug)]
struct Taken {
    places: Arc<Places>,
    number: u64,
}

impl Places {
    /// Takes a place, for which another one may lose his.
    pub(crate) fn take(self: &Arc<Self>) -> Place {
        let mut held = self.lock();
        if held.all.len() >= MOST_CONNECTIONS {
            let unknown = held.all.iter().position(|it| !it.is_known);
            let cut = held.all.remove(unknown.unwrap_or(0));
            if let Some(task) = cut.and_then(|it| it.task) {
                task.abort();
            }
            held.cut += 1;
            if held.cut.is_power_of_two() {
                tracing::warn!(cut = held.cut, "connections of browsers were cut: too many come");
            }
        }
        let number = held.next;
        held.next += 1;
        held.all.push_back(Holder { number, is_known: false, task: None });
        Place(Arc::new(Taken { places: Arc::clone(self), number }))
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Says which task is cut when the place is wanted for another one. One that has lost it
    /// already is cut at once.
    pub(crate) fn is_of(&self, task: AbortHandle) {
        match self.0.holder(&mut self.0.places.lock()) {
            Some(holder) => holder.task = Some(task),
            None => task.abort(),
        }
    }

    /// Says that whoever holds it has shown a session.
    pub(crate) fn is_known(&self) {
        if let Some(holder) = self.0.holder(&mut self.0.places.lock()) {
            holder.is_known = true;
        }
    }
}

impl Taken {
    fn holder<'a>(&self, held: &'a mut Held) -> Option<&'a mut Holder> {
        held.all.iter_mut().find(|it| it.number == self.number)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.places.lock().all.retain(|it| it.number != self.number);
    }
}

/// Six of each browser that looks, and room for strangers to come and go.
pub(crate) const MOST_CONNECTIONS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_has_shown_nothing_makes_room_the_oldest_first() {
        let places = Arc::new(Places::default());
        let known = places.take();
        known.is_known();
        let mut others = Vec::new();
        for _ in 1..MOST_CONNECTIONS {
            let place = places.take();
            let task = tokio::spawn(std::future::pending::<()>());
            place.is_of(task.abort_handle());
            others.push((place, task));
        }
        let _new = places.take();
        assert_eq!(places.lock().all.len(), MOST_CONNECTIONS);
        let (_, first) = &mut others[0];
        assert!(first.await.unwrap_err().is_cancelled());
        assert!(!others[1].1.is_finished());
        assert!(places.lock().all.iter().any(|it| it.is_known));
        others.iter().for_each(|(_, task)| task.abort());
    }

    #[tokio::test]
    async fn a_flood_of_the_known_cuts_the_oldest_of_them_and_places_are_given_back() {
        let places = Arc::new(Places::default());
        let all: Vec<Place> = (0..MOST_CONNECTIONS).map(|_| places.take()).collect();
        all.iter().for_each(Place::is_known);
        let new = places.take();
        assert_eq!(places.lock().all.front().map(|it| it.number), Some(1));
        drop((all, new));
        assert!(places.lock().all.is_empty());
    }

    #[tokio::test]
    async fn who_lost_his_place_before_he_could_be_cut_is_cut_then() {
        let places = Arc::new(Places::default());
        let late = places.take();
        let others: Vec<Place> = (0..MOST_CONNECTIONS).map(|_| places.take()).collect();
        let task = tokio::spawn(std::future::pending::<()>());
        late.is_of(task.abort_handle());
        assert!(task.await.unwrap_err().is_cancelled());
        drop(others);
    }
}
