//! How connections are set up: windows, timers, sizes. Each bound says what it costs.

use std::sync::Arc;
use std::time::Duration;

use quinn_proto::{
    AckFrequencyConfig, Connection, Dir, IdleTimeout, MtuDiscoveryConfig, TransportConfig, VarInt,
};

use crate::congestion::Factory;

/// What a connection may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Share {
    /// We began it, or its peer was chosen by name.
    Full,
    /// Anybody's.
    Stranger,
}

impl Share {
    pub(crate) fn of(is_stranger: bool) -> Self {
        if is_stranger { Self::Stranger } else { Self::Full }
    }

    /// Of a connection that was begun with another one, from now on.
    pub(crate) fn give(self, quic: &mut Connection) {
        let (window, streams) = self.windows();
        quic.set_receive_window(VarInt::from_u32(window));
        quic.set_send_window(u64::from(window));
        for dir in [Dir::Bi, Dir::Uni] {
            quic.set_max_concurrent_streams(dir, VarInt::from_u32(streams));
        }
    }

    fn windows(self) -> (u32, u32) {
        match self {
            Self::Full => (WINDOW, STREAMS),
            Self::Stranger => (STRANGERS_WINDOW, STRANGERS_STREAMS),
        }
    }
}

/// `max_datagram_len` is the longest QUIC datagram that this end's own link carries.
pub(crate) fn config(share: Share, max_datagram_len: u16) -> Arc<TransportConfig> {
    let (window, streams) = share.windows();
    let mut config = TransportConfig::default();
    let mut sizes = MtuDiscoveryConfig::default();
    // A path that carries less says so, and the search ends at what gets through.
    sizes.upper_bound(max_datagram_len.max(LEAST_DATAGRAM_LEN));
    let mut acks = AckFrequencyConfig::default();
    acks.ack_eliciting_threshold(VarInt::from_u32(ACK_EVERY));
    config
        .ack_frequency_config(Some(acks))
        .mtu_discovery_config(Some(sizes))
        .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(SILENCE_MS))))
        .keep_alive_interval(Some(KEEP_ALIVE))
        // What is not yet read of all streams together is bounded by the next one.
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .receive_window(VarInt::from_u32(window))
        .send_window(u64::from(window))
        .max_concurrent_bidi_streams(VarInt::from_u32(streams))
        .max_concurrent_uni_streams(VarInt::from_u32(streams))
        .datagram_receive_buffer_size(Some(DATAGRAM_BUFFER))
        .datagram_send_buffer_size(DATAGRAM_BUFFER)
        .congestion_controller_factory(Arc::new(Factory))
        // Names move between routers, and what a path once took says little of the next.
        .allow_spin(false)
        // Payloads that are made together: nobody hands them to a socket in one piece.
        .enable_segmentation_offload(true);
    Arc::new(config)
}

/// What QUIC demands of any path (RFC 9000, section 14).
pub(crate) const LEAST_DATAGRAM_LEN: u16 = 1200;
/// A peer that understands it is asked to acknowledge so many packets together, instead of each
/// second one (draft-ietf-quic-ack-frequency): routers carry each acknowledgement as any packet.
const ACK_EVERY: u32 = 10;
/// 400 Mbit/s over 160 ms.
const WINDOW: u32 = 8 << 20;
/// With as many connections as strangers may have, 256 MiB in the worst case.
const STRANGERS_WINDOW: u32 = 1 << 20;
/// Streams that the peer may have open at once, in each kind.
const STREAMS: u32 = 4096;
/// A few hundred bytes each: with all connections of strangers, some 30 MB.
const STRANGERS_STREAMS: u32 = 256;
/// As long as a program waits for a move, a dead router and a lease that has to be found anew.
pub(crate) const SILENCE_MS: u32 = 30_000;
/// Three in a row may be lost.
const KEEP_ALIVE: Duration = Duration::from_secs(9);
/// Datagrams that wait: half a second at 4 Mbit/s.
const DATAGRAM_BUFFER: usize = 256 << 10;
