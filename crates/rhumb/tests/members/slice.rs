//! Real routes: who of the members announced what, and
//! what they might have asked of the route servers.

use super::{EXCHANGE, MEMBERS, Make};

/// A route that a member announces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Announced {
    pub(crate) prefix: String,
    pub(crate) origin: String,
    pub(crate) med: Option<u32>,
    /// Behind the member's own AS.
    pub(crate) tail: Vec<u32>,
    pub(crate) standard: Vec<(u16, u16)>,
    pub(crate) large: Vec<(u32, u32, u32)>,
}

/// What a member announces. The data has no communities: some are put on by the place in the list,
/// of every kind that route servers take for orders, and others that are to pass.
pub(crate) fn of(asn: u32) -> Vec<Announced> {
    let lines: Vec<&str> = DATA.lines().filter(|line| !line.starts_with('#')).collect();
    let announcers = |prefix: &str| {
        let same = |line: &&&str| line.split(' ').next() == Some(prefix);
        lines.iter().filter(same).count()
    };
    let own = lines.iter().filter(|line| line.split(' ').nth(3) == Some(&asn.to_string()));
    let own = own.enumerate().map(|(at, line)| {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap().to_owned();
        let (prefix, origin, med) = (word(), word(), word().parse().ok());
        // OpenBGPD sends no MED of its own.
        let med = med.filter(|_| !MEMBERS.contains(&(asn, Make::OpenBgpd)));
        let tail = words.skip(1).map(|asn| asn.parse().unwrap()).collect();
        let (standard, large) = communities(asn, at, announcers(&prefix) == 1);
        Announced { prefix, origin, med, tail, standard, large }
    });
    own.collect()
}

type Communities = (Vec<(u16, u16)>, Vec<(u32, u32, u32)>);

fn communities(asn: u32, at: usize, alone: bool) -> Communities {
    let own = MEMBERS.iter().position(|(other, _)| *other == asn).unwrap();
    let other = |steps: usize| MEMBERS[(own + steps) % MEMBERS.len()].0;
    let (mut standard, mut large) = (Vec::new(), Vec::new());
    if at % 5 == 1 {
        standard.push((asn as u16, at as u16));
        large.push((asn, 1, at as u32));
    }
    if at % 7 == 3 {
        large.push((EXCHANGE, 0, other(1)));
    }
    if at % 11 == 5 {
        standard.push((0, other(2) as u16));
    }
    if at % 13 == 6 {
        large.push((EXCHANGE, 0, 0));
        large.push((EXCHANGE, 1, other(4)));
    }
    if at % 13 == 9 {
        standard.push((0, EXCHANGE as u16));
        standard.push((EXCHANGE as u16, other(2) as u16));
    }
    // A plain route server compares before it prepends: only where
    // there is nothing to compare both mean the same.
    if alone && at % 3 == 1 {
        large.push((EXCHANGE, 101, other(3)));
        large.push((EXCHANGE, 102, other(4)));
    }
    (standard, large)
}

const DATA: &str = include_str!("ixbr.txt");
