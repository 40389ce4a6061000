//! The tables of a RIB in its keyspace: what they are, how they are made, what is wrong with
//! others.
//!
//! | table | partition | row | holds | kept for |
//! |---|---|---|---|---|
//! | `names` | name | | the cells of its entry | each cell for as long as it says |
//! | `addresses` | first 15 bytes of a name | name | that there is such a name | half as long again |
//! | `accounts` | account, bucket | name | the bytes that count | half as long again |
//! | `changes` | server, block of numbers | number | names that it has changed | 10 minutes |
//! | `servers` | 0 | server | the number of its next change | a minute |
//! | `removals` | 0 | issuer, who was removed | the removal | as long as it lasts |
//! | `format` | 0 | | the number of this layout, a secret, the number of buckets | for ever |
//!
//! A cell whose time is over hides older ones until the store forgets it (`gc_grace_seconds`): in
//! `names` after two days, longer than a statement of a node may last, so that even servers which
//! wrote at once and did not know of each other bring nothing back. All other tables are of wall
//! clocks, and forget soon, since what is over there is in the way of counting.

use std::time::Duration;

use scylla::client::session::Session;
use scylla::statement::unprepared::Statement;
use scylla::value::CqlValue;

use rhumb_rib::RibError;

use crate::failure::failed;

/// How often the cluster keeps what is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Replication {
    /// On so many nodes.
    Nodes(u8),
    /// On so many nodes in each of these data centres.
    DataCentres(Vec<(String, u8)>),
}

impl Replication {
    fn to_cql(&self) -> String {
        match self {
            Self::Nodes(nodes) => {
                format!("{{'class': 'NetworkTopologyStrategy', 'replication_factor': {nodes}}}")
            }
            Self::DataCentres(centres) => {
                let each = centres
                    .iter()
                    .map(|(name, nodes)| format!(", '{}': {nodes}", name.replace('\'', "''")));
                format!("{{'class': 'NetworkTopologyStrategy'{}}}", each.collect::<String>())
            }
        }
    }
}

/// What the tables say of themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Format {
    /// Chooses buckets, so that nobody outside can fill one by choosing names.
    pub(crate) secret: Vec<u8>,
    pub(crate) buckets: i32,
}

/// Makes the keyspace and what is missing of its tables. May be done again, and by several at once.
pub(crate) async fn create(
    session: &Session,
    keyspace: &str,
    replication: &Replication,
) -> Result<(), RibError> {
    let replication = replication.to_cql();
    let make = format!("CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = {replication}");
    session.query_unpaged(slow(make), ()).await.map_err(failed)?;
    for table in TABLES {
        let make = format!("CREATE TABLE IF NOT EXISTS {keyspace}.{table}");
        session.query_unpaged(slow(make), ()).await.map_err(failed)?;
    }
    session.await_schema_agreement().await.map_err(crate::failure::other)?;
    let mut secret = [0; SECRET_LEN];
    aws_lc_rs::rand::fill(&mut secret).map_err(crate::failure::other)?;
    let note = format!(
        "INSERT INTO {keyspace}.format (part, version, secret, buckets) VALUES (0, ?, ?, ?) \
         IF NOT EXISTS"
    );
    let values = (FORMAT, &secret[..], BUCKETS);
    session.query_unpaged(slow(note), values).await.map_err(failed)?;
    Ok(())
}

/// All nodes have to agree to it, once in the life of a cluster.
fn slow(text: String) -> Statement {
    let mut statement = Statement::new(text);
    statement.set_request_timeout(Some(SCHEMA_PATIENCE));
    statement
}

/// Reads what the tables say of themselves.
///
/// # Errors
/// When they are missing, or made by an older or newer version.
pub(crate) async fn check(session: &Session, keyspace: &str) -> Result<Format, RibError> {
    let missing = || RibError::SchemaMissing { keyspace: keyspace.to_owned() };
    let tables =
        "SELECT table_name, column_name FROM system_schema.columns WHERE keyspace_name = ?";
    let found = session.query_unpaged(tables, (keyspace,)).await.map_err(failed)?;
    let found = found.into_rows_result().map_err(crate::failure::other)?;
    let found = found.rows::<(String, String)>().map_err(crate::failure::other)?;
    let found: Vec<(String, String)> =
        found.collect::<Result<_, _>>().map_err(crate::failure::other)?;
    if !found.iter().any(|(table, _)| table == "format") {
        return Err(missing());
    }
    let read = format!("SELECT version, secret, buckets FROM {keyspace}.format WHERE part = 0");
    let read = session.query_unpaged(read, ()).await.map_err(failed)?;
    let read = read.into_rows_result().map_err(crate::failure::other)?;
    let row = read.maybe_first_row::<(Option<i32>, Option<CqlValue>, Option<i32>)>();
    let Some((Some(version), secret, buckets)) = row.map_err(crate::failure::other)? else {
        return Err(missing());
    };
    let keyspace = || keyspace.to_owned();
    if version > FORMAT {
        return Err(RibError::SchemaNewer { keyspace: keyspace(), found: version, wanted: FORMAT });
    }
    if version < FORMAT {
        return Err(RibError::SchemaOlder { keyspace: keyspace(), found: version, wanted: FORMAT });
    }
    let is_there = |(table, column): &(&str, &str)| {
        found.iter().any(|(of, named)| (of.as_str(), named.as_str()) == (*table, *column))
    };
    let (Some(CqlValue::Blob(secret)), Some(buckets @ 1..)) = (secret, buckets) else {
        return Err(missing());
    };
    if !COLUMNS.iter().all(is_there) {
        return Err(missing());
    }
    Ok(Format { secret, buckets })
}

/// The layout above. Raised whenever an older program could misread the tables.
pub(crate) const FORMAT: i32 = 1;
/// How many partitions the accounts of all are spread over: enough for one of a hundred million
/// names to be counted in a second or two.
const BUCKETS: i32 = 256;
const SECRET_LEN: usize = 32;
/// As long as the driver waits for nodes to agree.
const SCHEMA_PATIENCE: Duration = Duration::from_secs(120);

const TABLES: [&str; 7] = [
    "names (name blob PRIMARY KEY, metadata blob, book blob, step blob, route blob, locator blob, \
     withdrawal blob, export blob, published blob, several_to blob, several map<blob, blob>) \
     WITH gc_grace_seconds = 172800",
    "addresses (beginning blob, name blob, PRIMARY KEY (beginning, name)) \
     WITH gc_grace_seconds = 3600 AND compaction = {'class': 'TimeWindowCompactionStrategy', \
     'compaction_window_unit': 'HOURS', 'compaction_window_size': 2}",
    "accounts (account blob, bucket int, name blob, bytes bigint, \
     PRIMARY KEY ((account, bucket), name)) \
     WITH gc_grace_seconds = 3600 AND compaction = {'class': 'TimeWindowCompactionStrategy', \
     'compaction_window_unit': 'HOURS', 'compaction_window_size': 1}",
    "changes (server blob, block bigint, number bigint, names blob, \
     PRIMARY KEY ((server, block), number)) \
     WITH gc_grace_seconds = 600 AND compaction = {'class': 'TimeWindowCompactionStrategy', \
     'compaction_window_unit': 'MINUTES', 'compaction_window_size': 5}",
    "servers (part int, server blob, number bigint, PRIMARY KEY (part, server)) \
     WITH gc_grace_seconds = 600",
    "removals (part int, issuer blob, removed blob, removal blob, \
     PRIMARY KEY (part, issuer, removed))",
    "format (part int PRIMARY KEY, version int, secret blob, buckets int)",
];

/// Those that a program cannot do without.
const COLUMNS: [(&str, &str); 18] = [
    ("names", "metadata"),
    ("names", "book"),
    ("names", "step"),
    ("names", "route"),
    ("names", "locator"),
    ("names", "withdrawal"),
    ("names", "export"),
    ("names", "published"),
    ("names", "several_to"),
    ("names", "several"),
    ("addresses", "name"),
    ("accounts", "bucket"),
    ("accounts", "name"),
    ("accounts", "bytes"),
    ("changes", "names"),
    ("changes", "number"),
    ("servers", "number"),
    ("removals", "removal"),
];
