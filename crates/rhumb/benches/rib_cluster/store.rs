//! The store: a commit of one renewal, which is what most are, and a read, next to a bare write and
//! a bare read of as many bytes through the same driver.

use std::sync::Arc;
use std::time::Instant;

use rhumb_cql::{Cluster, Replication};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::cassandra::Cassandra;
use crate::report::Report;
use crate::world::{Holder, KEYSPACE, connect};

pub(crate) const ROUNDS: usize = 5;
/// Of each kind, in each round.
pub(crate) const OPERATIONS: usize = 400;
pub(crate) const AT_ONCE: usize = 16;
/// About as many bytes as a renewal writes.
const BARE_LEN: usize = 300;

/// The driver alone.
#[derive(Clone)]
struct Bare {
    session: Arc<Session>,
    write: PreparedStatement,
    read: PreparedStatement,
}

#[derive(Clone, Copy)]
enum What {
    BareWrite,
    Publication,
    BareRead,
    LookUp,
}

const ALL: [What; 4] = [What::BareWrite, What::Publication, What::BareRead, What::LookUp];

const NAMES: [&str; ALL.len()] = ["bare_write", "publication", "bare_read", "look_up"];

/// Seconds for each operation, of all kinds.
type Round = [f64; ALL.len()];

/// Times one alone and many at once, and says what they are to each other.
pub(crate) fn measure(cluster: &Cassandra, report: &mut Report) {
    let (alone, at_once) = Runtime::new().expect("a runtime").block_on(run_all(cluster));
    for (width, round) in [("alone", alone), ("at_once", at_once)] {
        for (what, seconds) in NAMES.iter().zip(round) {
            report.figure(&format!("{what}_ms_{width}"), seconds * 1e3);
        }
    }
    let [bare_write, publication, bare_read, look_up] = alone;
    let [bare_writes, publications, bare_reads, look_ups] = at_once;
    report.at_most("publication_to_bare_write", publication / bare_write, 2.0);
    report.at_most("look_up_to_bare_read", look_up / bare_read, 2.0);
    report.at_most("publications_at_once_to_bare_writes", publications / bare_writes, 3.0);
    report.at_most("look_ups_at_once_to_bare_reads", look_ups / bare_reads, 2.0);
}

async fn run_all(cluster: &Cassandra) -> (Round, Round) {
    let server = connect(cluster).await;
    server.create_schema(&Replication::Nodes(3)).await.expect("tables");
    let bare = Bare::prepare(cluster).await;
    let holders: Arc<Vec<Holder>> = Arc::new((0..AT_ONCE).map(|_| Holder::new()).collect());
    let (mut alone, mut at_once) = (Vec::new(), Vec::new());
    // The first round warms up.
    for round in 0..=ROUNDS as u64 {
        for (width, rounds) in [(1, &mut alone), (AT_ONCE, &mut at_once)] {
            let mut each = [0.0; ALL.len()];
            for (what, took) in ALL.iter().zip(&mut each) {
                *took = run(*what, width, round, &server, &bare, &holders).await;
            }
            if round > 0 {
                rounds.push(each);
            }
        }
    }
    (medians(&alone), medians(&at_once))
}

/// Seconds that each of the operations takes, so many at once.
async fn run(
    what: What,
    width: usize,
    round: u64,
    server: &Cluster,
    bare: &Bare,
    holders: &Arc<Vec<Holder>>,
) -> f64 {
    let mut tasks = JoinSet::new();
    let began = Instant::now();
    for task in 0..width {
        let (server, bare, holders) = (server.clone(), bare.clone(), holders.clone());
        tasks.spawn(async move {
            let mut busy = 0.0;
            for operation in 0..(OPERATIONS / width) as u64 {
                // What is signed is not measured.
                let sequence = (round * 2 + u64::from(width > 1)) * 1000 + operation + 1;
                let change = [holders[task].change(&holders[task].route(sequence))];
                let began = Instant::now();
                match what {
                    What::BareWrite => bare.write(task, sequence).await,
                    What::Publication => {
                        let hidden = server.commit(&change).await.expect("acknowledged");
                        assert_eq!(hidden, []);
                    }
                    What::BareRead => bare.read(task).await,
                    What::LookUp => _ = server.entry(&change[0].name).await.expect("an answer"),
                }
                busy += began.elapsed().as_secs_f64();
            }
            busy
        });
    }
    let busy: f64 = tasks.join_all().await.iter().sum();
    // One after the other it is the time of each; at once it is what each takes of the machine.
    match width {
        1 => busy / OPERATIONS as f64,
        _ => began.elapsed().as_secs_f64() / OPERATIONS as f64,
    }
}

impl Bare {
    async fn prepare(cluster: &Cassandra) -> Self {
        let address = cluster.address(KEYSPACE);
        let session = SessionBuilder::new().known_nodes(address.nodes()).build().await;
        let session = Arc::new(session.expect("a session"));
        let table =
            format!("CREATE TABLE IF NOT EXISTS {KEYSPACE}.bare (k blob PRIMARY KEY, v blob)");
        session.query_unpaged(table, ()).await.expect("a table");
        let prepare = async |text: String| {
            let mut prepared = session.prepare(text).await.expect("prepared");
            prepared.set_consistency(Consistency::Quorum);
            prepared.set_is_idempotent(true);
            prepared
        };
        let write =
            format!("UPDATE {KEYSPACE}.bare USING TIMESTAMP ? AND TTL ? SET v = ? WHERE k = ?");
        let read = format!("SELECT v FROM {KEYSPACE}.bare WHERE k = ?");
        Self { write: prepare(write).await, read: prepare(read).await, session: session.clone() }
    }

    async fn write(&self, task: usize, sequence: u64) {
        let values = (sequence as i64, 86_400, vec![7u8; BARE_LEN], vec![task as u8; 32]);
        self.session.execute_unpaged(&self.write, values).await.expect("acknowledged");
    }

    async fn read(&self, task: usize) {
        let read = self.session.execute_unpaged(&self.read, (vec![task as u8; 32],)).await;
        let rows = read.expect("an answer").into_rows_result().expect("rows");
        assert_eq!(rows.rows_num(), 1);
    }
}

fn medians(rounds: &[Round]) -> Round {
    std::array::from_fn(|what| {
        let mut of: Vec<f64> = rounds.iter().map(|round| round[what]).collect();
        of.sort_by(f64::total_cmp);
        of[of.len() / 2]
    })
}
