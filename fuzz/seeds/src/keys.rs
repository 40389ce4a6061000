//! Examples for the key server: questions and updates, labels and files.

use rhumb_capability::{Epoch, Flags, Master, Principal, Window};
use rhumb_keyserver::operator::Operator;
use rhumb_keyserver::principal::{KnownWaypoint, PrincipalFile, master_text};
use rhumb_keyserver::question::KeyQuestion;
use rhumb_keyserver::record::SharedKey;
use rhumb_keyserver::revocation::{Action, Subject};
use rhumb_keyserver::tsig::TsigKey;

/// Messages of an operator; without the signature at its end, the target signs each again.
pub(crate) fn messages() -> Vec<Vec<u8>> {
    let key = TsigKey::new("operator", &[7; 32]).expect("it is a key");
    let mut operator = Operator::new("_k.example.net", key).expect("it is a zone");
    let subject = Subject { principal: Principal(42), delegation: None };
    let update = operator.update(7, &[(Action::Revoke, subject)], 1, NOW_S);
    vec![operator.last_serial(1, NOW_S), operator.everywhere(7, 1, NOW_S), update]
}

/// A label and one file of each kind, each of which parses.
pub(crate) fn texts() -> Vec<Vec<u8>> {
    let address = [192, 0, 2, 1].into();
    let (principal, flags) = (Principal(42), Flags::NONE);
    let question = KeyQuestion { waypoint: address, principal, flags, window: Window(7) };
    let known = KnownWaypoint::new(address, 11, 10_000, 5_000).expect("it divides time well");
    let file =
        PrincipalFile::new(principal, "_k.example.net", SharedKey::new([1; 32]), vec![known]);
    let file = file.expect("it is a file").to_text();
    let master = master_text(address, Epoch(1), &Master::new([1; 16]));
    let signer = TsigKey::new("operator", &[7; 32]).expect("it is a key").to_text();
    assert!(KeyQuestion::parse(question.label().as_bytes()) == Some(question));
    assert!(PrincipalFile::parse(&file).is_ok() && TsigKey::parse(&signer).is_ok());
    [question.label(), file.to_string(), master.to_string(), signer.to_string()]
        .map(String::into_bytes)
        .to_vec()
}

const NOW_S: u64 = 1_800_000_000;
