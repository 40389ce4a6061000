//! Connections to the servers of both parties, primaries and standbys alike: each is kept up by
//! a task of its own, and begun anew when it ends. They have a thread for themselves
//! ([`Wires`]): when a message came is noted there, and what is said leaves there, at its time,
//! so neither tells what the proxy is busy with.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rhumb_channel::{Channel, Credentials, Outbox, connect};
use rhumb_daemon::exchange_protocols::SERVER;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::remote::Pinned;
use rhumb_exchange::{Connection, Party};
use rhumb_member::Grid;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{sleep, sleep_until};

/// The thread of all connections. It ends when dropped, and they with it.
#[derive(Debug)]
pub(super) struct Wires {
    handle: Handle,
    grid: Grid,
    _end: oneshot::Sender<()>,
}

impl Wires {
    pub(super) fn start(grid: Grid) -> Outcome<Self> {
        let runtime =
            Builder::new_current_thread().enable_all().build().map_err(Failure::operation)?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel();
        std::thread::Builder::new()
            .name("wires".to_owned())
            // An error says that the other end was dropped.
            .spawn(move || _ = runtime.block_on(ended))
            .map_err(Failure::operation)?;
        Ok(Self { handle, grid, _end: end })
    }
}

/// By which a server is told something.
#[derive(Debug)]
pub(super) struct Mouth {
    words: mpsc::UnboundedSender<Spoken>,
    /// Bytes of words that are not due.
    waiting: Arc<AtomicUsize>,
    outbox: Outbox,
}

/// When something is due, and what.
type Spoken = (Instant, Vec<u8>);

impl Mouth {
    /// Says something when it is due; at the next point of the grid if that is past.
    pub(super) fn say(&self, due: Instant, message: Vec<u8>) {
        self.waiting.fetch_add(message.len(), Ordering::Relaxed);
        // The connection may have ended; it will be heard of.
        let _ = self.words.send((due, message));
    }

    /// Bytes that wait.
    pub(super) fn waiting(&self) -> usize {
        self.outbox.waiting() + self.waiting.load(Ordering::Relaxed)
    }
}

/// Says what is due, until there is nobody who could say something.
async fn speak(
    mut words: mpsc::UnboundedReceiver<Spoken>,
    waiting: Arc<AtomicUsize>,
    outbox: Outbox,
    grid: Grid,
) {
    let mut due: BTreeMap<(Instant, u64), Vec<u8>> = BTreeMap::new();
    let mut number = 0;
    loop {
        let next = due.first_key_value().map(|((at, _), _)| *at);
        tokio::select! {
            word = words.recv() => match word {
                Some((at, message)) => {
                    let now = Instant::now();
                    let at = if at > now { at } else { grid.from(now) };
                    due.insert((at, number), message);
                    number += 1;
                }
                None => return,
            },
            () = async { sleep_until(next.unwrap_or_else(Instant::now).into()).await }, if next.is_some() => {
                let now = Instant::now();
                while let Some(first) = due.first_entry().filter(|first| first.key().0 <= now) {
                    let message = first.remove();
                    let len = message.len();
                    if let Err(error) = outbox.try_send(message) {
                        tracing::debug!(?error, "a message is lost with its connection");
                    }
                    waiting.fetch_sub(len, Ordering::Relaxed);
                }
            }
        }
    }
}

/// What becomes of connections.
#[derive(Debug)]
pub(super) enum Event {
    /// There is one.
    Up(Connection, Mouth),
    /// The server says something, and when that came.
    Said(Connection, Vec<u8>, Instant),
    /// It is over, or could not be had; why.
    Down(Connection, String),
}

/// A server, and how the connection to it stands.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) connection: Connection,
    pub(super) party: Party,
    pub(super) server: Pinned,
    pub(super) mouth: Option<Mouth>,
    /// Why there is none.
    pub(super) problem: Option<String>,
    cut: Arc<Notify>,
    task: AbortHandle,
}

impl Link {
    /// Keeps a connection to `server` from now on.
    pub(super) fn start(
        wires: &Wires,
        connection: Connection,
        party: Party,
        server: Pinned,
        credentials: &Credentials,
        events: mpsc::Sender<Event>,
    ) -> Self {
        let cut = Arc::new(Notify::new());
        let keeper = Keeper {
            connection,
            server,
            credentials: credentials.clone(),
            events,
            cut: Arc::clone(&cut),
            grid: wires.grid,
        };
        let task = wires.handle.spawn(keeper.keep()).abort_handle();
        Self { connection, party, server, mouth: None, problem: None, cut, task }
    }

    /// Ends the connection; it will be begun anew.
    pub(super) fn cut(&mut self, problem: String) {
        self.mouth = None;
        self.problem = Some(problem);
        self.cut.notify_one();
    }

    /// Whether another message can be queued without too much waiting there.
    pub(super) fn has_room(&self) -> bool {
        self.mouth.as_ref().is_some_and(|mouth| mouth.waiting() < WINDOW)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Keeper {
    connection: Connection,
    server: Pinned,
    credentials: Credentials,
    events: mpsc::Sender<Event>,
    cut: Arc<Notify>,
    grid: Grid,
}

impl Keeper {
    async fn keep(self) {
        let mut pause = LEAST_PAUSE;
        loop {
            let connected =
                connect(&self.credentials, self.server.address, self.server.name, &SERVER).await;
            let problem = match connected {
                Ok(channel) => {
                    pause = LEAST_PAUSE;
                    self.listen(channel).await
                }
                Err(error) => error.to_string(),
            };
            if self.events.send(Event::Down(self.connection, problem)).await.is_err() {
                return;
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Passes on what the server says, until the channel ends; why it did.
    async fn listen(&self, channel: Channel) -> String {
        let Channel { mut inbox, outbox, .. } = channel;
        let (words, spoken) = mpsc::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        tokio::spawn(speak(spoken, Arc::clone(&waiting), outbox.clone(), self.grid));
        let mouth = Mouth { words, waiting, outbox };
        if self.events.send(Event::Up(self.connection, mouth)).await.is_err() {
            return String::new();
        }
        loop {
            let message = tokio::select! {
                message = inbox.next() => message,
                () = self.cut.notified() => return "it was cut off".to_owned(),
            };
            match message {
                Ok(message) => {
                    let said = Event::Said(self.connection, message, Instant::now());
                    if self.events.send(said).await.is_err() {
                        return String::new();
                    }
                }
                Err(error) => return error.to_string(),
            }
        }
    }
}

/// Bytes that may wait for the kernel before no more words are made.
const WINDOW: usize = 1 << 20;
/// A server that starts again is back at once.
const LEAST_PAUSE: Duration = Duration::from_millis(100);
/// One that is away for long costs no more than this to be found again.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
