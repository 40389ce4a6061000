//! What a look-up asks, and how long it takes, from a domain within a domain to one on the other
//! side: at its own RIB, at that of the domain around, and at that of the one around both.

use rhumb_sim::{Disk, StationId, World};

use crate::figures::Figures;
use crate::machine::median;
use crate::nest::{self, Domain, SETTLING, delivery_ms};

/// What some first messages took.
struct Asked {
    /// Most questions that one of them had handed on to a domain around: by the sender's own RIB,
    /// by that around it, and by that of the other side.
    most: [u64; LEVELS],
    median_ms: f64,
}

impl Asked {
    fn by(world: &mut World, from: StationId, to: &[StationId], ribs: [StationId; LEVELS]) -> Self {
        let climbs = |world: &World| {
            ribs.map(|rib| world.rib_counters(rib).map_or(0, |counters| counters.climbs))
        };
        let mut most = [0; LEVELS];
        let mut took = Vec::with_capacity(to.len());
        for to in to {
            let before = climbs(world);
            took.push(delivery_ms(world, from, *to).expect("what is exported is reached"));
            let after = climbs(world);
            most = std::array::from_fn(|level| most[level].max(after[level] - before[level]));
        }
        Self { most, median_ms: median(took.into_iter()) }
    }
}

pub(crate) fn measure(figures: &mut Figures) {
    let mut world = nest::world(1);
    let empty = |_: &rhumb_rib::Config, _, _: &[_]| Disk::default();
    let outermost = Domain::add(&mut world, None, 0, empty);
    let sea = Domain::add(&mut world, Some(&outermost), 1, empty);
    let land = Domain::add(&mut world, Some(&outermost), 1, empty);
    let port = Domain::add(&mut world, Some(&sea), 1, empty);
    let (a, neighbour) = (port.add_node(&mut world, 0), port.add_node(&mut world, 0));
    let nodes: Vec<_> = (0..=NAMES).map(|_| land.add_node(&mut world, 0)).collect();
    world.run(SETTLING);
    let ribs = [port.rib, sea.rib, land.rib];
    // The borders of the domains around are looked up once, and then known.
    let first = Asked::by(&mut world, a, &nodes[..1], ribs);
    let cold = Asked::by(&mut world, a, &nodes[1..], ribs);
    // That the neighbour itself is known on the other side is not what is asked here.
    Asked::by(&mut world, neighbour, &nodes[..1], ribs);
    let warm = Asked::by(&mut world, neighbour, &nodes[1..], ribs);

    for (name, asked, bound) in [
        ("first", &first, None),
        ("cold", &cold, Some((1.0, "one question a level"))),
        ("warm", &warm, Some((0.0, "none"))),
    ] {
        for (level, whose) in ["own", "around", "there"].into_iter().enumerate() {
            let what = match level {
                0 => "questions handed on for one name, the most: by the sender's own RIB",
                1 => "the same by the RIB of the domain around",
                _ => "the same by the RIB of the other side, which asks who the sender is",
            };
            let (name, value) = (format!("look_up_{name}_{whose}"), asked.most[level] as f64);
            match bound {
                Some(bound) => figures.hold(&name, what, (value, "questions"), bound),
                None => figures.add(&name, what, value, "questions"),
            }
        }
        let what = "until the first PDU to a name arrives, median";
        figures.add(&format!("look_up_{name}_ms"), what, asked.median_ms, "ms");
    }
    let links = 6.0 * nest::DELAY.as_secs_f64() * 1e3;
    figures.add("look_up_links_ms", "what the links alone take: six of them", links, "ms");
}

const NAMES: usize = 20;
const LEVELS: usize = 3;
