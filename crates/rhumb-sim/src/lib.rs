//! A seeded world on a virtual clock, for tests of whole systems: the production cores of RIBs,
//! routers and nodes, joined by links that lose, delay, reorder, double, break and queue datagrams,
//! under faults that a test or a seed decides.
//!
//! ```
//! use std::time::Duration;
//! use rhumb_sim::{Conditions, World};
//!
//! let mut world = World::new(7, Conditions::ROUGH);
//! world.add_rib();
//! let routers = world.add_line(3);
//! let (a, b) = (world.add_node(routers[0]), world.add_node(routers[2]));
//! world.run(Duration::from_secs(20));
//! world.send(a, b, 100).expect("there is room");
//! world.run(Duration::from_secs(5));
//! println!("{} arrived", world.received(b).len());
//! ```
//!
//! Nothing here knows how the system works: stations get datagrams and the time, and what they send
//! is carried. After every event the [`witness`] checks what must never happen ([`Violation`]); a
//! violation is a panic that names the seed. Chance, keys, secrets and faults follow from the seed,
//! so a run can be repeated. What cannot be repeated: the randomness inside of handshakes, with the
//! spread of their retransmissions; see [`Conditions::spares_handshakes`].
//!
//! | module | what it holds |
//! |---|---|
//! | `world` | the stations, the clock, and what happens next |
//! | `script` | what a test says and asks |
//! | `building` | adding stations: RIBs, routers, nodes, outsiders, whole topologies |
//! | [`fault`] | what can be done to stations and links |
//! | [`conditions`], `network` | what links do; who is where |
//! | `station`, `router`, `node`, `rib`, [`outsider`] | the parties, and how each is driven |
//! | [`witness`] | what must never happen |
//! | [`scenario`] | whole lives of random worlds |
//! | `random`, `key`, `agenda` | chance and keys from a seed; the order of events |

#![forbid(unsafe_code)]

mod agenda;
mod building;
pub mod conditions;
pub mod fault;
mod key;
mod link;
mod network;
mod node;
pub mod outsider;
mod random;
mod rib;
mod router;
pub mod scenario;
mod script;
mod station;
pub mod witness;
mod world;

pub use conditions::Conditions;
pub use fault::Fault;
pub use network::{Fates, Flight};
pub use outsider::Outsider;
pub use random::Random;
pub use rib::{Disk, Lie};
pub use router::VERIFIER_TIME;
pub use station::StationId;
pub use witness::{Message, Violation};
pub use world::{Delivery, START_S, Totals, World};
