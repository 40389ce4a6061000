//! Networks that are made and joined by invitations: `rhumb network` and `rhumb join`.
//!
//! | module | what it holds |
//! |---|---|
//! | `folder` | where the files of a network lie, beside the book of names |
//! | `created` | a network that was made here: its settings, and who gives what to whom |
//! | `joined` | a network that this host is a member of: where it is, and how it is called here |
//! | `ledger` | the keeper's invitations and members, as a file |
//! | `keeping` | the keeper: whoever shows an invitation is admitted, members are told how it goes on |
//! | `joining` | the other end: to join, and to ask again while it lasts |
//! | `requests` | who asks the keeper of a link's network to be let in |
//! | `neighbours` | the other end: which networks are on the link, and to ask one of them |
//! | `admitting` | who runs the keeper sees who asks, and lets in |
//! | `declining` | whom people have said no to, for the keeper to tell |
//! | `address` | where others of its links reach this host |
//! | `running`, `plan`, `parts` | what a host runs for a network, part by part |
//! | `removing` | who is taken out of a network |
//! | `renewal` | a member that stays one, unattended |
//! | `tally` | what came to a keeper, for `rhumb status` |
//! | `labels` | what members are called, in the book of names |
//!
//! Why codes and proofs are as they are:
//! [decision 0112](../../../docs/decisions/0112-networks-by-invitation.md); who is let in on a
//! link: [decision 0120](../../../docs/decisions/0120-two-machines-of-one-lan.md).

mod address;
pub mod admitting;
mod created;
pub mod declining;
mod folder;
mod joined;
pub mod joining;
pub mod keeping;
mod labels;
pub mod ledger;
pub mod neighbours;
mod parts;
mod plan;
pub mod removing;
pub mod renewal;
mod requests;
pub mod running;
mod tally;

pub use address::address_on_link;
pub use created::{Created, Making, Part};
pub use folder::Folder;
pub use joined::{Joined, resolve};
pub use ledger::{Ledger, Member, Rank};
pub use requests::Openness;

use std::time::Duration;

use rhumb_channel::Protocol;
use rhumb_wire::admission::Admission;

/// What a keeper speaks.
const AT_KEEPER: Protocol = Protocol {
    name: PROTOCOL,
    max_received: Admission::MAX_ASKED_LEN,
    max_sent: Admission::MAX_TOLD_LEN,
    max_queue: Admission::MAX_TOLD_LEN,
};
/// What joins it speaks.
const AT_MEMBER: Protocol = Protocol {
    name: PROTOCOL,
    max_received: Admission::MAX_TOLD_LEN,
    max_sent: Admission::MAX_ASKED_LEN,
    max_queue: Admission::MAX_TOLD_LEN,
};
const PROTOCOL: &str = "rhumb-network/1";
/// Where the router is, unless the maker of a network says; the RIB is at the next port, and the
/// keeper, over TCP, at the one after that.
pub const DEFAULT_PORT: u16 = crate::remote::DEFAULT_ROUTER_PORT;
/// Two weeks: whoever is removed, and whom no router hears of, is a member for no longer; and a
/// machine that was off for a week is still one.
const MEMBERSHIP_S: u64 = 14 * 86_400;
/// A talk is two round trips and a write to disk.
const TALK_WITHIN: Duration = Duration::from_secs(10);
/// People walk from one machine to the other, and look at both.
const ASK_WITHIN: Duration = Duration::from_secs(180);
