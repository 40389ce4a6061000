//! The backend of aarch64: registers have one width there.

use std::arch::asm;

pub(super) use super::{neon as narrowest, neon as widest};
use crate::Backend;

/// How many blocks a register has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    One,
}

impl Width {
    /// That of a backend, if it is this one.
    #[inline]
    pub(crate) fn of(backend: Backend) -> Option<Self> {
        (backend == Backend::Neon).then_some(Self::One)
    }

    /// Whose it is.
    #[inline]
    pub(crate) fn backend(self) -> Backend {
        match self {
            Self::One => Backend::Neon,
        }
    }
}

/// An expression in which `$backend` is the module of a width. A macro, since a module is no value.
macro_rules! by_width {
    ($width:expr, $backend:ident => $of_backend:expr) => {
        match $width {
            Width::One => {
                use neon as $backend;
                $of_backend
            }
        }
    };
}

/// Asks for a line of memory.
#[inline]
pub(super) fn prefetch(line: *const u8) {
    // SAFETY: the instruction changes nothing that a program can see, whatever the address. The
    // intrinsic for it is not stable.
    unsafe {
        asm!("prfm pldl1keep, [{line}]", line = in(reg) line, options(nostack, preserves_flags));
    }
}
