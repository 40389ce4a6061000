//! The configuration file as it is written, before any value is believed.
//!
//! Keys are checked first, so that a mistyped one is
//! answered with its line and the nearest key there is.

use std::num::NonZeroU32;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::access::{RULE_KEYS, RawRule};
use super::neighbours::{NEIGHBOUR_KEYS, RawNeighbour};
use super::seat::{RawSeat, SEAT_KEYS};
use super::telemetry::{RawTelemetry, TELEMETRY_KEYS};
use super::tun::TUN_KEYS;
use super::up::{FORWARD_KEYS, RawUp, SERVE_KEYS, UP_KEYS};
use super::value::{Fault, RawNames, RawWorkers, line_at};
use super::words;

/// The whole file. Every key is optional.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawConfig {
    pub(crate) log: Option<String>,
    pub(crate) cipher: Option<Spanned<String>>,
    pub(crate) otlp: RawTelemetry,
    pub(crate) rib: RawRib,
    pub(crate) router: RawRouter,
    pub(crate) node: RawNode,
    pub(crate) receive: RawReceive,
    pub(crate) up: RawUp,
    pub(crate) keyserver: RawKeyserver,
    pub(crate) waypoint: RawWaypoint,
    pub(crate) border: Option<RawBorder>,
    pub(crate) exchange: super::exchange::RawExchange,
    pub(crate) member: super::member::RawMember,
    #[cfg(target_os = "linux")]
    pub(crate) stamp: super::stamp::RawStamp,
}

/// `[rib]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawRib {
    pub(crate) listen: Option<Spanned<String>>,
    pub(crate) tls_listen: Option<Spanned<String>>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) store: Option<Spanned<String>>,
    pub(crate) store_ca: Option<PathBuf>,
    pub(crate) store_credentials: Option<PathBuf>,
    pub(crate) store_data_centre: Option<String>,
    pub(crate) sessions_per_address: Option<NonZeroU32>,
    pub(crate) handshakes_per_address: Option<NonZeroU32>,
    pub(crate) max_datagram: Option<Spanned<u16>>,
    pub(crate) admin: Option<Spanned<String>>,
    pub(crate) domain: Option<Spanned<String>>,
    pub(crate) parent: Option<Vec<Spanned<String>>>,
    pub(crate) address: Option<Spanned<String>>,
    pub(crate) around: Option<Vec<Spanned<String>>>,
    pub(crate) neighbour: Vec<Spanned<RawNeighbour>>,
    pub(crate) exchange: Option<RawSeat>,
    pub(crate) disk_mib: Option<Spanned<u64>>,
    pub(crate) memory_mib: Option<Spanned<u64>>,
    pub(crate) strangers_percent: Option<Spanned<u64>>,
    pub(crate) log: Option<bool>,
    pub(crate) strangers: Option<Spanned<String>>,
    pub(crate) access: Vec<Spanned<RawRule>>,
}

/// `[router]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawRouter {
    pub(crate) listen: Option<Spanned<String>>,
    pub(crate) tls_listen: Option<Spanned<String>>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) rib: Option<Vec<Spanned<String>>>,
    pub(crate) upstream: Option<Vec<Spanned<String>>>,
    pub(crate) locator: Option<Spanned<String>>,
    pub(crate) locators: Option<Vec<Spanned<String>>>,
    pub(crate) discovery: Option<bool>,
    pub(crate) io: Option<Spanned<String>>,
    pub(crate) interface: Option<RawNames>,
    pub(crate) lease_s: Option<Spanned<u32>>,
    pub(crate) sessions_per_address: Option<NonZeroU32>,
    pub(crate) handshakes_per_address: Option<NonZeroU32>,
    pub(crate) max_datagram: Option<Spanned<u16>>,
    pub(crate) workers: Option<Spanned<RawWorkers>>,
    pub(crate) coalesce_us: Option<Spanned<u16>>,
    pub(crate) check_rib_answers: Option<u32>,
    pub(crate) pin: Option<bool>,
    pub(crate) state: Option<PathBuf>,
    pub(crate) run_as: Option<Spanned<String>>,
    pub(crate) admin: Option<Spanned<String>>,
    pub(crate) strangers: Option<Spanned<String>>,
    pub(crate) access: Vec<Spanned<RawRule>>,
    pub(crate) domain: RawDomain,
}

/// `[router.domain]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawDomain {
    pub(crate) name: Option<Spanned<String>>,
    pub(crate) around: Option<Vec<Spanned<String>>>,
    pub(crate) border: Option<PathBuf>,
    pub(crate) customers: Option<Vec<Spanned<String>>>,
}

/// `[node]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawNode {
    pub(crate) router: Option<Spanned<String>>,
    pub(crate) roots: Option<Vec<Spanned<String>>>,
    pub(crate) only: Option<Vec<Spanned<String>>>,
    pub(crate) key: Option<PathBuf>,
    #[serde(rename = "for")]
    pub(crate) only_peer: Option<Spanned<String>>,
    pub(crate) export: Option<Spanned<String>>,
    pub(crate) export_up_to: Option<Spanned<String>>,
    pub(crate) rib: Option<Vec<Spanned<String>>>,
    pub(crate) lease_s: Option<Spanned<u32>>,
    pub(crate) max_datagram: Option<Spanned<u16>>,
}

/// `[receive]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawReceive {
    pub(crate) max_size: Option<Spanned<String>>,
    pub(crate) admin: Option<Spanned<String>>,
    pub(crate) strangers: Option<Spanned<String>>,
    pub(crate) rib: Option<Vec<Spanned<String>>>,
    pub(crate) access: Vec<Spanned<RawRule>>,
}

/// `[keyserver]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawKeyserver {
    pub(crate) zone: Option<String>,
    pub(crate) listen: Option<Vec<Spanned<String>>>,
    pub(crate) name_servers: Option<Vec<String>>,
    pub(crate) addresses: Option<Vec<Spanned<String>>>,
    pub(crate) principals: Option<PathBuf>,
    pub(crate) journal: Option<PathBuf>,
    pub(crate) operators: Option<Vec<PathBuf>>,
    pub(crate) rate_per_s: Option<Spanned<u32>>,
    pub(crate) admin: Option<Spanned<String>>,
    pub(crate) waypoint: Vec<RawKeyserverWaypoint>,
}

/// `[[keyserver.waypoint]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawKeyserverWaypoint {
    pub(crate) address: Spanned<String>,
    pub(crate) master: PathBuf,
    pub(crate) follower: Option<PathBuf>,
    pub(crate) window_bits: Option<u8>,
    pub(crate) grace_ms: Option<u32>,
    pub(crate) skew_ms: Option<u32>,
    pub(crate) suite: Option<Spanned<String>>,
}

/// `[waypoint]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawWaypoint {
    pub(crate) addresses: Option<Vec<Spanned<String>>>,
    pub(crate) io: Option<Spanned<String>>,
    pub(crate) interfaces: Option<Vec<String>>,
    pub(crate) udp_port: Option<u16>,
    pub(crate) master: Option<Vec<PathBuf>>,
    pub(crate) window_bits: Option<u8>,
    pub(crate) grace_ms: Option<u32>,
    pub(crate) skew_ms: Option<u32>,
    pub(crate) suites: Option<Vec<Spanned<String>>>,
    pub(crate) reference_schemes: Option<Spanned<String>>,
    pub(crate) packets_per_s: Option<Spanned<u32>>,
    pub(crate) deliver_here: Option<bool>,
    pub(crate) workers: Option<Spanned<u64>>,
    pub(crate) pin: Option<bool>,
    pub(crate) accounts: Option<PathBuf>,
    pub(crate) period: Option<Spanned<String>>,
    pub(crate) key_server: Option<Spanned<String>>,
    pub(crate) zone: Option<String>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) revocations: Option<PathBuf>,
    pub(crate) run_as: Option<Spanned<String>>,
    pub(crate) admin: Option<Spanned<String>>,
}

/// `[border]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawBorder {
    pub(crate) foreign: Option<Vec<Spanned<String>>>,
    pub(crate) outside: Option<bool>,
    pub(crate) master: Option<Vec<PathBuf>>,
    pub(crate) window_bits: Option<u8>,
    pub(crate) grace_ms: Option<u32>,
    pub(crate) skew_ms: Option<u32>,
    pub(crate) suites: Option<Vec<Spanned<String>>>,
    pub(crate) reference_schemes: Option<Spanned<String>>,
    pub(crate) packets_per_s: Option<Spanned<u32>>,
    pub(crate) accounts: Option<PathBuf>,
    pub(crate) period: Option<Spanned<String>>,
    pub(crate) key_server: Option<Spanned<String>>,
    pub(crate) zone: Option<String>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) revocations: Option<PathBuf>,
    pub(crate) stamp: Vec<RawBorderStamp>,
}

/// `[[border.stamp]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawBorderStamp {
    pub(crate) peer: Spanned<String>,
    pub(crate) source: Option<Spanned<String>>,
    pub(crate) capability: Option<Vec<PathBuf>>,
    pub(crate) principal: Option<PathBuf>,
    pub(crate) resolvers: Option<Vec<Spanned<String>>>,
}

/// Reads the text of a file.
pub(crate) fn parse(text: &str) -> Result<RawConfig, Fault> {
    let root = DeTable::parse(text).map_err(|error| words::fault(text, &error))?;
    check_keys(text, root.get_ref(), "", TOP_KEYS)?;
    for (section, keys) in SECTIONS {
        if let Some(DeValue::Table(table)) = root.get_ref().get(*section).map(Spanned::get_ref) {
            check_keys(text, table, section, keys)?;
        }
    }
    check_below(
        text,
        root.get_ref(),
        &["keyserver", "waypoint"],
        "keyserver.waypoint",
        WAYPOINT_KEYS,
    )?;
    check_below(text, root.get_ref(), &["border", "stamp"], "border.stamp", BORDER_STAMP_KEYS)?;
    check_below(
        text,
        root.get_ref(),
        &["exchange", "plain"],
        "exchange.plain",
        super::exchange::PLAIN_KEYS,
    )?;
    for service in ["rib", "router", "receive"] {
        let section = format!("[{service}.access]");
        check_below(text, root.get_ref(), &[service, "access"], &section, RULE_KEYS)?;
    }
    check_below(text, root.get_ref(), &["rib", "neighbour"], "rib.neighbour", NEIGHBOUR_KEYS)?;
    check_below(text, root.get_ref(), &["rib", "exchange"], "rib.exchange", SEAT_KEYS)?;
    check_below(text, root.get_ref(), &["up", "serve"], "up.serve", SERVE_KEYS)?;
    check_below(text, root.get_ref(), &["up", "forward"], "up.forward", FORWARD_KEYS)?;
    check_below(text, root.get_ref(), &["up", "tun"], "up.tun", TUN_KEYS)?;
    check_below(text, root.get_ref(), &["router", "domain"], "router.domain", DOMAIN_KEYS)?;
    for (path, keys) in super::member::MEMBER_TABLES {
        check_below(text, root.get_ref(), path, &path.join("."), keys)?;
    }
    #[cfg(target_os = "linux")]
    check_below(
        text,
        root.get_ref(),
        &["stamp", "policy"],
        "stamp.policy",
        super::stamp::POLICY_KEYS,
    )?;
    from_text(text)
}

/// Reads a text as what it should be. A value of the wrong kind is named in words.
pub(crate) fn from_text<T: DeserializeOwned>(text: &str) -> Result<T, Fault> {
    toml::from_str(text).map_err(|error| words::fault(text, &error))
}

/// Checks the keys of another file that consists of `[[item]]`s, with some keys before them.
pub(crate) fn check_item_keys(
    text: &str,
    item: &str,
    beside: &[&str],
    known: &[&str],
) -> Result<(), Fault> {
    let root = DeTable::parse(text).map_err(|error| words::fault(text, &error))?;
    check_keys(text, root.get_ref(), "", &[&[item], beside].concat())?;
    check_below(text, root.get_ref(), &[item], &format!("[{item}]"), known)
}

/// Checks the keys of the tables at the end of a path,
/// each step of which may be a table or several.
fn check_below(
    text: &str,
    table: &DeTable<'_>,
    path: &[&str],
    section: &str,
    known: &[&str],
) -> Result<(), Fault> {
    let Some((step, path)) = path.split_first() else {
        return check_keys(text, table, section, known);
    };
    match table.get(*step).map(Spanned::get_ref) {
        Some(DeValue::Table(below)) => check_below(text, below, path, section, known),
        Some(DeValue::Array(items)) => items
            .iter()
            .filter_map(|item| item.get_ref().as_table())
            .try_for_each(|below| check_below(text, below, path, section, known)),
        _ => Ok(()),
    }
}

fn check_keys(text: &str, table: &DeTable<'_>, section: &str, known: &[&str]) -> Result<(), Fault> {
    for key in table.keys() {
        let name: &str = key.get_ref();
        if known.contains(&name) {
            continue;
        }
        let place = if section.is_empty() { String::new() } else { format!(" in [{section}]") };
        let advice = match nearest(name, known) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => format!("known are: {}", known.join(", ")),
        };
        return Err(Fault {
            line: line_at(text, Some(&key.span())),
            problem: format!("unknown key `{name}`{place}; {advice}"),
        });
    }
    Ok(())
}

fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let scored = known.iter().map(|key| (strsim::jaro_winkler(name, key), *key));
    let (score, key) = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (score >= LEAST_SIMILARITY).then_some(key)
}

/// Below this, naming a key would mislead more than help.
const LEAST_SIMILARITY: f64 = 0.7;
const TOP_KEYS: &[&str] = &[
    "log",
    "cipher",
    "otlp",
    "rib",
    "router",
    "node",
    "receive",
    "up",
    "keyserver",
    "waypoint",
    "border",
    "exchange",
    "member",
    "stamp",
];
const SECTIONS: &[(&str, &[&str])] = &[
    ("otlp", TELEMETRY_KEYS),
    (
        "rib",
        &[
            "listen",
            "tls_listen",
            "key",
            "store",
            "store_ca",
            "store_credentials",
            "store_data_centre",
            "sessions_per_address",
            "handshakes_per_address",
            "max_datagram",
            "admin",
            "domain",
            "parent",
            "address",
            "around",
            "neighbour",
            "exchange",
            "disk_mib",
            "memory_mib",
            "strangers_percent",
            "log",
            "strangers",
            "access",
        ],
    ),
    (
        "router",
        &[
            "listen",
            "tls_listen",
            "key",
            "rib",
            "upstream",
            "locator",
            "locators",
            "discovery",
            "io",
            "interface",
            "lease_s",
            "sessions_per_address",
            "handshakes_per_address",
            "max_datagram",
            "workers",
            "coalesce_us",
            "check_rib_answers",
            "pin",
            "state",
            "run_as",
            "admin",
            "strangers",
            "access",
            "domain",
        ],
    ),
    (
        "node",
        &[
            "router",
            "roots",
            "only",
            "key",
            "for",
            "export",
            "export_up_to",
            "rib",
            "lease_s",
            "max_datagram",
        ],
    ),
    ("receive", &["max_size", "admin", "strangers", "rib", "access"]),
    ("up", UP_KEYS),
    (
        "keyserver",
        &[
            "zone",
            "listen",
            "name_servers",
            "addresses",
            "principals",
            "journal",
            "operators",
            "rate_per_s",
            "admin",
            "waypoint",
        ],
    ),
    (
        "waypoint",
        &[
            "addresses",
            "io",
            "interfaces",
            "udp_port",
            "master",
            "window_bits",
            "grace_ms",
            "skew_ms",
            "suites",
            "reference_schemes",
            "packets_per_s",
            "deliver_here",
            "workers",
            "pin",
            "accounts",
            "period",
            "key_server",
            "zone",
            "key",
            "revocations",
            "run_as",
            "admin",
        ],
    ),
    (
        "border",
        &[
            "foreign",
            "outside",
            "master",
            "window_bits",
            "grace_ms",
            "skew_ms",
            "suites",
            "reference_schemes",
            "packets_per_s",
            "accounts",
            "period",
            "key_server",
            "zone",
            "key",
            "revocations",
            "stamp",
        ],
    ),
    ("member", super::member::MEMBER_KEYS),
    ("exchange", super::exchange::EXCHANGE_KEYS),
    #[cfg(target_os = "linux")]
    ("stamp", super::stamp::STAMP_KEYS),
];
const DOMAIN_KEYS: &[&str] = &["name", "around", "border", "customers"];
const BORDER_STAMP_KEYS: &[&str] = &["peer", "source", "capability", "principal", "resolvers"];
const WAYPOINT_KEYS: &[&str] =
    &["address", "master", "follower", "window_bits", "grace_ms", "skew_ms", "suite"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_key_is_named_with_its_line_and_the_nearest() {
        let fault = parse("log = \"info\"\n\n[router]\nlisten = \"x\"\nlese_s = 5\n").unwrap_err();
        assert_eq!(fault.line, 5);
        assert_eq!(fault.problem, "unknown key `lese_s` in [router]; did you mean `lease_s`?");
        let fault = parse("zzz = 1").unwrap_err();
        assert_eq!(
            fault.problem,
            "unknown key `zzz`; known are: log, cipher, otlp, rib, router, node, receive, up, keyserver, waypoint, border, exchange, member, stamp"
        );
    }

    #[test]
    fn a_wrong_type_and_a_syntax_error_have_their_lines() {
        assert_eq!(parse("[node]\nlease_s = \"long\"").unwrap_err().line, 2);
        assert_eq!(parse("\n\n[node").unwrap_err().line, 3);
    }

    /// serde lists the fields it knows in its refusal: the lists above must be the same.
    #[test]
    fn the_lists_of_keys_are_those_of_the_structures() {
        let fields = |text: &str| -> Vec<String> {
            let message = toml::from_str::<RawConfig>(text).unwrap_err().message().to_owned();
            let (_, expected) = message.split_once("expected one of").unwrap();
            expected.split(',').map(|field| field.trim_matches([' ', '`']).to_owned()).collect()
        };
        assert_eq!(fields("zzz = 1"), TOP_KEYS);
        for (section, keys) in SECTIONS {
            assert_eq!(fields(&format!("[{section}]\nzzz = 1")), *keys);
        }
        for (path, keys) in crate::config::member::MEMBER_TABLES {
            let section = path.join(".");
            let list = ["prefixes", "rule"].iter().any(|list| path.last() == Some(list));
            let header = if list { format!("[[{section}]]") } else { format!("[{section}]") };
            assert_eq!(fields(&format!("{header}\nzzz = 1")), *keys);
        }
        assert_eq!(fields("[router.domain]\nzzz = 1"), DOMAIN_KEYS);
        assert_eq!(fields("[[rib.neighbour]]\nzzz = 1"), NEIGHBOUR_KEYS);
        assert_eq!(fields("[[up.serve]]\nzzz = 1"), SERVE_KEYS);
        assert_eq!(fields("[[up.forward]]\nzzz = 1"), FORWARD_KEYS);
        assert_eq!(fields("[[border.stamp]]\nzzz = 1"), BORDER_STAMP_KEYS);
        assert_eq!(fields("[[router.access]]\nzzz = 1"), RULE_KEYS);
        assert_eq!(fields("[[exchange.plain]]\nzzz = 1"), super::super::exchange::PLAIN_KEYS);
        assert_eq!(fields("[[keyserver.waypoint]]\nzzz = 1"), WAYPOINT_KEYS);
    }
}
