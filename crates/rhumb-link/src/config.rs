//! What an owner decides about an endpoint, each default with its reason. Nothing here changes while it runs.

/// How an endpoint protects its sessions and how much it takes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// The largest datagram to receive, in bytes of UDP payload; the peer is told. At least [`MIN_DATAGRAM_LEN`].
    pub max_datagram_len: u16,
    /// What seals records. Both ends of a session must be set alike: it is not negotiated.
    pub cipher: Cipher,
    /// Whether others may connect to us.
    pub accept: bool,
    /// Which peers to ask if they are still there, and so to notice within about two seconds of traffic when one is not. Of
    /// others that is noticed after [`SILENCE`](crate::SILENCE).
    pub watch_peers: WatchPeers,
    /// The lane to send on, below [`LANES`](rhumb_wire::datagram::LANES), to peers that have more than one. It may be chosen
    /// by anything that differs from end to end, so that a peer's workers have equal shares.
    pub send_lane: u8,
    /// Workers that this endpoint's lanes are shared among, 1 to [`LANES`](rhumb_wire::datagram::LANES): lane n belongs to
    /// worker n modulo their number, and worker 0 is the endpoint itself, which then sends on lane 0. An endpoint that
    /// watches everybody keeps all lanes.
    pub workers: u8,
    /// Bounds on memory and work.
    pub limits: Limits,
    /// INSECURE, for simulations only: handshakes draw what they need of chance from the endpoint's secret instead of from the
    /// system, so that a run can be repeated. That is the spread of retransmissions, but also the hellos' random bytes,
    /// cookies' secrets and nonces of DTLS 1.2 records; ephemeral keys and signatures come from the system all the same.
    #[cfg(feature = "repeatable-handshakes")]
    pub repeatable_handshakes: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_datagram_len: DEFAULT_MAX_DATAGRAM_LEN,
            cipher: Cipher::Aes256Gcm,
            accept: true,
            watch_peers: WatchPeers::Nobody,
            send_lane: 0,
            workers: 1,
            limits: Limits::default(),
            #[cfg(feature = "repeatable-handshakes")]
            repeatable_handshakes: false,
        }
    }
}

/// Which peers are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchPeers {
    /// None: for ends that have many sessions, and nowhere else to go.
    Nobody,
    /// Routers alone: for routers, which have few sessions with others and tell whoever sends by way of one that is gone.
    Routers,
    /// All: for ends that have few sessions, and somewhere else to go.
    Everybody,
}

/// The AEAD of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cipher {
    /// AES-256-GCM.
    Aes256Gcm,
    /// AES-128-GCM: 3 to 8 % cheaper.
    Aes128Gcm,
}

/// Bounds on what strangers can make an endpoint hold. One more than a bound is refused and counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Handshakes in progress that others began and whose address a retry token has proven.
    pub half_open_native: usize,
    /// Handshakes in progress that foreign peers began: their cookie exchange needs state, so their bound is lower.
    pub half_open_foreign: usize,
    /// Of both kinds, those from one source: an IPv4 address, or a /64 of IPv6, which is what one host is given.
    pub half_open_per_source: usize,
    /// Sessions.
    pub sessions: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            half_open_native: DEFAULT_HALF_OPEN_NATIVE,
            half_open_foreign: DEFAULT_HALF_OPEN_FOREIGN,
            half_open_per_source: DEFAULT_HALF_OPEN_PER_SOURCE,
            sessions: DEFAULT_SESSIONS,
        }
    }
}

/// An Ethernet frame's 1,500 bytes less IPv6 and UDP headers: what crosses the Internet whole.
pub const DEFAULT_MAX_DATAGRAM_LEN: u16 = 1452;
/// The smallest `max_datagram_len` taken from a peer or a configuration: IPv6's least MTU of 1,280 bytes less its headers.
/// Handshake datagrams need as much.
pub const MIN_DATAGRAM_LEN: u16 = 1232;
/// At 8 KB each and 8,000 handshakes a second and core, half a second of work and 32 MB.
pub const DEFAULT_HALF_OPEN_NATIVE: usize = 4096;
/// Foreign peers are few, and a spoofed hello of theirs costs 8 KB for 5 s: 2 MB.
pub const DEFAULT_HALF_OPEN_FOREIGN: usize = 256;
/// Enough for a small site behind one address; a hundredth of the foreign bound and more for others remain.
pub const DEFAULT_HALF_OPEN_PER_SOURCE: usize = 16;
/// At under 8 KB each, one gigabyte.
pub const DEFAULT_SESSIONS: usize = 1 << 17;
