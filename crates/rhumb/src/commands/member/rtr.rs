//! What validates origins, kept up to date from caches of the RPKI: the protocol is in
//! `rhumb_bgp::policy::rtr`, the connections are here.
//!
//! One task per cache connects, asks, and connects again when that ends; all are asked
//! all the time, so that another one's set is at hand when the preferred one's
//! expires. What is in force is published as a whole.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rhumb_bgp::policy::Vrps;
use rhumb_bgp::policy::rtr::{RtrCaches, RtrClient, RtrCounters};
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};

/// What is in force.
#[derive(Debug, Clone, Default)]
pub(crate) struct Published {
    /// Empty where no cache has a set: then nothing is found, and nothing is invalid.
    pub(crate) vrps: Arc<Vrps>,
    /// Whose set it is.
    pub(crate) cache: Option<SocketAddr>,
}

/// The caches being followed. Dropped, it follows no more.
#[derive(Debug)]
pub(crate) struct RtrFeed {
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

/// How a cache is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct CacheReport {
    pub(crate) cache: SocketAddr,
    pub(crate) connected: bool,
    /// Payloads; none where there is no set that may be used.
    pub(crate) payloads: Option<usize>,
    /// Whether its set is the one in force.
    pub(crate) in_force: bool,
    /// Why the last connection ended.
    pub(crate) problem: Option<String>,
    pub(crate) resets: u64,
    pub(crate) deltas: u64,
    pub(crate) expired: u64,
    pub(crate) faults: u64,
}

#[derive(Debug)]
struct Shared {
    addresses: Vec<SocketAddr>,
    state: Mutex<State>,
    published: watch::Sender<Published>,
}

#[derive(Debug)]
struct State {
    caches: RtrCaches,
    /// Of each cache.
    links: Vec<Link>,
}

#[derive(Debug, Clone, Default)]
struct Link {
    connected: bool,
    problem: Option<String>,
}

impl RtrFeed {
    /// Begins to follow caches, the preferred one first. To be called within a runtime.
    pub(crate) fn start(addresses: &[SocketAddr]) -> Self {
        let state = State {
            caches: RtrCaches::new(addresses.len()),
            links: vec![Link::default(); addresses.len()],
        };
        let shared = Arc::new(Shared {
            addresses: addresses.to_vec(),
            state: Mutex::new(state),
            published: watch::Sender::new(Published::default()),
        });
        let mut tasks = JoinSet::new();
        for cache in 0..addresses.len() {
            tasks.spawn(follow(Arc::clone(&shared), cache));
        }
        Self { shared, _tasks: tasks }
    }

    /// Tells of every set that comes into force.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Published> {
        self.shared.published.subscribe()
    }

    /// How the caches are doing, the preferred one first.
    pub(crate) fn report(&self) -> Vec<CacheReport> {
        let state = self.shared.state();
        let in_force = state.caches.in_force().map(|(cache, _)| cache);
        let links = state.links.iter().zip(&self.shared.addresses);
        let clients = state.caches.iter().zip(links).enumerate();
        let report =
            |(at, (client, (link, address))): (usize, (&RtrClient, (&Link, &SocketAddr)))| {
                let RtrCounters { resets, deltas, expired, faults } = client.counters();
                CacheReport {
                    cache: *address,
                    connected: link.connected,
                    payloads: client.vrps().map(BTreeSet::len),
                    in_force: in_force == Some(at),
                    problem: link.problem.clone(),
                    resets,
                    deltas,
                    expired,
                    faults,
                }
            };
        clients.map(report).collect()
    }
}

impl Shared {
    /// Whoever panicked with it left it whole: each change is one call of a client.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with a client, publishes what that changed, and gives back
    /// what is to be sent and when to look again.
    fn drive<T>(&self, cache: usize, act: impl FnOnce(&mut RtrClient) -> T) -> Driven<T> {
        let mut state = self.state();
        let client =
            state.caches.client(cache).expect("invariant: there is a client for every address");
        let result = act(client);
        let driven = Driven { result, send: client.poll_transmit(), next: client.poll_timeout() };
        let news = client.take_news();
        if news {
            let in_force = state.caches.in_force();
            // One of a cache behind the one in force changes nothing.
            if in_force.is_none_or(|(at, _)| at >= cache) {
                let cache = in_force.map(|(at, _)| self.addresses[at]);
                let vrps = Arc::new(in_force.map(|(_, set)| Vrps::new(set)).unwrap_or_default());
                tracing::info!(payloads = vrps.len(), cache = ?cache, "origins are validated by another set");
                self.published.send_replace(Published { vrps, cache });
            }
        }
        driven
    }

    fn note(&self, cache: usize, link: Link) {
        self.state().links[cache] = link;
    }
}

/// What came of a look at a client.
struct Driven<T> {
    result: T,
    send: Option<Vec<u8>>,
    next: Option<Instant>,
}

/// Follows one cache for good.
async fn follow(shared: Arc<Shared>, cache: usize) {
    let address = shared.addresses[cache];
    let mut pause = RECONNECT_LEAST;
    loop {
        let before =
            shared.drive(cache, |client| (client.counters(), client.knows_serial())).result;
        let problem = match timeout(CONNECT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                shared.note(cache, Link { connected: true, problem: None });
                serve(&shared, cache, stream).await
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer".to_owned(),
        };
        let ended = shared.drive(cache, |client| {
            client.disconnected();
            ((client.counters(), client.knows_serial()), client.retry_after())
        });
        let (after, longest) = ended.result;
        tracing::warn!(cache = %address, "no RPKI data: {problem}");
        shared.note(cache, Link { connected: false, problem: Some(problem) });
        // One that brought something, or after which another question
        // is asked, is followed by the next one soon.
        let brought = (after.0.resets, after.0.deltas) != (before.0.resets, before.0.deltas);
        if brought || after.1 != before.1 {
            pause = RECONNECT_LEAST;
        }
        rest(&shared, cache, Instant::now() + pause, ended.next).await;
        pause = (2 * pause).min(longest.max(RECONNECT_LEAST));
    }
}

/// Waits, while the set may expire.
async fn rest(shared: &Shared, cache: usize, until: Instant, mut expiry: Option<Instant>) {
    while let Some(due) = expiry.filter(|due| *due < until) {
        sleep_until(due.into()).await;
        expiry = shared.drive(cache, |client| client.handle_timeout(Instant::now())).next;
    }
    sleep_until(until.into()).await;
}

/// Speaks with a cache until the connection ends; says why.
async fn serve(shared: &Shared, cache: usize, mut stream: TcpStream) -> String {
    let mut buffer = vec![0; READ_LEN];
    let begun = shared.drive(cache, |client| client.connected(Instant::now()));
    let (mut send, mut next) = (begun.send, begun.next);
    loop {
        if let Some(bytes) = send.take() {
            match timeout(CONNECT, stream.write_all(&bytes)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return error.to_string(),
                Err(_) => return "it takes nothing".to_owned(),
            }
        }
        // A client that is connected always waits for something.
        let due = next.unwrap_or_else(|| Instant::now() + CONNECT);
        let driven = tokio::select! {
            read = stream.read(&mut buffer) => match read {
                Ok(0) => return "the cache has closed the connection".to_owned(),
                Ok(len) => {
                    shared.drive(cache, |client| client.handle_bytes(&buffer[..len], Instant::now()))
                }
                Err(error) => return error.to_string(),
            },
            () = sleep_until(due.into()) => {
                shared.drive(cache, |client| client.handle_timeout(Instant::now()))
            }
        };
        if let Err(error) = driven.result {
            if let Some(report) = driven.send {
                // It may be gone already; what matters is why.
                let _ = timeout(CONNECT, stream.write_all(&report)).await;
            }
            return error.to_string();
        }
        (send, next) = (driven.send, driven.next);
    }
}

/// For a connection, and for what is sent on it, which is short.
const CONNECT: Duration = Duration::from_secs(10);
/// Before the next connection; doubled up to the retry interval of the cache.
const RECONNECT_LEAST: Duration = Duration::from_secs(1);
/// Of one read: two thousand payloads.
const READ_LEN: usize = 64 << 10;

#[cfg(test)]
mod tests;
