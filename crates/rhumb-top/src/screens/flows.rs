//! Who sends to whom, and by way of whom: the newest flows of routers, connections of nodes,
//! accounts of waypoints, ways of stampers.
//!
//! Routers count nothing for single flows, since that would cost each PDU: they say which flows
//! they know, and until when. Connections, accounts and ways are counted, and have rates.

use serde_json::Value;

use super::{Seen, words};
use crate::amounts::{UNKNOWN, bits, rate, span};
use crate::daemon::Daemon;
use crate::sheet::{Cell, Column, Row, Sheet, Tone};
use crate::tally::item_place;

pub(super) fn sheet(seen: &Seen<'_>) -> Sheet {
    let mut rows = Vec::new();
    for daemon in seen.daemons {
        rows.extend(daemon.list("newest_flows").iter().map(|item| flow(seen, daemon, item)));
        let counted = [("connections", "sent_packets", ""), ACCOUNTS, WAYS];
        for (list, packets, bytes) in counted {
            for (number, item) in daemon.list(list).iter().enumerate() {
                let Some(place) = item_place(list, number, item) else { continue };
                let at = |what: &str| daemon.rate(&format!("{place}.{what}"));
                let rates = [at(packets), at(bytes)];
                let mut row = counted_row(seen, daemon, list, item, rates);
                row.key = format!("{} {place} {number}", daemon.place());
                rows.push(row);
            }
        }
    }
    Sheet::of(&COLUMNS, rows, "No flows.")
}

fn flow(seen: &Seen<'_>, daemon: &Daemon, item: &Value) -> Row {
    let left = item["expires_in_s"].as_u64();
    let ended = item["next"].is_null();
    let next = match ended {
        true => Cell::words("gone").toned(Tone::Warning),
        false => seen.name(item, "next"),
    };
    let is_direct = item["next"] == item["destination"];
    Row {
        key: format!("{} {} {}", daemon.place(), item["source"], item["destination"]),
        cells: vec![
            seen.owner(daemon),
            seen.name(item, "source"),
            seen.name(item, "destination"),
            if is_direct { Cell::words("directly").toned(Tone::Quiet) } else { next },
            Cell::amount(None, rate),
            Cell::amount(None, bits),
            Cell::amount(left.map(|it| it as f64), |it| span(it as u64)),
        ],
        details: seen.details(item),
    }
}

fn counted_row(
    seen: &Seen<'_>,
    daemon: &Daemon,
    list: &str,
    item: &Value,
    [packets, bytes]: [Option<f64>; 2],
) -> Row {
    let quiet = |text: &str| Cell::words(text).toned(Tone::Quiet);
    let [from, to, way] = match list {
        "connections" => [seen.name(item, "local"), seen.name(item, "peer"), quiet("an end")],
        "accounts" => [
            Cell::words(format!("principal {}", item["principal"])),
            quiet(UNKNOWN),
            quiet("this waypoint"),
        ],
        _ => [quiet("this host"), quiet(UNKNOWN), words(item, "via")],
    };
    Row {
        key: String::new(),
        cells: vec![
            seen.owner(daemon),
            from,
            to,
            way,
            Cell::amount(packets, rate),
            Cell::amount(bytes, bits),
            quiet(UNKNOWN),
        ],
        details: seen.details(item),
    }
}

/// A list, and which numbers of its items are packets and bytes.
type Counted = (&'static str, &'static str, &'static str);

const ACCOUNTS: Counted = ("accounts", "packets", "bytes");
const WAYS: Counted = ("ways", "stamped_packets", "stamped_bytes");
/// The column of packets a second.
pub(super) const RATE: usize = 4;
const COLUMNS: [Column; 7] = [
    Column::words("AT", 6, 16, 0),
    Column::words("FROM", 10, 24, 0),
    Column::words("TO", 10, 24, 0),
    Column::words("BY WAY OF", 10, 40, 1),
    Column::amount("PKT/S", 6, 2),
    Column::amount("BIT/S", 6, 3),
    Column::amount("KNOWN FOR", 9, 4),
];
