//! The backends of x86-64: which width is whose.

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

pub(super) use super::{narrow as narrowest, wide as widest};
use crate::Backend;

/// How many blocks a register has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Four,
    Two,
    One,
}

impl Width {
    /// That of a backend, if it is one of these.
    #[inline]
    pub(crate) fn of(backend: Backend) -> Option<Self> {
        match backend {
            Backend::Avx512 => Some(Self::Four),
            Backend::Avx2 => Some(Self::Two),
            Backend::AesNi => Some(Self::One),
            Backend::Neon | Backend::Library => None,
        }
    }

    /// Whose it is.
    #[inline]
    pub(crate) fn backend(self) -> Backend {
        match self {
            Self::Four => Backend::Avx512,
            Self::Two => Backend::Avx2,
            Self::One => Backend::AesNi,
        }
    }
}

/// An expression in which `$backend` is the module of a width. A macro, since a module is no value.
macro_rules! by_width {
    ($width:expr, $backend:ident => $of_backend:expr) => {
        match $width {
            Width::Four => {
                use wide as $backend;
                $of_backend
            }
            Width::Two => {
                use middle as $backend;
                $of_backend
            }
            Width::One => {
                use narrow as $backend;
                $of_backend
            }
        }
    };
}

/// Asks for a line of memory.
#[inline]
pub(super) fn prefetch(line: *const u8) {
    // SAFETY: SSE is part of x86-64. The instruction changes nothing that a program can see,
    // whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
}
