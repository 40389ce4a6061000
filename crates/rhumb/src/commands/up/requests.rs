//! What other commands of this user ask of the running node.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use data_encoding::HEXLOWER;
use rhumb_daemon::belonging::Belonging;
use rhumb_daemon::config::{Allowed, OfferedPort};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::names::{ByOwner, Called};
use rhumb_daemon::output::Form;
use rhumb_daemon::ports::door::{Door, reach};
use rhumb_daemon::ports::offer;
use rhumb_daemon::published::Finder;
use rhumb_daemon::removals::Hearing;
use rhumb_daemon::running::{Answer, Asker, Counter, Request, Step, Waiting};
use rhumb_node::transfer::Offered;
use rhumb_node::{Node, PingError};
use rhumb_wire::Name;
use rhumb_wire::transfer::{CancelReason, FileName, Kind, Offer};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What requests are answered with.
#[derive(Clone)]
pub(super) struct Means {
    pub(super) node: Node,
    /// Who tells of removals.
    pub(super) hearing: Hearing,
    /// Who finds published names.
    pub(super) finder: Finder,
    /// What the node shows of its trust domain.
    pub(super) belonging: Belonging,
    /// For whom files are received.
    pub(super) receiver: Receiver,
    pub(super) form: Form,
}

/// Answers requests until the node ends.
pub(super) async fn answer(means: Means, counter: Counter) -> Outcome {
    let listener = counter.listener()?;
    let mut asked = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) if asked.len() < MAX_AT_ONCE => {
                    asked.spawn(answer_one(means.clone(), stream));
                }
                // One more command has to wait for others to be done: it is turned away.
                Ok(_) => {}
                Err(error) => return Err(Failure::operation(error)),
            },
            Some(_) = asked.join_next() => {}
        }
    }
}

async fn answer_one(means: Means, stream: UnixStream) {
    let Some((request, asker)) = Asker::request(stream).await else { return };
    let answer = match request {
        Request::Who => {
            let name = Some(means.node.name().to_string());
            Answer { name, ..Answer::default() }
        }
        Request::Find { owner, label } => match find(&means.finder, &owner, &label).await {
            Ok(name) => Answer { name: Some(name.to_string()), ..Answer::default() },
            Err(failure) => failed(&failure),
        },
        Request::Ping { name, within_ms } => ping(&means.node, &name, within_ms).await,
        Request::Trace { name, max_hops, within_ms } => {
            means.trace(&name, max_hops, within_ms).await.unwrap_or_else(|it| failed(&it))
        }
        Request::Forward { local, name, port, udp } => {
            return means.forward(asker, local, (&name, port), udp).await;
        }
        Request::Send { to, file, kind, length, sha256 } => {
            let offer = read_offer(kind, &file, length, &sha256);
            return means.send(asker, &to, offer).await;
        }
        Request::SendInput { to, file } => {
            let file = FileName::new(&file).map_err(Failure::setup);
            return means.send_input(asker, &to, file).await;
        }
        Request::Receive { receiver, allow, allow_domain } => {
            return means
                .receive(asker, receiver, read_allowed(allow.as_deref(), &allow_domain))
                .await;
        }
        Request::Serve { port, udp, to, allow, allow_domain } => {
            let allow = read_allowed(allow.as_deref(), &allow_domain);
            let offered = |allow| OfferedPort { only: None, port, udp, to, allow };
            return means.serve(asker, allow.map(offered)).await;
        }
    };
    say(asker, answer).await;
}

impl Means {
    async fn trace(&self, name: &str, max_hops: u8, within_ms: u64) -> Outcome<Answer> {
        let name = read_name(name)?;
        let within = Duration::from_millis(within_ms).min(LONGEST_PING);
        let hops = self.node.trace(name, max_hops.min(LONGEST_WAY), within).await;
        let hops = hops.map_err(Failure::operation)?.into_iter().map(Step::from).collect();
        let domains = self.belonging.domains().iter().map(Name::to_string).collect();
        Ok(Answer { hops, domains, ..Answer::default() })
    }

    async fn forward(self, asker: Asker, local: SocketAddr, to: (&str, u16), udp: bool) {
        let (name, port) = to;
        match open(&self.node, local, name, udp).await {
            Ok((door, name)) => {
                let local = Some(door.local());
                let answer = Answer { local, ..Answer::default() };
                hold(asker, answer, door.lead(self.node, (name, port), self.form)).await;
            }
            Err(failure) => say(asker, failed(&failure)).await,
        }
    }

    async fn send(self, asker: Asker, to: &str, offer: Outcome<Offer>) {
        match read_name(to).and_then(|to| Ok((to, offer?))) {
            Ok((to, offer)) => {
                let send = |source, told: watch::Sender<u64>| async move {
                    self.node.send_file(to, source, offer, tell(told)).await
                };
                asker.borrow(send).await;
            }
            Err(failure) => say(asker, failed(&failure)).await,
        }
    }

    async fn send_input(self, asker: Asker, to: &str, file: Outcome<FileName>) {
        match read_name(to).and_then(|to| Ok((to, file?))) {
            Ok((to, file)) => {
                let send = |source, told: watch::Sender<u64>| async move {
                    self.node.send_endless(to, source, file, tell(told)).await
                };
                asker.borrow_input(send).await;
            }
            Err(failure) => say(asker, failed(&failure)).await,
        }
    }

    async fn receive(self, asker: Asker, receiver: u64, allow: Outcome<Allowed>) {
        let turn = Turn::take(&self.receiver, receiver);
        let (allow, _turn) = match allow.and_then(|allow| Ok((allow, turn?))) {
            Ok(may) => may,
            Err(failure) => return say(asker, failed(&failure)).await,
        };
        self.hearing.heed(allow.domains().iter().copied());
        let receive = |waiting: Waiting, told| async move {
            let open = move |offered: &Offered| waiting.take(offered).ok_or(CancelReason::Busy);
            self.node.receive_file_from(allow.admits(), open, tell(told)).await
        };
        asker.hand_over(receive).await;
    }

    async fn serve(self, asker: Asker, offered: Outcome<OfferedPort>) {
        let offer = async {
            let offered = offered?;
            self.hearing.heed(offered.allow.domains().iter().copied());
            offer::offer(&self.node, offered, None, self.form).await
        };
        match offer.await {
            Ok(offer) => hold(asker, Answer::default(), offer.carry()).await,
            Err(failure) => say(asker, failed(&failure)).await,
        }
    }
}

/// The process that files are received for, and how many requests of it there are: files of one
/// would come to another by chance, and so would its rules.
type Receiver = Arc<Mutex<Option<(u64, u32)>>>;

/// A request of the process that files are received for.
struct Turn(Receiver);

impl Turn {
    fn take(receiver: &Receiver, process: u64) -> Outcome<Self> {
        match &mut *receiver.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((other, _)) if *other != process => {
                return Err(Failure::setup_text(
                    "the running node receives for another command: end that, or give --key FILE to receive by another name",
                ));
            }
            Some((_, requests)) => *requests += 1,
            none => *none = Some((process, 1)),
        }
        Ok(Self(Arc::clone(receiver)))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut receiver = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *receiver =
            receiver.take().filter(|(_, requests)| *requests > 1).map(|(it, n)| (it, n - 1));
    }
}

/// Opens a door to a name that can be reached.
async fn open(node: &Node, local: SocketAddr, name: &str, udp: bool) -> Outcome<(Door, Name)> {
    let name = read_name(name)?;
    let door = Door::open(local, udp)?;
    reach(node, name).await?;
    Ok((door, name))
}

async fn say(mut asker: Asker, answer: Answer) {
    asker.answer(&answer).await;
}

/// Does what was asked for as long as somebody wants it.
async fn hold(mut asker: Asker, answer: Answer, work: impl Future<Output = Outcome>) {
    asker.answer(&answer).await;
    tokio::select! {
        _ = work => {}
        () = asker.gone() => {}
    }
}

async fn ping(node: &Node, name: &str, within_ms: u64) -> Answer {
    let name = match read_name(name) {
        Ok(name) => name,
        Err(failure) => return failed(&failure),
    };
    let within = Duration::from_millis(within_ms).min(LONGEST_PING);
    match node.ping(name, within).await {
        Ok(reply) => {
            let round_trip_us = Some(reply.rtt.as_secs_f64() * 1e6);
            Answer { round_trip_us, ..Answer::default() }
        }
        Err(error) => Answer { timed_out: error == PingError::TimedOut, ..Answer::failed(&error) },
    }
}

/// Whom an owner calls so, by the RIBs of this node.
async fn find(finder: &Finder, owner: &str, label: &str) -> Outcome<Name> {
    let (owner, label) = (read_name(owner)?, label.parse().map_err(Failure::setup)?);
    let called = Called::Published(ByOwner { owner, label, is_chosen: true });
    finder.find(&called).await.map_err(Failure::setup)
}

fn read_name(text: &str) -> Outcome<Name> {
    text.parse().map_err(Failure::setup)
}

fn read_allowed(allow: Option<&[String]>, allow_domain: &[String]) -> Outcome<Allowed> {
    let named = allow.unwrap_or_default().iter().map(|text| read_name(text));
    let names = named.collect::<Outcome<Vec<_>>>()?;
    let domains = allow_domain.iter().map(|text| read_name(text));
    let domains = domains.collect::<Outcome<Vec<_>>>()?;
    Allowed::of(allow.is_none(), names, domains, "say who may").map_err(Failure::setup_text)
}

fn read_offer(kind: u8, file: &str, length: u64, sha256: &str) -> Outcome<Offer> {
    let kind = Kind::from_u8(kind).map_err(Failure::setup)?;
    let name = FileName::new(file).map_err(Failure::setup)?;
    let sha256 = HEXLOWER.decode(sha256.as_bytes()).ok().and_then(|it| it.try_into().ok());
    let sha256 = sha256.ok_or_else(|| Failure::setup_text("the SHA-256 of the file is none"))?;
    Ok(Offer { kind, length, sha256, name })
}

/// Tells whoever asked how much has arrived.
fn tell(told: watch::Sender<u64>) -> impl FnMut(u64) + Send + 'static {
    move |bytes| {
        told.send_replace(bytes);
    }
}

fn failed(failure: &Failure) -> Answer {
    Answer::failed(failure)
}

/// Each may listen, and have connections of its own.
const MAX_AT_ONCE: usize = 64;
const LONGEST_PING: Duration = Duration::from_secs(60);
/// What fits into an answer, and twice what certificates allow for.
const LONGEST_WAY: u8 = 32;
