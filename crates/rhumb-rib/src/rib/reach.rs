//! Names of domains that are reached by neighbours: found at home, and led there by the ways that
//! the rules put first.
//!
//! 1. [`Rib::seek`]: a look-up that misses here goes to the RIBs of the domains that neighbours
//!    offer, which say by which certificates the name is known outside; they are verified as all
//!    that RIBs of others say, and remembered for seconds ([`Rib::found_at_home`]).
//! 2. [`Rib::reached`] puts the ways to that domain behind them: each is a way to the name.
//! 3. [`Rib::tell_domains`] answers neighbours that ask what is offered to them, and
//!    [`Rib::export_outside`] whoever asks by what a name here is known outside.
//! 4. [`Rib::hear_outside`] takes what RIBs of others answer, and [`Rib::advance_reach`] tells who
//!    was told ways by a neighbour when there are others.
//!
//! INVARIANT: whoever is outside is told exports and offers, and nothing else.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rhumb_directory::{Expires, Question, Table, until};
use rhumb_trust::{Now, name_of};
use rhumb_wire::certificate::{Locator, MAX_CHAIN};
use rhumb_wire::offer::{MAX_OFFERED, MAX_RIBS, Offered};
use rhumb_wire::rib::{Refusal, RequestId, RibRequestBody, RibResponse, RibResponseBody};
use rhumb_wire::{Certificate, Metadata, Name, PublicKey, Scope, Statement};

use super::climb::name_in;
use super::{Asker, Outcome, Rib};
use crate::DropReason;
use crate::absence::Absences;
use crate::acquaintances::{Acquaintances, Asked, Progress};
use crate::beyond::{Heard, Remembered, Told};
use crate::config::Config;
use crate::lookup::Trail;
use crate::neighbours::{Neighbour, Neighbours, Own, bound_of};
use crate::share::Payer;
use crate::store::Store;

/// What a directory knows of the domains beside its own.
pub(crate) struct Reach {
    pub(crate) table: Neighbours,
    pub(crate) ribs: Acquaintances,
    /// Where this directory is for others.
    address: Option<SocketAddr>,
    /// By which certificates names are known outside of their domains.
    at_home: Table<Name, AtHome>,
    /// As of which change of the table RIBs are known, and askers were told.
    settled: Option<u64>,
    /// By which statements each domain is reached, in order, as askers were told.
    shown: BTreeMap<Name, Vec<Statement>>,
    /// Since when there has been no way to a domain that was reached lately.
    lost: BTreeMap<Name, Instant>,
    looked_at: Option<Instant>,
    /// Names that are not known outside, as those who ask there were told.
    absences: Absences,
    /// When anything happened last: what is asked comes without the time.
    as_of: Instant,
    told: HashMap<Name, ToldDomains>,
}

/// What a neighbour is told, and since when.
struct ToldDomains {
    revision: u64,
    offered: Vec<Offered>,
    made_at: Instant,
    as_of: u64,
}

struct AtHome {
    metadata: Vec<Metadata>,
    certificates: Vec<Certificate>,
    /// Until when nobody is asked again.
    fresh_until: Instant,
    until: Instant,
}

impl Expires for AtHome {
    fn is_over(&self, now: Instant) -> bool {
        self.until <= now
    }
}

impl Reach {
    /// For a directory that has neighbours, of which nothing is known yet.
    pub(crate) fn new(own: Name, config: &Config, now: Instant) -> Self {
        let neighbours = &config.neighbours;
        let ribs = neighbours.iter().flat_map(|it| it.ribs.iter().map(|rib| (it.domain, *rib)));
        Self {
            table: Neighbours::new(own, &config.around, neighbours, config.max_domains),
            ribs: Acquaintances::new(ribs, now),
            address: config.address,
            at_home: Table::new(config.max_beyond),
            settled: None,
            shown: BTreeMap::new(),
            lost: BTreeMap::new(),
            looked_at: None,
            absences: Absences::new(config.cached_absences),
            as_of: now,
            told: HashMap::new(),
        }
    }

    /// Goes by these rules from now on: neighbours are asked anew what they offer.
    pub(crate) fn set_neighbours(
        &mut self,
        neighbours: &[Neighbour],
        around: &[Name],
        now: Instant,
    ) {
        self.table.set_rules(neighbours, around);
        let ribs = neighbours.iter().flat_map(|it| it.ribs.iter().map(|rib| (it.domain, *rib)));
        self.ribs.set_neighbours(ribs, now);
        self.told.clear();
        // Other ways may go first than those that were told.
        self.settled = None;
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let looks = self.looked_at.map(|at| at + LOOK_EVERY);
        self.ribs.poll_timeout().into_iter().chain(looks).min()
    }

    /// This second, as far as clocks that cannot be set back know of it.
    fn at(&self, now_s: u64) -> Now {
        Now { instant: self.as_of, unix_ms: now_s.saturating_mul(1000) }
    }

    /// Whether a neighbour is there: a RIB of it, or its words, where it has none to ask.
    pub(crate) fn is_there(&self, neighbour: Name) -> bool {
        let has_none = |it: &Neighbour| it.domain == neighbour && it.ribs.is_empty();
        let is_heard = || self.table.is_heard(neighbour, self.as_of);
        self.ribs.is_there(neighbour) || self.table.rules().any(has_none) && is_heard()
    }

    /// The domain of which a RIB is a neighbour's.
    fn neighbour_of(&self, rib: &Name) -> Option<Name> {
        let is_its = |(name, _): &(Name, SocketAddr)| name == rib;
        self.table.rules().find(|it| it.ribs.iter().any(is_its)).map(|it| it.domain)
    }

    /// By what a name is known to which no way has led for a while, but did.
    fn without_way(&self, name: &Name, now: Now) -> Option<Remembered> {
        let AtHome { metadata, certificates, .. } = self.at_home.peek(name)?;
        let home = certificates.last()?.statement.exports_by()?;
        let holds = certificates.iter().all(|it| it.not_after_s >= now.unix_s());
        let is_lost = self.lost.get(&home).is_some_and(|since| *since + LOST_AFTER <= now.instant);
        let (metadata, certificates) = (metadata.clone(), certificates.clone());
        (holds && is_lost).then_some(Remembered { level: LEVEL, metadata, certificates })
    }

    /// The ways to a name that is known outside by these certificates: the first one first.
    fn compose(&self, at_home: &AtHome, now: Now) -> Vec<(Vec<Metadata>, Vec<Certificate>)> {
        let home = at_home.certificates.last().and_then(|it| it.statement.exports_by());
        let ways = home.map_or(Vec::new(), |home| self.table.ways(home, now));
        let composed = ways.iter().flat_map(|way| way.chains().map(move |chain| (way, chain)));
        let composed = composed.filter_map(|(way, chain)| {
            let certificates = [&at_home.certificates[..], &chain[..]].concat();
            let issuers: BTreeSet<Name> = certificates.iter().map(|it| it.issuer).collect();
            let fits = certificates.len() <= MAX_CHAIN && issuers.len() == certificates.len();
            let holds = certificates.iter().all(|it| it.not_after_s >= now.unix_s());
            let mut metadata = [&at_home.metadata[..], &way.metadata[..]].concat();
            metadata.retain(|it| issuers.contains(&name_of(it)));
            (fits && holds).then_some((metadata, certificates))
        });
        composed.collect()
    }
}

// Looking for names.
impl<S: Store> Rib<S> {
    /// Looks for a name in the domains that neighbours offer. Whether anybody is asked.
    pub(crate) fn seek(&mut self, question: &Question, now: Instant) -> bool {
        let Some(name) = name_in(question) else { return false };
        let sought = self.reach.as_mut().is_some_and(|it| it.ribs.seek(name, *question, now));
        self.counters.sought += u64::from(sought);
        sought
    }

    /// Whether a name can be looked for in domains that neighbours offer.
    pub(crate) fn can_seek(&self) -> bool {
        self.reach.as_ref().is_some_and(|it| it.ribs.can_seek())
    }

    /// What is known that answers a question about a name of a domain that a neighbour offers, and
    /// was heard lately.
    pub(crate) fn reached(&mut self, question: &Question, now_s: u64) -> Option<Remembered> {
        let name = name_in(question)?;
        let reach = self.reach.as_ref()?;
        let is_fresh = |it: &AtHome| it.fresh_until > reach.as_of;
        let is_old = reach.at_home.peek(&name).is_some_and(|it| !is_fresh(it));
        self.reached_before(question, now_s).filter(|_| !is_old)
    }

    /// The same, whenever it was heard: while nobody says otherwise.
    pub(crate) fn reached_before(&mut self, question: &Question, now_s: u64) -> Option<Remembered> {
        let reach = self.reach.as_mut()?;
        let now = reach.at(now_s);
        match question {
            Question::Route(name) | Question::Way(name, _) => {
                reach.at_home.current(name, now.instant)?;
                let mut ways = reach.compose(reach.at_home.peek(name)?, now);
                let at = usize::from(question.number()).checked_rem(ways.len())?;
                let (metadata, certificates) = ways.swap_remove(at);
                Some(Remembered { level: LEVEL, metadata, certificates })
            }
            Question::Metadata(name) => {
                let of_it = |it: &&Metadata| name_of(it) == *name;
                let at_home = reach.at_home.current(name, now.instant);
                let at_home = at_home.and_then(|it| it.metadata.iter().find(of_it).cloned());
                let known = reach.table.metadata_of(name).cloned();
                let metadata = vec![known.or(at_home)?];
                Some(Remembered { level: LEVEL, metadata, certificates: Vec::new() })
            }
            _ => None,
        }
    }

    /// What those are told who were told of a way, when there has been none for a while.
    pub(crate) fn lost_way(&self, name: &Name, now_s: u64) -> Option<Remembered> {
        let reach = self.reach.as_ref()?;
        reach.without_way(name, reach.at(now_s))
    }

    /// What a RIB said of a name was verified, or not.
    pub(crate) fn found_at_home(&mut self, rib: Name, told: Told, holds: bool, now: Now) {
        let Some(reach) = &mut self.reach else { return };
        if !holds {
            self.counters.beyond_refused += 1;
            return reach.ribs.deny(rib, told.name);
        }
        let Remembered { metadata, certificates, .. } = told.what;
        let fresh_until = now.instant + AT_HOME_FOR;
        let end_s = certificates.iter().map(|it| it.not_after_s).min().unwrap_or(0);
        let until = until(end_s, now);
        let says = |it: &AtHome| it.certificates.iter().map(|it| it.statement).collect::<Vec<_>>();
        let before = reach.at_home.peek(&told.name).map(says);
        let at_home = AtHome { metadata, certificates, fresh_until, until };
        let has_moved = before.is_some_and(|before| before != says(&at_home));
        reach.at_home.insert(told.name, at_home);
        if has_moved {
            self.push_to_subscribers(told.name);
        }
        let Some(reach) = &mut self.reach else { return };
        for question in reach.ribs.found(&told.name) {
            self.conclude(&question, now.unix_s());
        }
    }

    /// Does what is due with the domains beside this one.
    pub(crate) fn advance_reach(&mut self, now: Now) {
        let Some(reach) = &mut self.reach else { return };
        reach.as_of = now.instant;
        reach.ribs.handle_timeout(now.instant);
        for neighbour in reach.table.rules().map(|it| it.domain).collect::<Vec<_>>() {
            if reach.ribs.is_there(neighbour) {
                reach.table.note_heard(neighbour, now.instant);
            }
        }
        let is_due = reach.looked_at.is_none_or(|at| at + LOOK_EVERY <= now.instant);
        if is_due || reach.settled != Some(reach.table.changes()) {
            self.settle_ways(now);
        }
        while let Some((_, questions)) =
            self.reach.as_mut().and_then(|reach| reach.ribs.poll_nowhere())
        {
            for question in questions {
                self.climb_on(&question, now);
            }
        }
    }

    /// Names of domains to which other ways go first now are told to who was told before, and RIBs
    /// of domains that are offered now are asked from now on.
    fn settle_ways(&mut self, now: Now) {
        let Some(reach) = &mut self.reach else { return };
        let looked_before = reach.looked_at.replace(now.instant);
        reach.settled = Some(reach.table.changes());
        let (mut homes, mut shown) = (BTreeSet::new(), BTreeMap::new());
        for domain in reach.table.domains() {
            let ways = reach.table.ways(domain, now);
            let ribs = ways.iter().flat_map(|way| way.ribs.iter().take(MAX_RIBS));
            homes.extend(ribs.map(|(name, locator)| (*name, locator.address())));
            let said = ways.iter().flat_map(|way| way.chains().flatten());
            shown.insert(domain, said.map(|it| it.statement).collect::<Vec<_>>());
        }
        reach.ribs.set_homes(&homes, reach.address.map(|it| it.ip()), now.instant);
        let before = std::mem::replace(&mut reach.shown, shown);
        // A RIB on the way that is started again knows of no others for a moment.
        let is_reached = |ways: Option<&Vec<Statement>>| ways.is_some_and(|ways| !ways.is_empty());
        let lost = before.iter().filter(|(domain, ways)| {
            is_reached(Some(ways)) && !is_reached(reach.shown.get(domain))
        });
        reach.lost.extend(lost.map(|(domain, _)| (*domain, now.instant)));
        let shown = &reach.shown;
        reach.lost.retain(|domain, since| {
            !is_reached(shown.get(domain)) && *since + FORGET_LOST > now.instant
        });
        let is_over = |since: &Instant| {
            let over = *since + LOST_AFTER;
            over <= now.instant && looked_before.is_none_or(|before| before < over)
        };
        let is_other = |domain: &Name| {
            before.get(domain) != shown.get(domain) || reach.lost.get(domain).is_some_and(is_over)
        };
        let home = |it: &AtHome| it.certificates.last().and_then(|it| it.statement.exports_by());
        let concerned =
            reach.at_home.iter().filter(|(_, it)| home(it).is_some_and(|it| is_other(&it)));
        let concerned: Vec<Name> = concerned.map(|(name, _)| *name).collect();
        for name in concerned {
            self.push_to_subscribers(name);
        }
    }
}

// What others ask.
impl<S: Store> Rib<S> {
    /// What is answered to a neighbour that asks what is offered, and to whoever asks from outside
    /// by what a name is known there; nothing to other questions.
    pub(crate) fn answer_outside(
        &mut self,
        asker: &Asker,
        id: RequestId,
        body: &RibRequestBody,
        now_s: u64,
    ) -> Option<Outcome> {
        match *body {
            RibRequestBody::Domains { revision, after } => {
                Some(self.tell_domains(asker, id, (revision, after), now_s))
            }
            RibRequestBody::LookUpExport(name) if self.is_for_outside(asker) => {
                Some(self.export_outside(*asker, id, name, now_s))
            }
            _ => None,
        }
    }

    /// Whether this is a question that somebody outside may ask, whom the rules refuse otherwise.
    fn is_for_outside(&self, asker: &Asker) -> bool {
        use rhumb_trust::Standing;
        let Some(reach) = &self.reach else { return false };
        asker.standing == Standing::Refused || reach.ribs.knows(&asker.name)
    }

    /// Which domains are offered to a neighbour.
    pub(crate) fn tell_domains(
        &mut self,
        asker: &Asker,
        id: RequestId,
        (revision, after): (u64, Name),
        now_s: u64,
    ) -> Outcome {
        let neighbour = self.reach.as_ref().and_then(|reach| reach.neighbour_of(&asker.name));
        let Some(neighbour) = neighbour else { return self.refuse(id, Refusal::NotAuthorised) };
        self.make_told(neighbour, now_s);
        let max_len = asker.max_answer_len.min(MAX_TOLD_LEN);
        let Some(told) = self.reach.as_ref().and_then(|reach| reach.told.get(&neighbour)) else {
            return self.refuse(id, Refusal::NotAuthorised);
        };
        let is_same = told.revision == revision;
        let is_idle = is_same && after == Name([0; 32]);
        let behind = |(domain, _): &&Offered| !is_idle && (!is_same || *domain > after);
        let mut rest = told.offered.iter().filter(behind).peekable();
        let (mut offered, mut len): (Vec<Offered>, usize) = (Vec::new(), TOLD_HEAD_LEN);
        while let Some((domain, offer)) = rest.peek() {
            len += Name::LEN + 2 + offer.emit().len();
            if len > max_len || offered.len() >= MAX_OFFERED {
                break;
            }
            offered.push((*domain, offer.clone()));
            rest.next();
        }
        let is_end = rest.peek().is_none() || offered.is_empty();
        let body = RibResponseBody::Domains { revision: told.revision, is_end, offered };
        self.counters.domains_told += 1;
        Outcome::Answer(RibResponse { id, body })
    }

    /// What a neighbour is told, made anew where something has changed since.
    pub(crate) fn make_told(&mut self, neighbour: Name, now_s: u64) {
        let Some(reach) = &self.reach else { return };
        let now = reach.at(now_s);
        let changes = reach.table.changes();
        let is_fresh = reach
            .told
            .get(&neighbour)
            .is_some_and(|it| it.as_of == changes && it.made_at + LOOK_EVERY > now.instant);
        if is_fresh {
            return;
        }
        let own = self.own_word(now);
        if self.store.has_missed() {
            // Half of it must not be taken for all.
            return;
        }
        let Some(reach) = &mut self.reach else { return };
        let offered = reach.table.told_to(neighbour, &own, now);
        let mut hasher = DefaultHasher::new();
        for (domain, offer) in &offered {
            (domain.0, offer.emit()).hash(&mut hasher);
        }
        // 0 is that of who has not been told anything.
        let revision = hasher.finish() | 1;
        let told = ToldDomains { revision, offered, made_at: now.instant, as_of: changes };
        reach.told.insert(neighbour, told);
    }

    /// The offers to a neighbour that is told otherwise than by its RIBs.
    pub(crate) fn offered_to(&mut self, neighbour: Name, now: Now) -> Vec<Offered> {
        self.make_told(neighbour, now.unix_s());
        let told = self.reach.as_ref().and_then(|reach| reach.told.get(&neighbour));
        told.map_or(Vec::new(), |told| told.offered.clone())
    }

    /// What this domain says of itself: its borders, and where they are.
    fn own_word(&mut self, now: Now) -> Own {
        let now_s = now.unix_s();
        let mut own = Own::default();
        let address = self.reach.as_ref().and_then(|it| it.address).and_then(Locator::new);
        own.ribs.extend(address.map(|locator| (self.name(), locator)));
        let Some(domain) = self.config.domain else { return own };
        let Ok(Some(entry)) = self.store.entry(&domain) else { return own };
        own.metadata.push(entry.metadata().clone());
        let is_border = |it: &&Certificate| {
            matches!(it.statement, Statement::Route { scope: Scope::Any | Scope::Several, .. })
        };
        let routes: Vec<Certificate> = entry.routes(now_s).filter(is_border).cloned().collect();
        for route in routes {
            let Some(border) = route.statement.hands_on_to() else { continue };
            if let Ok(Some(entry)) = self.store.entry(&border)
                && let Some(locator) = entry.locator(now_s)
                && own.ends.len() < MAX_ENDS
            {
                own.ends.push([route, locator.clone()]);
                own.metadata.push(entry.metadata().clone());
            }
        }
        own
    }

    /// By which certificates a name is known outside, for who is there: everywhere or not at all.
    pub(crate) fn export_outside(
        &mut self,
        asker: Asker,
        id: RequestId,
        name: Name,
        now_s: u64,
    ) -> Outcome {
        let max_answer_len = asker.max_answer_len.min(self.config.max_answer_len);
        let Some(domain) = self.config.domain else {
            return self.refuse(id, Refusal::NotAuthorised);
        };
        match Trail::outside(&mut self.store, domain, name, max_answer_len, now_s) {
            Ok(Trail { metadata, certificates })
                if !certificates.is_empty()
                    && certificates.iter().all(|it| bound_of(it).is_none()) =>
            {
                let body = RibResponseBody::Found { name, level: 0, metadata, certificates };
                self.found(RibResponse { id, body })
            }
            Ok(_) => self.absent_outside(asker, id, name, now_s),
            Err(error) => {
                let refusal = self.store_failed(error);
                self.refuse(id, refusal)
            }
        }
    }

    /// That a name is not known outside of here, which says nothing to those who ask inside.
    fn absent_outside(&mut self, asker: Asker, id: RequestId, name: Name, now_s: u64) -> Outcome {
        let Some(reach) = &mut self.reach else { return self.refuse(id, Refusal::NotAuthorised) };
        let certificate = match reach.absences.recent(&name, now_s) {
            Some(certificate) => certificate.clone(),
            None => {
                let (each, all) =
                    (self.config.absences_per_asker_per_s, self.config.absences_per_s);
                if !reach.absences.may_sign(Payer::Stranger(asker.source), each, all, now_s) {
                    return self.dropped(DropReason::OverBudget);
                }
                match reach.absences.sign(&self.identity, name, now_s) {
                    Ok(certificate) => certificate,
                    Err(error) => {
                        self.last_error = Some(error.into());
                        return self.dropped(DropReason::SigningFailed);
                    }
                }
            }
        };
        self.counters.lookups_absent += 1;
        Outcome::Answer(RibResponse { id, body: RibResponseBody::Absent(certificate) })
    }

    /// By which certificates this domain may carry for another one, which a neighbour offers.
    pub(crate) fn evidence_of(
        &mut self,
        name: Name,
        now_s: u64,
    ) -> Option<(Vec<Metadata>, Vec<Certificate>)> {
        let reach = self.reach.as_ref()?;
        reach.table.evidence(name, reach.at(now_s))
    }
}

// What others answer.
impl<S: Store> Rib<S> {
    /// Whether a RIB is one of another domain that was asked something.
    pub(crate) fn is_acquainted(&self, rib: &Name) -> bool {
        self.reach.as_ref().is_some_and(|reach| reach.ribs.knows(rib))
    }

    /// Takes what a RIB of another domain sent. Whether it answers what was asked of it as such.
    pub(crate) fn hear_outside(&mut self, rib: Name, data: &[u8], now: Now) -> bool {
        let Ok(RibResponse { id, body }) = RibResponse::parse(data) else {
            self.counters.count_drop(DropReason::MalformedPdu);
            return true;
        };
        let Some(reach) = &mut self.reach else { return false };
        if let RibResponseBody::Changed { name, .. } = body {
            // It is asked again when it is needed.
            reach.ribs.acknowledge(rib, id);
            reach.at_home.remove(&name);
            return false;
        }
        match (reach.ribs.answered(rib, id), body) {
            (None, _) => return false,
            (
                Some(Asked::Export(name)),
                RibResponseBody::Found { name: found, level: 0, metadata, certificates },
            ) if name == found && !certificates.is_empty() => {
                let what = Remembered { level: 0, metadata, certificates };
                if !self.verify_at_home(rib, name, what, now)
                    && let Some(reach) = &mut self.reach
                {
                    reach.ribs.deny(rib, name);
                }
            }
            (Some(Asked::Export(name)), _) => reach.ribs.deny(rib, name),
            (
                Some(Asked::Domains(neighbour, asked, after)),
                RibResponseBody::Domains { revision, is_end, offered },
            ) => {
                reach.table.note_heard(neighbour, now.instant);
                for (domain, offer) in &offered {
                    // What is not taken is counted.
                    let _ = reach.table.hear(neighbour, *domain, offer, now);
                }
                let domains: Vec<Name> = offered.iter().map(|(domain, _)| *domain).collect();
                if let Progress::All(all) = reach.ribs.told(
                    (rib, (asked, after)),
                    (revision, is_end),
                    &domains,
                    now.instant,
                ) {
                    reach.table.retract_all_but(neighbour, &all);
                }
            }
            (Some(Asked::Domains(neighbour, asked, after)), _) => {
                // To whom it tells nothing it offers nothing.
                if let Progress::All(none) =
                    reach.ribs.told((rib, (asked, after)), (0, true), &[], now.instant)
                {
                    reach.table.retract_all_but(neighbour, &none);
                }
            }
        }
        true
    }

    /// Has exports verified that are to end at a domain which a neighbour offers.
    fn verify_at_home(&mut self, rib: Name, name: Name, what: Remembered, now: Now) -> bool {
        let keys: Vec<(Name, PublicKey)> =
            what.metadata.iter().map(|metadata| (name_of(metadata), metadata.key)).collect();
        let is_shown = |(at, it): (usize, &Certificate)| {
            let serves = at == 0 && matches!(it.statement, Statement::Service { .. });
            serves || it.statement.exports_by().is_some() && bound_of(it).is_none()
        };
        let home = what.certificates.last().and_then(|it| it.statement.exports_by());
        let reach = self.reach.as_ref();
        let is_offered = home
            .is_some_and(|home| reach.is_some_and(|reach| !reach.table.ways(home, now).is_empty()));
        if !is_offered || !what.certificates.iter().enumerate().all(is_shown) {
            return false;
        }
        let heard = Heard::AtHome { rib };
        let told = Told { heard, name, number: 0, what, keys, now_s: now.unix_s() };
        self.beyond.as_mut().is_some_and(|beyond| beyond.verify(told))
    }
}

/// As one domain further out: a border goes there itself.
const LEVEL: u8 = 1;
/// A name that has moved to another domain is found there after that.
const AT_HOME_FOR: Duration = Duration::from_secs(15);
/// For how long there has been no way before routers are told so, which go by the last one until
/// then: RIBs of neighbours that are started again, or an exchange, are heard by then.
const LOST_AFTER: Duration = Duration::from_secs(10);
/// By then whoever was there was told.
const FORGET_LOST: Duration = Duration::from_secs(60);
/// How often is looked at what ends with its time.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Borders that fit an offer, with their metadata.
const MAX_ENDS: usize = 2;
/// As an answer to a look-up, with what it is sealed in.
const MAX_TOLD_LEN: usize = 1380;
/// Kind, identifier, revision, end, count.
const TOLD_HEAD_LEN: usize = 1 + 4 + 8 + 1 + 1;
