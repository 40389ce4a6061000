//! A batch is what its packets are one by one: verdicts, packets, accounts and drops, whatever is
//! mixed in it. Packets are worked on in groups, of which two are under way at a time, and those of
//! one kind go other ways than the rest.

#![allow(clippy::unwrap_used, reason = "a test's helpers may panic")]

use proptest::prelude::*;
use rhumb_capability::{
    Account, Capability, Carriage, Credential, Encapsulation, Epoch, EpochKeys, Family, Packet,
    PacketIds, Scheme, Stamper, Suite, Usage, Verdict, Verifier, VerifierConfig,
};

use crate::world::*;

/// A packet of a mixed batch.
#[derive(Debug, Clone)]
struct Kind {
    family: Family,
    suite: Suite,
    levels: usize,
    epoch: Epoch,
    waypoints: u8,
    udp: bool,
    fate: Fate,
}

#[derive(Debug, Clone, Copy)]
enum Fate {
    Good,
    /// One bit of it is another.
    Spoilt(usize),
    /// It stands in the batch twice.
    Twice,
    Cut(usize),
}

/// The newer of the epochs that the verifier knows; the other one is the world's.
const NEWER: Epoch = Epoch(4);

fn any_kind() -> impl Strategy<Value = Kind> {
    let fate = prop_oneof![
        6 => Just(Fate::Good),
        2 => (0_usize..2000).prop_map(Fate::Spoilt),
        2 => Just(Fate::Twice),
        1 => (0_usize..200).prop_map(Fate::Cut),
    ];
    // Nearly all packets of a waypoint are of the first kind.
    let kind = prop_oneof![
        2 => Just((Family::V4, Suite::HeaderAes, 0, EPOCH, 1, false)),
        3 => (
            prop::sample::select(vec![Family::V4, Family::V6]),
            prop::sample::select(Suite::ALL.to_vec()),
            0_usize..=3,
            prop::sample::select(vec![EPOCH, NEWER]),
            1_u8..=3,
            any::<bool>(),
        ),
    ];
    (kind, fate).prop_map(|((family, suite, levels, epoch, waypoints, udp), fate)| Kind {
        family,
        suite,
        levels,
        epoch,
        waypoints,
        udp,
        fate,
    })
}

fn verifier() -> Verifier {
    let mut config = VerifierConfig::new([Family::V4, Family::V6].map(|it| waypoint(it, 1)).into());
    (config.packets_per_s, config.accounts) = (50_000, 64);
    let mut verifier = Verifier::new(config).unwrap();
    for epoch in [EPOCH, NEWER] {
        verifier.install_epoch(EpochKeys::new(epoch, &master(1)));
    }
    verifier
}

/// The packets of a kind: two when it stands there twice.
fn packets(kind: &Kind, ids: &mut PacketIds) -> Vec<Vec<u8>> {
    let credentials: Vec<Credential> = (1..=kind.waypoints)
        .map(|number| {
            let base = capability(kind.family, number, kind.suite, Scheme::CaveatChain);
            let mut credential = mint(Capability { epoch: kind.epoch, ..base }, number);
            for (level, prefix) in prefixes(kind.family)[..kind.levels].iter().enumerate() {
                let level = delegation(prefix, 100 + level as u32);
                credential = credential.delegate(level.prefix, level.id).unwrap();
            }
            credential
        })
        .collect();
    let encapsulation = if kind.udp { Encapsulation::UDP } else { Encapsulation::IP };
    let stamper = Stamper::new(&credentials.iter().collect::<Vec<_>>(), encapsulation).unwrap();
    let mut packet = stamp_in(&stamper, &ip_packet(kind.family, b"what is in it"), ids, NOW_US);
    match kind.fate {
        Fate::Good => vec![packet],
        Fate::Twice => vec![packet.clone(), packet],
        Fate::Spoilt(bit) => {
            let at = bit % (packet.len() * 8);
            packet[at / 8] ^= 1 << (at % 8);
            vec![packet]
        }
        Fate::Cut(len) => {
            packet.truncate(len);
            vec![packet]
        }
    }
}

fn usages(verifier: &Verifier) -> (Usage, Vec<(Account, Usage)>) {
    let mut all: Vec<_> = verifier.accounts().all_delegates().collect();
    all.sort_by_key(|(account, _)| *account);
    (verifier.accounts().principal(PRINCIPAL), all)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_batch_is_its_packets(kinds in prop::collection::vec(any_kind(), 1..70)) {
        let mut ids = PacketIds::new(0, 0);
        let all: Vec<Vec<u8>> = kinds.iter().flat_map(|kind| packets(kind, &mut ids)).collect();
        let (mut arena, mut batch) = (Vec::new(), Vec::new());
        for packet in &all {
            batch.push(Packet::new(arena.len(), packet.len(), Carriage::Ip));
            arena.extend(packet);
        }
        let [mut together, mut one_by_one] = [verifier(), verifier()];
        together.verify_batch(&mut arena, &mut batch, NOW_US);
        for (packet, alone) in batch.iter().zip(&all) {
            let (verdict, becomes) = verify(&mut one_by_one, alone);
            prop_assert_eq!(packet.verdict, verdict);
            prop_assert_eq!(&arena[packet.start..packet.start + packet.len], &becomes[..]);
        }
        prop_assert_eq!(together.drops(), one_by_one.drops());
        prop_assert_eq!(usages(&together), usages(&one_by_one));
        let is_forwarded = |packet: &&Packet| matches!(packet.verdict, Verdict::Forward(_));
        let good = kinds.iter().filter(|kind| matches!(kind.fate, Fate::Good | Fate::Twice)).count();
        prop_assert!(batch.iter().filter(is_forwarded).count() >= good);
    }
}
