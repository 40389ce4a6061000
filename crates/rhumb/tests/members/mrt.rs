//! Table dumps (RFC 6396, TABLE_DUMP_V2): as little of them as
//! it takes to give OpenBGPD routes with paths.

use std::net::Ipv4Addr;

use super::{Announced, Member, is_v6};

/// A dump in which the member itself is the only peer.
pub(super) fn table_dump(member: &Member, routes: &[Announced]) -> Vec<u8> {
    let id = member.station.v4.parse::<Ipv4Addr>().unwrap().octets();
    let mut peers = id.to_vec();
    // No view name, one peer, of IPv4 and with a long AS number.
    peers.extend([0, 0, 0, 1, 2]);
    peers.extend([id, id, member.asn.to_be_bytes()].concat());
    let mut dump = record(1, &peers);
    for (at, route) in routes.iter().enumerate() {
        let (address, len) = route.prefix.split_once('/').unwrap();
        let len: u8 = len.parse().unwrap();
        let address: std::net::IpAddr = address.parse().unwrap();
        let bytes = match address {
            std::net::IpAddr::V4(address) => address.octets().to_vec(),
            std::net::IpAddr::V6(address) => address.octets().to_vec(),
        };
        let attributes = attributes(member, route);
        let mut entry = (at as u32).to_be_bytes().to_vec();
        entry.push(len);
        entry.extend(&bytes[..usize::from(len).div_ceil(8)]);
        // One route, of peer 0, at time 0.
        entry.extend([0, 1, 0, 0, 0, 0, 0, 0]);
        entry.extend((attributes.len() as u16).to_be_bytes());
        entry.extend(attributes);
        dump.extend(record(if is_v6(&route.prefix) { 4 } else { 2 }, &entry));
    }
    dump
}

fn record(subtype: u16, body: &[u8]) -> Vec<u8> {
    let mut record = vec![0, 0, 0, 0, 0, 13];
    record.extend(subtype.to_be_bytes());
    record.extend((body.len() as u32).to_be_bytes());
    record.extend(body);
    record
}

fn attributes(member: &Member, route: &Announced) -> Vec<u8> {
    let origin = ["igp", "egp", "incomplete"].iter().position(|name| *name == route.origin);
    let mut bytes = vec![0x40, 1, 1, origin.unwrap() as u8];
    let mut put = |flags: u8, kind: u8, value: Vec<u8>| {
        bytes.extend([flags, kind, value.len() as u8]);
        bytes.extend(value);
    };
    let path = route.tail.iter().flat_map(|asn| asn.to_be_bytes());
    let head = if route.tail.is_empty() { vec![] } else { vec![2, route.tail.len() as u8] };
    put(0x40, 2, head.into_iter().chain(path).collect());
    if is_v6(&route.prefix) {
        let next_hop: std::net::Ipv6Addr = member.station.v6.parse().unwrap();
        put(0x80, 14, [&[16][..], &next_hop.octets()].concat());
    } else {
        put(0x40, 3, member.station.v4.parse::<Ipv4Addr>().unwrap().octets().to_vec());
    }
    if let Some(med) = route.med {
        put(0x80, 4, med.to_be_bytes().to_vec());
    }
    // Above what it gives routes of others: it announces its
    // own also where another has a shorter path.
    put(0x40, 5, 200u32.to_be_bytes().to_vec());
    if !route.standard.is_empty() {
        let all = route
            .standard
            .iter()
            .flat_map(|(high, low)| [high.to_be_bytes(), low.to_be_bytes()].concat());
        put(0xC0, 8, all.collect());
    }
    if !route.large.is_empty() {
        let all = route
            .large
            .iter()
            .flat_map(|(a, b, c)| [a, b, c].map(|part| part.to_be_bytes()).concat());
        put(0xC0, 32, all.collect());
    }
    bytes
}
