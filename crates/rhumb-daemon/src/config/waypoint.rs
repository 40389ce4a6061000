//! Settings of `rhumb waypoint`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;
use rhumb_capability::{PLATYPUS_PORT, ReferenceSchemes, Suite, VerifierConfig, WindowClock};
use toml::Spanned;

use super::value::{Fault, line_at};
use super::{ConfigFile, refuse};
use crate::admin::Admin;
use crate::cli::{WaypointArguments, WaypointIoArgument};
use crate::failure::{Failure, Outcome};
use crate::privileges::User;
use crate::remote::parse_address;

/// What a waypoint runs with.
#[derive(Debug)]
pub struct WaypointSettings {
    /// What of it the verifiers need, but for what differs from worker to worker.
    pub verifier: VerifierConfig,
    /// How packets come in and go out.
    pub io: PacketIoChoice,
    /// Whether Platypus is taken in UDP, too, on the port of the verifier.
    pub udp: bool,
    /// Files, and folders of files.
    pub masters: Vec<PathBuf>,
    /// Whether packets may be delivered to this host itself.
    pub deliver_here: bool,
    /// Threads that verify.
    pub workers: u8,
    /// Whether each keeps to a core of its own.
    pub pin: bool,
    /// The folder of accounts, and how long a period is.
    pub accounts: Option<PathBuf>,
    /// What each file of accounts is for.
    pub period: Period,
    /// Who says what is revoked, if it is asked.
    pub follow: Option<FollowSettings>,
    /// Who it goes on as when everything is open.
    pub run_as: Option<User>,
    /// Where it tells how it is, if anywhere.
    pub admin: Option<Admin>,
}

/// How packets come in and go out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PacketIoChoice {
    /// Raw sockets.
    Raw,
    /// A TUN device of this name.
    Tun(String),
    /// AF_XDP on these interfaces.
    Xdp {
        /// Their names: packets come in and go out by them; one at least.
        interfaces: Vec<String>,
        /// Whether drivers that would copy are refused.
        zero_copy_only: bool,
    },
}

/// Whose word about revocations is taken.
#[derive(Debug, Clone)]
pub struct FollowSettings {
    pub(crate) server: SocketAddr,
    pub(crate) zone: String,
    pub(crate) key: PathBuf,
    /// Where what is revoked is kept, if it is.
    pub(crate) kept: Option<PathBuf>,
}

/// What one file of accounts is for, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Period {
    /// An hour, as `2026-11-23T07`.
    Hour,
    /// A day, as `2026-11-23`.
    Day,
    /// A month, as `2026-11`.
    Month,
}

/// Keys of a section that say how capabilities are verified.
pub(super) struct VerifierKeys<'a> {
    pub(super) window_bits: Option<u8>,
    pub(super) grace_ms: Option<u32>,
    pub(super) skew_ms: Option<u32>,
    pub(super) suites: Option<&'a [Spanned<String>]>,
    pub(super) reference_schemes: Option<&'a Spanned<String>>,
    pub(super) packets_per_s: Option<&'a Spanned<u32>>,
}

impl ConfigFile {
    /// Settings of `rhumb waypoint`.
    pub fn waypoint(&self, flags: &WaypointArguments) -> Outcome<WaypointSettings> {
        let raw = &self.raw.waypoint;
        let mut masters = flags.master.clone();
        if masters.is_empty() {
            masters = raw.master.clone().unwrap_or_default();
        }
        if masters.is_empty() {
            return Err(Failure::setup_text(
                "a waypoint needs a master key; make one: rhumb capability master, then give --master FILE",
            ));
        }
        let udp_port = flags.udp_port.or(raw.udp_port).unwrap_or(PLATYPUS_PORT);
        let workers = match (flags.workers, &raw.workers) {
            (Some(workers), _) => workers,
            (None, Some(raw)) => {
                let workers = u8::try_from(*raw.get_ref()).ok().filter(|n| (1..=8).contains(n));
                workers.ok_or_else(|| self.wrong(raw, "workers is not 1 to 8".to_owned()))?
            }
            (None, None) => 1,
        };
        let io = self.packet_io(flags)?;
        let mut verifier = self.verifier(flags)?;
        verifier.port = udp_port;
        verifier.cores = workers.into();
        let period = self.period(raw.period.as_ref())?;
        Ok(WaypointSettings {
            verifier,
            io,
            udp: udp_port != 0,
            masters,
            deliver_here: raw.deliver_here.unwrap_or(false),
            workers,
            pin: flags.pin || raw.pin.unwrap_or(false),
            accounts: flags.accounts.clone().or_else(|| raw.accounts.clone()),
            period,
            follow: self.follow(
                (raw.key_server.as_ref(), raw.zone.as_ref(), raw.key.as_ref()),
                raw.revocations.as_ref(),
                "waypoint",
            )?,
            run_as: self.run_as(flags.run_as.as_deref(), raw.run_as.as_ref())?,
            admin: self.admin(flags.admin.as_ref(), raw.admin.as_ref())?,
        })
    }

    /// The folder of accounts that the file names, a waypoint's before a border's.
    pub fn accounts(&self) -> Option<PathBuf> {
        let border = self.raw.border.as_ref().and_then(|border| border.accounts.clone());
        self.raw.waypoint.accounts.clone().or(border)
    }

    pub(super) fn period(&self, raw: Option<&Spanned<String>>) -> Outcome<Period> {
        let period = self.parsed(raw, |text| {
            Period::from_str(text, false)
                .map_err(|_| format!("period is `{text}`; give hour, day or month"))
        })?;
        Ok(period.unwrap_or(Period::Day))
    }

    fn verifier(&self, flags: &WaypointArguments) -> Outcome<VerifierConfig> {
        let raw = &self.raw.waypoint;
        let keys = VerifierKeys {
            window_bits: raw.window_bits,
            grace_ms: raw.grace_ms,
            skew_ms: raw.skew_ms,
            suites: raw.suites.as_deref(),
            reference_schemes: raw.reference_schemes.as_ref(),
            packets_per_s: raw.packets_per_s.as_ref(),
        };
        let mut addresses = flags.address.clone();
        if addresses.is_empty() {
            for text in raw.addresses.iter().flatten() {
                addresses.extend(self.parsed(Some(text), parse_ip)?);
            }
        }
        if addresses.is_empty() {
            return Err(Failure::setup_text(
                "a waypoint needs an address that capabilities name it by; give --address IP",
            ));
        }
        self.verifier_of(addresses, &keys)
    }

    /// What verifies, as these keys say.
    pub(super) fn verifier_of(
        &self,
        addresses: Vec<IpAddr>,
        raw: &VerifierKeys<'_>,
    ) -> Outcome<VerifierConfig> {
        let mut config = VerifierConfig::new(addresses);
        let bits = raw.window_bits.unwrap_or(config.clock.bits());
        let grace_ms = raw.grace_ms.unwrap_or(DEFAULT_GRACE_MS);
        let skew_ms = raw.skew_ms.unwrap_or(DEFAULT_SKEW_MS);
        config.clock = WindowClock::new(bits, grace_ms, skew_ms).map_err(|error| {
            Failure::setup_text(format!(
                "{error}: window_bits is {bits} (10 to 12), grace_ms and skew_ms are {grace_ms} and {skew_ms} \
                 (together at most half a window)"
            ))
        })?;
        if let Some(names) = raw.suites {
            config.suites.clear();
            for name in names {
                config.suites.extend(self.parsed(Some(name), parse_suite)?);
            }
        }
        let schemes = self.parsed(raw.reference_schemes, |text| match text {
            "refused" => Ok(ReferenceSchemes::Refused),
            "bit-chain" => Ok(ReferenceSchemes::BitChain),
            "bit-chain-and-xor" => Ok(ReferenceSchemes::BitChainAndXor),
            text => Err(format!(
                "reference_schemes is `{text}`; give refused, bit-chain or bit-chain-and-xor"
            )),
        })?;
        config.reference_schemes = schemes.unwrap_or_default();
        if let Some(raw) = raw.packets_per_s {
            if !PACKETS_PER_S.contains(raw.get_ref()) {
                let (low, high) = (PACKETS_PER_S.start(), PACKETS_PER_S.end());
                return Err(self.wrong(raw, format!("packets_per_s is not {low} to {high}")));
            }
            config.packets_per_s = *raw.get_ref();
        }
        Ok(config)
    }

    fn packet_io(&self, flags: &WaypointArguments) -> Outcome<PacketIoChoice> {
        let raw = &self.raw.waypoint;
        let io = match flags.io {
            Some(io) => Some(io),
            None => self.parsed(raw.io.as_ref(), |text| {
                WaypointIoArgument::from_str(text, false)
                    .map_err(|_| format!("io is `{text}`; give auto, raw, tun or xdp"))
            })?,
        };
        let mut interfaces = flags.interface.clone();
        if interfaces.is_empty() {
            interfaces = raw.interfaces.clone().unwrap_or_default();
        }
        match (io.unwrap_or(WaypointIoArgument::Auto), interfaces.len()) {
            (WaypointIoArgument::Raw, 0) => Ok(PacketIoChoice::Raw),
            (WaypointIoArgument::Raw, _) => Err(Failure::setup_text(
                "raw sockets work on all interfaces; --interface goes with --io xdp, auto or tun",
            )),
            (WaypointIoArgument::Tun, 0) => Ok(PacketIoChoice::Tun(DEFAULT_TUN.to_owned())),
            (WaypointIoArgument::Tun, 1) => Ok(PacketIoChoice::Tun(interfaces.remove(0))),
            (WaypointIoArgument::Tun, _) => {
                Err(Failure::setup_text("there is one TUN device; give one --interface, its name"))
            }
            (WaypointIoArgument::Xdp, 0) => Err(Failure::setup_text(
                "AF_XDP works on the interfaces that it is told; give --interface NAME",
            )),
            (WaypointIoArgument::Auto, 0) => Ok(PacketIoChoice::Raw),
            (io, _) => {
                let zero_copy_only = io == WaypointIoArgument::Auto;
                Ok(PacketIoChoice::Xdp { interfaces, zero_copy_only })
            }
        }
    }

    pub(super) fn follow(
        &self,
        (server, zone, key): (Option<&Spanned<String>>, Option<&String>, Option<&PathBuf>),
        kept: Option<&PathBuf>,
        section: &str,
    ) -> Outcome<Option<FollowSettings>> {
        let server = self.parsed(server, parse_address)?;
        match (server, zone, key) {
            (None, None, None) if kept.is_none() => Ok(None),
            (Some(server), Some(zone), Some(key)) => {
                let (zone, key, kept) = (zone.clone(), key.clone(), kept.cloned());
                Ok(Some(FollowSettings { server, zone, key, kept }))
            }
            _ => Err(Failure::setup_text(format!(
                "revocations need all of key_server, zone and key (a TSIG key file) in [{section}]"
            ))),
        }
    }

    pub(super) fn wrong<T>(&self, raw: &Spanned<T>, problem: String) -> Failure {
        refuse(&self.path, &Fault { line: line_at(&self.text, Some(&raw.span())), problem })
    }
}

fn parse_ip(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| format!("`{text}` is not an IP address"))
}

fn parse_suite(text: &str) -> Result<Suite, String> {
    Suite::from_str(text).map_err(|_| {
        let names: Vec<&str> = Suite::ALL.into_iter().map(Suite::name).collect();
        format!("there is no suite `{text}`; give {}", names.join(", "))
    })
}

/// As long as a sender may take to notice that a window has ended.
const DEFAULT_GRACE_MS: u32 = 10_000;
/// A sender's clock may be ahead by this much.
const DEFAULT_SKEW_MS: u32 = 5_000;
/// Below, the replay filter refuses an honest burst;
/// above, it takes more memory than machines have.
const PACKETS_PER_S: std::ops::RangeInclusive<u32> = 1_000..=100_000_000;
/// The first name that is free.
const DEFAULT_TUN: &str = "rhumb%d";

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Result<WaypointSettings, String> {
        let raw = super::super::raw::parse(text).unwrap();
        let file = ConfigFile { path: "test.toml".into(), text: text.to_owned(), raw };
        file.waypoint(&WaypointArguments::default()).map_err(|error| error.to_string())
    }

    const LEAST: &str = "[waypoint]\naddresses = [\"192.0.2.1\"]\nmaster = [\"m\"]\n";

    #[test]
    fn what_is_not_said_is_as_the_verifier_has_it() {
        let settings = settings(LEAST).unwrap();
        let default = VerifierConfig::new(settings.verifier.addresses.clone());
        assert_eq!(settings.verifier.clock, default.clock);
        assert_eq!((settings.verifier.port, settings.udp), (PLATYPUS_PORT, true));
        assert_eq!((settings.io, settings.workers), (PacketIoChoice::Raw, 1));
        assert_eq!(settings.verifier.reference_schemes, ReferenceSchemes::Refused);
        assert!(settings.follow.is_none() && settings.period == Period::Day);
    }

    #[test]
    fn wrong_values_are_named_with_their_lines() {
        for (text, expected) in [
            ("io = \"dpdk\"", "line 4: io is `dpdk`; give auto, raw, tun or xdp"),
            ("io = \"xdp\"", "give --interface NAME"),
            ("io = \"raw\"\ninterfaces = [\"eth0\"]", "--interface goes with"),
            ("workers = 9", "line 4: workers is not 1 to 8"),
            ("window_bits = 9", "window_bits is 9 (10 to 12)"),
            ("grace_ms = 2000000", "together at most half a window"),
            (
                "suites = [\"rot13\"]",
                "line 4: there is no suite `rot13`; give header-aes, header-sip",
            ),
            ("reference_schemes = \"xor\"", "line 4: reference_schemes is `xor`"),
            ("packets_per_s = 5", "line 4: packets_per_s is not 1000 to 100000000"),
            ("period = \"week\"", "line 4: period is `week`; give hour, day or month"),
            ("zone = \"_k.example\"", "all of key_server, zone and key"),
            ("revocations = \"r\"", "all of key_server, zone and key"),
            ("admin = \"192.0.2.1:9\"", "loopback"),
        ] {
            let refused = settings(&format!("{LEAST}{text}\n")).unwrap_err();
            assert!(refused.contains(expected), "{text}: {refused}");
        }
        assert!(settings("[waypoint]\nmaster = [\"m\"]").unwrap_err().contains("--address IP"));
        assert!(settings("[waypoint]").unwrap_err().contains("--master FILE"));
        let refused = settings("[waypoint]\nmaster = [\"m\"]\naddresses = [\"here\"]").unwrap_err();
        assert!(refused.contains("line 3: `here` is not an IP address"), "{refused}");
    }
}
