//! The map of a RIB's log: what is held of each name, hashed into a trie (`rhumb_trust::log`).
//!
//! Leaves stand in pages of up to [`PAGE`], in order of their positions; above the pages are nodes
//! with the hash of what is below them. Nodes within a page are not kept: to hash one page again
//! costs less than to keep a hash for each of its names. A page that is full is split where its
//! positions first differ; one that is empty goes, and its node with it.
//!
//! 1. [`Map::set`] and [`Map::remove`] change leaves, and mark what is above them.
//! 2. [`Map::root`] hashes what was marked, once however many names changed below it.
//! 3. [`Map::path`] goes down to where a name is, or would be.
//!
//! INVARIANT: the root depends on what is held alone, not on the order in which it came: nor on
//! where pages begin.

use rhumb_trust::log::{bit_of, leaf, node, position_of, value_of};
use rhumb_wire::Name;
use rhumb_wire::log::{Hash, MapPath, NOTHING, PathEnd};

/// What is held of each name.
#[derive(Debug, Default)]
pub struct Map {
    pages: Vec<Page>,
    nodes: Vec<Node>,
    /// Places of pages and nodes that are not in use.
    free_pages: Vec<u32>,
    free_nodes: Vec<u32>,
    top: Option<Below>,
    names: u64,
}

/// What a side of a node, or the top, leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Below {
    Page(u32),
    Node(u32),
}

#[derive(Debug)]
struct Node {
    bit: u8,
    /// Of what is below, unless that has changed since.
    hash: Option<Hash>,
    sides: [Below; 2],
}

#[derive(Debug, Default)]
struct Page {
    /// In order of their positions.
    leaves: Vec<Leaf>,
    hash: Option<Hash>,
}

#[derive(Debug, Clone, Copy)]
struct Leaf {
    position: Hash,
    /// Of what is held.
    value: Hash,
}

impl Map {
    /// How many names there are.
    pub fn names(&self) -> u64 {
        self.names
    }

    /// Holds these fingerprints of a name from now on, in place of what it held; nothing if there
    /// are none.
    pub fn set(&mut self, name: &Name, fingerprints: &[Hash]) {
        match fingerprints {
            [] => self.remove(name),
            fingerprints => {
                self.put(Leaf { position: position_of(name), value: value_of(fingerprints) });
            }
        }
    }

    /// Holds nothing of a name any more.
    pub fn remove(&mut self, name: &Name) {
        let position = position_of(name);
        let Some((way, page)) = self.way_to(&position) else { return };
        let leaves = &mut self.pages[page as usize].leaves;
        let Ok(at) = leaves.binary_search_by(|leaf| leaf.position.cmp(&position)) else { return };
        leaves.remove(at);
        self.names -= 1;
        if !leaves.is_empty() {
            return self.mark(&way, page);
        }
        self.pages[page as usize] = Page::default();
        self.free_pages.push(page);
        // The other side takes the place of the node that led to both.
        let Some(&(parent, side)) = way.last() else {
            self.top = None;
            return;
        };
        let other = self.nodes[parent as usize].sides[1 - side];
        self.free_nodes.push(parent);
        self.lead(&way[..way.len() - 1], other);
    }

    /// The hash of all that is held; of nothing when the map is empty.
    pub fn root(&mut self) -> Hash {
        self.top.map_or(NOTHING, |top| self.hash(top))
    }

    /// The way to a name, of which these fingerprints are held, if any. The root was taken since
    /// the last change.
    pub fn path(&self, name: &Name, fingerprints: Vec<Hash>) -> MapPath {
        let position = position_of(name);
        let Some((way, page)) = self.way_to(&position) else {
            return MapPath { end: PathEnd::Nothing, branches: Vec::new() };
        };
        let mut branches: Vec<(u8, Hash)> = way
            .iter()
            .map(|&(at, side)| {
                let Node { bit, sides, .. } = self.nodes[at as usize];
                (bit, self.kept_hash(sides[1 - side]))
            })
            .collect();
        let mut leaves = &self.pages[page as usize].leaves[..];
        while let Some((bit, [zero, one])) = split(leaves) {
            let (on, other) = if bit_of(&position, bit) { (one, zero) } else { (zero, one) };
            branches.push((bit, hash_of(other)));
            leaves = on;
        }
        let end = match leaves[0] {
            Leaf { position: at, .. } if at == position => PathEnd::Name(fingerprints),
            Leaf { position, value } => PathEnd::Other { position, value },
        };
        MapPath { end, branches }
    }

    /// Bytes that the map takes on the heap, but for what the allocator adds.
    pub fn bytes(&self) -> usize {
        let leaves: usize = self.pages.iter().map(|page| page.leaves.capacity()).sum();
        let free = self.free_pages.capacity() + self.free_nodes.capacity();
        leaves * size_of::<Leaf>()
            + self.pages.capacity() * size_of::<Page>()
            + self.nodes.capacity() * size_of::<Node>()
            + free * size_of::<u32>()
    }
}

// Changes.
impl Map {
    fn put(&mut self, leaf: Leaf) {
        let Some((way, page)) = self.way_to(&leaf.position) else {
            let page = self.add_page(Page { leaves: vec![leaf], hash: None });
            self.top = Some(Below::Page(page));
            self.names = 1;
            return;
        };
        // All leaves below a node have the bits before its own in common, so any of them tells
        // whether the new one has, too.
        let first = self.pages[page as usize].leaves[0].position;
        let differs = first_difference(&first, &leaf.position);
        let above = way.iter().position(|&(at, _)| {
            differs.is_some_and(|differs| differs < self.nodes[at as usize].bit)
        });
        match (above, differs) {
            (Some(above), Some(bit)) => {
                let below = Below::Node(way[above].0);
                self.names += 1;
                let page = self.add_page(Page { leaves: vec![leaf], hash: None });
                let sides = match bit_of(&leaf.position, bit) {
                    false => [Below::Page(page), below],
                    true => [below, Below::Page(page)],
                };
                let node = self.add_node(Node { bit, hash: None, sides });
                self.lead(&way[..above], Below::Node(node));
            }
            _ => self.put_in(&way, page, leaf),
        }
    }

    fn put_in(&mut self, way: &[(u32, usize)], page: u32, leaf: Leaf) {
        let leaves = &mut self.pages[page as usize].leaves;
        match leaves.binary_search_by(|it| it.position.cmp(&leaf.position)) {
            Ok(at) if leaves[at].value == leaf.value => return,
            Ok(at) => leaves[at].value = leaf.value,
            Err(at) => {
                if leaves.len() == leaves.capacity() {
                    // Doubling would leave half of it empty.
                    leaves.reserve_exact(GROWTH);
                }
                leaves.insert(at, leaf);
                self.names += 1;
            }
        }
        self.mark(way, page);
        if self.pages[page as usize].leaves.len() > PAGE {
            self.split_page(way, page);
        }
    }

    fn split_page(&mut self, way: &[(u32, usize)], page: u32) {
        let leaves = std::mem::take(&mut self.pages[page as usize].leaves);
        let Some((bit, halves)) = split(&leaves) else { return };
        let [zero, one] = halves.map(|half| {
            let mut leaves = Vec::with_capacity(half.len().next_multiple_of(GROWTH));
            leaves.extend_from_slice(half);
            Page { leaves, hash: None }
        });
        self.pages[page as usize] = zero;
        let sides = [Below::Page(page), Below::Page(self.add_page(one))];
        let node = self.add_node(Node { bit, hash: None, sides });
        self.lead(way, Below::Node(node));
    }

    /// Has the end of a way lead there, instead of where it led.
    fn lead(&mut self, way: &[(u32, usize)], there: Below) {
        match way.last() {
            Some(&(at, side)) => self.nodes[at as usize].sides[side] = there,
            None => self.top = Some(there),
        }
        way.iter().for_each(|&(at, _)| self.nodes[at as usize].hash = None);
    }

    /// A page was changed.
    fn mark(&mut self, way: &[(u32, usize)], page: u32) {
        self.pages[page as usize].hash = None;
        way.iter().for_each(|&(at, _)| self.nodes[at as usize].hash = None);
    }

    fn add_page(&mut self, page: Page) -> u32 {
        match self.free_pages.pop() {
            Some(at) => {
                self.pages[at as usize] = page;
                at
            }
            None => {
                self.pages.push(page);
                (self.pages.len() - 1) as u32
            }
        }
    }

    fn add_node(&mut self, node: Node) -> u32 {
        match self.free_nodes.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        }
    }
}

// Ways and hashes.
impl Map {
    /// The nodes from the top on by the bits of a position, each with the side that was taken, and
    /// the page that they lead to.
    fn way_to(&self, position: &Hash) -> Option<(Vec<(u32, usize)>, u32)> {
        let (mut way, mut below) = (Vec::new(), self.top?);
        loop {
            match below {
                Below::Page(page) => return Some((way, page)),
                Below::Node(at) => {
                    let node = &self.nodes[at as usize];
                    let side = usize::from(bit_of(position, node.bit));
                    way.push((at, side));
                    below = node.sides[side];
                }
            }
        }
    }

    /// The hash of what is below; what was marked is hashed again.
    fn hash(&mut self, below: Below) -> Hash {
        match below {
            Below::Page(at) => {
                let Page { leaves, hash } = &mut self.pages[at as usize];
                *hash.get_or_insert_with(|| hash_of(leaves))
            }
            Below::Node(at) => {
                let Node { bit, hash, sides } = self.nodes[at as usize];
                if let Some(hash) = hash {
                    return hash;
                }
                // As deep as positions can differ, 256 at most.
                let [zero, one] = sides.map(|side| self.hash(side));
                let hash = node(bit, &zero, &one);
                self.nodes[at as usize].hash = Some(hash);
                hash
            }
        }
    }

    fn kept_hash(&self, below: Below) -> Hash {
        let kept = match below {
            Below::Page(at) => self.pages[at as usize].hash,
            Below::Node(at) => self.nodes[at as usize].hash,
        };
        kept.expect("invariant: the root was taken since the last change")
    }
}

/// The hash of leaves that are not none.
fn hash_of(leaves: &[Leaf]) -> Hash {
    match split(leaves) {
        Some((bit, [zero, one])) => node(bit, &hash_of(zero), &hash_of(one)),
        None => leaf(&leaves[0].position, &leaves[0].value),
    }
}

/// Where leaves first differ, and the two sides of that; nothing for one alone.
fn split(leaves: &[Leaf]) -> Option<(u8, [&[Leaf]; 2])> {
    let [first, .., last] = leaves else { return None };
    let bit = first_difference(&first.position, &last.position)?;
    let (zero, one) = leaves.split_at(leaves.partition_point(|it| !bit_of(&it.position, bit)));
    Some((bit, [zero, one]))
}

/// The first bit in which two positions differ.
fn first_difference(one: &Hash, other: &Hash) -> Option<u8> {
    let at = one.iter().zip(other).position(|(one, other)| one != other)?;
    Some((at * 8) as u8 + (one[at] ^ other[at]).leading_zeros() as u8)
}

/// Leaves of a page: half of them on average are hashed for one proof, 2 us, and what a page takes
/// besides its leaves is 3 bytes for each.
const PAGE: usize = 32;
/// What a page grows by.
const GROWTH: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rhumb_trust::log::{Roots, held_of, verify_head};
    use rhumb_trust::{Identity, Verified};
    use rhumb_wire::Role;
    use rhumb_wire::log::Head;
    use std::collections::BTreeMap;

    fn name(number: u16) -> Name {
        let mut name = Name([0; 32]);
        name.0[..2].copy_from_slice(&number.to_be_bytes());
        name
    }

    fn held(number: u16, version: u8) -> Vec<Hash> {
        vec![[version; 32], position_of(&name(number))]
    }

    fn head(rib: &Identity, map: &mut Map) -> Verified<Head> {
        let (root, names) = (map.root(), map.names());
        let (epoch, began_ms, made_ms, history) = (0, 0, 0, NOTHING);
        let roots = Roots { epoch, began_ms, made_ms, names, map: root, history };
        verify_head(rib.sign_head(roots).unwrap(), rib.metadata(), 0).unwrap()
    }

    /// The same held, from nothing, in order of the names.
    fn anew(model: &BTreeMap<u16, u8>) -> Map {
        let mut map = Map::default();
        model
            .iter()
            .for_each(|(number, version)| map.set(&name(*number), &held(*number, *version)));
        map
    }

    #[test]
    fn each_of_a_thousand_is_shown_and_each_other_one_is_absent() {
        let rib = Identity::generate(Role::Rib, 0).unwrap();
        let mut map = Map::default();
        for number in 0..1000 {
            map.set(&name(number), &held(number, 1));
        }
        let head = head(&rib, &mut map);
        for number in 0..2000 {
            let is_there = number < 1000;
            let shown = if is_there { held(number, 1) } else { Vec::new() };
            let path = map.path(&name(number), shown.clone());
            assert_eq!(held_of(&head, &name(number), &path), Some(&shown[..]), "{number}");
            // Neither can be made of the other.
            let end = match is_there {
                true => PathEnd::Other { position: [7; 32], value: value_of(&shown) },
                false => PathEnd::Name(held(number, 1)),
            };
            let lie = MapPath { end, ..path.clone() };
            assert_eq!(held_of(&head, &name(number), &lie), None, "{number}");
            let stale = MapPath { end: PathEnd::Name(held(number, 0)), ..path };
            assert_eq!(held_of(&head, &name(number), &stale), None, "{number}");
        }
    }

    #[test]
    fn a_name_of_a_map_takes_less_than_eighty_bytes_and_a_way_grows_with_the_logarithm() {
        let mut map = Map::default();
        for number in 0..u16::MAX {
            map.set(&name(number), &held(number, 1));
        }
        map.root();
        let each = map.bytes() / usize::from(u16::MAX);
        assert!((64..=80).contains(&each), "{each} bytes");
        let longest = (0..u16::MAX).map(|it| map.path(&name(it), Vec::new()).branches.len()).max();
        assert!(longest.is_some_and(|it| (16..48).contains(&it)), "{longest:?} for 2^16 names");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_root_is_of_what_is_held_whatever_happened_before(
            steps in prop::collection::vec((any::<bool>(), 0u16..300, any::<u8>()), 1..800),
        ) {
            let mut map = Map::default();
            let mut model = BTreeMap::new();
            for (count, (stays, number, version)) in steps.into_iter().enumerate() {
                match stays {
                    true => {
                        map.set(&name(number), &held(number, version));
                        model.insert(number, version);
                    }
                    false => {
                        map.remove(&name(number));
                        model.remove(&number);
                    }
                }
                if count % 50 == 0 {
                    prop_assert_eq!(map.root(), anew(&model).root());
                }
            }
            prop_assert_eq!(map.names(), model.len() as u64);
            let mut other = anew(&model);
            prop_assert_eq!(map.root(), other.root());
            for number in 0..300 {
                prop_assert_eq!(
                    map.path(&name(number), Vec::new()),
                    other.path(&name(number), Vec::new())
                );
            }
            model.keys().for_each(|number| map.set(&name(*number), &[]));
            prop_assert_eq!((map.root(), map.names()), (NOTHING, 0));
            prop_assert_eq!(map.free_pages.len(), map.pages.len());
            prop_assert_eq!(map.free_nodes.len(), map.nodes.len());
        }
    }
}
