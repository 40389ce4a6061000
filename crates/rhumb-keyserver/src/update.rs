//! Revocations as DNS UPDATE (RFC 2136): what a record says, by its name.
//!
//! | record | says |
//! |---|---|
//! | `42.revoked.ZONE TXT "17"` | principal 42 is revoked, by serial 17 |
//! | `7.42.revoked.ZONE TXT "17"` | what 42 delegated under id 7 is revoked |
//! | `42.restored.ZONE`, `7.42.restored.ZONE` | it is not, any more |
//!
//! All records of a message have one serial, and are taken together or not
//! at all. Waypoints are told in the same form.

use domain::base::iana::{Class, Rcode, Rtype};
use domain::base::name::{Label, ToName};
use domain::base::{Message, Name};
use domain::rdata::Txt;
use rhumb_capability::{DelegationId, Principal};

use crate::revocation::{Action, MAX_BATCH, Subject};

/// What an update asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// The serial of all its records.
    pub serial: u32,
    /// At most [`MAX_BATCH`].
    pub changes: Vec<(Action, Subject)>,
}

impl Update {
    /// Reads a message of opcode UPDATE for the zone `apex`.
    ///
    /// # Errors
    /// The rcode to answer with.
    pub fn parse(message: &Message<&[u8]>, apex: &Name<Vec<u8>>) -> Result<Self, Rcode> {
        let malformed = |_| Rcode::FORMERR;
        let zone = message.sole_question().map_err(malformed)?;
        if zone.qtype() != Rtype::SOA {
            return Err(Rcode::FORMERR);
        }
        if zone.qclass() != Class::IN || !zone.qname().name_eq(apex) {
            return Err(Rcode::NOTAUTH);
        }
        // Serials are the only precondition there is.
        if message.header_counts().prcount() > 0 {
            return Err(Rcode::REFUSED);
        }
        let mut serial = None;
        let mut changes: Vec<(Action, Subject)> = Vec::new();
        for record in message.update().map_err(malformed)? {
            let record = record.map_err(malformed)?;
            if !record.owner().ends_with(apex) {
                return Err(Rcode::NOTZONE);
            }
            let owner: Name<Vec<u8>> = record.owner().to_name();
            let change = parse_owner(&owner, apex).ok_or(Rcode::REFUSED)?;
            if record.class() != Class::IN || record.rtype() != Rtype::TXT {
                return Err(Rcode::REFUSED);
            }
            let text = record.to_record::<Txt<_>>().map_err(malformed)?.ok_or(Rcode::FORMERR)?;
            let its_serial = parse_serial(text.data()).ok_or(Rcode::REFUSED)?;
            let is_first = changes.iter().all(|(_, subject)| *subject != change.1);
            if *serial.get_or_insert(its_serial) != its_serial || !is_first {
                return Err(Rcode::REFUSED);
            }
            if changes.len() == MAX_BATCH {
                return Err(Rcode::REFUSED);
            }
            changes.push(change);
        }
        Ok(Self { serial: serial.ok_or(Rcode::REFUSED)?, changes })
    }
}

/// What a record's owner says.
pub(crate) fn parse_owner(
    owner: &Name<Vec<u8>>,
    apex: &Name<Vec<u8>>,
) -> Option<(Action, Subject)> {
    let own = owner.label_count().checked_sub(apex.label_count())?;
    if !owner.ends_with(apex) {
        return None;
    }
    let labels: Vec<&Label> = owner.iter().take(own).collect();
    let (id, principal, verb) = match labels[..] {
        [principal, verb] => (None, principal, verb),
        [id, principal, verb] => (Some(id), principal, verb),
        _ => return None,
    };
    let action = match () {
        () if verb.as_ref().eq_ignore_ascii_case(REVOKED.as_bytes()) => Action::Revoke,
        () if verb.as_ref().eq_ignore_ascii_case(RESTORED.as_bytes()) => Action::Restore,
        () => return None,
    };
    let principal = Principal(parse_number(principal.as_ref())?);
    let delegation = match id {
        Some(id) => Some(DelegationId::new(parse_number(id.as_ref())?)?),
        None => None,
    };
    Some((action, Subject { principal, delegation }))
}

/// The name of a change, without the zone.
pub(crate) fn owner_text(action: Action, subject: Subject) -> String {
    let verb = match action {
        Action::Revoke => REVOKED,
        Action::Restore => RESTORED,
    };
    match subject.delegation {
        Some(id) => format!("{}.{}.{verb}", id.as_u32(), subject.principal.0),
        None => format!("{}.{verb}", subject.principal.0),
    }
}

/// One string that is a number and not zero.
pub(crate) fn parse_serial<O: AsRef<[u8]>>(text: &Txt<O>) -> Option<u32> {
    let mut strings = text.iter();
    let serial = parse_number(strings.next()?)?;
    (strings.next().is_none() && serial > 0).then_some(serial)
}

/// A decimal number in its only form: no sign, no zero in front.
pub(crate) fn parse_number(digits: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(digits).ok()?;
    let number: u32 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

pub(crate) const REVOKED: &str = "revoked";
pub(crate) const RESTORED: &str = "restored";
