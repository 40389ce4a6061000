//! Attacks on the router and the RIB as they are run, by strangers with sockets:
//! what honest nodes get amid them, in counts. Times are measured by `cargo
//! xtask bench attacks`, with the same attackers.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use rhumb_wire::{Action, Name, PduHeader, Role};
use serde_json::Value;

use crate::attackers::{
    ATTACKER, AtRate, Flow, Publisher, Stranger, fill, forge_certificates, joins, lower_ttl,
    ping_random_names, publish_locators,
};
use crate::harness::{Place, Running, remote};
use crate::network::Network;

/// For one join, on a machine that is busy with everything else.
const PATIENCE: Duration = Duration::from_secs(15);

fn address(ready: &Value) -> SocketAddr {
    ready["address"].as_str().unwrap().parse().unwrap()
}

fn start_router(place: &Place, key: &str, rib: &Value) -> (Running, SocketAddr) {
    let any = "127.0.0.1:0";
    let to_rib = remote(rib);
    let mut router = place.start(&["router", "--listen", any, "--key", key, "--rib", &to_rib]);
    let at = address(&router.next_object());
    (router, at)
}

fn resident_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn thirteen_identities_that_fill_a_rib_lock_nobody_out() {
    let place = Place::new();
    place.write("rib.toml", "[rib]\ndisk_mib = 16\nmemory_mib = 128\nstrangers_percent = 10\n");
    place.keygen("rib", "rib.key");
    let [one, two] = ["one.key", "two.key"].map(|key| place.keygen("router", key));
    let any = "127.0.0.1:0";
    let words = ["--config", "rib.toml", "rib", "--listen", any, "--admin", any];
    let more = ["--key", "rib.key", "--store", "rib.redb", "--admit", &one, "--admit", &two];
    let mut rib = place.start(&[&words[..], &more].concat());
    let ready = rib.next_object();
    let at = address(&ready);
    let ((_one, one), (_two, two)) =
        (start_router(&place, "one.key", &ready), start_router(&place, "two.key", &ready));
    let before = joins(one, 3, PATIENCE);
    assert_eq!(before.len(), 3, "before anything happens");

    let strangers = fill(at, 13);
    let taken: usize = strangers.iter().map(|stranger| stranger.stored.len()).sum();
    // Strangers' part of the names that go with 16 MiB.
    let bound = 1562;
    assert!((bound / 2..=bound).contains(&taken), "{taken} of {bound}");

    let mut after = joins(one, 10, PATIENCE);
    after.extend(joins(two, 10, PATIENCE));
    assert_eq!(after.len(), 20, "joins that were published");
    let mut asker = Publisher::connect(ATTACKER, at);
    let joined = before.iter().chain(&after).map(|joined| joined.name);
    let stored = strangers.iter().flat_map(|stranger| stranger.stored.iter().copied());
    let asked: Vec<Name> = joined.chain(stored.step_by(10)).collect();
    assert_eq!(asker.found(&asked), asked.len(), "names that are found");

    let resident = resident_kib(rib.child.id());
    assert!(resident < 128 << 10, "{resident} KiB resident");
    let file = std::fs::metadata(place.path("rib.redb")).unwrap().len();
    assert!(file <= 16 << 20, "{file} bytes on disk");
}

/// Two routers with a flow from a node at the first to one at the second: 100 PDUs a
/// second for three seconds, amid 500 a second of an attack that begins with the first
/// router's address and the name of the flow's sink.
fn delivered_amid(attack: impl FnOnce(SocketAddr, Name, u64) -> AtRate) {
    let place = Place::new();
    let network = Network::start(&place);
    place.keygen("router", "second.key");
    let (_second, second) = start_router(&place, "second.key", &network.rib_ready);
    let first = address(&network.router_ready);
    let mut flow = Flow::between(first, second);
    let attack = attack(first, flow.sink(), 500);
    let carried = flow.run(100, Duration::from_secs(3));
    let per_s = attack.end();
    assert_eq!(carried.arrived, carried.sent, "amid {per_s} a second");
}

#[test]
fn unsigned_certificates_of_a_stranger_that_never_joined_stop_no_flow() {
    delivered_amid(forge_certificates);
}

#[test]
fn a_low_ttl_stops_no_flow() {
    delivered_amid(lower_ttl);
}

/// What arrives at these sockets, and what a stranger sends in all who pings names
/// that are said to be there, for three seconds.
fn sent_to_victims(victims: &[UdpSocket], names_each: usize) -> (u64, u64) {
    let place = Place::new();
    let network = Network::start(&place);
    let (router, rib) = (address(&network.router_ready), address(&network.rib_ready));
    let at = victims.iter().map(|victim| victim.local_addr().unwrap());
    let names: Vec<Name> =
        at.flat_map(|victim| publish_locators(rib, victim, names_each)).collect();
    let mut stranger = Stranger::join(ATTACKER, router, Role::Node);
    let (begun, own) = (Instant::now(), stranger.name());
    for name in names.iter().cycle() {
        if begun.elapsed() > Duration::from_secs(3) {
            break;
        }
        stranger.send(PduHeader::new(Action::Ping, own, *name), &[], &[]);
        stranger.ignore();
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut buffer = [0; 2048];
    let mut bytes = 0;
    for victim in victims {
        victim.set_nonblocking(true).unwrap();
        while let Ok(len) = victim.recv(&mut buffer) {
            bytes += len as u64;
        }
    }
    (bytes, stranger.sent_bytes)
}

#[test]
fn locators_at_one_victim_send_it_less_than_the_asker_sent() {
    let victim = UdpSocket::bind((Ipv4Addr::new(127, 66, 0, 1), 0)).unwrap();
    let (bytes, asked) = sent_to_victims(&[victim], 60);
    assert!((1..=asked / 2).contains(&bytes), "{bytes} bytes for {asked}");
}

#[test]
fn locators_at_many_victims_send_them_less_than_the_asker_sent() {
    let victim = |number| UdpSocket::bind((Ipv4Addr::new(127, 67, number, 1), 0)).unwrap();
    let victims: Vec<UdpSocket> = (0..40).map(victim).collect();
    let (bytes, asked) = sent_to_victims(&victims, 2);
    assert!((1..=asked).contains(&bytes), "{bytes} bytes for {asked}");
}

#[test]
fn who_pings_random_names_leaves_ten_of_ten_joins_published() {
    let place = Place::new();
    let network = Network::start(&place);
    let router = address(&network.router_ready);
    let attack = ping_random_names(router, 5500);
    // Until what it may have at once is used up.
    std::thread::sleep(Duration::from_secs(1));
    let joined = joins(router, 10, PATIENCE);
    let per_s = attack.end();
    assert_eq!(joined.len(), 10, "amid {per_s} pings a second");
}
