//! No nonce is used twice: for each key, counters differ. A key is told by its two ends, the
//! receiver's index and the epoch.

#![allow(clippy::unwrap_used)] // A test may.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;

use pair::{Net, is_record};
use proptest::prelude::*;
use rhumb_link::EPOCH_LIFETIME;
use rhumb_wire::datagram::RecordHeader;

use crate::pair;

#[derive(Debug, Clone)]
enum Step {
    Seal(usize, u8),
    Wait(u16),
    Epoch,
    Connect(usize),
    Close(usize),
    Restart(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0usize..2, 1u8..50).prop_map(|(host, count)| Step::Seal(host, count)),
        4 => (0u16..2000).prop_map(Step::Wait),
        2 => Just(Step::Epoch),
        2 => (0usize..2).prop_map(Step::Connect),
        1 => (0usize..2).prop_map(Step::Close),
        1 => (0usize..2).prop_map(Step::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn counters_of_one_key_differ(steps in prop::collection::vec(step(), 1..40)) {
        let mut net = Net::new();
        let identities = [pair::identity(), pair::identity()];
        for identity in &identities {
            net.add_identity(identity.clone(), rhumb_link::Config::default());
        }
        let (mut sealed, mut restarts) = (Vec::new(), 0);
        net.establish();
        for step in steps {
            match step {
                Step::Seal(host, count) => for _ in 0..count {
                    let Some(session) = net.find_session(host, 1 - host) else { break };
                    sealed.push(net.seal(host, session, b"").unwrap());
                },
                Step::Wait(ms) => net.run(Duration::from_millis(u64::from(ms))),
                Step::Epoch => net.run(EPOCH_LIFETIME),
                Step::Connect(host) => { net.connect(host, 1 - host); }
                Step::Close(host) => if let Some(session) = net.find_session(host, 1 - host) {
                    let now = net.now;
                    net.hosts[host].endpoint.close(session, now);
                    net.collect(host);
                },
                // As after a crash: nothing is remembered. Elsewhere, so
                // that keys are told apart by addresses.
                Step::Restart(host) => {
                    restarts += 1;
                    let identity = identities[host].clone();
                    let reborn = net.add_identity(identity, rhumb_link::Config::default());
                    let mut reborn = net.hosts.remove(reborn);
                    reborn.address = SocketAddr::from(([198, 51, 100, restarts], 4000));
                    net.hosts[host] = reborn;
                }
            }
        }
        let mut seen = HashSet::new();
        let on_the_wire = net.sent.iter().filter(|flying| is_record(&flying.bytes));
        for flying in sealed.iter().chain(on_the_wire) {
            let header = RecordHeader::parse(&flying.bytes).unwrap();
            prop_assert!(
                seen.insert((flying.from, flying.to, header.index, header.counter)),
                "a counter was used twice: {:?}",
                header
            );
        }
    }
}
