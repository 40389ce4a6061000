//! This router's place in a trust domain, and what of the inside it shows (GDP paper, section 6.1).
//!
//! Domains nest. What was found in this router's own domain is carried inside; what was found
//! further out goes by a border: of its own domain, or, at such a border, of the domain around it.
//! A border shows a router outside only by which domain a source is known there: exports, then its
//! own domain's word for it. So whoever did not export itself does not leave its domain, and no
//! domain carries between others unless it is around one of them.

use std::sync::Arc;
use std::time::Instant;

use rhumb_directory::{Expires, Question, Slot, Table, until};
use rhumb_link::SessionId;
use rhumb_trust::{Chain, Now, Verified};
use rhumb_wire::certificate::MAX_CHAIN;
use rhumb_wire::nack::{Nack, Reason};
use rhumb_wire::{Certificate, Metadata, Name, Scope, Statement};

use crate::budgets::Cost;
use crate::event::Event;
use crate::grants::Grant;
use crate::job::HeldPdu;
use crate::jobs::RETRY_WHEN_BUSY_MS;
use crate::next_hop::Stop;
use crate::routes::Found;
use crate::status::DomainStatus;
use crate::{DropReason, Switch};

/// The trust domain that a router belongs to.
#[derive(Debug, Clone)]
pub struct Domain {
    /// Its name.
    pub name: Name,
    /// The domains around it, the nearest first.
    pub around: Vec<Name>,
    /// Those that lie in it and have it carry for them: what goes no further than this domain may
    /// be shown there.
    pub customers: Vec<Name>,
    /// What the domain says and this router publishes, with the domain's metadata: that the router
    /// is a border of it, and by which domain around it is known outside.
    pub words: Vec<(Arc<Metadata>, Certificate)>,
}

/// What a switch knows of its domain.
pub(crate) struct Place {
    domain: Domain,
    /// The domain's word that this router is a border of it.
    border: Option<Certificate>,
    /// By which certificates names of the inside are known outside.
    exports: Table<Name, Exported>,
}

/// Certificates from a name to this router's domain; none where the name is not exported.
struct Exported {
    certificates: Vec<Certificate>,
    until: Instant,
}

impl Place {
    pub(crate) fn new(domain: Domain, router: Name, bound: usize) -> Self {
        let is_border = |it: &&Certificate| {
            let named = matches!(
                it.statement,
                Statement::Route { via, scope: Scope::Any | Scope::Several } if via == router
            );
            named && it.issuer == domain.name
        };
        let border = domain.words.iter().map(|(_, word)| word).find(is_border).cloned();
        Self { border, exports: Table::new(bound), domain }
    }

    /// The domain by whose border a destination is reached that was found so
    /// many domains further out; none where this router goes there itself.
    pub(crate) fn gateway(&self, level: u8) -> Option<Name> {
        match (&self.border, level) {
            (_, 0) | (Some(_), 1) => None,
            (None, _) => Some(self.domain.name),
            (Some(_), _) => self.domain.around.first().copied(),
        }
    }

    /// Of how many domains, this one first, all lies within another one; 0 where this one does not.
    pub(crate) fn levels_within(&self, domain: &Name) -> u8 {
        let mut known = std::iter::once(&self.domain.name).chain(&self.domain.around);
        let level = known.position(|it| it == domain).map(|level| level + 1);
        level.map_or(0, |levels| u8::try_from(levels).unwrap_or(u8::MAX))
    }

    /// The domain's word that this router is a border of it, while it holds.
    fn border_word(&self, now: Now) -> Option<Certificate> {
        self.border.clone().filter(|word| word.not_after_s >= now.unix_s())
    }

    /// For whoever runs it.
    pub(crate) fn status(&self, now: Now) -> DomainStatus {
        let Domain { name, around, .. } = &self.domain;
        let left = |word: &Certificate| word.not_after_s.saturating_sub(now.unix_s());
        let border_expires_in_s = self.border.as_ref().map(left);
        DomainStatus { name: *name, around: around.clone(), border_expires_in_s }
    }

    fn is_within(&self, domain: &Name) -> bool {
        self.domain.name == *domain || self.domain.around.contains(domain)
    }

    /// The domain and those around it.
    pub(crate) fn domains(&self) -> impl Iterator<Item = Name> {
        [self.domain.name].into_iter().chain(self.domain.around.iter().copied())
    }

    /// What the domain says, for RIBs to keep.
    pub(crate) fn words(&self, now_s: u64) -> Vec<(Arc<Metadata>, Certificate)> {
        let words = self.domain.words.iter();
        words.filter(|(_, word)| word.not_after_s > now_s).cloned().collect()
    }

    /// Takes over by which certificates a name is known outside.
    pub(crate) fn learn_export(&mut self, chain: &Verified<Chain>, now: Now) {
        let is_ours = chain.last_router() == Some(self.domain.name);
        let certificates = if is_ours { chain.certificates().to_vec() } else { Vec::new() };
        let exported = Exported { certificates, until: until(chain.not_after_s(), now) };
        self.exports.insert(chain.origin(), exported);
    }

    /// RIBs know of no export of a name, and shall not be asked again before then.
    pub(crate) fn learn_no_export(&mut self, name: Name, until: Instant) {
        self.exports.insert(name, Exported { certificates: Vec::new(), until });
    }

    /// What was known of a name's export is asked for anew.
    pub(crate) fn forget_export(&mut self, name: &Name) {
        self.exports.remove(name);
    }
}

impl Expires for Exported {
    fn is_over(&self, now: Instant) -> bool {
        self.until <= now
    }
}

impl Switch {
    /// Whether a chain may be known here: none of its exports is for a domain that we are not in.
    pub(crate) fn is_within_bounds(&self, chain: &Chain) -> bool {
        let place = self.transit.place();
        chain.bounds().all(|domain| place.is_some_and(|place| place.is_within(&domain)))
    }

    /// Whether a session's peer is outside of this router's domain: it shows no membership of it.
    /// Roles say nothing, since everybody chooses his own.
    pub(crate) fn is_outside(&self, session: SessionId, now: Now) -> bool {
        let Some(place) = self.transit.place() else { return false };
        let who = self.plane.peer(session).map(|peer| peer.who(now.unix_s()));
        who.is_some_and(|who| !self.admission.is_member(&who, &place.domain.name))
    }

    /// Whether a newer statement of this router's domain says no more than the domain's word here
    /// does, which needs not be published then.
    pub(crate) fn is_said_already(&self, newer: Option<&Certificate>) -> bool {
        let words = self.transit.place().map_or(&[][..], |place| &place.domain.words);
        let says = |(_, word): &(_, Certificate)| {
            newer.is_some_and(|it| it.issuer == word.issuer && it.statement == word.statement)
        };
        words.iter().any(says)
    }

    /// The domain by whose border a destination is reached that was found so many domains out.
    pub(crate) fn gateway(&self, level: u8) -> Option<Name> {
        self.transit.place().and_then(|place| place.gateway(level))
    }

    /// The chain by which a router outside may know the source of a grant: its exports as far as
    /// this domain, the domain's word for this router, and ours for the next one.
    pub(crate) fn chain_outside(
        &mut self,
        grant: &Grant,
        (from, next, toward): (SessionId, SessionId, Name),
        now: Now,
    ) -> Result<Vec<Certificate>, Stop> {
        let known = &grant.chain;
        let shown = known.exported_len().max(usize::from(known.server().is_some()));
        let mut chain = known.certificates()[..shown].to_vec();
        let last = chain.last().and_then(|it| it.statement.hands_on_to());
        let by = last.unwrap_or(known.origin());
        let Some(place) = self.transit.place() else { return Err(no_way()) };
        let Domain { name: own, mut around, customers, .. } = place.domain.clone();
        let border = place.border_word(now).ok_or_else(outside)?;
        if by != own {
            chain.extend(self.exports_of(by, from, now)?);
        }
        chain.push(border);
        let next = self.plane.peer(next).map(|peer| peer.name).ok_or_else(no_way)?;
        chain.push(self.publishing.delegation_to(next, now).ok_or_else(no_way)?);
        // Who lies in this domain may know what goes as far as it.
        if self.customer_toward(toward, next, &customers, now) {
            around.push(own);
        }
        let leads_back = chain.iter().any(|it| it.issuer == next);
        if chain.iter().filter_map(bound_of).any(|bound| !around.contains(&bound)) {
            return Err(not_exported());
        }
        match chain.len() <= MAX_CHAIN && !leads_back {
            true => Ok(chain),
            false => Err(no_way()),
        }
    }

    /// The domain at whose border this router stands.
    pub(crate) fn domain_at_border(&self) -> Option<Name> {
        let place = self.transit.place()?;
        place.border.as_ref().map(|_| place.domain.name)
    }

    /// The certificates by which this router's domain itself, at whose border it stands, is
    /// presented to a router outside, and their bytes in a PDU.
    pub(crate) fn present_domain(
        &mut self,
        domain: Name,
        next: SessionId,
        now: Now,
    ) -> Result<(Vec<Certificate>, usize), Stop> {
        let border = self.transit.place().and_then(|place| place.border_word(now));
        let border = border.filter(|word| word.issuer == domain).ok_or_else(outside)?;
        let peer = self.plane.peer(next).map(|peer| peer.name).ok_or_else(no_way)?;
        let own = self.publishing.delegation_to(peer, now).ok_or_else(no_way)?;
        Ok(self.presented((domain, vec![self.name()]), next, vec![border, own], now))
    }

    /// Whether a border of one of these domains is the next router towards a destination.
    fn customer_toward(
        &mut self,
        destination: Name,
        next: Name,
        customers: &[Name],
        now: Now,
    ) -> bool {
        let Found::Way(way) = self.routes.find(&destination, now.instant) else { return false };
        let others = way.others.iter().map(|other| &other.chain);
        let mut chains = others.chain([&way.chain]);
        let named_by = |chain: &Chain| chain.toward_origin(next);
        chains.any(|chain| named_by(chain).is_some_and(|it| customers.contains(&it)))
    }

    fn exports_of(
        &mut self,
        name: Name,
        from: SessionId,
        now: Now,
    ) -> Result<Vec<Certificate>, Stop> {
        let place = self.transit.place_mut().ok_or_else(no_way)?;
        if let Some(exported) = place.exports.current(&name, now.instant) {
            let is_exported = !exported.certificates.is_empty();
            return is_exported.then(|| exported.certificates.clone()).ok_or_else(not_exported);
        }
        self.ask(from, Question::Export(name), now);
        self.flush_requests(now);
        Err(Stop::new(DropReason::RoutePending, Reason::NotYet(self.look_up_takes_ms())))
    }

    /// A name that is attached here says by which domain it is known outside.
    pub(crate) fn export_verified(
        &mut self,
        request: &HeldPdu,
        issuer: Arc<Metadata>,
        export: &Verified<Certificate>,
        now: Now,
    ) {
        let Ok(pdu) = rhumb_wire::Pdu::parse(&request.pdu) else { return };
        let (name, session) = (export.issuer, request.session);
        if !self.directory.can_publish(&name) || !self.may_cost(session, Cost::Publication, now) {
            self.plane.drop_pdu(DropReason::Overloaded);
            let reason = Reason::Overloaded(RETRY_WHEN_BUSY_MS);
            let nack = Nack { reason, reporter: Some(self.name()) };
            return self.send_nack(session, pdu.header(), nack, now);
        }
        let is_ours = |place: &Place| export.statement.exports_by() == Some(place.domain.name);
        let attached = self.routes.attached_on(&name, session);
        let Some(attached) = attached.filter(|_| self.transit.place().is_some_and(is_ours)) else {
            let nack = Nack { reason: Reason::NotAuthorised, reporter: Some(self.name()) };
            return self.send_nack(session, pdu.header(), nack, now);
        };
        attached.export = Some(Box::new((**export).clone()));
        let (words, until_s) = (attached.words(), attached.until_s);
        self.routes.note(export.as_ref());
        let slot = words.first().map_or(Slot::of(export), Slot::of);
        self.publishing.await_publication(slot, session, pdu.tag());
        self.accept(session, name, until_s, pdu.tag(), false, now);
        self.publish(issuer, words, now);
        self.plane.tell(Event::Exported { name });
    }
}

/// The domain beyond which an export is not to be known.
fn bound_of(certificate: &Certificate) -> Option<Name> {
    match certificate.statement.scope() {
        Scope::ByDomain { up_to } | Scope::ByNeighbour { up_to } => up_to,
        _ => None,
    }
}

/// A source is not exported by this domain, or not as far as to the outside of it.
fn not_exported() -> Stop {
    Stop::new(DropReason::NotExported, Reason::Unreachable(RETRY_EXPORT_MS))
}

/// The next router is outside of our domain, of which this router is no border.
fn outside() -> Stop {
    Stop::new(DropReason::NextHopOutside, Reason::Unreachable(RETRY_WHEN_BUSY_MS))
}

/// A source cannot be shown outside: its chain would be too long, or lead back.
fn no_way() -> Stop {
    Stop::new(DropReason::Unreachable, Reason::Unreachable(RETRY_WHEN_BUSY_MS))
}

/// As long as RIBs' word holds that there is no export, about.
const RETRY_EXPORT_MS: u16 = 1000;
