//! Whatever one side announces and takes back, and whatever happens
//! meanwhile: once all is quiet, the other has the same.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use rhumb_bgp::config::GracefulRestart;
use rhumb_bgp::wire::Prefix;
use rhumb_bgp::{Attributes, Event, Family, FamilyConfig, State};

use crate::pair::{Pair, v4, v6, via_v4, via_v6};

#[derive(Debug, Clone)]
enum Step {
    Announce {
        is_v6: bool,
        number: u16,
        path: u32,
        by: u32,
    },
    Withdraw {
        is_v6: bool,
        number: u16,
        path: u32,
    },
    /// Some messages of one end arrive.
    Deliver {
        end: usize,
        messages: usize,
    },
    AskAgain {
        is_v6: bool,
    },
    Cut,
    Reset {
        end: usize,
    },
    Wait {
        seconds: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let number = 0..6u16;
    prop_oneof![
        6 => (any::<bool>(), number.clone(), 0..3u32, 1..4u32)
            .prop_map(|(is_v6, number, path, by)| Step::Announce { is_v6, number, path, by }),
        3 => (any::<bool>(), number, 0..3u32).prop_map(|(is_v6, number, path)| Step::Withdraw { is_v6, number, path }),
        4 => (0..2usize, 1..4usize).prop_map(|(end, messages)| Step::Deliver { end, messages }),
        1 => any::<bool>().prop_map(|is_v6| Step::AskAgain { is_v6 }),
        1 => Just(Step::Cut),
        1 => (0..2usize).prop_map(|end| Step::Reset { end }),
        1 => (0..100u64).prop_map(|seconds| Step::Wait { seconds }),
    ]
}

fn prefix(is_v6: bool, number: u16) -> Prefix {
    if is_v6 { v6(number) } else { v4(number) }
}

fn family(is_v6: bool) -> Family {
    if is_v6 { Family::Ipv6 } else { Family::Ipv4 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn both_sides_end_with_the_same(
        steps in prop::collection::vec(step(), 1..60),
        add_path: bool,
        graceful: bool,
        narrow: bool,
    ) {
        let mut pair = Pair::established(|left, right| {
            for config in [&mut *left, &mut *right] {
                let paths = FamilyConfig { add_path_send: true, add_path_receive: add_path, max_prefixes: None };
                config.set_family(Family::Ipv4, Some(paths));
                config.extended_messages = !narrow;
                if graceful {
                    let time = Duration::from_secs(60);
                    config.graceful_restart =
                        Some(GracefulRestart { restart_time: time, stale_time: time, restarting: true });
                }
            }
        });
        let mut wanted: BTreeMap<(Prefix, u32), Attributes> = BTreeMap::new();
        for step in steps {
            let now = pair.now;
            match step {
                Step::Announce { is_v6, number, path, by } => {
                    let attributes = if is_v6 { via_v6(&[64500, by]) } else { via_v4(&[64500, by]) };
                    pair.sessions[0].announce(prefix(is_v6, number), path, &attributes, now).unwrap();
                    wanted.insert((prefix(is_v6, number), if is_v6 { 0 } else { path }), attributes);
                }
                Step::Withdraw { is_v6, number, path } => {
                    let was_there = wanted.remove(&(prefix(is_v6, number), if is_v6 { 0 } else { path })).is_some();
                    prop_assert_eq!(pair.sessions[0].withdraw(prefix(is_v6, number), path, now), was_there);
                }
                Step::Deliver { end, messages } => pair.deliver(end, messages),
                Step::AskAgain { is_v6 } => {
                    pair.sessions[1].request_refresh(family(is_v6), now);
                }
                Step::Cut => pair.cut(),
                Step::Reset { end } => pair.sessions[end].reset("", now),
                Step::Wait { seconds } => pair.advance(Duration::from_secs(seconds)),
            }
        }
        // Long enough for each rest and for what is stale.
        pair.advance(Duration::from_secs(1000));
        prop_assert_eq!(pair.sessions[1].state(), State::Established);
        wanted.retain(|(prefix, path), _| add_path || *path == 0 || matches!(prefix, Prefix::V6(_)));
        let of = |family| pair.sessions[1].routes_in(family);
        let there: BTreeMap<_, _> = Family::ALL
            .into_iter()
            .flat_map(of)
            .map(|(prefix, path, attributes)| ((prefix, path), attributes.clone()))
            .collect();
        prop_assert_eq!(&there, &wanted);
        // The events say the same.
        let mut told = BTreeMap::new();
        for event in &pair.events[1] {
            match event {
                Event::Announced { prefix, path, attributes } => {
                    told.insert((*prefix, *path), attributes.clone());
                }
                Event::Withdrawn { prefix, path } => {
                    prop_assert!(told.remove(&(*prefix, *path)).is_some());
                }
                _ => {}
            }
        }
        prop_assert_eq!(&told, &wanted);
    }
}
