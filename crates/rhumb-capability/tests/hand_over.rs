//! Credentials from hand to hand: files, what Debug shows, and what a stamper refuses.

#![allow(clippy::unwrap_used, reason = "a test's helpers may panic")]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;
use rhumb_capability::{
    Capability, CapabilityError, Credential, DelegationId, Encapsulation, EpochKeys, Family,
    KeyRecord, PacketIds, Prefix, Principal, Scheme, Stamper, Suite, Window, file,
};

use crate::world::*;

fn record(family: Family) -> KeyRecord {
    let capability = capability(family, 1, Suite::HeaderAes, Scheme::CaveatChain);
    EpochKeys::new(EPOCH, &master(1)).mint(capability, 1_700_003_600).unwrap()
}

#[test]
fn minting_is_for_undelegated_capabilities_of_the_epoch() {
    let keys = EpochKeys::new(EPOCH, &master(1));
    let good = capability(Family::V4, 1, Suite::HeaderAes, Scheme::CaveatChain);
    let mut delegated = good;
    delegated.delegations.push(delegation("10.0.0.0/8", 1)).unwrap();
    assert!(keys.mint(delegated, 0).is_err());
    assert!(keys.mint(Capability { epoch: rhumb_capability::Epoch(9), ..good }, 0).is_err());
    let v6 = capability(Family::V6, 1, Suite::HeaderAes, Scheme::Xor);
    assert!(matches!(keys.mint(v6, 0), Err(CapabilityError::SchemeRefuses(_))));
    assert!(keys.mint(good, 0).is_ok());
}

#[test]
fn secrets_differ_in_everything_they_are_for() {
    let base = capability(Family::V4, 1, Suite::HeaderAes, Scheme::CaveatChain);
    let mut seen = Vec::new();
    let mut add = |capability: Capability, number: u8| {
        let keys = EpochKeys::new(capability.epoch, &master(number));
        let secret = keys.mint(capability, 0).unwrap().secret;
        assert!(!seen.contains(&secret), "{capability:?}");
        seen.push(secret);
    };
    add(base, 1);
    add(base, 2);
    add(Capability { waypoint: waypoint(Family::V4, 2), ..base }, 1);
    add(Capability { waypoint: waypoint(Family::V6, 1), ..base }, 1);
    add(Capability { principal: Principal(8), ..base }, 1);
    add(Capability { window: Window(base.window.0 + 1), ..base }, 1);
    add(Capability { window: Window(base.window.0 + 256), ..base }, 1);
    add(Capability { epoch: rhumb_capability::Epoch(4), ..base }, 1);
    for suite in [Suite::HeaderSip, Suite::PacketPolyval] {
        add(Capability { suite, ..base }, 1);
    }
    for scheme in [Scheme::BitChain, Scheme::Xor] {
        add(Capability { scheme, ..base }, 1);
    }
}

#[test]
fn a_file_is_for_its_owner_alone_and_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.capability");
    let credential = delegated(Family::V4, 1, Suite::HeaderAes, 2);
    file::save(&path, &credential).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(file::load(&path).unwrap(), credential);
    assert!(matches!(file::save(&path, &credential), Err(CapabilityError::File { .. })));
    for mode in [0o640, 0o604, 0o644] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let refused = file::load(&path);
        assert!(matches!(refused, Err(CapabilityError::FileTooOpen { mode: m, .. }) if m == mode));
    }
    fs::remove_file(&path).unwrap();
    assert!(matches!(file::load(&path), Err(CapabilityError::File { .. })));
}

#[test]
fn every_wrong_line_is_named() {
    let text = file::encode(&delegated(Family::V4, 1, Suite::HeaderAes, 2)).to_string();
    assert!(file::decode(&text).is_ok());
    for (number, line) in text.lines().enumerate() {
        let damaged = text.replacen(&format!("{line}\n"), "x\n", 1);
        let expected = CapabilityError::FileLine { line: number + 1 };
        assert_eq!(file::decode(&damaged).unwrap_err(), expected, "{line}");
        let cut: String = text.lines().take(number).flat_map(|l| [l, "\n"]).collect();
        assert!(file::decode(&cut).is_err());
    }
    for (from, to) in [
        ("principal 7", "principal 07"),
        ("principal 7", "principal +7"),
        ("flags 0", "flags 1"),
        ("header-aes", "header-des"),
        ("delegation 10.20.0.0/16", "delegation 11.20.0.0/16"),
        ("delegation 10.20.0.0/16", "delegation 10.20.0.1/16"),
        ("delegation 10.20.0.0/16 101", "delegation 10.20.0.0/16 16777216"),
        ("192.0.2.1", "2001:db8::1"),
        ("caveat-chain", "reference-xor"),
    ] {
        assert!(file::decode(&text.replacen(from, to, 1)).is_err(), "{to}");
    }
    assert!(file::decode(&format!("{text}x\n")).is_err());
    assert!(file::decode(&format!("{text}\n")).is_err());
}

#[test]
fn nothing_shows_a_secret() {
    let credential = delegated(Family::V4, 1, Suite::HeaderAes, 1);
    let text = file::encode(&credential);
    let secret = text.lines().find_map(|line| line.strip_prefix("secret ")).unwrap();
    let record = record(Family::V4);
    let stamper = Stamper::new(&[&credential], Encapsulation::IP).unwrap();
    let keys = EpochKeys::new(EPOCH, &master(1));
    let shown = format!("{credential:?} {record:?} {stamper:?} {keys:?} {:?}", master(1));
    assert!(shown.contains("Secret(..)") && shown.contains("Master(..)"), "{shown}");
    assert!(!shown.contains(secret));
    let bytes: Vec<String> = record.secret.expose().iter().map(u8::to_string).collect();
    assert!(!shown.contains(&bytes.join(", ")));
}

#[test]
fn a_stamper_refuses_what_waypoints_would_drop() {
    let credential = |suite, family| credential(family, 1, suite);
    let aes = credential(Suite::HeaderAes, Family::V4);
    let sip = credential(Suite::HeaderSip, Family::V4);
    let v6 = credential(Suite::HeaderAes, Family::V6);
    let new = |all: &[&Credential]| Stamper::new(all, Encapsulation::IP).map(|_| ());
    assert_eq!(new(&[]), Err(CapabilityError::CapabilityCount(0)));
    assert_eq!(new(&[&aes, &sip]), Err(CapabilityError::Mixed("suite")));
    assert_eq!(new(&[&aes, &v6]), Err(CapabilityError::Mixed("family of addresses")));

    let narrow = delegated(Family::V4, 1, Suite::HeaderAes, 2);
    let stamper = Stamper::new(&[&narrow], Encapsulation::UDP).unwrap();
    let stamp = |packet: &[u8], room: usize| {
        let mut buffer = vec![0; room];
        buffer.extend_from_slice(packet);
        let before = buffer.clone();
        let range = room..buffer.len();
        let refused = stamper.stamp(&mut buffer, range, &mut PacketIds::new(0, 0), NOW_US);
        assert!(refused.is_ok() || buffer == before, "refused, so unchanged");
        refused.map(|_| ())
    };
    let good = ip_packet(Family::V4, b"payload");
    // The packet's own header makes place for 20 bytes.
    let needed = stamper.headroom();
    assert_eq!(stamp(&good, needed - 20), Ok(()));
    let given = needed - 21;
    assert_eq!(stamp(&good, given), Err(CapabilityError::Headroom { given, needed }));
    let elsewhere = ip_packet_to(Family::V4, b"", "10.21.0.1".parse().unwrap());
    assert_eq!(stamp(&elsewhere, needed), Err(CapabilityError::OutsidePrefix));
    for len in 0..good.len() {
        assert_eq!(stamp(&good[..len], needed), Err(CapabilityError::NotAPacket));
    }
    let other_family = ip_packet(Family::V6, b"");
    assert_eq!(stamp(&other_family, needed), Err(CapabilityError::NotAPacket));
    let large = ip_packet(Family::V4, &vec![0; 65_515 - stamper.overhead()]);
    assert_eq!(stamp(&large, needed), Ok(()));
    let larger = ip_packet(Family::V4, &vec![0; 65_516 - stamper.overhead()]);
    assert_eq!(stamp(&larger, needed), Err(CapabilityError::PacketTooLarge));
}

#[test]
fn a_reply_capability_is_for_one_address() {
    for family in [Family::V4, Family::V6] {
        let own = credential(family, 1, Suite::HeaderAes);
        let reply = own.reply(destination(family), DelegationId::new(9).unwrap()).unwrap();
        assert!(reply.allows(destination(family)) && !reply.allows(source(family)));
        let level = reply.capability().delegations.last().copied();
        assert_eq!(level.map(|level| level.prefix), Some(Prefix::host(destination(family))));
        let packet = stamped(&[&reply], &ip_packet(family, b"answer"));
        assert_eq!(reason(&mut verifier(family, 1), &packet), None);
    }
}

fn any_family() -> impl Strategy<Value = Family> {
    prop_oneof![Just(Family::V4), Just(Family::V6)]
}

fn any_suite() -> impl Strategy<Value = Suite> {
    prop::sample::select(Suite::ALL.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn files_survive(
        family in any_family(),
        suite in any_suite(),
        principal: u32,
        window: u32,
        epoch: u8,
        not_after_s: u64,
        levels in 0_usize..=3,
        id in 0..=DelegationId::MAX,
    ) {
        let base = capability(family, 1, suite, Scheme::CaveatChain);
        let epoch = rhumb_capability::Epoch(epoch);
        let capability =
            Capability { principal: Principal(principal), window: Window(window), epoch, ..base };
        let record = EpochKeys::new(epoch, &master(1)).mint(capability, not_after_s).unwrap();
        let mut credential = Credential::from(record);
        for prefix in &prefixes(family)[..levels] {
            let id = DelegationId::new(id).unwrap();
            credential = credential.delegate(prefix.parse().unwrap(), id).unwrap();
        }
        prop_assert_eq!(file::decode(&file::encode(&credential)), Ok(credential));
    }

    #[test]
    fn a_batch_is_stamped_as_packet_by_packet(
        family in any_family(),
        suite in any_suite(),
        levels in 0_usize..=3,
        count in 1_u8..=4,
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 1..40),
    ) {
        let credentials: Vec<_> = (1..=count).map(|n| delegated(family, n, suite, levels)).collect();
        let all: Vec<&Credential> = credentials.iter().collect();
        let stamper = Stamper::new(&all, Encapsulation::IP).unwrap();
        let (mut arena, mut places, mut expected) = (Vec::new(), Vec::new(), Vec::new());
        let (mut ids, mut same_ids) = (PacketIds::new(1, 2), PacketIds::new(1, 2));
        for (number, payload) in payloads.iter().enumerate() {
            let mut packet = ip_packet(family, payload);
            if number % 5 == 4 {
                packet[0] = 0;
            }
            arena.resize(arena.len() + stamper.headroom(), 0);
            places.push(arena.len()..arena.len() + packet.len());
            arena.extend(&packet);
            let mut alone = vec![0; stamper.headroom()];
            alone.extend(&packet);
            let place = stamper.headroom()..alone.len();
            let stamped = stamper.stamp(&mut alone, place, &mut same_ids, NOW_US);
            expected.push(stamped.map(|place| alone[place].to_vec()));
        }
        let mut made: Vec<_> = places.iter().map(|_| None).collect();
        stamper.stamp_batch(&mut arena, &places, &mut ids, NOW_US, |number, stamped| {
            assert!(made[number].replace(stamped).is_none());
        });
        for (made, expected) in made.into_iter().zip(expected) {
            prop_assert_eq!(made.unwrap().map(|place| arena[place].to_vec()), expected);
        }
    }

    #[test]
    fn any_payload_arrives(
        family in any_family(),
        suite in any_suite(),
        payload in prop::collection::vec(any::<u8>(), 0..300),
        levels in 0_usize..=3,
    ) {
        let credential = delegated(family, 1, suite, levels);
        let packet = stamped(&[&credential], &ip_packet(family, &payload));
        let (_, delivered) = forwarded(&mut verifier(family, 1), &packet);
        prop_assert_eq!(&delivered[header_at(family)..], &payload[..]);
    }

    #[test]
    fn arbitrary_bytes_do_no_harm(data in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut verifier = verifier(Family::V4, 1);
        prop_assert!(reason(&mut verifier, &data).is_some());
    }
}
