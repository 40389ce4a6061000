//! An entry as bytes in a store.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 1 | version: 2, 3 with an export, or 4 with routes that are each one of several; and 3 more with published names |
//! | 1 | 8 | keep until, seconds since 1970 |
//! | 9 | 32 | publisher |
//! | 41 | 7 | whose share it counts on: 0 the admitted's; 4 or 6 a stranger's, then its IPv4 address or half its IPv6 address; zeros; and 16 more in the first byte for each of the next |
//! | 48 | 32 each | names on whose accounts it counts besides |
//! | .. | 2 | length of the metadata |
//! | .. | .. | metadata |
//! | .. | .. | registers: route, locator, withdrawal; in versions 3, 4, 6 and 7 export |
//! | .. | .. | in version 4 and 7: the highest sequence of several (8), how many there are (1), and each with its length (2) |
//! | .. | .. | from version 5 on: length (2) and list of published names |
//!
//! A register is a tag: 0 empty; 1 floor, then the sequence (8 bytes); 2 holds, then a
//! length (2 bytes) and a certificate. Version 1 has no share: its entries count as a
//! stranger's of 0.0.0.0. A name that was never exported has a record of version 2, as before there
//! were exports. Integers are big-endian. A store never holds anything that was not
//! verified, so bytes that do not parse are damage.

use rhumb_link::Source;
use rhumb_wire::rib::MAX_WAYS;
use rhumb_wire::{Certificate, Metadata, Name, PublishedNames, Role, Statement};

use crate::Entry;
use crate::entry::Register;
use crate::limits::{Givers, MAX_GIVERS};
use crate::share::{Footprint, Share, size_on_disk};
use crate::stepping::Stepping;

impl Entry {
    /// Bytes of the entry's record.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.encoded_len());
        let version = self.record_version();
        out.push(version + self.published.as_ref().map_or(0, |_| PUBLISHING));
        out.extend_from_slice(&self.keep_until_s.to_be_bytes());
        out.extend_from_slice(&self.publisher.0);
        encode_share(self.share, &self.givers, &mut out);
        out.extend_from_slice(&(self.metadata.emitted_len() as u16).to_be_bytes());
        self.metadata.emit_to(&mut out);
        for register in [&self.route, &self.locator, &self.withdrawal] {
            encode_register(register, &mut out);
        }
        if version >= WITH_EXPORT {
            encode_register(&self.export, &mut out);
        }
        if version == WITH_SEVERAL {
            out.extend_from_slice(&self.several_to.unwrap_or(0).to_be_bytes());
            out.push(self.several.len() as u8);
            self.several.iter().for_each(|held| encode_counted(held, &mut out));
        }
        if let Some(published) = &self.published {
            out.extend_from_slice(&(published.emitted_len() as u16).to_be_bytes());
            published.emit(&mut out);
        }
        out
    }

    /// How long [`Entry::encode`] is.
    pub(crate) fn encoded_len(&self) -> usize {
        let registers = [&self.route, &self.locator, &self.withdrawal];
        let of_register = |register: &Register| match register {
            Register::Empty => 1,
            Register::Floor(_) => 1 + 8,
            Register::Holds(certificate) => 1 + 2 + certificate.emitted_len(),
        };
        let version = self.record_version();
        let of_export = if version >= WITH_EXPORT { of_register(&self.export) } else { 0 };
        let each = self.several.iter().map(|held| 2 + held.emitted_len()).sum::<usize>();
        let of_several = if version == WITH_SEVERAL { 8 + 1 + each } else { 0 };
        let of_names = self.published.as_ref().map_or(0, |it| 2 + it.emitted_len());
        let registers = registers.map(of_register).iter().sum::<usize>() + of_export + of_several;
        let registers = registers + of_names;
        let givers = self.givers.iter().count() * Name::LEN;
        METADATA + givers + self.metadata.emitted_len() + registers
    }

    /// Without regard to published names.
    fn record_version(&self) -> u8 {
        match (self.several_to, &self.export) {
            (Some(_), _) => WITH_SEVERAL,
            (None, Register::Empty) => VERSION,
            (None, _) => WITH_EXPORT,
        }
    }

    /// Reads a record back; `None` when it is damaged.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (&version, rest) = bytes.split_first()?;
        let (version, publishes) = version_of(version);
        let (keep_until_s, rest) = rest.split_first_chunk()?;
        let (publisher, rest) = rest.split_first_chunk()?;
        let (share, givers, rest) = decode_share(version, rest)?;
        let (metadata, rest) = split_counted(rest)?;
        let (route, rest) = decode_register(rest)?;
        let (locator, rest) = decode_register(rest)?;
        let (withdrawal, rest) = decode_register(rest)?;
        let (export, rest) = match version {
            WITH_EXPORT | WITH_SEVERAL => decode_register(rest)?,
            _ => (Register::Empty, rest),
        };
        let (several_to, several, rest) = match version {
            WITH_SEVERAL => decode_several(rest)?,
            _ => (None, Vec::new(), rest),
        };
        let (published, rest) = match publishes {
            true => {
                let (published, rest) = split_counted(rest)?;
                (Some(PublishedNames::parse(published).ok()?.into()), rest)
            }
            false => (None, rest),
        };
        let is_export = |statement: &Statement| statement.exports_by().is_some();
        let kinds_fit = route.is_of(Statement::is_way)
            && export.is_of(is_export)
            && (export != Register::Empty || version != WITH_EXPORT)
            && several.iter().all(|held| held.statement.is_one_of_several())
            && locator.is_of(|statement| matches!(statement, Statement::Locator(_)))
            && withdrawal.is_of(|statement| matches!(statement, Statement::Withdrawal));
        (rest.is_empty() && kinds_fit).then_some(())?;
        Some(Self {
            metadata: Metadata::parse(metadata).ok()?,
            publisher: Name(*publisher),
            share,
            givers,
            keep_until_s: u64::from_be_bytes(*keep_until_s),
            route,
            several,
            several_to,
            locator,
            withdrawal,
            export,
            published,
            stepping: Stepping::default(),
        })
    }
}

impl Register {
    fn is_of(&self, kind: impl Fn(&Statement) -> bool) -> bool {
        match self {
            Self::Holds(certificate) => kind(&certificate.statement),
            _ => true,
        }
    }
}

/// What an encoded entry takes, without reading the rest.
pub(crate) fn footprint_of(bytes: &[u8]) -> Option<Footprint> {
    let publisher = bytes.get(PUBLISHER..)?.first_chunk().copied().map(Name)?;
    let (version, publishes) = version_of(*bytes.first()?);
    let (share, givers, rest) = decode_share(version, bytes.get(SHARE..)?)?;
    let (metadata, _) = split_counted(rest)?;
    let is_capsule = metadata.get(ROLE_IN_METADATA) == Some(&(Role::Capsule as u8));
    let is_kept_long = is_capsule || publishes;
    Some(Footprint { publisher, share, givers, is_kept_long, bytes: size_on_disk(bytes.len()) })
}

/// The version without regard to published names, and whether there are some.
fn version_of(version: u8) -> (u8, bool) {
    match version {
        5..=7 => (version - PUBLISHING, true),
        _ => (version, false),
    }
}

pub(crate) fn encode_share(share: Share, givers: &Givers, out: &mut Vec<u8>) {
    let mut encoded = share_bytes(share);
    encoded[0] |= (givers.iter().count() as u8) << GIVERS_SHIFT;
    out.extend_from_slice(&encoded);
    givers.iter().for_each(|giver| out.extend_from_slice(&giver.0));
}

fn share_bytes(share: Share) -> [u8; SHARE_LEN] {
    let mut out = [0; SHARE_LEN];
    match share {
        Share::Admitted => {}
        Share::Stranger(Source::V4(address)) => {
            out[0] = 4;
            out[1..5].copy_from_slice(&address);
        }
        Share::Stranger(Source::V6(site)) => {
            out[0] = 6;
            out[1..].copy_from_slice(&site);
        }
    }
    out
}

pub(crate) fn decode_share(version: u8, bytes: &[u8]) -> Option<(Share, Givers, &[u8])> {
    match version {
        1 => return Some((Share::Stranger(Source::V4([0; 4])), Givers::default(), bytes)),
        VERSION | WITH_EXPORT | WITH_SEVERAL => {}
        _ => return None,
    }
    let (encoded, rest) = bytes.split_first_chunk::<SHARE_LEN>()?;
    let mut encoded = *encoded;
    let count = usize::from(encoded[0] >> GIVERS_SHIFT);
    encoded[0] &= (1 << GIVERS_SHIFT) - 1;
    let (givers, rest) = rest.split_at_checked(count * Name::LEN)?;
    let (givers, []) = givers.as_chunks() else { return None };
    let [_, a, b, c, d, ..] = encoded;
    let share = match encoded[0] {
        0 => Share::Admitted,
        4 => Share::Stranger(Source::V4([a, b, c, d])),
        6 => Share::Stranger(Source::V6(*encoded[1..].first_chunk()?)),
        _ => return None,
    };
    let is_whole = count <= MAX_GIVERS && share_bytes(share) == encoded;
    is_whole.then(|| (share, Givers::new(givers.iter().copied().map(Name)), rest))
}

fn encode_register(register: &Register, out: &mut Vec<u8>) {
    match register {
        Register::Empty => out.push(0),
        Register::Floor(sequence) => {
            out.push(1);
            out.extend_from_slice(&sequence.to_be_bytes());
        }
        Register::Holds(certificate) => {
            out.push(2);
            encode_counted(certificate, out);
        }
    }
}

fn encode_counted(certificate: &Certificate, out: &mut Vec<u8>) {
    out.extend_from_slice(&(certificate.emitted_len() as u16).to_be_bytes());
    certificate.emit(out);
}

type Several<'a> = (Option<u64>, Vec<Certificate>, &'a [u8]);

fn decode_several(bytes: &[u8]) -> Option<Several<'_>> {
    let (several_to, rest) = bytes.split_first_chunk()?;
    let (&count, mut rest) = rest.split_first()?;
    let mut several = Vec::new();
    for _ in 0..count {
        let (certificate, behind) = split_counted(rest)?;
        several.push(Certificate::parse(certificate).ok()?);
        rest = behind;
    }
    (count <= MAX_WAYS).then_some((Some(u64::from_be_bytes(*several_to)), several, rest))
}

fn decode_register(bytes: &[u8]) -> Option<(Register, &[u8])> {
    match bytes.split_first()? {
        (0, rest) => Some((Register::Empty, rest)),
        (1, rest) => {
            let (sequence, rest) = rest.split_first_chunk()?;
            Some((Register::Floor(u64::from_be_bytes(*sequence)), rest))
        }
        (2, rest) => {
            let (certificate, rest) = split_counted(rest)?;
            Some((Certificate::parse(certificate).ok()?.into(), rest))
        }
        _ => None,
    }
}

fn split_counted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))
}

/// The lowest version that says whose share it counts on.
pub(crate) const VERSION: u8 = 2;
const WITH_EXPORT: u8 = 3;
const WITH_SEVERAL: u8 = 4;
/// What published names add to a version.
const PUBLISHING: u8 = 3;
const PUBLISHER: usize = 9;
const SHARE: usize = 41;
const SHARE_LEN: usize = 7;
const GIVERS_SHIFT: u32 = 4;
const METADATA: usize = SHARE + SHARE_LEN + 2;
/// Behind `RM` and the version.
const ROLE_IN_METADATA: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rhumb_wire::certificate::{Locator, SIGNATURE_LEN};
    use rhumb_wire::{PublicKey, Scope};

    fn register(statement: Statement) -> impl Strategy<Value = Register> {
        let holds = move |sequence| {
            Register::from(Certificate {
                sequence,
                not_before_s: 1,
                not_after_s: 2,
                issuer: Name([3; 32]),
                statement,
                signature: [4; SIGNATURE_LEN],
            })
        };
        prop_oneof![
            Just(Register::Empty),
            any::<u64>().prop_map(Register::Floor),
            any::<u64>().prop_map(holds)
        ]
    }

    fn any_entry() -> impl Strategy<Value = Entry> {
        let route =
            Statement::Route { via: Name([1; 32]), scope: Scope::Destination(Name([2; 32])) };
        let scope = Scope::ByDomain { up_to: Some(Name([5; 32])) };
        let export = Statement::Route { via: Name([4; 32]), scope };
        let locator = Locator::new("192.0.2.1:4000".parse().unwrap()).unwrap();
        let registers = (
            register(route),
            register(Statement::Locator(locator)),
            register(Statement::Withdrawal),
            register(export),
        );
        let share = prop_oneof![
            Just(Share::Admitted),
            any::<[u8; 4]>().prop_map(|ip| Share::Stranger(Source::V4(ip))),
            any::<[u8; 6]>().prop_map(|ip| Share::Stranger(Source::V6(ip))),
        ];
        let role = prop_oneof![Just(Role::Node), Just(Role::Capsule)];
        let givers = proptest::collection::vec(any::<[u8; 32]>(), 0..=MAX_GIVERS);
        let givers = givers.prop_map(|names| Givers::new(names.into_iter().map(Name)));
        let held = (any::<u64>(), any::<[u8; 32]>(), share, givers);
        let one_of_several = Statement::Service { server: Name([6; 32]), several: true };
        let held_of_several = register(one_of_several).prop_map(|it| it.held().cloned());
        let several = prop::collection::vec(held_of_several, 0..=usize::from(MAX_WAYS));
        let several = (prop::option::of(any::<u64>()), several);
        let several = (several, prop::option::of(any_published()));
        (held, role, "[a-z]{0,9}", registers, several).prop_map(
            |(
                (keep_until_s, publisher, share, givers),
                role,
                label,
                (route, locator, withdrawal, export),
                ((several_to, several), published),
            )| Entry {
                several: several_to.map_or(Vec::new(), |_| several.into_iter().flatten().collect()),
                several_to,
                published: published.map(Box::new),
                metadata: Metadata::new(role, PublicKey::Ed25519([7; 32]), 5)
                    .with_attribute("label", &label)
                    .unwrap(),
                publisher: Name(publisher),
                share,
                givers,
                keep_until_s,
                route,
                locator,
                withdrawal,
                export,
                stepping: Stepping::default(),
            },
        )
    }

    fn any_published() -> impl Strategy<Value = PublishedNames> {
        let names = prop::collection::btree_map("[a-z0-9]{1,32}", any::<[u8; 32]>(), 0..4);
        (any::<u64>(), names).prop_map(|(sequence, names)| PublishedNames {
            sequence,
            not_before_s: 1,
            not_after_s: 2,
            owner: Name([3; 32]),
            names: names.into_iter().map(|(it, name)| (it.parse().unwrap(), Name(name))).collect(),
            signature: [4; SIGNATURE_LEN],
        })
    }

    proptest! {
        #[test]
        fn records_round_trip(entry in any_entry()) {
            let mut bytes = entry.encode();
            prop_assert_eq!(entry.encoded_len(), bytes.len());
            prop_assert_eq!(footprint_of(&bytes), Some(Footprint::of(&entry)));
            let (export, several, several_to) = (Register::Empty, Vec::new(), None);
            let givers = Givers::default();
            let published = None;
            let before_exports =
                Entry { givers, export, several, several_to, published, ..entry.clone() };
            let old = before_exports.encode();
            let old = [&[1], &old[1..SHARE], &old[SHARE + SHARE_LEN..]].concat();
            let share = Share::Stranger(Source::V4([0; 4]));
            prop_assert_eq!(Entry::decode(&old), Some(Entry { share, ..before_exports }));
            prop_assert_eq!(footprint_of(&old).map(|it| it.share), Some(share));
            prop_assert_eq!(Entry::decode(&bytes), Some(entry));
            for cut in 0..bytes.len() {
                prop_assert_eq!(Entry::decode(&bytes[..cut]), None);
            }
            bytes.push(0);
            prop_assert_eq!(Entry::decode(&bytes), None);
            bytes.pop();
            bytes[0] = WITH_SEVERAL + PUBLISHING + 1;
            prop_assert_eq!(Entry::decode(&bytes), None);
        }

        #[test]
        fn a_statement_in_another_kinds_register_is_damage(a in any_entry()) {
            let swapped = Entry { route: a.withdrawal.clone(), withdrawal: a.route.clone(), ..a.clone() };
            let holds = |r: &Register| matches!(r, Register::Holds(_));
            let unbound = Entry { route: a.export.clone(), export: a.route.clone(), ..a.clone() };
            let is_damaged = holds(&unbound.route) || holds(&unbound.export);
            prop_assert_eq!(Entry::decode(&unbound.encode()).is_none(), is_damaged);
            let damaged = holds(&swapped.route) || holds(&swapped.withdrawal);
            prop_assert_eq!(Entry::decode(&swapped.encode()).is_none(), damaged);
        }
    }
}
