//! Names that this node answers for besides its own, by
//! their owners' AdCerts (GDP thesis: data objects).
//!
//! 1. [`Services::serve`] takes an AdCert. Once the router has accepted the node's own route,
//!    [`Services::handle_timeout`] makes an advertisement of both: owner -> node -> router. It is
//!    resent until [`Services::handle_accept`].
//! 2. Whenever the node's own route is renewed, so are these, which rest on it.
//! 3. [`Services::handle_nack`]: the router refuses, and is not asked again on that session; or it
//!    says that the name has moved to another server. Then this one stands by: it asks again every
//!    [`ASK_AGAIN_AFTER`], and is let in when the other one is not there.
//! 4. With its AdCert a name ends for good.
//!
//! What a server can take back is its own word: a node that leaves withdraws its route, and with it
//! goes the way to all that it serves. That somebody else serves is for the owner to say.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rhumb_link::SessionId;
use rhumb_trust::{AdCert, Now};
use rhumb_wire::accept::Accept;
use rhumb_wire::nack::Reason;
use rhumb_wire::{Action, Certificate, Metadata, Name, PduHeader};

use super::advertisement::{FIRST_RESEND, LAST_RESEND, Repeated};
use super::event::{Event, ServiceEnd};
use super::membership::{Joined, NotAdvertised};
use super::turn::Turn;
use crate::ServeError;

/// The names served.
#[derive(Debug, Default)]
pub(super) struct Services {
    /// Few: they are searched one by one.
    list: Vec<Service>,
}

/// A name that a node serves, as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct ServiceStatus {
    /// The name.
    pub name: Name,
    /// Whether the router takes this node's traffic for it.
    #[serde(skip)]
    pub accepted: bool,
    /// Whether the RIB holds the AdCert.
    pub published: bool,
}

#[derive(Debug)]
struct Service {
    ad_cert: AdCert,
    ends_at: Instant,
    /// The session that all below is about.
    session: Option<SessionId>,
    advertised: Option<Advertisement>,
    accepted: bool,
    published: bool,
    /// The router will have none of it.
    refused: bool,
    /// While another server answers by the owner's newer word: when to ask again.
    asks_again_at: Option<Instant>,
    stands_by: bool,
}

#[derive(Debug)]
struct Advertisement {
    said: Repeated,
    /// Of the node's own route, which it rests on.
    route_sequence: u64,
}

impl Services {
    /// Serves a name from now on, until its AdCert ends. A newer AdCert of the
    /// same owner takes the place of an older one.
    pub(super) fn serve(
        &mut self,
        ad_cert: AdCert,
        server: Name,
        now: Now,
    ) -> Result<(), ServeError> {
        ad_cert.check(server, now.unix_s()).map_err(ServeError::AdCert)?;
        let owner = ad_cert.owner();
        let before = self.list.iter().position(|it| it.ad_cert.owner() == owner);
        if before.is_some_and(|at| {
            self.list[at].ad_cert.certificate().sequence > ad_cert.certificate().sequence
        }) {
            return Err(ServeError::Older { owner });
        }
        if before.is_none() && self.list.len() >= MAX_SERVED {
            return Err(ServeError::TooMany);
        }
        let fresh = Service {
            ends_at: now.instant + ends_in(&ad_cert, now),
            ad_cert,
            session: None,
            advertised: None,
            accepted: false,
            published: false,
            refused: false,
            asks_again_at: None,
            stands_by: false,
        };
        match before {
            Some(at) => self.list[at] = fresh,
            None => self.list.push(fresh),
        }
        Ok(())
    }

    /// Serves a name no longer. Whether it was served.
    pub(super) fn stop(&mut self, name: Name) -> bool {
        let before = self.list.len();
        self.list.retain(|it| it.ad_cert.owner() != name);
        self.list.len() < before
    }

    /// Whether what is for `name` is for us.
    pub(super) fn answers_for(&self, name: &Name) -> bool {
        self.list.iter().any(|it| it.ad_cert.owner() == *name && !it.refused)
    }

    /// Whether there is an AdCert for `name`, whatever the router thinks of it.
    pub(super) fn holds(&self, name: &Name) -> bool {
        self.list.iter().any(|it| it.ad_cert.owner() == *name)
    }

    pub(super) fn status(&self) -> impl Iterator<Item = ServiceStatus> + '_ {
        self.list.iter().map(|it| ServiceStatus {
            name: it.ad_cert.owner(),
            accepted: it.accepted,
            published: it.published,
        })
    }

    /// Advertises what the router joined does not know yet,
    /// or what rests on a route that was renewed.
    pub(super) fn handle_timeout(
        &mut self,
        joined: Option<Joined<'_>>,
        turn: &mut Turn<'_>,
        events: &mut VecDeque<Event>,
    ) {
        self.list.retain_mut(|service| {
            if service.ends_at > turn.now.instant {
                return true;
            }
            // The clocks may have come apart since.
            let left = ends_in(&service.ad_cert, turn.now);
            service.ends_at = turn.now.instant + left;
            if left.is_zero() {
                let name = service.ad_cert.owner();
                events.push_back(Event::NotServing { name, reason: ServiceEnd::Expired });
            }
            !left.is_zero()
        });
        let Some(joined) = joined else { return };
        for service in &mut self.list {
            if service.asks_again_at.is_some_and(|at| at <= turn.now.instant) {
                (service.asks_again_at, service.refused) = (None, false);
            }
            if service.session != Some(joined.session) {
                service.forget_session(joined.session);
            }
            let rests_on = service.advertised.as_ref().map(|it| it.route_sequence);
            if !service.refused && rests_on != Some(joined.route.sequence) {
                service.advertise(&joined, turn);
            }
        }
    }

    /// The next advertisement that it is time to send.
    pub(super) fn poll_transmit(&mut self, session: SessionId, now: Instant) -> Option<&[u8]> {
        let mut on_session = self.list.iter_mut().filter(|it| it.session == Some(session));
        on_session.find_map(|it| it.advertised.as_mut()?.said.send(now))
    }

    /// The router accepts what was advertised. `None` when it says nothing new.
    pub(super) fn handle_accept(
        &mut self,
        tag: u32,
        accept: Accept,
        now: Instant,
    ) -> Result<Option<Event>, NotAdvertised> {
        let service = self.advertised_mut(tag, accept.name).ok_or(NotAdvertised)?;
        let advertised = service.advertised.as_mut().ok_or(NotAdvertised)?;
        // What is not published yet is asked about again: the word that it is may get lost.
        match accept.published {
            true => advertised.said.resend_at = None,
            false => advertised.said.wait_on(now),
        }
        let is_news = !service.accepted || (accept.published && !service.published);
        service.accepted = true;
        service.stands_by = false;
        service.published |= accept.published;
        let (name, published) = (accept.name, service.published);
        Ok(is_news.then_some(Event::Serving { name, until_s: accept.until_s, published }))
    }

    /// The router says why it does not accept what was advertised, or no longer.
    pub(super) fn handle_nack(
        &mut self,
        tag: u32,
        name: Name,
        reason: Reason,
        turn: &mut Turn<'_>,
    ) -> Result<Option<Event>, NotAdvertised> {
        let service = self.advertised_mut(tag, name).ok_or(NotAdvertised)?;
        let advertised = service.advertised.as_mut().ok_or(NotAdvertised)?;
        let end = match reason {
            Reason::Superseded => ServiceEnd::Superseded,
            _ if advertised.said.resend_at.is_none() => return Err(NotAdvertised),
            Reason::BadCertificate
            | Reason::NotAuthorised
            | Reason::Expired
            | Reason::NotYetValid => ServiceEnd::Refused(reason),
            _ => {
                let wait =
                    reason.retry_after().unwrap_or(FIRST_RESEND).clamp(LEAST_WAIT, LAST_RESEND);
                advertised.said.resend_at = Some(turn.now.instant + turn.jitter.lengthen(wait));
                return Ok(None);
            }
        };
        let was_standing_by =
            std::mem::replace(&mut service.stands_by, end == ServiceEnd::Superseded);
        (service.accepted, service.published, service.refused) = (false, false, true);
        service.advertised = None;
        service.asks_again_at =
            service.stands_by.then(|| turn.now.instant + turn.jitter.lengthen(ASK_AGAIN_AFTER));
        Ok((!was_standing_by).then_some(Event::NotServing { name, reason: end }))
    }

    /// Advertises a name before it is time: the router does not,
    /// or no longer, know the right to send for it.
    pub(super) fn advertise_again(&mut self, name: Name) {
        let service = self.list.iter_mut().find(|it| it.ad_cert.owner() == name);
        if let Some(service) = service.filter(|it| !it.refused)
            && service.advertised.as_ref().is_some_and(|it| it.said.resend_at.is_none())
        {
            service.advertised = None;
        }
    }

    /// When something has to be done.
    pub(super) fn poll_timeout(&self, joined: Option<SessionId>) -> Option<Instant> {
        let on_session = self.list.iter().filter(|it| joined.is_some() && it.session == joined);
        let resend = on_session.filter_map(|it| it.advertised.as_ref()?.said.resend_at);
        let again = self.list.iter().filter_map(|it| it.asks_again_at);
        let again = again.filter(|_| joined.is_some());
        self.list.iter().map(|it| it.ends_at).chain(resend).chain(again).min()
    }

    fn advertised_mut(&mut self, tag: u32, name: Name) -> Option<&mut Service> {
        self.list.iter_mut().find(|it| {
            it.ad_cert.owner() == name && it.advertised.as_ref().is_some_and(|a| a.said.tag == tag)
        })
    }
}

impl Service {
    fn forget_session(&mut self, session: SessionId) {
        self.session = Some(session);
        self.advertised = None;
        (self.accepted, self.published, self.refused) = (false, false, false);
        (self.asks_again_at, self.stands_by) = (None, false);
    }

    /// The owner's word for us and ours for the router, with the
    /// owner's metadata, which the router may not know.
    fn advertise(&mut self, joined: &Joined<'_>, turn: &mut Turn<'_>) {
        let tag = turn.take_tag();
        let owner = self.ad_cert.owner();
        let header = PduHeader { tag, ..PduHeader::new(Action::Advertise, owner, joined.router) };
        let mut metadata = Vec::new();
        Metadata::emit_list(&[(**self.ad_cert.metadata()).clone()], &mut metadata);
        let chain: [Certificate; 2] = [self.ad_cert.certificate().clone(), joined.route.clone()];
        let mut pdu = Vec::new();
        header.emit(&metadata, &chain, &mut pdu).expect("invariant: two certificates fit");
        let said = Repeated::new(tag, pdu, turn.now.instant);
        let route_sequence = joined.route.sequence;
        self.advertised = Some(Advertisement { said, route_sequence });
    }
}

/// How long an AdCert still holds; zero when its last second has passed.
fn ends_in(ad_cert: &AdCert, now: Now) -> Duration {
    let ends_s = ad_cert.certificate().not_after_s.saturating_add(1);
    let left_ms = ends_s.saturating_mul(1000).saturating_sub(now.unix_ms);
    Duration::from_millis(left_ms).min(LOOK_AGAIN)
}

/// As many as one process answers for by hand-made certificates, far
/// fewer than a router lets one session attach.
pub const MAX_SERVED: usize = 64;
/// A router that asks for less would make the node a flood.
const LEAST_WAIT: Duration = Duration::from_millis(20);
/// How often a server that stands by asks whether it is needed: far shorter than it takes to find
/// that the other one is gone, and a signature for two routers and a RIB.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(5);
/// AdCerts last days, and clocks are set now and then.
const LOOK_AGAIN: Duration = Duration::from_secs(3600);
