//! Real messages of four collectors through sessions: what is in the tables then is what
//! `bgpkit-parser` reads in them.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::net::IpAddr;

use bgpkit_parser::BgpkitParser;
use bgpkit_parser::models::{AsPathSegment as Segment, BgpElem, ElemType};
use rhumb_bgp::wire::{Origin, PathAttribute};
use rhumb_bgp::{Counters, Event, Family};

use mrt::{Listener, Speaker};

use crate::mrt;

/// What two readers of the same messages agree on.
#[derive(Debug, PartialEq, Eq)]
struct Route {
    next_hop: String,
    path: Vec<u32>,
    origin: Option<Origin>,
    /// Zero where there is none: the other reader does not tell these apart.
    med: u32,
    communities: usize,
}

type Tables = BTreeMap<IpAddr, BTreeMap<String, Route>>;

/// All tables after the messages, as sessions have them; and the sum of what they counted.
fn ours(recording: &[u8]) -> (Tables, Counters) {
    let mut listeners: BTreeMap<Speaker, Listener> = BTreeMap::new();
    for (speaker, message) in mrt::messages(recording) {
        // OPEN, KEEPALIVE and NOTIFICATION: the sessions of here have theirs.
        if message[18] == 2 {
            listeners.entry(speaker).or_insert_with(|| Listener::new(speaker)).hear(message);
        }
    }
    let mut sum = Counters::default();
    let mut tables = Tables::new();
    for (speaker, listener) in listeners {
        let session = listener.session;
        assert!(
            session.negotiated().is_some(),
            "{speaker:?}: the session has ended: {:?}",
            session.state()
        );
        let counted = session.counters();
        sum.updates_received += counted.updates_received;
        sum.treated_as_withdraw += counted.treated_as_withdraw;
        sum.unnegotiated_family += counted.unnegotiated_family;
        sum.attributes_discarded += counted.attributes_discarded;
        let table = tables.entry(speaker.address).or_default();
        for family in Family::ALL {
            for (prefix, _, attributes) in session.routes_in(family) {
                let list = attributes.list();
                let route = Route {
                    next_hop: attributes.next_hop().to_string(),
                    path: attributes.as_path().asns().collect(),
                    origin: list.iter().find_map(|attribute| match attribute {
                        PathAttribute::Origin(origin) => Some(*origin),
                        _ => None,
                    }),
                    med: list
                        .iter()
                        .find_map(|attribute| match attribute {
                            PathAttribute::Med(med) => Some(*med),
                            _ => None,
                        })
                        .unwrap_or(0),
                    communities: list
                        .iter()
                        .filter_map(PathAttribute::communities)
                        .map(<[u32]>::len)
                        .sum(),
                };
                let text = match prefix {
                    rhumb_bgp::wire::Prefix::V4(prefix) => prefix.to_string(),
                    rhumb_bgp::wire::Prefix::V6(prefix) => prefix.to_string(),
                };
                table.insert(text, route);
            }
        }
    }
    (tables, sum)
}

/// The same, as `bgpkit-parser` has it.
fn theirs(recording: &[u8]) -> Tables {
    let mut tables = Tables::new();
    for elem in BgpkitParser::from_reader(recording) {
        let table = tables.entry(elem.peer_ip).or_default();
        match elem.elem_type {
            ElemType::WITHDRAW => {
                table.remove(&elem.prefix.to_string());
            }
            ElemType::ANNOUNCE => match usable(&elem) {
                Some(route) => {
                    table.insert(elem.prefix.to_string(), route);
                }
                None => {
                    table.remove(&elem.prefix.to_string());
                }
            },
        }
    }
    tables
}

/// RFC 9774: a path with a set is treated as withdrawn.
fn usable(elem: &BgpElem) -> Option<Route> {
    let mut path = Vec::new();
    for segment in elem.as_path.as_ref()?.iter_segments() {
        let Segment::AsSequence(numbers) = segment else { return None };
        path.extend(numbers.iter().copied().map(u32::from));
    }
    let origin = elem.origin.map(|origin| match origin {
        bgpkit_parser::models::Origin::IGP => Origin::Igp,
        bgpkit_parser::models::Origin::EGP => Origin::Egp,
        bgpkit_parser::models::Origin::INCOMPLETE => Origin::Incomplete,
    });
    let plain = |community: &&bgpkit_parser::models::MetaCommunity| {
        matches!(community, bgpkit_parser::models::MetaCommunity::Plain(_))
    };
    Some(Route {
        next_hop: elem.next_hop?.to_string(),
        path,
        origin,
        med: elem.med.unwrap_or(0),
        communities: elem.communities.iter().flatten().filter(plain).count(),
    })
}

/// Both readers have the same. The number of messages and of routes.
fn agree(name: &str, recording: &[u8]) -> (u64, usize) {
    let (ours, counted) = ours(recording);
    let theirs = theirs(recording);
    let mut routes = 0;
    for (peer, table) in &theirs {
        let empty = BTreeMap::new();
        let mine = ours.get(peer).unwrap_or(&empty);
        for (prefix, route) in table {
            assert_eq!(mine.get(prefix), Some(route), "{name}: {prefix} of {peer}");
        }
        let beyond: Vec<_> = mine.keys().filter(|prefix| !table.contains_key(*prefix)).collect();
        assert!(beyond.is_empty(), "{name}: {peer}: {beyond:?}");
        routes += table.len();
    }
    println!("{name}: {} messages, {routes} routes, {counted:?}", counted.updates_received);
    (counted.updates_received, routes)
}

#[test]
fn excerpts_of_two_collectors() {
    assert_eq!(agree("LINX", &mrt::excerpt("linx-2007.mrt")).0, LINX_MESSAGES);
    assert_eq!(agree("JINX", &mrt::excerpt("jinx-2015.mrt")).0, JINX_MESSAGES);
}

#[test]
fn whole_recordings() {
    for name in [
        "bgpdump.updates.20070211.0141.gz",
        "rrc06.updates.1427846400.gz",
        "rrc15.updates.20100227.1600.gz",
        "route-views.jinx.updates.1427846400.bz2",
    ] {
        let Some(recording) = mrt::recording(name) else { continue };
        let (messages, routes) = agree(name, &recording);
        assert!(messages > 500 && routes > 100, "{name}: {messages}, {routes}");
    }
}

#[test]
fn a_table_goes_through_two_sessions_unchanged() {
    let recording = mrt::excerpt("jinx-2015.mrt");
    let (speaker, _) = mrt::messages(&recording)[0];
    let mut first = Listener::new(speaker);
    for (_, message) in mrt::messages(&recording)
        .into_iter()
        .filter(|(by, message)| *by == speaker && message[18] == 2)
    {
        first.hear(message);
    }
    let mut second = Listener::new(speaker);
    let now = first.now;
    let mut announced = 0;
    while let Some(event) = first.session.poll_event() {
        match event {
            Event::Announced { prefix, path, attributes } => {
                second.session.announce(prefix, path, &attributes, now).unwrap();
                announced += 1;
            }
            Event::Withdrawn { prefix, path } => {
                second.session.withdraw(prefix, path, now);
            }
            _ => {}
        }
    }
    let mut third = Listener::new(speaker);
    let mut messages = 0;
    while let Some(transmit) = second.session.poll_transmit(now) {
        if let rhumb_bgp::Transmit::Send(_, bytes) = transmit {
            third.hear(&bytes);
            messages += 1;
        }
    }
    assert!(announced > 100, "{announced}");
    assert!(messages < announced, "{messages} messages");
    for family in Family::ALL {
        let there: Vec<_> = first.session.routes_in(family).collect();
        assert!(there.iter().copied().eq(third.session.routes_in(family)), "{family}");
    }
}

const LINX_MESSAGES: u64 = 260;
const JINX_MESSAGES: u64 = 241;
