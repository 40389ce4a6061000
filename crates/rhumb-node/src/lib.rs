//! The client library of Rhumb: join a router, be reached by name, send and receive by name.
//!
//! ```no_run
//! use std::sync::Arc;
//! use rhumb_node::{Admits, Config, Name, Node, RouterChoice, load_key};
//!
//! # async fn run(key: &std::path::Path, friend: Name) -> Result<(), Box<dyn std::error::Error>> {
//! let identity = Arc::new(load_key(key, None)?);
//! let node = Node::join(identity, Config::new(RouterChoice::discovered())).await?;
//! println!("I am {}", node.name());
//!
//! let mut port = node.bind(7, Admits::Everybody)?;
//! port.send_to(friend, 7, b"hello").await?;
//! while let Some(message) = port.receive().await {
//!     println!("{} says {:?}", message.from, message.body);
//!     port.send_to(message.from, 7, b"and hello to you").await?;
//! }
//! node.leave().await;
//! # Ok(())
//! # }
//! ```
//!
//! [`Node`] has a thread of its own, which encrypts, resends what routers refuse for the
//! moment, renews the lease and reconnects; its methods are futures for any tokio runtime.
//! [`Node::open`] opens a stream to a port of another name, which [`Node::listen`] takes
//! there: what goes over it is encrypted from end to end, as are datagrams ([`Node::bind`]).
//! Files go by [`Node::send_file`] and [`Node::receive_file`]. [`Node::serve`] lets a node answer
//! for names whose keys it does not hold. [`Node::ping`] and [`Node::trace`] tell whether and
//! over which routers a name is reached.
//!
//! `examples/hello.rs` is a whole program.
//!
//! | module | what it holds |
//! |---|---|
//! | [`core`] | the node without I/O, for other drivers and for simulations |
//! | [`ip`] | IP packets between names, without device and connections |
//! | [`foreign`] | what bindings for other languages share |
//! | [`joined`] | a network that a host is a member of, as it lies in the host's files |
//! | [`discovery`] | the links of a host, and the router's side of being found on them |
//! | [`transfer`] | what files are read from and written to, and why they do not arrive |

#![forbid(unsafe_code)]

mod clock;
mod config;
mod connections;
pub mod core;
mod datagrams;
pub mod discovery;
mod driver;
mod error;
pub mod foreign;
#[cfg(all(any(fuzzing, test), target_os = "linux"))]
pub mod fuzz;
mod group;
#[cfg(target_os = "linux")]
pub mod ip;
pub mod joined;
mod mailbox;
mod node;
mod packets;
mod senders;
mod service;
mod site;
pub mod transfer;

pub use config::{
    Config, DEFAULT_GIVE_UP_AFTER, DEFAULT_JOIN_TIMEOUT, DEFAULT_LEASE_S, Remote, RouterChoice,
};
pub use connections::{Connection, Listener, Stream, stream_error};
pub use datagrams::{Port, PortSender};
pub use driver::{GroupState, ServiceState, Standing, StandingWatch};
pub use error::{GroupError, NodeError, PingError, SendError, ServeError};
pub use group::Group;
pub use node::{Hop, Message, Node, PingReply, PlainPort, Status};
pub use packets::{Block, PacketPort};
pub use senders::{Refusal, Wanted};
pub use service::Service;
pub use transfer::{ReceiveReport, SendReport};

// What these are told and tell, so that a program needs this crate alone.
pub use rhumb_end::{
    Admits, BUSY, CANCELLED, ConnectionStatus, DatagramError, EndError, NOT_ALLOWED, PORT_CLOSED,
    Packets, SERVICE_FAILED, StreamError,
};
pub use rhumb_trust::{
    Access, AdCert, Export, Identity, Membership, Passphrase, Rule, TrustError, load_key, save_key,
};
pub use rhumb_wire::group::Part;
pub use rhumb_wire::{Metadata, Name, Role};
