//! RIBs whose names are in a cluster: each finds what another was told, whoever of them and of the
//! cluster's nodes is gone, and what cannot be stored is not called stored.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::time::Duration;

use crate::cassandra::{Cassandra, cluster};
use crate::harness::{Place, Running, remote};
use crate::rib_store::{answers, start_router, wait_until};

/// Far less than a lease of ten minutes.
const DEADLINE: Duration = Duration::from_secs(120);

fn with_cluster(test: impl FnOnce(&mut Cassandra)) {
    match cluster() {
        Ok(mut cluster) => test(cluster.as_mut().expect("a cluster")),
        Err(why) => eprintln!("skipped: {why}"),
    }
}

/// A RIB of its own key over this store.
fn start_rib(place: &Place, number: usize, store: &str, further: &[&str]) -> (Running, String) {
    let key = format!("rib{number}.key");
    if !place.path(&key).exists() {
        place.keygen("rib", &key);
    }
    let arguments = ["rib", "--listen", "127.0.0.1:0", "--key", &key, "--store", store];
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
