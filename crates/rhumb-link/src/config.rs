//! What an owner decides about an endpoint, each default with
//! its reason. Nothing here changes while it runs.

use std::time::Duration;

use crate::Rate;

/// How an endpoint protects its sessions and how much it takes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// The largest datagram to receive, in bytes of UDP payload; the
    /// peer is told. At least [`MIN_DATAGRAM_LEN`].
    pub max_datagram_len: u16,
    /// What seals records. Both ends of a session must be set alike: it is not negotiated.
    pub cipher: Cipher,
    /// Whether others may connect to us.
    pub accept: bool,
    /// Which peers to ask if they are still there, and so to notice within about two seconds of
    /// traffic when one is not. Of others that is noticed after [`SILENCE`](crate::SILENCE).
    pub watch_peers: WatchPeers,
    /// The lane to send on, below [`LANES`](rhumb_wire::datagram::LANES), to peers that
    /// have more than one. It may be chosen by anything that differs from end to end,
    /// so that a peer's workers have equal shares.
    pub send_lane: u8,
    /// Workers that this endpoint's lanes are shared among, 1 to
    /// [`LANES`](rhumb_wire::datagram::LANES): lane n belongs to worker n modulo their
    /// number, and worker 0 is the endpoint itself, which then sends on lane 0. An
    /// endpoint that watches everybody keeps all lanes.
    pub workers: u8,
    /// Whether whoever has the endpoint does the public-key work of handshakes that others begin
    /// on another thread: [`Endpoint::poll_handshake_job`](crate::Endpoint::poll_handshake_job).
    pub handshakes_elsewhere: bool,
    /// Whether whoever has the endpoint takes bundles, which it then says to peers.
    pub bundles: bool,
    /// Whether whoever has the endpoint carries streams, and does what
    /// [`Endpoint::poll_stream_order`](crate::Endpoint::poll_stream_order) says: attempts that
    /// nobody answers over UDP have one dialled beside them, and those of others are taken where
    /// handshakes are.
    pub streams: bool,
    /// How long after a stream was dialled UDP is tried again, at the latest; then twice as long,
    /// up to a quarter of an hour, or for ever as long if it is more.
    pub udp_retry: Duration,
    /// Bounds on memory and work.
    pub limits: Limits,
    /// INSECURE, for simulations only: handshakes draw what they need of chance from the endpoint's
    /// secret instead of from the system, so that a run can be repeated. That is the spread of
    /// retransmissions, but also the hellos' random bytes, cookies' secrets and nonces of DTLS 1.2
    /// records; ephemeral keys and signatures come from the system all the same.
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
            handshakes_elsewhere: false,
            bundles: false,
            streams: false,
            udp_retry: DEFAULT_UDP_RETRY,
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
    /// Routers alone: for routers, which have few sessions with others and
    /// tell whoever sends by way of one that is gone.
    Routers,
    /// Routers and RIBs: for routers, as above; and a RIB that is gone, or was started again, is
    /// connected to at once when it is back.
    Infrastructure,
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

/// Bounds on what strangers can make an endpoint hold.
/// One more than a bound is refused and counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Handshakes in progress that others began; their
    /// addresses are proven, by a retry token or a cookie.
    pub half_open: usize,
    /// Of these, from one source: an IPv4 address, or a /48 of IPv6.
    pub half_open_per_source: usize,
    /// Sessions. Strangers may have seven in eight of them: the rest are for
    /// who is admitted, and for whom we connect to.
    pub sessions: usize,
    /// Of those that strangers began, from one source.
    pub sessions_per_source: usize,
    /// Handshakes that others begin in a second, at sources where somebody is who is
    /// admitted. Beside that other sources that begin few have half as much
    /// together, and those that begin many a sixth. Not 0.
    pub handshakes: Rate,
    /// Handshakes that one source begins in a second. Not 0.
    pub handshakes_per_source: Rate,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            half_open: DEFAULT_HALF_OPEN,
            half_open_per_source: DEFAULT_HALF_OPEN_PER_SOURCE,
            sessions: DEFAULT_SESSIONS,
            sessions_per_source: DEFAULT_SESSIONS_PER_SOURCE,
            handshakes: DEFAULT_HANDSHAKES,
            handshakes_per_source: DEFAULT_HANDSHAKES_PER_SOURCE,
        }
    }
}

impl Limits {
    pub(crate) fn sessions_of_strangers(&self) -> usize {
        self.sessions - self.sessions / 8
    }

    /// What strangers begin together at sources that begin few.
    pub(crate) fn handshakes_of_quiet_sources(&self) -> Rate {
        self.handshakes.part(2)
    }

    /// What strangers begin together at sources that begin many.
    pub fn handshakes_of_busy_sources(&self) -> Rate {
        self.handshakes.part(6)
    }
}

/// Where UDP was out of order for a moment it is soon back; where it is blocked, twenty datagrams
/// are sent in vain.
pub const DEFAULT_UDP_RETRY: Duration = Duration::from_secs(60);
/// An Ethernet frame's 1,500 bytes less IPv6 and UDP headers: what crosses the Internet whole.
pub const DEFAULT_MAX_DATAGRAM_LEN: u16 = 1452;
/// The smallest `max_datagram_len` taken from a peer or a configuration: IPv6's least MTU of 1,280
/// bytes less its headers. Handshake datagrams need as much.
pub const MIN_DATAGRAM_LEN: u16 = 1232;
/// At 8 KB each and 8,000 handshakes a second and core, half a second of work and 32 MB.
pub const DEFAULT_HALF_OPEN: usize = 4096;
/// Enough for a site behind one address, where a handshake takes a few
/// round trips; it takes 64 such to fill the table.
pub const DEFAULT_HALF_OPEN_PER_SOURCE: usize = 64;
/// At under 8 KB each, one gigabyte.
pub const DEFAULT_SESSIONS: usize = 1 << 17;
/// A large site behind one address; it takes 112 such to have all that strangers may have.
pub const DEFAULT_SESSIONS_PER_SOURCE: usize = 1024;
/// A beginning costs 90 us, a whole handshake three times as much: where strangers begin as many as
/// they can, they have 2 % of a core, and 5 % if they end them all. Five hundred nodes whose router
/// began anew are back at once, ten thousand in a minute.
pub const DEFAULT_HANDSHAKES: Rate = Rate { per_s: 300, burst: 1000 };
/// A site of a thousand nodes behind one address is back in 20 s.
pub const DEFAULT_HANDSHAKES_PER_SOURCE: Rate = Rate { per_s: 50, burst: 200 };
