//! What an UPDATE message says, with the error handling of RFC 7606.
//!
//! 1. Families that the session does not carry are cut out before anything of them is read.
//! 2. The codec reads the rest, and gives each wrong attribute the class that RFC 7606 has for it.
//! 3. Prefixes that cannot be read end the session, or the family.
//! 4. Any other error that is not confined to one attribute
//!    makes the message's routes withdrawn ones.
//! 5. So do routes that must not be used: loops, leaks, a path that begins with somebody else.

use bytes::{Bytes, BytesMut};
use rustbgpd_wire::constants::{attr_flags, attr_type};
use rustbgpd_wire::notification::update_subcode;
use rustbgpd_wire::validate::{UpdateValidationOptions, validate_update_attributes_with_context};
use rustbgpd_wire::{
    AsPath, AsPathSegment, BgpRole, DecodeError, ErrorDisposition, NotificationCode,
    NotificationMessage, PathAttribute, Prefix, RevisedParsedUpdate, UpdateDecodeError,
    UpdateMessage,
};

use crate::attributes::{self, NextHop};
use crate::config::Config;
use crate::event::Counters;
use crate::family::{Family, PerFamily};
use crate::negotiation::Negotiated;
use crate::otc::{self, Verdict};
use crate::table::Key;

/// What is to be known to read a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) config: &'a Config,
    pub(crate) negotiated: &'a Negotiated,
    /// Families that are ignored although they were agreed on.
    pub(crate) disabled: PerFamily<bool>,
}

/// What a message says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Update {
    pub(crate) withdrawn: Vec<Key>,
    /// Canonical attributes, and the routes that have them.
    pub(crate) announced: Vec<(Vec<u8>, Vec<Key>)>,
    pub(crate) end_of_rib: Option<Family>,
}

/// Why a message cannot be used at all.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The session ends with this.
    Session(NotificationMessage),
    /// The prefixes of this family cannot be read, and the session goes on without it.
    Family(Family),
}

impl Context<'_> {
    fn carries(&self, family: Family) -> bool {
        self.negotiated.family(family).is_some() && !self.disabled[family]
    }

    /// Whether the session may go on without a family.
    fn may_disable(&self, family: Family) -> bool {
        let mut others =
            self.negotiated.families().filter(|other| *other != family && !self.disabled[*other]);
        self.config.disable_broken_family && self.carries(family) && others.next().is_some()
    }

    /// Reads a message. `counters` learn what was wrong with it.
    pub(crate) fn read(
        &self,
        mut message: UpdateMessage,
        counters: &mut Counters,
    ) -> Result<Update, Broken> {
        if message.path_attributes.is_empty()
            && message.nlri.is_empty()
            && message.withdrawn_routes.is_empty()
        {
            let end_of_rib = Some(Family::Ipv4).filter(|family| self.carries(*family));
            return Ok(Update { end_of_rib, ..Update::default() });
        }
        let reach = self.cut_foreign(&mut message, counters);
        if message.nlri.is_empty()
            && message.withdrawn_routes.is_empty()
            && reach == Reach::default()
        {
            // Foreign families alone, or attributes without any route.
            return Ok(Update::default());
        }
        let families: Vec<_> = Family::ALL
            .into_iter()
            .filter(|family| self.negotiated.receives_paths(*family))
            .map(Family::wire)
            .collect();
        let add_path = self.negotiated.receives_paths(Family::Ipv4);
        let four_octet_as = self.negotiated.four_octet_as;
        let parsed = message.parse_revised_observed_with_error_context(
            four_octet_as,
            false,
            add_path,
            &families,
        );
        match parsed {
            Ok((parsed, _)) => self.judge(parsed, !message.nlri.is_empty(), counters),
            Err(error) => Err(self.broken(&error, &reach)),
        }
    }

    /// Takes out what belongs to families that the session
    /// does not carry; says of which the rest speaks.
    fn cut_foreign(&self, message: &mut UpdateMessage, counters: &mut Counters) -> Reach {
        let mut is_foreign = false;
        let has_body = !message.nlri.is_empty() || !message.withdrawn_routes.is_empty();
        if has_body && !self.carries(Family::Ipv4) {
            is_foreign = true;
            message.nlri = Bytes::new();
            message.withdrawn_routes = Bytes::new();
        }
        let mut reach = Reach::default();
        let mut kept = BytesMut::new();
        let (mut at, mut copied) = (0, 0);
        while let Some(attribute) = RawAttribute::at(&message.path_attributes, at) {
            let end = at + attribute.length;
            if matches!(attribute.kind, attr_type::MP_REACH_NLRI | attr_type::MP_UNREACH_NLRI) {
                match attribute.family() {
                    // Too short to name a family: the codec refuses it.
                    None => reach.unknown = true,
                    Some(Some(family)) if self.carries(family) => reach.family = Some(family),
                    Some(_) => {
                        is_foreign = true;
                        kept.extend_from_slice(&message.path_attributes[copied..at]);
                        copied = end;
                    }
                }
            }
            at = end;
        }
        if copied > 0 {
            kept.extend_from_slice(&message.path_attributes[copied..]);
            message.path_attributes = kept.freeze();
        } else if at < message.path_attributes.len() {
            // What follows cannot be framed: the codec judges it.
            reach.unknown = true;
        }
        counters.unnegotiated_family += u64::from(is_foreign);
        reach
    }

    fn broken(&self, error: &UpdateDecodeError, reach: &Reach) -> Broken {
        let is_multi_protocol =
            matches!(error.type_code, Some(attr_type::MP_REACH_NLRI | attr_type::MP_UNREACH_NLRI));
        let family = match (&error.error, error.type_code) {
            (DecodeError::InvalidNetworkField { .. }, None) => Some(Family::Ipv4),
            _ if is_multi_protocol => reach.family,
            _ => None,
        };
        if let Some(family) = family.filter(|family| self.may_disable(*family)) {
            return Broken::Family(family);
        }
        let (code, mut subcode, data) = error.error.to_notification();
        let is_unreadable = matches!(
            error.error,
            DecodeError::MalformedField { .. } | DecodeError::InvalidNetworkField { .. }
        );
        if is_multi_protocol && is_unreadable {
            subcode = update_subcode::OPTIONAL_ATTRIBUTE_ERROR;
        }
        Broken::Session(NotificationMessage::new(code, subcode, data))
    }

    fn judge(
        &self,
        parsed: RevisedParsedUpdate,
        has_body_nlri: bool,
        counters: &mut Counters,
    ) -> Result<Update, Broken> {
        let wrong = parsed.malformed.iter().map(|wrong| wrong.disposition);
        let discarded =
            wrong.clone().filter(|class| *class == ErrorDisposition::AttributeDiscard).count();
        counters.attributes_discarded += discarded as u64;
        let routes = Routes::of(parsed);
        let has_nlri = has_body_nlri || routes.has_reach;
        let options = UpdateValidationOptions::default();
        let checked = validate_update_attributes_with_context(
            &routes.raw,
            has_nlri,
            has_body_nlri,
            true,
            options,
        );
        let unusable = routes
            .malformed
            .iter()
            .find(|wrong| wrong.disposition >= ErrorDisposition::TreatAsWithdraw);
        let error = match (unusable, checked) {
            (Some(wrong), _) => Some(wrong.error.to_notification()),
            (None, Err(error)) => Some((
                NotificationCode::UpdateMessage,
                error.error.subcode,
                error.error.data.into(),
            )),
            (None, Ok(())) => None,
        };
        let Some((code, subcode, data)) = error else { return Ok(self.accept(routes, counters)) };
        // RFC 7606, section 5.2: without a reachable prefix, those
        // that were meant may be lost with the error.
        if !has_nlri && routes.has_attributes {
            return Err(Broken::Session(NotificationMessage::new(code, subcode, data)));
        }
        counters.treated_as_withdraw += 1;
        Ok(routes.withdrawn_all())
    }

    /// Routes without an error: those that must not be used are withdrawn ones.
    fn accept(&self, mut routes: Routes, counters: &mut Counters) -> Update {
        if routes.announced.is_empty() {
            return routes.withdrawn_all();
        }
        let mut list = routes.list();
        if !self.is_usable(&list, counters) {
            return routes.withdrawn_all();
        }
        if let Some(role) = self.config.role {
            let mark = list.iter().find_map(PathAttribute::only_to_customer);
            match otc::ingress(role, self.config.remote_as, mark) {
                Verdict::Keep => {}
                Verdict::Mark(number) => list.push(PathAttribute::OnlyToCustomer(number)),
                Verdict::Leak => {
                    counters.leaks += 1;
                    return routes.withdrawn_all();
                }
            }
        }
        let mut update =
            Update { withdrawn: std::mem::take(&mut routes.withdrawn), ..Update::default() };
        let mut groups = routes.announced.into_iter().peekable();
        while let Some((next_hop, keys)) = groups.next() {
            // Most messages have one group: its attributes need not be copied.
            let list =
                if groups.peek().is_some() { list.clone() } else { std::mem::take(&mut list) };
            let mut canonical = Vec::with_capacity(USUAL_LENGTH);
            let written =
                next_hop.map(|next_hop| attributes::write(next_hop, list, &mut canonical));
            if let Some(Ok(())) = written {
                update.announced.push((canonical, keys));
            } else {
                // An IPv4 route with a next hop of IPv6, which nobody agreed on (RFC 8950).
                counters.treated_as_withdraw += 1;
                update.withdrawn.extend(keys);
            }
        }
        update
    }

    /// Whether a path may be used here: it is no loop, and begins with the neighbour.
    fn is_usable(&self, list: &[PathAttribute], counters: &mut Counters) -> bool {
        let path = list.iter().find_map(|attribute| match attribute {
            PathAttribute::AsPath(path) => Some(path),
            _ => None,
        });
        if path.is_some_and(|path| path.contains_asn(self.config.local_as)) {
            counters.loops += 1;
            return false;
        }
        let enforces =
            self.config.enforce_first_as && self.config.role != Some(BgpRole::RouteServerClient);
        if enforces && path.and_then(first_as) != Some(self.config.remote_as) {
            counters.wrong_first_as += 1;
            return false;
        }
        true
    }
}

/// Which families the multi-protocol attributes of a message speak of.
#[derive(Debug, Default, PartialEq, Eq)]
struct Reach {
    family: Option<Family>,
    unknown: bool,
}

/// An attribute as it lies in a message.
struct RawAttribute<'a> {
    kind: u8,
    value: &'a [u8],
    /// With its header.
    length: usize,
}

impl<'a> RawAttribute<'a> {
    /// The attribute that begins at `at`, if it is all there.
    fn at(bytes: &'a [u8], at: usize) -> Option<Self> {
        let [flags, kind, rest @ ..] = bytes.get(at..)? else { return None };
        let (header, length) = match rest {
            [high, low, ..] if flags & attr_flags::EXTENDED_LENGTH != 0 => {
                (4, usize::from(u16::from_be_bytes([*high, *low])))
            }
            [length, ..] if flags & attr_flags::EXTENDED_LENGTH == 0 => (3, usize::from(*length)),
            _ => return None,
        };
        let value = bytes.get(at + header..at + header + length)?;
        Some(Self { kind: *kind, value, length: header + length })
    }

    /// Of a multi-protocol attribute: its family, if it names one, and if that is one of ours.
    fn family(&self) -> Option<Option<Family>> {
        let [high, low, safi, ..] = self.value else { return None };
        Some(Family::from_raw(u16::from_be_bytes([*high, *low]), *safi))
    }
}

/// The routes of a message, by what happens to them.
struct Routes {
    withdrawn: Vec<Key>,
    /// A next hop (nothing if it is none that we can use) and its routes.
    announced: Vec<(Option<NextHop>, Vec<Key>)>,
    /// All attributes as they came.
    raw: Vec<PathAttribute>,
    malformed: Vec<rustbgpd_wire::MalformedAttribute>,
    has_reach: bool,
    /// Attributes beside the withdrawal of prefixes.
    has_attributes: bool,
    end_of_rib: Option<Family>,
}

impl Routes {
    fn of(parsed: RevisedParsedUpdate) -> Self {
        let RevisedParsedUpdate { update, malformed } = parsed;
        let mut withdrawn: Vec<Key> = update
            .withdrawn
            .iter()
            .map(|entry| (Prefix::V4(entry.prefix), entry.path_id))
            .collect();
        let mut announced = Vec::new();
        let mut has_reach = false;
        let mut end_of_rib = None;
        let mut next_hop = None;
        let mut has_attributes = !malformed.is_empty();
        for attribute in &update.attributes {
            match attribute {
                PathAttribute::NextHop(address) => next_hop = Some(NextHop::V4(*address)),
                PathAttribute::MpReachNlri(reach) => {
                    has_reach = true;
                    let keys =
                        reach.announced.iter().map(|entry| (entry.prefix, entry.path_id)).collect();
                    let hop = match (reach.next_hop, Family::from_wire(reach.afi, reach.safi)) {
                        (std::net::IpAddr::V4(address), Some(Family::Ipv4)) => {
                            Some(NextHop::V4(address))
                        }
                        (std::net::IpAddr::V6(address), Some(Family::Ipv6)) => {
                            Some(NextHop::V6(address, reach.link_local_next_hop))
                        }
                        _ => None,
                    };
                    announced.push((hop, keys));
                }
                PathAttribute::MpUnreachNlri(unreach) => {
                    withdrawn.extend(
                        unreach.withdrawn.iter().map(|entry| (entry.prefix, entry.path_id)),
                    );
                    let is_alone = update.attributes.len() == 1 && malformed.is_empty();
                    if withdrawn.is_empty() && is_alone && update.announced.is_empty() {
                        end_of_rib = Family::from_wire(unreach.afi, unreach.safi);
                    }
                }
                _ => {}
            }
            has_attributes |= attribute.type_code() != attr_type::MP_UNREACH_NLRI;
        }
        if !update.announced.is_empty() {
            let keys = update
                .announced
                .iter()
                .map(|entry| (Prefix::V4(entry.prefix), entry.path_id))
                .collect();
            announced.push((next_hop, keys));
        }
        let raw = update.attributes;
        Self { withdrawn, announced, raw, malformed, has_reach, has_attributes, end_of_rib }
    }

    /// The attributes that go with a route: without those that an external neighbour has no say in.
    fn list(&mut self) -> Vec<PathAttribute> {
        let mut list = std::mem::take(&mut self.raw);
        let internal = [attr_type::LOCAL_PREF, attr_type::ORIGINATOR_ID, attr_type::CLUSTER_LIST];
        list.retain(|attribute| !internal.contains(&attribute.type_code()));
        list
    }

    fn withdrawn_all(self) -> Update {
        let mut withdrawn = self.withdrawn;
        withdrawn.extend(self.announced.into_iter().flat_map(|(_, keys)| keys));
        Update { withdrawn, announced: Vec::new(), end_of_rib: self.end_of_rib }
    }
}

fn first_as(path: &AsPath) -> Option<u32> {
    match path.segments.first()? {
        AsPathSegment::AsSequence(numbers) => numbers.first().copied(),
        AsPathSegment::AsSet(_) => None,
    }
}

/// Bytes that the attributes of most routes fit in.
const USUAL_LENGTH: usize = 96;
