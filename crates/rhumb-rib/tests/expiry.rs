//! What has expired is not found and in the end not stored; what lasts too long is never taken.

use rhumb_rib::store::{Embedded, Memory, Store};
use rhumb_rib::{Config, MAX_LIFETIME_S, MAX_SERVICE_LIFETIME_S};
use rhumb_trust::{CLOCK_SKEW_S, Window};
use rhumb_wire::rib::{Refusal, RibRequestBody, RibResponseBody};
use rhumb_wire::{Certificate, Name, Role, Statement};
use world::{Directory, Holder, LIFETIME_S, NOW_S, routes};

use crate::world;

const VIA: Name = Name([1; 32]);

fn withdrawal(holder: &Holder, not_before_s: u64, not_after_s: u64) -> Certificate {
    holder.say(Statement::Withdrawal, 1, Window { not_before_s, not_after_s })
}

#[test]
fn windows_are_checked_with_the_stated_allowance() {
    let mut directory = Directory::new();
    let mut tell = |not_before_s, not_after_s| {
        let holder = Holder::new();
        directory.tell(&holder, withdrawal(&holder, not_before_s, not_after_s))
    };
    assert_eq!(tell(NOW_S - 100, NOW_S - CLOCK_SKEW_S), Ok(()));
    assert_eq!(tell(NOW_S - 100, NOW_S - CLOCK_SKEW_S - 1), Err(Refusal::Expired));
    assert_eq!(tell(NOW_S + CLOCK_SKEW_S, NOW_S + 100), Ok(()));
    assert_eq!(tell(NOW_S + CLOCK_SKEW_S + 1, NOW_S + 100), Err(Refusal::NotYetValid));
}

#[test]
fn a_lifetime_is_bounded_from_both_sides() {
    let mut directory = Directory::new();
    let mut tell = |lifetime_s| {
        let holder = Holder::new();
        directory.tell(&holder, withdrawal(&holder, NOW_S, NOW_S + lifetime_s))
    };
    assert_eq!(tell(MAX_LIFETIME_S), Ok(()));
    assert_eq!(tell(MAX_LIFETIME_S + 1), Err(Refusal::LifetimeTooLong));
    assert_eq!(tell(u64::MAX - NOW_S), Err(Refusal::LifetimeTooLong));
}

#[test]
fn a_capsules_word_for_a_server_may_last_longer_and_so_does_its_memory() {
    let mut directory = Directory::new();
    let owner = Holder::of(Role::Capsule);
    let service = |sequence, server, lifetime_s| {
        let window = Window::starting(NOW_S, lifetime_s);
        owner.say(
            Statement::Service { server: Name([server; 32]), several: false },
            sequence,
            window,
        )
    };
    let refused = Err(Refusal::LifetimeTooLong);
    assert_eq!(directory.tell(&owner, service(1, 1, MAX_SERVICE_LIFETIME_S + 1)), refused);
    let other = Holder::new();
    let window = Window::starting(NOW_S, MAX_LIFETIME_S + 1);
    let by_another = other.say(Statement::Service { server: VIA, several: false }, 1, window);
    assert_eq!(directory.tell(&other, by_another), refused, "only a capsule's");
    // An older word that lasts as long as any does not come back when the newer one is over.
    let old = service(1, 1, MAX_SERVICE_LIFETIME_S);
    assert_eq!(directory.tell(&owner, service(2, 2, LIFETIME_S)), Ok(()));
    directory.now_s = NOW_S + MAX_SERVICE_LIFETIME_S;
    directory.sweep();
    assert_eq!(directory.tell(&owner, old.clone()), Err(Refusal::Superseded));
    directory.now_s += CLOCK_SKEW_S + 1;
    directory.sweep();
    assert_eq!(directory.tell(&owner, old), Err(Refusal::Expired));
}

#[test]
fn an_expired_link_ends_the_chain() {
    let mut directory = Directory::new();
    let line = Holder::line(3);
    let mut chain = routes(&line, 1);
    chain[1] = line[1].say(chain[1].statement, 1, Window::starting(NOW_S, LIFETIME_S / 2));
    let issuers: Vec<_> = line.iter().collect();
    assert_eq!(directory.publish(&issuers, chain.clone()), Ok(()));
    directory.now_s = NOW_S + LIFETIME_S / 2 + CLOCK_SKEW_S;
    assert_eq!(directory.found(line[0].name()), chain);
    directory.now_s += 1;
    assert_eq!(directory.found(line[0].name()), chain[..1]);
    directory.now_s = NOW_S + LIFETIME_S + CLOCK_SKEW_S + 1;
    assert_eq!(directory.found(line[0].name()), []);
}

fn the_sweep_forgets_in_the_end(store: impl Store) {
    let mut directory = Directory::over(store, Config::default());
    let holders = Holder::line(40);
    for holder in &holders {
        assert_eq!(directory.tell(holder, holder.route(VIA, 5)), Ok(()));
    }
    directory.sweep();
    assert_eq!(directory.rib.counters().entries_swept, 0);
    // The statements go, their sequences stay.
    directory.now_s = NOW_S + LIFETIME_S + CLOCK_SKEW_S + 1;
    directory.sweep();
    assert_eq!(directory.rib.counters().entries_swept, 40);
    assert_eq!(directory.stored_names(), 40);
    let metadata = directory.ask(RibRequestBody::LookUpMetadata(holders[0].name()));
    assert!(matches!(metadata, RibResponseBody::Found { .. }), "{metadata:?}");
    // Until no older statement can hold any more.
    directory.now_s = NOW_S + MAX_LIFETIME_S + CLOCK_SKEW_S;
    directory.sweep();
    assert_eq!(directory.stored_names(), 40);
    let window = Window::starting(NOW_S, MAX_LIFETIME_S);
    let oldest = holders[0].say(holders[0].route(VIA, 1).statement, 1, window);
    assert_eq!(directory.tell(&holders[0], oldest.clone()), Err(Refusal::Superseded));
    directory.now_s += 1;
    directory.sweep();
    assert_eq!(directory.stored_names(), 0);
    assert_eq!(directory.tell(&holders[0], oldest), Err(Refusal::Expired));
    // The quota is free again.
    assert_eq!(directory.held_by(world::ASKER), 0);
}

#[test]
fn what_is_published_while_a_sweep_is_planned_stays() {
    let mut directory = Directory::over(Memory::new(), Config::default());
    let holder = Holder::new();
    assert_eq!(directory.tell(&holder, holder.route(VIA, 5)), Ok(()));
    directory.now_s = NOW_S + MAX_LIFETIME_S + CLOCK_SKEW_S + 1;
    assert_eq!(directory.rib.plan_sweep(directory.now_s, 100), 1, "it is to be forgotten");
    let window = Window::starting(directory.now_s, LIFETIME_S);
    let fresh = holder.say(holder.route(VIA, 6).statement, 6, window);
    assert_eq!(directory.tell(&holder, fresh), Ok(()));
    directory.sweep();
    assert_eq!(directory.stored_names(), 1, "what was acknowledged is there");
}

#[test]
fn the_sweep_forgets_in_the_end_in_memory() {
    the_sweep_forgets_in_the_end(Memory::new());
}

#[test]
fn the_sweep_forgets_in_the_end_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    the_sweep_forgets_in_the_end(Embedded::open(&folder.path().join("rib")).unwrap());
}
