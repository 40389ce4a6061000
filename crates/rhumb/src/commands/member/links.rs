//! Connections to the servers of both parties, primaries and standbys alike: each is kept up by a task of its own, and begun anew when
//! it ends.

use std::sync::Arc;
use std::time::Duration;

use rhumb_channel::{Channel, Credentials, Outbox, connect};
use rhumb_exchange::{Connection, Party};
use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;
use tokio::time::sleep;

use crate::commands::exchange::wire::SERVER;
use crate::remote::Pinned;

/// What becomes of connections.
#[derive(Debug)]
pub(super) enum Event {
    /// There is one.
    Up(Connection, Outbox),
    /// The server says something.
    Said(Connection, Vec<u8>),
    /// It is over, or could not be had; why.
    Down(Connection, String),
}

/// A server, and how the connection to it stands.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) connection: Connection,
    pub(super) party: Party,
    pub(super) server: Pinned,
    pub(super) outbox: Option<Outbox>,
    /// Why there is none.
    pub(super) problem: Option<String>,
    cut: Arc<Notify>,
    task: AbortHandle,
}

impl Link {
    /// Keeps a connection to `server` from now on. To be called in a runtime.
    pub(super) fn start(
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
        };
        let task = tokio::spawn(keeper.keep()).abort_handle();
        Self { connection, party, server, outbox: None, problem: None, cut, task }
    }

    /// Ends the connection; it will be begun anew.
    pub(super) fn cut(&mut self, problem: String) {
        self.outbox = None;
        self.problem = Some(problem);
        self.cut.notify_one();
    }

    /// Whether another message can be queued without too much waiting there.
    pub(super) fn has_room(&self) -> bool {
        self.outbox.as_ref().is_some_and(|outbox| outbox.waiting() < WINDOW)
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
        if self.events.send(Event::Up(self.connection, outbox)).await.is_err() {
            return String::new();
        }
        loop {
            let message = tokio::select! {
                message = inbox.next() => message,
                () = self.cut.notified() => return "it was cut off".to_owned(),
            };
            match message {
                Ok(message) => {
                    let said = Event::Said(self.connection, message);
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
