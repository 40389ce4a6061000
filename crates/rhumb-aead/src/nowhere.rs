//! What stands for `side_by_side` on processors for which there is none: there is no width, and so
//! there are no tables.

use crate::{Backend, Record};

/// There are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {}

/// There are none.
pub(crate) enum Tables {}

impl Tables {
    pub(crate) fn new(width: Width, _: &[u8]) -> Box<Self> {
        match width {}
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
    pub(crate) fn of(_: Backend) -> Option<Self> {
        None
    }

    pub(crate) fn backend(self) -> Backend {
        match self {}
    }

    pub(crate) fn is_possible(self) -> bool {
        match self {}
    }

    pub(crate) fn lanes(self) -> usize {
        match self {}
    }
}
