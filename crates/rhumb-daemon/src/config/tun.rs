//! A TUN device between names: of `rhumb tun`, and of `[up.tun]`.

use std::net::SocketAddr;

use rhumb_wire::Name;
use serde::Deserialize;
use toml::Spanned;

use super::{Allowed, ConfigFile};
use crate::cli::{LEAST_MTU, MOST_MTU, RESOLVER, TunArguments};
use crate::failure::Outcome;
use crate::remote::{Remote, parse_name};

/// What a device is made with.
#[derive(Debug, Clone)]
pub struct TunSettings {
    /// What the system calls it; the first name that is free, if it is not said.
    pub device: Option<String>,
    /// Who may begin to send packets to this host; nobody, if there are no names.
    pub allow: Allowed,
    /// Names that this host can send to, beside those of the book.
    pub peers: Vec<Name>,
    /// Who is asked for names of other addresses.
    pub ribs: Vec<Remote>,
    /// Where programs find names as hosts, if anywhere.
    pub resolver: Option<SocketAddr>,
    /// Bytes of the largest packet.
    pub mtu: u32,
}

impl From<&TunArguments> for TunSettings {
    fn from(arguments: &TunArguments) -> Self {
        let allow = match arguments.allow_all {
            true => Allowed::Everybody,
            false => Allowed::Chosen {
                names: arguments.allow.clone(),
                domains: arguments.allow_domain.clone(),
            },
        };
        let peers = [&arguments.allow[..], &arguments.peer].concat();
        Self {
            device: arguments.device.clone(),
            allow,
            peers,
            ribs: arguments.rib.clone(),
            resolver: arguments.resolver,
            mtu: arguments.mtu,
        }
    }
}

/// `[up.tun]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawTun {
    device: Option<String>,
    allow: Vec<Spanned<String>>,
    allow_domain: Vec<Spanned<String>>,
    allow_all: bool,
    peer: Vec<Spanned<String>>,
    rib: Vec<Spanned<String>>,
    resolver: Option<Spanned<String>>,
    mtu: Option<Spanned<u32>>,
}

/// The keys of [`RawTun`].
pub(super) const TUN_KEYS: &[&str] =
    &["device", "allow", "allow_domain", "allow_all", "peer", "rib", "resolver", "mtu"];

impl ConfigFile {
    /// The device that a node of `[up]` has.
    pub(super) fn tun(&self, raw: &Spanned<RawTun>) -> Outcome<TunSettings> {
        let item = raw.get_ref();
        let domains = self.full_names(&item.allow_domain)?;
        let allow = match (item.allow_all, self.full_names(&item.allow)?) {
            (true, names) if names.is_empty() && domains.is_empty() => Allowed::Everybody,
            (true, _) => {
                let problem = "the device lets everybody, or those who are named; give either";
                return Err(self.up_fault(raw, problem.to_owned()));
            }
            (false, names) => Allowed::Chosen { names, domains },
        };
        let mtu = match &item.mtu {
            None => LEAST_MTU,
            Some(mtu) if (LEAST_MTU..=MOST_MTU).contains(mtu.get_ref()) => *mtu.get_ref(),
            Some(mtu) => {
                let problem = format!("mtu is {}; give {LEAST_MTU} to {MOST_MTU}", mtu.get_ref());
                return Err(self.up_fault(mtu, problem));
            }
        };
        let mut peers = self.full_names(&item.peer)?;
        if let Allowed::Chosen { names, .. } = &allow {
            peers.extend(names);
        }
        let parse_resolver = |text: &str| match text {
            "on" => RESOLVER.parse().map_err(|_| "no usual address".to_owned()),
            text => text.parse::<SocketAddr>().map_err(|_| {
                format!("`{text}` is no address with a port like {RESOLVER}, and not `on`")
            }),
        };
        Ok(TunSettings {
            device: item.device.clone(),
            allow,
            peers,
            ribs: self.remotes(&[], Some(&item.rib))?,
            resolver: self.parsed(item.resolver.as_ref(), parse_resolver)?,
            mtu,
        })
    }

    /// Names in full: whose label a file means would depend on who reads it.
    pub(super) fn full_names(&self, texts: &[Spanned<String>]) -> Outcome<Vec<Name>> {
        let read = texts.iter().filter_map(|it| self.parsed(Some(it), parse_name).transpose());
        read.collect()
    }
}
