//! Rules, tables and marks, as the kernel shows them, and what they do to packets.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::io::ErrorKind;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsFd;

use rhumb_io::marks::{is_internet_socket, mark_of, mark_socket, share_namespace};
use rhumb_io::steering::{Action, Rule, Selector, Steering};
use wire::Wire;

use crate::wire;

const TABLE: u32 = 0x5268_0301;

#[test]
fn rules_are_as_they_were_asked_for_and_found_again() {
    let Some(wire) = Wire::new() else { return };
    let mut steering = wire.near.enter(|| Steering::new().unwrap());
    let prefix = |text: &str, bits| Some((text.parse::<IpAddr>().unwrap(), bits));
    let all = Selector {
        source: prefix("10.0.0.0", 8),
        destination: prefix("198.51.100.7", 32),
        mark: Some((0x12, 0xFF)),
        protocol: Some(6),
        source_ports: Some(1000..=2000),
        destination_ports: Some(80..=80),
        users: Some(7..=8),
        is_local: true,
    };
    let end = Selector::default();
    let rules = [
        Rule { priority: 9, is_v6: false, selector: end.clone(), action: Action::Nothing },
        Rule { priority: 5, is_v6: false, selector: all, action: Action::Table(TABLE) },
        Rule { priority: 6, is_v6: true, selector: end.clone(), action: Action::Unreachable },
        Rule { priority: 7, is_v6: false, selector: end, action: Action::SkipTo(9) },
    ];
    for rule in &rules {
        steering.add_rule(rule).unwrap();
        assert_eq!(steering.add_rule(rule).unwrap_err().kind(), ErrorKind::AlreadyExists);
    }
    let shown = wire.near.run("ip rule show pref 5");
    for part in [
        "from 10.0.0.0/8",
        "to 198.51.100.7",
        "fwmark 0x12/0xff",
        "iif lo",
        "uidrange 7-8",
        "ipproto tcp",
        "sport 1000-2000",
        "dport 80",
        "lookup 1382548225",
        "proto 82",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(wire.near.run("ip rule show pref 7").contains("goto 9"));
    assert!(wire.near.run("ip -6 rule show pref 6").contains("unreachable"));
    wire.near.run("ip rule add pref 11 lookup main");
    assert_eq!(steering.rules().unwrap(), [(5, false), (7, false), (9, false), (6, true)]);
    steering.remove_rule(&rules[1]).unwrap();
    for (priority, is_v6) in steering.rules().unwrap() {
        steering.remove_rule_at(priority, is_v6).unwrap();
    }
    assert_eq!(steering.rules().unwrap(), []);
    assert!(steering.remove_rule_at(11, false).is_err(), "not one of ours");
}

#[test]
fn a_mark_leads_a_socket_to_its_table_and_nowhere_when_that_has_no_device() {
    let Some(wire) = Wire::new() else { return };
    let mut steering = wire.near.enter(|| Steering::new().unwrap());
    let selector = Selector { mark: Some((TABLE, u32::MAX)), ..Selector::default() };
    let rule = Rule { priority: 5, is_v6: false, selector, action: Action::Table(TABLE) };
    steering.lead(TABLE, false, None).unwrap();
    steering.add_rule(&rule).unwrap();
    let [marked, plain] =
        [(); 2].map(|()| wire.near.enter(|| UdpSocket::bind("0.0.0.0:0")).unwrap());
    mark_socket(marked.as_fd(), TABLE).unwrap();
    assert_eq!((mark_of(marked.as_fd()).unwrap(), mark_of(plain.as_fd()).unwrap()), (TABLE, 0));
    assert!(plain.send_to(b"x", "10.9.0.2:9").is_ok());
    let refused = marked.send_to(b"x", "10.9.0.2:9").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::HostUnreachable);
    let source = steering.source_to("10.9.0.2".parse().unwrap()).unwrap();
    assert_eq!(source, "10.9.0.1".parse::<IpAddr>().unwrap());
    steering.lead(TABLE, false, Some(("near", source))).unwrap();
    steering.lead(TABLE, true, None).unwrap();
    assert!(marked.send_to(b"x", "192.0.2.9:9").is_ok(), "the default route of its table");
    assert!(plain.send_to(b"x", "192.0.2.9:9").is_err(), "no route");
    mark_socket(marked.as_fd(), 0).unwrap();
    assert!(marked.send_to(b"x", "192.0.2.9:9").is_err());
    steering.forget(TABLE);
    assert_eq!(wire.near.run(&format!("ip route show table {TABLE}")), "");
    assert_eq!(wire.near.run(&format!("ip -6 route show table {TABLE}")), "");
    assert!(steering.has_device("near") && !steering.has_device("far"));
    steering.set_mtu("near", 1300).unwrap();
    assert!(wire.near.run("ip link show near").contains("mtu 1300"));
}

#[test]
fn sockets_are_told_apart() {
    let Some(wire) = Wire::new() else { return };
    let socket = |host: &wire::Host| host.enter(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
    let [one, other, far] = [socket(&wire.near), socket(&wire.near), socket(&wire.far)];
    assert!(share_namespace(one.as_fd(), other.as_fd()));
    assert!(!share_namespace(one.as_fd(), far.as_fd()));
    let (local, _) = std::os::unix::net::UnixStream::pair().unwrap();
    let file = std::fs::File::open("/dev/null").unwrap();
    assert!(is_internet_socket(one.as_fd()));
    assert!(!is_internet_socket(local.as_fd()) && !is_internet_socket(file.as_fd()));
    assert!(mark_socket(file.as_fd(), 1).is_err());
}
