//! Settings of `rhumb keyserver`, which `rhumb capability` takes zone and waypoints from, too.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use rhumb_capability::Suite;
use rhumb_keyserver::Zone;
use rhumb_keyserver::principal::KnownWaypoint;

use super::raw::RawKeyserverWaypoint;
use super::value::{Fault, line_at};
use super::{ConfigFile, refuse};
use crate::admin::Admin;
use crate::cli::KeyserverArguments;
use crate::failure::{Failure, Outcome};
use crate::remote::{DEFAULT_KEYSERVER_PORT, parse_address, parse_waypoint};

/// What a key server runs with.
#[derive(Debug)]
pub struct KeyserverSettings {
    /// Where its answers stand in DNS.
    pub zone: Zone,
    /// Its addresses, UDP and TCP.
    pub listen: Vec<SocketAddr>,
    /// The book of principals, whose keys it gives out.
    pub principals: PathBuf,
    /// The file of what is revoked.
    pub journal: PathBuf,
    /// Key files of those who may revoke; one at least.
    pub operators: Vec<PathBuf>,
    /// Answers a second to one source network; not 0.
    pub rate_per_s: u32,
    /// Those it gives keys for; one at least.
    pub waypoints: Vec<KeyserverWaypoint>,
    /// Where it tells how it is, if anywhere.
    pub admin: Option<Admin>,
}

/// A waypoint that keys are given for.
#[derive(Debug)]
pub struct KeyserverWaypoint {
    /// Its address and the windows of its keys, as principals know them.
    pub known: KnownWaypoint,
    /// How its stamps are made.
    pub suite: Suite,
    /// The file of its master key.
    pub master: PathBuf,
    /// The key file by which it asks what is revoked; it does not follow without one.
    pub follower: Option<PathBuf>,
}

impl ConfigFile {
    /// Settings of `rhumb keyserver`.
    pub fn keyserver(&self, flags: &KeyserverArguments) -> Outcome<KeyserverSettings> {
        let raw = &self.raw.keyserver;
        let mut listen = flags.listen.clone();
        if listen.is_empty() {
            for text in raw.listen.iter().flatten() {
                listen.extend(self.parsed(Some(text), parse_address)?);
            }
        }
        if listen.is_empty() {
            listen.push(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), DEFAULT_KEYSERVER_PORT));
        }
        let operators = raw.operators.clone().unwrap_or_default();
        if operators.is_empty() {
            return Err(Failure::setup_text(
                "nobody could revoke; make a key: rhumb capability signer operator.ZONE --out \
                 operator.tsig, and name it in [keyserver] as operators = [\"operator.tsig\"]",
            ));
        }
        let journal = raw.journal.clone();
        Ok(KeyserverSettings {
            zone: self.served_zone()?,
            listen,
            principals: self.principals_book()?,
            journal: journal.unwrap_or_else(|| PathBuf::from(DEFAULT_JOURNAL)),
            operators,
            rate_per_s: match raw.rate_per_s.as_ref().map(|rate| (*rate.get_ref(), rate.span())) {
                Some((0, span)) => {
                    let problem = "rate_per_s is 0; give 1 or more".to_owned();
                    let line = line_at(&self.text, Some(&span));
                    return Err(refuse(&self.path, &Fault { line, problem }));
                }
                Some((rate, _)) => rate,
                None => DEFAULT_RATE_PER_S,
            },
            waypoints: self.waypoints()?,
            admin: self.admin(flags.admin.as_ref(), raw.admin.as_ref())?,
        })
    }

    /// The operator's book of principals.
    pub fn principals_book(&self) -> Outcome<PathBuf> {
        let book = self.raw.keyserver.principals.clone();
        Ok(book.unwrap_or_else(|| PathBuf::from(DEFAULT_PRINCIPALS)))
    }

    /// The zone's name as the file gives it.
    pub fn zone(&self) -> Outcome<&str> {
        self.raw.keyserver.zone.as_deref().ok_or_else(|| {
            Failure::setup_text(
                "no zone; give zone = \"_k.example.net\" in [keyserver] of the configuration file",
            )
        })
    }

    /// Where the key server of this file listens, seen from this machine.
    pub fn key_server_address(&self) -> Outcome<Option<SocketAddr>> {
        let Some(text) = self.raw.keyserver.listen.as_ref().and_then(|all| all.first()) else {
            return Ok(None);
        };
        let mut address = self.parsed(Some(text), parse_address)?;
        if let Some(address) = address.as_mut().filter(|address| address.ip().is_unspecified()) {
            let is_v4 = address.is_ipv4();
            let v6 = std::net::Ipv6Addr::LOCALHOST.into();
            address.set_ip(if is_v4 { Ipv4Addr::LOCALHOST.into() } else { v6 });
        }
        Ok(address)
    }

    /// The waypoints of the file, at least one.
    pub fn waypoints(&self) -> Outcome<Vec<KeyserverWaypoint>> {
        let waypoints: Vec<KeyserverWaypoint> = self
            .raw
            .keyserver
            .waypoint
            .iter()
            .map(|raw| self.keyserver_waypoint(raw))
            .collect::<Outcome<_>>()?;
        for (at, waypoint) in waypoints.iter().enumerate() {
            let address = waypoint.known.address;
            if waypoints[..at].iter().any(|before| before.known.address == address) {
                return Err(Failure::setup_text(format!("waypoint {address} is there twice")));
            }
        }
        if waypoints.is_empty() {
            return Err(Failure::setup_text(
                "no waypoint; give [[keyserver.waypoint]] with address and master in the \
                 configuration file (rhumb capability master makes the key)",
            ));
        }
        Ok(waypoints)
    }

    fn keyserver_waypoint(&self, raw: &RawKeyserverWaypoint) -> Outcome<KeyserverWaypoint> {
        let address = self.parsed(Some(&raw.address), parse_waypoint)?;
        let suite = self.parsed(raw.suite.as_ref(), |text| {
            let names = Suite::ALL.map(Suite::name).join(", ");
            text.parse::<Suite>().map_err(|_| format!("`{text}` is no suite; known are: {names}"))
        })?;
        let bits = raw.window_bits.unwrap_or(DEFAULT_WINDOW_BITS);
        let grace_ms = raw.grace_ms.unwrap_or(DEFAULT_GRACE_MS);
        let skew_ms = raw.skew_ms.unwrap_or(DEFAULT_SKEW_MS);
        let known =
            address.and_then(|address| KnownWaypoint::new(address, bits, grace_ms, skew_ms));
        let known = known.ok_or_else(|| {
            let problem = "window_bits is 10, 11 or 12, and grace_ms and skew_ms together are at \
                           most half a window"
                .to_owned();
            let line = line_at(&self.text, Some(&raw.address.span()));
            refuse(&self.path, &Fault { line, problem })
        })?;
        Ok(KeyserverWaypoint {
            known,
            suite: suite.unwrap_or_default(),
            master: raw.master.clone(),
            follower: raw.follower.clone(),
        })
    }

    fn served_zone(&self) -> Outcome<Zone> {
        let raw = &self.raw.keyserver;
        let mut addresses = Vec::new();
        for text in raw.addresses.iter().flatten() {
            addresses.extend(self.parsed(Some(text), |text| {
                text.parse::<IpAddr>().map_err(|_| format!("`{text}` is no IP address"))
            })?);
        }
        let servers = raw.name_servers.clone().unwrap_or_default();
        Zone::new(self.zone()?, &servers, addresses).map_err(|error| {
            Failure::setup_text(format!(
                "[keyserver]: {error} (keys: zone, name_servers, addresses)"
            ))
        })
    }
}

const DEFAULT_PRINCIPALS: &str = "principals";
const DEFAULT_JOURNAL: &str = "revocations";
/// A resolver asks once a window for each principal behind it; this
/// lets thousands behind one begin within minutes.
const DEFAULT_RATE_PER_S: u32 = 50;
/// 34 minutes, as the waypoint's own default.
const DEFAULT_WINDOW_BITS: u8 = 11;
/// As the waypoint's own default.
const DEFAULT_GRACE_MS: u32 = 10_000;
/// As the waypoint's own default.
const DEFAULT_SKEW_MS: u32 = 5_000;
