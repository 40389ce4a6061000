//! What is true of each name, and whether an answer about it is.
//!
//! INVARIANT: what an answer is held against was acknowledged before the question was put, or was
//! under way between question and answer. Who asks the RIB of another domain may be told for a
//! moment what is no longer so: how old that was is measured.

use std::collections::HashMap;
use std::time::Duration;

use rhumb_wire::Name;

/// A name: its domain, and its rank there by popularity.
pub(crate) type Place = (usize, usize);

/// What a name's holder says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) sequence: u64,
    /// The router that it is at; none when it is taken back.
    pub(crate) via: Option<Name>,
}

/// What a RIB answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// A route of the name, for who is in its domain or further in.
    Route(Said),
    /// That the name is known by its domain.
    Exported,
    Absent,
    /// Statements of somebody else, or of another kind.
    Nonsense,
}

/// A question, and what was acknowledged when it was put.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) place: Place,
    pub(crate) at: Duration,
    then: Said,
}

/// How an answer is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Verdict {
    Right,
    /// It was right until so long before the question.
    Late(Duration),
    Wrong,
}

/// Of a name that was changed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fate {
    before: Said,
    now: Said,
    since: Duration,
    /// What was ordered and is not acknowledged.
    coming: Option<Said>,
}

/// What is true of each name.
pub(crate) struct Ledger {
    /// Where names are at first: each domain's routers, in turn by rank.
    routers: Vec<Vec<Name>>,
    first_sequence: u64,
    fates: HashMap<Place, Fate>,
}

impl Ledger {
    pub(crate) fn new(routers: Vec<Vec<Name>>, first_sequence: u64) -> Self {
        Self { routers, first_sequence, fates: HashMap::new() }
    }

    /// What was acknowledged last.
    pub(crate) fn said(&self, place: Place) -> Said {
        self.fate(place).now
    }

    /// Whether the name may be changed now: it was not for so long.
    pub(crate) fn rests(&self, place: Place, now: Duration) -> bool {
        self.fates
            .get(&place)
            .is_none_or(|it| it.coming.is_none() && it.since + BETWEEN_CHANGES < now)
    }

    pub(crate) fn order(&mut self, place: Place, said: Said) {
        let coming = Some(said);
        let fate = Fate { coming, ..self.fate(place) };
        self.fates.insert(place, fate);
    }

    /// The order is acknowledged.
    pub(crate) fn acknowledge(&mut self, place: Place, now: Duration) {
        let fate = self.fate(place);
        if let Some(said) = fate.coming {
            let fate = Fate { before: fate.now, now: said, since: now, coming: None };
            self.fates.insert(place, fate);
        }
    }

    pub(crate) fn ask(&self, place: Place, now: Duration) -> Asked {
        Asked { place, at: now, then: self.said(place) }
    }

    /// How an answer is, of the RIB of the name's own domain or of another one. The latter need not
    /// have heard that a name is said again to be where it was.
    pub(crate) fn judge(&self, asked: &Asked, heard: Heard, is_own: bool) -> Verdict {
        let fate = self.fate(asked.place);
        let agrees = |said: Said| match heard {
            Heard::Route(it) if is_own => it == said,
            Heard::Route(it) => it.via == said.via && it.sequence <= said.sequence,
            Heard::Exported => said.via.is_some(),
            Heard::Absent => said.via.is_none(),
            Heard::Nonsense => false,
        };
        if [Some(asked.then), Some(fate.now), fate.coming].into_iter().flatten().any(agrees) {
            return Verdict::Right;
        }
        match agrees(fate.before) && !is_own {
            true => Verdict::Late(asked.at.saturating_sub(fate.since)),
            false => Verdict::Wrong,
        }
    }

    pub(crate) fn fate(&self, place: Place) -> Fate {
        let first = || {
            let routers = &self.routers[place.0];
            let via = Some(routers[place.1 % routers.len()]);
            let said = Said { sequence: self.first_sequence, via };
            Fate { before: said, now: said, since: Duration::ZERO, coming: None }
        };
        self.fates.get(&place).copied().unwrap_or_else(first)
    }
}

/// So that two changes of a name are never in one answer's time.
const BETWEEN_CHANGES: Duration = Duration::from_secs(10);
