//! The node that runs for this user's programs (`rhumb up`), and how other commands use it instead
//! of joining anew, which would take another name, or end that node if it were the same.
//!
//! It listens on a Unix socket in the user's own folder, which that user and root alone may open.
//! A connection is one request and one answer, each a line of JSON; with a file that is sent
//! (`lending`) or received (`taking`) it is more. What was asked for lasts as long as the
//! connection.

mod lending;
mod taking;
mod way;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use rhumb_wire::Name;
use serde::{Deserialize, Serialize};
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader,
};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

use crate::admin::{is_own, usual_socket};
use crate::cli::NodeArguments;
use crate::daemon;
use crate::failure::{Failure, Outcome};
use crate::lifetime::Lifetime;

pub use lending::{Lent, Sent};
pub use taking::{Hands, Taken, Taking, Waiting};
pub use way::Step;

/// What a command asks for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Which name it has.
    Who,
    /// Whom an owner calls something.
    Find {
        /// The owner.
        owner: String,
        /// What it calls him.
        label: String,
    },
    /// The round trip to a name.
    Ping {
        /// Whose.
        name: String,
        /// How long to wait.
        within_ms: u64,
    },
    /// The way to a name.
    Trace {
        /// Whose.
        name: String,
        /// How many hops at most.
        max_hops: u8,
        /// How long to wait for each.
        within_ms: u64,
    },
    /// To bring a port of a name to an address of this host.
    Forward {
        /// The address.
        local: SocketAddr,
        /// Whose port.
        name: String,
        /// The port.
        port: u16,
        /// Whether it is one of datagrams.
        udp: bool,
    },
    /// To send a file that the command has ([`Running::send`]).
    Send {
        /// To whom.
        to: String,
        /// What it is called.
        file: String,
        /// What its bytes are, as an offer says it.
        kind: u8,
        /// Its bytes.
        length: u64,
        /// Its SHA-256, in hex.
        sha256: String,
    },
    /// To send what the command has until it ends ([`Running::send_input`]).
    SendInput {
        /// To whom.
        to: String,
        /// What it is called.
        file: String,
    },
    /// To receive a file that the command has a place for ([`Running::receive`]).
    Receive {
        /// Which process asks: one at a time is received for, by several of these.
        receiver: u64,
        /// From whom; from everybody, if it is not said.
        allow: Option<Vec<String>>,
        /// From members of which domains, too.
        allow_domain: Vec<String>,
    },
    /// To offer a program as a port of its name.
    Serve {
        /// The port.
        port: u16,
        /// Whether it is one of datagrams.
        udp: bool,
        /// Where the program listens.
        to: SocketAddr,
        /// Who may use it; everybody, if it is not said.
        allow: Option<Vec<String>>,
        /// Members of which domains may, too.
        #[serde(default)]
        allow_domain: Vec<String>,
    },
}

/// What it is answered.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// What went wrong, in a line; nothing else counts then.
    pub error: Option<String>,
    /// Whether only the time was over.
    pub timed_out: bool,
    /// The name of the node, or that was asked for.
    pub name: Option<String>,
    /// Where it listens for programs.
    pub local: Option<SocketAddr>,
    /// The round trip.
    pub round_trip_us: Option<f64>,
    /// The way.
    pub hops: Vec<Step>,
    /// The trust domains that the node shows a membership of, or of what lies in them.
    pub domains: Vec<String>,
}

impl Answer {
    /// That something went wrong.
    pub fn failed(problem: &impl ToString) -> Self {
        Self { error: Some(problem.to_string()), ..Self::default() }
    }
}

/// Whoever asks, while he is there.
#[derive(Debug)]
pub struct Asker(BufReader<UnixStream>);

impl Asker {
    /// Takes his request. `None` from who may not ask, and from what is none: he has been told.
    pub async fn request(stream: UnixStream) -> Option<(Request, Self)> {
        let mut asker = Self(BufReader::new(stream));
        if !is_own(asker.0.get_ref()) {
            asker.answer(&Answer::failed(&"only the user of this node may ask it")).await;
            return None;
        }
        let line = timeout(ASKS_WITHIN, line_of(&mut asker.0)).await.ok()?.ok()?;
        match serde_json::from_str(&line) {
            Ok(request) => Some((request, asker)),
            Err(_) => {
                asker.answer(&Answer::failed(&OTHER_VERSION)).await;
                None
            }
        }
    }

    /// Answers; who is gone needs none.
    pub async fn answer(&mut self, answer: &Answer) {
        let _ = say(&mut self.0, answer).await;
    }

    /// Waits until he is gone.
    pub async fn gone(mut self) {
        let _ = self.0.read_u8().await;
    }
}

/// Where this user's commands ask.
#[derive(Debug)]
pub struct Counter {
    listener: std::os::unix::net::UnixListener,
    path: PathBuf,
}

impl Counter {
    /// Listens.
    ///
    /// # Errors
    ///
    /// When another node runs for this user, or there is no place.
    pub fn open() -> Outcome<Self> {
        let path = usual_socket(FILE)?;
        let listener = daemon::bind_socket(&path, "socket", ANOTHER)?;
        Ok(Self { listener, path })
    }

    /// Refuses to go on where [`Counter::open`] would, before anything else is taken.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn check() -> Outcome {
        let path = usual_socket(FILE)?;
        match std::os::unix::net::UnixStream::connect(&path) {
            Ok(_) => Err(Failure::setup_text(format!(
                "socket {} is in use by another process; {ANOTHER}",
                path.display()
            ))),
            Err(_) => Ok(()),
        }
    }

    /// Takes those who ask. To be called in a runtime.
    ///
    /// # Errors
    ///
    /// When the system has no sockets left.
    pub fn listener(&self) -> Outcome<UnixListener> {
        let listener = self.listener.try_clone().map_err(Failure::operation)?;
        UnixListener::from_std(listener).map_err(Failure::operation)
    }
}

impl Drop for Counter {
    /// Takes the socket away, so that nobody asks a process that is gone.
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A node that runs for this user.
#[derive(Debug)]
pub struct Running {
    path: PathBuf,
    /// Its name.
    pub name: Name,
}

impl Running {
    /// The one that there is; none is used by who says how to join, and as whom.
    pub async fn find(node: &NodeArguments) -> Option<Self> {
        if !node.says_nothing() {
            return None;
        }
        let path = usual_socket(FILE).ok()?;
        let mut running = Self { path, name: Name([0; Name::LEN]) };
        let (answer, _) = running.ask(&Request::Who).await.ok()?;
        running.name = answer.name?.parse().ok()?;
        Some(running)
    }

    /// Asks for something, which lasts as long as what is returned beside the answer.
    ///
    /// # Errors
    ///
    /// When the node is gone, or does not understand; what it refuses is an answer.
    pub async fn ask(&self, request: &Request) -> io::Result<(Answer, Asked)> {
        let mut stream = self.begin(request).await?;
        let answer: Answer = serde_json::from_str(&line_of(&mut stream).await?)?;
        Ok((answer, Asked(stream)))
    }

    async fn begin(&self, request: &Request) -> io::Result<BufReader<UnixStream>> {
        let mut stream = BufReader::new(UnixStream::connect(&self.path).await?);
        say(&mut stream, request).await?;
        Ok(stream)
    }
}

impl Answer {
    /// The answer, unless something went wrong.
    ///
    /// # Errors
    ///
    /// What the node says.
    pub fn done(self) -> Outcome<Self> {
        self.done_or(Failure::setup_text)
    }

    /// As [`Answer::done`], where what goes wrong is of the kind that `failed` makes it.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn done_or(self, failed: impl FnOnce(String) -> Failure) -> Outcome<Self> {
        match self.error {
            Some(problem) => Err(failed(problem)),
            None => Ok(self),
        }
    }
}

/// Works by the node that runs, if there is one and `node` does not say how to join instead; until
/// a signal, or the end of the parent.
pub fn by_running<T, F: Future<Output = Outcome<T>>>(
    node: &NodeArguments,
    with_parent: bool,
    interrupted: Outcome<T>,
    work: impl FnOnce(Running) -> F,
) -> Option<Outcome<T>> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().ok()?;
    runtime.block_on(async {
        let running = Running::find(node).await?;
        let mut lifetime = match Lifetime::begin(with_parent) {
            Ok(lifetime) => lifetime,
            Err(failure) => return Some(Err(failure)),
        };
        Some(tokio::select! {
            outcome = work(running) => outcome,
            _ = lifetime.end() => interrupted,
        })
    })
}

/// What was asked for, while it lasts.
#[derive(Debug)]
pub struct Asked(BufReader<UnixStream>);

impl Asked {
    /// Waits until the node ends it.
    ///
    /// # Errors
    ///
    /// Always: nobody else does.
    pub async fn ended<T>(mut self) -> Outcome<T> {
        let _ = self.0.read_u8().await;
        Err(ended())
    }
}

fn ended() -> Failure {
    Failure::operation_text("the running node has ended it: `rhumb up` says why")
}

async fn say(stream: &mut (impl AsyncWrite + Unpin), what: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    stream.write_all(&line).await
}

async fn line_of(stream: &mut (impl AsyncBufRead + Unpin)) -> io::Result<String> {
    let mut line = String::new();
    let len = (&mut *stream).take(LONGEST_LINE).read_line(&mut line).await?;
    match len {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(line),
    }
}

const ANOTHER: &str = "another node runs for this user: end it, or give commands = false in [up]";
const OTHER_VERSION: &str = "the running node is of another version: restart `rhumb up`";
/// Its socket in the user's folder.
const FILE: &str = "up.node";
const ASKS_WITHIN: Duration = Duration::from_secs(5);
/// An allow list of a thousand names fits.
const LONGEST_LINE: u64 = 64 << 10;
