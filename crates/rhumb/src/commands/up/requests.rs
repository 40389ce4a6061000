//! What other commands of this user ask of the running node.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use data_encoding::HEXLOWER;
use rhumb_daemon::config::{Allowed, OfferedPort};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::names::{ByOwner, Called};
use rhumb_daemon::output::Form;
use rhumb_daemon::ports::door::{Door, reach};
use rhumb_daemon::ports::offer;
use rhumb_daemon::published::Finder;
use rhumb_daemon::removals::Hearing;
use rhumb_daemon::running::{Answer, Asker, Counter, Request};
use rhumb_node::{Node, PingError};
use rhumb_wire::Name;
use rhumb_wire::transfer::{FileName, Kind, Offer};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Answers requests until the node ends.
pub(super) async fn answer(
    node: Node,
    (hearing, finder): (Hearing, Finder),
    counter: Counter,
    form: Form,
) -> Outcome {
    let listener = counter.listener()?;
    let mut asked = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) if asked.len() < MAX_AT_ONCE => {
                    let finder = finder.clone();
                    asked.spawn(answer_one(node.clone(), (hearing.clone(), finder), stream, form));
                }
                // One more command has to wait for others to be done: it is turned away.
                Ok(_) => {}
                Err(error) => return Err(Failure::operation(error)),
            },
            Some(_) = asked.join_next() => {}
        }
    }
}

async fn answer_one(
    node: Node,
    (hearing, finder): (Hearing, Finder),
    stream: UnixStream,
    form: Form,
) {
    let Some((request, asker)) = Asker::request(stream).await else { return };
    match request {
        Request::Who => {
            let name = Some(node.name().to_string());
            say(asker, Answer { name, ..Answer::default() }).await;
        }
        Request::Find { owner, label } => {
            let answer = match find(&finder, &owner, &label).await {
                Ok(name) => Answer { name: Some(name.to_string()), ..Answer::default() },
                Err(failure) => failed(&failure),
            };
            say(asker, answer).await;
        }
        Request::Ping { name, within_ms } => say(asker, ping(&node, &name, within_ms).await).await,
        Request::Forward { local, name, port, udp } => match open(&node, local, &name, udp).await {
            Ok((door, name)) => {
                let local = Some(door.local());
                let answer = Answer { local, ..Answer::default() };
                hold(asker, answer, door.lead(node, (name, port), form)).await;
            }
            Err(failure) => say(asker, failed(&failure)).await,
        },
        Request::Send { to, file, is_folder, length, sha256 } => {
            let kind = if is_folder { Kind::Folder } else { Kind::File };
            let offer = read_offer(kind, &file, length, &sha256);
            match read_name(&to).and_then(|to| Ok((to, offer?))) {
                Ok((to, offer)) => {
                    let send = |source, told: watch::Sender<u64>| async move {
                        node.send_file(to, source, offer, tell(told)).await
                    };
                    asker.borrow(send).await;
                }
                Err(failure) => say(asker, failed(&failure)).await,
            }
        }
        Request::SendInput { to, file } => {
            let file = FileName::new(&file).map_err(Failure::setup);
            match read_name(&to).and_then(|to| Ok((to, file?))) {
                Ok((to, file)) => {
                    let send = |source, told: watch::Sender<u64>| async move {
                        node.send_endless(to, source, file, tell(told)).await
                    };
                    asker.borrow_input(send).await;
                }
                Err(failure) => say(asker, failed(&failure)).await,
            }
        }
        Request::Serve { port, udp, to, allow, allow_domain } => {
            let offered = async {
                let named = allow.iter().flatten().map(|text| read_name(text));
                let names = named.collect::<Outcome<Vec<_>>>()?;
                let domains = allow_domain.iter().map(|text| read_name(text));
                let domains = domains.collect::<Outcome<Vec<_>>>()?;
                let allow = Allowed::of(allow.is_none(), names, domains, "say who may");
                let allow = allow.map_err(Failure::setup_text)?;
                hearing.heed(allow.domains().iter().copied());
                let offered = OfferedPort { only: None, port, udp, to, allow };
                offer::offer(&node, offered, None, form).await
            };
            match offered.await {
                Ok(offer) => hold(asker, Answer::default(), offer.carry()).await,
                Err(failure) => say(asker, failed(&failure)).await,
            }
        }
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

fn read_offer(kind: Kind, file: &str, length: u64, sha256: &str) -> Outcome<Offer> {
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
