//! Who may join, and with which standing.
//!
//! Configured RIBs and upstreams are admitted, and whom the rules of access admit. Whom
//! they refuse is told so when it joins, sends or presents a chain, and remembered for
//! `status`. The rest are strangers: names cost nothing, so a role that somebody gives
//! itself gives it no more than any other stranger has.

use std::collections::{HashMap, VecDeque};

use foldhash::quality::RandomState;
use rhumb_link::Source;
use rhumb_trust::{Access, Missing, Now, Removals, Standing, Treatment, Who};
use rhumb_wire::{Action, Name};

use crate::config::Config;
use crate::neighbour::Neighbour;
use crate::status::{RefusedStatus, Wanted};

/// The rules, and who was refused by them lately.
#[derive(Debug)]
pub(crate) struct Joining {
    access: Access,
    refused: VecDeque<Refused>,
    /// Names that can be attached, and names that RIBs can be told of at once.
    max_names: usize,
    max_publications: usize,
    /// Names that strangers of each source attached, and all together; as
    /// many entries as there are such names at most.
    attached: HashMap<Source, usize, RandomState>,
    attached_in_all: usize,
}

#[derive(Debug, Clone)]
struct Refused {
    name: Name,
    wanted: Wanted,
    at: Now,
    times: u64,
    /// Of the first of these times.
    why: Treatment,
}

impl Joining {
    pub(crate) fn new(config: Config) -> Self {
        // Removals that were heard elsewhere, if the configuration was copied, are not ours.
        let access = Access { removals: Removals::default(), ..config.access };
        Self {
            access,
            refused: VecDeque::new(),
            max_names: config.max_routes,
            max_publications: config.max_publications,
            attached: HashMap::default(),
            attached_in_all: 0,
        }
    }

    /// Other rules count from now on; who was removed stays removed.
    pub(crate) fn set_access(&mut self, access: Access) {
        self.access = Access { removals: self.access.removals.clone(), ..access };
    }

    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    /// How somebody is treated by the rules.
    pub(crate) fn standing(&self, who: &Who<'_>) -> Standing {
        self.access.standing(who)
    }

    /// How a name is treated that somebody else answers for.
    pub(crate) fn standing_of_served(&self, served: &Who<'_>, by: &Who<'_>) -> Standing {
        self.access.standing_of_served(served, by)
    }

    /// How somebody is treated by the rules, and why.
    pub(crate) fn explain(&self, who: &Who<'_>) -> Treatment {
        self.access.explain(who)
    }

    /// Remembers that somebody was refused: the last so many names, each once.
    pub(crate) fn note_refused(&mut self, who: &Who<'_>, wanted: Wanted, now: Now) {
        let name = *who.name;
        let before = self.forget_refused(&name).filter(|it| it.why.standing == Standing::Refused);
        let (times, why) = match before {
            Some(before) => (before.times + 1, before.why),
            None => (1, self.access.explain(who)),
        };
        self.remember_refused(Refused { name, wanted, at: now, times, why });
    }

    /// Remembers that a name was refused that somebody answers for, who may not.
    pub(crate) fn note_not_served(&mut self, name: &Name, server: Name, now: Now) {
        let before = self.forget_refused(name).filter(|it| it.why.standing == Standing::Refused);
        let times = before.map_or(1, |before| before.times + 1);
        let missing = Some(Missing::Serving { server });
        let why = Treatment { standing: Standing::Refused, rule: None, missing };
        let wanted = Wanted::Join;
        self.remember_refused(Refused { name: *name, wanted, at: now, times, why });
    }

    /// Remembers that somebody who is let in was refused something by what its domain leaves it.
    pub(crate) fn note_limited(&mut self, name: &Name, wanted: Wanted, missing: Missing, now: Now) {
        let before = self.forget_refused(name).filter(|it| it.why.standing != Standing::Refused);
        let times = before.map_or(1, |before| before.times + 1);
        let why = Treatment { standing: Standing::Admitted, rule: None, missing: Some(missing) };
        self.remember_refused(Refused { name: *name, wanted, at: now, times, why });
    }

    fn forget_refused(&mut self, name: &Name) -> Option<Refused> {
        let place = self.refused.iter().position(|refused| refused.name == *name)?;
        self.refused.remove(place)
    }

    fn remember_refused(&mut self, refused: Refused) {
        self.refused.truncate(MAX_REFUSED - 1);
        self.refused.push_front(refused);
    }

    /// Whether strangers of a source may attach one more name, while RIBs are still to be told of
    /// so many.
    pub(crate) fn has_room(&self, source: Source, publications: usize) -> bool {
        let for_strangers = |bound: usize| bound - bound / PART_OF_THE_ADMITTED;
        let of_source = self.attached.get(&source).copied().unwrap_or(0);
        of_source < self.max_names.div_ceil(PART_OF_A_SOURCE)
            && self.attached_in_all < for_strangers(self.max_names)
            && publications < for_strangers(self.max_publications)
    }

    /// Strangers of a source have attached so many names, or so many fewer.
    pub(crate) fn count(&mut self, source: Source, before: usize, after: usize) {
        let of_source = self.attached.entry(source).or_insert(0);
        *of_source = (*of_source + after).saturating_sub(before);
        self.attached_in_all = (self.attached_in_all + after).saturating_sub(before);
        if *of_source == 0 {
            self.attached.remove(&source);
        }
    }

    /// A session has ended: what it attached is counted no longer.
    pub(crate) fn discharge(&mut self, neighbour: &Neighbour) {
        if let Some(source) = neighbour.charged {
            self.count(source, neighbour.attached.len() + neighbour.joined, 0);
        }
    }

    /// Who was refused lately, the last one first.
    pub(crate) fn refused(&self, now: Now) -> Vec<RefusedStatus> {
        let status = |refused: &Refused| RefusedStatus {
            name: refused.name,
            wanted: refused.wanted,
            age_s: now.instant.saturating_duration_since(refused.at.instant).as_secs(),
            times: refused.times,
            rule: refused.why.rule,
            missing: refused.why.missing.as_ref().map(ToString::to_string),
            limit: refused.why.missing.as_ref().and_then(Missing::limit).map(|it| it.to_string()),
        };
        self.refused.iter().map(status).collect()
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
