//! The native half of the Python package `rhumb`. Its other half, in `python/rhumb`, is what
//! programs see: asyncio's streams, iterators and context managers around what is here.
//!
//! 1. A method that waits takes a courier and a future of the event loop that asks.
//!    The work is a task of the runtime in `rhumb_node::foreign`, without the interpreter.
//! 2. What it comes to goes into the courier's queue, and the loop is woken by a socket.
//! 3. The loop has the courier deliver: futures are fulfilled there, on the loop's own thread.
//!
//! INVARIANT: no thread of Rust ever enters the interpreter, so that nothing of Python's is touched
//! while it ends, when a loop is closed, or without its lock. And nothing that was made before a
//! fork is used, or let go, after it (`rhumb_node::foreign::Here`).

#![forbid(unsafe_code)]
// What Python gives is extracted for the call alone.
#![allow(clippy::needless_pass_by_value)]

mod courier;
mod error;
mod intake;
mod key;
mod node;
mod progress;
mod stream;

use pyo3::prelude::*;

/// The native half of the package `rhumb`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::courier::Courier;
    #[pymodule_export]
    use crate::intake::{Listener, Port};
    #[pymodule_export]
    use crate::key::{AdCert, Identity};
    #[pymodule_export]
    use crate::node::{Node, Service};
    #[pymodule_export]
    use crate::progress::Progress;
    #[pymodule_export]
    use crate::stream::Stream;

    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
