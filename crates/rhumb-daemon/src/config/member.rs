//! Settings of `rhumb member`, from the section `[member]`. An example with every key is in
//! `docs/exchange-policy.md`, and a test reads it.

mod policy;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use rhumb_bgp::config::GracefulRestart;
use rhumb_bgp::wire::BgpRole;
use rhumb_bgp::{Config, Family, FamilyConfig, Propagation};
use serde::Deserialize;
use toml::Spanned;

pub(crate) use policy::PolicySettings;
pub use policy::SiteName;
use policy::{RawExport, RawImport, RawPrefixes};

use super::ConfigFile;
use crate::admin::Admin;
use crate::failure::{Failure, Outcome};
use crate::remote::{Pinned, parse_address};

/// What the proxy of a member runs with.
#[derive(Debug)]
pub struct MemberSettings {
    /// The member's key at the exchange.
    pub key: PathBuf,
    /// Who the members are.
    pub roster: PathBuf,
    /// The servers of the first party, the exchange: its primary first.
    pub exchange: Vec<Pinned>,
    /// The servers of the second, neutral party: its primary first.
    pub neutral: Vec<Pinned>,
    /// The session with the member's router.
    pub bgp: BgpSettings,
    /// Who may have its routes, and which of others' it takes.
    pub policy: PolicySettings,
    /// Whether the exchange chooses within the best class; otherwise the order
    /// decides alone, and the exchange learns that.
    pub select_best: bool,
    /// Caches of the RPKI, the preferred one first.
    pub rtr: Vec<SocketAddr>,
    /// The socket for questions about its routes.
    pub control: Option<PathBuf>,
    /// Where it tells how it is, if anywhere.
    pub admin: Option<Admin>,
}

/// The session with the member's router.
#[derive(Debug)]
pub struct BgpSettings {
    /// Where the router listens.
    pub router: SocketAddr,
    /// Where the router's connections are taken.
    pub listen: SocketAddr,
    /// Both ends' numbers, families, timers and bounds.
    pub config: Config,
    /// The file of the secret for TCP-MD5.
    pub password: Option<PathBuf>,
}

/// `[member]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawMember {
    key: Option<PathBuf>,
    roster: Option<PathBuf>,
    asn: Option<Spanned<u32>>,
    exchange_asn: Option<Spanned<u32>>,
    exchange: Option<Vec<Spanned<String>>>,
    neutral: Option<Vec<Spanned<String>>>,
    select_best: Option<bool>,
    rtr: Option<Vec<Spanned<String>>>,
    control: Option<PathBuf>,
    pub(crate) admin: Option<Spanned<String>>,
    bgp: RawBgp,
    prefixes: Vec<Spanned<RawPrefixes>>,
    export: RawExport,
    import: RawImport,
}

/// `[member.bgp]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawBgp {
    router: Option<Spanned<String>>,
    listen: Option<Spanned<String>>,
    id: Option<Spanned<String>>,
    passive: Option<bool>,
    password: Option<PathBuf>,
    hold_s: Option<Spanned<u16>>,
    families: Option<Vec<Spanned<String>>>,
    max_prefixes: Option<Spanned<u32>>,
    max_prefixes_v6: Option<Spanned<u32>>,
    role: Option<Spanned<String>>,
    strict_role: Option<bool>,
    first_asn: Option<bool>,
    restart_s: Option<Spanned<u16>>,
}

/// Keys of `[member]`.
pub(super) const MEMBER_KEYS: &[&str] = &[
    "key",
    "roster",
    "asn",
    "exchange_asn",
    "exchange",
    "neutral",
    "select_best",
    "rtr",
    "control",
    "admin",
    "bgp",
    "prefixes",
    "export",
    "import",
];
/// Keys of the tables below `[member]`, and of the items of lists there.
pub(super) const MEMBER_TABLES: &[(&[&str], &[&str])] = &[
    (
        &["member", "bgp"],
        &[
            "router",
            "listen",
            "id",
            "passive",
            "password",
            "hold_s",
            "families",
            "max_prefixes",
            "max_prefixes_v6",
            "role",
            "strict_role",
            "first_asn",
            "restart_s",
        ],
    ),
    (&["member", "prefixes"], policy::PREFIXES_KEYS),
    (&["member", "export"], policy::EXPORT_KEYS),
    (&["member", "export", "rule"], policy::RULE_KEYS),
    (&["member", "import"], policy::IMPORT_KEYS),
    (&["member", "import", "rule"], policy::RULE_KEYS),
];

impl ConfigFile {
    /// Settings of `rhumb member`.
    pub fn member(&self) -> Outcome<MemberSettings> {
        let raw = &self.raw.member;
        let asn = self.asn(raw.asn.as_ref(), "asn = 64500, the AS of the member's router")?;
        let exchange_asn = self.asn(
            raw.exchange_asn.as_ref(),
            "exchange_asn, the AS of the exchange's route servers",
        )?;
        let mut rtr = Vec::new();
        for text in raw.rtr.iter().flatten() {
            rtr.extend(self.parsed(Some(text), parse_address)?);
        }
        if let Some(last) = raw.rtr.as_ref().and_then(|all| all.get(MOST_CACHES)) {
            return Err(self.wrong(last, format!("more than {MOST_CACHES} caches")));
        }
        let policy = self.member_policy(asn, exchange_asn)?;
        if rtr.is_empty() && policy.asks_validity() {
            return Err(Failure::setup_text(
                "a rule of [member] asks what the RPKI says, and nobody tells; give rtr = [\"CACHE:323\"]",
            ));
        }
        Ok(MemberSettings {
            key: raw.key.clone().ok_or_else(|| {
                Failure::setup_text(
                    "a member needs a key; make one: rhumb keygen --role node --out member.key, and name \
                     it in [member] as \
                     key = \"member.key\"",
                )
            })?,
            roster: raw.roster.clone().ok_or_else(|| {
                needed("roster = \"roster.toml\", the exchange's list of members")
            })?,
            exchange: self.party(raw.exchange.as_deref(), "exchange")?,
            neutral: self.party(raw.neutral.as_deref(), "neutral")?,
            bgp: self.member_bgp(asn, exchange_asn)?,
            policy,
            select_best: raw.select_best.unwrap_or(true),
            rtr,
            control: raw.control.clone(),
            admin: self.admin(None, raw.admin.as_ref())?,
        })
    }

    /// The control socket of `[member]`.
    pub fn member_control(&self) -> Option<PathBuf> {
        self.raw.member.control.clone()
    }

    fn asn(&self, raw: Option<&Spanned<u32>>, key: &str) -> Outcome<u32> {
        let raw = raw.ok_or_else(|| needed(key))?;
        match *raw.get_ref() {
            0 => Err(self.wrong(raw, "0 is no AS number".to_owned())),
            asn => Ok(asn),
        }
    }

    fn party(&self, raw: Option<&[Spanned<String>]>, key: &str) -> Outcome<Vec<Pinned>> {
        let servers = self.servers(raw, key)?;
        servers.ok_or_else(|| needed(&format!("{key} = [\"NAME@ADDR\"], its standby second")))
    }

    /// The servers of a party; none if there are none.
    pub(super) fn servers(
        &self,
        raw: Option<&[Spanned<String>]>,
        key: &str,
    ) -> Outcome<Option<Vec<Pinned>>> {
        let mut servers = Vec::new();
        for text in raw.into_iter().flatten() {
            servers.extend(self.parsed(Some(text), parse_server)?);
            if servers.len() > MOST_SERVERS {
                return Err(self.wrong(text, format!("{key} has more than {MOST_SERVERS} servers")));
            }
        }
        Ok((!servers.is_empty()).then_some(servers))
    }

    fn member_bgp(&self, asn: u32, exchange_asn: u32) -> Outcome<BgpSettings> {
        let raw = &self.raw.member.bgp;
        let router = self.parsed(raw.router.as_ref(), parse_bgp_address)?;
        let router = router.ok_or_else(|| needed("router = \"192.0.2.2\" in [member.bgp]"))?;
        let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), BGP_PORT);
        let listen = self.parsed(raw.listen.as_ref(), parse_bgp_address)?.unwrap_or(any);
        let id = self.parsed(raw.id.as_ref(), |text| {
            Ipv4Addr::from_str(text)
                .map_err(|_| format!("`{text}` is no identifier like 192.0.2.3"))
        })?;
        let id = match (id, listen.ip()) {
            (Some(id), _) => id,
            (None, IpAddr::V4(address)) if !address.is_unspecified() => address,
            _ => {
                return Err(needed(
                    "id = \"192.0.2.3\" in [member.bgp], this speaker's identifier",
                ));
            }
        };
        let mut config = Config::new(exchange_asn, id, asn);
        config.propagation = Propagation::Transparent;
        config.passive = raw.passive.unwrap_or(false);
        config.strict_role = raw.strict_role.unwrap_or(false);
        config.enforce_first_as = raw.first_asn.unwrap_or(true);
        // What the neighbour gets is complete when the parties
        // have told all, which only the driver knows.
        config.automatic_end_of_rib = false;
        config.timers.connect_again = ROUTER_RETRY;
        config.role = match self.parsed(raw.role.as_ref(), parse_role)? {
            Some(role) => role,
            None => Some(BgpRole::RouteServer),
        };
        if let Some(hold) = &raw.hold_s {
            config.timers.hold = Duration::from_secs((*hold.get_ref()).into());
        }
        let restart =
            raw.restart_s.as_ref().map_or(DEFAULT_RESTART_S, |restart| *restart.get_ref());
        config.graceful_restart = (restart > 0).then(|| GracefulRestart {
            restart_time: Duration::from_secs(restart.into()),
            stale_time: STALE_TIME,
            restarting: false,
        });
        let mut spoken = Vec::new();
        for text in raw.families.iter().flatten() {
            spoken.extend(self.parsed(Some(text), parse_family)?);
        }
        for family in Family::ALL {
            let most = if family == IPV4 { &raw.max_prefixes } else { &raw.max_prefixes_v6 };
            let max_prefixes = most.as_ref().map_or(DEFAULT_MAX_PREFIXES, |most| *most.get_ref());
            let speaks = raw.families.is_none() || spoken.contains(&family);
            let family_config =
                FamilyConfig { max_prefixes: Some(max_prefixes), ..FamilyConfig::default() };
            config.set_family(family, speaks.then_some(family_config));
        }
        config.check().map_err(|error| Failure::setup_text(format!("[member.bgp]: {error}")))?;
        Ok(BgpSettings { router, listen, config, password: raw.password.clone() })
    }
}

fn needed(key: &str) -> Failure {
    Failure::setup_text(format!("[member] needs {key}"))
}

fn parse_server(text: &str) -> Result<Pinned, String> {
    Pinned::parse(text, ", as the exchange publishes it")
}

/// An address with BGP's port unless it says another.
pub(super) fn parse_bgp_address(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<IpAddr>() {
        Ok(address) => Ok(SocketAddr::new(address, BGP_PORT)),
        Err(_) => text
            .parse()
            .map_err(|_| format!("`{text}` is no address like 192.0.2.2 or [2001:db8::2]:179")),
    }
}

fn parse_role(text: &str) -> Result<Option<BgpRole>, String> {
    match text {
        "rs" => Ok(Some(BgpRole::RouteServer)),
        "peer" => Ok(Some(BgpRole::Peer)),
        "none" => Ok(None),
        other => {
            Err(format!("role is `{other}`; give rs (the router is rs-client), peer, or none"))
        }
    }
}

fn parse_family(text: &str) -> Result<Family, String> {
    match text {
        "ipv4" => Ok(IPV4),
        "ipv6" => Ok(IPV6),
        other => Err(format!("there is no family `{other}`; give ipv4 or ipv6")),
    }
}

/// It is the member's own router: it may be asked often, and a proxy that began before it is not to
/// wait the two minutes of RFC 4271.
const ROUTER_RETRY: Duration = Duration::from_secs(5);
const IPV4: Family = Family::Ipv4;
const IPV6: Family = Family::Ipv6;
/// RFC 4271.
pub(super) const BGP_PORT: u16 = 179;
/// As long as routers keep routes of one that restarts by default (RFC 4724
/// gives no figure; FRR, BIRD and GoBGP have it).
const DEFAULT_RESTART_S: u16 = 120;
/// As long again as a restart may take: a table of this size is sent in seconds.
const STALE_TIME: Duration = Duration::from_secs(120);
/// More than any member but transit networks announces to route
/// servers; a leak of a whole table is above it.
const DEFAULT_MAX_PREFIXES: u32 = 200_000;
/// A primary, a standby, and as many again while they are exchanged.
const MOST_SERVERS: usize = 4;
/// More caches make nothing more certain, and each costs a connection and a table.
const MOST_CACHES: usize = 8;

/// Reads numbers that are written `LOW-HIGH` or `N`.
fn parse_numbers(text: &str) -> Result<RangeInclusive<u32>, String> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    match (low.trim().parse(), high.trim().parse()) {
        (Ok(low), Ok(high)) if low <= high => Ok(low..=high),
        _ => Err(format!("`{text}` is no number, and no range like 10-20")),
    }
}

#[cfg(test)]
mod tests;
