//! Settings of `rhumb stamp`: from options, the section `[stamp]`, and its policies.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use rhumb_capability::Prefix;
use rhumb_io::steering::Selector;
use rhumb_waypoint::policy::MOST_POLICIES;
use rhumb_waypoint::stamping::Fallback;
use rhumb_waypoint::via::split;
use rhumb_waypoint::{Family, Policy, Via};
use serde::Deserialize;
use toml::Spanned;

use super::value::{Fault, line_at};
use super::{ConfigFile, refuse};
use crate::admin::Admin;
use crate::cli::{
    CarriedInUdp, FallbackArgument, StampDaemonArguments, StampKeyArguments, parse_carried,
    parse_resolver, parse_waypoints,
};
use crate::failure::{Failure, Outcome};
use crate::privileges::{self, User};

/// What every `rhumb stamp` runs with.
#[derive(Debug)]
pub struct StampSettings {
    /// Of the options; empty without them.
    pub via: Via,
    /// Files of capabilities.
    pub capabilities: Vec<PathBuf>,
    /// Files of principals, whose keys come from key servers.
    pub principals: Vec<PathBuf>,
    /// Those to ask for keys; none for the system's.
    pub resolvers: Vec<SocketAddr>,
    /// What becomes of packets for which there is no key.
    pub fallback: Fallback,
    /// Whether questions to DNS servers are stamped, too.
    pub stamp_dns: bool,
    /// Each waypoint once.
    pub udp: Vec<CarriedInUdp>,
    /// Where it tells how it is, if anywhere.
    pub admin: Option<Admin>,
}

/// What `rhumb stamp daemon` runs with.
#[derive(Debug)]
pub struct StampDaemonSettings {
    /// What it has in common with `rhumb stamp COMMAND`.
    pub stamp: StampSettings,
    /// Which packets go which way; the first that fits counts.
    pub policies: Vec<Policy>,
    /// Where sockets are handed over, if anywhere.
    pub socket: Option<PathBuf>,
    /// Ids of users who may hand over sockets.
    pub allowed: Vec<u32>,
    /// Who it goes on as when everything is open.
    pub run_as: Option<User>,
}

/// `[stamp]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawStamp {
    capability: Option<Vec<PathBuf>>,
    principal: Option<Vec<PathBuf>>,
    resolver: Option<Vec<Spanned<String>>>,
    fallback: Option<Spanned<String>>,
    stamp_dns: Option<bool>,
    udp: Option<Vec<Spanned<String>>>,
    socket: Option<PathBuf>,
    allow: Option<Vec<Spanned<String>>>,
    run_as: Option<Spanned<String>>,
    pub(crate) admin: Option<Spanned<String>>,
    policy: Vec<Spanned<RawPolicy>>,
}

/// `[[stamp.policy]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawPolicy {
    via: Vec<Spanned<String>>,
    otherwise: Option<Vec<Spanned<String>>>,
    from: Option<Spanned<String>>,
    to: Option<Spanned<String>>,
    protocol: Option<Spanned<String>>,
    ports: Option<Spanned<String>>,
    source_ports: Option<Spanned<String>>,
    user: Option<Spanned<String>>,
}

/// Keys of `[stamp]`.
pub(super) const STAMP_KEYS: &[&str] = &[
    "capability",
    "principal",
    "resolver",
    "fallback",
    "stamp_dns",
    "udp",
    "socket",
    "allow",
    "run_as",
    "admin",
    "policy",
];
/// Keys of `[[stamp.policy]]`.
pub(super) const POLICY_KEYS: &[&str] =
    &["via", "otherwise", "from", "to", "protocol", "ports", "source_ports", "user"];

impl ConfigFile {
    /// The file as it is now.
    pub fn read_again(&self) -> Outcome<Self> {
        if self.path == PathBuf::default() { Ok(Self::default()) } else { Self::read(&self.path) }
    }

    /// The admin address of `[stamp]`.
    pub fn stamp_admin(&self) -> Outcome<Option<Admin>> {
        Ok(self.admin(None, self.raw.stamp.admin.as_ref())?.map(Admin::asked))
    }

    /// Settings of `rhumb stamp`.
    pub fn stamp(
        &self,
        flags: &StampKeyArguments,
        admin: Option<&Admin>,
    ) -> Outcome<StampSettings> {
        let raw = &self.raw.stamp;
        let or = |given: &[PathBuf], raw: &Option<Vec<PathBuf>>| match given {
            [] => raw.clone().unwrap_or_default(),
            given => given.to_vec(),
        };
        let mut resolvers = flags.resolver.clone();
        if resolvers.is_empty() {
            for text in raw.resolver.iter().flatten() {
                resolvers.extend(self.parsed(Some(text), parse_resolver)?);
            }
        }
        let fallback = match flags.fallback {
            Some(FallbackArgument::Drop) => Some(Fallback::Drop),
            Some(FallbackArgument::Plain) => Some(Fallback::Plain),
            None => self.parsed(raw.fallback.as_ref(), parse_fallback)?,
        };
        let mut via = Via::default();
        for list in &flags.via {
            via.take(&list.0).map_err(|why| Failure::setup_text(format!("--via: {why}")))?;
        }
        let mut udp = flags.udp.clone();
        if udp.is_empty() {
            for text in raw.udp.iter().flatten() {
                udp.extend(self.parsed(Some(text), parse_carried)?);
            }
        }
        if let Some(twice) = udp.iter().enumerate().find_map(|(index, one)| {
            udp[..index].iter().find(|other| other.waypoint == one.waypoint)
        }) {
            let waypoint = twice.waypoint;
            return Err(Failure::setup_text(format!("udp is given twice for {waypoint}")));
        }
        let settings = StampSettings {
            via,
            capabilities: or(&flags.capability, &raw.capability),
            principals: or(&flags.principal, &raw.principal),
            resolvers,
            fallback: fallback.unwrap_or_default(),
            stamp_dns: flags.stamp_dns || raw.stamp_dns.unwrap_or(false),
            udp,
            admin: self.admin(admin, raw.admin.as_ref())?,
        };
        if settings.capabilities.is_empty() && settings.principals.is_empty() {
            return Err(Failure::setup_text(
                "stamping needs keys; give --capability FILE, or --principal FILE for those of a key server",
            ));
        }
        Ok(settings)
    }

    /// Settings of `rhumb stamp daemon`.
    pub fn stamp_daemon(&self, flags: &StampDaemonArguments) -> Outcome<StampDaemonSettings> {
        let raw = &self.raw.stamp;
        let stamp = self.stamp(&flags.keys, flags.admin.as_ref())?;
        let run_as = self.run_as(flags.run_as.as_deref(), raw.run_as.as_ref())?;
        let own = run_as.map_or_else(|| rustix::process::geteuid().as_raw(), |user| user.id);
        let mut policies = Vec::new();
        for user in &flags.user {
            if stamp.via == Via::default() {
                return Err(Failure::setup_text("--user needs to know the way; give --via W1,W2"));
            }
            let user = user_id(user).and_then(|user| not_ourselves(user, own));
            let user = user.map_err(Failure::setup_text)?;
            let selector = Selector { users: Some(user..=user), ..Selector::default() };
            policies.push(Policy { selector, family: None, via: stamp.via.clone() });
        }
        for policy in &raw.policy {
            policies.push(self.policy(policy, own)?);
        }
        if policies.len() > MOST_POLICIES {
            return Err(Failure::setup_text(format!(
                "{} policies; {MOST_POLICIES} at most",
                policies.len()
            )));
        }
        let socket = flags.socket.clone().or_else(|| raw.socket.clone());
        if policies.is_empty() && socket.is_none() {
            return Err(Failure::setup_text(
                "nothing to stamp; give --user NAME, --socket FILE, or [[stamp.policy]] in the configuration file",
            ));
        }
        let mut allowed = Vec::new();
        for name in &flags.allow {
            allowed.push(user_id(name).map_err(Failure::setup_text)?);
        }
        for name in raw.allow.iter().flatten() {
            allowed.extend(self.parsed(Some(name), user_id)?);
        }
        Ok(StampDaemonSettings { stamp, policies, socket, allowed, run_as })
    }

    fn policy(&self, raw: &Spanned<RawPolicy>, own: u32) -> Outcome<Policy> {
        let refused = |problem: &str| {
            let line = line_at(&self.text, Some(&raw.span()));
            Err(refuse(&self.path, &Fault { line, problem: problem.to_owned() }))
        };
        let raw_policy = raw.get_ref();
        let mut via = Vec::new();
        for text in &raw_policy.via {
            via.extend(self.parsed(Some(text), |text| parse_waypoints(text).map(|it| it.0))?);
        }
        let mut via = match split(&via.concat()) {
            Ok(via) => via,
            Err(problem) => return refused(&problem),
        };
        for text in raw_policy.otherwise.iter().flatten() {
            let list = self.parsed(Some(text), parse_waypoints)?;
            if let Some(Err(problem)) = list.map(|list| via.take(&list.0)) {
                return refused(&problem);
            }
        }
        let user = |text: &str| user_id(text).and_then(|user| not_ourselves(user, own));
        let selector = Selector {
            source: self.parsed(raw_policy.from.as_ref(), parse_prefix)?,
            destination: self.parsed(raw_policy.to.as_ref(), parse_prefix)?,
            protocol: self.parsed(raw_policy.protocol.as_ref(), parse_protocol)?,
            source_ports: self.parsed(raw_policy.source_ports.as_ref(), parse_ports)?,
            destination_ports: self.parsed(raw_policy.ports.as_ref(), parse_ports)?,
            users: self.parsed(raw_policy.user.as_ref(), user)?.map(|user| user..=user),
            ..Selector::default()
        };
        let prefixes = [selector.source, selector.destination].into_iter().flatten();
        let families: Vec<bool> = prefixes.map(|(prefix, _)| prefix.is_ipv4()).collect();
        let family = match families[..] {
            [one, other] if one != other => {
                return refused("`from` and `to` are of different families of addresses");
            }
            [true, ..] => Some(Family::V4),
            [false, ..] => Some(Family::V6),
            [] => None,
        };
        let has_ports = selector.source_ports.is_some() || selector.destination_ports.is_some();
        if has_ports && !selector.protocol.is_some_and(|protocol| WITH_PORTS.contains(&protocol)) {
            return refused("ports need protocol = \"tcp\", \"udp\", \"sctp\" or \"dccp\"");
        }
        if selector == Selector::default() {
            return refused(
                "a policy without from, to, protocol or user is for everything; say from = \"0.0.0.0/0\"",
            );
        }
        Ok(Policy { selector, family, via })
    }
}

/// The id of a user, by name or number.
fn user_id(name: &str) -> Result<u32, String> {
    privileges::user(name).map(|user| user.id)
}

/// This process asks for keys, and sends what it stamps: none of
/// that may be stamped. `own` is who it runs as.
fn not_ourselves(user: u32, own: u32) -> Result<u32, String> {
    if user == own {
        return Err(format!(
            "user {user} is the one that the stamper runs as, whose questions for keys must not be stamped; \
             run one of the two as another user"
        ));
    }
    Ok(user)
}

fn parse_fallback(text: &str) -> Result<Fallback, String> {
    match text {
        "drop" => Ok(Fallback::Drop),
        "plain" => Ok(Fallback::Plain),
        other => Err(format!("fallback is `{other}`; give drop or plain")),
    }
}

/// An address alone is its whole prefix.
fn parse_prefix(text: &str) -> Result<(IpAddr, u8), String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok((address, if address.is_ipv4() { 32 } else { 128 }));
    }
    let prefix: Prefix = text.parse().map_err(|_| {
        format!(
            "`{text}` is no prefix like 10.0.0.0/8 or 2001:db8::/32, with zeros behind its length"
        )
    })?;
    Ok((prefix.address(), prefix.len()))
}

fn parse_protocol(text: &str) -> Result<u8, String> {
    let known = PROTOCOLS.iter().find(|(name, _)| *name == text).map(|(_, number)| *number);
    known.or_else(|| text.parse().ok()).ok_or_else(|| {
        let names: Vec<&str> = PROTOCOLS.iter().map(|(name, _)| *name).collect();
        format!("`{text}` is no protocol; give {}, or a number", names.join(", "))
    })
}

fn parse_ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(first), Ok(last)) if first <= last && first > 0 => Ok(first..=last),
        _ => Err(format!("`{text}` are no ports; give one like 80, or a range like 8000-8100")),
    }
}

const PROTOCOLS: [(&str, u8); 6] =
    [("icmp", 1), ("tcp", 6), ("udp", 17), ("dccp", 33), ("icmpv6", 58), ("sctp", 132)];
/// Of which the kernel compares ports.
const WITH_PORTS: [u8; 4] = [6, 17, 33, 132];

#[cfg(test)]
mod tests {
    use super::super::tests::file;
    use super::*;

    fn flags() -> StampDaemonArguments {
        let mut flags = StampDaemonArguments::default();
        flags.keys.capability.push("w1.cap".into());
        flags
    }

    fn policies(text: &str) -> Outcome<Vec<Policy>> {
        file(text).stamp_daemon(&flags()).map(|settings| settings.policies)
    }

    #[test]
    fn policies_are_in_their_order() {
        let read = policies(
            "[[stamp.policy]]\nvia = [\"192.0.2.1\", \"192.0.2.2\"]\nfrom = \"10.1.0.0/16\"\n\
             to = \"198.51.100.7\"\nprotocol = \"tcp\"\nports = \"80-90\"\n\
             [[stamp.policy]]\nvia = [\"192.0.2.1,2001:db8::1\"]\nuser = \"4242\"\n",
        );
        // Families do not mix in one text.
        assert!(read.unwrap_err().to_string().contains("one family"));
        let read = policies(
            "[[stamp.policy]]\nvia = [\"192.0.2.1\", \"192.0.2.2\"]\nfrom = \"10.1.0.0/16\"\n\
             to = \"198.51.100.7\"\nprotocol = \"tcp\"\nports = \"80-90\"\n\
             [[stamp.policy]]\nvia = [\"192.0.2.1\", \"2001:db8::1\"]\nuser = \"4242\"\n",
        );
        let read = read.unwrap();
        assert_eq!(
            read[0].to_string(),
            "from 10.1.0.0/16 to 198.51.100.7/32 protocol 6 ports 80-90 via 192.0.2.1,192.0.2.2"
        );
        assert_eq!(read[0].family, Some(Family::V4));
        assert_eq!(read[1].to_string(), "user 4242 via 192.0.2.1 and 2001:db8::1");
        assert_eq!(read[1].family, None);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (line, problem) in [
            ("from = \"10.1.2.0/16\"", "no prefix"),
            ("protocol = \"tpc\"", "no protocol"),
            ("ports = \"80\"", "need protocol"),
            ("protocol = \"icmp\"\nports = \"80\"", "need protocol"),
            ("protocol = \"tcp\"\nports = \"90-80\"", "no ports"),
            ("user = \"nobody here\"", "no user"),
            ("from = \"10.0.0.0/8\"\nto = \"2001:db8::/32\"", "different families"),
            ("user = \"4242\"\notherwise = [\"192.0.2.1\"]", "twice"),
            ("user = \"4242\"\notherwise = [\"192.0.2.2,2001:db8::1\"]", "one family"),
            ("", "for everything"),
            ("form = \"10.0.0.0/8\"", "did you mean `from`"),
        ] {
            let text = format!("\n[[stamp.policy]]\nvia = [\"192.0.2.1\"]\n{line}\n");
            let refused = raw_or_policies(&text);
            assert!(refused.contains(problem), "{line}: {refused}");
            assert!(refused.contains("line "), "{refused}");
        }
    }

    fn raw_or_policies(text: &str) -> String {
        match super::super::raw::parse(text) {
            Err(fault) => format!("line {}: {}", fault.line, fault.problem),
            Ok(_) => policies(text).unwrap_err().to_string(),
        }
    }

    #[test]
    fn settings_without_keys_or_work_are_refused() {
        let nothing = StampDaemonArguments::default();
        let refused = file("").stamp_daemon(&nothing).unwrap_err().to_string();
        assert!(refused.contains("--capability"), "{refused}");
        let refused = file("").stamp_daemon(&flags()).unwrap_err().to_string();
        assert!(refused.contains("nothing to stamp"), "{refused}");
        let mut user = flags();
        user.user.push("4242".to_owned());
        let refused = file("").stamp_daemon(&user).unwrap_err().to_string();
        assert!(refused.contains("--via"), "{refused}");
        let own = rustix::process::geteuid().as_raw().to_string();
        user.user = vec![own.clone()];
        user.keys.via.push(parse_waypoints("192.0.2.1").unwrap());
        let refused = file("").stamp_daemon(&user).unwrap_err().to_string();
        assert!(refused.contains("runs as"), "{refused}");
        // Once it runs as another user, that is the one.
        user.keys.via.clear();
        user.keys.via.push(parse_waypoints("192.0.2.1").unwrap());
        user.run_as = Some("4343".to_owned());
        assert!(file("").stamp_daemon(&user).is_ok());
        user.user = vec!["4343".to_owned()];
        let refused = file("").stamp_daemon(&user).unwrap_err().to_string();
        assert!(refused.contains("runs as"), "{refused}");
        let mut several = flags();
        several.keys.via = ["192.0.2.1", "192.0.2.2,192.0.2.3", "2001:db8::1"]
            .map(|it| parse_waypoints(it).unwrap())
            .into();
        several.user.push("4242".to_owned());
        let settings = file("").stamp_daemon(&several).unwrap();
        let text = "192.0.2.1 or 192.0.2.2,192.0.2.3 and 2001:db8::1";
        assert_eq!(settings.stamp.via.to_string(), text);
        let mut twice = flags();
        twice.keys.via = ["192.0.2.1", "192.0.2.1"].map(|it| parse_waypoints(it).unwrap()).into();
        let refused = file("").stamp_daemon(&twice).unwrap_err().to_string();
        assert!(refused.contains("twice"), "{refused}");
    }
}
