//! RIBs whose names are in a cluster: each finds what another was told, whoever of them and of the
//! cluster's nodes is gone, and what cannot be stored is not called stored.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use crate::cassandra::{Cassandra, Purpose, cluster};
use crate::harness::{Place, Run, Running, remote};
use crate::network::{DEADLINE, answers, start_router, wait_until};

pub(crate) fn with_cluster(test: impl FnOnce(&mut Cassandra)) {
    match cluster(Purpose::Programs) {
        Ok(mut cluster) => test(&mut cluster),
        Err(why) => eprintln!("skipped: {why}"),
    }
}

/// A RIB of its own key over this store.
fn start_rib(place: &Place, number: usize, store: &str, further: &[&str]) -> (Running, String) {
    start_rib_at(place, "127.0.0.1:0", number, store, further)
}

fn start_rib_at(
    place: &Place,
    address: &str,
    number: usize,
    store: &str,
    further: &[&str],
) -> (Running, String) {
    let key = format!("rib{number}.key");
    if !place.path(&key).exists() {
        place.keygen("rib", &key);
    }
    let arguments = ["rib", "--listen", address, "--key", &key, "--store", store];
    let mut rib = place.start(&[&arguments[..], further].concat());
    let ready = rib.next_object_within(DEADLINE);
    (rib, remote(&ready))
}

#[test]
fn any_rib_of_a_cluster_knows_what_another_was_told() {
    with_cluster(|cluster| {
        let place = Place::new();
        let store = cluster.address("shared").to_string();
        place.keygen("rib", "rib1.key");
        let arguments = ["rib", "--listen", "127.0.0.1:0", "--key", "rib1.key", "--store", &store];
        place.run(&arguments).is_refused_with(&["shared", "--create-schema"]);
        let (first, at_first) = start_rib(&place, 1, &store, &["--create-schema", "3"]);
        let (_second, at_second) = start_rib(&place, 2, &store, &[]);
        let (_one, one) = start_router(&place, "one.key", &[&at_first]);
        let (_other, other) = start_router(&place, "other.key", &[&at_first, &at_second]);
        let (_far, far) = start_router(&place, "far.key", &[&at_second]);
        let name = place.keygen("node", "mover.key");
        let receive =
            |router: &str| place.start(&["receive", "--key", "mover.key", "--router", router]);
        let mut before = receive(&one);
        before.next_object();
        wait_until("a name is found by another RIB", || answers(&place, &name, &far));
        // It moves, and the RIB that hears of it is not the one whose router asked.
        before.kill();
        let mut after = receive(&other);
        after.next_object();
        wait_until("it is found where it went", || answers(&place, &name, &far));
        // A RIB holds nothing that another lacks.
        first.kill();
        let (_third, at_third) = start_rib(&place, 3, &store, &[]);
        let (_late, late) = start_router(&place, "late.key", &[&at_third]);
        wait_until("it is found without the RIB that was told", || answers(&place, &name, &late));
        // A node of the cluster is gone.
        cluster.kill(1);
        let (_later, later) = start_router(&place, "later.key", &[&at_second]);
        wait_until("it is found without a node", || answers(&place, &name, &later));
    });
}

#[test]
fn without_a_quorum_nothing_is_called_stored_and_with_it_all_goes_on() {
    with_cluster(|cluster| {
        let place = Place::new();
        let store = cluster.address("lost").to_string();
        let (rib, at_rib) = start_rib(&place, 1, &store, &["--create-schema", "3"]);
        let (_router, router) = start_router(&place, "router.key", &[&at_rib]);
        let (_far, far) = start_router(&place, "far.key", &[&at_rib]);
        let mut known = place.start(&["receive", "--router", &router]);
        let known = known.next_object()["name"].as_str().unwrap().to_owned();
        wait_until("a name is found", || answers(&place, &known, &far));
        cluster.stop(0);
        cluster.stop(1);
        // The router tells whoever comes that it is not published.
        let name = place.keygen("node", "new.key");
        let mut fresh = place.start(&["receive", "--key", "new.key", "--router", &router]);
        rib.wait_for_error("store");
        let (_late, late) = start_router(&place, "late.key", &[&at_rib]);
        assert!(!answers(&place, &name, &late));
        cluster.go_on(0);
        cluster.go_on(1);
        fresh.next_object_within(DEADLINE);
        wait_until("it is found in the end", || answers(&place, &name, &late));
    });
}

/// Pings without end, and counts.
pub(crate) struct Pinger {
    ends: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    /// Returns what was said of pings without an answer.
    thread: JoinHandle<Vec<String>>,
}

impl Pinger {
    fn start(place: &Arc<Place>, name: &str, router: &str) -> Self {
        let (place, name, router) = (place.clone(), name.to_owned(), router.to_owned());
        Self::of(move || place.run(&["ping", &name, "--count", "1", "--router", &router]))
    }

    /// Runs what pings again and again.
    pub(crate) fn of(mut ping: impl FnMut() -> Run + Send + 'static) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let answered = Arc::new(AtomicUsize::new(0));
        let (is_over, count) = (ends.clone(), answered.clone());
        let run = move || {
            let mut unanswered = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let ping = ping();
                match ping.code {
                    0 => _ = count.fetch_add(1, Ordering::Relaxed),
                    _ => unanswered.push(ping.errors),
                }
            }
            unanswered
        };
        Self { ends, answered, thread: std::thread::spawn(run) }
    }

    /// Ends after some more pings, and every one was answered.
    pub(crate) fn end(self) {
        let until = self.answered.load(Ordering::Relaxed) + 3;
        let is_over = || self.thread.is_finished();
        wait_until("pings are answered", || {
            is_over() || self.answered.load(Ordering::Relaxed) >= until
        });
        self.ends.store(true, Ordering::Relaxed);
        assert_eq!(self.thread.join().unwrap(), [""; 0]);
    }
}

/// A router of a key that was made, at an address, told of these RIBs.
fn start_router_at(place: &Place, key: &str, address: &str, ribs: &[&str]) -> (Running, String) {
    let mut arguments = vec!["router", "--listen", address, "--key", key];
    ribs.iter().for_each(|rib| arguments.extend(["--rib", rib]));
    let mut router = place.start(&arguments);
    let ready = remote(&router.next_object());
    (router, ready)
}

/// Nobody knows where this name is.
pub(crate) fn is_absent(place: &Place, name: &str, router: &str) -> bool {
    let ping = place.run(&["ping", name, "--count", "1", "--router", router]);
    ping.code != 0 && ping.errors.contains("no way to")
}

#[test]
fn a_rib_moves_from_a_file_to_a_cluster_without_a_pause_and_brings_nothing_back() {
    with_cluster(|cluster| {
        let place = Arc::new(Place::new());
        let (old, at_old) = start_rib(&place, 1, "old.redb", &[]);
        for key in ["one.key", "two.key"] {
            place.keygen("router", key);
        }
        let (one, at_one) = start_router_at(&place, "one.key", "127.0.0.1:0", &[&at_old]);
        let (two, at_two) = start_router_at(&place, "two.key", "127.0.0.1:0", &[&at_old]);
        let receive = |key: &str, router: &str| {
            let arguments = ["receive", "--key", key, "--router", router];
            let mut node = place.start(&arguments);
            node.next_object();
            node
        };
        let made = ["a", "b", "gone", "late", "moved"];
        let names = made.map(|name| place.keygen("node", &format!("{name}.key")));
        let [a, b, gone, late, moved] = &names;
        let (_a, _b) = (receive("a.key", &at_one), receive("b.key", &at_two));
        let nodes = ["late.key", "gone.key", "moved.key"].map(|key| receive(key, &at_one));
        // What somebody starts again in the end.
        old.kill();
        fs::copy(place.path("old.redb"), place.path("stale.redb")).unwrap();
        let (_, address) = at_old.split_once('@').unwrap();
        let (old, _) = start_rib_at(&place, address, 1, "old.redb", &[]);
        // One leaves and says so, and one moves, while there is the file alone.
        let [left, leaves, moves] = nodes;
        leaves.end();
        moves.kill();
        let _moved = receive("moved.key", &at_two);

        let store = cluster.address("moving").to_string();
        let (_new, at_new) = start_rib(&place, 2, &store, &["--create-schema", "3"]);
        let (_far, far) = start_router(&place, "far.key", &[&at_old, &at_new]);
        // Each router in its turn, while names at the others are talked to.
        let pinger = Pinger::start(&place, b, &far);
        let _one = start_again(&place, one, "one.key", &at_one, &[&at_old, &at_new]);
        wait_until("a name is back at its router", || answers(&place, a, &far));
        pinger.end();
        let pinger = Pinger::start(&place, a, &far);
        let _two = start_again(&place, two, "two.key", &at_two, &[&at_old, &at_new]);
        wait_until("a name is back at its router", || answers(&place, b, &far));
        pinger.end();
        // One leaves while both are told.
        left.end();
        let (_new_only, at_new_only) = start_router(&place, "new.key", &[&at_new]);
        for name in [a, b, moved] {
            wait_until("it is found in the cluster", || answers(&place, name, &at_new_only));
        }
        let pingers = [a, b, moved].map(|name| Pinger::start(&place, name, &far));
        old.kill();
        pingers.into_iter().for_each(Pinger::end);
        let (_later, later) = start_router(&place, "later.key", &[&at_new]);
        assert!([a, b, moved].iter().all(|name| answers(&place, name, &later)));
        assert!([gone, late].iter().all(|name| is_absent(&place, name, &later)));

        // Somebody starts the old one again, with what its file was: routers that are told of both
        // believe what is newer, and bring none of it into the cluster.
        let (_back, at_back) = start_rib(&place, 1, "stale.redb", &[]);
        let (_both, both) = start_router(&place, "both.key", &[&at_back, &at_new]);
        wait_until("it is found where it went", || answers(&place, moved, &both));
        wait_until("who left stays away", || {
            [gone, late].iter().all(|name| !answers(&place, name, &both))
        });
        let (_last, last) = start_router(&place, "last.key", &[&at_new]);
        assert!([a, b, moved].iter().all(|name| answers(&place, name, &last)));
        assert!([gone, late].iter().all(|name| is_absent(&place, name, &last)));
    });
}

/// Starts a router again where it was, with other RIBs.
fn start_again(place: &Place, router: Running, key: &str, at: &str, ribs: &[&str]) -> Running {
    router.end();
    let (_, address) = at.split_once('@').unwrap();
    let (router, again) = start_router_at(place, key, address, ribs);
    assert_eq!(again, at);
    router
}

#[test]
fn a_store_that_is_none_is_refused_with_what_to_do() {
    let place = Place::new();
    place.keygen("rib", "rib.key");
    let start = |store: &str, further: &[&str]| {
        let arguments = ["rib", "--listen", "127.0.0.1:0", "--key", "rib.key", "--store", store];
        place.run(&[&arguments[..], further].concat())
    };
    start("cql://a/Rib", &[]).refused_by_the_command_line("name the keyspace after the nodes");
    start("cql://me:secret@a/rib", &[]).refused_by_the_command_line("put them in a file");
    start("cql://127.0.93.77:1/rib", &[]).is_refused_with(&["127.0.93.77:1"]);
    start("rib.redb", &["--create-schema", "3"]).is_refused_with(&["cql://HOST/KEYSPACE"]);
}
