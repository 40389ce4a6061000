//! What a proxy knows: the routes of its own router, and
//! those of other members with what became of them.
//!
//! 1. The router announces: the export policy says who gets which
//!    version of the route ([`Table::announced`]).
//! 2. Another member's route comes, and is to be judged ([`Table::offered`]). Once it is, it takes
//!    the place of the former one ([`Table::judged`]).
//! 3. Of those taken, the best class is what the exchange may choose from ([`Table::classes`]).
//! 4. What it chose ([`Table::selected`]), or without a choice the best, goes to the router.
//!
//! Invariant: what the router has is what `Table::decide` says now, for each prefix; only
//! differences are sent. Policies and validity may change at any time, and all is looked at again.
//!
//! Invariant: which of its routes a member announces, and when, tells nobody whom they are for. A
//! route for nobody is announced like any other; and after a change of policies or roster all are
//! announced again, those that the change says nothing about among them.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use rhumb_bgp::policy::{
    Candidate, ExportPolicy, ImportPolicy, Member, MemberSet, Roster, Route, Vrps,
};
use rhumb_bgp::wire::{PathAttribute, Prefix, RpkiValidation};
use rhumb_bgp::{Attributes, NextHop, Order};
use rhumb_exchange::Few;

use crate::encoding::{Announced, Malformed, Place};
use crate::law::{Case, Judged, Key, Law, Refusal, Taken};

/// The member's policies, and who the members are.
#[derive(Debug, Clone)]
pub struct Policies {
    /// Who may have own routes.
    pub export: ExportPolicy,
    /// Which routes of others are taken.
    pub import: ImportPolicy,
    /// Who the members are.
    pub roster: Roster,
}

/// All routes.
pub struct Table {
    export: ExportPolicy,
    /// By which routes of others are judged.
    law: Arc<Law>,
    /// Of the router's BGP session.
    router_id: Ipv4Addr,
    /// Whether the exchange chooses within the best class.
    participates: bool,
    is_suspended: bool,
    own: BTreeMap<Prefix, Attributes>,
    /// Numbers of a route's versions, where they are not those of their places.
    variants: BTreeMap<Prefix, Vec<u8>>,
    others: BTreeMap<Prefix, Destination>,
    /// What is being judged. Routes that were judged before,
    /// by another law, count meanwhile as they did.
    waiting: BTreeMap<(Prefix, Key), Waiting>,
    /// Cases so far.
    cases: u64,
    /// Number of others' routes that may be used.
    taken: usize,
}

/// A route that is being judged, by the last case of it.
struct Waiting {
    number: u64,
    announced: Result<Announced, Malformed>,
    /// It was not there before.
    is_new: bool,
}

/// A version of an own route, and who gets it.
type Version = (Vec<u8>, MemberSet);

/// Routes of others to one prefix.
#[derive(Default)]
struct Destination {
    offers: Few<Key, Offer>,
    /// The exchange's choice for each variant.
    selected: BTreeMap<u8, Member>,
    /// What the router has.
    given: Option<(Key, Attributes)>,
}

/// Another member's route, and what became of it.
pub struct Offer {
    /// As it came.
    announced: Result<Announced, Malformed>,
    /// What the RPKI said of it.
    pub validity: RpkiValidation,
    /// What became of it.
    pub taken: Result<Taken, Refusal>,
}

/// What is to be told.
#[derive(Debug, Default)]
pub struct Changes {
    /// For the router.
    pub router: Vec<Order>,
    /// For the exchange.
    pub exchange: Vec<ForExchange>,
    /// What is to be judged.
    pub cases: Vec<Case>,
}

/// A change of what others may have from this member.
#[derive(Debug, PartialEq, Eq)]
pub enum ForExchange {
    /// This route is there now.
    Announce {
        /// Where it leads.
        place: Place,
        /// As bytes ([`Announced::to_bytes`]).
        route: Vec<u8>,
        /// Who may have it.
        members: MemberSet,
    },
    /// The route is no more.
    Withdraw(Place),
}

impl ForExchange {
    /// What it is about.
    pub fn place(&self) -> Place {
        match self {
            Self::Announce { place, .. } | Self::Withdraw(place) => *place,
        }
    }
}

impl Table {
    /// Of a member without routes; `participates` where the exchange chooses for it.
    pub fn new(policies: Policies, participates: bool) -> Self {
        let Policies { export, import, roster } = policies;
        Self {
            export,
            law: Arc::new(Law { import, roster, vrps: Arc::default() }),
            router_id: Ipv4Addr::UNSPECIFIED,
            participates,
            is_suspended: false,
            own: BTreeMap::new(),
            variants: BTreeMap::new(),
            others: BTreeMap::new(),
            waiting: BTreeMap::new(),
            cases: 0,
            taken: 0,
        }
    }

    /// The router that announces from now on.
    pub fn set_router_id(&mut self, id: Ipv4Addr, changes: &mut Changes) {
        if self.router_id != id {
            self.change_exports(|_| true, changes, |table| table.router_id = id);
        }
    }

    /// The router has this route.
    pub fn announced(&mut self, prefix: Prefix, attributes: Attributes, changes: &mut Changes) {
        let before = self.own.get(&prefix).map(|old| self.exports(prefix, old)).unwrap_or_default();
        let now = self.exports(prefix, &attributes);
        let is_news = self.own.get(&prefix) != Some(&attributes);
        self.own.insert(prefix, attributes);
        if is_news {
            self.tell(prefix, &before, now, changes);
        }
    }

    /// The router has a route no more.
    pub fn withdrawn(&mut self, prefix: Prefix, changes: &mut Changes) {
        if let Some(attributes) = self.own.remove(&prefix) {
            let before = self.exports(prefix, &attributes);
            self.tell(prefix, &before, Vec::new(), changes);
        }
    }

    /// A member's route came, in place of any of the same variant to the prefix. Until it is
    /// judged, the former one stays with the router.
    pub fn offered(&mut self, place: Place, from: Member, bytes: &[u8], changes: &mut Changes) {
        let key = Key { variant: place.variant, from };
        self.send_to_judge(place.prefix, key, Announced::parse(place.prefix, bytes), true, changes);
    }

    /// A route was judged. If it is no more, or there is another case of it, that is of no account.
    pub fn judged(&mut self, judged: Judged, changes: &mut Changes) {
        let Judged { case: Case { prefix, key, number, announced, .. }, validity, taken } = judged;
        if self.waiting.get(&(prefix, key)).is_none_or(|waiting| waiting.number != number) {
            return;
        }
        self.waiting.remove(&(prefix, key));
        self.taken += usize::from(taken.is_ok());
        let offer = Offer { announced, validity, taken };
        let replaced = self.others.entry(prefix).or_default().offers.insert(key, offer);
        self.taken -= usize::from(replaced.is_some_and(|offer| offer.taken.is_ok()));
        self.settle(prefix, changes);
    }

    fn send_to_judge(
        &mut self,
        prefix: Prefix,
        key: Key,
        announced: Result<Announced, Malformed>,
        is_new: bool,
        changes: &mut Changes,
    ) {
        self.cases += 1;
        let number = self.cases;
        let waiting = Waiting { number, announced: announced.clone(), is_new };
        self.waiting.insert((prefix, key), waiting);
        let law = Arc::clone(&self.law);
        changes.cases.push(Case { prefix, key, number, announced, law });
    }

    /// Whether a member's route came and was not judged yet.
    pub fn is_waiting(&self, place: Place, from: Member) -> bool {
        let key = Key { variant: place.variant, from };
        self.waiting.get(&(place.prefix, key)).is_some_and(|waiting| waiting.is_new)
    }

    /// Whether nothing is being judged.
    pub fn has_judged_all(&self) -> bool {
        self.waiting.is_empty()
    }

    /// By what routes are judged.
    pub fn law(&self) -> &Arc<Law> {
        &self.law
    }

    /// A member's route is no more.
    pub fn retracted(&mut self, place: Place, from: Member, changes: &mut Changes) {
        let key = Key { variant: place.variant, from };
        self.waiting.remove(&(place.prefix, key));
        if let Some(destination) = self.others.get_mut(&place.prefix) {
            let gone = destination.offers.remove(&key);
            self.taken -= usize::from(gone.is_some_and(|offer| offer.taken.is_ok()));
            self.settle(place.prefix, changes);
        }
    }

    /// The exchange's choice, or that it makes none.
    pub fn selected(&mut self, place: Place, from: Option<Member>, changes: &mut Changes) {
        if let Some(destination) = self.others.get_mut(&place.prefix) {
            match from {
                Some(from) => destination.selected.insert(place.variant, from),
                None => destination.selected.remove(&place.variant),
            };
            self.settle(place.prefix, changes);
        }
    }

    /// Whose routes of one variant may be used, with their classes: 0 is the best.
    pub fn classes(&self, place: Place) -> Vec<(Member, u32)> {
        let Some(destination) = self.others.get(&place.prefix) else { return Vec::new() };
        let all: Vec<(Key, Candidate)> = destination
            .candidates()
            .filter(|(key, _)| key.variant == place.variant && !self.is_waiting(place, key.from))
            .map(|(key, taken)| (key, taken.candidate))
            .collect();
        let candidates: Vec<Candidate> = all.iter().map(|(_, candidate)| *candidate).collect();
        let ranked = self.law.import.ranking.rank(&candidates).into_iter();
        ranked.map(|ranked| (all[ranked.index].0.from, ranked.class)).collect()
    }

    /// Whether others' routes are used at all: not where the exchange has been away for too long.
    pub fn suspend(&mut self, is_suspended: bool, changes: &mut Changes) {
        if self.is_suspended != is_suspended {
            self.is_suspended = is_suspended;
            let prefixes: Vec<Prefix> = self.others.keys().copied().collect();
            prefixes.into_iter().for_each(|prefix| self.settle(prefix, changes));
        }
    }

    /// Other policies from now on.
    pub fn set_policies(&mut self, policies: Policies, changes: &mut Changes) {
        let Policies { export, import, roster } = policies;
        self.change_exports(
            |_| true,
            changes,
            |table| {
                let vrps = Arc::clone(&table.law.vrps);
                (table.export, table.law) = (export, Arc::new(Law { import, roster, vrps }));
            },
        );
        self.judge_again(|_| true, changes);
    }

    /// Another state of the RPKI from now on.
    pub fn set_vrps(&mut self, vrps: Vrps, changes: &mut Changes) {
        let touched = vrps.touched(&self.law.vrps);
        // What the RPKI says is public, and so is which routes it is about.
        self.change_exports(
            |prefix| touched.contains(prefix),
            changes,
            |table| {
                table.law = Arc::new(Law { vrps: Arc::new(vrps), ..table.law.as_ref().clone() });
            },
        );
        self.judge_again(|prefix| touched.contains(prefix), changes);
    }

    /// All that the exchange is to have of this member.
    pub fn all_exports(&self) -> impl Iterator<Item = ForExchange> {
        self.own.iter().flat_map(|(prefix, attributes)| {
            let exports = self.exports(*prefix, attributes);
            let numbers = self.variants_of(*prefix, exports.len());
            numbers.into_iter().zip(exports).map(|(variant, (route, members))| {
                let place = Place { prefix: *prefix, variant };
                ForExchange::Announce { place, route, members }
            })
        })
    }

    /// Numbers of routes.
    pub fn counts(&self) -> Counts {
        Counts {
            own: self.own.len(),
            prefixes: self.others.len(),
            offers: self.others.values().map(|destination| destination.offers.len()).sum(),
            taken: self.taken,
            given: self.others.values().filter(|it| it.given.is_some()).count(),
            vrps: self.law.vrps.len(),
            waiting: self.waiting.len(),
        }
    }

    /// Routes of others to these prefixes, with what became of them.
    pub fn offers(&self, prefix: Option<Prefix>) -> Vec<Shown<'_>> {
        let wanted = self.others.iter().filter(|(other, _)| prefix.is_none_or(|it| it == **other));
        wanted.flat_map(|(prefix, destination)| self.show(*prefix, destination)).collect()
    }

    /// The router's own routes to these prefixes, and who gets them.
    pub fn own(&self, prefix: Option<Prefix>) -> Vec<(Prefix, &Attributes, Vec<MemberSet>)> {
        let wanted = self.own.iter().filter(|(other, _)| prefix.is_none_or(|it| it == **other));
        let shown = wanted.map(|(prefix, attributes)| {
            let exports = self.exports(*prefix, attributes).into_iter();
            (*prefix, attributes, exports.map(|(_, members)| members).collect())
        });
        shown.collect()
    }

    fn show<'a>(&'a self, prefix: Prefix, destination: &'a Destination) -> Vec<Shown<'a>> {
        let classes = self.ranked(destination);
        let shown = destination.offers.iter().map(|(key, offer)| Shown {
            prefix,
            key: *key,
            offer,
            class: classes.iter().find(|(other, _)| other == key).map(|(_, class)| *class),
            is_selected: destination.selected.get(&key.variant) == Some(&key.from),
            is_given: destination.given.as_ref().is_some_and(|(given, _)| given == key),
        });
        shown.collect()
    }

    /// The versions of a route, and who gets them; of one for nobody, the route as it is.
    fn exports(&self, prefix: Prefix, attributes: &Attributes) -> Vec<Version> {
        let (export, roster) = (&self.export, &self.law.roster);
        let list = attributes.list();
        let route = Route {
            prefix,
            attributes: &list,
            next_hop: Some(attributes.next_hop().address()),
            announcer: export.own,
            announcer_asn: roster.asn(export.own).unwrap_or(0),
            validity: self.law.validity(prefix, attributes, export.own),
        };
        // The link-local address is of the router's own
        // wire; elsewhere it is another's or nobody's.
        let next_hop = match attributes.next_hop() {
            NextHop::V6(global, _) => NextHop::V6(global, None),
            NextHop::V4(address) => NextHop::V4(address),
        };
        let variants = export.export(&route, roster).variants.into_iter();
        let written = |attributes: &[PathAttribute]| {
            let attributes = Attributes::new(next_hop, attributes).ok()?;
            Some(Announced { router_id: self.router_id, attributes }.to_bytes())
        };
        let mut versions: Vec<Version> = variants
            .filter_map(|variant| Some((written(&variant.attributes)?, variant.members)))
            .collect();
        if versions.is_empty() {
            versions.extend(written(&list).map(|route| (route, roster.none())));
        }
        versions
    }

    /// Changes what exports depend on, and tells all that
    /// this may concern, whether it differs or not.
    fn change_exports(
        &mut self,
        concerns: impl Fn(Prefix) -> bool,
        changes: &mut Changes,
        change: impl FnOnce(&mut Self),
    ) {
        let exports = |table: &Self| -> Vec<(Prefix, Vec<Version>)> {
            let own = table.own.iter().filter(|(prefix, _)| concerns(**prefix));
            own.map(|(prefix, attributes)| (*prefix, table.exports(*prefix, attributes))).collect()
        };
        let before = exports(self);
        change(self);
        for ((prefix, now), (_, before)) in exports(self).into_iter().zip(before) {
            self.tell(prefix, &before, now, changes);
        }
    }

    fn variants_of(&self, prefix: Prefix, count: usize) -> Vec<u8> {
        self.variants.get(&prefix).cloned().unwrap_or_else(|| (0..count as u8).collect())
    }

    /// Tells the exchange all versions, and which there were besides. A version that was there
    /// keeps its number, whatever others come before it: it is a destination of its own, and who
    /// has the route from there loses it for no moment.
    fn tell(
        &mut self,
        prefix: Prefix,
        before: &[Version],
        now: Vec<Version>,
        changes: &mut Changes,
    ) {
        let old: BTreeMap<u8, &Version> =
            self.variants_of(prefix, before.len()).into_iter().zip(before).collect();
        let number_of = |route: &[u8]| old.iter().find(|(_, it)| it.0 == route).map(|it| *it.0);
        let kept: Vec<Option<u8>> = now.iter().map(|(route, _)| number_of(route)).collect();
        let mut free = (0..=u8::MAX).filter(|number| !kept.contains(&Some(*number)));
        let numbers: Vec<u8> =
            kept.iter().filter_map(|kept| kept.or_else(|| free.next())).collect();
        for (variant, (route, members)) in numbers.iter().copied().zip(now) {
            let place = Place { prefix, variant };
            changes.exchange.push(ForExchange::Announce { place, route, members });
        }
        for variant in old.into_keys().filter(|variant| !numbers.contains(variant)) {
            changes.exchange.push(ForExchange::Withdraw(Place { prefix, variant }));
        }
        if (0..).zip(&numbers).all(|(place, number)| place == *number) {
            self.variants.remove(&prefix);
        } else {
            self.variants.insert(prefix, numbers);
        }
    }

    /// Has routes judged again, and those anew that are being judged.
    fn judge_again(&mut self, concerns: impl Fn(Prefix) -> bool, changes: &mut Changes) {
        let mut again = BTreeMap::new();
        for (prefix, destination) in self.others.iter().filter(|(prefix, _)| concerns(**prefix)) {
            let offers = destination.offers.iter();
            again.extend(offers.map(|(key, it)| ((*prefix, *key), (it.announced.clone(), false))));
        }
        let waiting = self.waiting.iter().filter(|(_, waiting)| waiting.is_new);
        again.extend(waiting.map(|(at, waiting)| (*at, (waiting.announced.clone(), true))));
        for ((prefix, key), (announced, is_new)) in again {
            self.send_to_judge(prefix, key, announced, is_new, changes);
        }
    }

    /// Candidates by rank, with their classes.
    fn ranked(&self, destination: &Destination) -> Vec<(Key, u32)> {
        let (keys, candidates): (Vec<Key>, Vec<Candidate>) =
            destination.candidates().map(|(key, taken)| (key, taken.candidate)).unzip();
        let ranked = self.law.import.ranking.rank(&candidates);
        ranked.into_iter().map(|ranked| (keys[ranked.index], ranked.class)).collect()
    }

    /// The route that the router is to have.
    fn decide(&self, destination: &Destination) -> Option<Key> {
        let ranked = self.ranked(destination);
        let best = || ranked.iter().take_while(|(_, class)| *class == 0).map(|(key, _)| *key);
        let chosen = |key: &Key| destination.selected.get(&key.variant) == Some(&key.from);
        let given = destination.given.as_ref().map(|(key, _)| *key);
        if !self.participates {
            return best().next();
        }
        // Until the exchange has chosen anew, what is as good as the best stays.
        best().find(chosen).or_else(|| best().find(|key| Some(*key) == given)).or(best().next())
    }

    /// Gives the router what it is to have, if that is something else than it has.
    fn settle(&mut self, prefix: Prefix, changes: &mut Changes) {
        let Some(destination) = self.others.get(&prefix) else { return };
        let decided = if self.is_suspended { None } else { self.decide(destination) };
        let now = decided.and_then(|key| {
            let taken = destination.offers.get(&key)?.taken.as_ref().ok()?;
            Some((key, taken.attributes.clone()))
        });
        let attributes =
            |given: &Option<(Key, Attributes)>| given.as_ref().map(|(_, it)| it.clone());
        match (attributes(&destination.given), attributes(&now)) {
            (before, Some(now)) if before.as_ref() != Some(&now) => {
                changes.router.push(Order::Announce(prefix, now));
            }
            (Some(_), None) => changes.router.push(Order::Withdraw(prefix)),
            _ => {}
        }
        if destination.offers.is_empty() {
            self.others.remove(&prefix);
        } else if let Some(destination) = self.others.get_mut(&prefix) {
            destination.given = now;
            let Destination { offers, selected, .. } = destination;
            selected.retain(|variant, from| {
                offers.get(&Key { variant: *variant, from: *from }).is_some()
            });
        }
    }
}

impl Destination {
    fn candidates(&self) -> impl Iterator<Item = (Key, &Taken)> {
        let taken = self.offers.iter().map(|(key, offer)| (*key, offer.taken.as_ref()));
        taken.filter_map(|(key, taken)| Some((key, taken.ok()?)))
    }
}

impl Offer {
    /// As its announcer made it, if it could be read.
    pub fn attributes(&self) -> Option<&Attributes> {
        self.announced.as_ref().ok().map(|announced| &announced.attributes)
    }
}

/// An offer and what became of it.
pub struct Shown<'a> {
    /// Where it leads.
    pub prefix: Prefix,
    /// Which of the routes to it.
    pub key: Key,
    /// The route.
    pub offer: &'a Offer,
    /// Its class, if it was taken.
    pub class: Option<u32>,
    /// Whether the exchange chose it.
    pub is_selected: bool,
    /// Whether the router has it.
    pub is_given: bool,
}

/// Numbers of routes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// The router's.
    pub own: usize,
    /// Destinations of others' routes.
    pub prefixes: usize,
    /// Routes of others.
    pub offers: usize,
    /// Of those, the ones that may be used.
    pub taken: usize,
    /// The ones that the router has.
    pub given: usize,
    /// Validated payloads of the RPKI.
    pub vrps: usize,
    /// Routes of others that are being judged.
    pub waiting: usize,
}

#[cfg(test)]
mod tests;
