//! What an established session holds in memory.
//!
//! Counted by the C library's allocator, which serves Rust as well as the cryptography below it; so
//! this file has one test, nothing else runs beside it, and it runs where that library is.

#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::time::Duration;

use rhumb_link::Config;

use crate::pair::Net;

const CLIENTS: usize = 200;
/// With a million sessions a router has ten gigabytes for them, not more.
const MOST_BYTES: usize = 10_000;

#[test]
fn an_idle_session_holds_less_than_ten_kilobytes() {
    let mut net = Net::new();
    let server = net.add(Config::default());
    let clients: Vec<usize> = (0..CLIENTS).map(|_| net.add(Config::default())).collect();
    let before = bytes_in_use();
    for client in clients {
        net.connect(client, server);
        net.run(Duration::from_millis(100));
    }
    // Until the exchanges that made the sessions are forgotten.
    net.run(Duration::from_secs(30));
    net.sent = Vec::new();
    for host in &mut net.hosts {
        host.events = Vec::new();
    }
    assert_eq!(net.hosts[server].endpoint.sessions().count(), CLIENTS);
    // Each is counted at both its ends.
    let a_session = (bytes_in_use() - before) / CLIENTS / 2;
    println!("{a_session} bytes a session");
    assert!(a_session > 1000, "{a_session}: the count misses the keys and the windows");
    assert!(a_session < MOST_BYTES, "{a_session}");
}

fn bytes_in_use() -> usize {
    // SAFETY: the call takes nothing and returns plain numbers.
    #[expect(unsafe_code, reason = "the standard library does not tell what is allocated")]
    let info = unsafe { libc::mallinfo2() };
    info.uordblks + info.hblkhd
}
