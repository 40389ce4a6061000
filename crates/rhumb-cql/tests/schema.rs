//! What is wrong with a store is said before it is used: tables, nodes, clocks; and what is too
//! much at once is refused at once.

use rhumb_cql::{Cluster, CqlAddress, Options, Replication};
use rhumb_rib::RibError;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use tokio::task::JoinSet;

use crate::cassandra::Cassandra;
use crate::world::{Holder, connect, with_cluster};

async fn session(cluster: &Cassandra) -> Session {
    let address = cluster.address("none");
    SessionBuilder::new().known_nodes(address.nodes()).build().await.expect("a connection")
}

async fn check(cluster: &Cassandra, keyspace: &str) -> Result<(), RibError> {
    let connected = Cluster::connect(&cluster.address(keyspace), Options::default())
        .await
        .expect("a connection");
    connected.check_schema().await
}

#[test]
fn tables_are_made_once_by_whoever_comes_first_and_those_of_others_are_named() {
    with_cluster(async |cluster| {
        const OTHER: &str = "other";
        let missing = check(cluster, OTHER).await;
        let Err(RibError::SchemaMissing { keyspace }) = &missing else { panic!("{missing:?}") };
        assert_eq!(keyspace, OTHER);
        assert!(missing.unwrap_err().to_string().contains("--create-schema"));
        let address = cluster.address(OTHER);
        let server = Cluster::connect(&address, Options::default()).await.unwrap();
        server.create_schema(&Replication::Nodes(1)).await.unwrap();
        server.create_schema(&Replication::Nodes(1)).await.unwrap();
        check(cluster, OTHER).await.unwrap();
        let session = session(cluster).await;
        for (found, is_told) in [(99, true), (0, false)] {
            let write = format!("UPDATE {OTHER}.format SET version = {found} WHERE part = 0");
            session.query_unpaged(write, ()).await.unwrap();
            match check(cluster, OTHER).await {
                Err(RibError::SchemaNewer { found: it, .. }) if is_told => assert_eq!(it, found),
                Err(RibError::SchemaOlder { found: it, .. }) if !is_told => assert_eq!(it, found),
                other => panic!("{other:?}"),
            }
        }
        let write = format!("UPDATE {OTHER}.format SET version = 1 WHERE part = 0");
        session.query_unpaged(write, ()).await.unwrap();
        check(cluster, OTHER).await.unwrap();
        session.query_unpaged(format!("ALTER TABLE {OTHER}.names DROP export"), ()).await.unwrap();
        let damaged = check(cluster, OTHER).await;
        assert!(matches!(damaged, Err(RibError::SchemaMissing { .. })), "{damaged:?}");
        session.query_unpaged(format!("DROP KEYSPACE {OTHER}"), ()).await.unwrap();
    });
}

#[test]
fn the_clocks_of_nodes_on_one_machine_agree() {
    with_cluster(async |cluster| connect(cluster).await.check_clocks().await.unwrap());
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
        let mut options = Options::default();
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
