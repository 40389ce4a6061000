//! A queue of any length that never takes long to grow: in pieces, none of which is ever moved.

use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct Pieces<T> {
    pieces: VecDeque<VecDeque<T>>,
    len: usize,
}

impl<T> Default for Pieces<T> {
    fn default() -> Self {
        Self { pieces: VecDeque::new(), len: 0 }
    }
}

impl<T> Pieces<T> {
    pub(crate) fn push(&mut self, value: T) {
        self.len += 1;
        match self.pieces.back_mut().filter(|piece| piece.len() < PIECE) {
            Some(piece) => piece.push_back(value),
            None => self.pieces.push_back(VecDeque::from([value])),
        }
    }

    pub(crate) fn first(&self) -> Option<&T> {
        self.pieces.front()?.front()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.pieces.iter().flatten()
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        let piece = self.pieces.front_mut()?;
        let first = piece.pop_front();
        self.len -= usize::from(first.is_some());
        if piece.is_empty() {
            self.pieces.pop_front();
        }
        first
    }

    pub(crate) fn len(&self) -> usize {
        self.len
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
            assert_eq!((pieces.first(), pieces.len()), (queue.front(), queue.len()));
            assert!(pieces.iter().take(600).eq(queue.iter().take(600)));
        }
        while let Some(first) = queue.pop_front() {
            assert_eq!(pieces.pop(), Some(first));
        }
        assert!(pieces.first().is_none() && pieces.pop().is_none());
    }
}
