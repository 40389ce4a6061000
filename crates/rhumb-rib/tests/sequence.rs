//! The newest statement is in force, whatever comes after
//! it, and whatever the directory went through.

use rhumb_rib::Config;
use rhumb_rib::store::{Embedded, Memory, Store};
use rhumb_trust::Window;
use rhumb_wire::Name;
use rhumb_wire::rib::Refusal;

use crate::world::{Directory, Holder, LIFETIME_S, NOW_S};

const VIA: Name = Name([1; 32]);

#[test]
fn an_older_statement_is_refused_after_a_newer_one() {
    let mut directory = Directory::new();
    let holder = Holder::new();
    let (old, new) = (holder.route(VIA, 1), holder.route(VIA, 2));
    assert_eq!(directory.tell(&holder, new.clone()), Ok(()));
    assert_eq!(directory.tell(&holder, old), Err(Refusal::Superseded));
    assert_eq!(directory.found(holder.name()), std::slice::from_ref(&new));
    // The very same again is acknowledged; another of its sequence is not.
    assert_eq!(directory.tell(&holder, new.clone()), Ok(()));
    assert_eq!(directory.tell(&holder, holder.route(VIA, 2)), Err(Refusal::Superseded));
    assert_eq!(directory.found(holder.name()), [new]);
    assert_eq!(directory.rib.counters().refused(Refusal::Superseded), 2);
}

#[test]
fn routes_and_locators_have_sequences_of_their_own() {
    let mut directory = Directory::new();
    let holder = Holder::new();
    let route = holder.route(VIA, 9);
    assert_eq!(directory.tell(&holder, route), Ok(()));
    let locator = holder.locator(3);
    assert_eq!(directory.tell(&holder, locator.clone()), Ok(()));
    assert_eq!(directory.found(holder.name()), [locator]);
}

#[test]
fn a_withdrawal_takes_both_and_keeps_them_out() {
    let mut directory = Directory::new();
    let holder = Holder::new();
    let (route, locator) = (holder.route(VIA, 1), holder.locator(2));
    for certificate in [&route, &locator, &holder.withdrawal(3)] {
        assert_eq!(directory.tell(&holder, certificate.clone()), Ok(()));
    }
    assert_eq!(directory.found(holder.name()), []);
    for old in [route, locator] {
        assert_eq!(directory.tell(&holder, old), Err(Refusal::Superseded));
    }
    // A withdrawal that is older than what is there takes nothing.
    let back = holder.route(VIA, 5);
    assert_eq!(directory.tell(&holder, back.clone()), Ok(()));
    assert_eq!(directory.tell(&holder, holder.withdrawal(4)), Ok(()));
    assert_eq!(directory.found(holder.name()), [back]);
}

#[test]
fn nothing_old_comes_back_by_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rib");
    let (moved, withdrawn) = (Holder::new(), Holder::new());
    let (old, new) = (moved.route(VIA, 1), moved.route(VIA, 2));
    let (gone, withdrawal) = (withdrawn.locator(1), withdrawn.withdrawal(2));
    let mut directory = Directory::over(Embedded::open(&path).unwrap(), Config::default());
    for (holder, certificate) in
        [(&moved, &old), (&moved, &new), (&withdrawn, &gone), (&withdrawn, &withdrawal)]
    {
        assert_eq!(directory.tell(holder, certificate.clone()), Ok(()));
    }
    drop(directory);
    let mut directory = Directory::over(Embedded::open(&path).unwrap(), Config::default());
    assert_eq!(directory.found(moved.name()), std::slice::from_ref(&new));
    assert_eq!(directory.found(withdrawn.name()), []);
    assert_eq!(directory.tell(&moved, old), Err(Refusal::Superseded));
    assert_eq!(directory.tell(&withdrawn, gone), Err(Refusal::Superseded));
    // Not even with the keys at hand does a restart make a duplicate look new.
    assert_eq!(directory.tell(&moved, new), Ok(()));
    assert_eq!(directory.tell(&withdrawn, withdrawal), Ok(()));
}

/// A lease that was superseded by a shorter one must not come back when that one has run out.
fn nothing_old_comes_back_by_expiry(mut store: impl Store) {
    // What is elsewhere sweeps itself.
    let swept = u64::from(store.awaited().is_none());
    let mut directory = Directory::over(store, Config::default());
    let holder = Holder::new();
    let route = |sequence, lifetime_s| {
        let statement = holder.route(VIA, sequence).statement;
        holder.say(statement, sequence, Window::starting(NOW_S, lifetime_s))
    };
    let long = route(1, 20 * LIFETIME_S);
    assert_eq!(directory.tell(&holder, long.clone()), Ok(()));
    assert_eq!(directory.tell(&holder, route(2, LIFETIME_S)), Ok(()));
    directory.now_s += 2 * LIFETIME_S;
    assert_eq!(directory.found(holder.name()), []);
    assert_eq!(directory.tell(&holder, long.clone()), Err(Refusal::Superseded));
    directory.sweep();
    assert_eq!(directory.rib.counters().entries_swept, swept);
    assert_eq!(directory.tell(&holder, long), Err(Refusal::Superseded));
    assert_eq!(directory.found(holder.name()), []);
}

#[test]
fn nothing_old_comes_back_by_expiry_in_memory() {
    nothing_old_comes_back_by_expiry(crate::usual(Memory::new()));
}

#[test]
fn nothing_old_comes_back_by_expiry_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    nothing_old_comes_back_by_expiry(Embedded::open(&folder.path().join("rib")).unwrap());
}
