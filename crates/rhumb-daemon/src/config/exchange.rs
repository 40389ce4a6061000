//! Settings of `rhumb exchange`, from the section `[exchange]`. An example with every key is in
//! `docs/exchange.md`, and a test reads it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use rhumb_exchange::{Form, MAX_SHARDS, PASS, RANKING, STALE};
use rhumb_mpc::{FieldBits, Parameters, Party};
use rhumb_wire::Name;
use serde::Deserialize;
use toml::Spanned;

use super::member::{BGP_PORT, parse_bgp_address};
use super::value::{Fault, RawWorkers, line_at};
use super::{ConfigFile, refuse};
use crate::admin::Admin;
use crate::cli::ExchangeArguments;
use crate::failure::{Failure, Outcome};
use crate::remote::{Pinned, parse_address, parse_name};

/// What a server of the exchange runs with.
#[derive(Debug)]
pub struct ExchangeSettings {
    /// Which of the two it is.
    pub party: Party,
    /// Its TCP address, for members and the other party.
    pub listen: SocketAddr,
    /// Its key file.
    pub key: PathBuf,
    /// The file that says who the members are; both parties have it alike.
    pub roster: PathBuf,
    /// The other party: its primary first.
    pub peers: Vec<Pinned>,
    /// The server that this one stands by for.
    pub primary: Option<Pinned>,
    /// The server that stands by for this one: it may ask how this one is.
    pub standby: Option<Name>,
    /// Threads among which destinations are divided; both parties have as many.
    pub shards: u16,
    /// What is made ahead for computations; both parties have as much.
    pub pools: Parameters,
    /// How the exchange chooses within the best class.
    pub select_best: Form,
    /// Party one's.
    pub port_load: Option<PathBuf>,
    /// How long members have to rank.
    pub rank_deadline: Duration,
    /// How long routes stay of a member that is gone.
    pub stale: Duration,
    /// Party one's: how long it takes until all was chosen anew.
    pub rechoose: Duration,
    /// How long a server may be out of reach before its standby is used.
    pub takeover: Duration,
    /// The plain route server beside: party one's.
    pub plain: Option<PlainSettings>,
    /// Where it tells how it is, if anywhere.
    pub admin: Option<Admin>,
}

/// A plain route server.
#[derive(Debug)]
pub struct PlainSettings {
    /// The number of its AS, not 0.
    pub asn: u32,
    /// Its BGP identifier.
    pub router_id: Ipv4Addr,
    /// Its TCP address, for BGP.
    pub listen: SocketAddr,
    /// Who may connect, each from an address of its own.
    pub clients: Vec<PlainClient>,
}

/// A member that does not use the private service.
#[derive(Debug, Clone)]
pub struct PlainClient {
    /// What the member is called in policies.
    pub member: String,
    /// The number of its AS, not 0.
    pub asn: u32,
    /// Where its router connects from.
    pub address: IpAddr,
    /// The file of the secret for TCP-MD5, if there is one.
    pub password: Option<PathBuf>,
    /// Routes of each family; one more ends the session.
    pub max_prefixes: u32,
    /// The ASes that may get its routes at all; all, if none are listed.
    pub only: Option<Vec<u32>>,
    /// Where its `rhumb member` takes connections, if it
    /// is to reach members of the private service.
    pub proxy: Option<SocketAddr>,
}

/// `[exchange]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawExchange {
    party: Option<Spanned<u8>>,
    listen: Option<Spanned<String>>,
    key: Option<PathBuf>,
    roster: Option<PathBuf>,
    peer: Option<Vec<Spanned<String>>>,
    primary: Option<Spanned<String>>,
    standby: Option<Spanned<String>>,
    shards: Option<Spanned<RawWorkers>>,
    bit_words: Option<Spanned<u32>>,
    vector_words: Option<Spanned<u32>>,
    thin_link: Option<bool>,
    select_best: Option<Spanned<String>>,
    port_load: Option<PathBuf>,
    rank_deadline_ms: Option<Spanned<u64>>,
    stale_ms: Option<Spanned<u64>>,
    rechoose_ms: Option<Spanned<u64>>,
    takeover_ms: Option<Spanned<u64>>,
    asn: Option<u32>,
    router_id: Option<Spanned<String>>,
    bgp_listen: Option<Spanned<String>>,
    plain: Vec<RawPlain>,
    pub(crate) admin: Option<Spanned<String>>,
}

/// `[[exchange.plain]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPlain {
    member: Spanned<String>,
    asn: Spanned<u32>,
    address: Spanned<String>,
    password: Option<PathBuf>,
    max_prefixes: Option<u32>,
    only: Option<Vec<u32>>,
    proxy: Option<Spanned<String>>,
}

/// Keys of `[[exchange.plain]]`.
pub(super) const PLAIN_KEYS: &[&str] =
    &["member", "asn", "address", "password", "max_prefixes", "only", "proxy"];
/// Keys of `[exchange]`.
pub(super) const EXCHANGE_KEYS: &[&str] = &[
    "party",
    "listen",
    "key",
    "roster",
    "peer",
    "primary",
    "standby",
    "shards",
    "bit_words",
    "vector_words",
    "thin_link",
    "select_best",
    "port_load",
    "rank_deadline_ms",
    "stale_ms",
    "rechoose_ms",
    "takeover_ms",
    "asn",
    "router_id",
    "bgp_listen",
    "plain",
    "admin",
];

impl ConfigFile {
    /// Settings of `rhumb exchange`.
    pub fn exchange(&self, flags: &ExchangeArguments) -> Outcome<ExchangeSettings> {
        let raw = &self.raw.exchange;
        let party = self.exchange_party(flags.party)?;
        let listen = match flags.listen {
            Some(listen) => Some(listen),
            None => self.parsed(raw.listen.as_ref(), parse_address)?,
        };
        let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), DEFAULT_EXCHANGE_PORT);
        let mut peers = Vec::new();
        for text in raw.peer.iter().flatten() {
            peers.extend(self.parsed(Some(text), parse_server)?);
        }
        if peers.is_empty() {
            let what = "the other party";
            return Err(missing(what, "no option", "peer = [\"NAME@ADDR\"], its standby second"));
        }
        Ok(ExchangeSettings {
            party,
            listen: listen.unwrap_or(any),
            key: raw.key.clone().ok_or_else(|| {
                Failure::setup_text(
                    "no key; make one: rhumb keygen --role node --out exchange.key, and name it in \
                     [exchange] as key = \"exchange.key\"",
                )
            })?,
            roster: raw.roster.clone().ok_or_else(|| {
                let what = "the members";
                missing(what, "no option", "roster = \"roster.toml\"")
            })?,
            peers,
            primary: self.parsed(raw.primary.as_ref(), parse_server)?,
            standby: self.parsed(raw.standby.as_ref(), parse_name)?,
            shards: self.shards()?,
            pools: self.pools()?,
            select_best: self
                .parsed(raw.select_best.as_ref(), parse_select_best)?
                .unwrap_or(Form::TopClass),
            port_load: raw.port_load.clone(),
            rank_deadline: self.milliseconds(
                "rank_deadline_ms",
                raw.rank_deadline_ms.as_ref(),
                &RANK_DEADLINE_MS,
                RANKING,
            )?,
            stale: self.milliseconds("stale_ms", raw.stale_ms.as_ref(), &STALE_MS, STALE)?,
            rechoose: self.milliseconds(
                "rechoose_ms",
                raw.rechoose_ms.as_ref(),
                &RECHOOSE_MS,
                PASS,
            )?,
            takeover: self.milliseconds(
                "takeover_ms",
                raw.takeover_ms.as_ref(),
                &TAKEOVER_MS,
                DEFAULT_TAKEOVER,
            )?,
            plain: self.plain(party)?,
            admin: self.admin(flags.admin.as_ref(), raw.admin.as_ref())?,
        })
    }

    /// Which party; what is the other's alone is refused.
    fn exchange_party(&self, flag: Option<u8>) -> Outcome<Party> {
        let raw = &self.raw.exchange;
        let party = match (flag, raw.party.as_ref().map(|party| *party.get_ref())) {
            (Some(1), _) | (None, Some(1)) => Party::One,
            (Some(2), _) | (None, Some(2)) => Party::Two,
            (None, None) => {
                return Err(missing("which of the two parties this is", "--party 1", "party = 1"));
            }
            (_, Some(_)) | (Some(_), _) => {
                return Err(self.at(raw.party.as_ref(), "party is 1 or 2"));
            }
        };
        if party == Party::Two && (raw.primary.is_some() || raw.standby.is_some()) {
            return Err(Failure::setup_text(
                "primary and standby are party 1's, which decides which server of party 2 is in use",
            ));
        }
        if party == Party::Two && raw.port_load.is_some() {
            return Err(Failure::setup_text(
                "port_load is party 1's: party 2 is not to know it; take it out of [exchange]",
            ));
        }
        Ok(party)
    }

    fn plain(&self, party: Party) -> Outcome<Option<PlainSettings>> {
        let raw = &self.raw.exchange;
        let Some(first) = raw.plain.first() else { return Ok(None) };
        if party == Party::Two {
            return Err(self.at(Some(&first.member), "[[exchange.plain]] is party 1's"));
        }
        if raw.plain.len() > MOST_PLAIN {
            return Err(self.at(
                Some(&first.member),
                format!("there are more than {MOST_PLAIN} [[exchange.plain]]"),
            ));
        }
        let needed = |key: &str| missing("the number of its plain route server", "no option", key);
        let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), BGP_PORT);
        let asn = raw.asn.filter(|asn| *asn != 0);
        let router_id = self.parsed(raw.router_id.as_ref(), |text| {
            text.parse::<Ipv4Addr>()
                .map_err(|_| format!("`{text}` is no identifier like 192.0.2.1"))
        })?;
        let mut clients: Vec<PlainClient> = Vec::new();
        for client in &raw.plain {
            let address = self.parsed(Some(&client.address), |text| {
                text.parse::<IpAddr>().map_err(|_| format!("`{text}` is no address like 192.0.2.7"))
            })?;
            let address = address.ok_or_else(|| needed("address = \"192.0.2.7\""))?;
            if clients.iter().any(|other| other.address == address) {
                return Err(self.at(Some(&client.address), format!("{address} is there twice")));
            }
            let client_asn = *client.asn.get_ref();
            if client_asn == 0 || Some(client_asn) == asn {
                let problem = format!("{client_asn} is no AS number of a client");
                return Err(self.at(Some(&client.asn), problem));
            }
            let proxy = self.parsed(client.proxy.as_ref(), parse_bgp_address)?;
            if proxy.is_some() && clients.iter().any(|other| other.proxy == proxy) {
                return Err(self.at(client.proxy.as_ref(), "each client has a proxy of its own"));
            }
            clients.push(PlainClient {
                member: client.member.get_ref().clone(),
                asn: client_asn,
                address,
                password: client.password.clone(),
                max_prefixes: client.max_prefixes.unwrap_or(DEFAULT_MAX_PREFIXES),
                only: client.only.clone(),
                proxy,
            });
        }
        Ok(Some(PlainSettings {
            asn: asn
                .ok_or_else(|| needed("asn = 64999, the AS of the exchange's route servers"))?,
            router_id: router_id.ok_or_else(|| needed("router_id = \"192.0.2.1\""))?,
            listen: self.parsed(raw.bgp_listen.as_ref(), parse_bgp_address)?.unwrap_or(any),
            clients,
        }))
    }

    /// The admin address of `[exchange]`.
    pub fn exchange_admin(&self) -> Outcome<Option<Admin>> {
        self.admin(None, self.raw.exchange.admin.as_ref())
    }

    fn shards(&self) -> Outcome<u16> {
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let Some(raw) = &self.raw.exchange.shards else {
            return Ok(u16::try_from(cores()).unwrap_or(MOST_SHARDS).min(MOST_SHARDS));
        };
        let shards = match raw.get_ref() {
            RawWorkers::Count(count) => u16::try_from(*count).ok(),
            RawWorkers::Word(_) => None,
        };
        shards.filter(|shards| (1..=MOST_SHARDS).contains(shards)).ok_or_else(|| {
            self.at(
                Some(raw),
                format!("shards is 1 to {MOST_SHARDS}, the same number at both parties"),
            )
        })
    }

    fn pools(&self) -> Outcome<Parameters> {
        let raw = &self.raw.exchange;
        let mut pools = Parameters::default();
        let within = |name, raw: Option<&Spanned<u32>>, most: u32, default: u32| match raw {
            None => Ok(default),
            Some(words) if (1..=most).contains(words.get_ref()) => Ok(*words.get_ref()),
            Some(words) => Err(self.at(Some(words), format!("{name} is 1 to {most}"))),
        };
        let most = [Parameters::MAX_BIT_WORDS, Parameters::MAX_VECTOR_WORDS];
        pools.bit_words = within("bit_words", raw.bit_words.as_ref(), most[0], pools.bit_words)?;
        pools.vector_words =
            within("vector_words", raw.vector_words.as_ref(), most[1], pools.vector_words)?;
        if raw.thin_link.unwrap_or(false) {
            pools.field = FieldBits::Four;
        }
        Ok(pools)
    }

    fn milliseconds(
        &self,
        name: &str,
        raw: Option<&Spanned<u64>>,
        range: &RangeInclusive<u64>,
        default: Duration,
    ) -> Outcome<Duration> {
        match raw {
            None => Ok(default),
            Some(value) if range.contains(value.get_ref()) => {
                Ok(Duration::from_millis(*value.get_ref()))
            }
            Some(value) => Err(self.at(
                Some(value),
                format!("{name} is {}; give {} to {}", value.get_ref(), range.start(), range.end()),
            )),
        }
    }

    fn at<T>(&self, value: Option<&Spanned<T>>, problem: impl Into<String>) -> Failure {
        let span = value.map(Spanned::span);
        let line = line_at(&self.text, span.as_ref());
        refuse(&self.path, &Fault { line, problem: problem.into() })
    }
}

fn parse_server(text: &str) -> Result<Pinned, String> {
    Pinned::parse(text, " (rhumb keygen prints the name)")
}

fn parse_select_best(text: &str) -> Result<Form, String> {
    match text {
        "top-class" => Ok(Form::TopClass),
        "index" => Ok(Form::Index),
        "paper" => Ok(Form::Paper),
        _ => Err(format!("select_best is `{text}`; give top-class, index or paper")),
    }
}

fn missing(what: &str, option: &str, key: &str) -> Failure {
    let option = if option == "no option" { String::new() } else { format!("{option}, or ") };
    Failure::setup_text(format!(
        "the exchange is not told {what}; give {option}{key} in [exchange] of the configuration file"
    ))
}

/// Unassigned by IANA, and beside the waypoints'.
pub(crate) const DEFAULT_EXCHANGE_PORT: u16 = 7480;
/// Each is a thread with a session of its own; more than a machine's cores help nobody.
pub(crate) const MOST_SHARDS: u16 = 64;
const _: () = assert!(MOST_SHARDS as usize <= MAX_SHARDS);
/// Clients of the plain route server: the largest exchanges have 1,100.
const MOST_PLAIN: usize = 4096;
/// A full table of the Internet twice over: who announces more has made a mistake.
const DEFAULT_MAX_PREFIXES: u32 = 2_000_000;
/// A member that is stuck delays the destination's other members by this much.
const RANK_DEADLINE_MS: RangeInclusive<u64> = 10..=60_000;
/// Shorter than a connection takes to be made again, routes would flap;
/// an hour after it is gone, no router is back.
const STALE_MS: RangeInclusive<u64> = 1_000..=3_600_000;
/// Longer than a server takes to start again by its supervisor, shorter than BGP's hold time.
/// Below, members would be asked without a pause.
const RECHOOSE_MS: RangeInclusive<u64> = 100..=86_400_000;
const DEFAULT_TAKEOVER: Duration = Duration::from_secs(5);
const TAKEOVER_MS: RangeInclusive<u64> = 100..=600_000;

#[cfg(test)]
mod tests {
    use super::super::tests::file;
    use super::*;

    fn settings(text: &str) -> Result<ExchangeSettings, String> {
        file(text).exchange(&ExchangeArguments::default()).map_err(|error| error.to_string())
    }

    fn least() -> String {
        let name = Name([7; 32]);
        format!(
            "[exchange]\nparty = 2\nkey = \"k\"\nroster = \"r\"\npeer = [\"{name}@127.0.0.1:1\"]\n"
        )
    }

    #[test]
    fn what_is_not_said_has_its_default() {
        let settings = settings(&least()).unwrap();
        assert_eq!(settings.party, Party::Two);
        assert_eq!(settings.listen.port(), DEFAULT_EXCHANGE_PORT);
        assert_eq!(settings.pools, Parameters::default());
        assert!(settings.shards >= 1 && settings.primary.is_none());
        let flags = ExchangeArguments { party: Some(1), ..ExchangeArguments::default() };
        assert_eq!(file(&least()).exchange(&flags).unwrap().party, Party::One);
    }

    #[test]
    fn the_example_in_the_documentation_has_every_key_and_works() {
        let page = include_str!("../../../../docs/exchange.md");
        let (_, example) = page.split_once("[exchange]\n").unwrap();
        let (example, _) = example.split_once("```").unwrap();
        // Which has an example of its own.
        for key in EXCHANGE_KEYS.iter().filter(|key| **key != "plain") {
            let is_there =
                |line: &str| line.trim_start_matches("# ").starts_with(&format!("{key} ="));
            assert!(example.lines().any(is_there), "{key}");
        }
        let name = Name([7; 32]).to_string();
        let text = format!("[exchange]\n{}", example.replace("NAME", &name));
        let example = settings(&text).unwrap();
        let default = settings(&least()).unwrap();
        assert_eq!(example.peers.len(), 2);
        assert_eq!(
            (example.pools, example.rank_deadline, example.stale, example.takeover, example.listen),
            (default.pools, default.rank_deadline, default.stale, default.takeover, default.listen)
        );
    }

    #[test]
    fn the_examples_of_plain_members_have_every_key_and_work() {
        let page = include_str!("../../../../docs/exchange.md");
        let block = |begin: &str| {
            let (_, rest) = page.split_once(begin).unwrap();
            format!("{begin}{}", rest.split_once("```").unwrap().0)
        };
        let plain = block("[[exchange.plain]]");
        for key in PLAIN_KEYS {
            assert!(plain.lines().any(|line| line.starts_with(&format!("{key} ="))), "{key}");
        }
        let one =
            least().replace("party = 2", "party = 1") + "asn = 64999\nrouter_id = \"192.0.2.1\"\n";
        let client = settings(&(one + &plain)).unwrap().plain.unwrap().clients.remove(0);
        let name = Name([7; 32]).to_string();
        let member = file(&block("[member]").replace("NAME", &name)).member().unwrap();
        // Each is where the other seeks it.
        assert_eq!(client.proxy, Some(member.bgp.listen));
        assert!(member.bgp.config.passive && member.bgp.listen.ip() == member.bgp.router.ip());
        assert_eq!((client.asn, 64999), (member.bgp.config.remote_as, member.bgp.config.local_as));
    }

    #[test]
    fn wrong_values_are_named_with_their_lines() {
        for (text, expected) in [
            ("shards = 0", "line 6: shards is 1 to 64"),
            ("shards = 65", "line 6: shards is 1 to 64"),
            ("bit_words = 0", "line 6: bit_words is 1 to"),
            ("vector_words = 262145", "line 6: vector_words is 1 to 262144"),
            ("select_best = \"worst\"", "line 6: select_best is `worst`"),
            ("rank_deadline_ms = 9", "line 6: rank_deadline_ms is 9; give 10 to 60000"),
            ("stale_ms = 999", "line 6: stale_ms is 999; give 1000 to"),
            ("rechoose_ms = 99", "line 6: rechoose_ms is 99; give 100 to"),
            ("takeover_ms = 600001", "line 6: takeover_ms is 600001"),
            ("primary = \"127.0.0.1:1\"", "primary and standby are party 1's"),
            ("port_load = \"load\"", "party 2 is not to know it"),
            ("admin = \"192.0.2.1:9\"", "loopback"),
        ] {
            let refused = settings(&format!("{}{text}\n", least())).unwrap_err();
            assert!(refused.contains(expected), "{text}: {refused}");
        }
        let one = least().replace("party = 2", "party = 1") + "primary = \"127.0.0.1:1\"";
        assert!(
            settings(&one).unwrap_err().contains("line 6: `127.0.0.1:1` says not who must answer")
        );
        let one =
            least().replace("party = 2", "party = 1") + "asn = 64999\nrouter_id = \"10.0.0.1\"\n";
        let plain = |text: &str| format!("{one}[[exchange.plain]]\nmember = \"m\"\n{text}\n");
        for (text, expected) in [
            ("asn = 0\naddress = \"192.0.2.7\"", "line 10: 0 is no AS number"),
            ("asn = 64999\naddress = \"192.0.2.7\"", "line 10: 64999 is no AS number of a client"),
            ("asn = 1\naddress = \"here\"", "line 11: `here` is no address"),
        ] {
            let refused = settings(&plain(text)).unwrap_err();
            assert!(refused.contains(expected), "{refused}");
        }
        let two = "asn = 1\naddress = \"192.0.2.7\"\nproxy = \"127.0.0.1\"\n[[exchange.plain]]\nmember = \"n\"\n\
                   asn = 2\naddress = \"192.0.2.8\"\nproxy = \"127.0.0.1:179\"";
        let refused = settings(&plain(two)).unwrap_err();
        assert!(refused.contains("line 17: each client has a proxy of its own"), "{refused}");
        let good = plain("asn = 1\naddress = \"192.0.2.7\"");
        assert_eq!(settings(&good).unwrap().plain.unwrap().listen.port(), 179);
        let refused = settings(&good.replace("party = 1", "party = 2")).unwrap_err();
        assert!(refused.contains("line 9: [[exchange.plain]] is party 1's"), "{refused}");
        assert!(settings(&good.replace("asn = 64999", "")).unwrap_err().contains("asn = 64999"));
        assert!(settings("[exchange]\nparty = 3").unwrap_err().contains("line 2: party is 1 or 2"));
        for (text, expected) in [
            ("", "--party 1"),
            ("party = 1", "peer = "),
            ("party = 1\npeer = [\"127.0.0.1:1\"]", "NAME@ADDR"),
        ] {
            let refused = settings(&format!("[exchange]\n{text}")).unwrap_err();
            assert!(refused.contains(expected), "{text}: {refused}");
        }
    }
}
