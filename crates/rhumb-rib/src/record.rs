//! An entry as bytes in a store.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 1 | version, 1 |
//! | 1 | 8 | keep until, seconds since 1970 |
//! | 9 | 32 | publisher |
//! | 41 | 2 | length of the metadata |
//! | 43 | .. | metadata |
//! | .. | .. | three registers: route, locator, withdrawal |
//!
//! A register is a tag: 0 empty; 1 floor, then the sequence (8 bytes); 2 holds, then a length (2 bytes) and a certificate.
//! Integers are big-endian. A store never holds anything that was not verified, so bytes that do not parse are damage.

use rhumb_wire::{Certificate, Metadata, Name, Statement};

use crate::Entry;
use crate::entry::Register;

impl Entry {
    /// Bytes of the entry's record.
    pub fn encode(&self) -> Vec<u8> {
        let metadata = self.metadata.emit();
        let mut out = Vec::with_capacity(METADATA + metadata.len() + 2 * Certificate::MAX_LEN);
        out.push(VERSION);
        out.extend_from_slice(&self.keep_until_s.to_be_bytes());
        out.extend_from_slice(&self.publisher.0);
        out.extend_from_slice(&(metadata.len() as u16).to_be_bytes());
        out.extend_from_slice(&metadata);
        for register in [&self.route, &self.locator, &self.withdrawal] {
            encode_register(register, &mut out);
        }
        out
    }

    /// Reads a record back; `None` when it is damaged.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (&[VERSION], rest) = bytes.split_first_chunk()? else { return None };
        let (keep_until_s, rest) = rest.split_first_chunk()?;
        let (publisher, rest) = rest.split_first_chunk()?;
        let (metadata, rest) = split_counted(rest)?;
        let (route, rest) = decode_register(rest)?;
        let (locator, rest) = decode_register(rest)?;
        let (withdrawal, rest) = decode_register(rest)?;
        let kinds_fit = route.is_of(|statement| statement.hands_on_to().is_some())
            && locator.is_of(|statement| matches!(statement, Statement::Locator(_)))
            && withdrawal.is_of(|statement| matches!(statement, Statement::Withdrawal));
        (rest.is_empty() && kinds_fit).then_some(())?;
        Some(Self {
            metadata: Metadata::parse(metadata).ok()?,
            publisher: Name(*publisher),
            keep_until_s: u64::from_be_bytes(*keep_until_s),
            route,
            locator,
            withdrawal,
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

/// The publisher of an encoded entry, without reading the rest.
pub(crate) fn publisher_of(bytes: &[u8]) -> Option<Name> {
    bytes.get(PUBLISHER..)?.first_chunk().copied().map(Name)
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
            out.extend_from_slice(&(certificate.emitted_len() as u16).to_be_bytes());
            certificate.emit(out);
        }
    }
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
            Some((Register::Holds(Certificate::parse(certificate).ok()?), rest))
        }
        _ => None,
    }
}

fn split_counted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))
}

const VERSION: u8 = 1;
const PUBLISHER: usize = 9;
const METADATA: usize = 43;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rhumb_wire::certificate::{Locator, SIGNATURE_LEN};
    use rhumb_wire::{PublicKey, Role, Scope};

    fn register(statement: Statement) -> impl Strategy<Value = Register> {
        let holds = move |sequence| {
            Register::Holds(Certificate {
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
        let locator = Locator::new("192.0.2.1:4000".parse().unwrap()).unwrap();
        let registers = (
            register(route),
            register(Statement::Locator(locator)),
            register(Statement::Withdrawal),
        );
        (any::<u64>(), any::<[u8; 32]>(), "[a-z]{0,9}", registers).prop_map(
            |(keep_until_s, publisher, label, (route, locator, withdrawal))| Entry {
                metadata: Metadata::new(Role::Node, PublicKey::Ed25519([7; 32]), 5)
                    .with_attribute("label", &label)
                    .unwrap(),
                publisher: Name(publisher),
                keep_until_s,
                route,
                locator,
                withdrawal,
            },
        )
    }

    proptest! {
        #[test]
        fn records_round_trip(entry in any_entry()) {
            let mut bytes = entry.encode();
            prop_assert_eq!(publisher_of(&bytes), Some(entry.publisher));
            prop_assert_eq!(Entry::decode(&bytes), Some(entry));
            for cut in 0..bytes.len() {
                prop_assert_eq!(Entry::decode(&bytes[..cut]), None);
            }
            bytes.push(0);
            prop_assert_eq!(Entry::decode(&bytes), None);
            bytes.pop();
            bytes[0] = VERSION + 1;
            prop_assert_eq!(Entry::decode(&bytes), None);
        }

        #[test]
        fn a_statement_in_another_kinds_register_is_damage(a in any_entry()) {
            let swapped = Entry { route: a.withdrawal.clone(), withdrawal: a.route.clone(), ..a.clone() };
            let holds = |r: &Register| matches!(r, Register::Holds(_));
            let damaged = holds(&swapped.route) || holds(&swapped.withdrawal);
            prop_assert_eq!(Entry::decode(&swapped.encode()).is_none(), damaged);
        }
    }
}
