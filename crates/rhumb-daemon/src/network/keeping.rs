//! The keeper: it admits whoever proves to know an invitation, and tells members how the network is
//! now.
//!
//! 1. Whoever connects has proven a name. A member's talk has a place of its own, the newest of
//!    each name; strangers share `STRANGERS` places, in which the address that has most makes
//!    room.
//! 2. A stranger says an invitation's id, and is shown a proof, whether there is such an invitation
//!    or not: what it may learn, it learns by its own proof.
//! 3. That the invitation is used is on disk before the answer is sent.
//!
//! INVARIANT: nothing is told to, changed for, or written because of who has neither proven an
//! invitation's secret nor a member's name; one who falls silent is gone after `TALK_WITHIN`.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rhumb_channel::{Channel, Counters, Credentials, Listener};
use rhumb_trust::invitation::{InvitationKey, Meeting, Side};
use rhumb_wire::admission::{Admission, Refusal, Welcome};
use rhumb_wire::{Name, PublishedLabel};
use serde_json::json;
use tokio::task::{AbortHandle, JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};

use super::created::{Created, Part, give};
use super::ledger::{Ledger, Member};
use super::removing::tell_removals;
use super::tally::Tally;
use super::{AT_KEEPER, TALK_WITHIN, labels};
use crate::clock;
use crate::daemon::Snapshot;
use crate::failure::{Failure, Outcome};
use crate::secret_file::Look;

/// The keeper of a network, at its socket.
pub struct Keeper {
    listener: Listener,
    desk: Arc<Desk>,
}

/// What all talks need.
struct Desk {
    created: Created,
    /// As it was read last, and what the file was then.
    ledger: Mutex<(Option<Look>, Arc<Ledger>)>,
    tally: Tally,
    started: Instant,
    /// What came to the door.
    door: Arc<Counters>,
}

/// How a keeper is, while it runs.
pub struct Gauge(Arc<Desk>);

impl Gauge {
    /// What it tells of itself now.
    pub fn snapshot(&self) -> Snapshot {
        let Self(desk) = self;
        let now_s = clock::now().unix_s();
        let counts = desk.ledger().map(|it| (it.members().len(), it.open(now_s).count()));
        let network = desk.created.folder.label().as_str();
        let mut snapshot = desk.tally.snapshot(network, counts.unwrap_or_default(), &desk.door);
        let uptime = clock::now().instant.saturating_duration_since(desk.started);
        snapshot.status["name"] = json!(desk.created.keeper.to_string());
        snapshot.status["address"] = json!(desk.created.listens(Part::Keeper));
        snapshot.status["uptime_s"] = json!(uptime.as_secs());
        snapshot
    }
}

/// Whose talk it is.
#[derive(Clone, Copy)]
enum Who {
    Member(Name),
    Stranger(IpAddr),
}

/// Talks under way.
#[derive(Default)]
struct Places {
    members: HashMap<Name, AbortHandle>,
    /// By where they come from, the oldest first.
    strangers: Vec<(IpAddr, AbortHandle)>,
}

impl Keeper {
    /// Listens for who comes.
    ///
    /// # Errors
    /// When there is no key, or its port is taken.
    pub async fn open(created: &Created) -> Outcome<Self> {
        created.renew_keeper_if_due()?;
        created.renew_parts()?;
        let identity = created.giver()?;
        let credentials = Credentials::new(&identity).map_err(Failure::setup)?;
        let address = created.listens(Part::Keeper);
        // Who is admitted to what is asked of each by what he says.
        let listener = Listener::bind(address, &credentials, &[AT_KEEPER], |_| true).await;
        let listener = listener.map_err(|error| {
            Failure::setup_text(format!("the keeper cannot listen on TCP {address}: {error}"))
        })?;
        let ledger = Arc::new(Ledger::read(&created.folder)?);
        let (created, door) = (created.clone(), listener.counters());
        let ledger = Mutex::new((None, ledger));
        let started = clock::now().instant;
        let desk = Desk { created, ledger, tally: Tally::default(), started, door };
        Ok(Self { listener, desk: Arc::new(desk) })
    }

    /// How it is, for whoever asks while it runs.
    pub fn gauge(&self) -> Gauge {
        Gauge(Arc::clone(&self.desk))
    }

    /// Talks with everybody, and renews what ends.
    ///
    /// # Errors
    /// Never ends otherwise.
    pub async fn run(mut self) -> Outcome<Infallible> {
        let mut talks = JoinSet::new();
        let mut places = Places::default();
        let mut care = pin!(take_care(Arc::clone(&self.desk)));
        loop {
            tokio::select! {
                channel = self.listener.accept() => {
                    let is_member = self.desk.ledger()?.member(channel.peer).is_some();
                    let who = match is_member {
                        true => Who::Member(channel.peer),
                        false => Who::Stranger(source_of(channel.address)),
                    };
                    let desk = Arc::clone(&self.desk);
                    let talk = async move {
                        let ended = timeout(TALK_WITHIN, Arc::clone(&desk).talk(channel)).await;
                        if !matches!(ended, Ok(Ok(()))) {
                            Tally::count(&desk.tally.broken);
                        }
                    };
                    places.take(who, talks.spawn(talk));
                }
                Some(ended) = talks.join_next() => {
                    places.clear();
                    if ended.is_err() {
                        Tally::count(&self.desk.tally.broken);
                    }
                }
                ended = &mut care => match ended? {},
            }
        }
    }
}

/// Renews what ends, and tells the RIB what it has not heard, beside all talks. Ends never.
async fn take_care(desk: Arc<Desk>) -> Outcome<Infallible> {
    let mut warned_on = 0;
    loop {
        let desk = Arc::clone(&desk);
        let done = spawn_blocking(move || desk.look_after(warned_on));
        match done.await.map_err(Failure::operation)? {
            Ok(day) => warned_on = day,
            Err(failure) => tracing::warn!(%failure, "the network is not looked after"),
        }
        sleep(LOOK_AFTER_EVERY).await;
    }
}

impl Places {
    /// Gives a talk its place: the newest of a member, and of strangers those who have least.
    fn take(&mut self, who: Who, talk: AbortHandle) {
        match who {
            Who::Member(name) => {
                if let Some(before) = self.members.insert(name, talk) {
                    before.abort();
                }
            }
            Who::Stranger(source) => {
                self.strangers.push((source, talk));
                if self.strangers.len() > STRANGERS {
                    self.make_room();
                }
            }
        }
    }

    /// The oldest talk of the address that has most of them ends.
    fn make_room(&mut self) {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        self.strangers.iter().for_each(|(source, _)| *counts.entry(*source).or_default() += 1);
        let most = counts.values().copied().max().unwrap_or_default();
        if let Some(at) = self.strangers.iter().position(|(source, _)| counts[source] == most) {
            self.strangers.remove(at).1.abort();
        }
    }

    fn clear(&mut self) {
        self.members.retain(|_, talk| !talk.is_finished());
        self.strangers.retain(|(_, talk)| !talk.is_finished());
    }
}

impl Desk {
    /// The ledger as it is now: it is read again when the file is another one.
    fn ledger(&self) -> Outcome<Arc<Ledger>> {
        let look = Ledger::look(&self.created.folder);
        let mut kept = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        if look.is_none() || kept.0 != look {
            *kept = (look, Arc::new(Ledger::read(&self.created.folder)?));
        }
        Ok(Arc::clone(&kept.1))
    }

    /// Renews what ends, and tells the RIB what it does not know. The day of the last warning.
    fn look_after(&self, warned_on: u64) -> Outcome<u64> {
        self.created.renew_keeper_if_due()?;
        self.created.renew_parts()?;
        tell_removals(&self.created)?;
        let (left_s, today) = (self.created.keeper_left_s()?, clock::now().unix_s() / 86_400);
        if left_s > WARN_WITHIN_S || warned_on == today {
            return Ok(warned_on);
        }
        tracing::warn!(
            "the keeper may admit for {} more, and the domain's own key, which would admit it again, is not in {}: bring domain.key there",
            clock::span(left_s),
            self.created.folder.path().display()
        );
        Ok(today)
    }

    async fn talk(self: Arc<Self>, mut channel: Channel) -> Outcome {
        let Some(answer) = self.answer(&mut channel).await? else {
            Tally::count(&self.tally.unproven);
            return Ok(());
        };
        Tally::count(match &answer {
            Admission::Welcome(_) => &self.tally.welcomed,
            _ => &self.tally.refused,
        });
        let Channel { inbox, outbox, .. } = channel;
        outbox.send(answer.emit()).await.map_err(Failure::operation)?;
        // What waits in it is sent, and then goodbye is said.
        drop(outbox);
        inbox.finish(FAREWELL).await;
        Ok(())
    }

    /// What is said to whoever has proven something; to others nothing.
    async fn answer(self: &Arc<Self>, channel: &mut Channel) -> Outcome<Option<Admission>> {
        let (desk, peer, role) = (Arc::clone(self), channel.peer, channel.peer_role);
        match hear(channel).await? {
            // A stranger's word costs no look at the disk.
            Admission::Renew if self.ledger()?.member(peer).is_none() => {
                Ok(Some(Admission::Refusal(Refusal::NoMember)))
            }
            Admission::Renew => {
                let answer = spawn_blocking(move || desk.greet(peer));
                answer.await.map(Some).map_err(Failure::operation)
            }
            Admission::Claim(id) => {
                let known = self.ledger()?.key(id);
                let nobody = || InvitationKey::of_nobody(id).map_err(Failure::operation);
                let is_known = known.is_some();
                let key = known.map_or_else(nobody, Ok)?;
                let keeper = self.created.keeper;
                let meeting = Meeting { keeper, joiner: peer, binding: channel.binding };
                let proof = Admission::Proof(key.prove(Side::Keeper, &meeting));
                channel.outbox.send(proof.emit()).await.map_err(Failure::operation)?;
                let Admission::Proof(proof) = hear(channel).await? else { return Ok(None) };
                if !key.is_proven(Side::Joiner, &meeting, &proof) || !is_known {
                    tracing::debug!(%peer, "a proof of no invitation");
                    return Ok(None);
                }
                let answer = spawn_blocking(move || desk.admit(id, peer, role));
                answer.await.map(Some).map_err(Failure::operation)
            }
            _ => Ok(None),
        }
    }

    fn admit(&self, id: [u8; 8], name: Name, role: rhumb_wire::Role) -> Admission {
        let now_s = clock::now().unix_s();
        let mut refusal = Refusal::Failed;
        let admitted = Ledger::change(&self.created.folder, |ledger| {
            ledger.admit(id, name, role, now_s).map_err(|reason| {
                refusal = reason;
                Failure::operation_text("refused")
            })
        });
        match admitted {
            Ok(member) => {
                tracing::info!(label = %member.label, "a member joined");
                self.enter(&member.label, name);
                self.greet(name)
            }
            Err(failure) if refusal == Refusal::Failed => {
                tracing::warn!(%failure, "nobody can join");
                Admission::Refusal(refusal)
            }
            Err(_) => Admission::Refusal(refusal),
        }
    }

    /// Whoever runs the keeper knows members by their labels at once.
    fn enter(&self, label: &PublishedLabel, name: Name) {
        let (network, domain) = (self.created.folder.label(), self.created.domain);
        let entered = labels::enter(network, domain, &[(label.clone(), name)].into());
        if let Err(failure) = entered {
            tracing::warn!(%failure, "a new member has no label here");
        }
    }

    /// How the network is, for a member.
    fn greet(&self, name: Name) -> Admission {
        // Who is removed from now on is so by a later word than what is signed here.
        let greeted = Ledger::while_it_is_so(&self.created.folder, |ledger| {
            Ok(match ledger.member(name) {
                Some(member) => Admission::Welcome(Box::new(self.welcome(ledger, member)?)),
                None => Admission::Refusal(Refusal::NoMember),
            })
        });
        greeted.unwrap_or_else(|failure| {
            tracing::warn!(%failure, "a member cannot be answered");
            Admission::Refusal(Refusal::Failed)
        })
    }

    fn welcome(&self, ledger: &Ledger, member: &Member) -> Outcome<Welcome> {
        let created = &self.created;
        let membership = give(&*created.giver()?, member.name, member.rank.rights())?;
        Ok(Welcome {
            now_s: clock::now().unix_s(),
            network: created.folder.label().clone(),
            host: created.host.to_string(),
            label: member.label.clone(),
            router_port: created.port(Part::Router),
            rib_port: created.port(Part::Rib),
            keeper_port: created.port(Part::Keeper),
            router: created.router,
            rib: created.rib,
            membership: membership.emit(),
            members: ledger.labels(),
        })
    }
}

/// Whoever has an address of IPv6 has 2^64 of them.
fn source_of(address: SocketAddr) -> IpAddr {
    match address.ip().to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
        ip => ip,
    }
}

async fn hear(channel: &mut Channel) -> Outcome<Admission> {
    let message = channel.inbox.next().await.map_err(Failure::operation)?;
    Admission::parse(&message).map_err(Failure::operation)
}

/// Talks of strangers at a time; who joins takes two round trips.
const STRANGERS: usize = 64;
/// Memberships of the network's own parts end in days; a RIB that was away is told soon who was
/// removed.
const LOOK_AFTER_EVERY: Duration = Duration::from_secs(60);
/// A month, to fetch a key from where it lies.
const WARN_WITHIN_S: u64 = 30 * 86_400;
/// Until the last word has arrived.
const FAREWELL: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_holds_many_places_makes_room_and_a_member_has_his_own() {
        let mut places = Places::default();
        let mut talks = Vec::new();
        let mut begin = |places: &mut Places, who| {
            let talk = tokio::spawn(std::future::pending::<()>());
            places.take(who, talk.abort_handle());
            talks.push(talk);
        };
        let source = |text: &str| source_of(format!("{text}:1").parse().unwrap());
        begin(&mut places, Who::Member(Name([1; 32])));
        begin(&mut places, Who::Stranger(source("192.0.2.1")));
        // A flood from one site.
        for host in 0..2 * STRANGERS {
            begin(&mut places, Who::Stranger(source(&format!("[2001:db8::{host:x}]"))));
        }
        begin(&mut places, Who::Member(Name([2; 32])));
        begin(&mut places, Who::Member(Name([1; 32])));
        // What was ended ends when its turn comes.
        for _ in 0..talks.len() {
            tokio::task::yield_now().await;
        }
        let goes_on: Vec<usize> = (0..talks.len()).filter(|at| !talks[*at].is_finished()).collect();
        assert_eq!(places.strangers.len(), STRANGERS);
        assert!(!goes_on.contains(&0) && goes_on.contains(&1), "one talk of a member, the newest");
        assert!(!goes_on.contains(&2) && goes_on.contains(&(2 * STRANGERS + 1)));
        assert_eq!(goes_on.len(), STRANGERS + 2);
    }
}
