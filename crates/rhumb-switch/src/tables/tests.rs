//! The tables as several switches use them at once, and what they hold at most.

use super::*;
use crate::changes::Grounds;
use crate::job::ToldWay;
use rhumb_trust::{Identity, Window, verify_chain, verify_statement};
use rhumb_wire::{Role, Scope};
use std::sync::atomic::AtomicBool;

const NOW_S: u64 = 1_800_000_000;

#[expect(clippy::disallowed_methods, reason = "a test's clock begins somewhere")]
fn start() -> Instant {
    Instant::now()
}

fn says(holder: &Identity, statement: Statement, sequence: u64) -> Verified<Certificate> {
    let said = holder.certify(statement, sequence, Window::starting(NOW_S, 600)).unwrap();
    verify_statement(&said, holder.metadata(), NOW_S).unwrap()
}

fn way(holder: &Identity, via: Name, sequence: u64) -> Verified<Chain> {
    let statement = Statement::Route { via, scope: Scope::Any };
    let certificates = vec![says(holder, statement, sequence).into_inner()];
    let key = holder.metadata().key;
    verify_chain(holder.name(), certificates, |_| Some(key), NOW_S).unwrap()
}

#[test]
fn what_an_issuer_said_last_is_believed_when_it_comes_again_and_nothing_older() {
    let now = start();
    let tables = Tables::new(&Config::default(), &[1; 32], now);
    let holder = Identity::generate(Role::Node, NOW_S).unwrap();
    let ways = [(1, 1), (2, 2)].map(|(via, sequence)| way(&holder, Name([via; 32]), sequence));
    let said = ways.clone().map(|way| way.first().cloned());
    let until = now + Duration::from_secs(600);
    for (way, said) in ways.into_iter().zip(&said) {
        assert!(tables.believed(std::slice::from_ref(said)).is_empty(), "not heard of yet");
        assert!(tables.learn((Arc::new(way), 0), until, now));
        assert_eq!(tables.believed(std::slice::from_ref(said)), std::slice::from_ref(said));
    }
    let [older, newer] = said.map(Verified::into_inner);
    assert_eq!(tables.believed(&[older, newer.clone()]).len(), 1);
    let forged = Certificate { signature: [1; 64], ..newer };
    assert!(tables.believed(&[forged]).is_empty());
}

#[test]
fn of_what_a_rib_tells_the_way_is_taken_over_where_one_goes_and_what_is_said_elsewhere() {
    let now = Now { instant: start(), unix_ms: NOW_S * 1000 };
    let tables = Tables::new(&Config::default(), &[1; 32], now.instant);
    let holder = Identity::generate(Role::Node, NOW_S).unwrap();
    let name = holder.name();
    let told = |via: u8, sequence| Arc::new(way(&holder, Name([via; 32]), sequence));
    let (first, second, third) = (told(1, 1), told(2, 2), told(3, 3));
    assert_eq!(tables.take_told(&first, 0, now), Taken::Statements, "nobody goes there");
    assert!(!tables.has_way_to(&name));
    assert!(tables.needs(&second.certificates()[0]) && !tables.needs(&first.certificates()[0]));
    tables.learn_absence(name, now.instant + Duration::from_secs(9));
    let (before, grounds) = (tables.changes().latest(), Grounds::on(tables.changes().of(&name)));
    assert_eq!(tables.take_told(&second, 0, now), Taken::Way(true), "somebody looked for it");
    assert!(!tables.changes().are_older(&grounds, before), "flows by the way before have to ask");
    assert_eq!(tables.take_told(&first, 0, now), Taken::Nothing);
    assert_eq!(tables.take_told(&third, 0, now), Taken::Way(true));
    let Known::Way(known) = tables.find(&name, now.instant) else { panic!("no way") };
    assert!(Arc::ptr_eq(&known.chain, &third));
    tables.note(says(&holder, Statement::Withdrawal, 9).as_ref());
    assert_eq!(tables.take_told(&third, 0, now), Taken::Nothing);
    assert!(!tables.has_way_to(&name));
}

#[test]
fn what_is_for_some_domains_only_is_not_taken_over_by_who_verifies_it() {
    let now = Now { instant: start(), unix_ms: NOW_S * 1000 };
    let holder = Identity::generate(Role::Node, NOW_S).unwrap();
    let (domain, outer) = (Name([1; 32]), Name([2; 32]));
    let taken = |up_to| {
        let tables = Tables::new(&Config::default(), &[1; 32], now.instant);
        let statement = Statement::Route { via: domain, scope: Scope::ByDomain { up_to } };
        let export = says(&holder, statement, 1).into_inner();
        let key = holder.metadata().key;
        let chain = verify_chain(holder.name(), vec![export.clone()], |_| Some(key), NOW_S);
        let taken = ToldWay::take_over(&tables, &Arc::new(chain.unwrap()), 1, now);
        (taken, tables.needs(&export))
    };
    assert_eq!(taken(None), (Some(Taken::Statements), false));
    assert_eq!(taken(Some(outer)), (None, true));
}

#[test]
fn shards_hold_no_more_than_the_bound() {
    for bound in [1, 255, 256, 5000, 1 << 18] {
        let config = Config { max_routes: bound, max_grants: bound, ..Config::default() };
        let tables = Tables::new(&config, &[1; 32], start());
        let fills = tables.fills();
        let fits = |fill: Fill, bound: usize| fill.bound <= bound && fill.bound * 10 >= bound * 9;
        assert!(fits(fills.routes, bound) && fits(fills.absences, bound), "{bound}");
        assert!(fits(fills.newest, 2 * bound) && fits(fills.metadata, bound.max(2)), "{bound}");
    }
}

#[test]
fn what_expired_is_swept_and_the_next_sweep_is_not_at_once() {
    let (now, tables) = (start(), Tables::new(&Config::default(), &[1; 32], start()));
    for number in 0..10_000u32 {
        let mut name = [0; 32];
        name[..4].copy_from_slice(&number.to_be_bytes());
        tables.learn_absence(Name(name), now + Duration::from_secs(2));
    }
    assert!(!tables.sweep(now) && tables.fills().absences.used == 10_000);
    let (mut at, mut sweeps) = (now + Duration::from_secs(2), 1);
    while tables.sweep(at) {
        assert!(!tables.sweep(at), "another switch finds that it is not time");
        at += SWEEP_ON_AFTER;
        sweeps += 1;
    }
    let left = tables.fills().absences.used;
    assert!(left < 2500, "{left} left after {sweeps} sweeps");
}

#[test]
fn bytes_for_what_is_kept() {
    // Without chains, metadata and statements themselves,
    // which they point to. As decision 0011 says.
    let sizes = [
        Table::<Name, Route>::MAX_BYTES_AN_ENTRY,
        Table::<Name, Instant>::MAX_BYTES_AN_ENTRY,
        Table::<Name, Newest>::MAX_BYTES_AN_ENTRY,
        Table::<Name, Arc<Metadata>>::MAX_BYTES_AN_ENTRY,
    ];
    assert_eq!(sizes, [243, 147, 195, 131]);
}

/// A thread that takes over ways and withdrawals, and one that makes flows of them.
#[test]
fn no_flow_outlives_a_withdrawal_taken_by_another() {
    let now = start();
    let holder = Identity::generate(Role::Node, NOW_S).unwrap();
    let (destination, via) = (holder.name(), Name([1; 32]));
    let tables = Tables::new(&Config::default(), &[1; 32], now);
    let (withdrawn_to, is_done) = (AtomicU64::new(0), AtomicBool::new(false));
    let flows = AtomicU64::new(0);
    let turns: Vec<_> = (1..400)
        .map(|turn| {
            let withdrawal = says(&holder, Statement::Withdrawal, 2 * turn);
            (way(&holder, via, 2 * turn), withdrawal)
        })
        .collect();
    let grounds = Grounds::on(tables.changes().of(&destination));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (way, withdrawal) in turns {
                assert!(tables.learn((Arc::new(way), 0), now + Duration::from_secs(600), now));
                std::thread::yield_now();
                // Once, at least, a flow is made, however busy the machine.
                while flows.load(Ordering::SeqCst) == 0 {
                    std::thread::yield_now();
                }
                assert!(tables.note(withdrawal.as_ref()));
                withdrawn_to.store(withdrawal.sequence, Ordering::SeqCst);
            }
            is_done.store(true, Ordering::SeqCst);
        });
        while !is_done.load(Ordering::SeqCst) {
            let before = withdrawn_to.load(Ordering::SeqCst);
            let as_of = tables.changes().latest();
            let Known::Way(way) = tables.find(&destination, now) else { continue };
            let sequence = way.chain.certificates()[0].sequence;
            assert!(sequence > before, "found {sequence}, withdrawn up to {before}");
            flows.fetch_add(1, Ordering::SeqCst);
            // The flow stands while nothing that it rests
            // on is noted after what was read before.
            while withdrawn_to.load(Ordering::SeqCst) < sequence {
                std::thread::yield_now();
            }
            let stands = tables.changes().are_older(&grounds, as_of);
            assert!(!stands, "the flow of {sequence} lives on");
        }
    });
    assert!(flows.into_inner() > 0);
}
