//! A table of routes by prefix and path identifier.
//!
//! A B-tree: it needs no secret against chosen keys, gives the same order in each run, and holds
//! the paths to one prefix side by side.

use std::collections::BTreeMap;

use rustbgpd_wire::{Ipv4Prefix, Ipv6Prefix, Prefix};

use crate::family::Family;

/// Routes of both families.
#[derive(Debug)]
pub(crate) struct Table<V> {
    v4: BTreeMap<(Ipv4Prefix, Path), V>,
    v6: BTreeMap<(Ipv6Prefix, Path), V>,
}

/// A path identifier without alignment, so that keys are small; ordered as the number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Path([u8; 4]);

/// What a route is found by: its prefix and, with add-path, which of several it is.
pub(crate) type Key = (Prefix, u32);

impl<V> Default for Table<V> {
    fn default() -> Self {
        Self { v4: BTreeMap::new(), v6: BTreeMap::new() }
    }
}

impl<V> Table<V> {
    pub(crate) fn insert(&mut self, (prefix, path): Key, value: V) -> Option<V> {
        match prefix {
            Prefix::V4(prefix) => self.v4.insert((prefix, path.into()), value),
            Prefix::V6(prefix) => self.v6.insert((prefix, path.into()), value),
        }
    }

    pub(crate) fn remove(&mut self, (prefix, path): Key) -> Option<V> {
        match prefix {
            Prefix::V4(prefix) => self.v4.remove(&(prefix, path.into())),
            Prefix::V6(prefix) => self.v6.remove(&(prefix, path.into())),
        }
    }

    pub(crate) fn get_mut(&mut self, (prefix, path): Key) -> Option<&mut V> {
        match prefix {
            Prefix::V4(prefix) => self.v4.get_mut(&(prefix, path.into())),
            Prefix::V6(prefix) => self.v6.get_mut(&(prefix, path.into())),
        }
    }

    pub(crate) fn get(&self, (prefix, path): Key) -> Option<&V> {
        match prefix {
            Prefix::V4(prefix) => self.v4.get(&(prefix, path.into())),
            Prefix::V6(prefix) => self.v6.get(&(prefix, path.into())),
        }
    }

    pub(crate) fn len(&self, family: Family) -> usize {
        match family {
            Family::Ipv4 => self.v4.len(),
            Family::Ipv6 => self.v6.len(),
        }
    }

    pub(crate) fn iter(&self, family: Family) -> impl Iterator<Item = (Key, &V)> {
        let (v4, v6) = match family {
            Family::Ipv4 => (Some(&self.v4), None),
            Family::Ipv6 => (None, Some(&self.v6)),
        };
        let v4 = v4
            .into_iter()
            .flatten()
            .map(|((prefix, path), value)| ((Prefix::V4(*prefix), path.number()), value));
        let v6 = v6
            .into_iter()
            .flatten()
            .map(|((prefix, path), value)| ((Prefix::V6(*prefix), path.number()), value));
        v4.chain(v6)
    }

    pub(crate) fn iter_mut(&mut self, family: Family) -> impl Iterator<Item = (Key, &mut V)> {
        let (v4, v6) = match family {
            Family::Ipv4 => (Some(&mut self.v4), None),
            Family::Ipv6 => (None, Some(&mut self.v6)),
        };
        let v4 = v4
            .into_iter()
            .flatten()
            .map(|((prefix, path), value)| ((Prefix::V4(*prefix), path.number()), value));
        let v6 = v6
            .into_iter()
            .flatten()
            .map(|((prefix, path), value)| ((Prefix::V6(*prefix), path.number()), value));
        v4.chain(v6)
    }

    /// Removes the routes of a family for which `is_gone` holds, and gives their keys.
    pub(crate) fn extract(
        &mut self,
        family: Family,
        mut is_gone: impl FnMut(&V) -> bool,
    ) -> Vec<Key> {
        let mut gone = Vec::new();
        match family {
            Family::Ipv4 => self.v4.retain(|(prefix, path), value| {
                let stays = !is_gone(value);
                if !stays {
                    gone.push((Prefix::V4(*prefix), path.number()));
                }
                stays
            }),
            Family::Ipv6 => self.v6.retain(|(prefix, path), value| {
                let stays = !is_gone(value);
                if !stays {
                    gone.push((Prefix::V6(*prefix), path.number()));
                }
                stays
            }),
        }
        gone
    }
}

impl Path {
    const fn number(self) -> u32 {
        u32::from_be_bytes(self.0)
    }
}

impl From<u32> for Path {
    fn from(number: u32) -> Self {
        Self(number.to_be_bytes())
    }
}
