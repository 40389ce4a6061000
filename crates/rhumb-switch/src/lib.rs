//! The sans-IO switch: datagrams in, datagrams out,
//! forwarding PDUs by name (GDP paper, sections 3 and 4).
//!
//! A [`Switch`] is driven by whoever owns the sockets and the clock:
//!
//! 1. [`Switch::handle_batch`] takes a batch of received
//!    datagrams and turns it into the batch to send.
//! 2. [`Switch::poll_job`] hands out public-key work; run it elsewhere
//!    and give it back to [`Switch::handle_done`].
//! 3. [`Switch::poll_transmit`] appends the switch's own datagrams; do this after every other call.
//! 4. [`Switch::poll_timeout`] says when to call [`Switch::handle_timeout`] at the latest.
//! 5. [`Switch::poll_event`] tells what happened, for logs and start-up.
//!
//! Several switches of a process, one for each worker, share
//! what they learn of the world in one [`Tables`].
//!
//! A switch may have other workers, each a [`FastPath`]
//! on a thread of its own: [`Switch::fast_path`].
//!
//! Per datagram, the known flow is the whole path: open, one look-up, TTL, seal, in place, no
//! allocation, no public-key operation (`forward`). Everything else is the slow path (`admit`): who
//! may send, where it goes, what to ask.
//!
//! | file | what it holds |
//! |---|---|
//! | `forward` | per batch and per packet: the path of a known flow |
//! | `admit` | per flow: rights, routes, presenting chains |
//! | `control` | per name and per session: advertisements, acceptances, link events |
//! | `rib_answers` | what RIBs answer and tell unasked, and what it changes here |
//! | `transit` | stamped PDUs, from foreign peers and to peers that demand capabilities |
//! | `border`, `stamps` | what is demanded of foreign peers; what there is for peers that demand |
//! | `answer` | NACKs and PDUs that travel backward |
//! | `joining`, `neighbour`, `budgets` | who may join and how it is treated; what a session, and where it comes from, may cost us |
//! | `reach` | where locators may make us connect to |
//! | `doubts` | ways that somebody complains of |
//! | `directory` | the RIB client: sessions, questions, publications |
//! | `fast_path`, `workers` | the path of a known flow on other threads; what they and the switch tell each other |
//! | `flows` | known flows, by label and by names |
//! | `changes` | what changed, and when: whether a flow still stands |
//! | `routes` | where names are, as one switch sees it |
//! | `tables`, `newest` | what is known of the world, shared by the switches of a process |
//! | `table`, `eviction` | a table that cannot grow beyond its bound, and what goes when it is full |
//! | `saved` | routes that outlive the process |
//! | `job`, `jobs`, `turns` | what runs off the worker; who may cause how much of it; whose turn it is |

#![forbid(unsafe_code)]

mod admission;
mod admit;
mod answer;
mod border;
mod budgets;
mod chance;
mod changes;
mod config;
mod control;
mod counters;
mod directory;
mod doubts;
mod drop_reason;
mod event;
mod eviction;
mod fast_path;
mod flows;
mod forward;
mod grants;
mod hand_over;
mod job;
mod jobs;
mod joining;
mod neighbour;
mod newest;
mod passes;
mod peering;
mod plane;
mod publishing;
mod reach;
mod rib_answers;
mod routes;
mod saved;
mod stamps;
mod standing_by;
mod status;
mod switch;
mod table;
mod tables;
mod transit;
mod turns;
mod upstreams;
mod workers;

pub use border::{Border, PDU_PROTOCOL, short_address};
pub use config::{
    Config, DEFAULT_LEASE_S, DEFAULT_MAX_FLOWS, DEFAULT_MAX_GRANTS, DEFAULT_MAX_PUBLICATIONS,
    DEFAULT_MAX_ROUTES, Remote,
};
pub use counters::Counters;
pub use drop_reason::DropReason;
pub use event::Event;
pub use fast_path::{FastPath, MAX_HAND_OVERS};
pub use hand_over::{HandOver, Order};
pub use job::{Done, Job};
pub use reach::{Network, NotANetwork};
pub use saved::{SavedRoutes, SavedRoutesError};
pub use stamps::{NamePrefix, Stamp, Stamps};
pub use status::{
    AttachedStatus, CertificateStatus, FlowStatus, GrantStatus, LISTED, RefusedStatus, RibStatus,
    SessionStatus, StampStatus, Status, TableStatus, UpstreamStatus, Wanted, WorkerStatus,
};
pub use switch::Switch;
pub use tables::Tables;
