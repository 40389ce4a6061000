//! Who may join, and with which standing.
//!
//! Configured RIBs and upstreams are admitted, and whom the rules of access admit. Whom
//! they refuse is told so when it joins, sends or presents a chain, and remembered for
//! `status`. The rest are strangers: names cost nothing, so a role that somebody gives
//! itself gives it no more than any other stranger has.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use foldhash::quality::RandomState;
use rhumb_link::{SessionId, Source};
use rhumb_trust::{Access, Now, Standing};
use rhumb_wire::{Action, Metadata, Name};

use crate::Switch;
use crate::event::Event;
use crate::neighbour::Neighbour;
use crate::status::{RefusedStatus, Wanted};

/// The rules, and who was refused by them lately.
#[derive(Debug)]
pub(crate) struct Joining {
    access: Access,
    refused: VecDeque<Refused>,
    /// Names that strangers of each source attached, and all together; as
    /// many entries as there are such names at most.
    attached: HashMap<Source, usize, RandomState>,
    attached_in_all: usize,
}

#[derive(Debug, Clone, Copy)]
struct Refused {
    name: Name,
    wanted: Wanted,
    at: Now,
    times: u64,
}

impl Joining {
    pub(crate) fn new(access: Access) -> Self {
        Self { access, refused: VecDeque::new(), attached: HashMap::default(), attached_in_all: 0 }
    }

    /// Remembers that a name was refused: the last so many names, each once.
    fn note_refused(&mut self, name: Name, wanted: Wanted, now: Now) {
        let before = self.refused.iter().position(|refused| refused.name == name);
        let before = before.and_then(|place| self.refused.remove(place));
        let times = before.map_or(0, |refused| refused.times) + 1;
        self.refused.truncate(MAX_REFUSED - 1);
        self.refused.push_front(Refused { name, wanted, at: now, times });
    }

    /// Whether strangers of a source may attach one more name, of `bound` in all.
    fn has_room(&self, source: Source, bound: usize) -> bool {
        let of_source = self.attached.get(&source).copied().unwrap_or(0);
        of_source < bound.div_ceil(PART_OF_A_SOURCE)
            && self.attached_in_all < bound - bound / PART_OF_THE_ADMITTED
    }

    /// Strangers of a source have attached so many names, or so many fewer.
    fn count(&mut self, source: Source, before: usize, after: usize) {
        let of_source = self.attached.entry(source).or_insert(0);
        *of_source = (*of_source + after).saturating_sub(before);
        self.attached_in_all = (self.attached_in_all + after).saturating_sub(before);
        if *of_source == 0 {
            self.attached.remove(&source);
        }
    }

    /// Who was refused lately, the last one first.
    pub(crate) fn refused(&self, now: Now) -> Vec<RefusedStatus> {
        let status = |refused: &Refused| RefusedStatus {
            name: refused.name,
            wanted: refused.wanted,
            age: now.instant.saturating_duration_since(refused.at.instant),
            times: refused.times,
        };
        self.refused.iter().map(status).collect()
    }
}

impl Switch {
    /// Changes who may join and with which standing. Sessions of those who are refused from now on
    /// end, and names that are refused from now on are attached no longer.
    pub fn set_access(&mut self, access: Access, now: Now) {
        self.endpoint.set_access(access.clone());
        self.joining.access = access;
        let sessions: Vec<SessionId> =
            self.endpoint.sessions().map(|(session, _)| session).collect();
        for session in sessions {
            if self.standing_of(session) == Standing::Refused {
                self.note_refused(session, Wanted::Join, now);
                self.endpoint.close(session, now.instant);
            }
            self.treat_anew(session);
        }
        let attached: Vec<Name> = self.routes.attached().map(|(name, _)| *name).collect();
        for name in attached {
            let metadata = self.metadata_of(&name);
            if metadata.is_some_and(|metadata| self.is_name_refused(&name, &metadata, now)) {
                self.routes.detach(&name);
                self.events.push_back(Event::Left { name });
            }
        }
        self.after_control(now);
    }

    pub(crate) fn neighbour(&mut self, session: SessionId, now: Instant) -> &mut Neighbour {
        if !self.neighbours.contains_key(&session) {
            let role = self.endpoint.peer(session).map(|peer| peer.metadata.role);
            let standing = self.standing_of(session);
            self.neighbours.insert(session, Neighbour::new(role, standing, now));
        }
        self.neighbours
            .entry(session)
            .or_insert_with(|| Neighbour::new(None, Standing::Stranger, now))
    }

    /// How the peer of a session is treated.
    fn standing_of(&self, session: SessionId) -> Standing {
        if self.peering.is_upstream(session) || self.directory.is_rib(session) {
            return Standing::Admitted;
        }
        let peer = self.endpoint.peer(session);
        peer.map_or(Standing::Stranger, |peer| {
            self.joining.access.standing(&peer.name, &peer.metadata)
        })
    }

    /// Looks again at how the peer of a session is treated: it has become a
    /// RIB or an upstream, or rules have changed.
    pub(crate) fn treat_anew(&mut self, session: SessionId) {
        let standing = self.standing_of(session);
        let role = self.endpoint.peer(session).map(|peer| peer.metadata.role);
        if let Some(neighbour) = self.neighbours.get_mut(&session) {
            neighbour.treat_as(role, standing);
        }
    }

    /// Whether there is room for one more name of a session among those of whoever it is.
    pub(crate) fn has_room_for_name(&mut self, session: SessionId, now: Now) -> bool {
        if self.neighbour(session, now.instant).standing == Standing::Admitted {
            return true;
        }
        let bounds = (self.config.max_routes, self.config.max_publications);
        let source = self.source_of(session);
        source.is_some_and(|source| self.joining.has_room(source, bounds.0))
            && self.directory.publications() < bounds.1 - bounds.1 / PART_OF_THE_ADMITTED
    }

    /// A session has attached so many names before, and other ones now.
    pub(crate) fn count_attached(&mut self, session: SessionId, before: usize, now: Now) {
        let source = self.source_of(session);
        let neighbour = self.neighbour(session, now.instant);
        let is_stranger = neighbour.standing != Standing::Admitted;
        if before == 0 {
            neighbour.charged = source.filter(|_| is_stranger);
        }
        let (after, charged) = (neighbour.attached.len(), neighbour.charged);
        if let Some(source) = charged {
            self.joining.count(source, before, after);
        }
    }

    /// A session has ended: what it attached is counted no longer.
    pub(crate) fn discharge(&mut self, neighbour: &Neighbour) {
        if let Some(source) = neighbour.charged {
            self.joining.count(source, neighbour.attached.len(), 0);
        }
    }

    /// Whether the rules of access refuse the peer of a session, which is noted then.
    pub(crate) fn is_refused(&mut self, session: SessionId, wanted: Wanted, now: Now) -> bool {
        let is_refused = self.neighbour(session, now.instant).standing == Standing::Refused;
        if is_refused {
            self.note_refused(session, wanted, now);
        }
        is_refused
    }

    /// Whether the rules of access refuse a name that somebody answers for, which is noted then.
    pub(crate) fn is_name_refused(&mut self, name: &Name, metadata: &Metadata, now: Now) -> bool {
        let is_refused = self.joining.access.standing(name, metadata) == Standing::Refused;
        if is_refused {
            self.joining.note_refused(*name, Wanted::Join, now);
        }
        is_refused
    }

    fn note_refused(&mut self, session: SessionId, wanted: Wanted, now: Now) {
        if let Some(name) = self.endpoint.peer(session).map(|peer| peer.name) {
            self.joining.note_refused(name, wanted, now);
        }
    }
}

/// What somebody wants who sends a PDU.
pub(crate) fn wanted(action: Action, is_for_us: bool) -> Wanted {
    match (action, is_for_us) {
        (Action::Advertise, true) => Wanted::Join,
        (Action::Ping, true) => Wanted::Answer,
        _ => Wanted::Send,
    }
}

/// Strangers of one source have one in so many of the names that can be attached.
const PART_OF_A_SOURCE: usize = 8;
/// One in so many is for who is admitted.
const PART_OF_THE_ADMITTED: usize = 4;
/// Names that were refused and are remembered: enough to see who it is,
/// and free names push out nothing but each other.
const MAX_REFUSED: usize = 32;
