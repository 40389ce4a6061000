//! Adj-RIB-Out: what the neighbour shall have (RFC 4271, section 3.2), and what it lacks of it yet.
//!
//! UPDATE messages are made when there is room to send them, so what changes
//! meanwhile costs nothing: of each route the last word is sent. Routes with equal
//! attributes go together, as many as a message holds.

use std::collections::{HashMap, VecDeque};

use rustbgpd_wire::Prefix;
use rustbgpd_wire::attribute::encode_path_attributes;
use rustbgpd_wire::constants::{HEADER_LEN, MARKER, attr_flags, attr_type, message_type};

use crate::attributes::{Attributes, NextHop};
use crate::family::{Family, PerFamily};
use crate::intern::Interner;
use crate::table::{Key, Table};

/// The routes for a neighbour.
#[derive(Debug, Default)]
pub(crate) struct RibOut {
    routes: Table<Route>,
    attributes: Interner,
    /// What the session carries; nothing is queued for other families.
    backlog: PerFamily<Option<Backlog>>,
}

#[derive(Debug)]
struct Route {
    attributes: Attributes,
    is_queued: bool,
    /// The neighbour has some route with this key, perhaps with other attributes.
    is_known: bool,
}

/// What the neighbour lacks of one family.
#[derive(Debug, Default)]
struct Backlog {
    /// With add-path; otherwise the neighbour gets path 0 of each prefix.
    all_paths: bool,
    withdrawals: Vec<Key>,
    /// Routes by their attributes, which are told apart by
    /// their identity; a route may have changed since.
    groups: HashMap<usize, Vec<Key>>,
    order: VecDeque<Attributes>,
    /// When all is sent, say so.
    end_of_rib: bool,
    refresh: Refresh,
    /// Another request came during the refresh: however many, they cost one more.
    refresh_again: bool,
    /// The neighbour is told where a refresh begins and ends (RFC 7313).
    marks_refresh: bool,
}

/// How far an answer to "say all again" is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Refresh {
    #[default]
    None,
    Asked,
    Running,
}

/// What is to be known to write messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Format {
    pub(crate) max_message: u16,
    pub(crate) four_octet_as: bool,
    pub(crate) add_path: bool,
}

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Update(Vec<u8>),
    EndOfRib(Vec<u8>),
    /// What follows is all (RFC 7313).
    BeginOfRefresh,
    /// That was all.
    EndOfRefresh,
    /// A route whose attributes fit no message stays here.
    TooLong,
}

impl RibOut {
    /// The shared attributes with these bytes, or those equal to `given`.
    pub(crate) fn intern(&mut self, canonical: Option<&[u8]>, given: &Attributes) -> Attributes {
        match canonical {
            Some(bytes) => self.attributes.intern(bytes),
            None => self.attributes.adopt(given),
        }
    }

    /// From now on the neighbour shall have this route; the attributes are interned here.
    pub(crate) fn announce(&mut self, key: Key, attributes: Attributes) {
        let backlog =
            self.backlog[Family::of(&key.0)].as_mut().filter(|backlog| backlog.takes(key));
        if let Some(route) = self.routes.get_mut(key) {
            if route.attributes.is_same(&attributes) {
                return;
            }
            route.attributes = attributes.clone();
            route.is_queued = backlog.is_some();
        } else {
            let route = Route {
                attributes: attributes.clone(),
                is_queued: backlog.is_some(),
                is_known: false,
            };
            self.routes.insert(key, route);
        }
        if let Some(backlog) = backlog {
            backlog.queue(key, attributes);
        }
    }

    /// From now on the neighbour shall not have this route. Whether it was here.
    pub(crate) fn withdraw(&mut self, key: Key) -> bool {
        let Some(route) = self.routes.remove(key) else { return false };
        if let Some(backlog) = &mut self.backlog[Family::of(&key.0)]
            && route.is_known
        {
            backlog.withdrawals.push(key);
        }
        true
    }

    /// A session is up that carries this family: the neighbour has nothing yet.
    pub(crate) fn begin(&mut self, family: Family, all_paths: bool, end_of_rib: bool) {
        for (_, route) in self.routes.iter_mut(family) {
            route.is_known = false;
            route.is_queued = false;
        }
        self.backlog[family] = Some(Backlog { all_paths, end_of_rib, ..Backlog::default() });
        self.queue_all(family);
    }

    /// The session is over.
    pub(crate) fn end(&mut self) {
        self.backlog = PerFamily::default();
    }

    /// The neighbour asks for everything again. It gets it as fast
    /// as it takes it, whatever it asks meanwhile.
    pub(crate) fn refresh(&mut self, family: Family, marks: bool) {
        if let Some(backlog) = &mut self.backlog[family] {
            backlog.marks_refresh = marks;
            backlog.refresh_again |= backlog.refresh == Refresh::Running;
            if backlog.refresh == Refresh::None {
                backlog.refresh = Refresh::Asked;
            }
        }
    }

    /// Once all is sent, say so.
    pub(crate) fn end_of_rib(&mut self, family: Family) {
        if let Some(backlog) = &mut self.backlog[family] {
            backlog.end_of_rib = true;
        }
    }

    pub(crate) fn len(&self, family: Family) -> usize {
        self.routes.len(family)
    }

    pub(crate) fn iter(&self, family: Family) -> impl Iterator<Item = (Key, &Attributes)> {
        self.routes.iter(family).map(|(key, route)| (key, &route.attributes))
    }

    pub(crate) fn has_backlog(&self) -> bool {
        Family::ALL
            .into_iter()
            .any(|family| self.backlog[family].as_ref().is_some_and(|backlog| !backlog.is_empty()))
    }

    /// The next message for the neighbour: at most one message's worth of work.
    pub(crate) fn next(&mut self, family: Family, format: Format) -> Option<Next> {
        let backlog = self.backlog[family].as_mut()?;
        if backlog.refresh == Refresh::Asked {
            backlog.refresh = Refresh::Running;
            backlog.groups.clear();
            backlog.order.clear();
            let marks = backlog.marks_refresh;
            self.queue_all(family);
            if marks {
                return Some(Next::BeginOfRefresh);
            }
        }
        let backlog = self.backlog[family].as_mut()?;
        if !backlog.withdrawals.is_empty()
            && let Some(message) = withdrawal(family, backlog, &mut self.routes, format)
        {
            return Some(Next::Update(message));
        }
        while let Some(attributes) = backlog.order.front().cloned() {
            let keys = backlog.groups.get_mut(&attributes.identity());
            let keys = keys.expect("invariant: what is in the order has a group");
            let message = announcement(family, &attributes, keys, &mut self.routes, format);
            if keys.is_empty() {
                backlog.groups.remove(&attributes.identity());
                backlog.order.pop_front();
            }
            match message {
                Packed::Message(message) => return Some(Next::Update(message)),
                Packed::Nothing => {}
                Packed::TooLong(known) => {
                    backlog.withdrawals.extend(known);
                    return Some(Next::TooLong);
                }
            }
        }
        if backlog.refresh == Refresh::Running {
            let is_asked = std::mem::take(&mut backlog.refresh_again);
            backlog.refresh = if is_asked { Refresh::Asked } else { Refresh::None };
            if backlog.marks_refresh {
                return Some(Next::EndOfRefresh);
            }
        }
        if std::mem::take(&mut backlog.end_of_rib) {
            return Some(Next::EndOfRib(end_of_rib(family)));
        }
        None
    }

    fn queue_all(&mut self, family: Family) {
        let Some(backlog) = &mut self.backlog[family] else { return };
        let all_paths = backlog.all_paths;
        for (key, route) in self.routes.iter_mut(family).filter(|(key, _)| all_paths || key.1 == 0)
        {
            route.is_queued = true;
            backlog.queue(key, route.attributes.clone());
        }
    }
}

impl Backlog {
    fn takes(&self, (_, path): Key) -> bool {
        self.all_paths || path == 0
    }

    fn queue(&mut self, key: Key, attributes: Attributes) {
        let identity = attributes.identity();
        let group = self.groups.entry(identity).or_insert_with(|| {
            self.order.push_back(attributes);
            Vec::new()
        });
        group.push(key);
    }

    fn is_empty(&self) -> bool {
        self.withdrawals.is_empty()
            && self.order.is_empty()
            && !self.end_of_rib
            && self.refresh == Refresh::None
    }
}

enum Packed {
    Message(Vec<u8>),
    /// All of these routes have changed meanwhile.
    Nothing,
    /// No message holds these attributes; the neighbour still has these routes with others.
    TooLong(Vec<Key>),
}

/// A message with as many of `keys`, from the end, as it holds and as still have these attributes.
fn announcement(
    family: Family,
    attributes: &Attributes,
    keys: &mut Vec<Key>,
    routes: &mut Table<Route>,
    format: Format,
) -> Packed {
    let limit = usize::from(format.max_message);
    let mut message = header();
    message.extend([0, 0]);
    let attributes_at = message.len();
    message.extend([0, 0]);
    let reach_at = message.len();
    if family == Family::Ipv6 {
        message.extend([
            attr_flags::OPTIONAL | attr_flags::EXTENDED_LENGTH,
            attr_type::MP_REACH_NLRI,
            0,
            0,
        ]);
        message.extend([0, family.afi() as u8, 1]);
        attributes.next_hop().write(&mut message);
        message.push(0);
    }
    let tail = path_attributes(family, attributes, format.four_octet_as);
    let Some(tail) = tail.filter(|tail| message.len() + tail.len() + MAX_NLRI <= limit) else {
        return Packed::TooLong(give_up(attributes, keys, routes));
    };
    if family == Family::Ipv4 {
        message.extend(&tail);
        set_length(&mut message, attributes_at);
    }
    let mut is_empty = true;
    let room = if family == Family::Ipv4 { limit } else { limit - tail.len() };
    while message.len() + MAX_NLRI <= room
        && let Some(key) = keys.pop()
    {
        if let Some(route) = routes.get_mut(key)
            && route.is_queued
            && route.attributes.is_same(attributes)
        {
            route.is_queued = false;
            route.is_known = true;
            is_empty = false;
            write_nlri(key, format.add_path, &mut message);
        }
    }
    if is_empty {
        return Packed::Nothing;
    }
    if family == Family::Ipv6 {
        set_length(&mut message, reach_at + 2);
        message.extend(&tail);
        set_length(&mut message, attributes_at);
    }
    Packed::Message(finish(message))
}

/// Takes a group out of what is to be sent. Returns the routes that the neighbour still has.
fn give_up(attributes: &Attributes, keys: &mut Vec<Key>, routes: &mut Table<Route>) -> Vec<Key> {
    let mut known = Vec::new();
    for key in keys.drain(..) {
        if let Some(route) = routes.get_mut(key)
            && route.is_queued
            && route.attributes.is_same(attributes)
        {
            route.is_queued = false;
            if std::mem::take(&mut route.is_known) {
                known.push(key);
            }
        }
    }
    known
}

/// A message that takes back as many routes as it holds.
fn withdrawal(
    family: Family,
    backlog: &mut Backlog,
    routes: &mut Table<Route>,
    format: Format,
) -> Option<Vec<u8>> {
    let mut message = header();
    let withdrawn_at = message.len();
    message.extend([0, 0]);
    if family == Family::Ipv6 {
        message.extend([
            0,
            0,
            attr_flags::OPTIONAL | attr_flags::EXTENDED_LENGTH,
            attr_type::MP_UNREACH_NLRI,
            0,
            0,
        ]);
        message.extend([0, family.afi() as u8, 1]);
    }
    // IPv4: the length of the attributes comes behind.
    let room = usize::from(format.max_message) - 2;
    let mut is_empty = true;
    while message.len() + MAX_NLRI <= room
        && let Some(key) = backlog.withdrawals.pop()
    {
        // It was announced again meanwhile: that replaces what the neighbour has.
        if let Some(route) = routes.get_mut(key)
            && route.is_queued
        {
            route.is_known = true;
            continue;
        }
        is_empty = false;
        write_nlri(key, format.add_path, &mut message);
    }
    if is_empty {
        return None;
    }
    if family == Family::Ipv6 {
        set_length(&mut message, withdrawn_at + 6);
        set_length(&mut message, withdrawn_at + 2);
    } else {
        set_length(&mut message, withdrawn_at);
        message.extend([0, 0]);
    }
    Some(finish(message))
}

/// RFC 4724, section 2: an empty message, or an empty withdrawal of the family.
fn end_of_rib(family: Family) -> Vec<u8> {
    let mut message = header();
    match family {
        Family::Ipv4 => message.extend([0, 0, 0, 0]),
        Family::Ipv6 => {
            message.extend([
                0,
                0,
                0,
                6,
                attr_flags::OPTIONAL,
                attr_type::MP_UNREACH_NLRI,
                3,
                0,
                family.afi() as u8,
                1,
            ]);
        }
    }
    finish(message)
}

/// All attributes as this neighbour reads them: of IPv4 with the next hop among them, by ascending
/// type. Nothing if they cannot be written for it.
fn path_attributes(
    family: Family,
    attributes: &Attributes,
    four_octet_as: bool,
) -> Option<Vec<u8>> {
    let mut narrowed = Vec::new();
    let wire = if four_octet_as {
        attributes.wire()
    } else {
        // For a neighbour that knows numbers of two octets alone (RFC 6793).
        encode_path_attributes(&attributes.list(), &mut narrowed, false, false).ok()?;
        &narrowed
    };
    let next_hop = match attributes.next_hop() {
        NextHop::V4(next_hop) if family == Family::Ipv4 => next_hop,
        _ => return Some(wire.to_vec()),
    };
    let at = behind(wire, attr_type::AS_PATH);
    let mut bytes = Vec::with_capacity(wire.len() + 7);
    bytes.extend(&wire[..at]);
    bytes.extend([attr_flags::TRANSITIVE, attr_type::NEXT_HOP, 4]);
    bytes.extend(next_hop.octets());
    bytes.extend(&wire[at..]);
    Some(bytes)
}

/// Where the attributes with a type beyond `kind` begin.
fn behind(wire: &[u8], kind: u8) -> usize {
    let mut at = 0;
    while let [flags, this, high, rest @ ..] = &wire[at..]
        && *this <= kind
    {
        let is_extended = flags & attr_flags::EXTENDED_LENGTH != 0;
        let length = match rest {
            [low, ..] if is_extended => 4 + usize::from(u16::from_be_bytes([*high, *low])),
            _ => 3 + usize::from(*high),
        };
        at = (at + length).min(wire.len());
    }
    at
}

fn write_nlri((prefix, path): Key, add_path: bool, message: &mut Vec<u8>) {
    if add_path {
        message.extend(path.to_be_bytes());
    }
    match prefix {
        Prefix::V4(prefix) => {
            message.push(prefix.len);
            message.extend(&prefix.addr.octets()[..usize::from(prefix.len.div_ceil(8))]);
        }
        Prefix::V6(prefix) => {
            message.push(prefix.len);
            message.extend(&prefix.addr.octets()[..usize::from(prefix.len.div_ceil(8))]);
        }
    }
}

fn header() -> Vec<u8> {
    let mut message = Vec::with_capacity(HEADER_LEN + 256);
    message.extend(MARKER);
    message.extend([0, 0, message_type::UPDATE]);
    message
}

fn finish(mut message: Vec<u8>) -> Vec<u8> {
    let length = u16::try_from(message.len())
        .expect("invariant: no message is made longer than the format allows");
    message[16..18].copy_from_slice(&length.to_be_bytes());
    message
}

/// Writes the number of bytes behind the length field at `at` into it.
fn set_length(message: &mut [u8], at: usize) {
    let length = u16::try_from(message.len() - at - 2)
        .expect("invariant: no message is made longer than the format allows");
    message[at..at + 2].copy_from_slice(&length.to_be_bytes());
}

/// Path identifier, length, address of IPv6.
const MAX_NLRI: usize = 4 + 1 + 16;
