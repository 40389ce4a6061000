//! A name server on a loopback address, for hosts that are names: what `NAME.rhumb.internal` and
//! labels of the local book stand for, as addresses of IPv6. It knows nothing else, and asks nobody
//! ([decision 0079](../../../docs/decisions/0079-a-resolver-for-names.md)).
//!
//! 1. [`Resolver::open`] takes its address, before privileges are given up.
//! 2. [`Resolver::run`] answers, by UDP and TCP, until it is dropped.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rhumb_keyserver::DomainName;
use rhumb_keyserver::hosts::{Answered, Host, answer};
use rhumb_wire::Name;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::daemon::{Metric, Snapshot};
use crate::failure::{Failure, Outcome};
use crate::names::Book;
use crate::names::host::of_host_by;

/// Its sockets, which are not served yet.
#[derive(Debug)]
pub struct Resolver {
    address: SocketAddr,
    datagrams: std::net::UdpSocket,
    streams: std::net::TcpListener,
    answers: Arc<Answers>,
}

/// How often each answer was given.
#[derive(Debug, Default)]
pub struct Answers([AtomicU64; Answered::ALL.len()]);

impl Resolver {
    /// Takes an address, for UDP and TCP.
    ///
    /// # Errors
    ///
    /// When it is taken, or others could reach it, who would learn what the book holds.
    pub fn open(address: SocketAddr) -> Outcome<Self> {
        if !address.ip().is_loopback() {
            return Err(Failure::setup_text(format!(
                "{address} is no loopback address: the resolver is for this host alone"
            )));
        }
        bind(address).map_err(|error| {
            let advice = match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    "; ports below 1024 need CAP_NET_BIND_SERVICE; 127.0.0.1:5354 does not"
                }
                io::ErrorKind::AddrInUse => "; another one listens there, choose another address",
                _ => "",
            };
            Failure::setup_text(format!("cannot resolve names on {address}: {error}{advice}"))
        })
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Counts from now on.
    pub fn answers(&self) -> Arc<Answers> {
        Arc::clone(&self.answers)
    }

    /// Answers. `book` counts where the user's can not be read, and `learn` is told whose address
    /// goes out: when it says no, since packets there would go to somebody else, it does not.
    ///
    /// # Errors
    ///
    /// When the sockets do not serve.
    pub async fn run(self, book: Book, learn: impl FnMut(Name) -> bool) -> Outcome {
        let datagrams = UdpSocket::from_std(self.datagrams).map_err(Failure::operation)?;
        let streams = TcpListener::from_std(self.streams).map_err(Failure::operation)?;
        let zone = ZONE.parse().map_err(Failure::operation)?;
        let mut hosts = Hosts { zone, book, learn, answers: self.answers };
        let mut buffer = vec![0; LONGEST];
        // One after the other: each is read, answered and forgotten. Streams hand their messages
        // over, since they may take their time.
        let mut conversations: JoinSet<io::Result<Option<Said>>> = JoinSet::new();
        loop {
            tokio::select! {
                received = datagrams.recv_from(&mut buffer) => match received {
                    Ok((len, source)) => {
                        if let Some(answer) = hosts.answer(&buffer[..len]) {
                            // Who has gone meanwhile does not want it.
                            let _ = datagrams.send_to(&answer, source).await;
                        }
                    }
                    // It is one datagram's: an ICMP that came back, or no memory for a moment.
                    Err(_) => sleep(ERROR_PAUSE).await,
                },
                accepted = streams.accept(), if conversations.len() < MOST_STREAMS => match accepted {
                    Ok((stream, _)) => drop(conversations.spawn(listen(stream))),
                    Err(_) => sleep(ERROR_PAUSE).await,
                },
                Some(said) = conversations.join_next() => {
                    let Ok(Ok(Some((stream, message)))) = said else { continue };
                    if let Some(answer) = hosts.answer(&message) {
                        conversations.spawn(say(stream, answer));
                    }
                }
            }
        }
    }
}

impl Answers {
    /// Each answer and how often it was given.
    fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Answered::ALL.iter().map(|(it, label)| (*label, self.of(*it).load(Ordering::Relaxed)))
    }

    /// Puts in how often each was given.
    pub fn report(&self, snapshot: &mut Snapshot) {
        snapshot.status["resolver"] = self.iter().map(|(it, count)| (it, json!(count))).collect();
        snapshot.metrics.push(ANSWERS.by("answer", self.iter()));
    }

    fn of(&self, answered: Answered) -> &AtomicU64 {
        &self.0[answered as usize]
    }
}

/// What has all programs of a host ask it, for the user to do.
pub fn advice(address: SocketAddr, device: &str) -> String {
    // The usual port is one that systemd does not want to hear.
    let server = match address.port() {
        53 => address.ip().to_string(),
        _ => address.to_string(),
    };
    format!(
        ".{ZONE} is resolved at {address}; with systemd: resolvectl dns {device} {server} && resolvectl domain {device} '~{ZONE}'"
    )
}

/// A message, and the stream that waits for its answer.
type Said = (TcpStream, Vec<u8>);

/// Whose hosts there are.
struct Hosts<L> {
    zone: DomainName,
    book: Book,
    learn: L,
    answers: Arc<Answers>,
}

impl<L: FnMut(Name) -> bool> Hosts<L> {
    fn answer(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        let zone = self.zone.clone();
        let (answered, bytes) = answer(&zone, message, |host| self.find(host));
        self.answers.of(answered).fetch_add(1, Ordering::Relaxed);
        bytes
    }

    fn find(&mut self, host: &str) -> Host {
        // It is not there for a user that privileges were given up for.
        if let Ok(book) = Book::read() {
            self.book = book;
        }
        match of_host_by(host, || Ok(self.book.clone())) {
            Ok(name) if (self.learn)(name) => Host::Address(name.address()),
            Ok(_) => Host::Taken,
            Err(_) if self.is_between(host) => Host::Between,
            Err(_) => Host::Nobody,
        }
    }

    /// Whether a label of the book is below a host, such as `my.router` below `router`: resolvers
    /// may take it that there is nothing below what is not there (RFC 8020).
    fn is_between(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        self.book.entries().any(|entry| {
            let label = format!("{}.{ZONE}", entry.label).to_ascii_lowercase();
            label.strip_suffix(&host).is_some_and(|above| above.ends_with('.'))
        })
    }
}

fn bind(wanted: SocketAddr) -> io::Result<Resolver> {
    let datagrams = std::net::UdpSocket::bind(wanted)?;
    let address = datagrams.local_addr()?;
    let streams = std::net::TcpListener::bind(address)?;
    datagrams.set_nonblocking(true)?;
    streams.set_nonblocking(true)?;
    Ok(Resolver { address, datagrams, streams, answers: Arc::default() })
}

/// The next message of a stream (RFC 7766); none when its peer is done, says nothing for long, or
/// more than a question is.
async fn listen(mut stream: TcpStream) -> io::Result<Option<Said>> {
    let read = async {
        let len = usize::from(stream.read_u16().await?);
        if len > LONGEST {
            return Ok(None);
        }
        let mut message = vec![0; len];
        stream.read_exact(&mut message).await?;
        Ok(Some(message))
    };
    let message: io::Result<Option<Vec<u8>>> = timeout(IDLE, read).await?;
    Ok(message?.map(|message| (stream, message)))
}

/// Answers, and goes on.
async fn say(mut stream: TcpStream, answer: Vec<u8>) -> io::Result<Option<Said>> {
    let len = u16::try_from(answer.len()).map_err(io::Error::other)?;
    let framed = [&len.to_be_bytes(), answer.as_slice()].concat();
    timeout(IDLE, stream.write_all(&framed)).await??;
    listen(stream).await
}

const ANSWERS: Metric = Metric::counter(
    "rhumb_resolver_answered_queries_total",
    "Questions for hosts that are names, by what they were answered.",
);
/// What is answered for.
const ZONE: &str = "rhumb.internal";
/// The longest message that is looked at; a question about one host with all extensions is shorter.
const LONGEST: usize = 4096;
/// Programs of this host, which are answered at once.
const MOST_STREAMS: usize = 32;
/// RFC 7766 asks for seconds.
const IDLE: Duration = Duration::from_secs(5);
/// So that a socket that fails does not spin.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Origin;

    fn hosts(entries: &[(&str, Name)], learn: bool) -> Hosts<impl FnMut(Name) -> bool + use<>> {
        let mut book = Book::default();
        for (label, name) in entries {
            book.add(label.parse().unwrap(), *name, Origin::Added);
        }
        let zone = ZONE.parse().unwrap();
        Hosts { zone, book, learn: move |_| learn, answers: Arc::default() }
    }

    #[test]
    fn the_domain_is_one_everywhere() {
        assert_eq!(crate::names::host::SUFFIX, format!(".{ZONE}"));
    }

    #[test]
    fn what_is_between_is_there() {
        let name = Name([1; 32]);
        let hosts = hosts(&[("my.Router", name), ("camera", name)], true);
        assert!(hosts.is_between("router.rhumb.internal"));
        assert!(!hosts.is_between("outer.rhumb.internal"));
        assert!(!hosts.is_between("my.router.rhumb.internal"));
        assert!(!hosts.is_between("era.rhumb.internal"));
    }

    #[test]
    fn a_whole_name_has_its_address_unless_that_leads_elsewhere() {
        let name = Name([1; 32]);
        let host = format!("{name}.rhumb.internal");
        assert_eq!(hosts(&[], true).find(&host), Host::Address(name.address()));
        assert_eq!(hosts(&[], false).find(&host), Host::Taken);
        assert_eq!(hosts(&[], true).find("x.rhumb.internal"), Host::Nobody);
    }

    #[test]
    fn others_are_not_served() {
        for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:53"] {
            let failure = Resolver::open(address.parse().unwrap()).unwrap_err();
            assert!(failure.to_string().contains("no loopback address"), "{failure}");
        }
        let one = Resolver::open("127.0.0.1:0".parse().unwrap()).unwrap();
        let failure = Resolver::open(one.address()).unwrap_err();
        assert!(failure.to_string().contains("another one listens there"), "{failure}");
    }
}
