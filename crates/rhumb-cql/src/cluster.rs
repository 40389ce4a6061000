//! The handle of a store in a cluster.
//!
//! 1. [`Cluster::connect`] finds the nodes; nothing is asked of them yet.
//! 2. [`Cluster::create_schema`] makes the tables, once for all servers.
//! 3. [`Cluster::check_schema`] reads what they are and prepares what will be asked. All that
//!    follows does so by itself where it has not been done.
//! 4. Reads and commits, as many at once as [`Options::most_requests`]; what is more is refused at
//!    once, so that whoever asks a server hears that it has too much to do instead of waiting.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rhumb_rib::RibError;
use rhumb_rib::cells::Written;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::load_balancing::DefaultPolicy;
use scylla::policies::speculative_execution::SimpleSpeculativeExecutionPolicy;
use scylla::statement::Consistency;
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::changes::Changes;
use crate::counted::Accounts;
use crate::failure::{not_connected, other};
use crate::greeting::{self, Greeter};
use crate::metrics::{Kind, Metrics};
use crate::rows::Seen;
use crate::schema::{self, Format, Replication};
use crate::statements::Statements;
use crate::{Counts, CqlAddress, Credentials, Feed, TrustAnchors, clocks};

/// How a cluster is spoken to.
#[derive(Debug)]
#[non_exhaustive]
pub struct Options {
    /// The data centre whose nodes are asked and must agree; that of all nodes together where there
    /// is none. Servers that name different ones may see each other's changes late.
    pub data_centre: Option<String>,
    /// As whom.
    pub credentials: Option<Credentials>,
    /// Who signs the certificates of nodes. They are spoken to in TLS if there is one, and in plain
    /// text, the password too, only if there is none.
    pub trust_anchors: Option<TrustAnchors>,
    /// How many requests may be under way at once.
    pub most_requests: usize,
    /// How long an answer is waited for.
    pub patience: Duration,
    /// After how long a second node is asked, too.
    pub hedge: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            data_centre: None,
            credentials: None,
            trust_anchors: None,
            most_requests: DEFAULT_MOST_REQUESTS,
            patience: DEFAULT_PATIENCE,
            hedge: DEFAULT_HEDGE,
        }
    }
}

/// A handle of a store in a cluster. Cheap to clone; all clones are one server.
#[derive(Clone)]
pub struct Cluster(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) session: Arc<Session>,
    address: CqlAddress,
    ready: OnceCell<Ready>,
    requests: Arc<Semaphore>,
    most_requests: usize,
    pub(crate) metrics: Metrics,
    pub(crate) seen: Seen,
    pub(crate) accounts: Accounts,
}

/// What is there once the tables have been found to be the right ones.
pub(crate) struct Ready {
    pub(crate) statements: Statements,
    pub(crate) format: Format,
    pub(crate) changes: Changes,
}

impl Cluster {
    /// Finds the cluster's nodes.
    ///
    /// # Errors
    /// When none of those that the address names can be reached, or they refuse the user;
    /// [`RibError::StoreNotTrusted`] with a [`TlsFault`](crate::TlsFault) when those that can prove
    /// not who they are, or do not speak as they are spoken to.
    pub async fn connect(address: &CqlAddress, options: Options) -> Result<Self, RibError> {
        let anchors = options.trust_anchors.as_ref();
        let nodes = greeting::answering(address, anchors, options.patience).await?;
        let policy = SimpleSpeculativeExecutionPolicy {
            max_retry_count: HEDGES,
            retry_interval: options.hedge,
        };
        let mut balancing = DefaultPolicy::builder();
        if let Some(centre) = &options.data_centre {
            balancing = balancing.prefer_datacenter(centre.clone());
        }
        let consistency = match options.data_centre {
            Some(_) => Consistency::LocalQuorum,
            None => Consistency::Quorum,
        };
        let profile = ExecutionProfile::builder()
            .consistency(consistency)
            .request_timeout(Some(options.patience))
            .load_balancing_policy(balancing.build())
            .speculative_execution_policy(Some(Arc::new(policy)))
            .build();
        let mut builder = SessionBuilder::new()
            .known_nodes(nodes)
            .default_execution_profile_handle(profile.into_handle())
            .connection_timeout(options.patience)
            .keepalive_interval(KEEP_ALIVE)
            .keepalive_timeout(KEEP_ALIVE)
            // Of its own tables alone: by these it knows which nodes have a row.
            .fetch_full_schema_metadata(false)
            .keyspaces_to_fetch([address.keyspace()])
            .schema_agreement_timeout(SCHEMA_PATIENCE);
        if let Some(credentials) = &options.credentials {
            builder = builder.user(&credentials.user, &credentials.password);
        }
        if let Some(anchors) = &options.trust_anchors {
            let greeter = Greeter { anchors: anchors.clone(), patience: options.patience };
            builder = builder
                .tls_context(Some(anchors.client()))
                .tcp_keepalive_interval(KEEP_ALIVE)
                .address_translator(Arc::new(greeter));
        }
        let session = timeout(START_PATIENCE, builder.build()).await;
        let session =
            session.map_err(|error| RibError::StoreTooSlow { source: Box::new(error) })?;
        let session = session.map_err(|error| not_connected(address, error))?;
        let mut first = [0; 4];
        aws_lc_rs::rand::fill(&mut first).map_err(other)?;
        Ok(Self(Arc::new(Inner {
            session: Arc::new(session),
            address: address.clone(),
            ready: OnceCell::new(),
            requests: Arc::new(Semaphore::new(options.most_requests)),
            most_requests: options.most_requests,
            metrics: Metrics::default(),
            seen: Seen::default(),
            accounts: Accounts::new(u32::from_be_bytes(first)),
        })))
    }

    /// Makes the keyspace and those of its tables that are missing.
    ///
    /// # Errors
    /// When the cluster refuses, or its nodes do not agree in time.
    pub async fn create_schema(&self, replication: &Replication) -> Result<(), RibError> {
        schema::create(&self.0.session, self.0.address.keyspace(), replication).await?;
        self.0.session.refresh_metadata().await.map_err(other)
    }

    /// Whether the tables are there and those of this version.
    ///
    /// # Errors
    /// [`RibError::SchemaMissing`], [`RibError::SchemaOlder`], [`RibError::SchemaNewer`]; or when
    /// the cluster does not answer.
    pub async fn check_schema(&self) -> Result<(), RibError> {
        self.0.ready().await.map(drop)
    }

    /// What tells this store from others: the same for all servers of it.
    ///
    /// # Errors
    /// As [`Cluster::check_schema`].
    pub async fn id(&self) -> Result<[u8; 16], RibError> {
        let secret = &self.0.ready().await?.format.secret;
        let text = [b"store", &secret[..]].concat();
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &text);
        Ok(*digest.as_ref().first_chunk().expect("invariant: 16 of 32 bytes"))
    }

    /// Whether the clocks of the nodes agree: leases end by them.
    ///
    /// # Errors
    /// [`RibError::ClocksApart`] when two are more than ten seconds apart. A node that does not
    /// answer is left out.
    pub async fn check_clocks(&self) -> Result<(), RibError> {
        clocks::check(&self.0.session).await
    }

    /// What other servers change from now on.
    ///
    /// # Errors
    /// When the cluster does not answer.
    pub async fn feed(&self) -> Result<Feed, RibError> {
        Feed::begin(self.0.clone()).await
    }

    /// What happened so far.
    pub fn counts(&self) -> Counts {
        self.0.metrics.counts()
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Cluster({})", self.0.address)
    }
}

impl Inner {
    pub(crate) async fn ready(&self) -> Result<&Ready, RibError> {
        let prepare = async || {
            let keyspace = self.address.keyspace();
            let format = schema::check(&self.session, keyspace).await?;
            let statements = Statements::prepare(self.session.clone(), keyspace).await?;
            Ok(Ready { format, statements, changes: Changes::begin()? })
        };
        self.ready.get_or_try_init(prepare).await
    }

    /// A place among the requests under way.
    pub(crate) fn place(&self) -> Result<OwnedSemaphorePermit, RibError> {
        self.requests.clone().try_acquire_owned().map_err(|_| RibError::Overloaded)
    }

    /// As many places as there are names in a commit, or a part of all: that many are then written
    /// at once.
    pub(crate) fn places(&self, names: usize) -> Result<(usize, OwnedSemaphorePermit), RibError> {
        let most = (self.most_requests / COMMIT_PART).min(self.requests.available_permits());
        let places = names.clamp(1, most.max(1));
        let permit = self.requests.clone().try_acquire_many_owned(places as u32);
        Ok((places, permit.map_err(|_| RibError::Overloaded)?))
    }

    pub(crate) async fn timed<T>(
        &self,
        kind: Kind,
        work: impl Future<Output = Result<T, RibError>>,
    ) -> Result<T, RibError> {
        let began = Instant::now();
        let result = work.await;
        self.metrics.note(kind, &result, began.elapsed());
        result
    }
}

/// The time by this server's clock.
pub(crate) fn now() -> Written {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_us = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
    Written { now_s: since.as_secs(), now_us }
}

/// For how many seconds a store is to keep what is kept until then: a minute longer, for clocks
/// that differ; at least a second, and no longer than CQL knows.
pub(crate) fn ttl_s(keep_until_s: u64, now: Written) -> i32 {
    let seconds = keep_until_s.saturating_sub(now.now_s).saturating_add(CLOCKS_DIFFER_S);
    i32::try_from(seconds).unwrap_or(MAX_TTL_S).clamp(1, MAX_TTL_S)
}

/// Enough for some ten thousand answers a second from nodes that take some milliseconds.
const DEFAULT_MOST_REQUESTS: usize = 512;
/// Longer than nodes themselves wait for each other to write.
const DEFAULT_PATIENCE: Duration = Duration::from_secs(3);
/// Longer than nearly all answers take.
const DEFAULT_HEDGE: Duration = Duration::from_millis(100);
/// So that a request has been at three nodes.
const HEDGES: usize = 2;
/// A node that is silent for twice as long is left out.
const KEEP_ALIVE: Duration = Duration::from_secs(2);
/// Nodes of a busy cluster have taken more than half a minute to agree.
const SCHEMA_PATIENCE: Duration = Duration::from_secs(120);
/// For all that the driver asks of nodes that have answered a moment ago.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// One commit takes at most this part of all places, so that reads go on.
const COMMIT_PART: usize = 4;
const CLOCKS_DIFFER_S: u64 = 60;
/// Twenty years.
const MAX_TTL_S: i32 = 630_720_000;
