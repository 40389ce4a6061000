//! A name server on a loopback address, for hosts that are names: what `NAME.rhumb.internal` and
//! labels of the local book stand for, as addresses of IPv6, and what owners publish under these.
//! It knows nothing else, and asks nobody but RIBs for what is published
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
use crate::names::host::of_host_by;
use crate::names::{Book, Called};
use crate::published::{Finder, NotFound};

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

    /// Answers. `book` counts where the user's can not be read, `finder` knows what is published,
    /// and `learn` is told whose address goes out: when it says no, since packets there would go to
    /// somebody else, it does not.
    ///
    /// # Errors
    ///
    /// When the sockets do not serve.
    pub async fn run(self, book: Book, finder: Finder, learn: impl FnMut(Name) -> bool) -> Outcome {
        let datagrams = UdpSocket::from_std(self.datagrams).map_err(Failure::operation)?;
        let streams = TcpListener::from_std(self.streams).map_err(Failure::operation)?;
        let zone = ZONE.parse().map_err(Failure::operation)?;
        let mut hosts = Hosts { zone, book, learn, answers: self.answers };
        let mut buffer = vec![0; LONGEST];
        // One after the other: each is read, answered and forgotten. Streams hand their messages
        // over, since they may take their time, and so may RIBs that are asked.
        let mut conversations: JoinSet<io::Result<Option<Said>>> = JoinSet::new();
        let mut asked: JoinSet<Asked> = JoinSet::new();
        loop {
            let (source, message, found) = tokio::select! {
                received = datagrams.recv_from(&mut buffer) => match received {
                    Ok((len, from)) => (Source::Datagram(from), buffer[..len].to_vec(), None),
                    // It is one datagram's: an ICMP that came back, or no memory for a moment.
                    Err(_) => {
                        sleep(ERROR_PAUSE).await;
                        continue;
                    }
                },
                accepted = streams.accept(), if conversations.len() < MOST_STREAMS => {
                    match accepted {
                        Ok((stream, _)) => drop(conversations.spawn(listen(stream))),
                        Err(_) => sleep(ERROR_PAUSE).await,
                    }
                    continue;
                }
                Some(said) = conversations.join_next() => {
                    let Ok(Ok(Some((stream, message)))) = said else { continue };
                    (Source::Stream(stream), message, None)
                }
                Some(done) = asked.join_next() => {
                    let Ok((source, message, found)) = done else { continue };
                    (source, message, Some(found))
                }
            };
            let is_full = asked.len() >= MOST_ASKED;
            let found = found.or_else(|| is_full.then_some(Err(NotFound::Busy)));
            match hosts.answer(&message, found.as_ref()) {
                Begun::Asks(called) => {
                    let finder = finder.clone();
                    asked.spawn(async move { (source, message, finder.find(&called).await) });
                }
                Begun::Answered(Some(answer)) => match source {
                    // Who has gone meanwhile does not want it.
                    Source::Datagram(to) => drop(datagrams.send_to(&answer, to).await),
                    Source::Stream(stream) => drop(conversations.spawn(say(stream, answer))),
                },
                Begun::Answered(None) => {}
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

/// Where a message came from, and its answer goes.
enum Source {
    Datagram(SocketAddr),
    Stream(TcpStream),
}

/// A message that waited for a RIB, and what came of it.
type Asked = (Source, Vec<u8>, Result<Name, NotFound>);

/// What comes of a message.
enum Begun {
    /// Its answer, if it has one.
    Answered(Option<Vec<u8>>),
    /// This has to be found first.
    Asks(Called),
}

/// Whose hosts there are.
struct Hosts<L> {
    zone: DomainName,
    book: Book,
    learn: L,
    answers: Arc<Answers>,
}

impl<L: FnMut(Name) -> bool> Hosts<L> {
    /// The answer to a message: with what was found of what an owner publishes, if that was asked.
    fn answer(&mut self, message: &[u8], found: Option<&Result<Name, NotFound>>) -> Begun {
        let zone = self.zone.clone();
        let mut asks = None;
        let (answered, bytes) = answer(&zone, message, |host| self.find(host, found, &mut asks));
        if let Some(called) = asks {
            return Begun::Asks(called);
        }
        self.answers.of(answered).fetch_add(1, Ordering::Relaxed);
        Begun::Answered(bytes)
    }

    fn find(
        &mut self,
        host: &str,
        found: Option<&Result<Name, NotFound>>,
        asks: &mut Option<Called>,
    ) -> Host {
        // It is not there for a user that privileges were given up for.
        if let Ok(book) = Book::read() {
            self.book = book;
        }
        let name = match (of_host_by(host, || Ok(self.book.clone())), found) {
            (Ok(Called::Name(name)), _) => Some(name),
            (Ok(_), Some(Ok(name))) => Some(*name),
            (Ok(called), None) => {
                *asks = Some(called);
                return Host::NotKnown;
            }
            (Ok(_), Some(Err(problem))) if !problem.is_certain() => return Host::NotKnown,
            _ => None,
        };
        match name {
            Some(name) if (self.learn)(name) => Host::Address(name.address()),
            Some(_) => Host::Taken,
            None if self.is_between(host) => Host::Between,
            None => Host::Nobody,
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
/// Messages that wait for a RIB: others are told at once that it is not known now.
const MOST_ASKED: usize = 256;
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
        let find = |learn, host: &str| hosts(&[], learn).find(host, None, &mut None);
        assert_eq!(find(true, &host), Host::Address(name.address()));
        assert_eq!(find(false, &host), Host::Taken);
        assert_eq!(find(true, "x.rhumb.internal"), Host::Nobody);
    }

    #[test]
    fn what_an_owner_publishes_is_asked_for_and_what_is_not_known_is_not_denied() {
        let (alice, camera) = (Name([1; 32]), Name([2; 32]));
        let host = format!("camera.{alice}.rhumb.internal");
        let find = |found: Option<Result<Name, NotFound>>| {
            let mut asks = None;
            let host = hosts(&[], true).find(&host, found.as_ref(), &mut asks);
            (host, asks.map(|called| called.to_string()))
        };
        assert_eq!(find(None), (Host::NotKnown, Some(format!("camera.{alice}"))));
        assert_eq!(find(Some(Ok(camera))), (Host::Address(camera.address()), None));
        for certain in [NotFound::Nothing(alice), NotFound::NoRib, NotFound::Expired(alice, 9)] {
            assert_eq!(find(Some(Err(certain))), (Host::Nobody, None));
        }
        for uncertain in [NotFound::Busy, NotFound::Forged(alice), NotFound::Older(alice)] {
            assert_eq!(find(Some(Err(uncertain))), (Host::NotKnown, None));
        }
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
