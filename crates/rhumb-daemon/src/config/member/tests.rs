//! What the section `[member]` says, and how it is told what is wrong.

use rhumb_bgp::policy::{Member, Route, Unwanted};
use rhumb_bgp::wire::{AsPath, AsPathSegment, Origin, PathAttribute};
use rhumb_wire::Name;

use super::super::raw;
use super::super::tests::file;
use super::*;

fn name() -> Name {
    Name([7; 32])
}

/// What there must be.
fn least() -> String {
    format!(
        "[member]\nkey = \"k\"\nroster = \"r\"\nasn = 64500\nexchange_asn = 6695\nexchange = [\"{0}@127.0.0.1:1\"]\n\
         neutral = [\"{0}@127.0.0.1:2\"]\nbgp = {{ router = \"192.0.2.2\", id = \"192.0.2.3\" }}\n",
        name()
    )
}

fn settings(text: &str) -> Result<MemberSettings, String> {
    raw::parse(text).map_err(|fault| format!("line {}: {}", fault.line, fault.problem))?;
    file(text).member().map_err(|error| error.to_string())
}

fn with(more: &str) -> Result<MemberSettings, String> {
    settings(&format!("{}{more}\n", least()))
}

const SITES: [SiteName<'_>; 4] = [
    SiteName { member: "Own", site: "fra1", asn: 64_500 },
    SiteName { member: "Example Net", site: "fra1", asn: 64_501 },
    SiteName { member: "Example Net", site: "fra2", asn: 64_501 },
    SiteName { member: "Other", site: "fra1", asn: 64_502 },
];

fn attributes(path: &[u32], communities: &[u32]) -> Vec<PathAttribute> {
    let segments = vec![AsPathSegment::AsSequence(path.to_vec())];
    vec![
        PathAttribute::Origin(Origin::Igp),
        PathAttribute::AsPath(AsPath { segments }),
        PathAttribute::Communities(communities.to_vec()),
    ]
}

fn route(attributes: &[PathAttribute], announcer: u16) -> Route<'_> {
    Route {
        prefix: rhumb_bgp::policy::prefix::parse_prefix("192.0.2.0/24").unwrap(),
        attributes,
        next_hop: None,
        announcer: Member(announcer),
        announcer_asn: SITES[usize::from(announcer)].asn,
        validity: rhumb_bgp::policy::RpkiValidation::NotFound,
    }
}

/// Who gets a route of the member under these rules.
fn recipients(settings: &MemberSettings) -> Vec<u16> {
    let compiled = settings.policy.compile(&SITES, Member(0)).unwrap();
    let attributes = attributes(&[64_500], &[]);
    let export = compiled.export.export(&route(&attributes, 0), &compiled.roster);
    export.variants.iter().flat_map(|it| it.members.iter().map(|member| member.0)).collect()
}

#[test]
fn what_is_not_said_has_its_default() {
    let settings = with("").unwrap();
    assert_eq!(settings.bgp.router, "192.0.2.2:179".parse().unwrap());
    assert_eq!(settings.bgp.listen, "0.0.0.0:179".parse().unwrap());
    assert_eq!((settings.bgp.config.local_as, settings.bgp.config.remote_as), (6695, 64_500));
    assert_eq!(settings.bgp.config.role, Some(BgpRole::RouteServer));
    assert_eq!(settings.bgp.config.timers.hold, Duration::from_secs(90));
    assert!(Family::ALL.iter().all(|family| settings.bgp.config.family(*family).is_some()));
    assert_eq!(
        settings.exchange,
        [Pinned { name: name(), address: "127.0.0.1:1".parse().unwrap() }]
    );
    assert!(settings.select_best && settings.rtr.is_empty() && settings.admin.is_none());
    assert!(!settings.policy.asks_validity());
    // Without a policy, nothing goes and nothing comes.
    assert!(recipients(&settings).is_empty());
    let compiled = settings.policy.compile(&SITES, Member(0)).unwrap();
    let attributes = attributes(&[64_501], &[]);
    assert_eq!(compiled.import.import(&route(&attributes, 1)), Err(Unwanted::Rule(None)));
}

#[test]
fn members_are_named_by_as_by_name_and_by_site() {
    for (export, expected) in [
        ("otherwise = \"accept\"", vec![1, 2, 3]),
        ("otherwise = \"accept\"\nonly = [\"AS64501\", \"64500\"]", vec![1, 2]),
        ("otherwise = \"accept\"\nexcept = [\"Example Net/fra2\"]", vec![1, 3]),
        (
            "otherwise = \"accept\"\nonly = [\"Example Net\", \"Other\"]\nexcept = [\"Other\"]",
            vec![1, 2],
        ),
        ("otherwise = \"accept\"\nonly = []", vec![]),
        ("rule = [{ action = \"accept\", to = [\"Other\"] }]", vec![3]),
        ("rule = [{ action = \"accept\", not_to = [\"AS64502\"] }]", vec![1, 2]),
        (
            "rule = [{ action = \"accept\", to = [\"AS64501\"], not_to = [\"Example Net/fra1\"] }]",
            vec![2],
        ),
        ("rule = [{ action = \"accept\", to = [] }]", vec![]),
    ] {
        let settings = with(&format!("[member.export]\n{export}")).unwrap();
        assert_eq!(recipients(&settings), expected, "{export}");
    }
}

#[test]
fn whom_the_roster_does_not_have_is_told() {
    let rule = "[member.export]\notherwise = \"accept\"\nexcept = [\"AS64509\", \"Exmple Net\", \"Other\", \"AS64509\"]";
    let settings = with(rule).unwrap();
    let unknown = settings.policy.compile(&SITES, Member(0)).unwrap().unknown;
    let named: Vec<String> = unknown.iter().map(ToString::to_string).collect();
    assert_eq!(named, ["AS64509", "Exmple Net"]);
    let from = "[member.import]\nrule = [{ action = \"accept\", from = [\"Other/ams\"] }]";
    let compiled = with(from).unwrap().policy.compile(&SITES, Member(0)).unwrap();
    assert_eq!(compiled.unknown[0].to_string(), "Other/ams");
    // A rule about nobody fits nothing.
    let attributes = attributes(&[64_502], &[]);
    assert_eq!(compiled.import.import(&route(&attributes, 3)), Err(Unwanted::Rule(None)));
}

#[test]
fn every_kind_of_condition_and_edit_is_read() {
    let more = "rtr = [\"127.0.0.1:323\"]\n[[member.prefixes]]\nname = \"docs\"\nranges = [\"192.0.2.0/24\", \"198.51.100.0/24 le 25\"]\n\
                [[member.import.rule]]\nprefix = [\"10.0.0.0/8+\", \"@docs\"]\npath = [\"^64501_\"]\ncommunity = [\"64501:1-9\"]\n\
                origin = [\"igp\"]\norigin_asn = [\"1-9\", \"64999\"]\nmed = \"0\"\npath_length = \"1-3\"\n\
                from = [\"Example Net\"]\nrpki = [\"valid\", \"not-found\"]\naction = \"accept\"\nlocal_preference = 250\n\
                delete_community = [\"64501:*\"]\nadd_community = [\"64500:7\"]\nset_med = 5\nprepend = 1\n";
    let settings = with(more).unwrap();
    assert!(settings.policy.asks_validity());
    let compiled = settings.policy.compile(&SITES, Member(0)).unwrap();
    let given = attributes(&[64_501, 64_999], &[64_501 << 16 | 5]);
    let imported = compiled.import.import(&route(&given, 2)).unwrap();
    assert_eq!(imported.preference, 250);
    let mut expected = attributes(&[64_501, 64_501, 64_999], &[]);
    expected.pop();
    expected.extend([PathAttribute::Communities(vec![64_500 << 16 | 7]), PathAttribute::Med(5)]);
    assert_eq!(imported.attributes, expected);
    for path in [[64_501, 64_998], [64_502, 64_999]] {
        let other = attributes(&path, &[64_501 << 16 | 5]);
        assert!(compiled.import.import(&route(&other, 2)).is_err(), "{path:?}");
    }
}

#[test]
fn lists_of_prefixes_come_from_files_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.txt");
    let list = |text: &str| {
        std::fs::write(&path, text).unwrap();
        with(&format!(
            "[[member.prefixes]]\nname = \"mine\"\nfile = \"{}\"\n[member.export]\nrule = [{{ prefix = [\"@mine\"], action = \"accept\" }}]",
            path.display()
        ))
    };
    let settings = list("# ours\n192.0.2.0/24   # the office\n\n2001:db8::/32 le 48\n").unwrap();
    assert_eq!(recipients(&settings), [1, 2, 3]);
    assert!(recipients(&list("192.0.2.0/25\n").unwrap()).is_empty());
    let refused = list("\n192.0.2.1/24\n").unwrap_err();
    assert!(refused.contains("mine.txt: line 2: `192.0.2.1/24` is no prefix"), "{refused}");
}

/// What is wrong behind [`least`], and what is said.
const WRONG: &[(&str, &str)] = &[
    (
        "[member.export]\nrule = [{ path = [\"_x_\"], action = \"reject\" }]",
        "line 10: path expression `_x_`, at byte 1: `x` is in no path",
    ),
    (
        "[[member.export.rule]]\ncommunity = [\"1\"]\naction = \"reject\"",
        "line 10: `1` is no community",
    ),
    (
        "[[member.export.rule]]\nprefix = [\"10.0.0.1/8\"]\naction = \"reject\"",
        "line 10: `10.0.0.1/8` is no prefix",
    ),
    (
        "[[member.export.rule]]\nprefix = [\"@mine\"]\naction = \"reject\"",
        "line 10: there is no list `mine` in [[member.prefixes]]; there are: none",
    ),
    ("[[member.export.rule]]\nprefix = [\"10.0.0.0/8\"]", "line 9: a rule needs action"),
    ("[[member.export.rule]]\naction = \"drop\"", "line 10: `drop` is nothing to do with a route"),
    (
        "[[member.export.rule]]\naction = \"reject\"\nset_med = 1",
        "line 9: a rule that rejects changes nothing",
    ),
    (
        "[[member.export.rule]]\naction = \"reject\"\nto = [\"AS1\"]",
        "a rule that rejects goes to nobody",
    ),
    (
        "[[member.export.rule]]\naction = \"accept\"\nlocal_preference = 1",
        "local_preference is for [member.import]",
    ),
    ("[[member.export.rule]]\naction = \"accept\"\nfrom = []", "from is for [member.import]"),
    (
        "[[member.import.rule]]\naction = \"accept\"\nto = [\"AS1\"]",
        "to and not_to are for [member.export]",
    ),
    (
        "[[member.import.rule]]\naction = \"accept\"\norigin = [\"bgp\"]",
        "line 11: there is no origin `bgp`",
    ),
    (
        "[[member.import.rule]]\naction = \"accept\"\nmed = \"9-5\"",
        "line 11: `9-5` is no number, and no range",
    ),
    (
        "[[member.import.rule]]\naction = \"accept\"\nadd_community = [\"1:*\"]",
        "line 11: `1:*` is no community",
    ),
    (
        "[[member.import.rule]]\naction = \"accept\"\nprepend = 21",
        "more than 20 prepends of a rule",
    ),
    (
        "[[member.import.rule]]\naction = \"accept\"\nrpki = [\"unknown\"]",
        "line 11: rpki is `unknown`; give valid, invalid or not-found",
    ),
    ("[[member.import.rule]]\naction = \"accept\"\nrpki = [\"valid\"]", "give rtr = "),
    ("[member.import]\nrpki_first = true", "give rtr = "),
    ("[member.import]\nties = \"none\"", "line 10: ties is `none`; give preference or path_length"),
    ("[member.export]\nexcept = [\"AS0\"]", "line 10: `AS0` is no AS number"),
    ("[member.export]\nonly = [\"\"]", "line 10: a member has a name"),
    ("[member.export]\notherwise = \"yes\"", "line 10: `yes` is nothing to do"),
    (
        "[[member.prefixes]]\nname = \"a\"\n[[member.prefixes]]\nname = \"a\"",
        "line 11: there are two lists `a`",
    ),
    (
        "[[member.export.rule]]\naction = \"accept\"\ncomunity = []",
        "line 11: unknown key `comunity` in [member.export.rule]; did you mean `community`?",
    ),
    (
        "[member.import]\nrules = []",
        "line 10: unknown key `rules` in [member.import]; did you mean `rule`?",
    ),
    ("[member.exprot]", "line 9: unknown key `exprot` in [member]; did you mean `export`?"),
    ("admin = \"192.0.2.1:9\"", "loopback"),
    ("rtr = [\"cache\"]", "line 9: `cache` is not an address"),
];

#[test]
fn wrong_values_are_named_with_their_lines() {
    for (text, expected) in WRONG {
        let refused = with(text).unwrap_err();
        assert!(refused.contains(expected), "{text}: {refused}");
    }
}

#[test]
fn wrong_values_of_the_session_are_named() {
    for (text, expected) in [
        ("router = \"router\"", "line 9: `router` is no address like 192.0.2.2"),
        ("hold_s = 2", "[member.bgp]: a hold time of 2s"),
        ("role = \"customer\"", "line 10: role is `customer`; give rs"),
        ("families = [\"ipx\"]", "line 10: there is no family `ipx`; give ipv4 or ipv6"),
        ("families = []", "no address family is to be spoken"),
        ("restart_s = 4096", "a restart time of 4096s"),
        ("id = \"here\"", "line 10: `here` is no identifier"),
        ("id = \"0.0.0.0\"", "no BGP identifier"),
        (
            "pasword = \"f\"",
            "line 10: unknown key `pasword` in [member.bgp]; did you mean `password`?",
        ),
    ] {
        let base = least();
        let base =
            base.lines().filter(|line| !line.starts_with("bgp")).collect::<Vec<_>>().join("\n");
        let router = if text.starts_with("router") { "" } else { "router = \"192.0.2.2\"\n" };
        let id = if text.starts_with("id") { "" } else { "\nid = \"192.0.2.3\"" };
        let refused = settings(&format!("{base}\n[member.bgp]\n{router}{text}{id}\n")).unwrap_err();
        assert!(refused.contains(expected), "{text}: {refused}");
    }
}

#[test]
fn what_is_missing_is_said_with_how_to_give_it() {
    for (line, expected) in [
        ("key", "rhumb keygen --role node"),
        ("roster", "roster = "),
        ("asn", "needs asn = 64500"),
        ("exchange_asn", "needs exchange_asn"),
        ("exchange ", "needs exchange = [\"NAME@ADDR\"]"),
        ("neutral", "needs neutral = [\"NAME@ADDR\"]"),
        ("bgp", "needs router = "),
    ] {
        let base = least();
        let text: Vec<&str> = base.lines().filter(|it| !it.starts_with(line)).collect();
        let refused = settings(&text.join("\n")).unwrap_err();
        assert!(refused.contains(expected), "{line}: {refused}");
    }
    let nameless = least().replace(&format!("{}@127.0.0.1:2", name()), "127.0.0.1:2");
    assert!(
        settings(&nameless)
            .unwrap_err()
            .contains("line 7: `127.0.0.1:2` says not who must answer there")
    );
    assert!(
        settings(&least().replace("64500", "0")).unwrap_err().contains("line 4: 0 is no AS number")
    );
}

/// Bounds of what is counted here, from both sides; those
/// of rules and prefixes are the policies' own.
#[test]
fn servers_and_caches_are_bounded_from_both_sides() {
    let server = format!("\"{}@127.0.0.1:1\"", name());
    let with_servers = |count: usize| {
        settings(&least().replace(
            &format!("exchange = [{server}]"),
            &format!("exchange = [{}]", vec![server.as_str(); count].join(", ")),
        ))
    };
    assert_eq!(with_servers(MOST_SERVERS).unwrap().exchange.len(), MOST_SERVERS);
    assert!(
        with_servers(MOST_SERVERS + 1).unwrap_err().contains("exchange has more than 4 servers")
    );
    let with_caches =
        |count: usize| with(&format!("rtr = [{}]", vec!["\"127.0.0.1:323\""; count].join(", ")));
    assert_eq!(with_caches(MOST_CACHES).unwrap().rtr.len(), MOST_CACHES);
    assert!(with_caches(MOST_CACHES + 1).unwrap_err().contains("more than 8 caches"));
}

/// Every example of the page for operators is read, and means something.
#[test]
fn the_examples_of_the_page_are_read() {
    let page = include_str!("../../../../../docs/exchange-policy.md");
    let examples: Vec<&str> =
        page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(examples.len(), 2);
    for example in examples {
        let settings =
            settings(example).unwrap_or_else(|problem| panic!("{problem} in:\n{example}"));
        let sites = [64_500, 64_501, 64_502].map(|asn| SiteName {
            member: "Example Net",
            site: "fra1",
            asn,
        });
        settings.policy.compile(&sites, Member(0)).unwrap();
    }
    // All keys are in the example with everything.
    let all = page.split("```toml\n").nth(2).unwrap();
    let keys = MEMBER_TABLES.iter().flat_map(|(_, keys)| keys.iter()).chain(MEMBER_KEYS);
    for key in keys {
        let there = all.lines().any(|line| {
            line.starts_with(&format!("{key} ="))
                || line.contains(&format!("member.{key}]"))
                || line.contains(&format!(".{key}]]"))
        });
        // A list in a file needs the file.
        assert!(there || *key == "file", "{key} is not in the example");
    }
    // And all expressions of its table are expressions.
    let table = page.split("## Expressions over paths").nth(1).unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let expressions: Vec<String> = rows.map(|cell| cell.replace("\\|", "|")).collect();
    assert!(expressions.len() >= 10);
    for text in expressions.iter().take(10) {
        text.parse::<rhumb_bgp::policy::PathPattern>()
            .unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}
