//! RIBs of other domains, and what they are asked: those of neighbours, which domains they offer;
//! those that know the names of a domain that is offered, by which certificates a name is known
//! outside of it.
//!
//! 1. [`Acquaintances::seek`] puts a name to all that are there, once however many ask.
//! 2. [`Acquaintances::answered`] pairs an answer with its question.
//! 3. A name that all deny, or about which nobody answers in time, is nowhere:
//!    [`Acquaintances::poll_nowhere`].
//! 4. Neighbours are asked what they offer every second, in steps of one answer each.
//!
//! INVARIANT: there are no more of them, and no more questions, than the bounds below.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use rhumb_directory::{Kept, Question, Remote};
use rhumb_link::{AttemptId, SessionId};
use rhumb_wire::Name;
use rhumb_wire::rib::{RequestId, RibRequest, RibRequestBody};

pub(crate) struct Acquaintances {
    known: BTreeMap<Address, Acquaintance>,
    requests: HashMap<RequestId, Request>,
    next_id: u32,
    queue: VecDeque<(Name, Vec<u8>)>,
    seeking: BTreeMap<Name, Seek>,
    nowhere: VecDeque<(Name, Vec<Question>)>,
}

/// Who a RIB is, and where it is said to be. Who says so may be wrong, so each place counts apart.
pub(crate) type Address = (Name, SocketAddr);

struct Acquaintance {
    kept: Kept,
    is_there: bool,
    /// Whether it knows the names of a domain that is offered.
    is_home: bool,
    /// The neighbour whose RIB it is, and how far it has told what that offers.
    walk: Option<(Name, Walk)>,
}

/// How far a neighbour has told what it offers.
struct Walk {
    revision: u64,
    after: Name,
    seen: BTreeSet<Name>,
    ask_at: Instant,
}

/// A name that is looked for, and by whom it was not denied yet.
struct Seek {
    questions: Vec<Question>,
    open: BTreeSet<Name>,
    repeat_at: Instant,
    rounds: u8,
}

struct Request {
    rib: Name,
    asked: Asked,
    sent_at: Instant,
}

/// What a RIB was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// By which certificates this name is known outside.
    Export(Name),
    /// What this neighbour offers, as of this revision and behind this domain.
    Domains(Name, u64, Name),
}

/// What comes of a part of what a neighbour offers.
pub(crate) enum Progress {
    /// More is asked for.
    GoesOn,
    /// These are all that it offers.
    All(BTreeSet<Name>),
    /// As it was.
    Same,
}

impl Acquaintances {
    /// The RIBs of these neighbours, each with the domain that it is of.
    pub(crate) fn new(neighbours: impl IntoIterator<Item = (Name, Address)>, now: Instant) -> Self {
        let mut all = Self {
            known: BTreeMap::new(),
            requests: HashMap::new(),
            next_id: FIRST_ID,
            queue: VecDeque::new(),
            seeking: BTreeMap::new(),
            nowhere: VecDeque::new(),
        };
        all.set_neighbours(neighbours, now);
        all
    }

    /// The RIBs of neighbours are these from now on.
    pub(crate) fn set_neighbours(
        &mut self,
        neighbours: impl IntoIterator<Item = (Name, Address)>,
        now: Instant,
    ) {
        self.known.values_mut().for_each(|it| it.walk = None);
        for (domain, address) in neighbours {
            let known = self.known.entry(address).or_insert_with(|| Acquaintance::at(address, now));
            known.walk = Some((domain, Walk::new(now)));
        }
        self.known.retain(|_, it| it.walk.is_some() || it.is_home);
    }

    /// These know the names of the domains that are offered, and no others do. `own` is where this
    /// RIB is: nobody has it connect to what is nearer than that.
    pub(crate) fn set_homes(
        &mut self,
        homes: &BTreeSet<Address>,
        own: Option<IpAddr>,
        now: Instant,
    ) {
        self.known.retain(|address, it| it.walk.is_some() || homes.contains(address));
        for (address, it) in &mut self.known {
            it.is_home = homes.contains(address);
        }
        for address in homes {
            let may = own.is_some_and(|own| reach_of(address.1.ip()) >= reach_of(own));
            if may && self.known.len() < MAX_KNOWN {
                let new = || Acquaintance { is_home: true, ..Acquaintance::at(*address, now) };
                self.known.entry(*address).or_insert_with(new);
            }
        }
    }

    /// Whether a RIB of this name is one of them.
    pub(crate) fn knows(&self, rib: &Name) -> bool {
        self.of(rib).next().is_some()
    }

    /// Whether anybody can be asked about names.
    pub(crate) fn can_seek(&self) -> bool {
        self.known.values().any(|it| it.is_home && it.is_there)
    }

    /// How many of them are there, of how many.
    pub(crate) fn count(&self) -> (usize, usize) {
        (self.known.values().filter(|it| it.is_there).count(), self.known.len())
    }

    /// Those who are there of a neighbour's.
    pub(crate) fn is_there(&self, neighbour: Name) -> bool {
        let walks = |it: &Acquaintance| it.walk.as_ref().is_some_and(|(of, _)| *of == neighbour);
        self.known.values().any(|it| it.is_there && walks(it))
    }

    fn of(&self, rib: &Name) -> impl Iterator<Item = &Acquaintance> {
        let all = (*rib, SocketAddr::new(IpAddr::from([0; 4]), 0))..;
        let rib = *rib;
        self.known.range(all).take_while(move |((name, _), _)| *name == rib).map(|(_, it)| it)
    }
}

// Sessions.
impl Acquaintances {
    /// Takes note of who is there, and says who is to be connected to.
    pub(crate) fn connect_due(
        &mut self,
        is_there: impl Fn(&Name) -> bool,
        now: Instant,
    ) -> Vec<Address> {
        let mut due = Vec::new();
        for (address, it) in &mut self.known {
            let was_there = std::mem::replace(&mut it.is_there, is_there(&address.0));
            if let Some((_, walk)) = it.walk.as_mut().filter(|_| it.is_there && !was_there) {
                walk.ask_at = now;
            }
            if !it.is_there && it.kept.connect_due(now).is_some() {
                due.push(*address);
            }
        }
        due
    }

    pub(crate) fn connecting(&mut self, address: &Address, attempt: AttemptId) {
        if let Some(it) = self.known.get_mut(address) {
            it.kept.connecting(attempt);
        }
    }

    pub(crate) fn established(&mut self, attempt: AttemptId, session: SessionId, now: Instant) {
        if let Some(it) = self.known.values_mut().find(|it| it.kept.is_attempted(attempt)) {
            it.kept.established(session, now);
        }
    }

    pub(crate) fn failed(&mut self, attempt: AttemptId, now: Instant) {
        if let Some(it) = self.known.values_mut().find(|it| it.kept.is_attempted(attempt)) {
            it.kept.failed(now);
        }
    }

    pub(crate) fn closed(&mut self, session: SessionId, now: Instant) {
        if let Some(it) = self.known.values_mut().find(|it| it.kept.session() == Some(session)) {
            it.kept.closed(now);
        }
    }
}

// Questions.
impl Acquaintances {
    /// Looks for a name, for this question of somebody's. Whether anybody is asked.
    pub(crate) fn seek(&mut self, name: Name, question: Question, now: Instant) -> bool {
        if let Some(seek) = self.seeking.get_mut(&name) {
            if !seek.questions.contains(&question) {
                seek.questions.push(question);
            }
            return true;
        }
        let homes = self.known.iter().filter(|(_, it)| it.is_home && it.is_there);
        let open: BTreeSet<Name> = homes.map(|((rib, _), _)| *rib).collect();
        if open.is_empty() || self.seeking.len() >= MAX_SEEKING {
            return false;
        }
        for rib in &open {
            self.ask(*rib, Asked::Export(name), RibRequestBody::LookUpExport(name), now);
        }
        let (questions, repeat_at) = (vec![question], now + REPEAT_AFTER);
        self.seeking.insert(name, Seek { questions, open, repeat_at, rounds: 1 });
        true
    }

    /// A name was found: those who asked for it.
    pub(crate) fn found(&mut self, name: &Name) -> Vec<Question> {
        self.seeking.remove(name).map_or(Vec::new(), |seek| seek.questions)
    }

    /// A RIB does not know a name, or what it said of it is not to be believed.
    pub(crate) fn deny(&mut self, rib: Name, name: Name) {
        let Some(seek) = self.seeking.get_mut(&name) else { return };
        seek.open.remove(&rib);
        if seek.open.is_empty() {
            let questions = self.found(&name);
            self.nowhere.push_back((name, questions));
        }
    }

    /// The next name that nobody knows, and those who asked for it.
    pub(crate) fn poll_nowhere(&mut self) -> Option<(Name, Vec<Question>)> {
        self.nowhere.pop_front()
    }

    /// What a RIB's response answers, if that was asked of it.
    pub(crate) fn answered(&mut self, rib: Name, id: RequestId) -> Option<Asked> {
        self.requests.get(&id).filter(|request| request.rib == rib)?;
        self.requests.remove(&id).map(|request| request.asked)
    }

    /// A RIB has told a part of what its neighbour offers.
    pub(crate) fn told(
        &mut self,
        (rib, asked): (Name, (u64, Name)),
        (revision, is_end): (u64, bool),
        domains: &[Name],
        now: Instant,
    ) -> Progress {
        let mut walks = self.known.iter_mut().filter(|((name, _), _)| *name == rib);
        let Some(walk) = walks.find_map(|(_, it)| Some(&mut it.walk.as_mut()?.1)) else {
            return Progress::Same;
        };
        if asked != (walk.revision, walk.after) {
            // It was asked again while it answered, and this is the answer of before.
            return Progress::Same;
        }
        walk.ask_at = now + ASK_EVERY;
        let is_idle = walk.after == NONE;
        if revision == walk.revision && is_idle && domains.is_empty() {
            return Progress::Same;
        }
        if revision != walk.revision {
            walk.seen.clear();
        }
        walk.revision = revision;
        walk.seen.extend(domains);
        match domains.last().filter(|_| !is_end && walk.seen.len() <= MAX_SEEN) {
            Some(last) => {
                (walk.after, walk.ask_at) = (*last, now + STEP_AFTER);
                Progress::GoesOn
            }
            None => {
                walk.after = NONE;
                Progress::All(std::mem::take(&mut walk.seen))
            }
        }
    }

    fn ask(&mut self, rib: Name, asked: Asked, body: RibRequestBody, now: Instant) {
        if self.requests.len() >= MAX_REQUESTS {
            return;
        }
        let id = RequestId(self.next_id);
        self.next_id = self.next_id.checked_add(1).unwrap_or(FIRST_ID);
        let mut data = Vec::new();
        RibRequest { id, body }.emit(&mut data);
        self.requests.insert(id, Request { rib, asked, sent_at: now });
        self.queue.push_back((rib, data));
    }

    /// A RIB's change has arrived.
    pub(crate) fn acknowledge(&mut self, rib: Name, id: RequestId) {
        let mut data = Vec::new();
        RibRequest { id, body: RibRequestBody::Acknowledge }.emit(&mut data);
        self.queue.push_back((rib, data));
    }

    /// The next request to send, and to whom.
    pub(crate) fn poll_request(&mut self) -> Option<(Name, Vec<u8>)> {
        self.queue.pop_front()
    }
}

// Time.
impl Acquaintances {
    /// Asks what is due, asks again, and gives up.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.requests.retain(|_, request| request.sent_at + FORGET_AFTER > now);
        let mut due = Vec::new();
        for ((rib, _), it) in &mut self.known {
            if let Some((domain, walk)) = it.walk.as_mut().filter(|_| it.is_there)
                && walk.ask_at <= now
            {
                // Until it answers.
                walk.ask_at = now + ASK_EVERY;
                let (revision, after) = (walk.revision, walk.after);
                due.push((*rib, *domain, RibRequestBody::Domains { revision, after }));
            }
        }
        for (rib, domain, body) in due {
            let RibRequestBody::Domains { revision, after } = body else { continue };
            self.ask(rib, Asked::Domains(domain, revision, after), body, now);
        }
        let late = self.seeking.iter().filter(|(_, seek)| seek.repeat_at <= now);
        let late: Vec<Name> = late.map(|(name, _)| *name).collect();
        for name in late {
            let Some(seek) = self.seeking.get_mut(&name) else { continue };
            if seek.rounds >= ROUNDS {
                let questions = self.found(&name);
                self.nowhere.push_back((name, questions));
                continue;
            }
            (seek.rounds, seek.repeat_at) = (seek.rounds + 1, now + REPEAT_AFTER);
            for rib in seek.open.clone() {
                self.ask(rib, Asked::Export(name), RibRequestBody::LookUpExport(name), now);
            }
        }
    }

    /// When there is something to do next.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let ask = |it: &Acquaintance| it.walk.as_ref().map(|(_, walk)| walk.ask_at);
        let known = self.known.values().filter_map(|it| match it.is_there {
            true => ask(it),
            false => it.kept.retry_at(),
        });
        known.chain(self.seeking.values().map(|seek| seek.repeat_at)).min()
    }
}

impl Walk {
    fn new(now: Instant) -> Self {
        Self { revision: 0, after: NONE, seen: BTreeSet::new(), ask_at: now }
    }
}

impl Acquaintance {
    fn at((name, address): Address, now: Instant) -> Self {
        let kept = Kept::new(Remote { address, name: Some(name) }, now);
        Self { kept, is_there: false, is_home: false, walk: None }
    }
}

/// How far an address is of use: on this host, on private links, everywhere.
fn reach_of(ip: IpAddr) -> u8 {
    let is_private = match ip {
        IpAddr::V4(ip) => ip.is_private() || ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unique_local() || ip.is_unicast_link_local(),
    };
    match (ip.is_loopback(), is_private) {
        (true, _) => 0,
        (false, true) => 1,
        (false, false) => 2,
    }
}

/// Behind which everything is.
const NONE: Name = Name([0; 32]);
/// Apart from those of the questions to RIBs of the domain around, which begin with 0.
const FIRST_ID: u32 = 1 << 31;
/// Neighbours are few, and so are the domains that they offer.
const MAX_KNOWN: usize = 256;
/// Each is asked of all that are there, and is over within a second.
const MAX_SEEKING: usize = 1 << 10;
/// 5 MB when full.
const MAX_REQUESTS: usize = 1 << 15;
/// Names that a neighbour has told of in one walk: what is beyond its part is not taken anyway.
const MAX_SEEN: usize = 1 << 10;
/// What is withdrawn is heard of as soon; a question is 45 bytes.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Hundred steps a second, of a few signatures each: a twentieth of a core at most.
const STEP_AFTER: Duration = Duration::from_millis(10);
const REPEAT_AFTER: Duration = Duration::from_millis(250);
const ROUNDS: u8 = 3;
const FORGET_AFTER: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_wire::rib::RibRequest;

    const RIB: Name = Name([1; 32]);
    const DOMAIN: Name = Name([2; 32]);

    fn at(port: u16) -> SocketAddr {
        ([192, 0, 2, 1], port).into()
    }

    #[expect(clippy::disallowed_methods, reason = "a test's clock begins somewhere")]
    fn one() -> (Acquaintances, Instant) {
        let now = Instant::now();
        let mut all = Acquaintances::new([(DOMAIN, (RIB, at(1)))], now);
        all.set_homes(&BTreeSet::from([(RIB, at(1))]), Some(at(9).ip()), now);
        assert_eq!(all.connect_due(|_| true, now), []);
        (all, now)
    }

    fn asked(all: &mut Acquaintances) -> Vec<RibRequest> {
        let sent = std::iter::from_fn(|| all.poll_request());
        sent.map(|(_, data)| RibRequest::parse(&data).unwrap()).collect()
    }

    #[test]
    fn a_name_is_asked_once_again_and_given_up() {
        let (mut all, now) = one();
        let (name, question) = (Name([7; 32]), Question::Route(Name([7; 32])));
        assert!(all.seek(name, question, now) && all.seek(name, question, now));
        assert_eq!(asked(&mut all).len(), 1);
        for round in 1..=3u32 {
            assert_eq!(all.poll_nowhere(), None);
            all.handle_timeout(now + REPEAT_AFTER * round);
        }
        assert_eq!(all.poll_nowhere(), Some((name, vec![question])));
        assert!(!all.seek(name, question, now + FORGET_AFTER) || all.can_seek());
    }

    #[test]
    fn an_answer_counts_once_and_from_who_was_asked() {
        let (mut all, now) = one();
        all.seek(DOMAIN, Question::Route(DOMAIN), now);
        let id = asked(&mut all)[0].id;
        assert_eq!(all.answered(Name([9; 32]), id), None);
        assert_eq!(all.answered(RIB, id), Some(Asked::Export(DOMAIN)));
        assert_eq!(all.answered(RIB, id), None);
        all.deny(RIB, DOMAIN);
        assert_eq!(all.poll_nowhere().map(|(name, _)| name), Some(DOMAIN));
    }

    #[test]
    fn a_walk_goes_on_to_its_end_and_begins_anew_with_another_revision() {
        let (mut all, now) = one();
        let names: Vec<Name> = (1..=4).map(|byte| Name([byte; 32])).collect();
        let first = |all: &mut Acquaintances, at| {
            all.handle_timeout(at);
            asked(all).into_iter().map(|it| it.body).next()
        };
        let body = |revision, after| Some(RibRequestBody::Domains { revision, after });
        assert_eq!(first(&mut all, now), body(0, NONE));
        let told = |all: &mut Acquaintances, asked, told, names: &[Name]| {
            all.told((RIB, asked), told, names, now)
        };
        assert!(matches!(told(&mut all, (0, NONE), (5, false), &names[..2]), Progress::GoesOn));
        // What was asked twice is answered twice, and counts once.
        assert!(matches!(told(&mut all, (0, NONE), (5, true), &names[..2]), Progress::Same));
        assert_eq!(first(&mut all, now + STEP_AFTER), body(5, names[1]));
        // It has changed meanwhile: what was told before does not count.
        let behind = (5, names[1]);
        assert!(matches!(told(&mut all, behind, (6, false), &names[..1]), Progress::GoesOn));
        let behind = (6, names[0]);
        let Progress::All(seen) = told(&mut all, behind, (6, true), &names[2..]) else { panic!() };
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [names[0], names[2], names[3]]);
        assert!(matches!(told(&mut all, (6, NONE), (6, true), &[]), Progress::Same));
        assert_eq!(first(&mut all, now + ASK_EVERY), body(6, NONE));
    }

    #[test]
    fn nobody_has_it_connect_to_what_is_nearer_than_it_is_itself() {
        let (mut all, now) = one();
        let near = [[127, 0, 0, 1], [10, 0, 0, 1], [192, 0, 2, 7]];
        let homes: BTreeSet<Address> =
            near.iter().map(|ip| (Name([3; 32]), SocketAddr::from((*ip, 1)))).collect();
        all.set_homes(&homes, Some([10, 0, 0, 9].into()), now);
        let mut due = all.connect_due(|_| false, now);
        due.retain(|(rib, _)| *rib != RIB);
        let places: Vec<IpAddr> = due.iter().map(|(_, at)| at.ip()).collect();
        assert_eq!(places, [IpAddr::from([10, 0, 0, 1]), IpAddr::from([192, 0, 2, 7])]);
    }
}
