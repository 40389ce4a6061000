//! What must hold of any bytes that another member could send through the exchange, which sees
//! neither places nor routes.

use std::net::Ipv4Addr;

use rhumb_bgp::Order;
use rhumb_bgp::policy::{ExportPolicy, ImportPolicy, Member, Policy, Ranking, Roster, Verdict};

use crate::domain::{ROUTE_LEN, fill, read};
use crate::encoding::{Announced, Place};
use crate::table::{Changes, Policies, Table};

/// A slot of a trust domain, without the zeros at its end. What is read is written as it was.
fn slot(data: &[u8]) {
    let mut route = data.to_vec();
    route.resize(ROUTE_LEN, 0);
    let Some((said_s, offered)) = read(&route) else { return };
    let bytes = offered.as_ref().map(|(_, offer)| offer.emit());
    let again = fill(said_s, offered.as_ref().map(|it| it.0).zip(bytes.as_ref()));
    assert!(offered.is_none() || again == route);
}

/// A destination's length, the destination, and the route to it; or a slot. What parses is emitted
/// as it was, or as it is parsed again; and what the router gets of a route goes with it.
pub fn route(data: &[u8]) {
    slot(data);
    let Some((len, rest)) = data.split_first() else { return };
    let Some((place, route)) = rest.split_at_checked(usize::from(*len)) else { return };
    let Some(parsed) = Place::parse(place) else { return };
    assert_eq!(parsed.to_bytes(), place);
    let announced = Announced::parse(parsed.prefix, route);
    if let Ok(announced) = &announced {
        let again = Announced::parse(parsed.prefix, &announced.to_bytes());
        assert_eq!(again.as_ref(), Ok(announced));
    }
    let Some(mut table) = table() else { return };
    let from = Member(1);
    let mut given = false;
    let mut changes = Changes::default();
    table.offered(parsed, from, route, &mut changes);
    for case in std::mem::take(&mut changes.cases) {
        let judged = case.judge();
        assert!(announced.is_ok() || judged.taken.is_err());
        table.judged(judged, &mut changes);
    }
    assert!(table.has_judged_all() && !table.is_waiting(parsed, from));
    assert_eq!(table.counts().taken, table.classes(parsed).len());
    for order in changes.router.drain(..) {
        assert!(matches!(&order, Order::Announce(prefix, _) if *prefix == parsed.prefix));
        given = true;
    }
    table.retracted(parsed, from, &mut changes);
    assert_eq!(changes.router.len(), usize::from(given));
    assert!(changes.router.iter().all(|order| matches!(order, Order::Withdraw(_))));
    assert_eq!(table.counts().offers, 0);
}

/// Of the first of two members, which takes what it can.
fn table() -> Option<Table> {
    let rules = Policy::new(Vec::new(), Verdict::Accept).ok()?;
    let roster = Roster::new(vec![64500, 64501])?;
    let export = ExportPolicy {
        rules: rules.clone(),
        allowed: roster.all(),
        own: Member(0),
        exchange_asn: 64499,
    };
    let import = ImportPolicy {
        rules,
        own_asn: 64500,
        first_asn: true,
        blackhole: false,
        ranking: Ranking::default(),
    };
    let mut table = Table::new(Policies { export, import, roster }, false);
    table.set_router_id(Ipv4Addr::new(192, 0, 2, 1), &mut Changes::default());
    Some(table)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes(data in proptest::collection::vec(any::<u8>(), 0..300)) {
            super::route(&data);
            let place = [6, 0, 4, 24, 198, 51, 100];
            super::route(&[&place[..], &data].concat());
            let route = [1, 192, 0, 2, 1, 4, 192, 0, 2, 9];
            super::route(&[&place[..], &route, &data].concat());
        }
    }
}
