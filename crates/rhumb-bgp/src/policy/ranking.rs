//! The order of routes to one destination (RFC 4271,
//! sections 9.1.1 and 9.1.2.2), and the classes in it.
//!
//! At an exchange all routes are external and all next hops are on one network, so two steps of the
//! RFC never decide: external before internal, and the distance to the next hop. What is left, in
//! order: RPKI validity if asked for, preference, length of the path, origin, MED among routes of
//! the same neighbouring AS, the announcing router's identifier, and last the place in the list,
//! for two routes of one router.
//!
//! MED makes the RFC's decision one of elimination and not a comparison: whether a route loses by
//! MED depends on which others are there. The order here is the one of repeated decisions: the
//! best, the best of the rest, and so on. It is found without repeating: within equal preference,
//! length and origin each neighbouring AS has its routes queued by MED and identifier, and of the
//! queues' heads the lowest identifier is next.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::net::Ipv4Addr;

use rustbgpd_wire::{AsPath, AsPathSegment, Origin, RpkiValidation};

use super::route::Route;

/// What the order depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Higher is better.
    pub preference: u32,
    /// Of its path: a set counts as one.
    pub path_length: u32,
    /// IGP is best.
    pub origin: Origin,
    /// Lower is better, among routes of one neighbouring AS.
    pub med: u32,
    /// The AS that the path begins with.
    pub neighbour: u32,
    /// Valid is best.
    pub validity: RpkiValidation,
    /// The announcing router's identifier, or where that is unknown
    /// something else that differs; lower is better.
    pub router_id: Ipv4Addr,
}

impl Candidate {
    /// What counts of a route.
    pub fn new(route: &Route<'_>, preference: u32, router_id: Ipv4Addr) -> Self {
        Self {
            preference,
            path_length: u32::try_from(route.path().len()).unwrap_or(u32::MAX),
            origin: route.origin(),
            med: route.med(),
            neighbour: first_asn(route.path()).unwrap_or(route.announcer_asn),
            validity: route.validity,
            router_id,
        }
    }
}

/// How routes are ranked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ranking {
    /// Whether validity comes before everything else, preference included.
    pub validity_first: bool,
    /// Which routes are one class.
    pub ties: Ties,
}

/// How deep ties go: which routes the member deems equal, so that the exchange chooses among them
/// by what it knows of its ports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ties {
    /// Those of equal preference (and validity, where that comes first).
    Preference,
    /// Those whose paths are equally long, too.
    #[default]
    PathLength,
}

/// A place in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ranked {
    /// The candidate's place in the list that was given.
    pub index: usize,
    /// 0 is the best.
    pub class: u32,
}

impl Ranking {
    /// All candidates, the best first. Takes n log n steps.
    pub fn rank(&self, candidates: &[Candidate]) -> Vec<Ranked> {
        let mut order: Vec<usize> = (0..candidates.len()).collect();
        let tier = |at: usize| {
            (self.class(&candidates[at]), candidates[at].path_length, candidates[at].origin)
        };
        order.sort_by_key(|at| tier(*at));
        let mut ranked: Vec<Ranked> = Vec::with_capacity(candidates.len());
        let mut class = 0;
        for equal in order.chunk_by(|a, b| tier(*a) == tier(*b)) {
            for index in by_elimination(candidates, equal) {
                if let Some(before) = ranked.last() {
                    class += u32::from(!self.tied(&candidates[before.index], &candidates[index]));
                }
                ranked.push(Ranked { index, class });
            }
        }
        ranked
    }

    /// Whether two are of one class.
    pub fn tied(&self, a: &Candidate, b: &Candidate) -> bool {
        self.class(a) == self.class(b)
            && (self.ties == Ties::Preference || a.path_length == b.path_length)
    }

    /// What comes before the length of the path.
    fn class(&self, candidate: &Candidate) -> (u8, Reverse<u32>) {
        let validity = match candidate.validity {
            _ if !self.validity_first => 0,
            RpkiValidation::Valid => 0,
            RpkiValidation::NotFound => 1,
            RpkiValidation::Invalid => 2,
        };
        (validity, Reverse(candidate.preference))
    }
}

/// The order of routes of equal preference, length and origin.
fn by_elimination(candidates: &[Candidate], equal: &[usize]) -> Vec<usize> {
    let mut queues: HashMap<u32, VecDeque<usize>> = HashMap::new();
    for at in equal {
        queues.entry(candidates[*at].neighbour).or_default().push_back(*at);
    }
    let mut heads = BinaryHeap::new();
    let head = |queue: &VecDeque<usize>| {
        queue.front().map(|at| Reverse((candidates[*at].router_id, *at, candidates[*at].neighbour)))
    };
    for queue in queues.values_mut() {
        let key = |at: &usize| (candidates[*at].med, candidates[*at].router_id, *at);
        queue.make_contiguous().sort_unstable_by_key(key);
        heads.extend(head(queue));
    }
    let mut order = Vec::with_capacity(equal.len());
    while let Some(Reverse((_, at, neighbour))) = heads.pop() {
        order.push(at);
        if let Some(queue) = queues.get_mut(&neighbour) {
            queue.pop_front();
            heads.extend(head(queue));
        }
    }
    order
}

/// The first number of the path, if it does not begin with a set.
pub(super) fn first_asn(path: &AsPath) -> Option<u32> {
    match path.segments.first() {
        Some(AsPathSegment::AsSequence(numbers)) => numbers.first().copied(),
        _ => None,
    }
}

/// The preference of a route of which no rule says another: every router's.
pub const DEFAULT_PREFERENCE: u32 = 100;
