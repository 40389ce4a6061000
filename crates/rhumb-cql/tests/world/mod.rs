//! Holders of names, what they say, and stores of all kinds behind one face.

use std::panic::resume_unwind;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rhumb_cql::{Cluster, CqlAddress, Credentials, Options, Replication, TrustAnchors};
use rhumb_rib::store::{Change, Page, RemovalChange, Store, Wanted};
use rhumb_rib::{Account, Entry, Held, RibError};
use rhumb_trust::{Identity, Removal, Window};
use rhumb_wire::certificate::Locator;
use rhumb_wire::{Certificate, Name, Role, Scope, Statement};
use tokio::runtime::Builder;

use super::cassandra::certificates::Authority;
use super::cassandra::{Cassandra, Purpose, USER, cluster};

/// Who publishes in these tests.
pub(crate) const BY: Name = Name([9; 32]);

/// Stores end what is over by the real clock.
pub(crate) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

pub(crate) struct Holder(pub(crate) Identity);

impl Holder {
    pub(crate) fn new() -> Self {
        Self::of(Role::Node)
    }

    pub(crate) fn of(role: Role) -> Self {
        Self(Identity::generate(role, 0).expect("a key"))
    }

    pub(crate) fn name(&self) -> Name {
        self.0.name()
    }

    pub(crate) fn entry(&self) -> Entry {
        Entry::new((**self.0.metadata()).clone(), BY)
    }

    pub(crate) fn say(&self, statement: Statement, sequence: u64) -> Certificate {
        let window = Window::starting(now_s(), 600);
        self.0.certify(statement, sequence, window).expect("signed")
    }

    pub(crate) fn route(&self, sequence: u64) -> Certificate {
        self.say(Statement::Route { via: Name([1; 32]), scope: Scope::Any }, sequence)
    }

    pub(crate) fn way(&self, via: u8, sequence: u64) -> Certificate {
        self.say(Statement::Route { via: Name([via; 32]), scope: Scope::Several }, sequence)
    }

    pub(crate) fn locator(&self, sequence: u64) -> Certificate {
        let locator = Locator::new("192.0.2.1:4000".parse().expect("an address"));
        self.say(Statement::Locator(locator.expect("usable")), sequence)
    }

    pub(crate) fn withdrawal(&self, sequence: u64) -> Certificate {
        self.say(Statement::Withdrawal, sequence)
    }

    /// The entry after this was said, too.
    pub(crate) fn after(&self, before: Option<Entry>, said: &Certificate) -> Entry {
        let mut entry = before.unwrap_or_else(|| self.entry());
        entry.admit(said, BY, now_s()).expect("newer");
        entry
    }

    pub(crate) fn change(&self, said: &Certificate) -> Change {
        self.becomes(self.after(None, said))
    }

    pub(crate) fn becomes(&self, entry: Entry) -> Change {
        Change { name: self.name(), before: None, after: Some(entry) }
    }

    pub(crate) fn removed(&self) -> Change {
        Change { name: self.name(), before: None, after: None }
    }
}

/// A store of any kind.
pub(crate) enum AnyStore {
    Blocking(Box<dyn Store>),
    Cluster(Cluster),
}

impl AnyStore {
    pub(crate) async fn entry(&mut self, name: &Name) -> Result<Option<Entry>, RibError> {
        match self {
            Self::Blocking(store) => store.entry(name),
            Self::Cluster(cluster) => cluster.entry(name).await,
        }
    }

    pub(crate) async fn commit(&mut self, changes: &[Change]) -> Result<Vec<Name>, RibError> {
        match self {
            Self::Blocking(store) => store.commit(changes),
            Self::Cluster(cluster) => cluster.commit(changes).await,
        }
    }

    pub(crate) async fn held(&mut self, account: &Account) -> Result<Held, RibError> {
        match self {
            Self::Blocking(store) => store.held(account),
            Self::Cluster(cluster) => cluster.held(account).await,
        }
    }

    pub(crate) async fn first_with(
        &mut self,
        beginning: &[u8; Name::ADDRESS_LEN],
    ) -> Result<Option<Name>, RibError> {
        match self {
            Self::Blocking(store) => store.first_with(*beginning),
            Self::Cluster(cluster) => cluster.first_with(beginning).await,
        }
    }

    /// All entries, in whatever order, some at a time.
    pub(crate) async fn all(&mut self) -> Result<Vec<(Name, Entry)>, RibError> {
        const AT_ONCE: usize = 2;
        let mut all: Vec<(Name, Entry)> = Vec::new();
        loop {
            let after = all.last().map(|(name, _)| *name);
            let page = match self {
                Self::Blocking(store) => store.entries_after(after, AT_ONCE)?,
                Self::Cluster(cluster) => cluster.entries_after(after, AT_ONCE).await?,
            };
            let is_last = page.len() < AT_ONCE;
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    }

    pub(crate) async fn page(&mut self, wanted: &Wanted) -> Result<Page, RibError> {
        match self {
            Self::Blocking(store) => store.page(wanted),
            Self::Cluster(cluster) => cluster.page(wanted).await,
        }
    }

    pub(crate) async fn commit_removals(
        &mut self,
        changes: &[RemovalChange],
    ) -> Result<(), RibError> {
        match self {
            Self::Blocking(store) => store.commit_removals(changes),
            Self::Cluster(cluster) => cluster.commit_removals(changes).await,
        }
    }

    pub(crate) async fn removals(&mut self) -> Result<Vec<Option<Removal>>, RibError> {
        match self {
            Self::Blocking(store) => store.removals(),
            Self::Cluster(cluster) => cluster.removals().await,
        }
    }

    /// Waits for as long as what was counted is remembered.
    pub(crate) async fn count_anew(&self) {
        if let Self::Cluster(_) = self {
            tokio::time::sleep(Duration::from_millis(1100)).await;
        }
    }
}

/// Runs a test against the cluster of this program, in a keyspace with tables; or says why not.
pub(crate) fn with_cluster(test: impl AsyncFnOnce(&mut Cassandra) + Send) {
    with_cluster_for(Purpose::Trials, test);
}

/// As [`with_cluster`], of another kind.
pub(crate) fn with_cluster_for(purpose: Purpose, test: impl AsyncFnOnce(&mut Cassandra) + Send) {
    // A thread that has been where the cluster is stays there.
    std::thread::scope(|scope| {
        let run = scope.spawn(|| match cluster(purpose) {
            Ok(mut cluster) => run(&mut cluster, test),
            Err(reason) => println!("skipped: {reason}"),
        });
        if let Err(panic) = run.join() {
            resume_unwind(panic);
        }
    });
}

fn run(cluster: &mut Cassandra, test: impl AsyncFnOnce(&mut Cassandra)) {
    let mut runtime = Builder::new_multi_thread();
    let runtime = runtime.enable_all().on_thread_start(cluster.way_in()).build();
    runtime.expect("a runtime").block_on(async {
        if cluster.needs_tables() {
            let made = connect(cluster).await;
            let nodes = cluster.address(KEYSPACE).nodes().len() as u8;
            let replication = Replication::Nodes(nodes);
            // All tests want them, and on a busy machine nodes agree after minutes; what is there
            // is not made again.
            let mut result = made.create_schema(&replication).await;
            for _ in 0..TRIES_TO_MAKE_TABLES {
                let Err(error) = &result else { break };
                println!("tables are not there yet: {error}");
                result = made.create_schema(&replication).await;
            }
            result.expect("tables");
        }
        test(cluster).await;
    });
}

/// Another server of the same cluster. It waits longer than nodes wait for each other: what a test
/// asks is answered also where the machine has much else to do.
pub(crate) async fn connect(cluster: &Cassandra) -> Cluster {
    connect_with(cluster, |_| ()).await
}

/// The same with other options.
pub(crate) async fn connect_with(cluster: &Cassandra, set: impl FnOnce(&mut Options)) -> Cluster {
    let mut options = options();
    options.patience = PATIENCE;
    options.trust_anchors = cluster.authority().map(anchors);
    set(&mut options);
    Cluster::connect(&cluster.address(KEYSPACE), options).await.expect("a connection")
}

/// As [`connect`], told of some nodes alone.
pub(crate) async fn connect_to(address: &CqlAddress) -> Cluster {
    let mut options = options();
    options.patience = PATIENCE;
    Cluster::connect(address, options).await.expect("a connection")
}

/// With the password of the cluster.
pub(crate) fn options() -> Options {
    let mut options = Options::default();
    options.credentials = Credentials::parse(&format!("{USER}:{USER}"));
    options
}

/// Believes who has signed by this one.
pub(crate) fn anchors(authority: &Authority) -> TrustAnchors {
    TrustAnchors::parse(authority.pem().as_bytes()).expect("a certificate")
}

pub(crate) const KEYSPACE: &str = "rib";
const TRIES_TO_MAKE_TABLES: usize = 3;
/// Longer than nodes wait for each other.
const PATIENCE: Duration = Duration::from_secs(15);
