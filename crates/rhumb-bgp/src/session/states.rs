//! The state machine (RFC 4271, section 8), timers, and two connections at once (section 6.8).

use std::time::Instant;

use bytes::{BufMut, Bytes, BytesMut};
use rustbgpd_wire::notification::cease_subcode;
use rustbgpd_wire::{Message, NotificationCode, NotificationMessage, OpenMessage};

use super::{ConnectionId, Session, Side, State, Transmit};
use crate::config::Timers;
use crate::connection::{Connection, Phase};
use crate::event::{DownReason, Event};
use crate::jitter::Jitter;
use crate::negotiation;

/// The search for a connection.
#[derive(Debug, Default)]
pub(super) struct Attempt {
    is_started: bool,
    is_connecting: bool,
    /// When to connect, or to connect again.
    retry_at: Option<Instant>,
    /// Until then, nothing is tried and nothing taken.
    rest_until: Option<Instant>,
    /// Errors since a session last held.
    failures: u32,
    up_since: Option<Instant>,
}

impl Attempt {
    pub(super) fn stop(&mut self) {
        *self = Self::default();
    }

    pub(super) fn state(&self) -> State {
        match (self.is_started && self.rest_until.is_none(), self.is_connecting) {
            (false, _) => State::Idle,
            (true, false) => State::Active,
            (true, true) => State::Connect,
        }
    }

    pub(super) fn timeout(&self) -> Option<Instant> {
        self.rest_until.or(self.retry_at)
    }

    /// A connection is over, and there is none beside it.
    fn plan(&mut self, end: End, timers: &Timers, jitter: &mut Jitter, now: Instant) {
        let lasted = self.up_since.take().map(|since| now.saturating_duration_since(since));
        if lasted.is_some_and(|lasted| lasted >= timers.idle_hold_max) {
            self.failures = 0;
        }
        if !self.is_started {
            return;
        }
        let rest = match end {
            End::Peaceful => {
                self.retry_at = Some(now + jitter.apply(timers.idle_hold));
                return;
            }
            End::Error => {
                let doubled =
                    timers.idle_hold.saturating_mul(1 << self.failures.min(MAX_DOUBLINGS));
                self.failures += 1;
                doubled.min(timers.idle_hold_max)
            }
            End::TooMuch => timers.max_prefix_rest,
        };
        self.is_connecting = false;
        self.retry_at = None;
        self.rest_until = Some(now + jitter.apply(rest));
    }
}

/// How a connection ended, as far as the next one is concerned.
#[derive(Debug, Clone, Copy)]
enum End {
    Peaceful,
    Error,
    /// The neighbour announced more than it may.
    TooMuch,
}

impl Side {
    const fn other(self) -> Self {
        match self {
            Self::Outgoing => Self::Incoming,
            Self::Incoming => Self::Outgoing,
        }
    }
}

impl Session {
    pub(super) fn start_seeking(&mut self, now: Instant) {
        if !self.attempt.is_started {
            self.attempt = Attempt { is_started: true, retry_at: Some(now), ..Attempt::default() };
            self.seek(now);
        }
    }

    /// Rests and retries whose time has come.
    pub(super) fn seek(&mut self, now: Instant) {
        if self.attempt.rest_until.is_some_and(|until| until <= now) {
            self.attempt.rest_until = None;
            self.attempt.retry_at = Some(now);
        }
        let is_due =
            self.attempt.rest_until.is_none() && self.attempt.retry_at.is_some_and(|at| at <= now);
        if !is_due {
            return;
        }
        let is_alone = self.connections.iter().all(Option::is_none);
        self.attempt.retry_at = None;
        if !self.config.passive && is_alone {
            self.attempt.is_connecting = true;
            self.attempt.retry_at = Some(now + self.jitter.apply(self.config.timers.connect_retry));
            self.transmits.push_back(Transmit::Connect);
        }
    }

    pub(super) fn attempt_failed(&mut self, now: Instant) {
        if std::mem::take(&mut self.attempt.is_connecting) {
            let Timers { connect_retry, connect_again, .. } = self.config.timers;
            self.attempt.retry_at = Some(now + self.jitter.apply(connect_retry.min(connect_again)));
        }
    }

    /// A connection is there: OPEN goes out, unless it is refused.
    pub(super) fn admit(&mut self, side: Side, now: Instant) -> Option<ConnectionId> {
        let is_wanted = match side {
            Side::Outgoing => std::mem::take(&mut self.attempt.is_connecting),
            Side::Incoming => self.attempt.is_started && self.attempt.rest_until.is_none(),
        };
        if !is_wanted || !self.make_room(side, now) {
            self.counters.refused_connections += 1;
            return None;
        }
        if side == Side::Outgoing {
            self.attempt.retry_at = None;
        }
        let id = ConnectionId(self.next_connection);
        self.next_connection += 1;
        self.connections[side as usize] = Some(Connection::new(id, now));
        let open = negotiation::open(&self.config, !self.has_been_up);
        self.send(side, &Message::Open(open), now);
        Some(id)
    }

    /// Ends what a new connection replaces. False if it replaces nothing and there is no room.
    fn make_room(&mut self, side: Side, now: Instant) -> bool {
        if let Some((id, negotiated)) = self.established() {
            // RFC 4724, section 5: who can restart gracefully has restarted.
            let has_restarted = side == Side::Incoming && negotiated.graceful_restart.is_some();
            if has_restarted && let Some(old) = self.side_of(id) {
                self.end(old, DownReason::Replaced, now);
            }
            return has_restarted;
        }
        if self.connection(side).is_some() {
            self.counters.collisions += 1;
            self.fail(side, collision(), now);
        }
        true
    }

    pub(super) fn handle_message(&mut self, side: Side, message: Message, now: Instant) {
        let Some(open) = self.connection(side) else { return };
        let phase = open.phase;
        if phase != Phase::OpenSent {
            open.touch(now);
        }
        match (phase, message) {
            (_, Message::Notification(notification)) => {
                self.end(side, DownReason::Received(notification), now);
            }
            (Phase::OpenSent, Message::Open(open)) => self.handle_open(side, &open, now),
            (Phase::OpenConfirm, Message::Keepalive) => self.establish(side, now),
            (Phase::Established, Message::Keepalive) => {}
            (Phase::Established, Message::Update(update)) => self.handle_update(side, &update, now),
            (Phase::Established, Message::RouteRefresh(refresh)) => {
                self.handle_refresh(&refresh, now);
            }
            (_, _) => {
                // RFC 6608: the subcode names the state.
                let notification = NotificationMessage::new(
                    NotificationCode::FsmError,
                    phase as u8 + 1,
                    Bytes::new(),
                );
                self.fail(side, notification, now);
            }
        }
    }

    fn handle_open(&mut self, side: Side, open: &OpenMessage, now: Instant) {
        let negotiated = match negotiation::agree(&self.config, open) {
            Ok(negotiated) => negotiated,
            Err(notification) => return self.fail(side, notification, now),
        };
        if let Some(loser) = self.collision(side, open) {
            self.counters.collisions += 1;
            self.fail(loser, collision(), now);
            if loser == side {
                return;
            }
        }
        let Some(open) = self.connections[side as usize].as_mut() else { return };
        open.negotiated = Some(Box::new(negotiated));
        open.phase = Phase::OpenConfirm;
        open.touch(now);
        open.keepalive_at =
            open.keepalive_interval().map(|interval| now + self.jitter.apply(interval));
        self.send(side, &Message::Keepalive, now);
    }

    /// Of two connections, the one that has to go (RFC 4271, section 6.8; RFC 6286, section 2.3).
    fn collision(&self, side: Side, open: &OpenMessage) -> Option<Side> {
        let other = self.connections[side.other() as usize].as_ref()?;
        match other.phase {
            // Its OPEN has not come: it is looked at when it does.
            Phase::OpenSent => None,
            Phase::Established => Some(side),
            Phase::OpenConfirm => {
                let ours = (self.config.local_id, self.config.local_as);
                let theirs = (open.bgp_identifier, self.config.remote_as);
                Some(if ours < theirs { Side::Outgoing } else { Side::Incoming })
            }
        }
    }

    fn establish(&mut self, side: Side, now: Instant) {
        if self.connection(side.other()).is_some() {
            self.counters.collisions += 1;
            self.fail(side.other(), collision(), now);
        }
        let Some(open) = self.connections[side as usize].as_mut() else { return };
        let Some(negotiated) = open.negotiated.clone() else { return };
        open.phase = Phase::Established;
        self.attempt.is_connecting = false;
        self.attempt.retry_at = None;
        self.attempt.up_since = Some(now);
        self.counters.established += 1;
        self.has_been_up = true;
        self.events.push_back(Event::Up(negotiated.clone()));
        self.begin_routes(&negotiated, now);
    }

    /// Ends a connection with a NOTIFICATION of ours.
    pub(super) fn fail(&mut self, side: Side, notification: NotificationMessage, now: Instant) {
        let Some(open) = self.connection(side) else { return };
        let id = open.id;
        let is_hard = open.negotiated.as_ref().is_some_and(|negotiated| {
            open.phase == Phase::Established
                && negotiated.graceful_restart.is_some_and(|restart| restart.by_notification)
        });
        let notification = if is_hard { hardened(notification) } else { notification };
        self.send(side, &Message::Notification(notification.clone()), now);
        self.transmits.push_back(Transmit::Close(id));
        self.end(side, DownReason::Sent(notification), now);
    }

    /// A connection is over.
    pub(super) fn end(&mut self, side: Side, reason: DownReason, now: Instant) {
        let Some(open) = self.connections[side as usize].take() else { return };
        if !matches!(reason, DownReason::Sent(_)) {
            let is_of_it =
                |transmit: &Transmit| matches!(transmit, Transmit::Send(id, _) if *id == open.id);
            self.transmits.retain(|transmit| !is_of_it(transmit));
        }
        if matches!(reason, DownReason::Received(_) | DownReason::Replaced) {
            self.transmits.push_back(Transmit::Close(open.id));
        }
        let end = ending(open.phase, &reason);
        if open.phase == Phase::Established
            && let Some(negotiated) = &open.negotiated
        {
            self.end_routes(negotiated, &reason, now);
            self.events.push_back(Event::Down(reason));
            self.withdraw_unkept();
        }
        if self.connections.iter().all(Option::is_none) {
            self.attempt.plan(end, &self.config.timers, &mut self.jitter, now);
        }
    }

    pub(super) fn handle_connection_timeout(&mut self, side: Side, now: Instant) {
        let Some(open) = self.connection(side) else { return };
        let is_due = |timer: Option<Instant>| timer.is_some_and(|at| at <= now);
        if is_due(open.hold_at) {
            let notification =
                NotificationMessage::new(NotificationCode::HoldTimerExpired, 0, Bytes::new());
            return self.fail(side, notification, now);
        }
        if is_due(open.send_hold_at) {
            let notification =
                NotificationMessage::new(NotificationCode::SendHoldTimerExpired, 0, Bytes::new());
            return self.fail(side, notification, now);
        }
        if is_due(open.keepalive_at) {
            let id = open.id;
            self.postpone_keepalive(id, now);
            self.send(side, &Message::Keepalive, now);
        }
    }

    /// Something is sent: the next KEEPALIVE has time.
    pub(super) fn postpone_keepalive(&mut self, id: ConnectionId, now: Instant) {
        if let Some(open) = self.connections.iter_mut().flatten().find(|open| open.id == id) {
            open.keepalive_at =
                open.keepalive_interval().map(|interval| now + self.jitter.apply(interval));
        }
    }

    /// By when something that waits has to be taken (RFC 9687:
    /// twice the hold time, and 8 minutes at least).
    pub(super) fn send_deadline(&self, side: Side, now: Instant) -> Option<Instant> {
        let negotiated = self.connections[side as usize].as_ref()?.negotiated.as_ref()?;
        let hold = Some(negotiated.hold_time).filter(|hold| !hold.is_zero())?;
        Some(now + (2 * hold).max(MIN_SEND_HOLD))
    }

    /// Something was taken: what remains has its time anew.
    pub(super) fn expect_progress(&mut self, now: Instant) {
        for side in [Side::Outgoing, Side::Incoming] {
            let deadline = self.send_deadline(side, now);
            if let Some(open) = self.connection(side) {
                open.send_hold_at = deadline;
            }
        }
    }

    /// Routes may wait now.
    pub(super) fn expect_progress_of_backlog(&mut self, now: Instant) {
        let Some(side) = self.established().and_then(|(id, _)| self.side_of(id)) else { return };
        let deadline = self.send_deadline(side, now).filter(|_| self.rib_out.has_backlog());
        if let Some(open) = self.connection(side) {
            open.send_hold_at = open.send_hold_at.or(deadline);
        }
    }
}

fn ending(phase: Phase, reason: &DownReason) -> End {
    match reason {
        DownReason::Sent(notification) if is_max_prefixes(notification) => End::TooMuch,
        DownReason::Sent(notification) | DownReason::Received(notification) => {
            if notification.code == NotificationCode::Cease { End::Peaceful } else { End::Error }
        }
        DownReason::Closed if phase != Phase::Established => End::Error,
        DownReason::Closed | DownReason::Replaced => End::Peaceful,
    }
}

fn is_max_prefixes(notification: &NotificationMessage) -> bool {
    let code = notification.code.as_u8();
    let (subcode, data) = (notification.subcode, &notification.data);
    let inner = (code == CEASE && subcode == cease_subcode::HARD_RESET)
        .then(|| data.get(1).copied())
        .flatten();
    code == CEASE && inner.unwrap_or(subcode) == cease_subcode::MAX_PREFIXES
}

/// Between speakers that restart gracefully on any other NOTIFICATION: this
/// one is meant for good (RFC 8538, section 3.1).
fn hardened(notification: NotificationMessage) -> NotificationMessage {
    let for_good = [
        cease_subcode::MAX_PREFIXES,
        cease_subcode::ADMINISTRATIVE_SHUTDOWN,
        cease_subcode::PEER_DECONFIGURED,
    ];
    if notification.code != NotificationCode::Cease || !for_good.contains(&notification.subcode) {
        return notification;
    }
    let mut data = BytesMut::with_capacity(2 + notification.data.len());
    data.put_slice(&[CEASE, notification.subcode]);
    data.put_slice(&notification.data);
    NotificationMessage::new(NotificationCode::Cease, cease_subcode::HARD_RESET, data.freeze())
}

fn collision() -> NotificationMessage {
    let subcode = cease_subcode::CONNECTION_COLLISION_RESOLUTION;
    NotificationMessage::new(NotificationCode::Cease, subcode, Bytes::new())
}

const CEASE: u8 = 6;
/// Rests double up to a bound long before.
const MAX_DOUBLINGS: u32 = 16;
/// RFC 9687, section 6.
const MIN_SEND_HOLD: std::time::Duration = std::time::Duration::from_secs(8 * 60);
