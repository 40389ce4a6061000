//! A queue of any length that never takes long to grow: in pieces, none of which is ever moved.

use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct Pieces<T>(VecDeque<VecDeque<T>>);

impl<T> Default for Pieces<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Pieces<T> {
    pub(crate) fn push(&mut self, value: T) {
        match self.0.back_mut().filter(|piece| piece.len() < PIECE) {
            Some(piece) => piece.push_back(value),
            None => self.0.push_back(VecDeque::from([value])),
        }
    }

    pub(crate) fn first(&self) -> Option<&T> {
        self.0.front()?.front()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten()
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        let piece = self.0.front_mut()?;
        let first = piece.pop_front();
        if piece.is_empty() {
            self.0.pop_front();
        }
        first
    }
}

/// Some 20 kB of what is queued here.
const PIECE: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_pushed_first_comes_out_first() {
        let (mut pieces, mut queue) = (Pieces::default(), VecDeque::new());
        for turn in 0..10 * PIECE {
            pieces.push(turn);
            queue.push_back(turn);
            if turn % 3 > 0 {
                assert_eq!(pieces.pop(), queue.pop_front());
            }
            assert_eq!(pieces.first(), queue.front());
            assert!(pieces.iter().take(600).eq(queue.iter().take(600)));
        }
        while let Some(first) = queue.pop_front() {
            assert_eq!(pieces.pop(), Some(first));
        }
        assert!(pieces.first().is_none() && pieces.pop().is_none());
    }
}
