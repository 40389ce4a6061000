//! Settings of a router at the border of a trust domain: `[border]`, what it demands of foreign
//! peers, and `[[border.stamp]]`, what it has for peers that demand capabilities.

use std::net::SocketAddr;
use std::path::PathBuf;

use rhumb_capability::VerifierConfig;
use rhumb_switch::NamePrefix;
use rhumb_wire::Name;

use super::waypoint::{FollowSettings, Period, VerifierKeys};
use super::{ConfigFile, Fault, line_at, refuse};
use crate::failure::{Failure, Outcome};
use crate::remote::{parse_address, parse_name};

/// What a router demands.
#[derive(Debug)]
pub struct BorderSettings {
    /// Of whom.
    pub foreign: Vec<Name>,
    /// And of everybody who is no member of its domain.
    pub is_domains: bool,
    /// How it is verified, but for the router's address.
    pub verifier: VerifierConfig,
    /// Files, and folders of files.
    pub masters: Vec<PathBuf>,
    /// The folder of accounts; without one they are in memory only.
    pub accounts: Option<PathBuf>,
    /// What each of its files is for.
    pub period: Period,
    /// Who says what is revoked, if it is asked.
    pub follow: Option<FollowSettings>,
}

/// What a router has for a peer.
#[derive(Debug)]
pub struct BorderStampSettings {
    /// The router that demands capabilities.
    pub peer: Name,
    /// For PDUs of these sources.
    pub source: NamePrefix,
    /// Capability files.
    pub capabilities: Vec<PathBuf>,
    /// The file of a principal, whose keys come from a key server.
    pub principal: Option<PathBuf>,
    /// Those to ask for them; none for the system's.
    pub resolvers: Vec<SocketAddr>,
}

impl ConfigFile {
    /// What the file says of the border of a router, which is of a domain or not.
    pub(super) fn border(&self, is_of_domain: bool) -> Outcome<Option<BorderSettings>> {
        let Some(raw) = &self.raw.border else { return Ok(None) };
        let names = match (&raw.foreign, &raw.outside, &raw.master) {
            (None, None, None) => return Ok(None),
            (names, _, _) => names.iter().flatten(),
        };
        let is_domains = raw.outside == Some(true);
        if is_domains && !is_of_domain {
            return Err(Failure::setup_text(
                "[border] outside = true is of a router at the border of a trust domain; give --border FILE \
                 (`rhumb domain delegate`), or name peers as foreign",
            ));
        }
        let mut foreign = Vec::new();
        for text in names {
            foreign.extend(self.parsed(Some(text), parse_name)?);
        }
        if foreign.is_empty() && !is_domains {
            return Err(Failure::setup_text(
                "[border] needs foreign, the names of peers of which capabilities are demanded, or outside = true: all \
                 that are no members of the router's domain",
            ));
        }
        let masters = raw.master.clone().unwrap_or_default();
        if masters.is_empty() {
            return Err(Failure::setup_text(
                "[border] needs master, files or folders of this router's master keys; make one: rhumb capability \
                 master NAME",
            ));
        }
        let keys = VerifierKeys {
            window_bits: raw.window_bits,
            grace_ms: raw.grace_ms,
            skew_ms: raw.skew_ms,
            suites: raw.suites.as_deref(),
            reference_schemes: raw.reference_schemes.as_ref(),
            packets_per_s: raw.packets_per_s.as_ref(),
        };
        let follow = (raw.key_server.as_ref(), raw.zone.as_ref(), raw.key.as_ref());
        Ok(Some(BorderSettings {
            foreign,
            is_domains,
            verifier: self.verifier_of(Vec::new(), &keys)?,
            masters,
            accounts: raw.accounts.clone(),
            period: self.period(raw.period.as_ref())?,
            follow: self.follow(follow, raw.revocations.as_ref(), "border")?,
        }))
    }

    /// What the file says of stamps.
    pub(super) fn stamps(&self) -> Outcome<Vec<BorderStampSettings>> {
        let mut stamps = Vec::new();
        for raw in self.raw.border.iter().flat_map(|border| &border.stamp) {
            let peer =
                parse_name(raw.peer.get_ref()).map_err(|problem| self.wrong(&raw.peer, problem))?;
            let source = self.parsed(raw.source.as_ref(), |text| {
                NamePrefix::parse(text).ok_or_else(|| {
                    format!("no name begins with `{text}`; give the first characters of names")
                })
            })?;
            let capabilities = raw.capability.clone().unwrap_or_default();
            if capabilities.is_empty() && raw.principal.is_none() {
                let line = line_at(&self.text, Some(&raw.peer.span()));
                let problem = "a stamp needs capability, a list of capability files, or principal, \
                               the file of one whose keys are fetched";
                return Err(refuse(&self.path, &Fault { line, problem: problem.to_owned() }));
            }
            let mut resolvers = Vec::new();
            for text in raw.resolvers.iter().flatten() {
                resolvers.extend(self.parsed(Some(text), parse_address)?);
            }
            stamps.push(BorderStampSettings {
                peer,
                source: source.unwrap_or(NamePrefix::ANY),
                capabilities,
                principal: raw.principal.clone(),
                resolvers,
            });
        }
        Ok(stamps)
    }
}
