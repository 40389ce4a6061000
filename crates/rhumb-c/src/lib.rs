//! Rhumb for C, and so for all languages that can call it: `include/rhumb.h` says what each call
//! does, and is compared with this by a test.
//!
//! Calls wait on the thread that makes them. A handle is a `Here` on the heap, of the process that
//! made it, and is used by shared references alone, so that threads may share it.
//!
//! | module | what it holds |
//! |---|---|
//! | `border` | what comes from C, looked at before it is used; panics end there |
//! | `node` | keys, joining, pings, names that are served |
//! | `port` | datagrams |
//! | `stream` | streams, and who opens them |

#![allow(unsafe_code)] // This crate is the border to a language that has nothing else.

mod border;
pub mod node;
pub mod port;
pub mod stream;
