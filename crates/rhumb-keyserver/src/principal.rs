//! Text files of the operator and of principals: what
//! `rhumb capability` makes, and the daemons read.
//!
//! A principal's, which the operator hands over once:
//!
//! ```text
//! rhumb-principal 1
//! principal 42
//! zone _k.example.net
//! key <64 digits of hex>
//! waypoint 192.0.2.1 11 10000 5000
//! ```
//!
//! A waypoint's line has its address, its window bits, grace and skew in ms; there are one to 64.
//! The operator's book of principals, one a line, and a waypoint's master key of one epoch:
//!
//! ```text
//! rhumb-principals 1                        rhumb-master 1
//! 42 <64 digits of hex>                     waypoint 192.0.2.1
//! 43 <64 digits of hex>                     epoch 1
//!                                           key <32 digits of hex>
//! ```
//!
//! All three hold secrets and have mode 0600. Lines that begin with `#` are for people.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use rhumb_capability::{Epoch, EpochKeys, Master, Principal, WindowClock};
use zeroize::Zeroizing;

use crate::record::SharedKey;
use crate::zone::Zone;

/// What a principal has from its operator.
#[derive(Debug)]
pub struct PrincipalFile {
    principal: Principal,
    zone: Zone,
    key: SharedKey,
    waypoints: Vec<KnownWaypoint>,
}

/// A waypoint, as far as its principals have to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownWaypoint {
    /// Its address.
    pub address: IpAddr,
    /// How it divides time.
    pub clock: WindowClock,
    /// For how long after its end a window is taken, in milliseconds.
    pub grace_ms: u32,
    /// For how long before its start, in milliseconds.
    pub skew_ms: u32,
}

/// A line that is not as it has to be, from 1; 0 where a file ends too early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineFault(pub usize);

impl KnownWaypoint {
    /// A waypoint with windows of `2^bits` seconds; `None` when no waypoint divides time so.
    #[must_use]
    pub fn new(address: IpAddr, bits: u8, grace_ms: u32, skew_ms: u32) -> Option<Self> {
        let clock = WindowClock::new(bits, grace_ms, skew_ms).ok()?;
        Some(Self { address, clock, grace_ms, skew_ms })
    }
}

impl PrincipalFile {
    /// A file for `principal`. `None` without a waypoint, with too many, or with one twice.
    #[must_use]
    pub fn new(
        principal: Principal,
        zone: &str,
        key: SharedKey,
        waypoints: Vec<KnownWaypoint>,
    ) -> Option<Self> {
        let zone = Zone::elsewhere(zone).ok()?;
        let twice = (1..waypoints.len())
            .any(|at| waypoints[..at].iter().any(|before| before.address == waypoints[at].address));
        let fits = (1..=MAX_WAYPOINTS).contains(&waypoints.len()) && !twice;
        fits.then_some(Self { principal, zone, key, waypoints })
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// The first line that is not as it has to be.
    pub fn parse(text: &str) -> Result<Self, LineFault> {
        let mut lines = Lines::new(text, "rhumb-principal 1")?;
        let principal = Principal(lines.field("principal")?);
        let zone = lines.word("zone")?;
        let key = lines.word("key")?;
        let key = SharedKey::new(*hex(key).ok_or(lines.fault())?);
        let mut waypoints = Vec::new();
        while let Some(line) = lines.next() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let ["waypoint", address, bits, grace_ms, skew_ms] = words[..] else {
                return Err(lines.fault());
            };
            let waypoint = (|| {
                let (grace_ms, skew_ms) = (grace_ms.parse().ok()?, skew_ms.parse().ok()?);
                KnownWaypoint::new(address.parse().ok()?, bits.parse().ok()?, grace_ms, skew_ms)
            })();
            waypoints.push(waypoint.ok_or(lines.fault())?);
        }
        Self::new(principal, zone, key, waypoints).ok_or(lines.fault())
    }

    /// The text of a file.
    #[must_use]
    pub fn to_text(&self) -> Zeroizing<String> {
        let key = to_hex(self.key.expose());
        let mut text = Zeroizing::new(format!(
            "rhumb-principal 1\nprincipal {}\nzone {}\nkey {}\n",
            self.principal.0,
            self.zone.text(),
            *key
        ));
        for KnownWaypoint { address, clock, grace_ms, skew_ms } in &self.waypoints {
            let _ = writeln!(text, "waypoint {address} {} {grace_ms} {skew_ms}", clock.bits());
        }
        text
    }

    /// Whose file.
    #[must_use]
    pub fn principal(&self) -> Principal {
        self.principal
    }

    /// Where its keys are.
    #[must_use]
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// What opens them.
    #[must_use]
    pub fn key(&self) -> &SharedKey {
        &self.key
    }

    /// Where it may pass.
    #[must_use]
    pub fn waypoints(&self) -> &[KnownWaypoint] {
        &self.waypoints
    }
}

/// Reads the operator's book of principals.
///
/// # Errors
/// The first line that is not as it has to be, or names a principal again.
pub fn parse_principals(text: &str) -> Result<HashMap<Principal, SharedKey>, LineFault> {
    let mut lines = Lines::new(text, PRINCIPALS_HEAD)?;
    let mut principals = HashMap::new();
    while let Some(line) = lines.next() {
        let (number, key) = line.split_once(' ').ok_or(lines.fault())?;
        let number = number.parse().map_err(|_| lines.fault())?;
        let key = SharedKey::new(*hex(key).ok_or(lines.fault())?);
        if principals.insert(Principal(number), key).is_some() {
            return Err(lines.fault());
        }
    }
    Ok(principals)
}

/// A line of the operator's book.
#[must_use]
pub fn principal_line(principal: Principal, key: &SharedKey) -> Zeroizing<String> {
    Zeroizing::new(format!("{} {}\n", principal.0, *to_hex(key.expose())))
}

/// The first line of the operator's book.
pub const PRINCIPALS_HEAD: &str = "rhumb-principals 1";

/// Reads a waypoint's master key.
///
/// # Errors
/// The first line that is not as it has to be.
pub fn parse_master(text: &str) -> Result<(IpAddr, EpochKeys), LineFault> {
    let (waypoint, epoch, master) = master_parts(text)?;
    Ok((waypoint, EpochKeys::new(epoch, &master)))
}

/// Which waypoint and epoch a file of a master key is for.
///
/// # Errors
/// As [`parse_master`].
pub fn parse_master_head(text: &str) -> Result<(IpAddr, Epoch), LineFault> {
    master_parts(text).map(|(waypoint, epoch, _)| (waypoint, epoch))
}

fn master_parts(text: &str) -> Result<(IpAddr, Epoch, Master), LineFault> {
    let mut lines = Lines::new(text, "rhumb-master 1")?;
    let waypoint = lines.field("waypoint")?;
    let epoch = Epoch(lines.field("epoch")?);
    let key = lines.word("key")?;
    let master = Master::new(*hex(key).ok_or(lines.fault())?);
    match lines.next() {
        None => Ok((waypoint, epoch, master)),
        Some(_) => Err(lines.fault()),
    }
}

/// The text of a file of a master key.
#[must_use]
pub fn master_text(waypoint: IpAddr, epoch: Epoch, master: &Master) -> Zeroizing<String> {
    let key = to_hex(master.expose());
    Zeroizing::new(format!(
        "rhumb-master 1\nwaypoint {waypoint}\nepoch {}\nkey {}\n",
        epoch.0, *key
    ))
}

fn to_hex(bytes: &[u8]) -> Zeroizing<String> {
    Zeroizing::new(HEXLOWER.encode(bytes))
}

fn hex<const N: usize>(text: &str) -> Option<Zeroizing<[u8; N]>> {
    let mut bytes = Zeroizing::new([0; N]);
    let len = HEXLOWER.decode_len(text.len()).ok().filter(|len| *len == N)?;
    let decoded = HEXLOWER.decode_mut(text.as_bytes(), &mut bytes[..len]).ok()?;
    (decoded == N).then_some(bytes)
}

/// Lines that are not for people alone.
struct Lines<'a> {
    lines: std::iter::Enumerate<std::str::Lines<'a>>,
    number: usize,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str, head: &str) -> Result<Self, LineFault> {
        let mut lines = Self { lines: text.lines().enumerate(), number: 0 };
        match lines.next() {
            Some(line) if line == head => Ok(lines),
            _ => Err(lines.fault()),
        }
    }

    fn next(&mut self) -> Option<&'a str> {
        let is_meant = |line: &&str| !(line.trim().is_empty() || line.starts_with('#'));
        let (index, line) = self.lines.find(|(_, line)| is_meant(line)).or_else(|| {
            self.number = 0;
            None
        })?;
        self.number = index + 1;
        Some(line.trim_end())
    }

    fn fault(&self) -> LineFault {
        LineFault(self.number)
    }

    fn word(&mut self, key: &str) -> Result<&'a str, LineFault> {
        let line = self.next().ok_or(LineFault(0))?;
        let value = line.strip_prefix(key).and_then(|rest| rest.strip_prefix(' '));
        value.map(str::trim).ok_or(self.fault())
    }

    fn field<T: FromStr>(&mut self, key: &str) -> Result<T, LineFault> {
        self.word(key)?.parse().map_err(|_| self.fault())
    }
}

impl std::fmt::Display for LineFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            0 => f.write_str("it ends too early"),
            line => write!(f, "line {line} is not as it has to be"),
        }
    }
}

impl std::error::Error for LineFault {}

/// More than a packet can name, and a plausible number of places to pass.
pub const MAX_WAYPOINTS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> PrincipalFile {
        let waypoint = |address: &str| {
            KnownWaypoint::new(address.parse().unwrap(), 11, 10_000, 5_000).unwrap()
        };
        let waypoints = vec![waypoint("192.0.2.1"), waypoint("2001:db8::1")];
        let key = SharedKey::new([7; 32]);
        PrincipalFile::new(Principal(42), "_k.Example.net.", key, waypoints).unwrap()
    }

    #[test]
    fn files_read_back() {
        let text = example().to_text();
        let again = PrincipalFile::parse(&text).unwrap();
        assert_eq!(again.to_text(), text);
        assert_eq!(again.zone().text(), "_k.example.net");
        let commented = text.replacen('\n', "\n# for people\n\n", 1);
        assert_eq!(PrincipalFile::parse(&commented).unwrap().to_text(), text);
        assert!(!format!("{again:?}").contains("0707"));

        let book = format!(
            "{PRINCIPALS_HEAD}\n{}{}",
            *principal_line(Principal(1), &SharedKey::new([1; 32])),
            *principal_line(Principal(2), &SharedKey::new([2; 32]))
        );
        let principals = parse_principals(&book).unwrap();
        assert_eq!(principals[&Principal(2)].expose(), &[2; 32]);
        let again = book.clone() + "2 " + &"03".repeat(32) + "\n";
        assert_eq!(parse_principals(&again).unwrap_err(), LineFault(4));

        let waypoint = "192.0.2.1".parse().unwrap();
        let text = master_text(waypoint, Epoch(3), &Master::new([5; 16]));
        assert_eq!(parse_master_head(&text), Ok((waypoint, Epoch(3))));
        assert_eq!(parse_master(&text).unwrap().1.epoch(), Epoch(3));
    }

    #[test]
    fn a_wrong_line_is_named() {
        let text = example().to_text();
        for (from, to, line) in [
            ("rhumb-principal 1", "rhumb-principal 2", 1),
            ("principal 42", "principal x", 2),
            ("zone _k", "zoo _k", 3),
            ("key 07", "key 7", 4),
            ("key 07", "key 0g", 4),
            ("192.0.2.1 11", "192.0.2.1 9", 5),
            ("192.0.2.1", "192.0.2", 5),
            ("waypoint 2001:db8::1 11 10000 5000\n", "waypoint 2001:db8::1 11 10000\n", 6),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_eq!(PrincipalFile::parse(&changed).unwrap_err(), LineFault(line), "{to}");
        }
        assert!(PrincipalFile::parse(&text.replacen("2001:db8::1", "192.0.2.1", 1)).is_err());
        for zone in [".", r"net\.", r"a\034b.net", r"net\032"] {
            let changed = text.replacen("_k.example.net", zone, 1);
            assert!(PrincipalFile::parse(&changed).is_err(), "{zone}");
        }
        let head: String = text.lines().take(3).map(|line| line.to_owned() + "\n").collect();
        assert_eq!(PrincipalFile::parse(&head).unwrap_err(), LineFault(0));
    }
}
