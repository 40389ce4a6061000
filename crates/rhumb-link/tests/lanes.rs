//! A session has eight lanes each way, and any of them may belong to a worker.

use std::time::Duration;

use pair::{Fate, Flying, Net};
use rhumb_link::{
    Cipher, Config, DropReason, Event, KEEP_ALIVE, Opened, PROBES, QUIET, SessionId, Taken,
    WatchPeers, WorkerLanes,
};
use rhumb_trust::Identity;
use rhumb_wire::Role;
use rhumb_wire::datagram::{LANES, RECORD_OVERHEAD, RecordHeader, SessionIndex};

use crate::pair;

const SECOND: Duration = Duration::from_secs(1);
/// What a silent peer costs at most, over and above the wait for the first probe.
const PROBING: Duration = Duration::from_millis(100 * PROBES as u64);

fn on_lane(lane: u8) -> Config {
    let mut config = Config::default();
    config.send_lane = lane;
    config
}

fn with_workers(workers: u8) -> Config {
    let mut config = Config::default();
    config.workers = workers;
    config
}

fn lane_of(flying: &Flying) -> u8 {
    RecordHeader::parse(&flying.bytes).expect("a record").index.lane()
}

/// The workers of a host, worker 1 first.
struct Workers {
    host: usize,
    lanes: Vec<WorkerLanes>,
}

impl Workers {
    fn new(host: usize, workers: u8) -> Self {
        let lanes = (1..workers).map(|_| WorkerLanes::new(Cipher::Aes256Gcm)).collect();
        Self { host, lanes }
    }

    /// Takes what the endpoint has for them.
    fn update(&mut self, net: &mut Net) {
        while let Some((worker, update)) = net.hosts[self.host].endpoint.poll_update() {
            self.lanes[worker - 1].update(update, net.now);
        }
    }

    fn seal(&mut self, net: &Net, worker: usize, session: SessionId, text: &[u8]) -> Flying {
        let mut bytes = vec![0; text.len() + RECORD_OVERHEAD];
        bytes[RecordHeader::LEN..][..text.len()].copy_from_slice(text);
        let lanes = &mut self.lanes[worker - 1];
        let to = lanes.seal(session, &mut bytes, net.now).expect("sealed");
        Flying { from: net.hosts[self.host].address, to, bytes }
    }

    fn open(
        &mut self,
        net: &Net,
        worker: usize,
        flying: &Flying,
    ) -> (Result<Taken, DropReason>, Vec<u8>) {
        let mut bytes = flying.bytes.clone();
        let taken = self.lanes[worker - 1].open(flying.from, &mut bytes, net.now);
        (taken, bytes)
    }
}

/// A pair of which host 1 has two workers, and host 0 sends on a lane of the second.
fn shared() -> (Net, Workers, SessionId, SessionId) {
    let mut net = Net::pair_with(on_lane(1), with_workers(2));
    let (a, b) = net.establish();
    let mut workers = Workers::new(1, 2);
    workers.update(&mut net);
    (net, workers, a, b)
}

#[test]
fn all_eight_lanes_carry_both_ways() {
    for lane in 0..LANES {
        let mut net = Net::pair_with(on_lane(lane), on_lane(LANES - 1 - lane));
        let (a, b) = net.establish();
        assert_eq!(lane_of(&net.seal(0, a, b"x").unwrap()), lane);
        assert_eq!(lane_of(&net.seal(1, b, b"x").unwrap()), LANES - 1 - lane);
        net.assert_carries("on its lane");
        net.run(120 * SECOND);
        net.assert_carries("an epoch later");
    }
}

#[test]
fn each_lane_has_its_own_counter_and_window() {
    let mut net = Net::pair_with(with_workers(LANES), Config::default());
    let (a, _) = net.establish();
    let mut workers = Workers::new(0, LANES);
    workers.update(&mut net);
    let mut sent = vec![net.seal(0, a, b"lane 0").unwrap()];
    for worker in 1..LANES {
        sent.push(workers.seal(&net, worker.into(), a, format!("lane {worker}").as_bytes()));
    }
    for (lane, flying) in sent.iter().enumerate() {
        assert_eq!(usize::from(lane_of(flying)), lane);
        assert_eq!(net.deliver(flying), Ok(()));
        assert_eq!(net.deliver(flying), Err(DropReason::Replayed), "lane {lane}");
    }
    let texts: Vec<&[u8]> = net.hosts[1].received.iter().map(|(_, text)| &text[..]).collect();
    let expected: Vec<String> = (0..LANES).map(|lane| format!("lane {lane}")).collect();
    assert_eq!(texts, expected.iter().map(String::as_bytes).collect::<Vec<_>>());
    // Lost on one lane, and the others go on.
    for _ in 0..5000 {
        workers.seal(&net, 3, a, b"lost");
    }
    for worker in [3, 4] {
        assert_eq!(net.deliver(&workers.seal(&net, worker, a, b"after")), Ok(()));
    }
}

#[test]
fn a_record_moved_to_another_lane_is_refused_and_leaves_nothing_behind() {
    let mut net = Net::pair();
    let (a, _) = net.establish();
    let good = net.seal(0, a, b"good").unwrap();
    for lane in 1..LANES {
        let mut forged = good.clone();
        forged.bytes[3] |= lane;
        for _ in 0..3 {
            assert_eq!(net.deliver(&forged), Err(DropReason::BadSeal));
        }
    }
    assert_eq!(net.deliver(&good), Ok(()));
}

#[test]
fn a_lane_moves_to_its_worker_once_and_is_nowhere_else() {
    let (mut net, mut workers, a, b) = shared();
    assert!(workers.lanes[0].can_send(b));
    let flying = net.seal(0, a, b"for worker 1").unwrap();
    assert_eq!(lane_of(&flying), 1);
    assert_eq!(net.hosts[1].endpoint.worker_of(&flying.bytes), Some(1));
    assert_eq!(net.deliver(&flying), Err(DropReason::UnknownSession));
    let (taken, bytes) = workers.open(&net, 1, &flying);
    match taken {
        Ok(Taken::Pdu(Opened { session, plaintext, .. }, _)) => {
            assert_eq!((session, &bytes[plaintext]), (b, &b"for worker 1"[..]));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(workers.open(&net, 1, &flying).0, Err(DropReason::Replayed));
    // What was opened here before the lane went is remembered there: its window went with it.
    let greeting =
        net.sent.iter().find(|it| pair::is_record(&it.bytes) && it.from == net.hosts[0].address);
    let greeting = greeting.cloned().expect("the first record");
    assert_eq!(workers.open(&net, 1, &greeting).0, Err(DropReason::Replayed));
    // Lanes of others are not its business, whoever asks.
    let mut other = flying.clone();
    other.bytes[3] ^= 1;
    assert_eq!(workers.open(&net, 1, &other).0, Ok(Taken::NotOurs));
    let mut nobody = flying;
    nobody.bytes[..4].copy_from_slice(&(0x8000_0000 | SessionIndex::MAX).to_be_bytes());
    assert_eq!(workers.open(&net, 1, &nobody).0, Ok(Taken::NotOurs));
}

#[test]
fn a_worker_sends_under_the_keys_of_its_own_lane() {
    let (mut net, mut workers, _, b) = shared();
    let flying = workers.seal(&net, 1, b, b"from worker 1");
    assert_eq!(lane_of(&flying), 1);
    assert_eq!(net.deliver(&flying), Ok(()));
    assert_eq!(net.hosts[0].received.last().unwrap().1, b"from worker 1");
}

#[test]
fn closes_and_moves_on_a_workers_lane_reach_the_endpoint() {
    let (mut net, mut workers, a, b) = shared();
    // From elsewhere: the endpoint asks there, and the answer moves the session.
    net.hosts[0].address.set_port(4999);
    let moved = net.hosts[0].address;
    for _ in 0..3 {
        let flying = net.seal(0, a, b"from elsewhere").unwrap();
        hand_over(&mut net, &mut workers, &flying);
        net.collect(1);
        net.run(SECOND / 5);
        // Path answers of host 0 travel on its lane too.
        let answers: Vec<Flying> = net
            .sent
            .iter()
            .filter(|it| it.from == moved && it.bytes[0] >> 4 == 0xD)
            .cloned()
            .collect();
        for answer in answers {
            hand_over(&mut net, &mut workers, &answer);
        }
        net.collect(1);
        workers.update(&mut net);
    }
    assert_eq!(net.hosts[1].endpoint.peer(b).unwrap().address, moved);
    assert_eq!(workers.seal(&net, 1, b, b"there").to, moved);
    // From there it is usual now.
    let flying = net.seal(0, a, b"usual").unwrap();
    assert!(matches!(workers.open(&net, 1, &flying).0, Ok(Taken::Pdu(..))));

    net.hosts[0].endpoint.close(a, net.now);
    let before = net.sent.len();
    net.collect(0);
    let close = net.sent[before].clone();
    hand_over(&mut net, &mut workers, &close);
    net.collect(1);
    assert!(net.take_events(1).iter().any(|event| matches!(event, Event::Closed { .. })));
    workers.update(&mut net);
    assert!(!workers.lanes[0].can_send(b));
    assert_eq!(workers.open(&net, 1, &flying).0, Ok(Taken::NotOurs));
}

/// A record that worker 1 opens and hands to its endpoint.
fn hand_over(net: &mut Net, workers: &mut Workers, flying: &Flying) {
    if let (Ok(Taken::Rare(record)), bytes) = workers.open(net, 1, flying) {
        let now = net.now;
        net.hosts[1].endpoint.take_opened(flying.from, &bytes, &record, now).expect("taken");
    }
}

#[test]
fn a_session_lives_by_its_workers_reports_and_ends_without() {
    for reports in [true, false] {
        let (mut net, mut workers, a, b) = shared();
        for _ in 0..40 {
            if net.find_session(1, 0).is_none() {
                break;
            }
            let flying = net.seal(0, a, b"alive").unwrap();
            assert!(workers.open(&net, 1, &flying).0.is_ok());
            let ours = workers.seal(&net, 1, b, b"and so are we");
            assert_eq!(net.deliver(&ours), Ok(()));
            let report = workers.lanes[0].report(net.now);
            assert!(!report.is_empty());
            if reports {
                net.hosts[1].endpoint.take_report(&report);
            }
            net.run(SECOND);
        }
        assert_eq!(net.find_session(1, 0).is_some(), reports);
        assert!(workers.lanes[0].report(net.now).is_empty());
    }
}

#[test]
fn a_renewed_session_has_new_lanes_and_keeps_the_old_for_a_while() {
    let (mut net, mut workers, a, b) = shared();
    let late = net.seal(0, a, b"under the old keys").unwrap();
    let old = workers.seal(&net, 1, b, b"old");
    net.connect(0, 1);
    net.run(SECOND);
    workers.update(&mut net);
    assert_eq!((net.session(0, 1), net.session(1, 0)), (a, b));
    let new = workers.seal(&net, 1, b, b"new");
    assert_ne!(old.bytes[..4], new.bytes[..4]);
    assert_eq!((net.deliver(&new), net.deliver(&old)), (Ok(()), Ok(())));
    let fresh = net.seal(0, a, b"under the new keys").unwrap();
    for flying in [&late, &fresh] {
        assert!(matches!(workers.open(&net, 1, flying).0, Ok(Taken::Pdu(..))));
    }
    let (unopened, report) = (net.seal(0, a, b"").unwrap(), workers.lanes[0].report(net.now));
    net.hosts[1].endpoint.take_report(&report);
    for _ in 0..25 {
        let flying = net.seal(0, a, b"alive").unwrap();
        assert!(workers.open(&net, 1, &flying).0.is_ok());
        let report = workers.lanes[0].report(net.now);
        net.hosts[1].endpoint.take_report(&report);
        net.run(SECOND);
    }
    workers.update(&mut net);
    assert!(matches!(workers.open(&net, 1, &unopened).0, Ok(Taken::Pdu(..))));
    assert_eq!(workers.open(&net, 1, &late).0, Ok(Taken::NotOurs));
}

#[test]
fn a_watched_router_is_asked_when_only_a_worker_sends_to_it() {
    let mut net = Net::new();
    net.add_identity(Identity::generate(Role::Router, 1).expect("a key").into(), on_lane(1));
    let mut watching = with_workers(2);
    watching.watch_peers = WatchPeers::Routers;
    net.add(watching);
    let (_, b) = net.establish();
    let mut workers = Workers::new(1, 2);
    workers.update(&mut net);
    // Idle until the next keep-alive; then there is traffic that the endpoint has to be told of.
    net.run(KEEP_ALIVE * 3);
    net.set_fate(|_, _| Fate::Lost);
    let cut = net.now;
    while net.find_session(1, 0).is_some() {
        workers.seal(&net, 1, b, b"into the void");
        net.run(SECOND / 10);
        let report = workers.lanes[0].report(net.now);
        net.hosts[1].endpoint.take_report(&report);
    }
    let took = net.now - cut;
    assert!(took <= QUIET + PROBING + 2 * SECOND / 10, "{took:?}");
}

#[test]
fn an_endpoint_that_watches_everybody_keeps_its_lanes() {
    let mut watching = with_workers(4);
    watching.watch_peers = WatchPeers::Everybody;
    let mut net = Net::pair_with(on_lane(1), watching);
    net.establish();
    assert!(net.hosts[1].endpoint.poll_update().is_none());
    net.assert_carries("on lane 1");
}
