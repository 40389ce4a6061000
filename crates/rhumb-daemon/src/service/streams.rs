//! What status and metrics tell of links over TLS on TCP.

use rhumb_stream::StreamCounters;
use serde_json::json;

use crate::daemon::{Metric, Reading, Snapshot};

/// Puts what streams have done into a snapshot.
pub(super) fn report(snapshot: &mut Snapshot, counters: &StreamCounters) {
    snapshot.status["streams"] = json!({
        "open": counters.open,
        "half_open": counters.half_open,
        "received_frames": counters.received_frames,
        "sent_frames": counters.sent_frames,
    });
    snapshot.metrics.extend(metrics(counters));
}

fn metrics(counters: &StreamCounters) -> Vec<Reading> {
    vec![
        OPEN.is(counters.open),
        HALF_OPEN.is(counters.half_open),
        BEGUN.by("side", [("accepted", counters.accepted), ("dialled", counters.dialled)]),
        FAILED.by(
            "side",
            [("accepted", counters.handshakes_failed), ("dialled", counters.dials_failed)],
        ),
        REFUSED.is(counters.refused),
        LOST.is(counters.lost),
        MALFORMED.is(counters.malformed),
        RECEIVED_FRAMES.is(counters.received_frames),
        RECEIVED_BYTES.is(counters.received_bytes),
        RECEIVE_CALLS.is(counters.receive_calls),
        SENT_FRAMES.is(counters.sent_frames),
        SENT_BYTES.is(counters.sent_bytes),
        SEND_CALLS.is(counters.send_calls),
        DROPPED.by_reason([("busy", counters.dropped_busy), ("gone", counters.dropped_gone)]),
    ]
}

/// Sessions of peers that UDP is blocked for; the last keys of a session may be there beside.
const OPEN: Metric = Metric::gauge("rhumb_stream_open", "TLS connections that carry links now.");
/// Near the bounds of handshakes: somebody holds connections open and says nothing.
const HALF_OPEN: Metric = Metric::gauge(
    "rhumb_stream_half_open",
    "TLS handshakes that others began and that are not over.",
);
/// Dialled ones that grow on a router: UDP to a RIB, an upstream or another router is blocked.
const BEGUN: Metric =
    Metric::counter("rhumb_stream_begun_total", "TLS connections that carried a link, by side.");
/// Accepted ones: scanners, mostly. Dialled ones: peers that are gone, or take no TLS.
const FAILED: Metric = Metric::counter(
    "rhumb_stream_failed_total",
    "TLS connections that came to nothing before they carried a link, by side.",
);
/// Grows when strangers connect faster, or hold more open, than bounds let them.
const REFUSED: Metric = Metric::counter(
    "rhumb_stream_refused_total",
    "Connections closed at once, because bounds were reached.",
);
/// Divide by [`BEGUN`]: middleboxes that cut connections make it grow.
const LOST: Metric = Metric::counter(
    "rhumb_stream_lost_total",
    "TLS connections that ended otherwise than by this end's close.",
);
/// Should not grow: something on the way alters what TLS carries, or a peer has a fault.
const MALFORMED: Metric = Metric::counter(
    "rhumb_stream_malformed_total",
    "TLS connections that ended because of what came on them.",
);
/// Divide by [`RECEIVE_CALLS`]: frames per system call, on which the cost of receiving depends.
const RECEIVED_FRAMES: Metric =
    Metric::counter("rhumb_stream_received_frames_total", "Frames received over TLS.");
/// Load by bytes.
const RECEIVED_BYTES: Metric =
    Metric::counter("rhumb_stream_received_bytes_total", "Bytes of TLS received.");
/// See [`RECEIVED_FRAMES`].
const RECEIVE_CALLS: Metric =
    Metric::counter("rhumb_stream_receive_calls_total", "System calls made to receive over TLS.");
/// Divide by [`SEND_CALLS`]: frames per system call, on which the cost of sending depends.
const SENT_FRAMES: Metric =
    Metric::counter("rhumb_stream_sent_frames_total", "Frames sent over TLS.");
/// Load by bytes.
const SENT_BYTES: Metric = Metric::counter("rhumb_stream_sent_bytes_total", "Bytes of TLS sent.");
/// See [`SENT_FRAMES`].
const SEND_CALLS: Metric =
    Metric::counter("rhumb_stream_send_calls_total", "System calls made to send over TLS.");
/// `busy` grows when peers read more slowly than they are sent to: a narrow way, or one who does
/// not read at all.
const DROPPED: Metric = Metric::counter(
    "rhumb_stream_dropped_frames_total",
    "Frames that were not sent over TLS, by reason.",
);
