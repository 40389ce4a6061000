//! Refusals do not multiply: whatever is asked, answers stay within what was asked.

#![allow(clippy::unwrap_used)] // A test may.

use std::time::Duration;

use rhumb_link::Event;
use rhumb_sim::{Conditions, StationId, World};
use rhumb_wire::{Action, Name, PduHeader, Role};

const SECOND: Duration = Duration::from_secs(1);

fn nacks(world: &World, router: StationId) -> u64 {
    world.switch(router).unwrap().counters().nacks
}

#[test]
fn a_burst_to_nobody_costs_a_few_answers_each() {
    let mut world = World::new(1, Conditions::LAN);
    world.add_rib();
    let line = world.add_line(3);
    let a = world.add_node(line[0]);
    world.run(5 * SECOND);
    let before = world.totals().datagrams.sent;
    let requests = world.switch(line[0]).unwrap().counters().rib_requests;
    for nobody in 0..10u8 {
        for _ in 0..50 {
            world.send_to_name(a, Name([nobody; 32]), 100).unwrap();
        }
    }
    world.run(20 * SECOND);
    // Each is offered for five seconds, and told for how long nothing changes.
    let sent = world.totals().datagrams.sent - before;
    assert!(sent < 500 * 20, "{sent} datagrams for 500 messages");
    assert!(nacks(&world, line[0]) < 500 * 8, "{} NACKs", nacks(&world, line[0]));
    let asked = world.switch(line[0]).unwrap().counters().rib_requests - requests;
    assert!(asked <= 10 * 5, "{asked} questions about ten names");
    assert_eq!(nacks(&world, line[1]) + nacks(&world, line[2]), 0, "nobody else is bothered");
}

#[test]
fn a_flood_without_rights_is_answered_at_most_one_for_one_and_at_a_bounded_rate() {
    let mut world = World::new(2, Conditions::LAN);
    world.expect_at_most(200_000);
    world.add_rib();
    let line = world.add_line(1);
    let (a, b) = (world.add_node(line[0]), world.add_node(line[0]));
    let flooder = world.add_outsider(Role::Node);
    world.run(3 * SECOND);
    let (router, address) = (world.name(line[0]), world.address(line[0]));
    world.with_outsider(flooder, |outsider, now| outsider.connect(address, Some(router), now));
    world.run(SECOND);
    let before = nacks(&world, line[0]);
    let victim = world.name(b);
    let mut sent = 0;
    // 60 ms, so within one window of the router's limit, of 100 datagrams in each millisecond.
    for _ in 0..60 {
        world.with_outsider(flooder, |outsider, now| {
            let session = outsider.session_with(&router).expect("it is connected");
            let header = PduHeader::new(Action::Data, outsider.name(), victim);
            for _ in 0..100 {
                sent += u64::from(outsider.send(session, header, &[0; 64], &[], now));
            }
        });
        world.run(Duration::from_millis(1));
    }
    let answered = nacks(&world, line[0]) - before;
    assert_eq!(sent, 6000);
    assert!((1000..=4000).contains(&answered), "{answered} NACKs for {sent} PDUs");
    world.send(a, b, 50).unwrap();
    world.run(SECOND);
    assert_eq!(world.received(b).len(), 1, "others are served");
    let closed = world.with_outsider(flooder, |outsider, _| {
        outsider.events.iter().any(|event| matches!(event, Event::Closed { .. }))
    });
    assert_eq!(closed, Some(false), "and the flooder is not worth a word");
}
