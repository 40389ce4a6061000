//! OpenSSL clients and a node amid a flood of hellos in the
//! name of others, against the router as it is run.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::net::SocketAddr;
use std::time::Duration;

use crate::attackers::{OpenSsl, spoof_hellos};
use crate::harness::Place;
use crate::network::Network;

/// Hellos a second, if the machine has time for them.
const RATE: u64 = 20_000;
const CLIENTS: usize = 25;
/// For one client: what a machine that does much else needs, not what a handshake does.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn openssl_and_nodes_finish_amid_spoofed_hellos() {
    let place = Place::new();
    let openssl = match OpenSsl::new(place.folder()) {
        Ok(openssl) => openssl,
        Err(error) => {
            println!("skipped: OpenSSL amid a flood (no openssl command: {error})");
            return;
        }
    };
    let network = Network::start(&place);
    let router: SocketAddr = network.router_ready["address"].as_str().unwrap().parse().unwrap();
    assert!(openssl.handshake(router, PATIENCE).is_some(), "without a flood");

    let flood = spoof_hellos(router, RATE);
    let times: Vec<_> = (0..CLIENTS).filter_map(|_| openssl.handshake(router, PATIENCE)).collect();
    place.keygen("node", "node.key");
    let name = network.router_ready["name"].as_str().unwrap();
    let ping =
        place.run(&["--json", "ping", name, "--router", &network.router(), "--key", "node.key"]);
    let per_s = flood.end();
    let within = times.iter().filter(|time| **time < Duration::from_secs(2)).count();
    println!(
        "{per_s:.0} hellos a second; {} of {CLIENTS} finished, {within} within 2 s",
        times.len()
    );
    assert_eq!(times.len(), CLIENTS, "of {per_s} hellos a second");
    assert_eq!(ping.code, 0, "{}", ping.errors);
}
