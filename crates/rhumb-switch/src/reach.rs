//! Where the locators of routes may make us connect to, and how
//! much may go there before anybody has answered.
//!
//! Anybody can publish any address. So what is loopback, private or link-local is refused,
//! unless this router is itself at such an address or the configuration says so. An
//! address that has not answered yet is sent one datagram for each attempt, if whoever
//! asks has sent at least as much to us, and not more than a few a second for whoever is
//! at that address, however many routes name it.
//!
//! INVARIANT: bytes towards addresses that have not answered are never
//! more than what those who caused them have sent.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::time::{Duration, Instant};

use rhumb_directory::Table;
use rhumb_link::{Rate, Source, TokenBuckets};

use crate::Config;

/// Where we may connect to because a route says so.
pub(crate) struct Reach {
    own: Vec<Kind>,
    allowed: Vec<Network>,
    /// Addresses from which a handshake was completed, and until when that counts.
    proven: Table<SocketAddr, Instant>,
    targets: TokenBuckets,
    /// The longest first datagram of an attempt so far.
    hello_len: u32,
}

/// Addresses that locators may name though they are of no public kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix_len: u8,
}

/// Of what use an address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Public,
    Loopback,
    /// RFC 1918, RFC 6598, RFC 4193.
    Private,
    LinkLocal,
    /// Multicast, and what is nobody's.
    Nobodys,
}

/// How an attempt may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// As long as it takes.
    Whole,
    /// By one datagram, until there is an answer.
    Once,
}

/// Why none may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoWay {
    /// For an address of this kind never.
    Refused,
    /// Now; too much was sent there, or too little by who asks.
    NotNow,
}

impl Reach {
    pub(crate) fn new(config: &Config, now: Instant) -> Self {
        let reached_at = config.locator.map(|locator| vec![locator]);
        let own = reached_at.unwrap_or_else(|| {
            let others = config.ribs.iter().chain(&config.upstreams);
            others.map(|remote| remote.address).collect()
        });
        Self {
            own: own.into_iter().map(|address| Kind::of(address.ip())).collect(),
            allowed: config.locators.clone(),
            proven: Table::new(MAX_PROVEN),
            targets: TokenBuckets::new(TO_A_TARGET, now),
            hello_len: ASSUMED_HELLO_LEN,
        }
    }

    /// How an attempt may be made at `address`, of which `credit` is what whoever
    /// asks has sent and not used; that is taken.
    pub(crate) fn may_connect(
        &mut self,
        address: SocketAddr,
        credit: &mut u32,
        now: Instant,
    ) -> Result<Way, NoWay> {
        if !self.permits(address.ip()) {
            return Err(NoWay::Refused);
        }
        if self.proven.current(&address, now).is_some() {
            return Ok(Way::Whole);
        }
        let may = *credit >= self.hello_len && self.targets.take(Source::of(address), 1, now);
        if !may {
            return Err(NoWay::NotNow);
        }
        *credit -= self.hello_len;
        Ok(Way::Once)
    }

    /// An attempt began with a datagram of this length.
    pub(crate) fn note_hello(&mut self, len: usize) {
        self.hello_len = u32::try_from(len).unwrap_or(u32::MAX).max(1);
    }

    /// A handshake that we began at this address was completed.
    pub(crate) fn note_answer(&mut self, address: SocketAddr, now: Instant) {
        self.proven.insert(address, now + PROVEN_FOR);
    }

    fn permits(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        match Kind::of(ip) {
            Kind::Public => true,
            Kind::Nobodys => false,
            kind => self.own.contains(&kind) || self.allowed.iter().any(|it| it.contains(ip)),
        }
    }
}

impl Kind {
    fn of(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(ip) => Self::of_v4(ip),
            IpAddr::V6(ip) => Self::of_v6(ip),
        }
    }

    fn of_v4(ip: Ipv4Addr) -> Self {
        let [a, b, ..] = ip.octets();
        match ip {
            _ if ip.is_loopback() => Self::Loopback,
            _ if ip.is_private() || (a == 100 && b & 0xC0 == 64) => Self::Private,
            _ if ip.is_link_local() => Self::LinkLocal,
            _ if a == 0 || a >= 224 => Self::Nobodys,
            _ => Self::Public,
        }
    }

    fn of_v6(ip: Ipv6Addr) -> Self {
        match ip {
            _ if ip.is_loopback() => Self::Loopback,
            _ if ip.is_unique_local() => Self::Private,
            _ if ip.is_unicast_link_local() => Self::LinkLocal,
            _ if ip.is_multicast() || ip.is_unspecified() => Self::Nobodys,
            _ => Self::Public,
        }
    }
}

impl Network {
    fn contains(&self, ip: IpAddr) -> bool {
        match (self.address, ip) {
            (IpAddr::V4(own), IpAddr::V4(ip)) => {
                let differ = u32::from(own) ^ u32::from(ip);
                differ.checked_shr(32 - u32::from(self.prefix_len)).unwrap_or(0) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(ip)) => {
                let differ = u128::from(own) ^ u128::from(ip);
                differ.checked_shr(128 - u32::from(self.prefix_len)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

/// A text is no network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected a network as in 10.0.0.0/8, or one address")]
pub struct NotANetwork;

impl FromStr for Network {
    type Err = NotANetwork;

    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        let (address, prefix_len) = match text.split_once('/') {
            Some((address, len)) => (address, Some(len.parse().map_err(|_| NotANetwork)?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NotANetwork)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix_len = prefix_len.unwrap_or(most);
        if prefix_len > most {
            return Err(NotANetwork);
        }
        Ok(Self { address, prefix_len })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_len)
    }
}

/// Whoever has made a handshake with us has sent two hellos and its certificate: more than this.
pub(crate) const CREDIT_OF_A_HANDSHAKE: u32 = 2 * ASSUMED_HELLO_LEN;
/// Of who sends much and asks little, so that what it causes comes evenly.
pub(crate) const MAX_CREDIT: u32 = 16 * ASSUMED_HELLO_LEN;
/// Before the first attempt: no first datagram is longer.
const ASSUMED_HELLO_LEN: u32 = 300;
/// Attempts at addresses that have not answered, for each host that they
/// may be of. A few routers may be at one address.
const TO_A_TARGET: Rate = Rate { per_s: 1, burst: 8 };
/// Whoever got an address by chance gets rid of its past in time.
const PROVEN_FOR: Duration = Duration::from_secs(3600);
const MAX_PROVEN: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[expect(clippy::disallowed_methods, reason = "a test's clock begins somewhere")]
    fn reach(locator: Option<&str>, allowed: &[&str]) -> Reach {
        let config = Config {
            locator: locator.map(|it| it.parse().unwrap()),
            locators: allowed.iter().map(|it| it.parse().unwrap()).collect(),
            ..Config::default()
        };
        Reach::new(&config, Instant::now())
    }

    const OF_KINDS: [&str; 5] =
        ["203.0.113.9", "127.0.0.1", "10.1.2.3", "169.254.0.1", "224.0.0.1"];

    fn permitted(reach: &Reach) -> [bool; 5] {
        OF_KINDS.map(|text| reach.permits(ip(text)))
    }

    #[test]
    fn only_what_is_of_our_own_kind_or_allowed_is_dialled_besides_what_is_public() {
        assert_eq!(permitted(&reach(None, &[])), [true, false, false, false, false]);
        let loopback = reach(Some("127.0.0.1:9"), &[]);
        assert_eq!(permitted(&loopback), [true, true, false, false, false]);
        let private = reach(Some("192.168.7.1:9"), &[]);
        assert_eq!(permitted(&private), [true, false, true, false, false]);
        let allowed = reach(Some("203.0.113.1:9"), &["10.0.0.0/8", "169.254.0.1", "224.0.0.0/4"]);
        assert_eq!(permitted(&allowed), [true, false, true, true, false]);
        for (text, is_private) in [
            ("172.16.0.1", true),
            ("172.32.0.1", false),
            ("100.64.0.1", true),
            ("100.128.0.1", false),
        ] {
            assert_eq!(Kind::of(ip(text)) == Kind::Private, is_private, "{text}");
        }
        for (text, kind) in [
            ("::1", Kind::Loopback),
            ("::ffff:127.0.0.1", Kind::Loopback),
            ("fd00::1", Kind::Private),
            ("fe80::1", Kind::LinkLocal),
            ("ff02::1", Kind::Nobodys),
            ("2001:db8::1", Kind::Public),
        ] {
            assert_eq!(Kind::of(ip(text)), kind, "{text}");
        }
    }

    #[test]
    fn networks_are_read_as_they_are_written() {
        for text in ["10.0.0.0/8", "0.0.0.0/0", "fd00::/8", "::/0", "127.0.0.1/32"] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), text);
        }
        for text in ["", "10.0.0.0/33", "fd00::/129", "10.0.0.0/", "10.0/8", "ten/8"] {
            assert_eq!(text.parse::<Network>(), Err(NotANetwork), "{text}");
        }
        let all: Network = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains(ip("10.0.0.1")) && !all.contains(ip("fd00::1")));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test's clock begins somewhere")]
    fn no_more_goes_to_an_address_that_has_not_answered_than_was_sent_for_it() {
        let mut reach = reach(None, &[]);
        let now = Instant::now();
        reach.note_hello(300);
        let victim: SocketAddr = "203.0.113.9:53".parse().unwrap();
        let mut credit = 700;
        let tried: Vec<_> = (0..3).map(|_| reach.may_connect(victim, &mut credit, now)).collect();
        assert_eq!(tried, [Ok(Way::Once), Ok(Way::Once), Err(NoWay::NotNow)]);
        // Whoever has sent more still reaches one host so often only, by whatever port.
        let mut credit = 100_000;
        let tries = (0..100).filter(|port| {
            let victim = SocketAddr::from(([203, 0, 113, 9], *port));
            reach.may_connect(victim, &mut credit, now).is_ok()
        });
        assert_eq!(tries.count(), TO_A_TARGET.burst as usize - 2);
        reach.note_answer(victim, now);
        assert_eq!(reach.may_connect(victim, &mut 0, now), Ok(Way::Whole));
        assert_eq!(reach.may_connect(victim, &mut 0, now + PROVEN_FOR), Err(NoWay::NotNow));
    }
}
