//! What stands for `side_by_side` on processors for which there is none: there is no width, and so
//! there are no tables.

use crate::{Backend, Record};

/// None is ever made. Not an `enum` without variants, or whoever uses it would be told that what
/// stands behind is never reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "never made, as it says")]
pub(crate) struct Width(());

/// There are none.
pub(crate) enum Tables {}

/// There is nothing to ask for it with.
#[inline]
pub(crate) fn read_ahead<T>(_: &T) {}

impl Tables {
    /// # Panics
    /// Always.
    pub(crate) fn new(_: Width, _: &[u8]) -> Box<Self> {
        panic!("there are tables only where there is a width")
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
        Backend::Library
    }

    pub(crate) fn is_possible(self) -> bool {
        false
    }

    pub(crate) fn lanes(self) -> usize {
        1
    }
}
