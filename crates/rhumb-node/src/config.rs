//! What a node is told when it joins: which router, and how. Every time
//! and bound has a named default with its reason.

use std::net::SocketAddr;
use std::time::Duration;

use rhumb_link::DEFAULT_MAX_DATAGRAM_LEN;
use rhumb_trust::{Access, Export};
use rhumb_wire::datagram::RECORD_OVERHEAD;
use rhumb_wire::payload::PayloadHeader;
use rhumb_wire::{Name, PduHeader};

/// What a node is told when it joins: [`Config::new`] and
/// then whatever should differ from the defaults.
#[derive(Debug, Clone)]
pub struct Config {
    /// Which router to join.
    pub router: RouterChoice,
    /// The local address; when not given, any port, of the address
    /// family of a router that was given, or of both.
    pub bind: Option<SocketAddr>,
    /// Seconds for which the router may carry this node's traffic; renewed at half-life.
    pub lease_s: u64,
    /// The only name to send to and to hear from, if there is but one: this node's router, and each
    /// router after it, carries nothing else between this node and the world.
    pub only_peer: Option<Name>,
    /// By which trust domain the name is known outside of it, if it is to be: the router's own.
    /// Without that nobody outside reaches it, nor does what it sends leave the domain.
    pub export: Option<Export>,
    /// The largest datagram to send or to receive, in bytes of UDP payload.
    pub max_datagram_len: u16,
    /// How long joining may take before it is an error.
    pub join_timeout: Duration,
    /// How long a datagram is offered to the network, and how long a
    /// sender waits for room, before that is an error.
    pub give_up_after: Duration,
    /// Whether joining succeeds only once the name is published in the RIB. Without that a node can
    /// send, and be reached by nodes of the same router only.
    pub require_published: bool,
    /// How long joining waits for publication all the same where it is not required: RIBs that are
    /// there answer within a few round trips.
    pub publish_within: Duration,
    /// Whether to ask the router if it is still there, and so to notice within about two seconds of
    /// traffic when it is not. Without that it takes 20 s. It costs four short datagrams a second
    /// at most while nothing comes back, and otherwise what keep-alives do.
    pub watch_router: bool,
    /// Whether a router that does not answer over UDP is reached over TLS on TCP, if it takes that:
    /// the way where UDP is blocked. A core without I/O is told otherwise whether it may have that.
    pub tls: bool,
    /// Who may send to this node, by name: pings and datagrams of others are dropped, and their
    /// files are declined. Strangers, which is everybody by default, may; places for files are kept
    /// free for whoever is admitted.
    pub access: Access,
    /// INSECURE, for simulations only: as the link's option of this name says.
    #[cfg(feature = "repeatable-handshakes")]
    pub repeatable_handshakes: bool,
}

/// Which router to join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouterChoice {
    /// This one, and no other.
    Fixed(Remote),
    /// Whichever is found first; another one when that fails.
    Discovered {
        /// Root routers, tried in this order when none is found on the local network.
        roots: Vec<Remote>,
        /// Names of the only routers to join, root routers included. When empty, whoever
        /// answers on the local network may carry this node's traffic: fit for networks
        /// whose members are trusted not to read it.
        only: Vec<Name>,
    },
}

/// Where a router is, and who it must prove to be: anybody, when no name is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remote {
    /// Its UDP address.
    pub address: SocketAddr,
    /// Its name.
    pub name: Option<Name>,
}

impl Remote {
    /// Whoever is at `address`.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, name: None }
    }
}

impl RouterChoice {
    /// Whichever router is found on the local network, and no other.
    pub fn discovered() -> Self {
        Self::Discovered { roots: Vec::new(), only: Vec::new() }
    }
}

impl From<Remote> for RouterChoice {
    fn from(router: Remote) -> Self {
        Self::Fixed(router)
    }
}

impl From<SocketAddr> for RouterChoice {
    fn from(address: SocketAddr) -> Self {
        Self::Fixed(Remote::new(address))
    }
}

impl Config {
    /// How connections are set up: their datagrams are as long as the link with the router carries.
    pub(crate) fn ends(&self) -> rhumb_end::Config {
        let around = RECORD_OVERHEAD + PduHeader::LEN + PayloadHeader::LEN;
        let around = u16::try_from(around).unwrap_or(u16::MAX);
        rhumb_end::Config::new(self.max_datagram_len.saturating_sub(around))
    }

    /// The defaults, and which router to join: the address of one, one that
    /// has to prove a name, or any that is found.
    pub fn new(router: impl Into<RouterChoice>) -> Self {
        Self {
            router: router.into(),
            bind: None,
            lease_s: DEFAULT_LEASE_S,
            only_peer: None,
            export: None,
            max_datagram_len: DEFAULT_MAX_DATAGRAM_LEN,
            join_timeout: DEFAULT_JOIN_TIMEOUT,
            give_up_after: DEFAULT_GIVE_UP_AFTER,
            require_published: true,
            publish_within: Duration::ZERO,
            watch_router: true,
            tls: true,
            access: Access::default(),
            #[cfg(feature = "repeatable-handshakes")]
            repeatable_handshakes: false,
        }
    }
}

/// The paper's ten minutes (section 3.6).
pub const DEFAULT_LEASE_S: u64 = 600;
/// A handshake with one lost datagram takes about a second,
/// and publishing a few round trips to the RIB.
pub const DEFAULT_JOIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Longer than a router needs to find a route anew, shorter
/// than people wait before they ask what is wrong.
pub const DEFAULT_GIVE_UP_AFTER: Duration = Duration::from_secs(5);
