//! A private exchange in a folder: keys, rosters, configurations and servers as processes.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test file uses a part of this; a test may panic"
)]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rhumb_channel::Credentials;
use rhumb_exchange::Party;
use rhumb_trust::{Identity, load_key};
use rhumb_wire::Name;
use serde_json::Value;

use crate::harness::{Place, Running};

pub(crate) mod bird;
pub(crate) mod member;
pub(crate) mod parties;
pub(crate) mod proxy;
pub(crate) mod router;

/// What both parties and the tests' members have in common.
pub(crate) struct Exchange {
    pub(crate) place: Place,
    /// Names of the servers' keys: `one`, `two`, and their standbys `one-b`, `two-b`.
    names: Vec<(&'static str, String)>,
}

/// A running server.
pub(crate) struct Server {
    pub(crate) running: Running,
    pub(crate) name: Name,
    pub(crate) address: SocketAddr,
    pub(crate) party: Party,
    pub(crate) admin: String,
}

impl Exchange {
    /// With so many members, one site each: `member-0` and so on.
    pub(crate) fn new(members: usize) -> Self {
        let place = Place::new();
        let servers = ["one", "two", "one-b", "two-b"];
        let names = servers.map(|server| (server, place.keygen("node", &format!("{server}.key"))));
        for number in 0..members {
            place.keygen("node", &format!("member-{number}.key"));
        }
        let exchange = Self { place, names: names.to_vec() };
        exchange.write_roster("roster.toml", 0..members);
        exchange
    }

    /// A roster of these members, in this order.
    pub(crate) fn write_roster(&self, file: &str, members: impl IntoIterator<Item = usize>) {
        let site = |number: usize| {
            let name = self.identity(&format!("member-{number}")).name();
            let asn = 64500 + number;
            format!(
                "[[site]]\nmember = \"m{number}\"\nsite = \"a\"\nasn = {asn}\nname = \"{name}\"\n"
            )
        };
        self.place.write(file, &members.into_iter().map(site).collect::<String>());
    }

    /// Marks a site of a roster as removed.
    pub(crate) fn remove_site(&self, file: &str, member: usize) {
        self.add_to_site(file, member, "removed = true");
    }

    /// Adds a line to a site of a roster.
    pub(crate) fn add_to_site(&self, file: &str, member: usize, line: &str) {
        let text = std::fs::read_to_string(self.place.path(file)).unwrap();
        let member = format!("member = \"m{member}\"\n");
        self.place.write(file, &text.replace(&member, &format!("{member}{line}\n")));
    }

    /// The key in a file that [`Exchange::new`] made.
    pub(crate) fn identity(&self, whose: &str) -> Identity {
        load_key(&self.place.path(&format!("{whose}.key")), None).unwrap()
    }

    pub(crate) fn credentials(&self, whose: &str) -> Credentials {
        Credentials::new(&self.identity(whose)).unwrap()
    }

    pub(crate) fn name(&self, server: &str) -> &str {
        &self.names.iter().find(|(name, _)| *name == server).unwrap().1
    }

    /// Writes the configuration of a server: what all have, and `more`.
    pub(crate) fn configure(&self, server: &str, listen: &str, more: &str) {
        let party = if server.starts_with("one") { 1 } else { 2 };
        let text = format!(
            "log = \"rhumb=info\"\n[exchange]\nparty = {party}\nkey = \"{server}.key\"\n\
             roster = \"roster.toml\"\nlisten = \"{listen}\"\nadmin = \"127.0.0.1:0\"\nshards = 2\n\
             takeover_ms = 500\nstale_ms = 1500\n{more}\n"
        );
        self.place.write(&format!("{server}.toml"), &text);
    }

    /// `peer` of the second party: whoever calls by these names.
    pub(crate) fn callers(&self) -> String {
        let caller = |server| format!("\"{}@127.0.0.1:1\"", self.name(server));
        format!("peer = [{}, {}]", caller("one"), caller("one-b"))
    }

    /// Starts a server that is configured.
    pub(crate) fn start(&self, server: &str) -> Server {
        let config = format!("{server}.toml");
        let mut running = self.place.start(&["--config", &config, "exchange"]);
        let ready = running.next_object();
        let text = |key: &str| ready[key].as_str().unwrap().to_owned();
        Server {
            running,
            name: text("name").parse().unwrap(),
            address: text("address").parse().unwrap(),
            party: if ready["party"] == 1 { Party::One } else { Party::Two },
            admin: text("admin"),
        }
    }

    /// Starts a server of each party, in a pair.
    pub(crate) fn start_pair(&self) -> (Server, Server) {
        self.start_pair_with("")
    }

    /// As [`Exchange::start_pair`], with more in the configuration of party one.
    pub(crate) fn start_pair_with(&self, more: &str) -> (Server, Server) {
        self.configure("two", "127.0.0.1:0", &self.callers());
        let two = self.start("two");
        self.configure("one", "127.0.0.1:0", &format!("{}\n{more}", peers(&[&two])));
        let one = self.start("one");
        one.wait_for(self, "a pair", is_paired);
        two.wait_for(self, "a pair", is_paired);
        (one, two)
    }

    /// Starts a server again, at the address that it had.
    pub(crate) fn start_again(&self, server: &str, address: SocketAddr, more: &str) -> Server {
        self.configure(server, &address.to_string(), more);
        self.start(server)
    }
}

/// `peer` of the first party: these servers, in this order.
pub(crate) fn peers(servers: &[&Server]) -> String {
    let peer = |server: &&Server| format!("\"{}@{}\"", server.name, server.address);
    let peers: Vec<String> = servers.iter().map(peer).collect();
    format!("peer = [{}]", peers.join(", "))
}

/// Whether all shards compute.
pub(crate) fn is_paired(status: &Value) -> bool {
    let shards = status["shards"].as_array().unwrap();
    shards.iter().all(|shard| shard["computes"] == true)
}

impl Server {
    /// What `rhumb exchange status --json` says.
    pub(crate) fn status(&self, exchange: &Exchange) -> Value {
        self.wait_for(exchange, "answer", |_| true)
    }

    /// Nothing, while it is busy with beginning anew.
    fn ask_status(&self, exchange: &Exchange) -> Option<Value> {
        let run = exchange.place.run(&["--json", "exchange", "status", "--admin", &self.admin]);
        (run.code == 0).then(|| run.object())
    }

    /// Waits until its status is as wanted.
    #[track_caller]
    pub(crate) fn wait_for(
        &self,
        exchange: &Exchange,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Value {
        let start = Instant::now();
        loop {
            let status = self.ask_status(exchange);
            if let Some(status) = status.clone().filter(&is_so) {
                return status;
            }
            let status = status.unwrap_or_default();
            assert!(
                start.elapsed() < PATIENCE,
                "no {what}: {status:#}\n{}",
                self.running.errors_so_far()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// For a machine that is busy with everything else; longer than the half
/// minute for which parties wait for who is missing.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
