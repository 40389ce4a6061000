//! Strangers who fill what they can, each with as many names as it likes: what is left for others.

use rhumb_link::Source;
use rhumb_rib::store::{Embedded, Memory, Store};
use rhumb_rib::{Asker, Config, MAX_STRANGERS_LIFETIME_S, Outcome};
use rhumb_trust::{CLOCK_SKEW_S, Standing, Window};
use rhumb_wire::rib::{
    Refusal, RequestId, RibRequest, RibRequestBody, RibResponse, RibResponseBody,
};
use rhumb_wire::{Certificate, Name, Role, Scope, Statement};

use crate::world::{Directory, Holder, NOW_S};

const VIA: Name = Name([1; 32]);
const ADMITTED: Name = Name([0xAA; 32]);

/// Publishes one statement over the session of `router` at 192.0.2.`source`.
fn publish<S: Store>(
    directory: &mut Directory<S>,
    (router, source, standing): (Name, u8, Standing),
    holder: &Holder,
    certificate: Certificate,
) -> Result<(), Refusal> {
    let source = Source::V4([192, 0, 2, source]);
    let asker = Asker { source, standing, ..Asker::stranger(router, 1300) };
    let (metadata, certificates) = (vec![holder.metadata()], vec![certificate]);
    let mut data = Vec::new();
    RibRequest { id: RequestId(1), body: RibRequestBody::Publish { metadata, certificates } }
        .emit(&mut data);
    let body = match directory.rib.handle_request(asker, &data, directory.now_s) {
        Outcome::Answer(RibResponse { body, .. }) => body,
        Outcome::Staged(_) => directory.rib.commit().pop().expect("an answer").body,
        other => panic!("{other:?}"),
    };
    match body {
        RibResponseBody::Stored => Ok(()),
        RibResponseBody::Refused(refusal) => Err(refusal),
        other => panic!("{other:?}"),
    }
}

fn said<S>(directory: &Directory<S>, holder: &Holder, sequence: u64) -> Certificate {
    let statement = Statement::Route { via: VIA, scope: Scope::Any };
    holder.say(statement, sequence, Window::starting(directory.now_s, 600))
}

fn config(max_names: u64) -> Config {
    let mut config = Config::default();
    config.max_names = max_names;
    (config.signatures_per_source_per_s, config.signatures_per_admitted_per_s) =
        (u32::MAX, u32::MAX);
    config
}

/// Thirteen sources, each with a new router for each name,
/// take what they can; the names that they got.
fn fill<S: Store>(directory: &mut Directory<S>) -> Vec<(u8, Holder)> {
    let mut got = Vec::new();
    for source in 1..=13 {
        for router in 0.. {
            let mut name = [source; 32];
            name[..8].copy_from_slice(&u64::to_be_bytes(router));
            let holder = Holder::of(Role::Node);
            let certificate = said(directory, &holder, 1);
            let by = (Name(name), source, Standing::Stranger);
            match publish(directory, by, &holder, certificate) {
                Ok(()) => got.push((source, holder)),
                Err(refusal) => {
                    assert_eq!(refusal, Refusal::QuotaExceeded);
                    break;
                }
            }
        }
    }
    got
}

fn a_full_pool_locks_nobody_out(store: impl Store) {
    let mut directory = Directory::over(store, config(600));
    let got = fill(&mut directory);
    let strangers = directory.rib.fill().expect("a store").strangers;
    assert_eq!(strangers.names, got.len() as u64);
    assert!((200..300).contains(&strangers.names), "{strangers:?}");
    // Honest ones from elsewhere join, and so do all whom an admitted router brings.
    let elsewhere = (Name([0xBB; 32]), 99, Standing::Stranger);
    for _ in 0..6 {
        let holder = Holder::of(Role::Node);
        let certificate = said(&directory, &holder, 1);
        assert_eq!(publish(&mut directory, elsewhere, &holder, certificate), Ok(()));
    }
    for _ in 0..300 {
        let holder = Holder::of(Role::Node);
        let certificate = said(&directory, &holder, 1);
        let by = (ADMITTED, 1, Standing::Admitted);
        assert_eq!(publish(&mut directory, by, &holder, certificate), Ok(()));
    }
    // What is there is renewed, from wherever.
    for (source, holder) in got.iter().step_by(17) {
        for by in [(VIA, *source, Standing::Stranger), (VIA, 50, Standing::Stranger)] {
            let sequence = u64::from(by.1) + 100 + u64::from(by.1 == 50) * 1000;
            let certificate = said(&directory, holder, sequence);
            assert_eq!(publish(&mut directory, by, holder, certificate), Ok(()));
        }
    }
    if crate::ELSEWHERE {
        return;
    }
    // After an hour all is free again, but what the admitted one brought.
    directory.now_s += MAX_STRANGERS_LIFETIME_S + CLOCK_SKEW_S + 1;
    directory.sweep();
    let fill = directory.rib.fill().expect("a store");
    assert_eq!((fill.strangers.names, fill.admitted.names), (0, 300));
}

#[test]
fn a_full_pool_locks_nobody_out_in_memory() {
    a_full_pool_locks_nobody_out(crate::usual(Memory::new()));
}

#[test]
fn a_full_pool_locks_nobody_out_in_a_file_and_a_restart_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rib");
    let mut directory = Directory::over(Embedded::open(&path).unwrap(), config(100));
    let got = fill(&mut directory).len() as u64;
    let before = directory.rib.fill().unwrap();
    drop(directory);
    let mut directory = Directory::over(Embedded::open(&path).unwrap(), config(100));
    assert_eq!(directory.rib.fill().unwrap(), before);
    let more = fill(&mut directory).len() as u64;
    assert!(more < 13 && before.strangers.names == got, "{more} more after {got}");
    a_full_pool_locks_nobody_out(Embedded::open(&folder.path().join("other")).unwrap());
}

#[test]
fn bytes_are_bounded_as_names_are() {
    let mut bounded = config(1_000_000);
    bounded.max_bytes = 200_000;
    let mut directory = Directory::with(bounded);
    let got = fill(&mut directory).len() as u64;
    let strangers = directory.rib.fill().unwrap().strangers;
    assert!(strangers.bytes <= 100_000 && got > 50, "{strangers:?}");
    assert_eq!(strangers.names, got);
}

#[test]
fn capsules_of_strangers_are_kept_long_so_they_have_a_part_of_their_own() {
    let mut directory = Directory::with(config(1600));
    let by = |source| (VIA, source, Standing::Stranger);
    let mut got = 0;
    for source in 1..=255 {
        for _ in 0..3 {
            let holder = Holder::of(Role::Capsule);
            let statement = Statement::Service { server: Name([7; 32]), several: false };
            let window = Window::starting(NOW_S, rhumb_rib::MAX_SERVICE_LIFETIME_S);
            let certificate = holder.say(statement, 1, window);
            got += usize::from(publish(&mut directory, by(source), &holder, certificate).is_ok());
        }
    }
    assert!((50..=100).contains(&got), "{got} of 100");
    let holder = Holder::of(Role::Node);
    let certificate = said(&directory, &holder, 1);
    assert_eq!(publish(&mut directory, by(77), &holder, certificate), Ok(()));
}

#[test]
fn a_stranger_says_nothing_for_longer_than_an_hour() {
    let mut directory = Directory::new();
    let holder = Holder::of(Role::Node);
    let statement = Statement::Route { via: VIA, scope: Scope::Any };
    let mut say = |standing, sequence, lifetime_s| {
        let window = Window::starting(NOW_S, lifetime_s);
        let certificate = holder.say(statement, sequence, window);
        publish(&mut directory, (VIA, 1, standing), &holder, certificate)
    };
    let hour = MAX_STRANGERS_LIFETIME_S;
    assert_eq!(say(Standing::Stranger, 1, hour), Ok(()));
    assert_eq!(say(Standing::Stranger, 2, hour + 1), Err(Refusal::LifetimeTooLong));
    assert_eq!(say(Standing::Admitted, 2, hour + 1), Ok(()));
    // 500 years are refused for what they are, whoever asks.
    for standing in [Standing::Stranger, Standing::Admitted] {
        assert_eq!(say(standing, 3, 500 * 31_557_600), Err(Refusal::LifetimeTooLong));
    }
}
