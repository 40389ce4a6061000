//! A table among four members: 0 is our own, AS 64500; the others are 64501 to 64503.

use super::*;
use rhumb_bgp::policy::prefix::parse_prefix;
use rhumb_bgp::policy::{Policy, Ranking, Unwanted, Verdict, Vrp};
use rhumb_bgp::wire::{AsPath, AsPathSegment, LargeCommunity, Origin, PathAttribute};
use std::collections::BTreeSet;

const EXCHANGE: u32 = 64499;
const OWN: Member = Member(0);

fn policies() -> Policies {
    let roster = Roster::new(vec![64500, 64501, 64502, 64503]).unwrap();
    let rules = |verdict| Policy::new(Vec::new(), verdict).unwrap();
    Policies {
        export: ExportPolicy {
            rules: rules(Verdict::Accept),
            allowed: roster.all(),
            own: OWN,
            exchange_asn: EXCHANGE,
        },
        import: ImportPolicy {
            rules: rules(Verdict::Accept),
            own_asn: 64500,
            first_asn: true,
            blackhole: false,
            ranking: Ranking::default(),
        },
        roster,
    }
}

fn prefix() -> Prefix {
    parse_prefix("192.0.2.0/24").unwrap()
}

fn place(variant: u8) -> Place {
    Place { prefix: prefix(), variant }
}

fn attributes(path: &[u32], large: &[(u32, u32, u32)]) -> Attributes {
    let path = AsPath { segments: vec![AsPathSegment::AsSequence(path.to_vec())] };
    let mut list = vec![PathAttribute::Origin(Origin::Igp), PathAttribute::AsPath(path)];
    if !large.is_empty() {
        let large = large.iter().map(|(a, b, c)| LargeCommunity::new(*a, *b, *c));
        list.push(PathAttribute::LargeCommunities(large.collect()));
    }
    Attributes::new(NextHop::V4([198, 51, 100, 7].into()), &list).unwrap()
}

/// What member `from` sends.
fn route(from: u16, tail: &[u32]) -> Vec<u8> {
    let path = [&[64500 + u32::from(from)], tail].concat();
    let router_id = [10, 0, 0, from as u8].into();
    Announced { router_id, attributes: attributes(&path, &[]) }.to_bytes()
}

/// Does something, has judged what comes of it, and gives what changed.
fn changed(table: &mut Table, act: impl FnOnce(&mut Table, &mut Changes)) -> Changes {
    let mut changes = Changes::default();
    act(table, &mut changes);
    for case in std::mem::take(&mut changes.cases) {
        table.judged(case.judge(), &mut changes);
    }
    changes
}

/// The first AS of the path that the router is given; `None` for a withdrawal.
fn given(changes: &Changes) -> Vec<Option<u32>> {
    let first = |attributes: &Attributes| match &attributes.as_path().segments[0] {
        AsPathSegment::AsSequence(numbers) => numbers[0],
        AsPathSegment::AsSet(_) => 0,
    };
    let given = changes.router.iter().map(|order| match order {
        Order::Announce(_, attributes) => Some(first(attributes)),
        Order::Withdraw(_) => None,
        other => panic!("{other:?}"),
    });
    given.collect()
}

fn offer(table: &mut Table, from: u16, tail: &[u32]) -> Vec<Option<u32>> {
    let bytes = route(from, tail);
    given(&changed(table, |it, changes| it.offered(place(0), Member(from), &bytes, changes)))
}

fn members(change: &ForExchange) -> Vec<u16> {
    match change {
        ForExchange::Announce { members, .. } => members.iter().map(|member| member.0).collect(),
        ForExchange::Withdraw(_) => Vec::new(),
    }
}

/// A newcomer gets the route prepended less often than the one who has it:
/// whoever has it keeps it from the same destination.
#[test]
fn a_version_keeps_its_number_when_the_roster_grows() {
    let mut table = Table::new(policies(), false);
    let to = [64503, 64504].map(|asn| (EXCHANGE, 1, asn));
    let orders = [(EXCHANGE, 0, 0), to[0], to[1], (EXCHANGE, 102, 64503)];
    let attributes = attributes(&[64500], &orders);
    let told = |changes: Changes| -> Vec<(u8, Vec<u16>)> {
        changes.exchange.iter().map(|it| (it.place().variant, members(it))).collect()
    };
    let first = changed(&mut table, |it, changes| it.announced(prefix(), attributes, changes));
    assert_eq!(told(first), [(0, vec![3])]);
    let mut longer = policies();
    longer.roster = Roster::new(vec![64500, 64501, 64502, 64503, 64504]).unwrap();
    longer.export.allowed = longer.roster.all();
    let grown = changed(&mut table, |it, changes| it.set_policies(longer, changes));
    assert_eq!(told(grown), [(1, vec![4]), (0, vec![3])]);
    let all: Vec<u8> = table.all_exports().map(|it| it.place().variant).collect();
    assert_eq!(all, [1, 0]);
    // Without the newcomer again, and then gone.
    let shrunk = changed(&mut table, |it, changes| it.set_policies(policies(), changes));
    assert_eq!(told(shrunk), [(0, vec![3]), (1, vec![])]);
    let gone = changed(&mut table, |it, changes| it.withdrawn(prefix(), changes));
    assert_eq!(told(gone), [(0, vec![])]);
    assert!(table.variants.is_empty());
}

#[test]
fn what_the_router_changes_is_told_to_the_exchange() {
    let mut table = Table::new(policies(), false);
    let announce = |table: &mut Table, large: &[(u32, u32, u32)]| {
        let attributes = attributes(&[64500], large);
        changed(table, |it, changes| it.announced(prefix(), attributes, changes)).exchange
    };
    let first = announce(&mut table, &[]);
    assert_eq!(first.iter().map(members).collect::<Vec<_>>(), [[1, 2, 3]]);
    assert_eq!(announce(&mut table, &[]), []);
    // To all but one, and for another one prepended: two versions.
    let orders = [(EXCHANGE, 0, 64501), (EXCHANGE, 102, 64503)];
    let versions = announce(&mut table, &orders);
    assert_eq!(versions.iter().map(members).collect::<Vec<_>>(), [[2], [3]]);
    let ForExchange::Announce { place: second, route, .. } = &versions[1] else { panic!() };
    assert_eq!(second.variant, 1);
    let prepended = Announced::parse(prefix(), route).unwrap().attributes;
    assert_eq!(prepended.as_path().len(), 3);
    assert!(!prepended.list().iter().any(|it| matches!(it, PathAttribute::LargeCommunities(_))));
    // Back to one: the other version goes.
    let back = announce(&mut table, &[]);
    assert_eq!(back.len(), 2);
    assert_eq!(back[1], ForExchange::Withdraw(place(1)));

    let mut others = policies();
    others.export.allowed.remove(Member(2));
    let after = changed(&mut table, |it, changes| it.set_policies(others.clone(), changes));
    assert_eq!(after.exchange.iter().map(members).collect::<Vec<_>>(), [[1, 3]]);
    let same = changed(&mut table, |it, changes| it.set_policies(others.clone(), changes));
    assert_eq!(same.exchange, after.exchange, "whether it differs is not to be seen");
    let gone = changed(&mut table, |it, changes| it.withdrawn(prefix(), changes));
    assert_eq!(gone.exchange, [ForExchange::Withdraw(place(0))]);
    assert_eq!(table.all_exports().count(), 0);
}

/// What both parties see of a change: the destinations of words, in their order, and which are
/// withdrawals. The rest is shared between them.
fn seen(changes: &Changes) -> Vec<(Place, bool)> {
    let of = |it: &ForExchange| (it.place(), matches!(it, ForExchange::Announce { .. }));
    changes.exchange.iter().map(of).collect()
}

/// Both parties watch a member while its router announces, a site is added, its policy changes, and
/// the RPKI says something else.
#[test]
fn what_a_member_announces_and_when_tells_no_policy() {
    let watch = |allowed: &dyn Fn(&Roster) -> MemberSet, denies: &[(u32, u32, u32)]| {
        let with = |asns: &[u32]| {
            let mut policies = policies();
            policies.roster = Roster::new(asns.to_vec()).unwrap();
            policies.export.allowed = allowed(&policies.roster);
            policies
        };
        let few = [64500, 64501, 64502, 64503];
        let mut table = Table::new(with(&few), true);
        let mut all = Vec::new();
        for third in 0..20 {
            let prefix = parse_prefix(&format!("10.0.{third}.0/24")).unwrap();
            // Some are for fewer, by their communities.
            let orders = if third % 3 == 0 { denies } else { &[] };
            let attributes = attributes(&[64500, 64510], orders);
            let told = changed(&mut table, |it, changes| it.announced(prefix, attributes, changes));
            all.push(seen(&told));
        }
        for roster in [&few[..], &[64500, 64501, 64502, 64503, 64504], &few] {
            let policies = with(roster);
            let told = changed(&mut table, |it, changes| it.set_policies(policies, changes));
            all.push(seen(&told));
        }
        let vrp = Vrp::new(parse_prefix("10.0.0.0/20").unwrap(), 24, 64510).unwrap();
        let vrps = Vrps::new(&BTreeSet::from([vrp]));
        all.push(seen(&changed(&mut table, |it, changes| it.set_vrps(vrps, changes))));
        all
    };
    let open = watch(&|roster| roster.all(), &[]);
    assert_eq!(open.iter().map(Vec::len).sum::<usize>(), 20 + 3 * 20 + 16);
    assert_eq!(watch(&|roster| roster.none(), &[]), open, "nobody may have anything");
    assert_eq!(watch(&|roster| roster.set([Member(1)]), &[]), open, "no newcomer may have it");
    let to_nobody = [(EXCHANGE, 0, 0)];
    assert_eq!(watch(&|roster| roster.all(), &to_nobody), open, "some are for nobody");
    let not_to_the_newcomer = [(EXCHANGE, 0, 64504)];
    assert_eq!(watch(&|roster| roster.all(), &not_to_the_newcomer), open, "some not for one");
}

#[test]
fn the_router_has_the_best_and_hears_of_differences_alone() {
    let mut table = Table::new(policies(), false);
    assert_eq!(offer(&mut table, 2, &[64510]), [Some(64502)]);
    assert_eq!(offer(&mut table, 3, &[64510]), [], "the lower router is as good, and there");
    assert_eq!(offer(&mut table, 1, &[64510, 64511]), []);
    assert_eq!(offer(&mut table, 1, &[64510]), [Some(64501)]);
    assert_eq!(
        table.classes(place(0)).iter().map(|(it, class)| (it.0, *class)).collect::<Vec<_>>(),
        [(1, 0), (2, 0), (3, 0)]
    );
    let retract = |table: &mut Table, from: u16| {
        given(&changed(table, |it, changes| it.retracted(place(0), Member(from), changes)))
    };
    assert_eq!(retract(&mut table, 1), [Some(64502)]);
    assert_eq!(retract(&mut table, 3), []);
    assert_eq!(retract(&mut table, 2), [None]);
    assert_eq!(retract(&mut table, 2), []);
    assert_eq!(table.counts(), Counts::default());
}

#[test]
fn the_exchange_chooses_within_the_best_class_and_nowhere_else() {
    let mut table = Table::new(policies(), true);
    offer(&mut table, 1, &[64510]);
    offer(&mut table, 2, &[64510]);
    offer(&mut table, 3, &[64510, 64511]);
    let select = |table: &mut Table, from: Option<u16>| {
        let from = from.map(Member);
        given(&changed(table, |it, changes| it.selected(place(0), from, changes)))
    };
    assert_eq!(select(&mut table, Some(2)), [Some(64502)]);
    assert_eq!(select(&mut table, Some(3)), [], "it is not of the best class");
    assert_eq!(select(&mut table, Some(1)), [Some(64501)]);
    // What is in use stays until there is a new choice, though another one is as good.
    assert_eq!(select(&mut table, None), []);
    // The chosen one is gone: the rest is the member's own.
    select(&mut table, Some(2));
    let gone = changed(&mut table, |it, changes| it.retracted(place(0), Member(2), changes));
    assert_eq!(given(&gone), [Some(64501)]);
    // It is back, and was not chosen again.
    assert_eq!(offer(&mut table, 2, &[64510]), []);
}

#[test]
fn what_cannot_be_used_is_refused_and_says_why() {
    let mut table = Table::new(policies(), true);
    let refusal = |table: &Table| {
        let shown = table.offers(Some(prefix()));
        (shown.len(), shown[0].offer.taken.as_ref().err().copied())
    };
    assert_eq!(offer(&mut table, 1, &[64500]), []);
    assert_eq!(refusal(&table), (1, Some(Refusal::Policy(Unwanted::Loop))));
    let foreign = route(2, &[]);
    let changes = changed(&mut table, |it, changes| {
        it.offered(place(0), Member(1), &foreign, changes);
    });
    assert_eq!(given(&changes), []);
    assert_eq!(refusal(&table), (1, Some(Refusal::Policy(Unwanted::FirstAsn))));
    changed(&mut table, |it, changes| it.offered(place(0), Member(1), b"nonsense", changes));
    assert_eq!(refusal(&table), (1, Some(Refusal::Malformed(Malformed::Version))));
    changed(&mut table, |it, changes| {
        it.retracted(place(0), Member(1), changes);
        it.offered(place(0), Member(9), &route(9, &[]), changes);
    });
    assert_eq!(refusal(&table), (1, Some(Refusal::Stranger)));
    assert_eq!(table.counts(), Counts { prefixes: 1, offers: 1, ..Counts::default() });
}

#[test]
fn a_change_of_validity_or_policy_moves_what_it_touches() {
    let mut strict = policies();
    strict.import.ranking.validity_first = true;
    let mut table = Table::new(strict, false);
    offer(&mut table, 1, &[64510]);
    offer(&mut table, 2, &[64511]);
    let valid = BTreeSet::from([Vrp::new(prefix(), 24, 64511).unwrap()]);
    let changes = changed(&mut table, |it, changes| it.set_vrps(Vrps::new(&valid), changes));
    assert_eq!(given(&changes), [Some(64502)]);
    let elsewhere = parse_prefix("203.0.113.0/24").unwrap();
    let more = valid.into_iter().chain(Vrp::new(elsewhere, 24, 1)).collect();
    let changes = changed(&mut table, |it, changes| it.set_vrps(Vrps::new(&more), changes));
    assert_eq!(given(&changes), []);
    let changes = changed(&mut table, |it, changes| it.set_policies(policies(), changes));
    assert_eq!(given(&changes), [Some(64501)], "validity does not count any more");
}

#[test]
fn versions_of_one_route_are_ranked_together_and_the_exchange_away_takes_all_back() {
    let mut table = Table::new(policies(), true);
    offer(&mut table, 1, &[64510, 64511]);
    let bytes = route(2, &[64510]);
    let changes = changed(&mut table, |it, changes| {
        it.offered(place(1), Member(2), &bytes, changes);
    });
    assert_eq!(given(&changes), [Some(64502)]);
    let away = changed(&mut table, |it, changes| it.suspend(true, changes));
    assert_eq!(given(&away), [None]);
    assert_eq!(offer(&mut table, 3, &[]), [], "nothing is used meanwhile");
    let back = changed(&mut table, |it, changes| it.suspend(false, changes));
    assert_eq!(given(&back), [Some(64503)]);
}

/// What takes long to be judged holds up nothing: until it is, the router keeps what it has, and
/// the exchange is told what is known.
#[test]
fn a_route_counts_once_it_is_judged_and_not_before() {
    let mut table = Table::new(policies(), true);
    offer(&mut table, 1, &[64510, 64511]);
    let classes = |table: &Table| -> Vec<u16> {
        table.classes(place(0)).iter().map(|(member, _)| member.0).collect()
    };
    let send = |table: &mut Table, from: u16, tail: &[u32]| {
        let mut changes = Changes::default();
        table.offered(place(0), Member(from), &route(from, tail), &mut changes);
        assert_eq!(given(&changes), []);
        changes.cases.remove(0)
    };
    let judge = |table: &mut Table, case: Case| {
        let judged = case.judge();
        given(&changed(table, |it, changes| it.judged(judged, changes)))
    };
    let (first, second) = (send(&mut table, 1, &[64510]), send(&mut table, 2, &[]));
    assert!(
        classes(&table).is_empty(),
        "the former route of 1 is no more, the others are not judged"
    );
    assert!(table.is_waiting(place(0), Member(2)) && !table.has_judged_all());
    // One is replaced meanwhile, one retracted: what is judged then is of no account.
    let third = send(&mut table, 1, &[64510, 64511, 64512]);
    changed(&mut table, |it, changes| it.retracted(place(0), Member(2), changes));
    assert_eq!(judge(&mut table, first), []);
    assert_eq!(judge(&mut table, second), []);
    assert_eq!(judge(&mut table, third), [Some(64501)]);
    assert_eq!((classes(&table), table.has_judged_all()), (vec![1], true));
    assert_eq!(
        table.counts(),
        Counts { prefixes: 1, offers: 1, taken: 1, given: 1, ..Counts::default() }
    );

    // Other policies while something is being judged: the case by the former law is of no account.
    let fourth = send(&mut table, 2, &[]);
    let mut strict = policies();
    strict.import.own_asn = 64502;
    let again = changed(&mut table, |it, changes| it.set_policies(strict, changes));
    assert_eq!(given(&again), []);
    assert_eq!(judge(&mut table, fourth), []);
    assert_eq!(table.offers(None).iter().filter(|it| it.offer.taken.is_ok()).count(), 1);
}
