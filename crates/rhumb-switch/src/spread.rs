//! What is sent to a group goes on by several ways: to each next router and each member that is to
//! have it, but not back where it came from, in copies that differ by nothing but their seals.
//!
//! All ways of a PDU go or none: what is too large for one of them, or more than its sender may
//! cause, goes nowhere, and its source is told. A router that has not answered yet that it knows
//! the sender gets no copy below us; above us, the source is told to come back.

use std::time::Instant;

use rhumb_link::SessionId;
use rhumb_trust::Now;
use rhumb_wire::datagram::RECORD_OVERHEAD;
use rhumb_wire::nack::Reason;
use rhumb_wire::pdu::decrement_ttl;
use rhumb_wire::{Pdu, PduHeader};

use crate::budgets::Cost;
use crate::changes::Grounds;
use crate::flows::{Flow, LabelTold, Marks, NextLabel, Ready};
use crate::grants::Grant;
use crate::groups::{Group, Way};
use crate::jobs::RETRY_WHEN_BUSY_MS;
use crate::next_hop::Stop;
use crate::{DropReason, Switch};

impl Switch {
    /// Carries a PDU to a group that somebody here is a part of.
    pub(crate) fn spread(
        &mut self,
        (from, as_of): (SessionId, u64),
        pdu: &Pdu<'_>,
        grant: &Grant,
        now: Now,
    ) -> Result<(), Stop> {
        let (source, destination) = (pdu.source(), pdu.destination());
        let Some(group) = self.groups.get(&destination) else { return Err(Stop::gone()) };
        let sender = group.member(source, from).filter(|it| now.instant < it.until);
        let Some(sender) = sender.filter(|it| it.part.sends()) else {
            return Err(Stop::new(DropReason::NotASender, Reason::NotAuthorised));
        };
        let until = sender.until.min(grant.until);
        let level = group.level();
        let not_yet = |ms| Stop::new(DropReason::RoutePending, Reason::NotYet(ms));
        let ways = ways(group, from, |to| {
            !self.plane.is_router(to) || group.is_accepted(source, to, now.instant)
        });
        let ways = ways.ok_or_else(|| not_yet(RETRY_UPWARD_MS))?;
        self.check_level(from, level, now)?;
        self.fits_all(&ways, pdu)?;
        let copies = u32::try_from(ways.len()).unwrap_or(u32::MAX);
        let is_full = self.plane.queued() > MAX_QUEUED;
        if is_full || copies > 1 && !self.may_cost(from, Cost::Copies(copies - 1), now) {
            let reason = Reason::Overloaded(RETRY_WHEN_BUSY_MS);
            return Err(Stop::new(DropReason::TooManyCopies, reason));
        }
        self.enter_spread_flow((from, as_of), pdu, (grant, until), now);
        let mut bytes = self.plane.take_scratch();
        let emitted = pdu.header().emit(pdu.data(), &[], &mut bytes).is_ok();
        decrement_ttl(&mut bytes);
        for to in ways {
            match emitted && self.send_bytes(to, &bytes, now) {
                true => self.plane.count_forwarded(bytes.len() + RECORD_OVERHEAD),
                false => self.plane.drop_pdu(DropReason::NextHopGone),
            }
        }
        self.plane.counters_mut().copies += u64::from(copies.saturating_sub(1));
        self.plane.give_back(bytes);
        Ok(())
    }

    /// Whether a PDU fits on each of its ways.
    fn fits_all(&self, ways: &[SessionId], pdu: &Pdu<'_>) -> Result<(), Stop> {
        let narrowest = ways.iter().filter_map(|to| Some((self.room_to(*to)?, *to))).min();
        let Some((room, to)) = narrowest else { return Ok(()) };
        let most = usize::from(room).saturating_sub(RECORD_OVERHEAD + PduHeader::LEN);
        match pdu.data().len() <= most {
            true => Ok(()),
            false => Err(self.too_big(to, pdu.data().len(), most)),
        }
    }

    /// Remembers the flow, so that the next PDU need not be looked into, and may come with a label.
    fn enter_spread_flow(
        &mut self,
        (from, as_of): (SessionId, u64),
        pdu: &Pdu<'_>,
        (grant, until): (&Grant, Instant),
        now: Now,
    ) {
        let known = self.plane.flows().peek(pdu.names());
        let told = known.and_then(|flow| flow.told_lately(from, now));
        if told.is_some()
            && known.is_some_and(|flow| flow.ready == Ready::Several && flow.as_of == as_of)
        {
            return;
        }
        let mut grounds = Grounds::on(self.routes.seen().changes.of(&pdu.destination()));
        self.rest_on(&grant.chain, &mut grounds);
        let flow = Flow {
            ingress: from,
            next: from,
            next_label: NextLabel::None,
            until: self.routes.clock().moment(until),
            as_of,
            grounds,
            label_told: told.unwrap_or(LabelTold::at(now)),
            max_datagram_len: 0,
            ready: Ready::Several,
            marks: Marks::default(),
        };
        let label = self.plane.flows_mut().insert(flow, pdu.names());
        if told.is_none() {
            self.tell_label(from, pdu, label, now);
        }
    }
}

/// By which sessions what came on one of them goes on; none while a router that it has to go by is
/// not ready for it.
fn ways(
    group: &Group,
    from: SessionId,
    is_ready: impl Fn(SessionId) -> bool,
) -> Option<Vec<SessionId>> {
    let upward = match group.way {
        Way::By(next, _) if next == from => None,
        Way::By(next, _) if !is_ready(next) => return None,
        Way::By(next, _) => Some(next),
        Way::Here(holder) => holder,
        Way::Lost => return None,
    };
    let downward = group.receivers().iter().copied();
    let downward = downward.filter(|to| Some(*to) != upward && is_ready(*to));
    Some(upward.into_iter().chain(downward).filter(|to| *to != from).collect())
}

/// A round trip to the next router, and what it verifies.
const RETRY_UPWARD_MS: u16 = 50;
/// Copies that wait to be sent: more are more than a link takes at once.
const MAX_QUEUED: usize = 16_384;
