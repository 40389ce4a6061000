//! Drives a [`KeyClient`] over sockets: asks resolvers, on the calling
//! thread, until a time or until enough is there.

use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::time::Duration;

use rhumb_keyserver::client::{Answered, KeyClient, Query};
use rhumb_keyserver::feed::ask_over_stream;
use rhumb_keyserver::server::Transport;

use crate::clock;
use crate::failure::{Failure, Outcome};
use crate::remote::{DEFAULT_KEYSERVER_PORT, any_port_towards};

/// A client and the resolvers that it asks.
#[derive(Debug)]
pub struct KeyFetch {
    client: KeyClient,
    resolvers: Vec<SocketAddr>,
}

impl KeyFetch {
    /// Asks `resolvers`, or those of the system where none are given.
    pub fn new(client: KeyClient, resolvers: &[SocketAddr]) -> Outcome<Self> {
        Ok(Self { client, resolvers: resolvers_or_system(resolvers)? })
    }

    /// The client, to ask for keys.
    pub fn client(&self) -> &KeyClient {
        &self.client
    }

    /// Fetches the keys of the next windows at once.
    pub fn hurry(&mut self) {
        self.client.hurry(clock::now().unix_ms, || 0);
    }

    /// Works until `is_enough` or for `patience`; says which.
    pub fn run(
        &mut self,
        patience: Duration,
        mut is_enough: impl FnMut(&KeyClient, u64) -> bool,
    ) -> Outcome<bool> {
        let now_ms = || clock::now().unix_ms;
        let end_ms = now_ms() + patience.as_millis() as u64;
        loop {
            let now = now_ms();
            if is_enough(&self.client, now) {
                return Ok(true);
            }
            if now >= end_ms {
                return Ok(false);
            }
            let seed = random()?;
            let mut numbers = numbers_from(seed);
            match self.client.poll_query(now, &mut numbers) {
                Some(query) => self.ask(&query, &mut numbers),
                None => {
                    let wait_ms = self.client.poll_timeout(now).min(end_ms).saturating_sub(now);
                    std::thread::sleep(Duration::from_millis(wait_ms.clamp(1, MAX_WAIT_MS)));
                }
            }
        }
    }

    fn ask(&mut self, query: &Query, numbers: &mut impl FnMut() -> u64) {
        let resolver = self.resolvers[query.resolver % self.resolvers.len()];
        let asked = match query.transport {
            Transport::Datagram => self.ask_datagram(query, resolver, numbers),
            Transport::Stream => self.ask_stream(query, resolver, numbers),
        };
        if let Err(error) = asked {
            tracing::debug!(%resolver, %error, "a resolver failed");
            self.client.handle_failure(clock::now().unix_ms, numbers);
        }
    }

    /// Waits for the answer that fits; others are not believed and cost nothing but their reading.
    fn ask_datagram(
        &mut self,
        query: &Query,
        resolver: SocketAddr,
        numbers: &mut impl FnMut() -> u64,
    ) -> io::Result<()> {
        // A fresh socket has a fresh port, which whoever forges answers has to guess.
        let socket = UdpSocket::bind(any_port_towards(resolver))?;
        socket.connect(resolver)?;
        socket.send(&query.message)?;
        let mut buffer = [0; MAX_ANSWER_LEN];
        loop {
            let left_ms = query.deadline_ms.saturating_sub(clock::now().unix_ms);
            if left_ms == 0 {
                return Ok(());
            }
            socket.set_read_timeout(Some(Duration::from_millis(left_ms)))?;
            let len = match socket.recv(&mut buffer) {
                Ok(len) => len,
                Err(error) if is_timeout(&error) => return Ok(()),
                Err(error) => return Err(error),
            };
            let now_ms = clock::now().unix_ms;
            if self.client.handle_answer(&buffer[..len], now_ms, &mut *numbers) != Answered::Ignored
            {
                return Ok(());
            }
        }
    }

    fn ask_stream(
        &mut self,
        query: &Query,
        resolver: SocketAddr,
        numbers: &mut impl FnMut() -> u64,
    ) -> io::Result<()> {
        let left_ms = query.deadline_ms.saturating_sub(clock::now().unix_ms).max(1);
        let patience = Duration::from_millis(left_ms);
        let mut stream = TcpStream::connect_timeout(&resolver, patience)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        let answer = ask_over_stream(&mut stream, &query.message)?;
        let now_ms = clock::now().unix_ms;
        match self.client.handle_answer(&answer, now_ms, numbers) {
            Answered::Ignored => Err(io::Error::other("its answer does not open")),
            _ => Ok(()),
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// These resolvers, or those of the system where none are given.
pub fn resolvers_or_system(given: &[SocketAddr]) -> Outcome<Vec<SocketAddr>> {
    if !given.is_empty() {
        return Ok(given.to_vec());
    }
    let resolvers = system_resolvers(Path::new(RESOLV_CONF));
    if resolvers.is_empty() {
        return Err(Failure::setup_text(format!(
            "{RESOLV_CONF} names no resolver; give --resolver ADDR"
        )));
    }
    Ok(resolvers)
}

/// The name servers of `resolv.conf(5)`.
fn system_resolvers(path: &Path) -> Vec<SocketAddr> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix("nameserver"));
    let addresses = lines.filter_map(|address| {
        // An address of this link has its interface behind it.
        address.split_whitespace().next()?.split('%').next()?.parse().ok()
    });
    addresses
        .map(|address| SocketAddr::new(address, DEFAULT_KEYSERVER_PORT))
        .take(MAX_RESOLVERS)
        .collect()
}

/// Eight random bytes.
pub fn random() -> Outcome<u64> {
    let secret = crate::key::fresh_secret()?;
    Ok(u64::from_be_bytes(*secret.first_chunk().expect("invariant: a secret has 32 bytes")))
}

/// SplitMix64: what is asked is not secret, and forged answers do not open.
fn numbers_from(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

const RESOLV_CONF: &str = "/etc/resolv.conf";
/// As the system's own resolver reads (`MAXNS`).
const MAX_RESOLVERS: usize = 3;
/// More than we say that we take.
const MAX_ANSWER_LEN: usize = 4096;
/// So that a change of the clock is noticed.
const MAX_WAIT_MS: u64 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolvers_are_those_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("resolv.conf");
        let text = "# x\nsearch example.net\nnameserver 192.0.2.1\n nameserver  fe80::1%eth0\n\
                    nameserver nonsense\nnameserver 192.0.2.2\nnameserver 192.0.2.3\n";
        std::fs::write(&path, text).unwrap();
        let found: Vec<String> = system_resolvers(&path).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["192.0.2.1:53", "[fe80::1]:53", "192.0.2.2:53"]);
        assert!(system_resolvers(&folder.path().join("none")).is_empty());
    }

    #[test]
    fn numbers_differ() {
        let mut numbers = numbers_from(1);
        assert_ne!(numbers(), numbers());
    }
}
