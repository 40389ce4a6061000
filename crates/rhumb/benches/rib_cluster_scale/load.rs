//! Puts names into all nodes of a cluster without asking them: while no node runs, their files are
//! written once by `Load.java`, partition by partition in the order of tokens, and are linked into
//! each node's folders, since each has a replica of each row.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};

use rhumb_rib::Account;
use rhumb_wire::Name;
use scylla::routing::partitioner::{Murmur3Partitioner, Partitioner};

use crate::cassandra::{Cassandra, NODES};
use crate::names::Names;
use crate::rows::{COLUMNS, Tables, Writer, account_key, plan, ttl_s};

/// A table that is loaded, and how a node describes it.
pub(crate) struct Described {
    pub(crate) name: &'static str,
    pub(crate) statement: String,
}

/// Those that a name is in.
pub(crate) const TABLES: [&str; 3] = ["names", "addresses", "accounts"];

/// `Load.java`, which runs.
pub(crate) struct Loader {
    java: Child,
    out: Writer<BufWriter<ChildStdin>>,
}

impl Loader {
    pub(crate) fn start(cluster: &Cassandra) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/rib_cluster_scale");
        let mut java = cluster.tool(&folder.join("Load.java"), HEAP);
        let java = java.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        let mut java = java.expect("a process");
        let input = java.stdin.take().expect("its input");
        Self { java, out: Writer(BufWriter::with_capacity(1 << 20, input)) }
    }

    /// Has it write the tables of a keyspace.
    pub(crate) fn write(
        &mut self,
        cluster: &Cassandra,
        tables: &Tables,
        described: &[Described],
        names: &Names,
    ) {
        // What each counts with is needed by the last table, and made for the first.
        let mut counted = vec![(0u64, 0u64); names.entries()];
        for table in described {
            let folder = files(cluster, tables, table.name);
            fs::create_dir_all(&folder).expect("a folder");
            let columns = match table.name {
                "names" => COLUMNS.map(|(_, column)| column).join(","),
                "accounts" => "bytes".to_owned(),
                _ => String::new(),
            };
            let folder = folder.to_str().expect("a path of letters");
            let texts = [&tables.keyspace, &table.statement, folder, &columns];
            let begun = self.out.table(texts, names.entries(), names.written);
            let written = begun.and_then(|()| match table.name {
                "names" => write_names(&mut self.out, names, &mut counted),
                "addresses" => write_addresses(&mut self.out, names, &counted),
                _ => write_accounts(&mut self.out, tables, names, &counted),
            });
            written.and_then(|()| self.out.end()).expect("Load.java reads");
        }
    }

    /// Waits until all is written.
    pub(crate) fn end(self) {
        let Self { mut java, mut out } = self;
        out.end().and_then(|()| out.0.flush()).expect("Load.java reads");
        drop(out);
        assert!(java.wait().expect("it ends").success(), "Load.java failed; its words are above");
    }
}

/// Where the files of a table are before nodes have them.
fn files(cluster: &Cassandra, tables: &Tables, table: &str) -> PathBuf {
    cluster.folder().join(format!("{}-{table}", tables.keyspace))
}

/// Gives all nodes the files of a keyspace; returns how many bytes each table has.
pub(crate) fn link_all(cluster: &Cassandra, tables: &Tables) -> [(&'static str, u64); 3] {
    TABLES.map(|table| {
        let folder = files(cluster, tables, table);
        let bytes = link(cluster, &tables.keyspace, table, &folder);
        fs::remove_dir_all(folder).expect("removed");
        (table, bytes)
    })
}

/// Names and routers, in the order in which a cluster keeps partitions of these keys.
fn in_order<'a>(names: &'a Names, key: fn(&Name) -> &[u8]) -> impl Iterator<Item = usize> + 'a {
    let mut order: Vec<(i64, u32)> =
        (0..names.entries()).map(|at| (token(key(&names.name(at))), at as u32)).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, at)| at as usize)
}

fn token(key: &[u8]) -> i64 {
    Murmur3Partitioner.hash_one(key).value()
}

fn write_names(
    out: &mut Writer<impl io::Write>,
    names: &Names,
    counted: &mut [(u64, u64)],
) -> io::Result<()> {
    for at in in_order(names, |name| &name.0) {
        let plan = plan(&names.entry(at), names.written);
        let index = plan.index.as_ref().expect("it is new");
        counted[at] = (index.bytes, index.keep_until_s);
        out.partition(&names.name(at).0, 1)?;
        out.row(&[], None, plan.cells.len())?;
        for cell in &plan.cells {
            let column = COLUMNS.iter().position(|(slot, _)| *slot == cell.slot);
            let ttl_s = ttl_s(cell.keep_until_s, names.written);
            out.cell(column.expect("of these alone"), cell.rank, ttl_s, &cell.value)?;
        }
    }
    Ok(())
}

fn write_addresses(
    out: &mut Writer<impl io::Write>,
    names: &Names,
    counted: &[(u64, u64)],
) -> io::Result<()> {
    for at in in_order(names, |name| &name.0[..Name::ADDRESS_LEN]) {
        let name = names.name(at);
        let ttl_s = ttl_s(counted[at].1, names.written);
        out.partition(&name.beginning(), 1)?;
        out.row(&name.0, Some((names.written.now_us, ttl_s)), 0)?;
    }
    Ok(())
}

/// All names of a publisher, and those of each bucket of all who were admitted.
fn write_accounts(
    out: &mut Writer<impl io::Write>,
    tables: &Tables,
    names: &Names,
    counted: &[(u64, u64)],
) -> io::Result<()> {
    let mut buckets = vec![Vec::new(); tables.buckets.unsigned_abs() as usize];
    for at in 0..names.entries() {
        let bucket = tables.bucket(&Account::Admitted, &names.name(at));
        buckets[bucket.unsigned_abs() as usize].push(at as u32);
    }
    let of_all = (0..tables.buckets).map(|bucket| (Account::Admitted, bucket));
    let publisher = |router| Account::Publisher(names.name(names.names.len() + router));
    let all = of_all.chain((0..names.routers()).map(|router| (publisher(router), 0)));
    let keys = all.map(|(account, bucket)| account_key(&account, bucket));
    let mut order: Vec<(i64, Vec<u8>, usize)> =
        keys.enumerate().map(|(at, key)| (token(&key), key, at)).collect();
    order.sort_unstable();
    for (_, key, at) in order {
        let within: Vec<usize> = match at.checked_sub(buckets.len()) {
            None => buckets[at].iter().map(|at| *at as usize).collect(),
            Some(router) => names.published_by(router),
        };
        let mut rows: Vec<(Name, usize)> =
            within.into_iter().map(|at| (names.name(at), at)).collect();
        rows.sort_unstable();
        if rows.is_empty() {
            continue;
        }
        out.partition(&key, rows.len())?;
        for (name, at) in rows {
            let (bytes, keep_until_s) = counted[at];
            let (when, ttl_s) = (names.written.now_us, ttl_s(keep_until_s, names.written));
            out.row(&name.0, Some((when, ttl_s)), 1)?;
            out.cell(0, when, ttl_s, &bytes.to_be_bytes())?;
        }
    }
    Ok(())
}

/// Gives all nodes the files; returns how many bytes they have.
fn link(cluster: &Cassandra, keyspace: &str, table: &str, from: &Path) -> u64 {
    let mut bytes = 0;
    for file in fs::read_dir(from).expect("a folder").flatten() {
        bytes += file.metadata().expect("a file").len();
        for node in 0..NODES {
            let to = table_folder(cluster, node, keyspace, table).join(file.file_name());
            fs::hard_link(file.path(), to).expect("linked");
        }
    }
    bytes
}

/// Named after the table, and a number that the cluster has given it.
fn table_folder(cluster: &Cassandra, node: usize, keyspace: &str, table: &str) -> PathBuf {
    let all = cluster.node_folder(node).join("data/data").join(keyspace);
    let all = fs::read_dir(&all).expect("the keyspace's folder").flatten();
    let is_it = |path: &PathBuf| {
        let name = path.file_name().and_then(|it| it.to_str());
        name.and_then(|it| it.split_once('-')).is_some_and(|(of, _)| of == table)
    };
    all.map(|folder| folder.path()).find(is_it).expect("the table's folder")
}

/// A partition of a sixty-fourth of all names is the largest thing in it.
const HEAP: &str = "2G";
