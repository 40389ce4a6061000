//! What must not be in a log: a secret, anywhere, at any
//! level; the name of another, at `info` or above.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use crate::harness::{Place, Running};
use crate::network::Network;

/// Runs everything once with this filter and returns all log lines of RIB, router and both nodes,
/// with the names and key files involved.
fn logs(place: &Place, filter: &str) -> (Vec<(String, String)>, Vec<String>) {
    let loud = |command: &mut std::process::Command| {
        command.env("RUST_LOG", filter);
    };
    let network = Network::start_with(place, loud);
    let router = network.router();
    let names = [place.keygen("node", "a.key"), place.keygen("node", "b.key")];
    let mut receiver =
        place.start_with(&["receive", "--once", "--key", "b.key", "--router", &router], loud);
    receiver.next_object();
    std::fs::create_dir(place.path("out")).unwrap();
    place.write("out/note", "x");
    let mut sender = place.start_with(
        &["send", "out/note", "--to", &names[1], "--key", "a.key", "--router", &router],
        loud,
    );
    sender.next_object();
    receiver.next_object();
    let own = |ready: &serde_json::Value| ready["name"].as_str().unwrap().to_owned();
    let [a, b] = names;
    let all = vec![own(&network.rib_ready), own(&network.router_ready), a.clone(), b.clone()];
    let end = |running: Running| running.end().1;
    let lines = vec![
        (a, end(sender)),
        (b, end(receiver)),
        (own(&network.router_ready), end(network.router)),
        (own(&network.rib_ready), end(network.rib)),
    ];
    (lines, all)
}

#[test]
fn no_secret_at_any_level() {
    let place = Place::new();
    let (logs, _) = logs(&place, "trace");
    let text: String = logs.iter().map(|(_, lines)| lines.as_str()).collect();
    assert!(text.contains("TRACE") || text.contains("DEBUG"), "nothing was logged at all: {text}");
    for file in ["rib.key", "router.key", "a.key", "b.key"] {
        let key_file = std::fs::read_to_string(place.path(file)).unwrap();
        let hex = key_file.lines().find_map(|line| line.strip_prefix("key ")).unwrap();
        // PKCS #8 of a P-256 key: the private number stands at bytes 36 to 68.
        let secret = &hex[72..136];
        let bytes: Vec<String> = (0..32)
            .map(|at| u8::from_str_radix(&secret[2 * at..2 * at + 2], 16).unwrap().to_string())
            .collect();
        assert!(!text.to_lowercase().contains(&secret[..24]), "{file}: in hex");
        assert!(!text.contains(&bytes[..8].join(", ")), "{file}: as a list");
    }
}

#[test]
fn no_name_of_another_at_info() {
    let place = Place::new();
    let (logs, names) = logs(&place, "info");
    assert!(logs.iter().any(|(_, lines)| lines.contains("INFO")), "nothing was logged: {logs:?}");
    for (own, lines) in logs {
        for name in names.iter().filter(|name| **name != own) {
            assert!(!lines.contains(&name[..10]), "{name} in {lines}");
        }
    }
}
