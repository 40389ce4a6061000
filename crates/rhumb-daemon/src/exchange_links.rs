//! Connections of a member to the servers of both parties, primaries and standbys alike: each is
//! kept up by a task of its own, and begun anew when it ends. They have a thread for themselves:
//! when a message came is noted there, and what is said leaves there, at its time, so neither tells
//! what the member is busy with.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rhumb_channel::{Channel, Credentials, Outbox, connect};
use rhumb_exchange::{Connection, ExchangeError, Party};
use rhumb_member::{Grid, Seat};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{sleep, sleep_until};

use crate::exchange_protocols::SERVER;
use crate::failure::{Failure, Outcome};
use crate::remote::Pinned;
use crate::{clock, key};

/// The servers of both parties: of each the primary first.
#[derive(Debug, Clone)]
pub struct Servers {
    /// Those of the first party, the exchange.
    pub exchange: Vec<Pinned>,
    /// Those of the second, neutral party.
    pub neutral: Vec<Pinned>,
}

/// All connections of a member, until dropped.
#[derive(Debug)]
pub struct Links {
    links: Vec<Link>,
    events: mpsc::Receiver<Event>,
    _wires: Wires,
}

/// What a server said, and when that came.
#[derive(Debug)]
pub struct Said {
    /// On which connection.
    pub connection: Connection,
    /// What.
    pub message: Vec<u8>,
    /// When.
    pub came: Instant,
}

impl Links {
    /// Begins to connect. What is said leaves at points of the grid.
    pub fn start(grid: Grid, servers: &Servers, credentials: &Credentials) -> Outcome<Self> {
        let wires = Wires::start(grid)?;
        let (told, events) = mpsc::channel(EVENTS);
        let one = servers.exchange.iter().map(|server| (Party::One, *server));
        let two = servers.neutral.iter().map(|server| (Party::Two, *server));
        let all = (0..).zip(one.chain(two)).map(|(number, (party, server))| {
            Link::start(&wires, Connection(number), party, server, credentials, told.clone())
        });
        Ok(Self { links: all.collect(), events, _wires: wires })
    }

    /// Waits for what happens, and gives so much of it at most. May be dropped before it is done:
    /// nothing is lost.
    pub async fn recv(&mut self, into: &mut Vec<Event>, most: usize) {
        self.events.recv_many(into, most).await;
    }

    /// Takes note of what happened. What a server said is for who called.
    pub fn hear(&mut self, event: Event, seat: &mut Seat) -> Option<Said> {
        match event {
            Event::Up(connection, mouth) => {
                self.up(connection, mouth, seat);
                None
            }
            Event::Down(connection, problem) => {
                let link = &mut self.links[connection.0 as usize];
                let is_news = link.problem.as_deref() != Some(&problem);
                if is_news || link.mouth.is_some() {
                    let (server, party) = (link.server.address, number(link.party));
                    tracing::warn!(%server, party, problem, "no connection to a server");
                }
                (link.mouth, link.problem) = (None, Some(problem));
                seat.disconnected(connection);
                None
            }
            Event::Said(connection, message, came) => {
                let link = &self.links[connection.0 as usize];
                link.mouth.as_ref().map(|_| Said { connection, message, came })
            }
        }
    }

    fn up(&mut self, connection: Connection, mouth: Mouth, seat: &mut Seat) {
        let link = &mut self.links[connection.0 as usize];
        let (server, party) = (link.server.address, number(link.party));
        // Whoever reads the line about its absence reads this one, too.
        match link.problem.take() {
            Some(_) => tracing::warn!(%server, party, "connected to a server now"),
            None => tracing::info!(%server, party, "connected to a server"),
        }
        link.mouth = Some(mouth);
        seat.connected(connection, link.party);
        self.speak(seat, Instant::now());
    }

    /// The connections that there are.
    pub fn all_up(&self) -> Vec<(Connection, Party)> {
        let up = self.links.iter().filter(|link| link.mouth.is_some());
        up.map(|link| (link.connection, link.party)).collect()
    }

    /// Ends a connection on which a server has said what it must not; it will be begun anew.
    pub fn cut(&mut self, connection: Connection, error: &ExchangeError, seat: &mut Seat) {
        let link = &mut self.links[connection.0 as usize];
        let server = link.server.address;
        tracing::error!(%server, %error, "a connection to a server is cut");
        link.cut(error.to_string());
        seat.disconnected(connection);
    }

    /// Ends all, as there is another roster.
    pub fn begin_anew(&mut self) {
        self.links.iter_mut().for_each(|link| link.cut("there is another roster".to_owned()));
    }

    /// Tells servers what follows from what they said, when it is due.
    pub fn speak(&self, seat: &mut Seat, due: Instant) {
        for link in &self.links {
            while let Some(answer) = seat.poll_answer(link.connection) {
                if let Some(mouth) = &link.mouth {
                    mouth.say(due, answer);
                }
            }
        }
    }

    /// Gives each server what it takes.
    pub fn pump(&self, seat: &mut Seat) {
        for link in &self.links {
            while link.has_room()
                && let Some(message) = seat.poll_message(link.connection)
            {
                if let Some(mouth) = &link.mouth {
                    mouth.say(Instant::now(), message);
                }
            }
        }
    }

    /// Whether a server takes nothing more at the moment.
    pub fn is_behind(&self) -> bool {
        self.links.iter().any(|link| link.mouth.is_some() && !link.has_room())
    }

    /// Bytes that wait to be taken by servers.
    pub fn waiting(&self) -> usize {
        self.links.iter().filter_map(|link| link.mouth.as_ref()).map(Mouth::waiting).sum()
    }

    /// Of how many of them there is a connection now, and how many there are.
    pub fn count(&self) -> (usize, usize) {
        (self.all_up().len(), self.links.len())
    }

    /// How each of them is doing.
    pub fn report(&self) -> Vec<Value> {
        let server = |link: &Link| {
            json!({
                "party": number(link.party),
                "server": link.server.address,
                "name": link.server.name.to_string(),
                "connected": link.mouth.is_some(),
                "waiting_bytes": link.mouth.as_ref().map(Mouth::waiting),
                "problem": link.problem,
            })
        };
        self.links.iter().map(server).collect()
    }
}

/// What a core is made with: the time, which orders a member's cores, and a secret.
///
/// # Errors
///
/// The system gives no randomness.
pub fn fresh() -> Result<(u64, [u8; 32]), ExchangeError> {
    let secret = key::fresh_secret();
    let secret = secret.map_err(|_| ExchangeError::Unexpected("no randomness"))?;
    Ok((clock::now().unix_ms, secret))
}

/// 1 or 2.
fn number(party: Party) -> u8 {
    match party {
        Party::One => 1,
        Party::Two => 2,
    }
}

/// The thread of all connections. It ends when dropped, and they with it.
#[derive(Debug)]
struct Wires {
    handle: Handle,
    grid: Grid,
    _end: oneshot::Sender<()>,
}

impl Wires {
    fn start(grid: Grid) -> Outcome<Self> {
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
pub struct Mouth {
    words: mpsc::UnboundedSender<Spoken>,
    /// Bytes of words that are not due.
    waiting: Arc<AtomicUsize>,
    outbox: Outbox,
}

/// When something is due, and what.
type Spoken = (Instant, Vec<u8>);

impl Mouth {
    /// Says something when it is due; at the next point of the grid if that is past.
    fn say(&self, due: Instant, message: Vec<u8>) {
        self.waiting.fetch_add(message.len(), Ordering::Relaxed);
        // The connection may have ended; it will be heard of.
        let _ = self.words.send((due, message));
    }

    /// Bytes that wait.
    fn waiting(&self) -> usize {
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
pub enum Event {
    /// There is one.
    Up(Connection, Mouth),
    /// The server says something, and when that came.
    Said(Connection, Vec<u8>, Instant),
    /// It is over, or could not be had; why.
    Down(Connection, String),
}

/// A server, and how the connection to it stands.
#[derive(Debug)]
struct Link {
    connection: Connection,
    party: Party,
    server: Pinned,
    mouth: Option<Mouth>,
    /// Why there is none.
    problem: Option<String>,
    cut: Arc<Notify>,
    task: AbortHandle,
}

impl Link {
    /// Keeps a connection to `server` from now on.
    fn start(
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
    fn cut(&mut self, problem: String) {
        self.mouth = None;
        self.problem = Some(problem);
        self.cut.notify_one();
    }

    /// Whether another message can be queued without too much waiting there.
    fn has_room(&self) -> bool {
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

/// Events that wait to be taken: some messages' worth.
const EVENTS: usize = 1024;
/// Bytes that may wait for the kernel before no more words are made.
const WINDOW: usize = 1 << 20;
/// A server that starts again is back at once.
const LEAST_PAUSE: Duration = Duration::from_millis(100);
/// One that is away for long costs no more than this to be found again.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
