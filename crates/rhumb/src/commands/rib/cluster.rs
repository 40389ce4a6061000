//! Of a store in a cluster: a thread that has everything read and written there, as much at once as
//! the directory hands out, and listens to what other RIBs of the same cluster change.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use rhumb_cql::{Cluster, Counts, CqlAddress, Feed, Heard, Options, Replication};
use rhumb_daemon::config::ClusterSettings;
use rhumb_daemon::daemon::{ListNames, Metric, Snapshot};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::stored_names::lister;
use rhumb_io::Wake;
use rhumb_rib::store::{Answer, Awaited, Page, Read, Wanted};
use rhumb_rib::{Commit, Committed, RibError, Server};
use rhumb_trust::{Now, Removal};
use rhumb_wire::rib::StoreId;
use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::keeper::Keeper;

/// What goes to the thread and comes back.
pub(super) struct InCluster {
    cluster: Cluster,
    /// No more than the directory hands out at once.
    tasks: UnboundedSender<Task>,
    done: Receiver<Done>,
}

enum Task {
    Read(Read),
    Write(Commit),
    /// For people, with a place for the answer.
    List(Wanted, Sender<Result<Page, RibError>>),
}

enum Done {
    Read(Read, Result<Answer, RibError>),
    Written(Committed),
    Heard(Heard),
    Removals(Vec<Option<Removal>>),
    Failed(RibError),
}

impl InCluster {
    /// Connects, and makes the tables if that is wished for. Returns the directory's half of the
    /// store, and what tells it from others.
    pub(super) fn start(
        address: &CqlAddress,
        settings: &mut ClusterSettings,
        wake: Wake,
    ) -> Outcome<(Self, (Awaited, StoreId))> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Failure::operation)?;
        let ready = runtime.block_on(connect(address, settings)).map_err(Failure::setup)?;
        let Ready { cluster, removals, feed, id } = ready;
        let (tasks, to_do) = unbounded_channel();
        let (finished, done) = channel();
        let hand = Hand { cluster: cluster.clone(), done: finished, wake };
        let thread = std::thread::Builder::new().name("cluster".to_owned());
        thread.spawn(move || hand.run(&runtime, to_do, feed)).map_err(Failure::operation)?;
        Ok((Self { cluster, tasks, done }, (Awaited::new(removals), StoreId(id))))
    }

    /// Reads pages for people, beside what the directory has read.
    pub(super) fn lister(&self) -> ListNames {
        let tasks = self.tasks.clone();
        lister(move |wanted| {
            let (sender, answer) = channel();
            tasks.send(Task::List(wanted.clone(), sender)).map_err(|_| RibError::NotAtHand)?;
            answer.recv().map_err(|_| RibError::NotAtHand)?
        })
    }
}

struct Ready {
    cluster: Cluster,
    removals: Vec<Option<Removal>>,
    feed: Feed,
    id: [u8; 16],
}

async fn connect(address: &CqlAddress, settings: &mut ClusterSettings) -> Result<Ready, RibError> {
    let mut options = Options::default();
    options.data_centre = settings.data_centre.clone();
    options.credentials = settings.credentials.take();
    options.trust_anchors = settings.trust_anchors.take();
    let is_open = options.trust_anchors.is_none() && !address.is_on_loopback();
    if options.credentials.is_some() && is_open {
        tracing::warn!(
            "user and password go to the cluster in plain text, for whoever listens on the way; have \
             its nodes speak TLS, and name the certificates that sign theirs with `store_ca`"
        );
    }
    let cluster = Cluster::connect(address, options).await?;
    if let Some(replicas) = settings.create_schema {
        cluster.create_schema(&Replication::Nodes(replicas)).await?;
    }
    cluster.check_schema().await?;
    if let Err(error) = cluster.check_clocks().await {
        tracing::warn!(%error, "the cluster");
    }
    // First the ear, so that nothing is missed in between.
    let feed = cluster.feed().await?;
    let removals = cluster.removals().await?;
    let id = cluster.id().await?;
    Ok(Ready { cluster, removals, feed, id })
}

/// What the thread has.
#[derive(Clone)]
struct Hand {
    cluster: Cluster,
    done: Sender<Done>,
    wake: Wake,
}

impl Hand {
    fn run(self, runtime: &Runtime, mut to_do: UnboundedReceiver<Task>, feed: Feed) {
        runtime.block_on(async {
            tokio::spawn(self.clone().listen(feed));
            while let Some(task) = to_do.recv().await {
                tokio::spawn(self.clone().execute(task));
            }
        });
    }

    async fn execute(self, task: Task) {
        let done = match task {
            Task::List(wanted, answer) => {
                // Who asked may wait no longer.
                let _ = answer.send(self.cluster.page(&wanted).await);
                return;
            }
            Task::Read(read) => Done::Read(read, self.cluster.read(&read).await),
            Task::Write(commit) => {
                let result = match commit.removals() {
                    [] => self.cluster.commit(commit.changes()).await,
                    removals => self.cluster.commit_removals(removals).await.map(|()| Vec::new()),
                };
                Done::Written(commit.end(result))
            }
        };
        self.give(done);
    }

    /// Hears what others change, for as long as anybody wants to know.
    async fn listen(self, mut feed: Feed) {
        loop {
            let heard = feed.next().await;
            let is_wanted = match heard {
                Ok(Heard::Removals) => match self.cluster.removals().await {
                    Ok(removals) => self.give(Done::Removals(removals)),
                    Err(error) => self.give(Done::Failed(error)),
                },
                Ok(heard) => self.give(Done::Heard(heard)),
                Err(error) => {
                    let is_wanted = self.give(Done::Failed(error));
                    tokio::time::sleep(PAUSE).await;
                    is_wanted
                }
            };
            if !is_wanted {
                return;
            }
        }
    }

    fn give(&self, done: Done) -> bool {
        let is_wanted = self.done.send(done).is_ok();
        self.wake.wake();
        is_wanted
    }
}

impl Keeper<Awaited> for InCluster {
    fn bring(&mut self, server: &mut Server<Awaited>, now: Now) {
        for done in self.done.try_iter().take(AT_ONCE) {
            match done {
                Done::Read(read, answer) => server.handle_read(read, answer, now),
                Done::Written(committed) => server.handle_committed(committed, now),
                Done::Heard(Heard::Names(names)) => server.hear_changes(&names, now),
                Done::Heard(Heard::Again(names)) => server.hear_changes_again(&names, now),
                Done::Heard(_) => server.miss_changes(),
                Done::Removals(removals) => server.hear_removals(removals, now),
                Done::Failed(error) => {
                    tracing::warn!(%error, "what other RIBs change cannot be heard");
                }
            }
        }
    }

    fn fetch(&mut self, server: &mut Server<Awaited>) {
        let next =
            || server.poll_commit().map(Task::Write).or_else(|| server.poll_read().map(Task::Read));
        for task in std::iter::from_fn(next) {
            // It ends with us.
            let _ = self.tasks.send(task);
        }
    }

    fn report(&self, snapshot: &mut Snapshot) {
        let counts = self.cluster.counts();
        let Counts { reads, commits, names_written, read_back, .. } = counts;
        let failures = [
            ("shadowed", counts.shadowed),
            ("overloaded", counts.overloaded),
            ("too_slow", counts.too_slow),
            ("without_quorum", counts.without_quorum),
            ("other", counts.failed),
        ];
        snapshot.status["cluster"] = json!({
            "reads": reads,
            "commits": commits,
            "names_written": names_written,
            "read_back": read_back,
            "failures": failures.into_iter().collect::<std::collections::BTreeMap<_, _>>(),
            "read_ms": by_ms(&counts.read_ms),
            "commit_ms": by_ms(&counts.commit_ms),
        });
        snapshot.metrics.extend([
            READS.is(reads),
            WRITTEN.is(names_written),
            FAILURES.by("why", failures),
        ]);
    }
}

/// How many took less than so many milliseconds, and no less than half of that.
fn by_ms(steps: &[u64]) -> serde_json::Value {
    let bounds = (0..).map(|step| format!("below_{}", 1u64 << step));
    let all = bounds.zip(steps).filter(|(_, count)| **count > 0);
    all.map(|(bound, count)| (bound, json!(count))).collect::<serde_json::Map<_, _>>().into()
}

/// Results taken in one turn, so that datagrams are not waited for long.
const AT_ONCE: usize = 512;
/// Before a cluster that did not answer is asked again what has changed.
const PAUSE: Duration = Duration::from_millis(500);
/// Compare with look-ups: what had to be read for them.
const READS: Metric =
    Metric::counter("rhumb_rib_cluster_reads_total", "Reads that the cluster answered.");
/// Names in commits that a quorum has acknowledged.
const WRITTEN: Metric =
    Metric::counter("rhumb_rib_cluster_written_names_total", "Names written to the cluster.");
/// `shadowed` are names that begin again with a lower sequence; all others need a look at the
/// cluster.
const FAILURES: Metric =
    Metric::counter("rhumb_rib_cluster_failures_total", "What the cluster did not do, by why.");
