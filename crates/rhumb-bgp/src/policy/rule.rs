//! Rules: conditions, what becomes of a route that fulfils them, and lists
//! of rules of which the first that fits counts.

use std::ops::RangeInclusive;
use std::sync::Arc;

use rustbgpd_wire::{AsPath, AsPathSegment, Origin, PathAttribute, RpkiValidation};

use super::community::{Community, CommunityPattern};
use super::member::MemberSet;
use super::path::PathPattern;
use super::prefix::PrefixSet;
use super::route::{Examined, Route};
use super::rpki::origin_of;
use super::{MOST_PATHS, MOST_PREFIXES, MOST_RULES, PolicyError};

/// What a route must be for a rule to fit: all that is
/// said. An empty list, or `None`, says nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conditions {
    /// Its destination is in one of these lists. Lists are shared between rules.
    pub prefixes: Vec<Arc<PrefixSet>>,
    /// Its path fits one of these.
    pub paths: Vec<PathPattern>,
    /// It has a community that fits one of these.
    pub communities: Vec<CommunityPattern>,
    /// Its ORIGIN attribute is one of these.
    pub origins: Vec<Origin>,
    /// The AS that originates it is in one of these.
    pub origin_asns: Vec<RangeInclusive<u32>>,
    /// Its MED, where none is zero.
    pub med: Option<RangeInclusive<u32>>,
    /// How long its path is: a set counts as one (RFC 4271, section 9.1.2.2).
    pub path_length: Option<RangeInclusive<u32>>,
    /// Its next hop is within this list, whatever the bounds of length.
    pub next_hops: Option<Arc<PrefixSet>>,
    /// It was announced by one of these members.
    pub announcers: Option<MemberSet>,
    /// What the RPKI says of it is one of these.
    pub validities: Vec<RpkiValidation>,
}

impl Conditions {
    /// Whether a route fulfils all.
    pub fn hold(&self, route: &Route<'_>) -> bool {
        self.hold_examined(&Examined::new(*route))
    }

    /// From what is cheap to what is not.
    fn hold_examined(&self, examined: &Examined<'_>) -> bool {
        let route = &examined.route;
        let within = |range: &Option<RangeInclusive<u32>>, number: &dyn Fn() -> u32| {
            range.as_ref().is_none_or(|range| range.contains(&number()))
        };
        let length = || u32::try_from(route.path().len()).unwrap_or(u32::MAX);
        any(&self.validities, |state| *state == route.validity)
            && self.announcers.as_ref().is_none_or(|members| members.contains(route.announcer))
            && any(&self.origins, |origin| *origin == route.origin())
            && within(&self.med, &|| route.med())
            && within(&self.path_length, &length)
            && any(&self.origin_asns, |asns| {
                origin_of(route.path(), route.announcer_asn)
                    .is_some_and(|origin| asns.contains(&origin))
            })
            && any(&self.prefixes, |list| list.contains(route.prefix))
            && self.next_hops.as_ref().is_none_or(|list| {
                route.next_hop.is_some_and(|next_hop| list.contains_address(next_hop))
            })
            && any(&self.communities, |pattern| {
                Community::of(route.attributes).any(|community| pattern.matches(community))
            })
            && any(&self.paths, |pattern| pattern.matches_text(examined.path_text()))
    }
}

/// Whether one of the list fits, or there is none.
fn any<T>(list: &[T], fits: impl FnMut(&T) -> bool) -> bool {
    list.is_empty() || list.iter().any(fits)
}

/// Whether a route is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is.
    Accept,
    /// It is not.
    Reject,
}

/// What is changed about a route that is accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edits {
    /// How much it is preferred: import only. Higher is better,
    /// [`super::ranking::DEFAULT_PREFERENCE`] is what it is without.
    pub preference: Option<u32>,
    /// Communities that are taken out.
    pub delete_communities: Vec<CommunityPattern>,
    /// Communities that are added, after that.
    pub add_communities: Vec<Community>,
    /// Its MED.
    pub med: Option<u32>,
    /// How often the AS that the path begins with is put
    /// before it once more, up to [`MOST_PREPENDS`].
    pub prepend: u8,
    /// Who may get it: export only. `None` is everybody.
    pub recipients: Option<MemberSet>,
}

impl Edits {
    /// Changes a route's attributes. `first` is prepended where the path is empty.
    pub fn apply(&self, attributes: &mut Vec<PathAttribute>, first: u32) {
        if !self.delete_communities.is_empty() {
            Community::remove_from(attributes, |community| {
                self.delete_communities.iter().any(|pattern| pattern.matches(community))
            });
        }
        for community in &self.add_communities {
            community.add_to(attributes);
        }
        if let Some(med) = self.med {
            attributes.retain(|attribute| !matches!(attribute, PathAttribute::Med(_)));
            attributes.push(PathAttribute::Med(med));
        }
        prepend(attributes, self.prepend, first);
    }
}

/// Puts the first AS of the path before it, so many times more; `first` where there is none.
pub(super) fn prepend(attributes: &mut Vec<PathAttribute>, times: u8, first: u32) {
    if times == 0 {
        return;
    }
    if !attributes.iter().any(|attribute| matches!(attribute, PathAttribute::AsPath(_))) {
        attributes.push(PathAttribute::AsPath(AsPath { segments: Vec::new() }));
    }
    let path = attributes.iter_mut().find_map(|attribute| match attribute {
        PathAttribute::AsPath(path) => Some(path),
        _ => None,
    });
    let path = path.expect("invariant: it was added above");
    let times = usize::from(times);
    match path.segments.first_mut() {
        // A segment holds 255 (RFC 4271, section 4.3); section 5.1.2 begins another then.
        Some(AsPathSegment::AsSequence(numbers)) if numbers.len() + times <= 255 => {
            let first = numbers.first().copied().unwrap_or(first);
            numbers.splice(0..0, std::iter::repeat_n(first, times));
        }
        Some(AsPathSegment::AsSequence(numbers)) => {
            let first = numbers.first().copied().unwrap_or(first);
            path.segments.insert(0, AsPathSegment::AsSequence(vec![first; times]));
        }
        _ => path.segments.insert(0, AsPathSegment::AsSequence(vec![first; times])),
    }
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// When it fits.
    pub when: Conditions,
    /// What becomes of the route then.
    pub verdict: Verdict,
    /// How it is changed if it is accepted.
    pub edits: Edits,
}

/// A list of rules: the first that fits decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    rules: Vec<Rule>,
    otherwise: Verdict,
}

/// What a policy said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision<'a> {
    /// Which rule, from 0; `None` if none fitted.
    pub rule: Option<usize>,
    /// What of it is to be done with a route that is accepted; `None` for one that is not.
    pub accepted: Option<&'a Edits>,
}

impl Policy {
    /// A policy of these rules; `otherwise` is for routes that none fits.
    ///
    /// # Errors
    ///
    /// More rules, prefixes or expressions over paths than policies may have.
    pub fn new(rules: Vec<Rule>, otherwise: Verdict) -> Result<Self, PolicyError> {
        let too_many = |what, most| Err(PolicyError::TooMany { what, most });
        if rules.len() > MOST_RULES {
            return too_many("rules", MOST_RULES);
        }
        if rules.iter().map(|rule| rule.when.paths.len()).sum::<usize>() > MOST_PATHS {
            return too_many("path expressions", MOST_PATHS);
        }
        // A list that several rules share is there once.
        let lists =
            rules.iter().flat_map(|rule| rule.when.prefixes.iter().chain(&rule.when.next_hops));
        let mut lists: Vec<&Arc<PrefixSet>> = lists.collect();
        lists.sort_by_key(|list| Arc::as_ptr(list));
        lists.dedup_by(|a, b| Arc::ptr_eq(a, b));
        if lists.iter().map(|list| list.len()).sum::<usize>() > MOST_PREFIXES {
            return too_many("prefixes", MOST_PREFIXES);
        }
        if rules.iter().any(|rule| rule.edits.prepend > MOST_PREPENDS) {
            return too_many("prepends of a rule", MOST_PREPENDS.into());
        }
        Ok(Self { rules, otherwise })
    }

    /// What it says of a route.
    pub fn decide(&self, route: &Route<'_>) -> Decision<'_> {
        static UNCHANGED: Edits = Edits {
            preference: None,
            delete_communities: Vec::new(),
            add_communities: Vec::new(),
            med: None,
            prepend: 0,
            recipients: None,
        };
        let examined = Examined::new(*route);
        let found = self.rules.iter().position(|rule| rule.when.hold_examined(&examined));
        let (verdict, edits) = match found {
            Some(at) => (self.rules[at].verdict, &self.rules[at].edits),
            None => (self.otherwise, &UNCHANGED),
        };
        Decision { rule: found, accepted: (verdict == Verdict::Accept).then_some(edits) }
    }

    /// Its rules.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Whether a state of the RPKI can change what it says.
    pub fn asks_validity(&self) -> bool {
        self.rules.iter().any(|rule| !rule.when.validities.is_empty())
    }
}

/// More prepends than this change nothing any more, and some routers refuse such paths.
pub const MOST_PREPENDS: u8 = 20;
