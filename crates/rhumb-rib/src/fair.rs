//! What waits, in turns: each payer has one, and within a payer each
//! asker, so that nobody waits for another's flood.
//!
//! INVARIANT: a payer is in the turn if and only if something of it waits and it is not parked.

use std::collections::{HashMap, VecDeque};

use rhumb_wire::Name;

use crate::share::Payer;

#[derive(Debug)]
pub(crate) struct FairQueue<T> {
    lines: HashMap<Payer, Line<T>>,
    turn: VecDeque<Payer>,
    len: usize,
}

/// What waits of one payer.
#[derive(Debug)]
struct Line<T> {
    by_asker: HashMap<Name, VecDeque<T>>,
    turn: VecDeque<Name>,
    len: usize,
    is_parked: bool,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self { lines: HashMap::new(), turn: VecDeque::new(), len: 0 }
    }
}

impl<T> FairQueue<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// How much of one payer waits.
    pub(crate) fn len_of(&self, payer: &Payer) -> usize {
        self.lines.get(payer).map_or(0, |line| line.len)
    }

    /// Whether anything waits of a payer that is not parked.
    pub(crate) fn is_ready(&self) -> bool {
        !self.turn.is_empty()
    }

    pub(crate) fn push(&mut self, payer: Payer, asker: Name, item: T) {
        let line = self.lines.entry(payer).or_insert_with(|| {
            self.turn.push_back(payer);
            Line { by_asker: HashMap::new(), turn: VecDeque::new(), len: 0, is_parked: false }
        });
        line.push(asker, item);
        self.len += 1;
    }

    /// The next whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<(Payer, T)> {
        let payer = self.turn.pop_front()?;
        let line = self.lines.get_mut(&payer)?;
        let item = line.pop()?;
        match line.len {
            0 => _ = self.lines.remove(&payer),
            _ => self.turn.push_back(payer),
        }
        self.len -= 1;
        Some((payer, item))
    }

    /// The payer whose turn it is.
    pub(crate) fn next(&self) -> Option<Payer> {
        self.turn.front().copied()
    }

    /// Takes the payer whose turn it is out of the turn, until it is called back.
    pub(crate) fn park_next(&mut self) {
        if let Some(payer) = self.turn.pop_front()
            && let Some(line) = self.lines.get_mut(&payer)
        {
            line.is_parked = true;
        }
    }

    /// Puts a payer that was parked into the turn again.
    pub(crate) fn call_back(&mut self, payer: &Payer) {
        if let Some(line) = self.lines.get_mut(payer).filter(|line| line.is_parked) {
            line.is_parked = false;
            self.turn.push_back(*payer);
        }
    }
}

impl<T> Line<T> {
    fn push(&mut self, asker: Name, item: T) {
        let waiting = self.by_asker.entry(asker).or_default();
        if waiting.is_empty() {
            self.turn.push_back(asker);
        }
        waiting.push_back(item);
        self.len += 1;
    }

    fn pop(&mut self) -> Option<T> {
        let asker = self.turn.pop_front()?;
        let waiting = self.by_asker.get_mut(&asker)?;
        let item = waiting.pop_front()?;
        match waiting.is_empty() {
            true => _ = self.by_asker.remove(&asker),
            false => self.turn.push_back(asker),
        }
        self.len -= 1;
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_link::Source;

    fn payer(n: u8) -> Payer {
        Payer::Stranger(Source::V4([192, 0, 2, n]))
    }

    #[test]
    fn payers_take_turns_and_their_askers_within() {
        let mut queue = FairQueue::default();
        for item in 0..100 {
            queue.push(payer(1), Name([1; 32]), item);
        }
        queue.push(payer(1), Name([2; 32]), 100);
        queue.push(payer(2), Name([3; 32]), 200);
        queue.push(payer(2), Name([3; 32]), 201);
        assert_eq!((queue.len(), queue.len_of(&payer(1))), (103, 101));
        let taken: Vec<i32> = std::iter::from_fn(|| queue.pop()).map(|(_, item)| item).collect();
        assert_eq!(taken[..6], [0, 200, 100, 201, 1, 2]);
        assert_eq!((taken.len(), queue.len(), queue.lines.len(), queue.turn.len()), (103, 0, 0, 0));
    }

    #[test]
    fn who_is_parked_holds_up_nobody_and_comes_back() {
        let mut queue = FairQueue::default();
        queue.push(payer(1), Name([1; 32]), 1);
        queue.push(payer(2), Name([1; 32]), 2);
        assert_eq!(queue.next(), Some(payer(1)));
        queue.park_next();
        queue.push(payer(1), Name([1; 32]), 3);
        assert_eq!(queue.pop(), Some((payer(2), 2)));
        assert_eq!((queue.pop(), queue.is_ready()), (None, false));
        queue.call_back(&payer(1));
        queue.call_back(&payer(1));
        assert_eq!(queue.pop(), Some((payer(1), 1)));
        assert_eq!(queue.pop(), Some((payer(1), 3)));
        assert_eq!(queue.pop(), None);
    }
}
