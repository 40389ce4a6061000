//! Routes that come: announced, withdrawn, refreshed (RFC 2918, RFC 7313), and kept while a
//! neighbour restarts (RFC 4724).

use std::time::{Duration, Instant};

use bytes::{BufMut, BytesMut};
use rustbgpd_wire::notification::cease_subcode;
use rustbgpd_wire::{
    Afi, NotificationCode, NotificationMessage, Prefix, RouteRefreshMessage, RouteRefreshSubtype,
    Safi, UpdateMessage,
};

use super::{Session, Side};
use crate::event::{DownReason, Event};
use crate::family::{Family, PerFamily};
use crate::negotiation::Negotiated;
use crate::table::Key;
use crate::update::{Broken, Context, Update};

impl Session {
    pub(super) fn handle_update(&mut self, side: Side, message: &UpdateMessage, now: Instant) {
        self.counters.updates_received += 1;
        // Once for the message, and once more for each family that turns out to be unreadable.
        for _ in 0..=Family::ALL.len() {
            let Some(negotiated) =
                self.connections[side as usize].as_ref().and_then(|open| open.negotiated.as_ref())
            else {
                return;
            };
            let context = Context { config: &self.config, negotiated, disabled: self.disabled };
            match context.read(message.clone(), &mut self.counters) {
                Ok(update) => return self.apply(side, update, now),
                Err(Broken::Session(notification)) => return self.fail(side, notification, now),
                Err(Broken::Family(family)) => self.disable(family),
            }
        }
    }

    fn apply(&mut self, side: Side, update: Update, now: Instant) {
        for key in update.withdrawn {
            if self.rib_in.withdraw(key) {
                self.events.push_back(withdrawn(key));
            }
        }
        for (canonical, keys) in update.announced {
            let attributes = self.rib_in.intern(&canonical);
            for key in keys {
                if self.rib_in.announce(key, &attributes) {
                    let ((prefix, path), attributes) = (key, attributes.clone());
                    self.events.push_back(Event::Announced { prefix, path, attributes });
                }
            }
        }
        if let Some(family) = update.end_of_rib {
            if self.stale_until[family].take().is_some() {
                self.remove_stale(family);
            }
            self.events.push_back(Event::EndOfRib(family));
        }
        for family in Family::ALL {
            let limit = self.config.family(family).and_then(|family| family.max_prefixes);
            if let Some(limit) = limit
                && self.rib_in.len(family) > limit as usize
            {
                return self.fail(side, too_many(family, limit), now);
            }
        }
    }

    /// The session goes on without a family.
    fn disable(&mut self, family: Family) {
        self.disabled[family] = true;
        self.stale_until[family] = None;
        self.events.push_back(Event::FamilyDisabled(family));
        for key in self.rib_in.remove_all(family) {
            self.events.push_back(withdrawn(key));
        }
    }

    pub(super) fn handle_refresh(&mut self, message: &RouteRefreshMessage, now: Instant) {
        let Some((_, negotiated)) = self.established() else { return };
        let is_marked = negotiated.enhanced_route_refresh;
        let family = message.afi().and_then(|afi: Afi| {
            message.safi().and_then(|safi: Safi| Family::from_wire(afi, safi))
        });
        // What was not agreed on is ignored (RFC 2918, section 4).
        let Some(family) =
            family.filter(|family| negotiated.family(*family).is_some() && !self.disabled[*family])
        else {
            return;
        };
        match message.subtype() {
            RouteRefreshSubtype::Normal => {
                self.counters.refreshes_answered += 1;
                self.rib_out.refresh(family, is_marked);
                self.expect_progress_of_backlog(now);
            }
            RouteRefreshSubtype::BoRR if is_marked => {
                self.rib_in.mark_stale(family);
                self.is_refreshed[family] = true;
                self.stale_until[family] = Some(now + REFRESH_TIME);
            }
            RouteRefreshSubtype::EoRR
                if is_marked && std::mem::take(&mut self.is_refreshed[family]) =>
            {
                self.stale_until[family] = None;
                self.remove_stale(family);
                self.events.push_back(Event::Refreshed(family));
            }
            _ => {}
        }
    }

    /// The session is up: routes from before stay for a while if the neighbour says that it
    /// forwards on (RFC 4724, section 4.2).
    pub(super) fn begin_routes(&mut self, negotiated: &Negotiated, now: Instant) {
        self.disabled = PerFamily::default();
        self.is_refreshed = PerFamily::default();
        let stale_time = self.config.graceful_restart.map(|restart| restart.stale_time);
        for family in Family::ALL {
            let stays = negotiated.family(family).is_some()
                && negotiated.graceful_restart.is_some_and(|restart| restart.has_preserved(family));
            match stale_time {
                Some(time) if stays => self.stale_until[family] = Some(now + time),
                _ => {
                    self.stale_until[family] = None;
                    self.remove_stale(family);
                }
            }
            if let Some(terms) = negotiated.family(family) {
                self.rib_out.begin(family, terms.add_path_send, self.config.automatic_end_of_rib);
            }
        }
        self.expect_progress_of_backlog(now);
    }

    /// The session is over: routes of a neighbour that restarts become stale; all others are to go.
    pub(super) fn end_routes(
        &mut self,
        negotiated: &Negotiated,
        reason: &DownReason,
        now: Instant,
    ) {
        self.rib_out.end();
        self.is_refreshed = PerFamily::default();
        let restart = negotiated.graceful_restart.filter(|restart| match reason {
            DownReason::Closed | DownReason::Replaced => true,
            DownReason::Received(said) | DownReason::Sent(said) => {
                restart.by_notification && !is_hard(said)
            }
        });
        for family in Family::ALL {
            // What is stale from the restart before has had its time.
            let keeps = restart.filter(|restart| restart.keeps(family) && !self.disabled[family]);
            self.stale_until[family] = keeps.map(|restart| now + restart.time);
        }
    }

    /// After [`Session::end_routes`]: withdraws what does not stay.
    pub(super) fn withdraw_unkept(&mut self) {
        for family in Family::ALL {
            self.remove_stale(family);
            if self.stale_until[family].is_some() {
                self.rib_in.mark_stale(family);
            } else {
                for key in self.rib_in.remove_all(family) {
                    self.events.push_back(withdrawn(key));
                }
            }
        }
    }

    /// Routes that were kept for too long go.
    pub(super) fn drop_stale(&mut self, now: Instant) {
        for family in Family::ALL {
            if self.stale_until[family].is_some_and(|until| until <= now) {
                self.stale_until[family] = None;
                self.is_refreshed[family] = false;
                self.remove_stale(family);
            }
        }
    }

    fn remove_stale(&mut self, family: Family) {
        for key in self.rib_in.remove_stale(family) {
            self.events.push_back(withdrawn(key));
        }
    }

    /// What a route is found by: without add-path, there is one to a prefix.
    pub(super) fn path(&self, prefix: &Prefix, path: u32) -> u32 {
        let is_one_of_many =
            self.config.family(Family::of(prefix)).is_some_and(|family| family.add_path_send);
        if is_one_of_many { path } else { 0 }
    }
}

fn withdrawn((prefix, path): Key) -> Event {
    Event::Withdrawn { prefix, path }
}

/// RFC 8538: this end is for good.
fn is_hard(notification: &NotificationMessage) -> bool {
    notification.code == NotificationCode::Cease
        && notification.subcode == cease_subcode::HARD_RESET
}

/// RFC 4486, section 4: the family, and how many there may be.
fn too_many(family: Family, limit: u32) -> NotificationMessage {
    let mut data = BytesMut::with_capacity(7);
    data.put_u16(family.afi() as u16);
    data.put_u8(Safi::Unicast as u8);
    data.put_u32(limit);
    NotificationMessage::new(NotificationCode::Cease, cease_subcode::MAX_PREFIXES, data.freeze())
}

/// For how long a neighbour may take to say all again (RFC 7313 leaves it to us).
const REFRESH_TIME: Duration = Duration::from_secs(15 * 60);
