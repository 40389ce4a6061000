//! Nodes that die, stop, fill up, or cannot reach each other: what was acknowledged is there and
//! stays, answers go on where more than half of the nodes are, and where they are not the error
//! says so.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rhumb_cql::{Cluster, CqlAddress, Options};
use rhumb_rib::RibError;
use rhumb_wire::Name;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::cassandra::Cassandra;
use crate::world::{Holder, connect, now_s, with_cluster};

/// Publications without end, and what was acknowledged of them.
struct Load {
    ends: Arc<AtomicBool>,
    publishers: JoinSet<Published>,
}

#[derive(Default)]
struct Published {
    /// The highest sequence of each name that was acknowledged.
    acknowledged: BTreeMap<Name, u64>,
    errors: Vec<RibError>,
    read_errors: Vec<RibError>,
}

impl Load {
    /// Publishers through two servers, each of some names, ever newer.
    async fn begin(cluster: &Cassandra) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let mut publishers = JoinSet::new();
        for server in [connect(cluster).await, connect(cluster).await] {
            for _ in 0..4 {
                publishers.spawn(publish(server.clone(), ends.clone()));
            }
        }
        Self { ends, publishers }
    }

    async fn end(self) -> Published {
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

async fn publish(server: Cluster, ends: Arc<AtomicBool>) -> Published {
    let holders: Vec<Holder> = (0..5).map(|_| Holder::new()).collect();
    let mut published = Published::default();
    let mut sequence = 0;
    while !ends.load(Ordering::Relaxed) {
        sequence += 1;
        let changes: Vec<_> = holders.iter().map(|it| it.change(&it.route(sequence))).collect();
        match server.commit(&changes).await {
            Ok(hidden) => {
                assert_eq!(hidden, [], "each is newer than the one before");
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
    async fn check(&self, server: &Cluster) {
        assert!(self.acknowledged.len() >= 20, "{:?}", self.errors);
        for (name, acknowledged) in &self.acknowledged {
            let entry = server.entry(name).await.expect("an answer").expect("an entry");
            let route = entry.route(now_s()).expect("a route").sequence;
            assert!(route >= *acknowledged, "{name}: {route}, {acknowledged} acknowledged");
        }
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
        published.check(&connect_without(cluster, 0).await).await;
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
        // The one that is left is on the other side of the partition.
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
        publishers.spawn(publish(server.clone(), ends.clone()));
        Self { ends, publishers }
    }
}

/// A file system of its own, which ends with this.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Takes the place of a folder and has what was in it; `None` without the right to mount.
    fn over(folder: &Path) -> Option<Self> {
        let kept = folder.with_extension("kept");
        run(Command::new("cp").arg("-a").args([folder, &kept])).then_some(())?;
        let options = ["-t", "tmpfs", "-o", "size=160m", "tmpfs"];
        run(Command::new("mount").args(options).arg(folder)).then_some(())?;
        let disk = Self(folder.to_owned());
        run(Command::new("cp").arg("-a").arg(kept.join(".")).arg(folder)).then_some(disk)
    }

    /// Leaves no room at all.
    fn fill(&self) {
        let mut dd = Command::new("dd");
        dd.args(["if=/dev/zero", "bs=64k"]).arg(format!("of={}", self.0.join("filler").display()));
        assert!(!run(&mut dd), "it ends for want of room");
    }

    fn clear(&self) {
        std::fs::remove_file(self.0.join("filler")).expect("removed");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        run(Command::new("umount").arg("--lazy").arg(&self.0));
    }
}

fn run(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

#[test]
fn a_node_without_room_costs_no_answer_and_nothing_that_was_stored() {
    with_cluster(async |cluster| {
        cluster.kill(2);
        let Some(disk) = SmallDisk::over(&cluster.data_folder(2)) else {
            println!("skipped: no right to mount a small disk");
            return;
        };
        cluster.start_node(2);
        cluster.settle();
        disk.fill();
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
        assert!(noticed, "the node went on without room");
        assert!(published.errors.is_empty(), "{:?}", published.errors);
        assert!(published.read_errors.is_empty(), "{:?}", published.read_errors);
        published.check(&connect_without(cluster, 2).await).await;
        disk.clear();
        cluster.kill(2);
        cluster.start_node(2);
        cluster.settle();
        cluster.stop(0);
        published.check(&connect_without(cluster, 0).await).await;
        cluster.go_on(0);
        // Its disk is gone with the test; it comes back with what it had before, and is told the
        // rest.
        cluster.kill(2);
    });
}

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

/// A server that is told of the other nodes alone.
async fn connect_without(cluster: &Cassandra, node: usize) -> Cluster {
    let address = cluster.address(crate::world::KEYSPACE);
    let nodes: Vec<String> = address.nodes().to_vec();
    let nodes = nodes.iter().enumerate().filter(|(at, _)| *at != node).map(|(_, it)| it.as_str());
    let nodes = nodes.collect::<Vec<_>>().join(",");
    let address: CqlAddress =
        format!("cql://{nodes}/{}", address.keyspace()).parse().expect("an address");
    Cluster::connect(&address, Options::default()).await.expect("a connection")
}
