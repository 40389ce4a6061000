//! Adj-RIB-In: what the neighbour has announced (RFC 4271, section 3.2).

use crate::attributes::Attributes;
use crate::family::Family;
use crate::intern::Interner;
use crate::table::{Key, Table};

/// The routes of a neighbour.
#[derive(Debug, Default)]
pub(crate) struct RibIn {
    routes: Table<Route>,
    attributes: Interner,
}

#[derive(Debug)]
struct Route {
    attributes: Attributes,
    /// Kept from before a restart or a refresh; the neighbour has not said it again yet.
    is_stale: bool,
}

impl RibIn {
    /// The shared attributes with these bytes.
    pub(crate) fn intern(&mut self, canonical: &[u8]) -> Attributes {
        self.attributes.intern(canonical)
    }

    /// Whether the route is new or differs from the one before.
    pub(crate) fn announce(&mut self, key: Key, attributes: &Attributes) -> bool {
        let route = Route { attributes: attributes.clone(), is_stale: false };
        let before = self.routes.insert(key, route);
        before.is_none_or(|before| !before.attributes.is_same(attributes))
    }

    /// Whether there was such a route.
    pub(crate) fn withdraw(&mut self, key: Key) -> bool {
        self.routes.remove(key).is_some()
    }

    pub(crate) fn len(&self, family: Family) -> usize {
        self.routes.len(family)
    }

    /// Number of different attributes in use.
    pub(crate) fn distinct_attributes(&self) -> usize {
        self.attributes.len()
    }

    pub(crate) fn get(&self, key: Key) -> Option<&Attributes> {
        self.routes.get(key).map(|route| &route.attributes)
    }

    pub(crate) fn iter(&self, family: Family) -> impl Iterator<Item = (Key, &Attributes)> {
        self.routes.iter(family).map(|(key, route)| (key, &route.attributes))
    }

    /// From now on, what is not said again goes with the next [`RibIn::remove_stale`].
    pub(crate) fn mark_stale(&mut self, family: Family) {
        for (_, route) in self.routes.iter_mut(family) {
            route.is_stale = true;
        }
    }

    pub(crate) fn stale(&self, family: Family) -> usize {
        self.routes.iter(family).filter(|(_, route)| route.is_stale).count()
    }

    pub(crate) fn remove_stale(&mut self, family: Family) -> Vec<Key> {
        self.routes.extract(family, |route| route.is_stale)
    }

    pub(crate) fn remove_all(&mut self, family: Family) -> Vec<Key> {
        self.routes.extract(family, |_| true)
    }
}
