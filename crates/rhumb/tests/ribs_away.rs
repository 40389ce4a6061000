//! While no RIB answers: names of one router join, are told so, and reach each other; they are
//! published when a RIB is back.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::net::UdpSocket;

use crate::harness::{Place, Running, remote};
use crate::network::Network;

/// A port that nobody has at the moment.
fn free_address() -> String {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

fn start_rib(place: &Place, address: &str) -> Running {
    let mut rib =
        place.start(&["rib", "--listen", address, "--key", "rib.key", "--store", "rib.redb"]);
    rib.next_object();
    rib
}

fn start_router(place: &Place, key: &str, rib: &str) -> (Running, String) {
    let mut router =
        place.start(&["router", "--listen", "127.0.0.1:0", "--key", key, "--rib", rib]);
    let ready = remote(&router.next_object());
    (router, ready)
}

/// What happens at one router while there is no RIB: a name that was there before, or one that
/// joins now, gets pings and files.
fn names_of_one_router_reach_each_other(place: &Place, router: &str, to: &str, file: &str) {
    let ping = place.run(&["ping", to, "--count", "2", "--router", router]);
    assert_eq!(ping.code, 0, "{}", ping.errors);
    assert!(ping.errors.contains("not published yet: its RIBs do not answer"), "{}", ping.errors);
    assert_eq!(ping.errors.lines().count(), 1, "{}", ping.errors);
    place.write(file, "while no RIB answers");
    let sent = place.run(&["send", file, "--to", to, "--router", router]);
    assert_eq!(sent.code, 0, "{}", sent.errors);
}

#[test]
fn names_join_though_the_rib_was_never_started_and_are_published_once_it_is() {
    let place = Place::new();
    let rib_name = place.keygen("rib", "rib.key");
    for key in ["first.key", "second.key"] {
        place.keygen("router", key);
    }
    let address = free_address();
    let rib = format!("{rib_name}@{address}");
    let (_first, near) = start_router(&place, "first.key", &rib);
    let mut receiver = place.start(&["receive", "--router", &near]);
    let name = receiver.next_object()["name"].as_str().unwrap().to_owned();
    let told = receiver.wait_for_error("not published yet");
    assert!(told.contains("joined at") && told.contains("RIBs do not answer"), "{told}");
    names_of_one_router_reach_each_other(&place, &near, &name, "letter");
    assert!(receiver.next_object()["received"].as_str().unwrap().ends_with("letter.1"));

    let _rib = start_rib(&place, &address);
    receiver.wait_for_error("published: names at other routers have a way here now");
    let (_second, far) = start_router(&place, "second.key", &rib);
    let ping = place.run(&["ping", &name, "--count", "1", "--router", &far]);
    assert_eq!((ping.code, ping.errors.as_str()), (0, ""));
    assert_eq!(receiver.end(), (0, String::new()), "said once");
}

#[test]
fn names_join_after_the_rib_was_killed_and_are_published_when_it_is_started_again() {
    let place = Place::new();
    let Network { rib, router: _router, rib_ready, router_ready } = Network::start(&place);
    let near = remote(&router_ready);
    let mut before = place.start(&["receive", "--router", &near]);
    let known = before.next_object()["name"].as_str().unwrap().to_owned();
    rib.kill();
    names_of_one_router_reach_each_other(&place, &near, &known, "letter");
    assert!(before.next_object()["received"].as_str().unwrap().ends_with("letter.1"));
    let mut late = place.start(&["receive", "--router", &near]);
    let name = late.next_object()["name"].as_str().unwrap().to_owned();
    late.wait_for_error("not published yet");
    names_of_one_router_reach_each_other(&place, &near, &name, "note");

    let _rib = start_rib(&place, rib_ready["address"].as_str().unwrap());
    late.wait_for_error("published: names at other routers have a way here now");
    place.keygen("router", "second.key");
    let (_second, far) = start_router(&place, "second.key", &remote(&rib_ready));
    for name in [&known, &name] {
        let ping = place.run(&["ping", name, "--count", "1", "--router", &far]);
        assert_eq!((ping.code, ping.errors.as_str()), (0, ""));
    }
    assert_eq!(before.end(), (0, String::new()), "it was published all the while");
}
