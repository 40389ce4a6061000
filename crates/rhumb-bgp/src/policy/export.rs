//! Who may get a member's route.
//!
//! Three things say so, and all must agree: the member's rules, its lists, and the communities on
//! the route that are meant for the exchange's route servers, as the big exchanges document them.
//! The latter are taken off before the route goes on, or they would tell receivers the policy. With
//! `rs` for the exchange's AS and `peer` for the AS of a member:
//!
//! | standard | large | extended, rt or ro | means |
//! |---|---|---|---|
//! | `0:peer` | `rs:0:peer` | `rt:0:peer` | not to peer |
//! | `rs:peer` | `rs:1:peer` | `rt:rs:peer` | to peer |
//! | `0:rs` | `rs:0:0` | `rt:0:rs` | to nobody |
//! | `rs:rs` | `rs:1:0` | `rt:rs:rs` | to everybody |
//! | | `rs:101:peer`, `rs:102:peer`, `rs:103:peer` | | prepended once, twice, three times to peer; `peer` 0 is everybody |
//!
//! What is said about a peer counts more than what is said about all, and a prohibition more than a
//! permission; without any word, it goes to everybody. A prepend for a peer counts more than one
//! for all, and the longest counts. Kinds of communities count alike.
//!
//! BLACKHOLE, NO_EXPORT and NO_ADVERTISE are not for the exchange: they pass to receivers
//! unchanged, as RFC 7947, section 2.2.4, asks of route servers.

use std::collections::HashSet;

use rustbgpd_wire::PathAttribute;

use super::community::Community;
use super::member::{Member, MemberSet, Roster};
use super::route::Route;
use super::rule::{Policy, prepend};

/// A member's policy for its own routes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportPolicy {
    /// The member's rules.
    pub rules: Policy,
    /// Who may get anything at all.
    pub allowed: MemberSet,
    /// The member itself, which gets nothing from itself.
    pub own: Member,
    /// The AS of the exchange's route servers, which communities for them name.
    pub exchange_asn: u32,
}

/// Who gets a route, and in which versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// At most four, each with somebody who gets it; nobody gets two.
    pub variants: Vec<Variant>,
}

/// A version of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    /// Who gets it.
    pub members: MemberSet,
    /// As they get them.
    pub attributes: Vec<PathAttribute>,
}

impl ExportPolicy {
    /// Who gets a route; nobody gets one that a rule refuses.
    pub fn export(&self, route: &Route<'_>, roster: &Roster) -> Export {
        let Some(edits) = self.rules.decide(route).accepted else {
            return Export { variants: Vec::new() };
        };
        let mut allowed = self.allowed.clone();
        allowed.remove(self.own);
        if let Some(recipients) = &edits.recipients {
            allowed.intersect(recipients);
        }
        let mut attributes = route.attributes.to_vec();
        edits.apply(&mut attributes, route.announcer_asn);
        let mut orders = Orders::default();
        Community::remove_from(&mut attributes, |community| {
            orders.take(community, self.exchange_asn)
        });
        let by_prepends = orders.obey(allowed, roster);
        let variants = (0u8..).zip(by_prepends).filter(|(_, members)| !members.is_empty());
        let variants = variants.map(|(times, members)| {
            let mut attributes = attributes.clone();
            prepend(&mut attributes, times, route.announcer_asn);
            Variant { members, attributes }
        });
        Export { variants: variants.collect() }
    }
}

/// What the communities for the exchange say.
#[derive(Debug, Default)]
struct Orders {
    /// ASes of peers.
    prohibited: HashSet<u32>,
    permitted: HashSet<u32>,
    /// Its counterpart means nothing: who is named no other way gets the route.
    to_nobody: bool,
    /// By how often, less one.
    prepended: [HashSet<u32>; 3],
}

impl Orders {
    /// Whether a community is for the exchange `rs`; then it is noted.
    fn take(&mut self, community: Community, rs: u32) -> bool {
        let order = match community {
            Community::Standard(community) => two_part(community >> 16, community & 0xFFFF, rs),
            Community::Extended(community) => {
                let two_parts = community.route_target().or_else(|| community.route_origin());
                two_parts.and_then(|(high, low)| two_part(high, low, rs))
            }
            Community::Large(community) if community.global_admin == rs => {
                Some((community.local_data1, community.local_data2))
            }
            Community::Large(_) => None,
        };
        let Some(order) = order else { return false };
        // All of the exchange's own numbers are taken, also those that mean nothing here: others
        // must not speak in its name.
        match order {
            (0, EVERYBODY) => self.to_nobody = true,
            (0, peer) => self.prohibited.extend([peer]),
            (1, peer) => self.permitted.extend([peer]),
            (times @ 101..=103, peer) => self.prepended[times as usize - 101].extend([peer]),
            _ => {}
        }
        true
    }

    /// Of those allowed, who gets the route, by how often it is prepended.
    fn obey(&self, allowed: MemberSet, roster: &Roster) -> [MemberSet; 4] {
        let ports = |asns: &HashSet<u32>| {
            asns.iter().flat_map(|asn| roster.of_asn(*asn)).copied().collect::<Vec<Member>>()
        };
        let mut members = allowed;
        if self.to_nobody {
            members.intersect(&roster.set(ports(&self.permitted)));
        }
        members.subtract(&roster.set(ports(&self.prohibited)));
        let mut by_prepends: [MemberSet; 4] = std::array::from_fn(|_| roster.none());
        for (times, whom) in (1..).zip(&self.prepended) {
            // Later ones are longer, and count.
            for member in ports(whom).into_iter().filter(|member| members.contains(*member)) {
                by_prepends.iter_mut().for_each(|set| set.remove(member));
                by_prepends[times].insert(member);
            }
        }
        for special in &by_prepends {
            members.subtract(special);
        }
        let for_all =
            (1..).zip(&self.prepended).filter(|(_, whom)| whom.contains(&EVERYBODY)).last();
        by_prepends[for_all.map_or(0, |(times, _)| times)].unite(&members);
        by_prepends
    }
}

/// What a community of two numbers says, as a large one would say it: what, and to whom.
fn two_part(high: u32, peer: u32, rs: u32) -> Option<(u32, u32)> {
    let what = match high {
        0 => 0,
        high if high == rs => 1,
        _ => return None,
    };
    Some(match peer {
        peer if peer == rs => (what, EVERYBODY),
        // Only large communities mean everybody by it.
        EVERYBODY => NO_ORDER,
        peer => (what, peer),
    })
}

/// In place of a peer's AS.
const EVERYBODY: u32 = 0;
/// For the exchange, and without a meaning.
const NO_ORDER: (u32, u32) = (u32::MAX, 0);
