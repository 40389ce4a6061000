//! The five known breaks of the paper's Table 2, each done to a waypoint that takes its schemes,
//! and each shown to fail under the caveat chain. An attacker here has what it was given, as the
//! text of its capability file, and nothing else.

#![allow(clippy::unwrap_used, reason = "a test's helpers may panic")]

use aes::cipher::{BlockCipherEncrypt, KeyInit};
use aws_lc_rs::digest::{SHA256, digest};
use rhumb_capability::{
    Credential, DelegationId, DropReason, Family, ReferenceSchemes, Scheme, Suite, Verifier, file,
};

use crate::world::*;

type Block = [u8; 16];

/// F, H and MAC of Table 2, written down here once more.
fn f(key: Block, input: &[u8]) -> Block {
    let mut block = [0; 16];
    block[0] = input.len() as u8;
    block[1..=input.len()].copy_from_slice(input);
    aes::Aes128Enc::new(&key.into()).encrypt_block((&mut block).into());
    block
}

fn h(bytes: &[u8]) -> Block {
    digest(&SHA256, bytes).as_ref()[..16].try_into().unwrap()
}

fn h_id(id: u32) -> Block {
    h(&id.to_be_bytes()[1..])
}

fn xor<const N: usize>(blocks: [Block; N]) -> Block {
    blocks.into_iter().fold([0; 16], |sum, block| std::array::from_fn(|at| sum[at] ^ block[at]))
}

/// A waypoint that takes everything in Table 2.
fn lenient() -> Verifier {
    let mut config = config(Family::V4, 1);
    config.reference_schemes = ReferenceSchemes::BitChainAndXor;
    verifier_of(config, 1)
}

fn own(scheme: Scheme) -> Credential {
    mint(capability(Family::V4, 1, Suite::HeaderAes, scheme), 1)
}

fn delegate(credential: &Credential, prefix: &str, id: u32) -> Credential {
    credential.delegate(prefix.parse().unwrap(), DelegationId::new(id).unwrap()).unwrap()
}

/// The secrets in a capability file.
fn secrets(credential: &Credential) -> Vec<Block> {
    let text = file::encode(credential);
    let line = text.lines().find_map(|line| line.strip_prefix("secret ")).unwrap();
    let from_hex = |text: &str| u128::from_str_radix(text, 16).unwrap().to_be_bytes();
    line.split(' ').map(from_hex).collect()
}

/// The file with other delegations and other secrets: what an attacker writes.
fn forge(credential: &Credential, delegations: &[(&str, u32)], secrets: &[Block]) -> Credential {
    let text = file::encode(credential);
    let mut forged = String::new();
    for line in text.lines().filter(|line| !line.starts_with("delegation ")) {
        if line.starts_with("not-after ") {
            for (prefix, id) in delegations {
                forged.push_str(&format!("delegation {prefix} {id}\n"));
            }
        }
        if line.starts_with("secret ") {
            let hex = |block: &Block| format!(" {:032x}", u128::from_be_bytes(*block));
            forged.push_str(&format!("secret{}\n", secrets.iter().map(hex).collect::<String>()));
        } else {
            forged.push_str(&format!("{line}\n"));
        }
    }
    file::decode(&forged).unwrap()
}

/// What the waypoint says of a packet to `destination`.
fn verdict(credential: &Credential, destination: &str) -> Option<DropReason> {
    let packet = ip_packet_to(Family::V4, b"payload", destination.parse().unwrap());
    reason(&mut lenient(), &stamped(&[credential], &packet))
}

#[test]
fn break_1_an_xor_delegate_rewrites_its_id() {
    let given = delegate(&own(Scheme::Xor), "10.0.0.0/8", 1);
    let [key, tail] = secrets(&given)[..] else { panic!("two secrets") };
    let other = xor([key, h_id(1), h_id(0xABCDEF)]);
    let forged = forge(&given, &[("10.0.0.0/8", 0xABCDEF)], &[other, tail]);
    assert_eq!(verdict(&forged, "10.1.2.3"), None, "the break is there");

    let given = delegate(&own(Scheme::CaveatChain), "10.0.0.0/8", 1);
    let [secret] = secrets(&given)[..] else { panic!("one secret") };
    for guess in [secret, xor([secret, h_id(1), h_id(0xABCDEF)])] {
        let forged = forge(&given, &[("10.0.0.0/8", 0xABCDEF)], &[guess]);
        assert_eq!(verdict(&forged, "10.1.2.3"), Some(DropReason::Binding));
    }
}

#[test]
fn break_2_an_empty_prefix_gives_the_secret_away() {
    // Chaining: s0 is s and a public hash. XOR: s0 is s itself.
    for scheme in [Scheme::BitChain, Scheme::Xor] {
        let principal = own(scheme);
        let given = delegate(&principal, "0.0.0.0/0", 1);
        let found = match (scheme, &secrets(&given)[..]) {
            (Scheme::BitChain, [state]) => xor([*state, h_id(1)]),
            (_, [_, tail]) => *tail,
            _ => panic!("secrets"),
        };
        assert_eq!([found], secrets(&principal)[..], "{scheme}: the principal's own secret");
        let forged = forge(&given, &[], &[found]);
        assert_eq!(forged.capability().delegations.len(), 0);
        assert_eq!(verdict(&forged, "203.0.113.9"), None, "{scheme}");
    }

    let principal = own(Scheme::CaveatChain);
    let given = delegate(&principal, "0.0.0.0/0", 1);
    let [secret] = secrets(&given)[..] else { panic!("one secret") };
    assert_ne!([secret], secrets(&principal)[..]);
    for guess in [secret, xor([secret, h_id(1)]), f(secret, b"M"), f(secret, b"")] {
        assert_eq!(
            verdict(&forge(&given, &[], &[guess]), "203.0.113.9"),
            Some(DropReason::Binding)
        );
    }
}

/// Table 2's XOR delegation as printed, without the refusal of single addresses.
fn table_2_xor(secret: Block, prefix: u32, len: u32, id: u32) -> (Block, Block) {
    let (mut key, mut state) = (xor([h(&secret), h_id(id)]), secret);
    for number in 1..=len {
        let bit = (prefix >> (32 - number)) as u8 & 1;
        key = xor([key, f(state, &[bit, number as u8])]);
        state = f(state, &[number as u8]);
    }
    (key, state)
}

#[test]
fn break_3_any_three_xor_reply_capabilities_make_a_fourth() {
    // As printed, for single addresses.
    let secret = [0x42; 16];
    let [a, b, c] = [0x0A01_0203_u32, 0xC0A8_0001, 0xCB00_7109];
    let [d_a, d_b, d_c] =
        [(a, 1), (b, 2), (c, 3)].map(|(at, id)| table_2_xor(secret, at, 32, id).0);
    let forged = xor([d_a, d_b, d_c, h_id(1), h_id(2), h_id(3), h_id(9)]);
    assert_eq!(forged, table_2_xor(secret, a ^ b ^ c, 32, 9).0, "the break is there");

    // The same at a waypoint, with the longest prefixes that one takes by XOR.
    let principal = own(Scheme::Xor);
    let parts = [("10.1.2.2/31", 1), ("192.168.0.0/31", 2), ("203.0.113.8/31", 3)];
    let keys = parts.map(|(prefix, id)| secrets(&delegate(&principal, prefix, id))[0]);
    let key = xor([keys[0], keys[1], keys[2], h_id(1), h_id(2), h_id(3), h_id(9)]);
    // 10.1.2.2 ^ 192.168.0.0 ^ 203.0.113.8
    let forged =
        forge(&delegate(&principal, "10.1.2.2/31", 1), &[("1.169.115.10/31", 9)], &[key, key]);
    assert_eq!(verdict(&forged, "1.169.115.11"), None, "the break is there");

    // A single address by XOR: neither is it made, nor taken.
    let refused = principal.reply([10, 1, 2, 3].into(), DelegationId::new(1).unwrap());
    assert!(refused.is_err());

    let principal = own(Scheme::CaveatChain);
    let parts = [("10.1.2.3/32", 1), ("192.168.0.1/32", 2), ("203.0.113.9/32", 3)];
    let given = parts.map(|(prefix, id)| delegate(&principal, prefix, id));
    let keys = [0, 1, 2].map(|at| secrets(&given[at])[0]);
    for guess in [xor(keys), xor([xor(keys), h_id(1), h_id(2), xor([h_id(3), h_id(9)])])] {
        let forged = forge(&given[0], &[("1.169.115.11/32", 9)], &[guess]);
        assert_eq!(verdict(&forged, "1.169.115.11"), Some(DropReason::Binding));
    }
}

#[test]
fn break_4_two_xor_delegates_widen_one_of_their_prefixes() {
    let principal = own(Scheme::Xor);
    let wide = delegate(&principal, "10.0.0.0/8", 1);
    let narrow = delegate(&principal, "172.16.5.0/24", 2);
    // States do not depend on the prefix, so the /8's holder
    // knows what bits 9 to 24 of the other one added.
    let mut state = secrets(&wide)[1];
    let mut key = secrets(&narrow)[0];
    let prefix = 0xAC10_0500_u32;
    for number in 9..=24_u32 {
        let bit = (prefix >> (32 - number)) as u8 & 1;
        key = xor([key, f(state, &[bit, number as u8])]);
        state = f(state, &[number as u8]);
    }
    let forged = forge(&narrow, &[("172.0.0.0/8", 2)], &[key, secrets(&wide)[1]]);
    assert_eq!(verdict(&forged, "172.200.1.1"), None, "the break is there");

    let principal = own(Scheme::CaveatChain);
    let wide = delegate(&principal, "10.0.0.0/8", 1);
    let narrow = delegate(&principal, "172.16.5.0/24", 2);
    for guess in
        [secrets(&wide)[0], secrets(&narrow)[0], xor([secrets(&wide)[0], secrets(&narrow)[0]])]
    {
        for id in [1, 2] {
            let forged = forge(&narrow, &[("172.0.0.0/8", id)], &[guess]);
            assert_eq!(verdict(&forged, "172.200.1.1"), Some(DropReason::Binding));
        }
    }
}

#[test]
fn break_5_sub_delegates_of_a_chain_cannot_be_told_apart() {
    // As printed, there is one id, chosen by the first delegator, for all below.
    let given = delegate(&own(Scheme::BitChain), "10.0.0.0/8", 5);
    let [first, second] = ["10.1.0.0/16", "10.2.0.0/16"].map(|prefix| delegate(&given, prefix, 5));
    let refused = given.delegate("10.3.0.0/16".parse().unwrap(), DelegationId::new(6).unwrap());
    assert!(refused.is_err(), "another id is not in the scheme");
    let ids = |credential: &Credential, destination: &str| {
        let packet = ip_packet_to(Family::V4, b"", destination.parse().unwrap());
        let (advanced, _) = forwarded(&mut lenient(), &stamped(&[credential], &packet));
        advanced.account.ids().map(DelegationId::as_u32).collect::<Vec<_>>()
    };
    assert_eq!(ids(&first, "10.1.0.1"), [5]);
    assert_eq!(ids(&second, "10.2.0.1"), [5], "the break is there");

    let given = delegate(&own(Scheme::CaveatChain), "10.0.0.0/8", 5);
    let first = delegate(&given, "10.1.0.0/16", 61);
    let second = delegate(&given, "10.2.0.0/16", 62);
    assert_eq!((ids(&first, "10.1.0.1"), ids(&second, "10.2.0.1")), (vec![5, 61], vec![5, 62]));
    // And neither can name itself otherwise, or leave its level out.
    for forged in [
        forge(&first, &[("10.0.0.0/8", 5), ("10.1.0.0/16", 62)], &secrets(&first)),
        forge(&first, &[("10.0.0.0/8", 5)], &secrets(&first)),
        forge(&first, &[("10.1.0.0/16", 61)], &secrets(&first)),
    ] {
        assert_eq!(verdict(&forged, "10.1.0.1"), Some(DropReason::Binding));
    }
}

#[test]
fn wider_delegations_made_directly_are_refused() {
    let given = delegate(&delegate(&own(Scheme::CaveatChain), "10.0.0.0/8", 1), "10.20.0.0/16", 2);
    let secret = secrets(&given);
    assert_eq!(verdict(&given, "10.20.1.1"), None);
    for delegations in [
        &[("10.0.0.0/8", 1)][..],
        &[("0.0.0.0/0", 1), ("10.20.0.0/16", 2)],
        &[("10.0.0.0/8", 1), ("10.0.0.0/8", 2)],
        &[("10.20.0.0/16", 2)],
        &[("10.0.0.0/8", 1), ("10.20.0.0/15", 2)],
        &[("10.0.0.0/8", 1), ("10.20.0.0/17", 2)],
        &[],
    ] {
        let forged = forge(&given, delegations, &secret);
        let verdict = verdict(&forged, "10.20.1.1");
        assert_eq!(verdict, Some(DropReason::Binding), "{delegations:?}");
    }
    // A level more, from the secret that is held, is a delegation, and as narrow as it says.
    let narrower = delegate(&given, "10.20.30.0/24", 3);
    assert_eq!(verdict(&narrower, "10.20.30.1"), None);
    assert!(given.delegate("10.0.0.0/8".parse().unwrap(), DelegationId::new(3).unwrap()).is_err());
}

#[test]
fn a_destination_outside_of_any_level_is_refused() {
    // Not through the stamper, which refuses it as well: the destination is changed on the way.
    let given = delegated(Family::V4, 1, Suite::HeaderAes, 3);
    let packet = stamped(&[&given], &ip_packet(Family::V4, b""));
    for (at, value) in [(28, 11), (29, 21), (31, 41)] {
        let mut other = packet.clone();
        other[at] = value;
        assert_eq!(reason(&mut lenient(), &other), Some(DropReason::OutsidePrefix));
    }
}

#[test]
fn the_papers_schemes_are_off_unless_configured() {
    for (allowed, bit_chain, xor) in [
        (
            ReferenceSchemes::Refused,
            Some(DropReason::SchemeRefused),
            Some(DropReason::SchemeRefused),
        ),
        (ReferenceSchemes::BitChain, None, Some(DropReason::SchemeRefused)),
        (ReferenceSchemes::BitChainAndXor, None, None),
    ] {
        let mut config = config(Family::V4, 1);
        assert_eq!(config.reference_schemes, ReferenceSchemes::Refused);
        config.reference_schemes = allowed;
        for (scheme, expected) in [(Scheme::BitChain, bit_chain), (Scheme::Xor, xor)] {
            for credential in [own(scheme), delegate(&own(scheme), "10.0.0.0/8", 4)] {
                let packet = stamped(&[&credential], &ip_packet(Family::V4, b""));
                let verdict = reason(&mut verifier_of(config.clone(), 1), &packet);
                assert_eq!(verdict, expected, "{allowed:?} {scheme}");
            }
        }
    }
}

#[test]
fn the_papers_schemes_delegate_and_sub_delegate_in_all_suites() {
    for suite in Suite::ALL {
        for scheme in [Scheme::BitChain, Scheme::Xor] {
            let own = mint(capability(Family::V4, 1, suite, scheme), 1);
            let direct = delegate(&own, "10.20.0.0/17", 9);
            let by_steps = delegate(
                &delegate(&delegate(&own, "0.0.0.0/0", 9), "10.0.0.0/8", 9),
                "10.20.0.0/17",
                9,
            );
            assert_eq!(direct, by_steps);
            assert_eq!(verdict(&direct, "10.20.30.40"), None, "{suite} {scheme}");
        }
    }
}

#[test]
fn a_scheme_has_secrets_of_its_own() {
    let all = Scheme::ALL.map(|scheme| secrets(&own(scheme))[0]);
    assert!(all[0] != all[1] && all[1] != all[2] && all[0] != all[2]);
}
