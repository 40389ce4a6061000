//! What is wrong with a store is said before it is used: tables, nodes, clocks; and what is too
//! much at once is refused at once.

use std::time::Duration;

use rhumb_cql::{Cluster, CqlAddress, Credentials, Options, Replication};
use rhumb_rib::RibError;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::cassandra::{Cassandra, USER};
use crate::world::{Holder, connect, connect_to, now_s, options, with_cluster};

/// Newer than what any node writes: the clock of one of them is ahead while another test runs.
const LATER_US: u64 = 3600 * 1_000_000;

async fn session(cluster: &Cassandra) -> Session {
    let address = cluster.address("none");
    let session = SessionBuilder::new().known_nodes(address.nodes()).user(USER, USER);
    session.build().await.expect("a connection")
}

async fn check(cluster: &Cassandra, keyspace: &str) -> Result<(), RibError> {
    connect_to(&cluster.address(keyspace)).await.check_schema().await
}

#[test]
fn tables_are_made_once_by_whoever_comes_first_and_those_of_others_are_named() {
    with_cluster(async |cluster| {
        const OTHER: &str = "other";
        let missing = check(cluster, OTHER).await;
        let Err(RibError::SchemaMissing { keyspace }) = &missing else { panic!("{missing:?}") };
        assert_eq!(keyspace, OTHER);
        assert!(missing.unwrap_err().to_string().contains("--create-schema"));
        let server = connect_to(&cluster.address(OTHER)).await;
        server.create_schema(&Replication::Nodes(1)).await.unwrap();
        server.create_schema(&Replication::Nodes(1)).await.unwrap();
        check(cluster, OTHER).await.unwrap();
        let session = session(cluster).await;
        let mut at_us = LATER_US + now_s() * 1_000_000;
        let mut write = async |version: i32| {
            at_us += 1;
            let write = format!(
                "UPDATE {OTHER}.format USING TIMESTAMP {at_us} SET version = {version} WHERE part = 0"
            );
            session.query_unpaged(write, ()).await.unwrap();
        };
        for (found, is_told) in [(99, true), (0, false)] {
            write(found).await;
            match check(cluster, OTHER).await {
                Err(RibError::SchemaNewer { found: it, .. }) if is_told => assert_eq!(it, found),
                Err(RibError::SchemaOlder { found: it, .. }) if !is_told => assert_eq!(it, found),
                other => panic!("{other:?}"),
            }
        }
        write(1).await;
        check(cluster, OTHER).await.unwrap();
        session.query_unpaged(format!("ALTER TABLE {OTHER}.names DROP export"), ()).await.unwrap();
        let damaged = check(cluster, OTHER).await;
        assert!(matches!(damaged, Err(RibError::SchemaMissing { .. })), "{damaged:?}");
        session.query_unpaged(format!("DROP KEYSPACE {OTHER}"), ()).await.unwrap();
    });
}

#[test]
fn a_node_whose_clock_is_wrong_is_named_until_it_is_right_and_costs_no_answer() {
    with_cluster(async |cluster| {
        let server = connect(cluster).await;
        server.check_clocks().await.unwrap();
        // Which node, how far it is ahead, and whether it is the one that is said to be.
        for (node, ahead_ms, is_ahead) in [(2, 45_000, true), (0, -45_000, false)] {
            if !cluster.set_clock(node, ahead_ms) {
                println!("skipped: no javac, which makes the clock that a test can set");
                return;
            }
            let told = check_clocks_until(&server, Result::is_err).await;
            let holder = Holder::new();
            let stored = server.commit(&[holder.change(&holder.route(1))]).await;
            let entry = server.entry(&holder.name()).await;
            // It is set back, too: what a node says of its clock must follow.
            cluster.set_clock(node, 0);
            check_clocks_until(&server, Result::is_ok).await.unwrap();
            let Err(RibError::ClocksApart { ahead, behind, apart_ms }) = told else {
                panic!("{told:?}")
            };
            let address = cluster.address_of(&[node], "any").nodes()[0].clone();
            assert_eq!(if is_ahead { ahead } else { behind }, address);
            assert!((40_000..50_000).contains(&apart_ms), "{apart_ms}");
            assert_eq!(stored.unwrap(), []);
            assert!(entry.unwrap().is_some_and(|it| it.route(now_s()).is_some()));
        }
    });
}

/// Asks about the clocks until that is so, or for long enough, and returns the last answer.
async fn check_clocks_until(
    server: &Cluster,
    is_so: impl Fn(&Result<(), RibError>) -> bool,
) -> Result<(), RibError> {
    for _ in 0..50 {
        let checked = server.check_clocks().await;
        if is_so(&checked) {
            return checked;
        }
        sleep(Duration::from_millis(200)).await;
    }
    server.check_clocks().await
}

#[test]
fn who_has_no_password_or_a_wrong_one_is_refused_and_the_error_says_that() {
    with_cluster(async |cluster| {
        for given in [None, Some("cassandra:wrong"), Some("nobody:cassandra")] {
            let mut options = Options::default();
            options.credentials = given.map(|given| Credentials::parse(given).unwrap());
            let refused = Cluster::connect(&cluster.address("any"), options).await;
            let Err(error @ RibError::StoreRefusesUser { .. }) = refused else {
                panic!("{given:?}: {refused:?}")
            };
            let told = format!("{error} {error:?}");
            assert!(!told.contains("wrong"), "{told}");
        }
        connect(cluster).await.check_schema().await.unwrap();
    });
}

#[test]
fn nodes_that_nobody_runs_are_named() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let address: CqlAddress = "cql://127.0.93.200:1/rib".parse().unwrap();
        let refused = Cluster::connect(&address, Options::default()).await;
        let Err(RibError::StoreUnreachable { nodes, .. }) = &refused else { panic!("{refused:?}") };
        assert_eq!(nodes, "127.0.93.200:1");
    });
}

#[test]
fn what_is_too_much_at_once_is_refused_at_once_and_the_rest_is_answered() {
    with_cluster(async |cluster| {
        let mut options = options();
        options.most_requests = 4;
        let address = cluster.address(crate::world::KEYSPACE);
        let server = Cluster::connect(&address, options).await.unwrap();
        let holder = Holder::new();
        server.commit(&[holder.change(&holder.route(1))]).await.unwrap();
        let mut reads = JoinSet::new();
        for _ in 0..200 {
            let (server, name) = (server.clone(), holder.name());
            reads.spawn(async move { server.entry(&name).await });
        }
        let (mut answered, mut refused) = (0, 0);
        for read in reads.join_all().await {
            match read {
                Ok(entry) => answered += usize::from(entry.is_some()),
                Err(RibError::Overloaded) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(answered >= 4 && refused > 0 && answered + refused == 200, "{answered} {refused}");
        let counts = server.counts();
        assert_eq!((counts.reads, counts.overloaded), (answered as u64, refused as u64));
        assert_eq!(counts.read_ms.iter().sum::<u64>(), counts.reads);
    });
}
