//! What stands for `side_by_side` on processors for which there is none: no width is possible, so
//! that no tables are ever made.

use crate::Record;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "the same as where there are some")]
pub(crate) enum Width {
    Four,
    Two,
    One,
}

/// There are none.
pub(crate) enum Tables {}

impl Tables {
    /// # Panics
    /// Always.
    pub(crate) fn new(_: Width, _: &[u8]) -> Box<Self> {
        panic!("there are tables only where a width is possible")
    }

    pub(crate) fn width(&self) -> Width {
        match *self {}
    }

    pub(crate) fn read_ahead(&self, _: usize) {
        match *self {}
    }

    pub(crate) fn seal(&self, _: &mut [Record<'_>]) {
        match *self {}
    }

    pub(crate) fn open(&self, _: &mut [Record<'_>]) -> u64 {
        match *self {}
    }
}

impl Width {
    pub(crate) fn is_possible(self) -> bool {
        false
    }

    pub(crate) fn lanes(self) -> usize {
        1
    }
}
