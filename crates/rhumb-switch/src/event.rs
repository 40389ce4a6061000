//! What a switch tells whoever runs it.

use std::net::SocketAddr;

use rhumb_directory::Fault;
use rhumb_link::LinkError;
use rhumb_trust::StatementError;
use rhumb_wire::Name;
use rhumb_wire::nack::CapabilityFault;
use rhumb_wire::rib::Refusal;
/// What happened, for logs and for whoever starts the switch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A session to a RIB is up.
    RibReady {
        /// The RIB.
        name: Name,
    },
    /// The session to a RIB ended, or could not be made; it is tried again.
    RibLost {
        /// Where it was expected.
        address: SocketAddr,
        /// Why no session could be made, if that was the case.
        error: Option<LinkError>,
    },
    /// A RIB answers nothing that it is asked. Others are
    /// asked, and it again; told once until it answers.
    RibSilent {
        /// Where it is.
        address: SocketAddr,
    },
    /// A RIB did what no honest one does, and is asked last for a while. Told once for each such
    /// while and kind of fault.
    RibFault {
        /// Where it is.
        address: SocketAddr,
        /// What was proven.
        fault: Fault,
    },
    /// The session to an upstream router is up.
    UpstreamReady {
        /// The router.
        name: Name,
    },
    /// This router is reached through this upstream from now on.
    UpstreamUsed {
        /// The router.
        name: Name,
    },
    /// The session to an upstream router ended, or could not be made; it is tried again.
    UpstreamLost {
        /// Where it was expected.
        address: SocketAddr,
        /// Why no session could be made, if that was the case.
        error: Option<LinkError>,
    },
    /// A name is attached to this router.
    Joined {
        /// The name.
        name: Name,
    },
    /// A name that is attached here is to be known outside of this router's domain.
    Exported {
        /// The name.
        name: Name,
    },
    /// A name took itself back.
    Left {
        /// The name.
        name: Name,
    },
    /// The membership that a peer has shown was taken back, and its session ends.
    Removed {
        /// The peer.
        name: Name,
    },
    /// A name that was attached here lets another router carry for it.
    Moved {
        /// The name.
        name: Name,
    },
    /// Two processes with one key have joined here: the later claim
    /// counts, and the other process is told to end.
    TwoProcesses {
        /// The name.
        name: Name,
    },
    /// A RIB holds the statements of a name durably.
    Published {
        /// The name.
        name: Name,
    },
    /// A RIB refused the statements of a name.
    PublishRefused {
        /// The name.
        name: Name,
        /// Why.
        refusal: Refusal,
    },
    /// What a RIB signed a moment ago does not hold by our clock: the two are at least so far
    /// apart. Asked for when a RIB's clock made it refuse this router's own statement.
    RibClockDiffers {
        /// Why it does not hold, which says by how much.
        why: StatementError,
    },
    /// A peer demands a capability, and does not take what it got; or none is in force. Told
    /// seldom, however often it is so.
    CapabilityRefused {
        /// The peer.
        peer: Name,
        /// What is wrong.
        fault: CapabilityFault,
    },
}
