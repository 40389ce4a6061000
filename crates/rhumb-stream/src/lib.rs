//! Links over TLS on TCP: the way where UDP is blocked (`docs/spec.md`, section 4.7).
//!
//! A [`Carrier`] is a socket's packet I/O with streams beside it. Frames that come on a stream
//! stand in a batch as sealed datagrams do, from an address that no datagram can come from, and
//! what is sent to such an address goes out in large TLS records. So whoever forwards batches
//! treats both alike, and `rhumb-link` tells them apart.
//!
//! | module | what it holds |
//! |---|---|
//! | `carrier` | UDP and streams as one; what the endpoint and they tell each other |
//! | `streams`, `stream` | connections that carry frames; one of them |
//! | `greeter`, `half_open` | the thread on which others dial in and we dial out; one handshake |
//! | `credentials`, `tls` | how names are proven; a handshake by rustls |
//! | `protected`, `record` | a connection after its handshake; its records, by our own AEAD |
//! | `poller` | waiting for many sockets as for one |
//!
//! What strangers can make it hold: handshakes, which `rhumb_link::Admission` counts, all in all
//! and by source, each for [`HANDSHAKE_TIME`] at most, on a thread that gives way; connections, a
//! number of them in all; for each of these one TLS record that has not come whole, and
//! [`MAX_BACKLOG`] bytes that are not taken. A connection that neither carries nor waits for
//! anything holds no buffer.

#![forbid(unsafe_code)]

mod carrier;
mod counters;
mod credentials;
mod error;
#[cfg(any(fuzzing, test))]
pub mod fuzz;
mod greeter;
mod half_open;
#[cfg_attr(not(target_os = "linux"), path = "no_poller.rs")]
mod poller;
mod protected;
mod record;
mod stream;
mod streams;
mod tls;

pub use carrier::{Carrier, OnStreams};
pub use counters::StreamCounters;
pub use error::StreamError;
pub use greeter::{Listening, listen};
pub use half_open::HANDSHAKE_TIME;
pub use stream::MAX_BACKLOG;
pub use streams::Settings;
