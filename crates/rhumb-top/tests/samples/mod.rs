//! Statuses as daemons tell them, shortened to what is looked at.

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use rhumb_top::{Labels, Look, Top, Warning};
use serde_json::{Value, json};

/// Names as they are: 52 characters.
pub(crate) const ROUTER: &str = "routerabcdefghijklmnopqrstuvwxyz234567abcdefghijklmn";
pub(crate) const RIB: &str = "ribabcdefghijklmnopqrstuvwxyz234567abcdefghijklmnopq";
pub(crate) const ALICE: &str = "aliceabcdefghijklmnopqrstuvwxyz234567abcdefghijklmno";
pub(crate) const BOB: &str = "bobabcdefghijklmnopqrstuvwxyz234567abcdefghijklmnopq";

/// A view whose book has `alice`, and nobody else.
pub(crate) fn top() -> Top {
    let labels = Labels::by(|name| (name == ALICE).then(|| "alice".to_owned()));
    Top::new(labels, 2_000, true)
}

/// One that has looked twice at a router and a RIB, two seconds apart.
pub(crate) fn seen() -> Top {
    let mut top = top();
    for at_s in [10, 12] {
        top.take(look("/run/a.sock", at_s, router(at_s)));
        top.take(look("/run/b.sock", at_s, rib(at_s)));
    }
    top
}

/// What a daemon told, so many seconds after the view began.
pub(crate) fn look(place: &str, at_s: u64, told: Value) -> Look {
    let at = Duration::from_secs(at_s);
    Look { place: place.to_owned(), at, told: Ok(told), warnings: Vec::new() }
}

pub(crate) fn warned(place: &str, at_s: u64, told: Value, found: &str, advice: &str) -> Look {
    let warning = Warning { found: found.to_owned(), advice: advice.to_owned() };
    Look { warnings: vec![warning], ..look(place, at_s, told) }
}

pub(crate) fn silent(place: &str, at_s: u64, why: &str) -> Look {
    Look { told: Err(why.to_owned()), ..look(place, at_s, Value::Null) }
}

/// A router that forwards 100 PDUs of 1000 bytes a second.
pub(crate) fn router(uptime_s: u64) -> Value {
    json!({
        "role": "router",
        "name": ROUTER,
        "address": "127.0.0.1:7460",
        "uptime_s": uptime_s,
        "version": "0.1.0",
        "counters": {"forwarded_pdus": uptime_s * 100, "forwarded_bytes": uptime_s * 100_000},
        "sessions": [
            {
                "peer": ALICE, "role": "node", "calls_itself": null, "address": "192.0.2.1:5000",
                "transport": "udp", "age_s": 3700, "largest_datagram": 1452,
                "round_trip_ms": 0.213, "standing": "admitted",
                "membership": {"expires_in_s": 90},
            },
            {
                "peer": RIB, "role": "rib", "calls_itself": null, "address": "[2001:db8::7]:7461",
                "transport": "tls", "age_s": 12, "largest_datagram": 1232,
                "round_trip_ms": null, "standing": "stranger", "membership": null,
            },
        ],
        "attached": [{"name": ALICE, "expires_in_s": 500}],
        "tables": {"flows": {"used": 950, "bound": 1000}, "grants": {"used": 0, "bound": 9}},
        "dropped_pdus": {
            "route_pending": uptime_s, "bad_certificate": uptime_s * 3, "too_big": 0,
        },
        "dropped_datagrams": {"replayed": 7},
        "own_statement": {"says": "at 198.51.100.7:7460", "expires_in_s": 50},
        "newest_flows": [
            {"source": ALICE, "destination": BOB, "next": RIB, "expires_in_s": 300},
            {"source": BOB, "destination": ALICE, "next": ALICE, "expires_in_s": 0},
        ],
    })
}

/// A RIB that answers 30 look-ups a second.
pub(crate) fn rib(uptime_s: u64) -> Value {
    json!({
        "role": "rib",
        "name": RIB,
        "address": "127.0.0.1:7461",
        "uptime_s": uptime_s,
        "stored_names": 12_345,
        "sessions": [],
        "store": {"full_percent": 3},
        "counters": {
            "lookups_found": uptime_s * 20, "lookups_absent": uptime_s * 10, "store_failures": 1,
        },
        "io": {"received_bytes": uptime_s * 500, "sent_bytes": uptime_s * 500},
        "dropped_requests": {"over_budget": uptime_s},
    })
}

pub(crate) fn waypoint(uptime_s: u64) -> Value {
    json!({
        "role": "waypoint",
        "name": "sockets",
        "address": "192.0.2.9",
        "uptime_s": uptime_s,
        "counters": {"forwarded_packets": uptime_s * 9, "forwarded_bytes": uptime_s * 9000},
        "accounts": [
            {"principal": 7, "packets": uptime_s * 8, "bytes": uptime_s * 8000},
            {"principal": 11, "packets": uptime_s, "bytes": uptime_s * 1000},
        ],
        "dropped_by_reason": {"replay": uptime_s * 2},
        "icmp_dropped": {"forged": 4},
    })
}

pub(crate) fn exchange(uptime_s: u64) -> Value {
    json!({
        "role": "exchange",
        "name": BOB,
        "address": "192.0.2.20:7470",
        "uptime_s": uptime_s,
        "members": [{
            "site": "site-1", "address": "192.0.2.30:999", "connected_s": 61,
            "unsent_bytes": 5, "refused_routes": 2,
        }],
        "pair": {"name": ALICE},
        "routes": {"current": 2, "exported": uptime_s * 4},
        "rounds": {"under_way": 1, "selected": uptime_s * 3, "missed": 0},
    })
}

pub(crate) fn node(uptime_s: u64) -> Value {
    json!({
        "role": "node",
        "name": ALICE,
        "router": ROUTER,
        "router_address": "127.0.0.1:7460",
        "router_transport": "udp",
        "address": "127.0.0.1:40000",
        "uptime_s": uptime_s,
        "joined": true,
        "published": false,
        "lease_expires_in_s": 12,
        "traffic": {"sent": uptime_s * 5, "received": uptime_s * 5},
        "connections": [{
            "local": ALICE, "peer": BOB, "is_ours": true, "streams": 1, "round_trip_ms": 250.0,
            "datagram_len": 1400, "lost_packets": uptime_s, "sent_packets": uptime_s * 50,
        }],
        "drops": {"sender_refused": uptime_s * 2},
    })
}

/// What a terminal of that size shows.
pub(crate) fn drawn(top: &mut Top, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| top.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y| {
        let cells = (0..width).map(|x| buffer[(x, y)].symbol());
        cells.collect::<String>().trim_end().to_owned()
    };
    (0..height).map(row).collect::<Vec<_>>().join("\n")
}
