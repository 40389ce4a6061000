//! What each member should receive: a plain route server's work,
//! written down once more, from what members announce.
//!
//! A route goes to whom the matrix lets it and its communities do not keep it from. Of those that
//! may go to a member the best goes: shortest path, then, where the exchange's load of ports
//! counts, the least loaded announcer, then lowest origin, then the lowest router.

use std::collections::BTreeMap;

use super::slice::Announced;
use super::{EXCHANGE, MATRIX, Member, Received, Table};

/// The tables of `receivers` where `announcers` announce. `load` is
/// that of each member's port, where it counts.
pub(crate) fn tables<'a>(
    receivers: impl Iterator<Item = &'a Member>,
    announcers: impl Iterator<Item = &'a Member> + Clone,
    load: Option<&[u32]>,
) -> BTreeMap<usize, Table> {
    receivers.map(|to| (to.index, table(to, announcers.clone(), load))).collect()
}

fn table<'a>(
    to: &Member,
    announcers: impl Iterator<Item = &'a Member>,
    load: Option<&[u32]>,
) -> Table {
    let mut best: BTreeMap<String, (Rank, Received)> = BTreeMap::new();
    for from in announcers.filter(|from| from.index != to.index) {
        for route in from.routes.iter().filter(|route| goes(route, from, to)) {
            let received = as_received(route, from, to);
            let origin = ["igp", "egp", "incomplete"].iter().position(|name| *name == route.origin);
            let port = load.map_or(0, |load| load[from.index]);
            let rank = (received.path.len(), port, origin.unwrap(), from.index);
            let is_better = best.get(&route.prefix).is_none_or(|(other, _)| rank < *other);
            if is_better {
                best.insert(route.prefix.clone(), (rank, received));
            }
        }
    }
    let best = best.into_iter().map(|(prefix, (_, received))| (prefix, received));
    best.filter(|(_, received)| !received.path.contains(&to.asn)).collect()
}

type Rank = (usize, u32, usize, usize);

fn goes(route: &Announced, from: &Member, to: &Member) -> bool {
    let rs = EXCHANGE as u16;
    let is_told =
        |standard, large| route.standard.contains(&standard) || route.large.contains(&large);
    let (peer, peer_number) = (to.asn as u16, to.asn);
    if MATRIX[from.index][to.index] == 0 || is_told((0, peer), (EXCHANGE, 0, peer_number)) {
        return false;
    }
    let to_nobody = is_told((0, rs), (EXCHANGE, 0, 0));
    !to_nobody || is_told((rs, peer), (EXCHANGE, 1, peer_number))
}

fn as_received(route: &Announced, from: &Member, to: &Member) -> Received {
    let prepends = (101..=103).filter(|order| route.large.contains(&(EXCHANGE, *order, to.asn)));
    let times = prepends.max().map_or(1, |order| order as usize - 99);
    let path = std::iter::repeat_n(from.asn, times).chain(route.tail.iter().copied());
    let standard =
        route.standard.iter().filter(|(high, _)| *high != 0 && u32::from(*high) != EXCHANGE);
    let large = route.large.iter().filter(|(high, ..)| *high != EXCHANGE);
    let standard = standard.map(|(high, low)| format!("{high}:{low}"));
    Received {
        next_hop: from.next_hop(&route.prefix).to_owned(),
        path: path.collect(),
        origin: route.origin.clone(),
        med: route.med.unwrap_or(0),
        communities: standard.chain(large.map(|(a, b, c)| format!("{a}:{b}:{c}"))).collect(),
    }
}
