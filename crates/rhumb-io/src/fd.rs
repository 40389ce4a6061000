//! What can be waited for, by one name on all systems: descriptors, and on Windows sockets, of
//! which alone it waits as others do for descriptors.

#[cfg(windows)]
pub use rustix::fd::{AsFd, BorrowedFd};
#[cfg(not(windows))]
pub use std::os::fd::{AsFd, BorrowedFd};
