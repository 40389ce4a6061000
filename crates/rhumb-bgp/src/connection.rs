//! One connection to a neighbour: messages out of its bytes, and its timers (RFC 4271, section 8).

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use rustbgpd_wire::constants::{
    MAX_MESSAGE_LEN, MIN_NOTIFICATION_LEN, MIN_OPEN_LEN, MIN_UPDATE_LEN, message_type,
};
use rustbgpd_wire::notification::{header_subcode, route_refresh_subcode};
use rustbgpd_wire::{
    Message, NotificationCode, NotificationMessage, decode_message, peek_message_length,
};

use crate::negotiation::Negotiated;

/// A connection to the neighbour, as long as it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub(crate) u64);

/// A connection whose transport is up.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) id: ConnectionId,
    pub(crate) phase: Phase,
    /// Known from the neighbour's OPEN message on.
    pub(crate) negotiated: Option<Box<Negotiated>>,
    /// When the neighbour has been silent for too long.
    pub(crate) hold_at: Option<Instant>,
    /// When it hears of us next.
    pub(crate) keepalive_at: Option<Instant>,
    /// When something has waited for too long to be taken (RFC 9687).
    pub(crate) send_hold_at: Option<Instant>,
    /// At most one message that is not all there yet.
    inbound: BytesMut,
}

/// How far a session has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    OpenSent,
    OpenConfirm,
    Established,
}

impl Connection {
    pub(crate) fn new(id: ConnectionId, now: Instant) -> Self {
        Self {
            id,
            phase: Phase::OpenSent,
            negotiated: None,
            hold_at: Some(now + OPEN_HOLD),
            keepalive_at: None,
            send_hold_at: None,
            inbound: BytesMut::new(),
        }
    }

    pub(crate) fn receive(&mut self, input: &[u8]) {
        self.inbound.extend_from_slice(input);
    }

    /// The next whole message.
    ///
    /// # Errors
    ///
    /// The NOTIFICATION that ends the connection (RFC 4271, section 6.1).
    pub(crate) fn next_message(&mut self) -> Result<Option<Message>, NotificationMessage> {
        let limit =
            self.negotiated.as_ref().map_or(MAX_MESSAGE_LEN, |negotiated| negotiated.max_message());
        let length = match peek_message_length(&self.inbound, limit) {
            Ok(None) => return Ok(None),
            Ok(Some(length)) => length,
            Err(error) => {
                let (code, subcode, data) = error.to_notification();
                return Err(NotificationMessage::new(code, subcode, data));
            }
        };
        let kind = self.inbound[KIND_AT];
        let shortest = match kind {
            message_type::OPEN => MIN_OPEN_LEN,
            message_type::UPDATE => MIN_UPDATE_LEN,
            message_type::NOTIFICATION => MIN_NOTIFICATION_LEN,
            _ => 0,
        };
        if length < shortest || (kind == message_type::KEEPALIVE && length != KEEPALIVE_LENGTH) {
            let data = Bytes::copy_from_slice(&length.to_be_bytes());
            let subcode = header_subcode::BAD_MESSAGE_LENGTH;
            return Err(NotificationMessage::new(NotificationCode::MessageHeader, subcode, data));
        }
        if self.inbound.len() < usize::from(length) {
            return Ok(None);
        }
        let mut bytes = self.inbound.split_to(length.into()).freeze();
        let whole = bytes.clone();
        decode_message(&mut bytes, limit).map(Some).map_err(|error| {
            if kind == message_type::ROUTE_REFRESH {
                let subcode = route_refresh_subcode::INVALID_MESSAGE_LENGTH;
                return NotificationMessage::new(
                    NotificationCode::RouteRefreshMessage,
                    subcode,
                    whole,
                );
            }
            let (code, subcode, data) = error.to_notification();
            NotificationMessage::new(code, subcode, data)
        })
    }

    /// Something came: the neighbour lives.
    pub(crate) fn touch(&mut self, now: Instant) {
        if let Some(negotiated) = &self.negotiated {
            self.hold_at = not_zero(negotiated.hold_time).map(|hold| now + hold);
        }
    }

    /// A third of the hold time (RFC 4271, section 10).
    pub(crate) fn keepalive_interval(&self) -> Option<Duration> {
        not_zero(self.negotiated.as_ref()?.hold_time).map(|hold| hold / 3)
    }

    pub(crate) fn timeout(&self) -> Option<Instant> {
        [self.hold_at, self.keepalive_at, self.send_hold_at].into_iter().flatten().min()
    }
}

fn not_zero(time: Duration) -> Option<Duration> {
    Some(time).filter(|time| !time.is_zero())
}

/// How long the neighbour's OPEN message may take (RFC
/// 4271, section 8.2.2: "a large value", 4 minutes).
const OPEN_HOLD: Duration = Duration::from_secs(240);
const KIND_AT: usize = 18;
const KEEPALIVE_LENGTH: u16 = 19;
