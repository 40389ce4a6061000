//! The zone's own records, and what a name in it is.

use std::net::IpAddr;

use domain::base::iana::Class;
use domain::base::name::{Label, ToName};
use domain::base::{Name, Record, Serial, Ttl};
use domain::rdata::{A, Aaaa, Ns, Soa, Txt, ZoneRecordData};

use crate::question::KeyQuestion;
use crate::reply::Entry;
use crate::update::parse_number;

/// A domain name, absolute.
pub type DomainName = Name<Vec<u8>>;

/// What a zone is and where it is served.
#[derive(Debug, Clone)]
pub struct Zone {
    apex: DomainName,
    /// The apex in lower case, without the last dot.
    text: String,
    name_servers: Vec<DomainName>,
    addresses: Vec<IpAddr>,
}

/// Why a zone is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ZoneError {
    /// No domain name, the root, or one with escapes in its text.
    #[error("`{0}` is no domain name that a zone can have")]
    Name(String),
    /// So long that labels do not fit.
    #[error("`{0}` leaves no room for labels; a zone has {MAX_APEX_LEN} bytes at most")]
    TooLong(String),
    /// A name server within the zone needs addresses.
    #[error("`{0}` is in the zone itself; say at which addresses it is")]
    NoAddress(String),
}

/// What a name of the zone is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Not in this zone.
    Outside,
    /// The zone's own name.
    Apex,
    /// A name server in the zone.
    NameServer,
    /// Where a key may be.
    Key(KeyQuestion),
    /// The words after a serial; held until there are some.
    After(u32),
    /// The words after a serial, now.
    Since(u32),
    /// Which waypoints have a serial; held until all have.
    Everywhere(u32),
    /// Nothing that there is.
    Nothing,
}

impl Zone {
    /// The zone `apex`, which these servers serve. Without any it
    /// is `ns` in the zone itself, at `addresses`.
    ///
    /// # Errors
    /// As [`ZoneError`] says.
    pub fn new(
        apex: &str,
        name_servers: &[String],
        addresses: Vec<IpAddr>,
    ) -> Result<Self, ZoneError> {
        let apex = parse_name(apex)?;
        if apex.len() > MAX_APEX_LEN {
            return Err(ZoneError::TooLong(apex.to_string()));
        }
        let mut servers = Vec::new();
        for name in name_servers {
            servers.push(parse_name(name)?);
        }
        if servers.is_empty() {
            servers.push(parse_name(&format!("{DEFAULT_SERVER}.{apex}"))?);
        }
        let inside = servers.iter().find(|name| name.ends_with(&apex));
        if let (Some(name), true) = (inside, addresses.is_empty()) {
            return Err(ZoneError::NoAddress(name.to_string()));
        }
        let text = apex.to_string().to_ascii_lowercase();
        Ok(Self { text, apex, name_servers: servers, addresses })
    }

    /// A zone that somebody else serves.
    ///
    /// # Errors
    /// As [`ZoneError`] says.
    pub fn elsewhere(apex: &str) -> Result<Self, ZoneError> {
        Self::new(apex, &["invalid".to_owned()], Vec::new())
    }

    /// The zone's own name.
    #[must_use]
    pub fn apex(&self) -> &DomainName {
        &self.apex
    }

    /// The zone's own name as text, in lower case and without the last dot.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The name that a record of this label is sealed for: lower case, no dot at its end.
    #[must_use]
    pub fn query_name(&self, label: &str) -> String {
        format!("{}.{}", label.to_ascii_lowercase(), self.text)
    }

    /// What `name` is.
    pub(crate) fn place(&self, name: &DomainName) -> Place {
        if !name.ends_with(&self.apex) {
            return Place::Outside;
        }
        if self.is_server(name) && *name != self.apex {
            return Place::NameServer;
        }
        let own = name.label_count() - self.apex.label_count();
        let labels: Vec<&[u8]> = name.iter().take(own).map(AsRef::as_ref).collect();
        match labels[..] {
            [] => Place::Apex,
            [label] => KeyQuestion::parse(label).map_or(Place::Nothing, Place::Key),
            [serial, verb] => {
                let place = match std::str::from_utf8(verb).map(str::to_ascii_lowercase).as_deref()
                {
                    Ok(AFTER) => Place::After,
                    Ok(SINCE) => Place::Since,
                    Ok(EVERYWHERE) => Place::Everywhere,
                    _ => return Place::Nothing,
                };
                parse_number(serial).map_or(Place::Nothing, place)
            }
            _ => Place::Nothing,
        }
    }

    fn is_server(&self, name: &DomainName) -> bool {
        self.name_servers.iter().any(|server| server.name_eq(name))
    }

    /// The record that begins the zone; its serial is that of the newest revocation.
    pub(crate) fn soa(&self, serial: u32) -> Entry {
        let mailbox =
            parse_name(&format!("{MAILBOX}.{}", self.apex)).unwrap_or_else(|_| self.apex.clone());
        let soa = Soa::new(
            self.name_servers[0].clone(),
            mailbox,
            Serial(serial),
            Ttl::from_secs(REFRESH_S),
            Ttl::from_secs(RETRY_S),
            Ttl::from_secs(EXPIRE_S),
            Ttl::from_secs(NEGATIVE_TTL_S),
        );
        // A negative answer is kept for the lesser of the
        // record's own TTL and its minimum (RFC 2308).
        entry(self.apex.clone(), NEGATIVE_TTL_S, ZoneRecordData::Soa(soa))
    }

    /// Who serves the zone.
    pub(crate) fn servers(&self) -> Vec<Entry> {
        let record = |server: &DomainName| {
            entry(self.apex.clone(), SERVER_TTL_S, ZoneRecordData::Ns(Ns::new(server.clone())))
        };
        self.name_servers.iter().map(record).collect()
    }

    /// The addresses of the servers that are in the zone.
    pub(crate) fn glue(&self) -> Vec<Entry> {
        let inside = self.name_servers.iter().filter(|server| server.ends_with(&self.apex));
        inside.flat_map(|server| self.addresses_of(server)).collect()
    }

    /// The addresses of one server of the zone.
    pub(crate) fn addresses_of(&self, server: &DomainName) -> Vec<Entry> {
        let record = |address: &IpAddr| {
            let data = match address {
                IpAddr::V4(v4) => ZoneRecordData::A(A::new(*v4)),
                IpAddr::V6(v6) => ZoneRecordData::Aaaa(Aaaa::new(*v6)),
            };
            entry(server.clone(), SERVER_TTL_S, data)
        };
        self.addresses.iter().map(record).collect()
    }

    /// A name of the zone.
    pub(crate) fn name(&self, labels: &str) -> DomainName {
        parse_name(&format!("{labels}.{}", self.apex))
            .expect("invariant: an apex leaves room for labels")
    }
}

/// A record of class IN.
pub(crate) fn entry(
    owner: DomainName,
    ttl_s: u32,
    data: ZoneRecordData<Vec<u8>, DomainName>,
) -> Entry {
    Record::new(owner, Class::IN, Ttl::from_secs(ttl_s), data)
}

/// A TXT record of one string.
pub(crate) fn text_entry(owner: DomainName, ttl_s: u32, text: &[u8]) -> Entry {
    let text = Txt::build_from_slice(text).expect("invariant: what we say is short");
    entry(owner, ttl_s, ZoneRecordData::Txt(text))
}

fn parse_name(text: &str) -> Result<DomainName, ZoneError> {
    plain_name(text).ok_or_else(|| ZoneError::Name(text.to_owned()))
}

/// A domain name that is not the root, and that files of keys can hold: in words and in quotes a
/// name stands as it is displayed, so it has none of the bytes that are displayed escaped.
pub(crate) fn plain_name(text: &str) -> Option<DomainName> {
    let name = Name::<Vec<u8>>::vec_from_str(text).ok()?;
    let mut bytes = name.iter().flat_map(Label::iter);
    let plain = bytes.all(|byte| byte.is_ascii_graphic() && !br#"."\"#.contains(&byte));
    (plain && !name.is_root()).then_some(name)
}

/// A name has 255 bytes at most; the longest label of ours takes 41, and those of revocations less.
const MAX_APEX_LEN: usize = 200;
const DEFAULT_SERVER: &str = "ns";
const MAILBOX: &str = "hostmaster";
pub(crate) const AFTER: &str = "after";
pub(crate) const SINCE: &str = "since";
pub(crate) const EVERYWHERE: &str = "everywhere";
/// Whoever is given a principal's number today asks today: an
/// old "there is none" must not outlive a coffee.
pub(crate) const NEGATIVE_TTL_S: u32 = 10;
/// Servers move seldom.
const SERVER_TTL_S: u32 = 3600;
/// These three are for secondaries, of which there are none.
const REFRESH_S: u32 = 3600;
const RETRY_S: u32 = 600;
const EXPIRE_S: u32 = 86_400;
