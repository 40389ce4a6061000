//! The keeper: it admits whoever proves to know an invitation, and tells members how the network is
//! now.
//!
//! 1. Whoever connects has proven a name. A member's talk has a place of its own, the newest of
//!    each name; strangers share `STRANGERS` places, in which the address that has most makes
//!    room.
//! 2. A stranger says an invitation's id, and is shown a proof, whether there is such an invitation
//!    or not: what it may learn, it learns by its own proof.
//! 3. That the invitation is used is on disk before the answer is sent.
//! 4. A stranger who has no invitation asks, if the network is one of a link and he is on it: his
//!    request waits until somebody lets him in (`requests`, `admitting`), for as long as people
//!    need.
//!
//! INVARIANT: nothing is told to, changed for, or written because of who has neither proven an
//! invitation's secret nor a member's name, nor been let in; one who falls silent is gone after
//! `TALK_WITHIN`, and one who asks after `ASK_WITHIN`.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rhumb_channel::{Channel, Counters, Credentials, Listener};
use rhumb_node::discovery::Links;
use rhumb_node::joined::Site;
use rhumb_trust::comparison::{Comparison, Opening};
use rhumb_trust::invitation::{InvitationKey, Meeting, Side};
use rhumb_wire::admission::{Admission, Offer, Refusal, Welcome};
use rhumb_wire::{Name, PublishedLabel, Role};
use serde_json::{Value, json};
use tokio::task::{AbortHandle, JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};

use super::admitting::Asking;
use super::created::{Created, Part, give};
use super::declining;
use super::ledger::{Ledger, Member};
use super::removing::tell_removals;
use super::requests::{Openness, Request, Requests};
use super::tally::Tally;
use super::{ASK_WITHIN, AT_KEEPER, TALK_WITHIN, labels};
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
    /// Who asks to be let in, if anybody may.
    requests: Option<Arc<Requests>>,
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
        snapshot.status["takes_requests"] = json!(desk.requests.is_some());
        if let Some(requests) = &desk.requests {
            let open_for = requests.open_for(clock::now().instant);
            snapshot.status["open_for_s"] = json!(open_for.map(|it| it.as_secs()));
            snapshot.status["asking"] = desk.tell_requests(requests);
        }
        snapshot
    }
}

/// What comes of the first words of a talk.
enum Answer {
    /// Nothing is said to who has proven nothing.
    Nothing,
    Say(Admission),
    /// People have to agree first, who see it when the keeper's nonce is shown.
    Wait(Request, Opening),
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
    pub async fn open(created: &Created, openness: Openness) -> Outcome<Self> {
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
        declining::forget(&created.folder);
        let (created, door) = (created.clone(), listener.counters());
        let ledger = Mutex::new((None, ledger));
        let started = clock::now().instant;
        let (tally, requests) = (Tally::default(), Requests::of(openness, started));
        let desk = Desk { created, ledger, tally, requests, started, door };
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
                        if Arc::clone(&desk).talk(channel).await.is_err() {
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
        let answer = match in_time(TALK_WITHIN, self.answer(&mut channel)).await? {
            Answer::Nothing => {
                Tally::count(&self.tally.unproven);
                return Ok(());
            }
            Answer::Say(answer) => answer,
            Answer::Wait(request, opening) => self.wait(&mut channel, request, &opening).await?,
        };
        Tally::count(match &answer {
            Admission::Welcome(_) => &self.tally.welcomed,
            _ => &self.tally.refused,
        });
        let Channel { inbox, outbox, .. } = channel;
        in_time(TALK_WITHIN, async {
            outbox.send(answer.emit()).await.map_err(Failure::operation)
        })
        .await?;
        // What waits in it is sent, and then goodbye is said.
        drop(outbox);
        inbox.finish(FAREWELL).await;
        Ok(())
    }

    /// What is said to whoever has proven something; to others nothing.
    async fn answer(self: &Arc<Self>, channel: &mut Channel) -> Outcome<Answer> {
        let (desk, peer, role) = (Arc::clone(self), channel.peer, channel.peer_role);
        match hear(channel).await? {
            // A stranger's word costs no look at the disk.
            Admission::Renew if self.ledger()?.member(peer).is_none() => {
                Ok(Answer::Say(Admission::Refusal(Refusal::NoMember)))
            }
            Admission::Renew => {
                let answer = spawn_blocking(move || desk.greet(peer));
                answer.await.map(Answer::Say).map_err(Failure::operation)
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
                let Admission::Proof(proof) = hear(channel).await? else {
                    return Ok(Answer::Nothing);
                };
                if !key.is_proven(Side::Joiner, &meeting, &proof) || !is_known {
                    tracing::debug!(%peer, "a proof of no invitation");
                    return Ok(Answer::Nothing);
                }
                let answer = spawn_blocking(move || desk.admit(id, peer, role));
                answer.await.map(Answer::Say).map_err(Failure::operation)
            }
            Admission::Ask(label) => self.offer(channel, label).await,
            _ => Ok(Answer::Nothing),
        }
    }

    /// What this network is, for somebody on its link who has no invitation, and what he asks.
    async fn offer(&self, channel: &mut Channel, wanted: PublishedLabel) -> Outcome<Answer> {
        let refused = |reason| Ok(Answer::Say(Admission::Refusal(reason)));
        if self.requests.is_none() || !is_on_link(channel.address) {
            return refused(Refusal::Closed);
        }
        if channel.peer_role != Role::Node {
            return refused(Refusal::OtherRole(Role::Node));
        }
        let Created { folder, domain, keeper, .. } = &self.created;
        let opening = Opening::generate().map_err(Failure::operation)?;
        let offer = Admission::Offer(Offer {
            network: folder.label().clone(),
            domain: *domain,
            has_members: !self.ledger()?.is_alone(clock::now().unix_s()),
            commitment: opening.commitment(*keeper),
        });
        channel.outbox.send(offer.emit()).await.map_err(Failure::operation)?;
        let Admission::Reveal(nonce) = hear(channel).await? else { return Ok(Answer::Nothing) };
        let joiner = channel.peer;
        let comparison = Comparison {
            meeting: &Meeting { keeper: *keeper, joiner, binding: channel.binding },
            network: folder.label(),
            domain: *domain,
            label: &wanted,
            keepers: &opening.nonce(),
            joiners: &nonce,
        };
        let (number, source) = (comparison.number(), source_of(channel.address));
        let request = Request { name: joiner, source, wanted, number, agreed: false };
        Ok(Answer::Wait(request, opening))
    }

    /// Until people at both ends have agreed.
    async fn wait(
        self: &Arc<Self>,
        channel: &mut Channel,
        request: Request,
        opening: &Opening,
    ) -> Outcome<Admission> {
        let refused = |reason| Ok(Admission::Refusal(reason));
        let Some(requests) = &self.requests else { return refused(Refusal::Closed) };
        let Request { name, source, wanted, number, .. } = request.clone();
        let number = number.to_string();
        let Some(ticket) = requests.enter(request, clock::now().instant) else {
            return refused(Refusal::Busy);
        };
        // Whoever asks learns the number when it is seen here: nobody tries one unseen.
        if requests.open_for(clock::now().instant).is_none() {
            sleep(SHOWN_FIRST).await;
        }
        let shown = Admission::Reveal(opening.nonce()).emit();
        channel.outbox.send(shown).await.map_err(Failure::operation)?;
        let mut late = pin!(sleep(ASK_WITHIN));
        let mut agreed = false;
        loop {
            tokio::select! {
                heard = hear(channel) => match heard? {
                    Admission::Agree if !agreed => {
                        agreed = true;
                        ticket.agrees();
                    }
                    _ => return Err(Failure::operation_text("it makes no sense")),
                },
                () = sleep(LOOK_EVERY) => {}
                () = &mut late => return refused(Refusal::NotLetIn),
            }
            if !ticket.is_there() {
                return refused(Refusal::Busy);
            }
            if declining::is_declined(&self.created.folder, name, &number) {
                return refused(Refusal::Declined);
            }
            let is_member = || Ok::<_, Failure>(self.ledger()?.member(name).is_some());
            if !agreed || !(is_member()? || requests.lets_in(source, clock::now().instant)) {
                continue;
            }
            let (desk, wanted) = (Arc::clone(self), wanted.clone());
            let answer = spawn_blocking(move || desk.welcome_in(name, &wanted));
            return answer.await.map_err(Failure::operation);
        }
    }

    /// Greets whom somebody has let in, or who may come while the network is open.
    fn welcome_in(&self, name: Name, wanted: &PublishedLabel) -> Admission {
        let (network, now_s) = (self.created.folder.label(), clock::now().unix_s());
        let member = Ledger::change(&self.created.folder, |ledger| {
            ledger.let_in(name, wanted, network, now_s)
        });
        match member {
            Ok(member) => {
                tracing::info!(label = %member.label, "a member joined");
                self.enter(&member.label, name);
                self.greet(name)
            }
            Err(failure) => {
                tracing::warn!(%failure, "nobody can join");
                Admission::Refusal(Refusal::Failed)
            }
        }
    }

    /// Who asks, as `admitting` reads it.
    fn tell_requests(&self, requests: &Requests) -> Value {
        let now_s = clock::now().unix_s();
        let ledger = self.ledger().unwrap_or_default();
        let network = self.created.folder.label();
        let tell = |it: Request| {
            // A member whose answer was lost asks again, as whom it was let in.
            let member = ledger.member(it.name).map(|member| member.label.clone());
            let label = member.unwrap_or_else(|| ledger.free(&it.wanted, network, now_s));
            let (number, address) = (it.number.to_string(), it.source.to_string());
            Asking { name: it.name, label, number, address, agreed: it.agreed }.facts()
        };
        requests.all().into_iter().map(tell).collect()
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
            host: match &created.host {
                Site::Host(host) => host.to_string(),
                // By which interface is the member's to know, who has found it there.
                Site::OnLink { address, .. } => address.to_string(),
            },
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

/// Whoever has an address of IPv6 has 2^64 of them. On a link all are in one network, so each
/// stands for itself there, as those of IPv4 do: whoever takes many of either has the tries of all,
/// which is what bounds of all together are for.
fn source_of(address: SocketAddr) -> IpAddr {
    match address.ip().to_canonical() {
        IpAddr::V6(ip) if ip.is_unicast_link_local() => ip.into(),
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
        ip => ip,
    }
}

/// Whether an address is a neighbour's: whoever speaks TCP from it has it.
fn is_on_link(address: SocketAddr) -> bool {
    let plain = SocketAddr::new(address.ip().to_canonical(), address.port());
    let links = Links::read(Ipv6Addr::UNSPECIFIED.into());
    links.is_ok_and(|links| match (plain, address) {
        (SocketAddr::V6(_), SocketAddr::V6(v6)) => links.contains(&v6.into()),
        _ => links.contains(&plain),
    })
}

async fn in_time<T>(most: Duration, work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let late = |_| Err(Failure::operation_text("it takes too long"));
    timeout(most, work).await.unwrap_or_else(late)
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
/// Who runs the keeper looks who asks three times a second.
const SHOWN_FIRST: Duration = Duration::from_millis(700);
/// Until whom somebody let in is greeted.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Until the last word has arrived.
const FAREWELL: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_a_link_are_sources_of_their_own_and_those_of_a_site_are_one() {
        let source = |text: &str| source_of(format!("[{text}]:1").parse().unwrap());
        assert_eq!(source("2001:db8::1"), source("2001:db8::2"));
        assert_ne!(source("fe80::1"), source("fe80::2"));
        assert_eq!(source("fe80::1%2"), source("fe80::1%3"), "an interface makes none");
        assert_eq!(source("::ffff:192.0.2.1").to_string(), "192.0.2.1");
    }

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
