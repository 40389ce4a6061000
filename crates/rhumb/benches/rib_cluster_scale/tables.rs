//! The tables of a keyspace, made by the store itself; and whether what was loaded into them is
//! what the store would have written, and reads.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rhumb_cql::{Cluster, Options, Replication};
use rhumb_rib::Entry;
use rhumb_rib::cells::{Plan, Written};
use rhumb_rib::store::Change;
use rhumb_trust::name_of;
use rhumb_wire::{Name, Role, Scope, Statement};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;

use crate::cassandra::{Cassandra, NODES};
use crate::load::{Described, TABLES};
use crate::names::Names;
use crate::rows::{COLUMNS, Tables, plan, ttl_s};
use crate::unsigned::{entry, metadata};

/// Has the store make its tables.
pub(crate) async fn make(cluster: &Cassandra, keyspace: &str) -> (Tables, Vec<Described>) {
    let store = connect(cluster, keyspace).await;
    store.create_schema(&Replication::Nodes(NODES as u8)).await.expect("tables");
    let session = session(cluster).await;
    let read = format!("SELECT secret, buckets FROM {keyspace}.format WHERE part = 0");
    let read = session.query_unpaged(read, ()).await.expect("an answer");
    let read = read.into_rows_result().expect("rows");
    let (secret, buckets) = read.single_row::<(Vec<u8>, i32)>().expect("a row");
    let mut described = Vec::new();
    for name in TABLES {
        let describe = session.query_unpaged(format!("DESCRIBE TABLE {keyspace}.{name}"), ()).await;
        let describe = describe.expect("an answer").into_rows_result().expect("rows");
        let (_, _, _, statement) =
            describe.single_row::<(String, String, String, String)>().expect("a table");
        described.push(Described { name, statement });
    }
    (Tables { keyspace: keyspace.to_owned(), secret, buckets }, described)
}

/// Holds names that were loaded, and names that the store has just written, against what the
/// encoders make of them. Returns how many there are then.
pub(crate) async fn check(cluster: &Cassandra, tables: &Tables, names: &Names) -> usize {
    let store = connect_when_up(cluster, &tables.keyspace).await;
    let session = session(cluster).await;
    for sample in 0..SAMPLES {
        let at = sample * (names.entries() - 1) / (SAMPLES - 1);
        let (name, entry) = (names.name(at), names.entry(at));
        assert_eq!(store.entry(&name).await.expect("an answer").as_ref(), Some(&entry));
        let found = store.first_with(&name.beginning()).await.expect("an answer");
        assert_eq!(found, Some(name));
        let expected = plan(&entry, names.written);
        compare(&session, tables, name, &expected, names.written).await;
    }
    for sample in 0..SAMPLES {
        // Numbers that no other name has.
        let metadata = metadata(Role::Node, usize::MAX - sample);
        let (name, via) = (name_of(&metadata), names.name(names.names.len()));
        let route = Statement::Route { via, scope: Scope::Any };
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
        let entry: Entry = entry(&metadata, route, via, now_s);
        let change = Change { name, before: None, after: Some(entry.clone()) };
        assert_eq!(store.commit(&[change]).await.expect("stored"), []);
        let now_us = cell(&session, tables, name, "metadata").await.expect("a cell").1;
        let written = Written { now_s: now_us.unsigned_abs() / 1_000_000, now_us };
        compare(&session, tables, name, &plan(&entry, written), written).await;
    }
    names.entries() + SAMPLES
}

/// Whether the tables have what is planned, as it would be written then.
async fn compare(session: &Session, tables: &Tables, name: Name, plan: &Plan, written: Written) {
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let gone_s = now_s.saturating_sub(written.now_s) as i32;
    let is_left = |ttl: i32, keep_until_s: u64| {
        let expected = ttl_s(keep_until_s, written) - gone_s;
        assert!((ttl - expected).abs() <= CLOCKS_S, "{ttl} s in the place of {expected} s");
    };
    for (slot, column) in COLUMNS {
        let found = cell(session, tables, name, column).await;
        let expected = plan.cells.iter().find(|cell| cell.slot == slot);
        let rank_and_value = expected.map(|cell| (cell.value.clone(), cell.rank));
        assert_eq!(found.as_ref().map(|(value, rank, _)| (value.clone(), *rank)), rank_and_value);
        if let (Some((.., ttl)), Some(cell)) = (found, expected) {
            is_left(ttl, cell.keep_until_s);
        }
    }
    let index = plan.index.as_ref().expect("it is new");
    for account in &index.accounts {
        let keyspace = &tables.keyspace;
        let read = format!(
            "SELECT bytes, WRITETIME(bytes), TTL(bytes) FROM {keyspace}.accounts \
             WHERE account = ? AND bucket = ? AND name = ?"
        );
        let values = (account.key(), tables.bucket(account, &name), &name.0[..]);
        let read = session.query_unpaged(read, values).await.expect("an answer");
        let read = read.into_rows_result().expect("rows");
        let (bytes, when, ttl) = read.single_row::<(i64, i64, i32)>().expect("it is counted");
        assert_eq!((bytes as u64, when), (index.bytes, written.now_us));
        is_left(ttl, index.keep_until_s);
    }
}

/// A cell: its value, when it was written, how long it is kept yet.
async fn cell(
    session: &Session,
    tables: &Tables,
    name: Name,
    column: &str,
) -> Option<(Vec<u8>, i64, i32)> {
    type Cell = (Option<Vec<u8>>, Option<i64>, Option<i32>);
    let keyspace = &tables.keyspace;
    let read = format!(
        "SELECT {column}, WRITETIME({column}), TTL({column}) FROM {keyspace}.names WHERE name = ?"
    );
    let read = session.query_unpaged(read, (&name.0[..],)).await.expect("an answer");
    let read = read.into_rows_result().expect("rows");
    let (value, when, ttl) = read.single_row::<Cell>().expect("a row");
    Some((value?, when?, ttl?))
}

/// Once a quorum of nodes that have started anew answers.
async fn connect_when_up(cluster: &Cassandra, keyspace: &str) -> Cluster {
    let began = Instant::now();
    loop {
        let store = connect(cluster, keyspace).await;
        match store.removals().await {
            Ok(_) => return store,
            Err(error) => assert!(began.elapsed() < START_PATIENCE, "{error}"),
        }
    }
}

async fn connect(cluster: &Cassandra, keyspace: &str) -> Cluster {
    let mut options = Options::default();
    options.patience = PATIENCE;
    Cluster::connect(&cluster.address(keyspace), options).await.expect("a connection")
}

async fn session(cluster: &Cassandra) -> Session {
    let address = cluster.address("system");
    let session = SessionBuilder::new().known_nodes(address.nodes()).build().await;
    session.expect("a session")
}

const SAMPLES: usize = 50;
/// Between what is said here and there of one moment.
const CLOCKS_S: i32 = 5;
/// Longer than nodes wait for each other.
const PATIENCE: Duration = Duration::from_secs(15);
const START_PATIENCE: Duration = Duration::from_secs(120);
