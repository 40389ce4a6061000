//! A day of several domains within domains: what RIBs answer is true all day, and a domain that
//! goes away and comes back is missed by nobody but who asks for it.
//!
//! The bench of domains runs the same with a million names: `cargo xtask bench domains day`.

use std::time::Duration;

use rhumb_wire::Name;

use crate::day::ledger::{Asked, Heard, Ledger, Said, Verdict};
use crate::day::{Day, Size};

const SECOND: Duration = Duration::from_secs(1);
/// Far more than it takes nodes to find their router again.
const FOUND_AGAIN_WITHIN: Duration = Duration::from_secs(30);

#[test]
fn all_that_is_answered_is_true_while_a_domain_goes_away_and_comes_back() {
    let seen = Day::new(Size::SMALL).pass();
    let it = &seen.account;
    assert_eq!((it.wrong, it.failed, it.not_stored, seen.missing), (0, 0, 0, 0), "{seen:?}");
    assert!(it.latest <= 3 * SECOND, "{seen:?}");
    assert!(seen.found_after.is_some_and(|after| after < FOUND_AGAIN_WITHIN), "{seen:?}");
    // It was a day on which something happened.
    assert!(it.found > 1000 && it.absent > 10 && it.stored > 100 && it.told > 10, "{seen:?}");
    assert!(seen.messages > 100 && seen.moves > 3, "{seen:?}");
    let [top, ..] = seen.questions;
    assert!(top.1 > top.0, "{seen:?}");
}

#[test]
fn an_answer_that_is_not_so_is_told_from_one_that_was() {
    let routers = [1, 2].map(|byte| Name([byte; 32]));
    let mut ledger = Ledger::new(vec![routers.to_vec()], 5);
    let place = (0, 1);
    let said = |sequence, via| Said { sequence, via };
    let route = |sequence, via: usize| Heard::Route(said(sequence, Some(routers[via])));
    let asked = ledger.ask(place, SECOND);
    let judge = |ledger: &Ledger, asked: &Asked, heard| {
        [true, false].map(|own| ledger.judge(asked, heard, own))
    };
    assert_eq!(judge(&ledger, &asked, route(5, 1)), [Verdict::Right; 2]);
    for wrong in [route(5, 0), route(6, 1), Heard::Absent, Heard::Nonsense] {
        assert_eq!(judge(&ledger, &asked, wrong), [Verdict::Wrong; 2]);
    }
    // Until a change is acknowledged both are right, and then no longer the one before; elsewhere
    // it is heard of a moment later, and that is measured.
    ledger.order(place, said(9, Some(routers[0])));
    assert_eq!(judge(&ledger, &asked, route(5, 1)), [Verdict::Right; 2]);
    assert_eq!(judge(&ledger, &asked, route(9, 0)), [Verdict::Right; 2]);
    ledger.acknowledge(place, 2 * SECOND);
    assert_eq!(judge(&ledger, &asked, route(5, 1)), [Verdict::Right; 2], "when it was asked");
    let asked = ledger.ask(place, 3 * SECOND);
    assert_eq!(judge(&ledger, &asked, route(5, 1)), [Verdict::Wrong, Verdict::Late(SECOND)]);
    assert_eq!(judge(&ledger, &asked, route(8, 0)), [Verdict::Wrong, Verdict::Right]);
    ledger.order(place, said(20, None));
    ledger.acknowledge(place, 20 * SECOND);
    let asked = ledger.ask(place, 22 * SECOND);
    assert_eq!(judge(&ledger, &asked, Heard::Absent), [Verdict::Right; 2]);
    assert_eq!(judge(&ledger, &asked, Heard::Exported)[1], Verdict::Late(2 * SECOND));
    assert_eq!(judge(&ledger, &asked, route(5, 1)), [Verdict::Wrong; 2]);
}
