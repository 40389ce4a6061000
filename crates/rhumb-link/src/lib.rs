//! Secure links between names: DTLS handshakes, sealed records, rekeying, liveness. Sans-IO.
//!
//! An [`Endpoint`] is one UDP socket's worth of sessions. Datagrams and time go in, datagrams,
//! events and plaintext come out; it reads no clock and opens no socket. Paper: section 4.1 (dTLS
//! at each hop, names proven by their keys); the normative text is `docs/spec.md`.
//!
//! | module | what it holds |
//! |---|---|
//! | `endpoint` | the public face: handshakes, records, timers |
//! | `exchange` | one handshake, from hello to confirmed session |
//! | `handshake`, `dtls` | what a handshake library does for us; the one that does it |
//! | `elsewhere` | handshakes whose public-key work is done on another thread |
//! | `session`, `lane`, `lane_group`, `lane_table` | what a session keeps; one direction's keys and counter; eight of them; look-up by index |
//! | `worker`, `endpoint::sharing` | lanes that other threads open and seal on |
//! | `keys`, `aead`, `replay` | key schedule, sealing, replay window |
//! | `stream`, `endpoint::streams` | sessions over streams, which whoever has the endpoint carries |
//! | `records` | one lane each way by the keys of a connection between ends |
//! | `path`, `watch` | where the peer is; whether it still is |
//! | `path_size` | how large a datagram to it may be |
//! | `retry`, `hello`, `cookie`, `admission`, `peek` | what keeps strangers cheap |
//! | `source`, `rate`, `census` | where strangers come from, how much they may cost, and how many they are |
//!
//! Threats and what answers them: forged and replayed records (`lane`, `replay`);
//! spoofed hellos (`retry`, `cookie`); many half-open handshakes (`admission`); forged
//! alerts and answers (`peek`); amplification (`endpoint::foreign`, `path`); sessions
//! diverted by records from elsewhere (`path`); records for sessions that are on a stream,
//! and have no seal to tell them by (`stream`).

#![forbid(unsafe_code)]

mod admission;
mod aead;
mod census;
mod config;
mod cookie;
mod drop_reason;
mod dtls;
mod elsewhere;
mod endpoint;
mod error;
mod exchange;
#[cfg(any(fuzzing, test))]
#[doc(hidden)]
pub mod fuzz;
mod handshake;
mod hello;
mod keys;
mod lane;
mod lane_group;
mod lane_table;
mod path;
mod path_size;
mod peek;
mod rate;
mod records;
mod replay;
mod retry;
mod session;
mod session_map;
mod slots;
mod source;
mod stream;
mod timers;
mod together;
mod watch;
mod worker;

pub use admission::{Admission, Ticket};
pub use aead::{cipher_backend, cipher_choice, use_cipher};
pub use config::{
    Cipher, Config, DEFAULT_HALF_OPEN, DEFAULT_HALF_OPEN_PER_SOURCE, DEFAULT_HANDSHAKES,
    DEFAULT_HANDSHAKES_PER_SOURCE, DEFAULT_MAX_DATAGRAM_LEN, DEFAULT_SESSIONS,
    DEFAULT_SESSIONS_PER_SOURCE, DEFAULT_UDP_RETRY, Limits, MIN_DATAGRAM_LEN, WatchPeers,
};
pub use drop_reason::{DropReason, Drops};
pub use elsewhere::{HandshakeDone, HandshakeJob};
pub use endpoint::{AttemptId, Endpoint, Event, Opened};
pub use error::{HandshakeError, Incompatibility, LinkError};
pub use lane::{EPOCH_LIFETIME, EPOCH_PACKETS, MAX_EPOCHS_AHEAD};
pub use path_size::{CONFIRM_INTERVAL, RAISE_INTERVAL};
pub use rate::{Rate, TokenBucket, TokenBuckets};
pub use records::Records;
pub use retry::RETRY_TOKEN_LIFETIME;
pub use rhumb_aead::{Backend, Choice as CipherChoice, read_ahead};
pub use session::{CloseReason, KEEP_ALIVE, Peer, RENEWAL_INTERVAL, SILENCE, SessionId, Transport};
pub use session_map::SessionMap;
pub use source::Source;
pub use stream::{NewStream, StreamNews, StreamOrder};
pub use together::{Decrypted, Decryption};
pub use watch::{PROBE_INTERVAL, PROBES, QUIET};
pub use worker::{LaneReport, LaneUpdate, OpenedElsewhere, Taken, WorkerLanes};
