//! What a daemon does most of, and what it drops, by what it is: which numbers of its status say
//! so.

/// Where a status counts what its daemon is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    /// What is counted.
    pub(crate) unit: &'static str,
    /// Where.
    pub(crate) counted: &'static [&'static str],
    /// Where bytes are counted.
    pub(crate) bytes: &'static [&'static str],
    /// Which list has those with whom it talks; a number, for some.
    pub(crate) peers: &'static str,
}

impl Load {
    /// By the word that a daemon has for itself.
    pub(crate) fn of(role: &str) -> Self {
        let known = LOADS.iter().find(|(of, _)| *of == role);
        known.map_or(NOTHING, |(_, load)| *load)
    }
}

/// A map of a status that counts drops, and the heading of the page of reasons that explains them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drops {
    /// Whose status has it; of all roles, if it says nothing.
    role: &'static str,
    /// Where it is in the status.
    pub(crate) place: &'static str,
    /// What is dropped, for people.
    pub(crate) what: &'static str,
    /// The metric by which the page names the list of reasons; none: they explain themselves.
    pub(crate) explained_at: &'static str,
}

impl Drops {
    /// All that a status of that role may have.
    pub(crate) fn of(role: &str) -> impl Iterator<Item = &'static Self> {
        DROPS.iter().filter(move |it| it.role.is_empty() || it.role == role)
    }
}

const IO_BYTES: &[&str] = &["io.received_bytes", "io.sent_bytes"];
const PDUS: &[&str] = &["traffic.sent", "traffic.received"];
const NODE: Load = Load { unit: "PDU/s", counted: PDUS, bytes: IO_BYTES, peers: "connections" };
const NOTHING: Load = Load { unit: "", counted: &[], bytes: &[], peers: "sessions" };

const LOADS: [(&str, Load); 9] = [
    (
        "router",
        Load {
            unit: "PDU/s",
            counted: &["counters.forwarded_pdus"],
            bytes: &["counters.forwarded_bytes"],
            peers: "sessions",
        },
    ),
    (
        "rib",
        Load {
            unit: "look-ups/s",
            counted: &[
                "counters.lookups_found",
                "counters.lookups_absent",
                "counters.lookups_found_beyond",
            ],
            bytes: IO_BYTES,
            peers: "sessions",
        },
    ),
    ("node", NODE),
    (
        "tun",
        Load {
            unit: "pkt/s",
            counted: &["tun.sent.packets", "tun.received.packets"],
            bytes: &["tun.sent.bytes", "tun.received.bytes"],
            peers: "connections",
        },
    ),
    (
        "waypoint",
        Load {
            unit: "pkt/s",
            counted: &["counters.forwarded_packets"],
            bytes: &["counters.forwarded_bytes"],
            peers: "accounts",
        },
    ),
    (
        "stamper",
        Load {
            unit: "pkt/s",
            counted: &["counters.stamped_packets"],
            bytes: &["counters.stamped_bytes"],
            peers: "ways",
        },
    ),
    (
        "keyserver",
        Load {
            unit: "answers/s",
            counted: &["counters.keys", "counters.zone", "counters.negative", "counters.told"],
            bytes: &[],
            peers: "followers",
        },
    ),
    (
        "exchange",
        Load { unit: "routes/s", counted: &["routes.exported"], bytes: &[], peers: "members" },
    ),
    (
        "member",
        Load {
            unit: "routes/s",
            counted: &["counters.announced", "counters.offered"],
            bytes: &[],
            peers: "servers",
        },
    ),
];

const DROPS: [Drops; 13] = [
    of("", "dropped_datagrams", "datagrams", "rhumb_link_dropped_datagrams_total"),
    of("router", "dropped_pdus", "PDUs", "rhumb_switch_dropped_pdus_total"),
    of("router", "refused_capabilities", "stamps", "rhumb_switch_refused_capabilities_total"),
    of("router", "discovery.dropped_queries", "queries", "rhumb_io_dropped_queries_total"),
    of("rib", "dropped_requests", "requests", "rhumb_rib_dropped_requests_total"),
    of("rib", "refused_requests", "refusals", ""),
    of("node", "drops", "PDUs", "Node::status"),
    of("stamper", "drops", "packets", "rhumb_stamp_dropped_packets_total"),
    of("", "ends", "payloads", "rhumb_end_dropped_payloads_total"),
    of("", "tun.drops", "packets", "rhumb_tun_dropped_packets_total"),
    of("waypoint", "dropped_by_reason", "packets", "rhumb_waypoint_dropped_packets_total"),
    of("waypoint", "icmp_dropped", "ICMP", "rhumb_waypoint_dropped_icmp_total"),
    of("keyserver", "dropped", "messages", "rhumb_keyserver_dropped_messages_total"),
];

const fn of(
    role: &'static str,
    place: &'static str,
    what: &'static str,
    explained_at: &'static str,
) -> Drops {
    Drops { role, place, what, explained_at }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_those_of_a_role_and_those_of_all() {
        let places = |role| Drops::of(role).map(|it| it.place).collect::<Vec<_>>();
        assert!(places("router").contains(&"dropped_pdus"));
        assert!(!places("rib").contains(&"dropped_pdus"));
        assert!(places("rib").contains(&"dropped_datagrams"));
        assert_eq!(places("something new"), ["dropped_datagrams", "ends", "tun.drops"]);
    }

    #[test]
    fn what_is_of_an_unknown_kind_has_no_load() {
        assert_eq!(Load::of("router").unit, "PDU/s");
        assert_eq!(Load::of("something new"), NOTHING);
    }
}
