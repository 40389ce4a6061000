//! Both ends connect at once: one session with each other, and it
//! works, however the two handshakes interleave.

#![allow(clippy::unwrap_used)] // A test may.

use std::time::Duration;

use proptest::prelude::*;
use rhumb_link::{CloseReason, Event};

use crate::pair::{Fate, Net};

fn connect_both(net: &mut Net, lead: Duration) {
    net.connect(0, 1);
    net.run(lead);
    net.connect(1, 0);
}

#[test]
fn any_lead_of_one_end_gives_one_session_that_lasts() {
    for lead_ms in (0..100).step_by(3) {
        let mut net = Net::pair();
        connect_both(&mut net, Duration::from_millis(lead_ms));
        net.run(Duration::from_secs(2));
        net.assert_carries(&format!("lead {lead_ms} ms"));
        net.run(Duration::from_secs(120));
        net.assert_carries(&format!("lead {lead_ms} ms, two minutes later"));
        for host in 0..2 {
            assert_eq!(net.hosts[host].endpoint.sessions().count(), 1);
            assert_eq!(net.hosts[host].endpoint.half_open(), 0);
            let ended =
                |event: &Event| matches!(event, Event::Closed { .. } | Event::Failed { .. });
            assert!(!net.hosts[host].events.iter().any(ended), "{:?}", net.hosts[host].events);
        }
    }
}

#[test]
fn either_end_can_close_afterwards() {
    for closer in 0..2 {
        for lead_ms in [0, 5, 15, 25, 35] {
            let mut net = Net::pair();
            connect_both(&mut net, Duration::from_millis(lead_ms));
            net.run(Duration::from_secs(30));
            let session = net.session(closer, 1 - closer);
            let now = net.now;
            net.hosts[closer].endpoint.close(session, now);
            net.collect(closer);
            net.run(Duration::from_secs(1));
            let last = net.hosts[1 - closer].events.last();
            assert!(
                matches!(last, Some(Event::Closed { reason: CloseReason::PeerClosed, .. })),
                "lead {lead_ms} ms, {closer} closes: {last:?}"
            );
        }
    }
}

#[test]
fn the_session_is_renewed_by_somebody() {
    for lead_ms in [0, 5, 15, 25, 35] {
        let mut net = Net::pair();
        connect_both(&mut net, Duration::from_millis(lead_ms));
        net.run(Duration::from_secs(1));
        net.take_events(0);
        net.run(rhumb_link::RENEWAL_INTERVAL + Duration::from_secs(300));
        let renewed = |event: &Event| matches!(event, Event::Established { renewed: true, .. });
        assert!(net.hosts[0].events.iter().any(renewed), "lead {lead_ms} ms");
        net.assert_carries(&format!("renewed, lead {lead_ms} ms"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_bad_network_does_not_split_the_ends(
        lead_ms in 0u64..400,
        dice in prop::collection::vec(any::<(u8, u8)>(), 60),
    ) {
        let mut net = Net::pair();
        net.set_fate(move |number, _| match dice.get(number) {
            Some((0..=40, _)) => Fate::Lost,
            Some((41..=90, span)) => Fate::Late(Duration::from_millis(u64::from(*span))),
            Some((91..=110, span)) => Fate::Twice(Duration::from_millis(u64::from(*span))),
            _ => Fate::Arrives,
        });
        connect_both(&mut net, Duration::from_millis(lead_ms));
        // Long enough to lose handshakes, too short to lose all keep-alives of a session.
        net.run(Duration::from_secs(5));
        net.set_fate(|_, _| Fate::Arrives);
        net.run(Duration::from_secs(40));
        if net.find_session(0, 1).is_some() {
            net.assert_carries("after a bad network");
            net.run(Duration::from_secs(60));
            net.assert_carries("a minute later");
        } else {
            prop_assert!(net.find_session(1, 0).is_none(), "one end alone");
        }
    }
}
