//! The whole way in memory: members announce, get what they may have, and
//! nothing else; a best route is found; routes go.

use rhumb_exchange::{Event, Form};

use crate::world::{World, destination, small};

#[test]
fn members_get_what_they_may_have_and_nothing_else() {
    let mut world = World::new(5, 1);
    world.settle();
    let id = world.announce(0, b"10.0.0.0/8", &[1, 3], b"by zero");
    world.settle();
    for lane in 0..5 {
        let offered = world.offered(lane);
        if [1, 3].contains(&lane) {
            assert_eq!(offered, [(destination(b"10.0.0.0/8"), 0, id, b"by zero".to_vec())]);
        } else {
            assert!(offered.is_empty(), "{lane}");
        }
    }
    // Another policy and another route to the same destination, in place of the first.
    let second = world.announce(0, b"10.0.0.0/8", &[3, 4], b"anew");
    world.settle();
    assert!(world.offered(1).is_empty());
    for lane in [3, 4] {
        assert_eq!(
            world.offered(lane),
            [(destination(b"10.0.0.0/8"), 0, second, b"anew".to_vec())]
        );
    }
    world.withdraw(0, b"10.0.0.0/8");
    world.settle();
    assert!((0..5).all(|lane| world.offered(lane).is_empty()));
}

#[test]
fn the_best_route_is_found_by_both_preferences() {
    let mut world = World::new(6, 2);
    world.prefer(&[1, 2, 3, 0, 0, 0]);
    world.settle();
    let ids: Vec<_> =
        (0..3).map(|from| world.announce(from, b"d", &[3, 4], &[from as u8])).collect();
    world.settle();
    // Members three and four hold all routes alike, so the exchange's preference decides.
    for lane in [3, 4] {
        assert_eq!(world.selected(lane, b"d"), Some(Some(ids[2])));
    }
    assert_eq!(world.selected(5, b"d"), None);
    // The member's own comes first.
    world.rank_by(3, |candidate| if candidate.from.0 == 0 { 9 } else { 1 });
    world.announce(1, b"d", &[3, 4], b"changed");
    world.settle();
    assert_eq!(world.selected(3, b"d"), Some(Some(ids[0])));
    assert_eq!(world.selected(4, b"d"), Some(Some(ids[2])));
    let synced = |event: &Event| matches!(event, Event::Synced);
    assert!(
        (0..6).all(|lane| world.events(lane).iter().filter(|event| synced(event)).count() == 1)
    );
}

#[test]
fn all_circuits_choose_what_is_best() {
    for form in [Form::Paper, Form::Index, Form::TopClass] {
        let mut world = World::with(small(5, form, 1), 3);
        world.prefer(&[1, 9, 3, 0, 0]);
        world.rank_by(4, |candidate| if candidate.from.0 == 2 { 3 } else { 2 });
        let ids: Vec<_> =
            (0..3).map(|from| world.announce(from, b"d", &[3, 4], &[from as u8])).collect();
        world.settle();
        assert_eq!(world.selected(3, b"d"), Some(Some(ids[1])), "{form:?}");
        assert_eq!(world.selected(4, b"d"), Some(Some(ids[2])), "{form:?}");
        // What a member would not use is not chosen for it.
        world.rank_by(3, |_| 0);
        world.announce(2, b"d", &[4], b"again");
        world.settle();
        assert_eq!(world.selected(3, b"d"), Some(None), "{form:?}");
    }
}

/// What changes at the same time is computed together, and an order of announcers serves
/// destinations of some of them.
#[test]
fn a_burst_takes_few_runs_and_few_orders() {
    let mut config = small(10, Form::TopClass, 1);
    config.engine.bit_words = 1 << 14;
    let mut world = World::with(config, 4);
    let preferences = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3];
    world.prefer(&preferences);
    world.settle();
    // Nine announce; each destination is of six to eight of them: other sets, one size.
    let mut best = Vec::new();
    for number in 0_u8..40 {
        let announcers: Vec<u16> = (0..9)
            .filter(|lane| *lane != u16::from(number) % 9 && lane % 5 != u16::from(number) % 4)
            .collect();
        let ids =
            announcers.iter().map(|from| (*from, world.announce(*from, &[number], &[9], b"r")));
        let ids: Vec<_> = ids.collect();
        let preferred = ids
            .iter()
            .min_by_key(|(from, _)| (std::cmp::Reverse(preferences[usize::from(*from)]), *from));
        best.push(preferred.unwrap().1);
    }
    world.settle();
    for (number, id) in best.iter().enumerate() {
        assert_eq!(world.selected(9, &[number as u8]), Some(Some(*id)), "destination {number}");
    }
    let counters = world.status(0).counters;
    assert!(counters.selected >= 40, "{counters:?}");
    assert!(counters.select_runs < counters.selected, "{counters:?}");
    assert!(counters.orders_installed < 20, "{counters:?}");
}
