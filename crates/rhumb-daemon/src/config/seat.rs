//! `[rib.exchange]`: the private exchange by which a RIB's domain tells some neighbours which
//! domains it reaches, and is told by them. What it reads is what `[member]` does of a proxy.

use std::path::PathBuf;

use rhumb_member::domain::MAX_SLOTS;
use serde::Deserialize;
use toml::Spanned;

use super::ConfigFile;
use crate::exchange_links::Servers;
use crate::failure::{Failure, Outcome};

/// By what a domain is a member of an exchange.
#[derive(Debug, Clone)]
pub struct SeatSettings {
    /// The domain's key there.
    pub key: PathBuf,
    /// Who the members are.
    pub roster: PathBuf,
    /// The servers of both parties.
    pub servers: Servers,
    /// Offers that it can make at once, which everybody sees.
    pub slots: u8,
}

/// `[rib.exchange]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawSeat {
    key: Option<PathBuf>,
    roster: Option<PathBuf>,
    exchange: Option<Vec<Spanned<String>>>,
    neutral: Option<Vec<Spanned<String>>>,
    slots: Option<Spanned<u8>>,
}

/// The keys of [`RawSeat`].
pub(super) const SEAT_KEYS: &[&str] = &["key", "roster", "exchange", "neutral", "slots"];

impl ConfigFile {
    /// What the file says of the exchange that a RIB's domain is a member of, if anything.
    pub(super) fn seat_settings(&self) -> Outcome<Option<SeatSettings>> {
        let Some(raw) = &self.raw.rib.exchange else { return Ok(None) };
        let needed = |what: &str| Failure::setup_text(format!("[rib.exchange] needs {what}"));
        let slots = match &raw.slots {
            Some(slots) if !(1..=MAX_SLOTS).contains(slots.get_ref()) => {
                return Err(self.wrong(slots, format!("slots is 1 to {MAX_SLOTS}")));
            }
            slots => slots.as_ref().map_or(SLOTS, |slots| *slots.get_ref()),
        };
        let servers = |raw: Option<&[Spanned<String>]>, key: &str| {
            let needs = || needed(&format!("{key} = [\"NAME@ADDR\"], its standby second"));
            self.servers(raw, key)?.ok_or_else(needs)
        };
        Ok(Some(SeatSettings {
            key: raw.key.clone().ok_or_else(|| {
                needed(
                    "a key; make one: rhumb keygen --role node --out exchange.key, and name it \
                     as key = \"exchange.key\"",
                )
            })?,
            roster: raw.roster.clone().ok_or_else(|| {
                needed("roster = \"roster.toml\", the exchange's list of members")
            })?,
            servers: Servers {
                exchange: servers(raw.exchange.as_deref(), "exchange")?,
                neutral: servers(raw.neutral.as_deref(), "neutral")?,
            },
            slots,
        }))
    }
}

/// Domains with a dozen neighbours, which tell them of two dozen others.
const SLOTS: u8 = 32;
