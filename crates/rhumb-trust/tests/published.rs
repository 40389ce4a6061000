//! Names that an owner publishes: nothing of a list can be another's, of another time, or of
//! another kind.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic")]

use std::collections::BTreeMap;

use rhumb_trust::{
    CLOCK_SKEW_S, Identity, MAX_NAMES_LIFETIME_S, StatementError, TrustError, Window, name_of,
    verify_names, verify_statement,
};
use rhumb_wire::certificate::SIGNATURE_LEN;
use rhumb_wire::{
    Certificate, Metadata, Name, PublicKey, PublishedLabel, PublishedNames, Role, Statement,
};

const NOW_S: u64 = 1_700_000_000;

fn owner() -> Identity {
    Identity::generate(Role::Node, 0).unwrap()
}

fn names(labels: &[&str]) -> BTreeMap<PublishedLabel, Name> {
    labels.iter().zip(1..).map(|(it, n)| (it.parse().unwrap(), Name([n; 32]))).collect()
}

fn month() -> Window {
    Window::starting(NOW_S, MAX_NAMES_LIFETIME_S)
}

fn bytes_of(published: &PublishedNames) -> Vec<u8> {
    let mut bytes = Vec::new();
    published.emit(&mut bytes);
    bytes
}

#[test]
fn what_an_owner_says_is_believed_while_it_holds() {
    let owner = owner();
    let published = owner.publish(names(&["camera", "door"]), 5, month()).unwrap();
    let at = |now_s| verify_names(published.clone(), owner.metadata(), now_s).err();
    assert_eq!(at(NOW_S - CLOCK_SKEW_S), None);
    let starts_in_s = CLOCK_SKEW_S + 1;
    assert_eq!(at(NOW_S - starts_in_s), Some(StatementError::NotYetValid { starts_in_s }));
    let last_s = NOW_S + MAX_NAMES_LIFETIME_S;
    assert_eq!(at(last_s + CLOCK_SKEW_S), None);
    let ended_ago_s = CLOCK_SKEW_S + 1;
    assert_eq!(at(last_s + ended_ago_s), Some(StatementError::Expired { ended_ago_s }));
    // Also that there is nothing.
    let nothing = owner.publish(BTreeMap::new(), 6, month()).unwrap();
    assert!(verify_names(nothing, owner.metadata(), NOW_S).unwrap().names.is_empty());
}

#[test]
fn nothing_lasts_longer_than_thirty_days() {
    let owner = owner();
    let window = Window::starting(NOW_S, MAX_NAMES_LIFETIME_S + 1);
    let published = owner.publish(names(&["camera"]), 5, window).unwrap();
    let refused = verify_names(published, owner.metadata(), NOW_S);
    assert_eq!(refused, Err(StatementError::TooLong));
}

#[test]
fn any_flipped_bit_is_refused() {
    let owner = owner();
    let bytes = bytes_of(&owner.publish(names(&["camera", "door"]), 5, month()).unwrap());
    for at in 0..bytes.len() * 8 {
        let mut bent = bytes.clone();
        bent[at / 8] ^= 1 << (at % 8);
        if let Ok(bent) = PublishedNames::parse(&bent) {
            assert!(verify_names(bent, owner.metadata(), NOW_S).is_err(), "bit {at}");
        }
    }
}

#[test]
fn nobody_publishes_for_somebody_else() {
    let (owner, other) = (owner(), owner());
    let published = other.publish(names(&["camera"]), 5, month()).unwrap();
    let by_others_key = verify_names(published.clone(), owner.metadata(), NOW_S);
    assert_eq!(by_others_key, Err(StatementError::WrongMetadata));
    let in_its_name = PublishedNames { owner: owner.name(), ..published };
    let refused = verify_names(in_its_name.clone(), owner.metadata(), NOW_S);
    assert_eq!(refused, Err(StatementError::BadSignature));
    assert!(!owner.has_published(&in_its_name));
    // The same key with other metadata is another name.
    let mut metadata = (**owner.metadata()).clone();
    metadata.created_s += 1;
    let own = owner.publish(names(&["camera"]), 5, month()).unwrap();
    assert!(owner.has_published(&own));
    assert_eq!(verify_names(own, &metadata, NOW_S), Err(StatementError::WrongMetadata));
}

/// A signature for one kind of statement under the other kind's bytes.
#[test]
fn a_certificates_signature_is_none_for_names_and_the_reverse() {
    let owner = owner();
    let withdrawal = owner.certify(Statement::Withdrawal, 5, month()).unwrap();
    let published = owner.publish(BTreeMap::new(), 5, month()).unwrap();
    let as_names = PublishedNames { signature: withdrawal.signature, ..published.clone() };
    let refused = verify_names(as_names, owner.metadata(), NOW_S);
    assert_eq!(refused, Err(StatementError::BadSignature));
    let as_withdrawal = Certificate { signature: published.signature, ..withdrawal };
    let refused = verify_statement(&as_withdrawal, owner.metadata(), NOW_S);
    assert_eq!(refused, Err(StatementError::BadSignature));
    // With its type byte changed, a list is no certificate of any type, nor one a list.
    let bytes = bytes_of(&owner.publish(names(&["camera"]), 5, month()).unwrap());
    let mut of_withdrawal = Vec::new();
    as_withdrawal.emit(&mut of_withdrawal);
    for kind in 0..=255 {
        for bytes in [&bytes, &of_withdrawal] {
            let mut bent = bytes.clone();
            bent[1] = kind;
            let believed = Certificate::parse(&bent)
                .is_ok_and(|it| verify_statement(&it, owner.metadata(), NOW_S).is_ok());
            assert!(!believed, "type {kind}");
            let is_list = PublishedNames::parse(&bent);
            let is_list = is_list.is_ok_and(|it| verify_names(it, owner.metadata(), NOW_S).is_ok());
            assert_eq!(is_list, kind == 8 && bent.len() == bytes.len() && bytes[1] == 8);
        }
    }
}

#[test]
fn what_no_list_holds_is_not_signed() {
    let many: Vec<String> = (0..=PublishedNames::MAX_LABELS).map(|it| it.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let refused = owner().publish(names(&many), 5, month());
    assert!(matches!(refused, Err(TrustError::TooManyNames)));
    let all = owner().publish(names(&many[1..]), 5, month()).unwrap();
    assert_eq!(all.names.len(), PublishedNames::MAX_LABELS);
}

#[test]
fn a_key_of_ed25519_publishes_too() {
    use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
    let key = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
    let public = PublicKey::Ed25519(key.public_key().as_ref().try_into().unwrap());
    let metadata = Metadata::new(Role::Capsule, public, 0);
    let mut published = PublishedNames {
        sequence: 1,
        not_before_s: NOW_S,
        not_after_s: NOW_S + 60,
        owner: name_of(&metadata),
        names: names(&["camera"]),
        signature: [0; SIGNATURE_LEN],
    };
    let signature = key.sign(&published.signed_bytes());
    published.signature.copy_from_slice(signature.as_ref());
    assert!(verify_names(published, &metadata, NOW_S).is_ok());
}
