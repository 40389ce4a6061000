//! Who may get a member's routes.

use proptest::prelude::*;
use rhumb_bgp::policy::path::path_text;
use rhumb_bgp::policy::{
    Community, Conditions, Edits, ExportPolicy, Member, Policy, Roster, Rule, Verdict,
};
use rustbgpd_wire::PathAttribute;

use super::{attributes, roster, route};

/// The exchange's.
const RS: u32 = 6695;
/// Of members 0 to 5; 64,502 has two ports. The fourth is one that only large communities can name.
const ASNS: [u32; 6] = [64_500, 64_501, 64_502, 64_502, 4_200_000_001, 64_505];

fn policy(roster: &Roster, rules: Vec<Rule>) -> ExportPolicy {
    let rules = Policy::new(rules, Verdict::Accept).unwrap();
    ExportPolicy { rules, allowed: roster.all(), own: Member(0), exchange_asn: RS }
}

/// Members by version: prepends, and who gets it.
fn exported(policy: &ExportPolicy, roster: &Roster, communities: &str) -> Vec<(usize, Vec<u16>)> {
    let attributes = attributes("64500 1", communities);
    let export = policy.export(&route("10.0.0.0/8", &attributes), roster);
    let prepends = |attributes: &[PathAttribute]| {
        let path = attributes.iter().find_map(|attribute| match attribute {
            PathAttribute::AsPath(path) => Some(path_text(path)),
            _ => None,
        });
        path.unwrap().split(' ').filter(|asn| *asn == "64500").count() - 1
    };
    let variants = export.variants.iter();
    variants
        .map(|it| (prepends(&it.attributes), it.members.iter().map(|member| member.0).collect()))
        .collect()
}

#[test]
fn the_table_of_communities() {
    let roster = roster(&ASNS);
    let policy = policy(&roster, Vec::new());
    let all = vec![1, 2, 3, 4, 5];
    for (communities, expected) in [
        // Nothing said, and things said to others.
        ("", vec![(0, all.clone())]),
        ("65000:1 no-export blackhole 6696:0:64501 rt:1:64501", vec![(0, all.clone())]),
        // Not to somebody.
        ("0:64501", vec![(0, vec![2, 3, 4, 5])]),
        ("6695:0:64502", vec![(0, vec![1, 4, 5])]),
        ("rt:0:64505", vec![(0, vec![1, 2, 3, 4])]),
        ("ro:0:4200000001", vec![(0, vec![1, 2, 3, 5])]),
        ("0:64501 6695:0:4200000001", vec![(0, vec![2, 3, 5])]),
        // To nobody, but.
        ("0:6695", vec![]),
        ("6695:0:0", vec![]),
        ("rt:0:6695", vec![]),
        ("0:6695 6695:64501", vec![(0, vec![1])]),
        ("6695:0:0 6695:1:4200000001 rt:6695:64505", vec![(0, vec![4, 5])]),
        ("0:6695 6695:6695", vec![]),
        ("6695:0:0 6695:1:0", vec![]),
        // To somebody, and no word about the others.
        ("6695:64501", vec![(0, all.clone())]),
        ("6695:1:0", vec![(0, all.clone())]),
        // A prohibition counts more than a permission.
        ("0:64501 6695:64501", vec![(0, vec![2, 3, 4, 5])]),
        ("0:6695 6695:1:64501 rt:0:64501", vec![]),
        // Prepends.
        ("6695:101:64501", vec![(0, vec![2, 3, 4, 5]), (1, vec![1])]),
        ("6695:102:0", vec![(2, all.clone())]),
        ("6695:101:0 6695:103:64502", vec![(1, vec![1, 4, 5]), (3, vec![2, 3])]),
        ("6695:103:0 6695:101:64501", vec![(1, vec![1]), (3, vec![2, 3, 4, 5])]),
        (
            "6695:101:64501 6695:102:64501 6695:103:64505",
            vec![(0, vec![2, 3, 4]), (2, vec![1]), (3, vec![5])],
        ),
        ("6695:101:64501 0:64501", vec![(0, vec![2, 3, 4, 5])]),
        // Numbers that are nobody's.
        ("6695:104:64501 6695:7:7 0:7 0:0 rt:0:0 6695:0", vec![(0, all)]),
    ] {
        assert_eq!(exported(&policy, &roster, communities), expected, "{communities}");
    }
}

#[test]
fn what_is_for_the_exchange_is_taken_off() {
    let roster = roster(&ASNS);
    let policy = policy(&roster, Vec::new());
    let kept = "65000:1 no-export blackhole no-advertise 6696:0:64501 1:6695:0 rt:1:64501";
    let said =
        "0:64501 6695:64502 0:1 6695:9 6695:0:7 6695:101:64502 6695:900:1 rt:0:1 ro:6695:64502";
    let given = attributes("64500 1", &format!("{said} {kept}"));
    let export = policy.export(&route("10.0.0.0/8", &given), &roster);
    assert_eq!(export.variants.len(), 2);
    for variant in &export.variants {
        let mut left: Vec<String> =
            Community::of(&variant.attributes).map(|it| it.to_string()).collect();
        let mut expected: Vec<&str> = kept.split(' ').collect();
        left.sort();
        expected.sort_unstable();
        assert_eq!(left, expected);
    }
}

#[test]
fn rules_and_lists_restrict_and_communities_restrict_further() {
    let roster = roster(&ASNS);
    let to = |members: &[u16]| Some(roster.set(members.iter().copied().map(Member)));
    let community = |text: &str| Conditions {
        communities: vec![text.parse().unwrap()],
        ..Conditions::default()
    };
    let rule = |when, verdict, edits| Rule { when, verdict, edits };
    let tag: Vec<Community> = vec!["6695:0:64502".parse().unwrap()];
    let mut policy = policy(
        &roster,
        vec![
            rule(community("65000:666"), Verdict::Reject, Edits::default()),
            rule(
                community("65000:1"),
                Verdict::Accept,
                Edits { recipients: to(&[0, 1, 4]), ..Edits::default() },
            ),
            rule(
                community("65000:2"),
                Verdict::Accept,
                Edits { add_communities: tag, prepend: 1, ..Edits::default() },
            ),
        ],
    );
    policy.allowed = roster.set([0, 1, 2, 3, 4].map(Member));
    assert_eq!(exported(&policy, &roster, ""), [(0, vec![1, 2, 3, 4])]);
    assert_eq!(exported(&policy, &roster, "65000:666"), []);
    assert_eq!(exported(&policy, &roster, "65000:1"), [(0, vec![1, 4])]);
    assert_eq!(exported(&policy, &roster, "65000:1 0:64501"), [(0, vec![4])]);
    // A permission does not reach beyond the lists.
    assert_eq!(exported(&policy, &roster, "65000:1 0:6695 6695:64505 6695:64502"), []);
    // Rules speak the exchange's language, too, and their prepends come on top.
    assert_eq!(exported(&policy, &roster, "65000:2 6695:102:64501"), [(1, vec![4]), (3, vec![1])]);
}

/// The definition, per peer, as route servers evaluate it.
fn by_definition(communities: &[Community], peer: u32) -> Option<usize> {
    let said = |large: (u32, u32), standard: Option<(u32, u32)>| {
        communities.iter().any(|community| match community {
            Community::Standard(it) => standard == Some((it >> 16, it & 0xFFFF)),
            Community::Large(it) => {
                (it.global_admin, it.local_data1, it.local_data2) == (RS, large.0, large.1)
            }
            Community::Extended(it) => standard.is_some() && it.route_target() == standard,
        })
    };
    if said((0, peer), Some((0, peer))) {
        return None;
    }
    if !said((1, peer), Some((RS, peer))) && said((0, 0), Some((0, RS))) {
        return None;
    }
    let times = |whom| (1..=3usize).rev().find(|times| said((100 + *times as u32, whom), None));
    Some(times(peer).or_else(|| times(0)).unwrap_or(0))
}

fn some_communities() -> impl Strategy<Value = Vec<Community>> {
    let peer = proptest::sample::select(vec![0, 64_501, 64_502, 64_505, RS]);
    let text = (peer, 0..8u8).prop_map(|(peer, kind)| match kind {
        0 => format!("0:{peer}"),
        1 => format!("{RS}:{peer}"),
        2 => format!("rt:0:{peer}"),
        3 => format!("rt:{RS}:{peer}"),
        // Its own number among large ones is no peer's.
        4 => format!("{RS}:0:{}", peer % RS),
        5 => format!("{RS}:1:{}", peer % RS),
        kind => format!("{RS}:{}:{}", 95 + u32::from(kind), peer),
    });
    proptest::collection::vec(text.prop_map(|text| text.parse().unwrap()), 0..6)
}

proptest! {
    #[test]
    fn everybody_gets_what_the_definition_says(communities in some_communities()) {
        let roster = roster(&ASNS);
        let policy = policy(&roster, Vec::new());
        let mut attributes = attributes("64500 1", "");
        for community in &communities {
            community.add_to(&mut attributes);
        }
        let export = policy.export(&route("10.0.0.0/8", &attributes), &roster);
        for (member, asn) in roster.iter().skip(1) {
            let got: Vec<&_> = export.variants.iter().filter(|it| it.members.contains(member)).collect();
            prop_assert!(got.len() <= 1);
            let prepends = got.first().map(|it| match &it.attributes[1] {
                PathAttribute::AsPath(path) => path.len() - 2,
                other => panic!("{other:?}"),
            });
            prop_assert_eq!(prepends, by_definition(&communities, asn), "AS {}", asn);
        }
        prop_assert!(export.variants.iter().all(|it| !it.members.contains(Member(0))));
    }
}
