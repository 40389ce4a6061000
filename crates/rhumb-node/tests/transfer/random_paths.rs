//! On any path that delivers anything at all, the file arrives
//! whole, at a bounded cost, and both ends know.

use std::time::Duration;

use proptest::prelude::*;
use rhumb_wire::nack::Reason;

use super::pair::{Fate, Pair, Path, Random, file};

fn any_path() -> impl Strategy<Value = Path> {
    let bottleneck = prop::option::of((50_000u64..50_000_000, 5_000u64..500_000));
    let delay_us = prop_oneof![20u64..500, 500u64..20_000, 20_000u64..150_000];
    (any::<u64>(), delay_us, 0u64..30_000, 0u64..=300, 0u64..=100, bottleneck).prop_map(
        |(seed, delay_us, jitter_us, loss, doubling, bottleneck)| Path {
            seed,
            delay: Duration::from_micros(delay_us),
            jitter: Duration::from_micros(jitter_us),
            loss,
            doubling,
            bottleneck,
        },
    )
}

fn any_reason() -> impl Strategy<Value = Reason> {
    prop_oneof![
        (0u16..60).prop_map(Reason::NotYet),
        (0u16..60).prop_map(Reason::Unreachable),
        (0u16..60).prop_map(Reason::Overloaded),
        (600u16..1300).prop_map(Reason::TooBig),
        Just(Reason::BadCertificate),
        Just(Reason::TtlExceeded),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arrives_whole(path in any_path(), len in 0usize..150_000, window in 20_000u32..400_000) {
        let content = file(len, path.seed);
        let mut pair = Pair::in_memory(&content, path.clone());
        pair.receiver_config.window = window;
        let report = pair.run_and_compare(&content);
        let ideal = (len as f64 + 1200.0) / (1.0 - path.loss as f64 / 1000.0);
        prop_assert!((report.sent as f64) < ideal * 2.0 + 40_000.0, "{report:?}");
    }

    #[test]
    fn arrives_whole_past_refusals(
        path in any_path(),
        len in 0usize..60_000,
        reasons in prop::collection::vec(any_reason(), 1..5),
        refused in 0u64..100,
    ) {
        let content = file(len, path.seed);
        let mut random = Random(!path.seed);
        let mut pair = Pair::in_memory(&content, path);
        pair.switch = Box::new(move |_, _, bytes| {
            if !random.of_a_thousand(refused) {
                return Fate::Forward;
            }
            match reasons[random.below(reasons.len() as u64) as usize] {
                Reason::TooBig(len) if bytes.len() < len.into() => Fate::Forward,
                reason => Fate::Refuse(reason),
            }
        });
        pair.run_and_compare(&content);
    }
}
