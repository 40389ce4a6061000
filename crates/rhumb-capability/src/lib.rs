//! Platypus: packets that prove they may pass. Capabilities, their secrets and
//! bindings, delegation, and what a waypoint and a stamper do with a packet. The
//! normative text is `docs/platypus.md`; the idea is the paper's (Raghavan and
//! Snoeren, SIGCOMM 2004, sections 4.4 to 6.1).
//!
//! 1. A waypoint has a [`Master`] per [`Epoch`], and from it [`EpochKeys`], which mint a
//!    [`KeyRecord`] for a [`Principal`] and a [`Window`]. Nothing per principal is stored.
//! 2. The principal gets the record; it is now a [`Credential`]: a [`Capability`] with
//!    its secret. A credential can be delegated to a prefix and an id, at most three
//!    times, and handed over as a [file](mod@file).
//! 3. A [`Stamper`] puts up to four capabilities with their
//!    bindings in front of a packet's payload, in place.
//! 4. A [`Verifier`] checks batches of packets, and advances each to the next
//!    waypoint or to its destination, in place. It drops what proves nothing,
//!    repeats itself, or is [revoked](Revocations), and counts by [`DropReason`];
//!    for what it forwards it keeps [`Accounts`].
//! 5. A [`Waypoint`] is a verifier that also tells original sources, by ICMP,
//!    why their packets did not get on; an [`ErrorRelay`] hands them what others
//!    say about packets that the waypoint has sent.
//!
//! Sans-IO: bytes, time and randomness are arguments. Nothing is allocated per packet.

#![deny(unsafe_code)]

mod accounts;
mod advance;
mod bits;
mod capability;
mod commonest;
mod credential;
mod derive;
mod drop_reason;
mod error;
pub mod file;
#[cfg(any(fuzzing, test))]
pub mod fuzz;
mod header;
mod key_record;
mod lanes;
mod mac;
mod messages;
mod outer;
mod packet_id;
mod prefix;
mod prf;
mod reference;
mod replay;
mod revocation;
mod rules;
mod secret;
mod side_by_side;
mod stamper;
mod steer;
mod suite;
mod verifier;
mod waypoint;
mod window;

pub use accounts::{Account, Accounts, Usage};
pub use advance::{Advanced, Next};
pub use capability::{
    Capability, Delegation, DelegationId, Delegations, Epoch, Flags, Principal, Window,
};
pub use credential::Credential;
pub use derive::{EpochKeys, Master};
pub use drop_reason::{DropCounts, DropReason};
pub use error::CapabilityError;
pub use header::{BINDING_LEN, Family, HeaderView, MAX_CAPABILITIES, MAX_LEVELS};
pub use key_record::KeyRecord;
pub use outer::{PLATYPUS_PORT, PLATYPUS_PROTOCOL};
pub use packet_id::{PacketId, PacketIds};
pub use prefix::Prefix;
pub use revocation::{Revocation, Revocations};
pub use secret::Secret;
pub use stamper::{Encapsulation, Stamper};
pub use steer::steer;
pub use suite::{Scheme, Suite};
pub use verifier::{Carriage, Packet, ReferenceSchemes, Verdict, Verifier, VerifierConfig};
pub use waypoint::{
    ErrorRelay, IcmpCounters, IcmpDrop, IcmpSent, Undelivered, Waypoint, core_of, fragments,
    into_udp, is_icmp,
};
pub use window::WindowClock;
