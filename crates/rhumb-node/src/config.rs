//! What a node is told when it joins. Every time and bound has a named default with its reason.

use std::net::SocketAddr;
use std::time::Duration;

use rhumb_link::DEFAULT_MAX_DATAGRAM_LEN;
use rhumb_wire::Name;

/// What a node is told when it joins: [`Config::new`] and then whatever should differ from the defaults.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where the router is.
    pub router: SocketAddr,
    /// Who the router must prove to be; anybody when not given.
    pub router_name: Option<Name>,
    /// The local address; any port of the router's address family when not given.
    pub bind: Option<SocketAddr>,
    /// Seconds for which the router may carry this node's traffic; renewed at half-life.
    pub lease_s: u64,
    /// The largest datagram to send or to receive, in bytes of UDP payload.
    pub max_datagram_len: u16,
    /// How long joining may take before it is an error.
    pub join_timeout: Duration,
    /// How long a datagram is offered to the network, and how long a sender waits for room, before that is an error.
    pub give_up_after: Duration,
    /// Whether joining succeeds only once the name is published in the RIB. Without that a node can send, and be
    /// reached by nodes of the same router only.
    pub require_published: bool,
}

impl Config {
    /// The defaults, and the router at `router`.
    pub fn new(router: SocketAddr) -> Self {
        Self {
            router,
            router_name: None,
            bind: None,
            lease_s: DEFAULT_LEASE_S,
            max_datagram_len: DEFAULT_MAX_DATAGRAM_LEN,
            join_timeout: DEFAULT_JOIN_TIMEOUT,
            give_up_after: DEFAULT_GIVE_UP_AFTER,
            require_published: true,
        }
    }
}

/// The paper's ten minutes (section 3.6).
pub const DEFAULT_LEASE_S: u64 = 600;
/// A handshake with one lost datagram takes about a second, and publishing a few round trips to the RIB.
pub const DEFAULT_JOIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Longer than a router needs to find a route anew, shorter than people wait before they ask what is wrong.
pub const DEFAULT_GIVE_UP_AFTER: Duration = Duration::from_secs(5);
