//! The circuits' functions in the clear, each for one
//! lane: what both parties' results must open to.

use super::{CLASS_BITS, LOAD_BITS};

/// What a member gets of a route's key.
#[must_use]
pub fn export_all(permitted: bool, key: u128) -> u128 {
    if permitted { key } else { 0 }
}

/// One route, as a member and the exchange see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preference {
    /// Whether its announcer lets the member have it.
    pub permitted: bool,
    /// The member's class of it, below `1 << CLASS_BITS`.
    pub class: u8,
    /// The exchange's preference, below `1 << LOAD_BITS`.
    pub load: u8,
}

impl Preference {
    fn combined(self) -> u8 {
        debug_assert!(self.class >> CLASS_BITS == 0 && self.load >> LOAD_BITS == 0);
        self.class << LOAD_BITS | self.load
    }
}

/// The place of [`Form::Paper`](super::Form::Paper)'s choice: the first of
/// those with the highest preference above zero.
#[must_use]
pub fn paper(routes: &[Preference]) -> Option<usize> {
    best(routes, |route| route.permitted && route.combined() > 0)
}

/// The place of [`Form::Index`](super::Form::Index)'s choice:
/// the first of those with the highest preference.
#[must_use]
pub fn index(routes: &[Preference]) -> Option<usize> {
    best(routes, |route| route.permitted)
}

/// The place of [`Form::TopClass`](super::Form::TopClass)'s choice, where `wanted` is what the
/// member says to be of its best class, and `order` lists places, the exchange's preferred first.
#[must_use]
pub fn top_class(permitted: &[bool], wanted: &[bool], order: &[u32]) -> Option<usize> {
    let is_possible = |place: usize| {
        let at = |bits: &[bool]| bits.get(place).copied().unwrap_or(false);
        at(permitted) && at(wanted)
    };
    order.iter().map(|place| *place as usize).find(|place| is_possible(*place))
}

fn best(routes: &[Preference], counts: impl Fn(&Preference) -> bool) -> Option<usize> {
    let mut best: Option<(usize, u8)> = None;
    for (place, route) in routes.iter().enumerate().filter(|(_, route)| counts(route)) {
        if best.is_none_or(|(_, preference)| route.combined() > preference) {
            best = Some((place, route.combined()));
        }
    }
    best.map(|(place, _)| place)
}
