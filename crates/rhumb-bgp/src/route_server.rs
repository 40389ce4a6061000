//! The table of a plain route server, sans-IO: what each client announces, who may have it, and
//! what is best for each of the others.
//!
//! What the private service has for a client competes with
//! what the others announce, for this client alone.
//!
//! Export policies are the communities that route servers know ([`crate::policy::export`]). The
//! best path is picked for each client among those that it may have (RFC 7947, section 2.3.2.1):
//! that another client may not have a route hides no other route from it.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;

use crate::policy::{
    Candidate, ExportPolicy, Member, MemberSet, Policy, Ranking, Roster, Route, RpkiValidation,
    Verdict,
};
use crate::wire::{PathAttribute, Prefix};
use crate::{Attributes, NextHop};

/// All routes.
pub struct Table {
    exchange_asn: u32,
    /// None of the exchange's own.
    rules: Policy,
    roster: Roster,
    /// Who may get a client's routes at all.
    allowed: Vec<MemberSet>,
    /// BGP identifiers.
    ids: Vec<Ipv4Addr>,
    routes: HashMap<Prefix, BTreeMap<Member, Entry>>,
    /// What the private service has for each client.
    offered: Vec<HashMap<Prefix, (Candidate, Attributes)>>,
    /// What each client was given.
    given: Vec<HashMap<Prefix, Attributes>>,
}

/// A client's route.
struct Entry {
    candidate: Candidate,
    /// Who may have it, and how.
    variants: Vec<(MemberSet, Attributes)>,
}

/// A client is to have another route to a prefix, or none.
#[derive(Debug, PartialEq, Eq)]
pub struct Change {
    /// The client.
    pub whose: Member,
    /// Where to.
    pub prefix: Prefix,
    /// As it gets the route.
    pub best: Option<Attributes>,
}

impl Table {
    /// Of these clients, and for each of them those who may get its routes at all.
    pub fn new(exchange_asn: u32, clients: Roster, allowed: Vec<MemberSet>) -> Self {
        let count = clients.len();
        Self {
            allowed,
            exchange_asn,
            rules: Policy::new(Vec::new(), Verdict::Accept)
                .expect("invariant: no rules are within all bounds"),
            roster: clients,
            ids: vec![Ipv4Addr::UNSPECIFIED; count],
            routes: HashMap::new(),
            offered: vec![HashMap::new(); count],
            given: vec![HashMap::new(); count],
        }
    }

    /// A client has told its identifier, which decides between routes that are equal else.
    pub fn identify(&mut self, client: Member, id: Ipv4Addr) {
        self.ids[usize::from(client.0)] = id;
    }

    /// A client has this route now.
    pub fn announce(
        &mut self,
        client: Member,
        prefix: Prefix,
        attributes: &Attributes,
    ) -> Vec<Change> {
        let list = attributes.list();
        let next_hop = attributes.next_hop();
        let route = self.route(client, prefix, &list, next_hop);
        let policy = ExportPolicy {
            rules: self.rules.clone(),
            allowed: self.allowed[usize::from(client.0)].clone(),
            own: client,
            exchange_asn: self.exchange_asn,
        };
        let variants = policy.export(&route, &self.roster).variants.into_iter();
        // What has come over a session can be written again.
        let variants = variants.filter_map(|variant| {
            Some((variant.members, Attributes::new(next_hop, &variant.attributes).ok()?))
        });
        let candidate = Candidate::new(&route, 0, self.ids[usize::from(client.0)]);
        let entry = Entry { candidate, variants: variants.collect() };
        self.routes.entry(prefix).or_default().insert(client, entry);
        self.choose(prefix)
    }

    /// A client has its route no more.
    pub fn withdraw(&mut self, client: Member, prefix: Prefix) -> Vec<Change> {
        if let Some(entries) = self.routes.get_mut(&prefix) {
            entries.remove(&client);
            if entries.is_empty() {
                self.routes.remove(&prefix);
            }
        }
        self.choose(prefix)
    }

    /// The private service has this route for a client, and for nobody else.
    pub fn offer(
        &mut self,
        client: Member,
        prefix: Prefix,
        attributes: &Attributes,
    ) -> Vec<Change> {
        let list = attributes.list();
        let route = self.route(client, prefix, &list, attributes.next_hop());
        let candidate = Candidate::new(&route, 0, UNKNOWN_ID);
        let offered = (candidate, attributes.clone());
        self.offered[usize::from(client.0)].insert(prefix, offered);
        self.choose_for(client, prefix).into_iter().collect()
    }

    /// The private service has no route for a client any more.
    pub fn retract(&mut self, client: Member, prefix: Prefix) -> Vec<Change> {
        self.offered[usize::from(client.0)].remove(&prefix);
        self.choose_for(client, prefix).into_iter().collect()
    }

    fn route<'a>(
        &self,
        client: Member,
        prefix: Prefix,
        attributes: &'a [PathAttribute],
        next_hop: NextHop,
    ) -> Route<'a> {
        Route {
            prefix,
            attributes,
            next_hop: Some(next_hop.address()),
            announcer: client,
            announcer_asn: self.roster.asn(client).unwrap_or(0),
            validity: RpkiValidation::NotFound,
        }
    }

    /// What changes for whom.
    fn choose(&mut self, prefix: Prefix) -> Vec<Change> {
        let all: Vec<Member> = self.roster.iter().map(|(member, _)| member).collect();
        all.into_iter().filter_map(|whose| self.choose_for(whose, prefix)).collect()
    }

    fn choose_for(&mut self, whose: Member, prefix: Prefix) -> Option<Change> {
        let best = self.best_for(whose, prefix);
        let given = &mut self.given[usize::from(whose.0)];
        if best.as_ref() == given.get(&prefix) {
            return None;
        }
        match &best {
            Some(best) => drop(given.insert(prefix, best.clone())),
            None => drop(given.remove(&prefix)),
        }
        Some(Change { whose, prefix, best })
    }

    fn best_for(&self, whose: Member, prefix: Prefix) -> Option<Attributes> {
        let announced = self.routes.get(&prefix).into_iter().flat_map(BTreeMap::values);
        let announced = announced.filter_map(|entry| {
            let mut variants = entry.variants.iter();
            let (_, attributes) = variants.find(|(members, _)| members.contains(whose))?;
            Some((entry.candidate, attributes))
        });
        let offered = self.offered[usize::from(whose.0)].get(&prefix);
        let offered = offered.map(|(candidate, attributes)| (*candidate, attributes));
        let (candidates, attributes): (Vec<Candidate>, Vec<&Attributes>) =
            announced.chain(offered).unzip();
        let best = Ranking::default().rank(&candidates).first()?.index;
        Some(attributes[best].clone())
    }
}

/// Whose router a route of the private service comes from is not known here. Of routes that are
/// equal else, that of a client is taken.
const UNKNOWN_ID: Ipv4Addr = Ipv4Addr::BROADCAST;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::prefix::parse_prefix;
    use crate::wire::{AsPath, AsPathSegment, Origin, PathAttribute};

    const EXCHANGE: u32 = 64999;

    fn route(path: &[u32], communities: &[u32]) -> Attributes {
        let mut list = vec![
            PathAttribute::Origin(Origin::Igp),
            PathAttribute::AsPath(AsPath {
                segments: vec![AsPathSegment::AsSequence(path.to_vec())],
            }),
        ];
        if !communities.is_empty() {
            list.push(PathAttribute::Communities(communities.to_vec()));
        }
        Attributes::new(NextHop::V4([192, 0, 2, 9].into()), &list).unwrap()
    }

    fn prefix() -> Prefix {
        parse_prefix("198.51.100.0/24").unwrap()
    }

    fn table() -> Table {
        let clients = Roster::new(vec![64501, 64502, 64503, 64504]).unwrap();
        let all = || clients.all();
        let allowed = vec![all(), all(), all(), clients.set([Member(0)])];
        let mut table = Table::new(EXCHANGE, clients, allowed);
        for number in 0..4 {
            table.identify(Member(number), [10, 0, 0, 10 - number as u8].into());
        }
        table
    }

    fn told(changes: Vec<Change>) -> Vec<(u16, Option<Attributes>)> {
        changes.into_iter().map(|change| (change.whose.0, change.best)).collect()
    }

    #[test]
    fn each_client_gets_the_best_of_what_it_may_have() {
        let mut table = table();
        // Not to 64504.
        let short = route(&[64501], &[64504]);
        let plain = route(&[64501], &[]);
        let changes = told(table.announce(Member(0), prefix(), &short));
        assert_eq!(changes, [(1, Some(plain.clone())), (2, Some(plain.clone()))]);
        let long = route(&[64502, 65000], &[]);
        let changes = told(table.announce(Member(1), prefix(), &long));
        assert_eq!(changes, [(0, Some(long.clone())), (3, Some(long.clone()))]);
        // As long as the first one, and of a router with a lower identifier.
        let other = route(&[64503], &[]);
        let changes = told(table.announce(Member(2), prefix(), &other));
        assert_eq!(changes.len(), 3);
        assert!(changes.iter().all(|(_, best)| *best == Some(other.clone())));
        assert_eq!(changes.iter().map(|(whose, _)| *whose).collect::<Vec<_>>(), [0, 1, 3]);
        let changes = told(table.withdraw(Member(2), prefix()));
        assert_eq!(changes, [(0, Some(long.clone())), (1, Some(plain.clone())), (3, Some(long))]);
    }

    #[test]
    fn a_withdrawal_reaches_those_who_had_the_route_alone() {
        let mut table = table();
        // To 64502 alone.
        table.announce(Member(0), prefix(), &route(&[64501], &[EXCHANGE, EXCHANGE << 16 | 64502]));
        assert_eq!(told(table.withdraw(Member(0), prefix())), [(1, None)]);
        assert_eq!(told(table.withdraw(Member(0), prefix())), []);
        assert!(table.routes.is_empty() && table.given.iter().all(HashMap::is_empty));
    }

    #[test]
    fn a_list_of_recipients_counts_whatever_communities_say() {
        let mut table = table();
        let changes = told(table.announce(Member(3), prefix(), &route(&[64504], &[])));
        assert_eq!(changes.iter().map(|(whose, _)| *whose).collect::<Vec<_>>(), [0]);
        let barred = route(&[64504], &[64501]);
        assert_eq!(told(table.announce(Member(3), prefix(), &barred)), [(0, None)]);
    }

    #[test]
    fn what_the_private_service_has_for_a_client_is_for_it_alone() {
        let mut table = table();
        let private = route(&[64601, 65000], &[64501]);
        assert_eq!(told(table.offer(Member(2), prefix(), &private)), [(2, Some(private.clone()))]);
        // As good: that of a client.
        let plain = route(&[64501, 65000], &[]);
        let all = [1, 2, 3].map(|whose| (whose, Some(plain.clone())));
        assert_eq!(told(table.announce(Member(0), prefix(), &plain)), all);
        // Better, and from elsewhere the same as the client has.
        let short = route(&[64601], &[]);
        assert_eq!(told(table.offer(Member(2), prefix(), &short)), [(2, Some(short))]);
        assert_eq!(told(table.offer(Member(2), prefix(), &private)), [(2, Some(plain.clone()))]);
        assert_eq!(told(table.offer(Member(3), prefix(), &plain)), []);
        let gone = table.withdraw(Member(0), prefix());
        assert_eq!(told(gone), [(1, None), (2, Some(private))]);
        assert_eq!(told(table.retract(Member(2), prefix())), [(2, None)]);
        assert_eq!(told(table.retract(Member(3), prefix())), [(3, None)]);
        assert_eq!(told(table.retract(Member(3), prefix())), []);
        assert!(table.given.iter().all(HashMap::is_empty));
    }

    #[test]
    fn the_same_again_is_told_to_nobody() {
        let mut table = table();
        let it = route(&[64501], &[]);
        assert_eq!(table.announce(Member(0), prefix(), &it).len(), 3);
        assert_eq!(table.announce(Member(0), prefix(), &it), []);
    }
}
