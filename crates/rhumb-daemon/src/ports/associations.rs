//! Datagrams of programs, of which those that belong together go one way for as long as somebody
//! uses it: what a connection is to TCP.
//!
//! INVARIANT: there are never more than may be, and whoever has most gives way to who has few. How
//! many names somebody may come by is not bounded here, but where connections are.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;

/// Whose an association is.
pub trait Belongs {
    /// What is shared fairly among those that differ here.
    type Owner: Eq + Hash;

    /// Who has it.
    fn owner(&self) -> Self::Owner;
}

/// Those that there are, each a task that takes what a program sends.
#[derive(Debug)]
pub struct Associations<K> {
    open: HashMap<K, Open>,
    tasks: JoinSet<()>,
    most: usize,
}

#[derive(Debug)]
struct Open {
    take: Sender<Vec<u8>>,
    used_at: Instant,
}

impl<K: Belongs + Clone + Eq + Hash> Associations<K> {
    /// None yet, of so many.
    pub fn new(most: usize) -> Self {
        Self { open: HashMap::new(), tasks: JoinSet::new(), most }
    }

    /// Hands a datagram to the association that it belongs to, which `begin` makes if there is
    /// none. Says whether it was taken: what comes faster than it leaves is not, nor what would
    /// need an association more than there may be.
    pub fn hand<F>(
        &mut self,
        key: &K,
        body: Vec<u8>,
        now: Instant,
        begin: impl FnOnce(Receiver<Vec<u8>>) -> F,
    ) -> bool
    where
        F: Future<Output = ()> + Send + 'static,
    {
        while self.tasks.try_join_next().is_some() {}
        let body = match self.open.get_mut(key) {
            None => body,
            Some(open) => match open.take.try_send(body) {
                Ok(()) => {
                    open.used_at = now;
                    return true;
                }
                Err(TrySendError::Full(_)) => return false,
                // It ended for want of use, or because what it led to is gone.
                Err(TrySendError::Closed(body)) => body,
            },
        };
        self.open.retain(|_, open| !open.take.is_closed());
        if self.open.len() >= self.most && !self.make_room(&key.owner()) {
            return false;
        }
        let (take, taken) = channel(WAITING);
        let is_taken = take.try_send(body).is_ok();
        self.open.insert(key.clone(), Open { take, used_at: now });
        self.tasks.spawn(begin(taken));
        is_taken
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.open.values().filter(|open| !open.take.is_closed()).count()
    }

    /// Ends the one that was used least lately of who has most, if that is more than `owner` would
    /// have.
    fn make_room(&mut self, owner: &K::Owner) -> bool {
        let mut counts: HashMap<K::Owner, usize> = HashMap::new();
        for key in self.open.keys() {
            *counts.entry(key.owner()).or_default() += 1;
        }
        let own = counts.get(owner).copied().unwrap_or(0);
        let Some(most) = counts.values().copied().max().filter(|most| *most > own + 1) else {
            return false;
        };
        let of_the_richest = self.open.iter().filter(|(key, _)| counts[&key.owner()] == most);
        let oldest =
            of_the_richest.min_by_key(|(_, open)| open.used_at).map(|(key, _)| key.clone());
        oldest.is_some_and(|key| self.open.remove(&key).is_some())
    }
}

/// An association that nobody uses for so long ends (RFC 4787, section 4.3).
pub const IDLE: Duration = Duration::from_secs(120);
/// Datagrams that wait for an association to take them.
const WAITING: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, PartialEq, Eq, Hash)]
    struct Key(&'static str, u16);

    impl Belongs for Key {
        type Owner = &'static str;

        fn owner(&self) -> &'static str {
            self.0
        }
    }

    /// Takes nothing, for ever.
    async fn hold(taken: Receiver<Vec<u8>>) {
        std::future::pending::<()>().await;
        drop(taken);
    }

    #[tokio::test]
    async fn who_has_many_gives_way_and_nobody_takes_all() {
        let mut all = Associations::new(8);
        let mut now = crate::clock::now().instant;
        let mut hand = |all: &mut Associations<Key>, key: Key| {
            now += Duration::from_millis(1);
            all.hand(&key, b"x".to_vec(), now, hold)
        };
        for n in 0..8 {
            assert!(hand(&mut all, Key("greedy", n)));
        }
        assert!(!hand(&mut all, Key("greedy", 8)), "he has all of them");
        assert!(hand(&mut all, Key("greedy", 0)), "and uses the first again");
        for n in 0..3 {
            assert!(hand(&mut all, Key("modest", n)));
        }
        assert_eq!(all.count(), 8);
        assert!(all.open.contains_key(&Key("greedy", 0)), "those unused longest went");
        assert!(!all.open.contains_key(&Key("greedy", 1)));
        assert!(hand(&mut all, Key("modest", 3)));
        assert!(!hand(&mut all, Key("modest", 4)), "four and four");
        assert!(hand(&mut all, Key("third", 0)));
    }

    #[tokio::test]
    async fn what_comes_too_fast_is_not_taken_and_what_has_ended_begins_anew() {
        let mut all = Associations::new(1);
        let now = crate::clock::now().instant;
        let key = Key("a", 0);
        let taken = (0..100).filter(|_| all.hand(&key, Vec::new(), now, hold)).count();
        assert_eq!(taken, WAITING);
        let mut brief = Associations::new(1);
        assert!(brief.hand(&key, Vec::new(), now, |taken| async move { drop(taken) }));
        while brief.count() > 0 {
            tokio::task::yield_now().await;
        }
        assert!(brief.hand(&Key("b", 0), Vec::new(), now, hold), "its place is free");
    }
}
