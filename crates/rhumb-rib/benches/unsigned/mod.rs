//! Names by the million for benches, also of other crates: entries as a directory has them, whose
//! keys and signatures are nobody's, since a directory verifies nothing again that it has stored;
//! and which of them are asked for.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rhumb_rib::Entry;
use rhumb_trust::name_of;
use rhumb_wire::{Certificate, Metadata, Name, PublicKey, Role, Statement};

/// Names behind one router.
pub(crate) const NAMES_A_ROUTER: usize = 1000;

/// Of the holder of this number. As with genuine keys no store can say it in fewer bytes.
pub(crate) fn metadata(role: Role, at: usize) -> Metadata {
    let mut point = [2; 33];
    StdRng::seed_from_u64(at as u64).fill(&mut point[1..]);
    point[1..9].copy_from_slice(&at.to_be_bytes());
    point[9] = role as u8;
    Metadata::new(role, PublicKey::EcdsaP256(point), 0)
}

/// The entry after its holder has said one thing, for the next twenty hours.
pub(crate) fn entry(
    metadata: &Metadata,
    statement: Statement,
    publisher: Name,
    now_s: u64,
) -> Entry {
    let issuer = name_of(metadata);
    let mut signature = [3; 64];
    let seed = issuer.0.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    StdRng::seed_from_u64(seed).fill(&mut signature);
    let certificate = Certificate {
        sequence: now_s * 1000,
        not_before_s: now_s - 60,
        not_after_s: now_s + 20 * 3600,
        issuer,
        statement,
        signature,
    };
    let mut entry = Entry::new(metadata.clone(), publisher);
    entry.admit(&certificate, publisher, now_s).expect("admitted");
    entry
}

/// One of so many, that of rank r as often as 1 / r.
pub(crate) fn popular(random: &mut StdRng, count: usize) -> usize {
    let rank = (count as f64).powf(random.random::<f64>()) as usize;
    rank.min(count - 1)
}
