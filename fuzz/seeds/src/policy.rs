//! Examples for routing policies: expressions, and streams of a cache.

use std::collections::BTreeSet;
use std::time::Instant;

use rhumb_bgp::policy::prefix::parse_prefix;
use rhumb_bgp::policy::rtr::RtrClient;
use rhumb_bgp::policy::rtr::pdu::{Intervals, Pdu};
use rhumb_bgp::policy::{Community, PathPattern, PrefixRange, Vrp};

/// Expressions of each kind, each of which parses; those over paths with a path.
pub(crate) fn texts() -> Vec<Vec<u8>> {
    let paths = [
        "_65000_",
        "^65000 (.* )?65010$",
        "^(65000|65001)_",
        "[65000-65010]",
        "^[^{]*( [0-9]+){2,4}$",
    ];
    assert!(paths.iter().all(|text| text.parse::<PathPattern>().is_ok()));
    let ranges = ["10.0.0.0/8 ge 16 le 24", "2001:db8::/32+", "192.0.2.0/24{25,26}"];
    assert!(ranges.iter().all(|text| text.parse::<PrefixRange>().is_ok()));
    let communities = ["65000:1", "6695:101:64500", "rt:65000:1", "ext:0x43:0:2", "no-export"];
    assert!(communities.iter().all(|text| text.parse::<Community>().is_ok()));
    let paths = paths.iter().map(|text| format!("{text}\n65000 65001 {{65002,65003}} 65010"));
    paths
        .chain([ranges.as_slice(), &communities].concat().into_iter().map(str::to_owned))
        .map(String::into_bytes)
        .collect()
}

/// A step, and a whole answer and a change behind it, in both versions.
pub(crate) fn streams() -> Vec<Vec<u8>> {
    let vrp = |text, asn| {
        Vrp::new(parse_prefix(text)?, 48, asn).or(Vrp::new(parse_prefix(text)?, 24, asn))
    };
    let payloads: BTreeSet<Vrp> = [("10.0.0.0/8", 1), ("192.0.2.0/24", 0), ("2001:db8::/32", 2)]
        .into_iter()
        .filter_map(|(text, asn)| vrp(text, asn))
        .collect();
    assert_eq!(payloads.len(), 3);
    let mut streams = Vec::new();
    for version in [0, 1] {
        let mut stream = Vec::new();
        let mut say = |pdu: Pdu| pdu.emit(version, &mut stream);
        say(Pdu::CacheResponse { session: 7 });
        payloads.iter().for_each(|vrp| say(Pdu::Prefix { announced: true, vrp: *vrp }));
        let end = |serial| Pdu::EndOfData {
            session: 7,
            serial,
            intervals: (version > 0).then_some(Intervals::DEFAULT),
        };
        say(end(1));
        say(Pdu::Notify { session: 7, serial: 2 });
        say(Pdu::CacheResponse { session: 7 });
        payloads.iter().take(1).for_each(|vrp| say(Pdu::Prefix { announced: false, vrp: *vrp }));
        say(end(2));
        let mut client = RtrClient::default();
        client.connected(Instant::now());
        assert_eq!(client.handle_bytes(&stream, Instant::now()), Ok(()));
        assert_eq!(client.vrps().map(BTreeSet::len), Some(2));
        stream.insert(0, 20);
        streams.push(stream);
    }
    streams
}
