//! Nodes that die, stop, or fill up: what was acknowledged is there and
//! stays, answers go on where more than half of the nodes are, and where they are not the error
//! says so.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rhumb_cql::Cluster;
use rhumb_rib::{Entry, RibError};
use rhumb_wire::Name;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::cassandra::Cassandra;
use crate::world::{Holder, KEYSPACE, connect, connect_to, now_s, with_cluster};

/// Publications without end, and what was acknowledged of them.
pub(crate) struct Load {
    ends: Arc<AtomicBool>,
    publishers: JoinSet<Published>,
}

#[derive(Default)]
pub(crate) struct Published {
    /// The highest sequence of each name that was acknowledged.
    acknowledged: BTreeMap<Name, u64>,
    pub(crate) errors: Vec<RibError>,
    pub(crate) read_errors: Vec<RibError>,
}

impl Load {
    /// Publishers through two servers, each of some names, ever newer. It has begun when each of
    /// them was acknowledged something, which takes a busy machine seconds.
    pub(crate) async fn begin(cluster: &Cassandra) -> Self {
        let (ends, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let mut publishers = JoinSet::new();
        for server in [connect(cluster).await, connect(cluster).await] {
            for _ in 0..4 {
                publishers.spawn(publish(server.clone(), ends.clone(), begun.clone()));
            }
        }
        for _ in 0..MOST_WAITS {
            if begun.load(Ordering::Relaxed) == publishers.len() {
                break;
            }
            sleep(Duration::from_millis(100)).await;
        }
        Self { ends, publishers }
    }

    pub(crate) async fn end(self) -> Published {
        self.ends.store(true, Ordering::Relaxed);
        let mut all = Published::default();
        for published in self.publishers.join_all().await {
            all.acknowledged.extend(published.acknowledged);
            all.errors.extend(published.errors);
            all.read_errors.extend(published.read_errors);
        }
        all
    }
}

async fn publish(server: Cluster, ends: Arc<AtomicBool>, begun: Arc<AtomicUsize>) -> Published {
    let holders: Vec<Holder> = (0..5).map(|_| Holder::new()).collect();
    let mut published = Published::default();
    let mut sequence = 0;
    while !ends.load(Ordering::Relaxed) {
        sequence += 1;
        let changes: Vec<_> = holders.iter().map(|it| it.change(&it.route(sequence))).collect();
        match server.commit(&changes).await {
            Ok(hidden) => {
                assert_eq!(hidden, [], "each is newer than the one before");
                if published.acknowledged.is_empty() {
                    begun.fetch_add(1, Ordering::Relaxed);
                }
                let names = holders.iter().map(|it| (it.name(), sequence));
                published.acknowledged.extend(names);
            }
            Err(error) => published.errors.push(error),
        }
        let name = holders[sequence as usize % holders.len()].name();
        if let Err(error) = server.entry(&name).await {
            published.read_errors.push(error);
        }
        sleep(Duration::from_millis(20)).await;
    }
    published
}

impl Published {
    /// Everything that was acknowledged is there, or something newer.
    pub(crate) async fn check(&self, server: &Cluster) {
        assert!(self.acknowledged.len() >= 20, "{:?}", self.errors);
        for (name, acknowledged) in &self.acknowledged {
            let entry = patiently(server, name).await.expect("an entry");
            let route = entry.route(now_s()).expect("a route").sequence;
            assert!(route >= *acknowledged, "{name}: {route}, {acknowledged} acknowledged");
        }
    }
}

/// What is stored, however slow nodes are that have just come back on a busy machine.
async fn patiently(server: &Cluster, name: &Name) -> Option<Entry> {
    let mut tries = 0;
    loop {
        match server.entry(name).await {
            Ok(entry) => return entry,
            Err(error) => assert!(tries < MOST_TRIES, "{error}"),
        }
        tries += 1;
        sleep(Duration::from_millis(500)).await;
    }
}

#[test]
fn a_node_killed_under_load_costs_no_answer_and_comes_back_with_nothing_older() {
    with_cluster(async |cluster| {
        let load = Load::begin(cluster).await;
        sleep(Duration::from_secs(2)).await;
        cluster.kill(1);
        sleep(Duration::from_secs(5)).await;
        let published = load.end().await;
        assert!(published.errors.is_empty(), "{:?}", published.errors);
        assert!(published.read_errors.is_empty(), "{:?}", published.read_errors);
        published.check(&connect(cluster).await).await;
        cluster.start_node(1);
        cluster.settle();
        // Quorums of the one that was away and one other.
        cluster.stop(0);
        published.check(&connect_to(&cluster.address_of(&[1, 2], KEYSPACE)).await).await;
        cluster.go_on(0);
    });
}

#[test]
fn what_was_acknowledged_outlives_all_nodes_killed_at_once() {
    with_cluster(async |cluster| {
        let load = Load::begin(cluster).await;
        sleep(Duration::from_secs(2)).await;
        (0..3).for_each(|node| cluster.kill(node));
        sleep(Duration::from_millis(500)).await;
        let published = load.end().await;
        (0..3).for_each(|node| cluster.start_node(node));
        cluster.settle();
        published.check(&connect(cluster).await).await;
    });
}

#[test]
fn a_node_that_stands_still_costs_no_answer() {
    with_cluster(async |cluster| {
        let load = Load::begin(cluster).await;
        sleep(Duration::from_secs(1)).await;
        cluster.stop(2);
        sleep(Duration::from_secs(6)).await;
        cluster.go_on(2);
        let published = load.end().await;
        assert!(published.errors.is_empty(), "{:?}", published.errors);
        assert!(published.read_errors.is_empty(), "{:?}", published.read_errors);
        published.check(&connect(cluster).await).await;
    });
}

#[test]
fn without_a_quorum_nothing_is_acknowledged_and_the_error_says_so() {
    with_cluster(async |cluster| {
        let server = connect(cluster).await;
        let holder = Holder::new();
        server.commit(&[holder.change(&holder.route(1))]).await.unwrap();
        cluster.stop(1);
        cluster.stop(2);
        let written = server.commit(&[holder.change(&holder.route(2))]).await;
        let read = server.entry(&holder.name()).await;
        let mut load = Load::begin_with(&server);
        sleep(Duration::from_secs(4)).await;
        load.ends.store(true, Ordering::Relaxed);
        let mut of_load = Vec::new();
        while let Some(published) = load.publishers.join_next().await {
            of_load.push(published.unwrap());
        }
        [1, 2].iter().for_each(|node| cluster.go_on(*node));
        let is_told = |error: &RibError| {
            matches!(error, RibError::StoreTooSlow { .. } | RibError::StoreWithoutQuorum { .. })
        };
        assert!(written.as_ref().is_err_and(is_told), "{written:?}");
        assert!(read.as_ref().is_err_and(is_told), "{read:?}");
        assert!(of_load.iter().all(|it| it.acknowledged.is_empty() && !it.errors.is_empty()));
        assert!(of_load.iter().flat_map(|it| &it.errors).all(is_told));
        cluster.settle();
        // Answers go on, and what was written without an acknowledgement may be there or not.
        let server = connect(cluster).await;
        let entry = server.entry(&holder.name()).await.unwrap().unwrap();
        assert!([1, 2].contains(&entry.route(now_s()).unwrap().sequence));
        server.commit(&[holder.change(&holder.route(3))]).await.unwrap();
    });
}

impl Load {
    fn begin_with(server: &Cluster) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let mut publishers = JoinSet::new();
        publishers.spawn(publish(server.clone(), ends.clone(), Arc::default()));
        Self { ends, publishers }
    }
}

/// Leaves no room at all on a disk.
fn fill(disk: &Path) {
    let mut dd = Command::new("dd");
    dd.args(["if=/dev/zero", "bs=64k"]).arg(format!("of={}", disk.join(FILLER).display()));
    assert!(dd.output().is_ok_and(|output| !output.status.success()), "it ends for want of room");
}

#[test]
fn a_node_without_room_costs_no_answer_and_nothing_that_was_stored() {
    with_cluster(async |cluster| {
        let Some(disk) = cluster.small_disk() else {
            println!("skipped: no right to mount a small disk");
            return;
        };
        fill(&disk);
        let load = Load::begin(cluster).await;
        // Until the node has noticed: its log of commits needs a new file.
        let large = Load::large(&connect(cluster).await);
        for _ in 0..120 {
            if cluster.is_silent(2) {
                break;
            }
            sleep(Duration::from_millis(500)).await;
        }
        let noticed = cluster.is_silent(2);
        large.end().await;
        let published = load.end().await;
        std::fs::remove_file(disk.join(FILLER)).expect("removed");
        cluster.kill(2);
        assert!(noticed, "the node went on without room");
        assert!(published.errors.is_empty(), "{:?}", published.errors);
        assert!(published.read_errors.is_empty(), "{:?}", published.read_errors);
        published.check(&connect_to(&cluster.address_of(&[0, 1], KEYSPACE)).await).await;
        cluster.start_node(2);
        cluster.settle();
        cluster.stop(0);
        published.check(&connect_to(&cluster.address_of(&[1, 2], KEYSPACE)).await).await;
        cluster.go_on(0);
    });
}

const FILLER: &str = "filler";
/// A minute of tenths of seconds; then the test says what was acknowledged.
const MOST_WAITS: usize = 600;
const MOST_TRIES: usize = 20;

impl Load {
    /// So much that logs of commits fill up.
    fn large(server: &Cluster) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let mut publishers = JoinSet::new();
        for _ in 0..2 {
            let (server, ends) = (server.clone(), ends.clone());
            publishers.spawn(async move {
                while !ends.load(Ordering::Relaxed) {
                    let holders: Vec<Holder> = (0..100).map(|_| Holder::new()).collect();
                    let changes: Vec<_> =
                        holders.iter().map(|it| it.change(&it.route(1))).collect();
                    let _ = server.commit(&changes).await;
                }
                Published::default()
            });
        }
        Self { ends, publishers }
    }
}
