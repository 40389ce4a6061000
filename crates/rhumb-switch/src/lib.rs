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
//! allocation, no public-key operation (`passes`, the same on every worker). Everything else is the
//! slow path (`admit`): who may send, where it goes, what to ask.
//!
//! A switch has nine parts, which keep their fields to themselves. Files of the switch's own
//! methods say what happens between them.
//!
//! | part | files | what it holds |
//! |---|---|---|
//! | plane | `plane`, `flows`, `index`, `workers`, `counters`, `event` | sessions, flows, the other workers; what is sent, told and counted |
//! | admission | `admission`, `grants`, `joining`, `neighbour`, `budgets`, `limits` | who may carry for whom, how peers are treated, what they may cost us and what their domains leave them |
//! | peering | `peering`, `upstreams`, `reach`, `nearest` | sessions that this router begins, where to it may, and which of several is the nearest |
//! | publishing | `publishing`, `standing_by` | what this router says, and has RIBs keep |
//! | transit | `transit`, `border`, `stamps`, `domain` | the border of a domain: stamped PDUs, from foreign peers and to peers that demand it; what the inside shows outside |
//! | jobs | `jobs`, `job`, `turns` | what runs off the worker; who may cause how much of it; whose turn it is |
//! | directory | `rhumb_directory` | the RIB client: sessions, questions, publications; ways that somebody complains of |
//! | groups | `groups` | names that many receive what is sent to: who is a part of each, and what next routers are to be told of it |
//! | routes | `routes`, `tables`, `newest`, `changes` | where names are; what is shared by the switches of a process; what changed, and when |
//!
//! | file | what happens there |
//! |---|---|
//! | `passes`, `forward`, `fast_path` | per packet: the three passes, by the switch and by its other workers |
//! | `admit` | per flow: rights, presenting chains |
//! | `next_hop` | per flow: where it goes; by `nearest`, where several ways lead there |
//! | `joins` | per member of a group: memberships, removals, what next routers answer |
//! | `spread` | per PDU to a group: copies, each way once |
//! | `answer` | NACKs and PDUs that travel backward |
//! | `control` | per name: advertisements, acceptances, verdicts |
//! | `members` | per name, flow and PDU of a member: whether its domain leaves it that |
//! | `rib_answers` | what RIBs answer and tell unasked, and what it changes here |
//! | `removals` | who is a member of a domain no longer |
//! | `heads` | what RIBs' logs prove, and what routers tell each other of them |
//! | `saved` | routes that outlive the process |
//! | `status` | what a switch tells about itself |

#![forbid(unsafe_code)]

mod admission;
mod admit;
mod answer;
mod border;
mod budgets;
mod bundles;
mod changes;
mod clock;
mod config;
mod control;
mod counters;
mod domain;
mod drop_reason;
mod event;
mod fast_path;
mod flows;
mod forward;
mod grants;
mod group_removals;
mod groups;
mod hand_over;
mod heads;
mod index;
mod job;
mod jobs;
mod joining;
mod joins;
mod limits;
mod members;
mod nearest;
mod neighbour;
mod newest;
mod next_hop;
mod passes;
mod peering;
mod plane;
mod publishing;
mod reach;
mod removals;
mod rib_answers;
mod routes;
mod saved;
mod spread;
mod stamps;
mod standing_by;
mod status;
mod switch;
mod tables;
mod transit;
mod turns;
mod upstreams;
mod workers;

pub use border::{Border, PDU_PROTOCOL, short_address};
pub use config::{
    Config, DEFAULT_CHECK_RIB_ANSWERS, DEFAULT_LEASE_S, DEFAULT_MAX_FLOWS, DEFAULT_MAX_GRANTS,
    DEFAULT_MAX_PUBLICATIONS, DEFAULT_MAX_ROUTES,
};
pub use counters::Counters;
pub use domain::Domain;
pub use drop_reason::DropReason;
pub use event::Event;
pub use fast_path::{FastPath, MAX_HAND_OVERS};
pub use hand_over::{HandOver, Order};
pub use job::{Done, Job};
pub use reach::{Network, NotANetwork};
pub use rhumb_directory::{Fault, LogCounts, Remote};
pub use saved::{SavedRoutes, SavedRoutesError};
pub use stamps::{NamePrefix, Stamp, Stamps};
pub use status::{
    AttachedStatus, CertificateStatus, DomainStatus, FlowStatus, GrantStatus, GroupStatus, LISTED,
    LimitsStatus, MembershipStatus, RefusedStatus, RibStatus, SessionStatus, StampStatus, Status,
    TableStatus, UpstreamStatus, UpstreamUse, Wanted, WorkerStatus,
};
pub use switch::Switch;
pub use tables::Tables;
