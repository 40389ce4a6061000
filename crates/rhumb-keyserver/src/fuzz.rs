//! Properties for the fuzzer and for tests: whatever comes, it is answered or dropped, and nobody
//! gets more than twice its bytes.

use std::collections::HashMap;

use rhumb_capability::{Epoch, EpochKeys, Master, Principal, Suite, WindowClock};

use crate::feed::RevocationFeed;
use crate::hosts;
use crate::principal::{PrincipalFile, parse_master, parse_principals};
use crate::question::KeyQuestion;
use crate::record::{SharedKey, open};
use crate::reply::MAX_AMPLIFICATION;
use crate::revocation::Book;
use crate::server::{Config, KeyServer, Outcome, Transport, Waypoint};
use crate::tsig::{Keyring, TsigKey, check_answer, sign_question};
use crate::zone::Zone;

/// A message to a key server, as it is, and signed by its operator: so updates are read as well.
pub fn key_message(data: &[u8]) {
    let mut server = server();
    let source = [192, 0, 2, 7].into();
    for transport in [Transport::Datagram, Transport::Stream] {
        if let Outcome::Answer(answer) = server.handle(data, source, transport, NOW_MS) {
            let bound = MAX_AMPLIFICATION * data.len();
            assert!(transport == Transport::Stream || answer.len() <= bound);
        }
    }
    let (_, answer) = hosts::answer(server.zone().apex(), data, |_| hosts::Host::Nobody);
    assert!(answer.is_none_or(|answer| answer.len() <= hosts::LONGEST_ANSWER));
    if data.len() < 12 || data.len() > 1 << 15 {
        return;
    }
    let operator = TsigKey::new("operator", SECRET).expect("invariant: it is a key");
    let mut message = data.to_vec();
    message[10..12].copy_from_slice(&0u16.to_be_bytes());
    let mac = sign_question(&operator, &mut message, NOW_MS / 1000);
    let outcome = server.handle(&message, source, Transport::Stream, NOW_MS);
    if let Outcome::Store(staged) = outcome {
        let before = server.book().last_serial();
        let answer = server.stored(&staged, true, NOW_MS);
        assert!(server.book().last_serial() > before);
        assert_eq!(check_answer(&operator, &mac, &answer, NOW_MS / 1000), Ok(()));
    }
}

/// A label, a sealed record, and the text of each kind of file.
pub fn key_text(data: &[u8]) {
    if let Some(question) = KeyQuestion::parse(data) {
        assert_eq!(question.label().as_bytes(), data.to_ascii_lowercase());
        assert!(open(data, &SharedKey::new([1; 32]), &question, "name").is_none());
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(file) = PrincipalFile::parse(text) {
        let again = PrincipalFile::parse(&file.to_text()).expect("what is written is read");
        assert_eq!(*again.to_text(), *file.to_text());
    }
    if let Ok(key) = TsigKey::parse(text) {
        let again = TsigKey::parse(&key.to_text()).expect("what is written is read");
        assert_eq!(again.name(), key.name());
    }
    let _ = parse_principals(text);
    let _ = parse_master(text);
}

/// An answer to a waypoint's question. None is signed, so none is taken.
pub fn key_answer(data: &[u8]) {
    let key = TsigKey::new("waypoint", SECRET).expect("invariant: it is a key");
    let mut feed = RevocationFeed::new(APEX, key).expect("invariant: it is a zone");
    feed.question(7, NOW_MS);
    assert!(feed.handle_answer(data, NOW_MS).is_err());
}

fn server() -> KeyServer {
    let mut keyring = Keyring::default();
    let key = TsigKey::new("operator", SECRET).expect("invariant: it is a key");
    let operator = keyring.add(key).expect("invariant: it is the first");
    let waypoint = Waypoint {
        address: [192, 0, 2, 1].into(),
        clock: WindowClock::default(),
        suite: Suite::default(),
        keys: EpochKeys::new(Epoch(1), &Master::new([1; 16])),
        follower: None,
    };
    let addresses = vec![[192, 0, 2, 53].into()];
    let config = Config {
        zone: Zone::new(APEX, &[], addresses).expect("invariant: it is a zone"),
        waypoints: vec![waypoint],
        principals: HashMap::from([(Principal(42), SharedKey::new([1; 32]))]),
        keyring,
        operators: vec![operator],
        rate_per_s: 1000,
        secret: [0; 16],
    };
    KeyServer::new(config, Book::default())
}

const APEX: &str = "_k.example.net";
const SECRET: &[u8] = &[7; 32];
const NOW_MS: u64 = 1_800_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Questions whose compressed names are longer when they are written out than twice the
    /// message. Found by the fuzzer.
    #[test]
    fn compressed_names_do_not_amplify() {
        let message = data_encoding::BASE64
            .decode(
                b"AAEACAEBQAEBAQEAAQAIAQEAAQEBAQEBAQEBAQEBAQEBAQEBAQEPDw8PDw8PDw8PDw8PDw8PDw8PDw8PDw8PAQEBAQEBAQEBAQErAQEEAQAA\
                wAEBAQEBAQEBAQEBAQEBAQEBAQEBAQAAAQEAAAEBAQEAAQABAQEBwAEBAQEBAQEBAAEAAQEBAcABAQEBAQEBAQEBAQEBAQEBAQEBAQEAAAEBAAAB\
                AQEBAAEAAQEBAcABAQEBAQEBAQEAAABrAQA=",
            )
            .unwrap();
        key_message(&message);
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_much(data in prop::collection::vec(any::<u8>(), 0..200)) {
            key_message(&data);
            key_text(&data);
            key_answer(&data);
        }

        #[test]
        fn no_header_is_too_much(
            opcode in 0u8..8,
            counts in prop::array::uniform4(0u8..3),
            rest in prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(16), any::<u8>()], 0..80),
        ) {
            let mut data = vec![0, 7, opcode << 3, 0];
            counts.iter().for_each(|count| data.extend([0, *count]));
            data.extend(rest);
            key_message(&data);
        }
    }
}
