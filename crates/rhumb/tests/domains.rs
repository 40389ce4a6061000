//! A network of one trust domain: its RIB and its routers take members by what the domain signed,
//! and no rule names any of them.
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use crate::harness::{Place, Running, remote};

const ANY: &str = "127.0.0.1:0";

/// `issuer` admits the holder of `key`, and what it says lies beside that key. The holder's name.
pub(crate) fn admit(place: &Place, issuer: &str, key: &str, rights: &str) -> String {
    admit_within(place, issuer, key, rights, &[])
}

fn admit_within(place: &Place, issuer: &str, key: &str, rights: &str, limits: &[&str]) -> String {
    let name = place.run(&["--json", "keygen", "--role", role_of(key), "--out", key]);
    assert_eq!(name.code, 0, "{}", name.errors);
    let name = name.object()["name"].as_str().unwrap().to_owned();
    let beside = key.replace(".key", ".membership");
    let admit = ["domain", "admit", &name, "--key", issuer, "--rights", rights, "--out", &beside];
    let run = place.run(&[&admit[..], limits].concat());
    assert_eq!(run.code, 0, "{}", run.errors);
    name
}

/// `router-2.key` is a router's.
fn role_of(key: &str) -> &str {
    key.split(['-', '.']).next().unwrap()
}

fn start_rib(place: &Place, domain: &str) -> (Running, String) {
    place.keygen("rib", "rib.key");
    let closed = ["--strangers", "refused", "--admit-domain", domain];
    let mut rib =
        place.start(&[&["rib", "--key", "rib.key", "--listen", ANY][..], &closed].concat());
    let at = remote(&rib.next_object());
    (rib, at)
}

/// With where it tells how it is.
fn start_router(place: &Place, domain: &str, rib: &str, key: &str) -> (Running, String, String) {
    let closed = ["--strangers", "refused", "--admit-domain", domain];
    let plain = ["router", "--key", key, "--listen", ANY, "--rib", rib, "--admin", ANY];
    let mut router = place.start(&[&plain[..], &closed].concat());
    let ready = router.next_object();
    (router, remote(&ready), ready["admin"].as_str().unwrap().to_owned())
}

#[test]
fn members_of_a_closed_domain_reach_each_other_over_its_routers_and_nobody_else_gets_in() {
    let place = Place::new();
    let domain = place.keygen("domain", "domain.key");
    // The domain's key may go off line now: the site's key does the rest.
    admit(&place, "domain.key", "domain-site.key", "join,carry,publish,admit");
    let (_rib, rib) = start_rib(&place, &domain);
    for key in ["router-1.key", "router-2.key"] {
        admit(&place, "domain-site.key", key, "carry,publish");
    }
    let (_one, one, _) = start_router(&place, &domain, &rib, "router-1.key");
    let (_two, two, admin) = start_router(&place, &domain, &rib, "router-2.key");
    for key in ["node-alice.key", "node-bob.key"] {
        admit(&place, "domain-site.key", key, "join");
    }
    let mut alice = place.start(&["receive", "--key", "node-alice.key", "--router", &one]);
    let name = alice.next_object()["name"].as_str().unwrap().to_owned();
    let ping = |key: &str, router: &str| {
        place.run(&["ping", &name, "--count", "1", "--key", key, "--router", router])
    };
    let reached = ping("node-bob.key", &two);
    assert_eq!(reached.code, 0, "{}{}", reached.output, reached.errors);

    // Nobody's member, another domain's, and one who may publish but not join.
    place.keygen("node", "node-mallory.key");
    place.keygen("domain", "foreign.key");
    admit(&place, "foreign.key", "node-foreign.key", "join");
    admit(&place, "domain.key", "node-publisher.key", "publish");
    for key in ["node-mallory.key", "node-foreign.key", "node-publisher.key"] {
        assert_eq!(ping(key, &two).code, 2, "{key}");
    }
    // Its operator asks why.
    let why = |label: &str| {
        let run = place.run(&["why", label, "--admin", &admin]);
        assert_eq!(run.code, 0, "{}", run.errors);
        run.output
    };
    let missing = why("node-mallory");
    assert!(missing.contains("it has shown no membership of"), "{missing}");
    assert!(missing.contains("wanted to join"), "{missing}");
    assert!(why("node-foreign").contains("it has shown a membership of"));
    let lacking = why("node-publisher");
    assert!(lacking.contains("does not give it the right to join"), "{lacking}");
    let admitted = why("router-1");
    assert!(admitted.contains("it is admitted by rule 1"), "{admitted}");
    assert!(admitted.contains("may carry, publish there"), "{admitted}");
    let unknown = why("node-alice");
    assert!(unknown.contains("no session here"), "{unknown}");
    // A router without the right to publish is of no use to anybody: its names stay unpublished.
    admit(&place, "domain.key", "router-3.key", "carry");
    let (_three, three, _) = start_router(&place, &domain, &rib, "router-3.key");
    let unpublished = ping("node-bob.key", &three);
    assert_eq!(unpublished.code, 1, "{}{}", unpublished.output, unpublished.errors);
    assert!(unpublished.errors.contains("not published yet"), "{}", unpublished.errors);
}

#[test]
fn what_is_wrong_with_a_membership_is_said_with_what_to_do() {
    let place = Place::new();
    let domain = place.keygen("domain", "domain.key");
    let node = place.keygen("node", "node.key");
    let other = place.keygen("node", "other.key");
    let admit = |key: &str, name: &str, more: &[&str]| {
        place.run(&[&["domain", "admit", name, "--key", key][..], more].concat())
    };
    let says = |run: crate::harness::Run, what: &str| {
        assert_eq!(run.code, 2, "{}", run.output);
        assert!(run.errors.contains(what), "{}", run.errors);
        assert_eq!(run.errors.lines().count(), 1, "{}", run.errors);
    };
    says(admit("node.key", &other, &[]), "is no domain's key");
    says(admit("none.key", &other, &[]), "rhumb keygen --role domain");
    let made = admit("domain.key", &node, &["--rights", "join,admit", "--out", "node.membership"]);
    assert_eq!(made.code, 0, "{}", made.errors);
    assert!(made.output.contains("and may join, admit, until"), "{}", made.output);
    says(
        admit("domain.key", &node, &["--out", "node.membership"]),
        "exists and is not overwritten",
    );
    says(admit("node.key", &other, &["--rights", "publish"]), "and all that it is to give");
    let inspected = place.run(&["--json", "domain", "inspect", "node.membership"]).object();
    assert_eq!(inspected["domain"], domain.as_str());
    assert_eq!(inspected["rights"], serde_json::json!(["join", "admit"]));
    assert_eq!(inspected["holds"], true);
    says(
        place.run(&["domain", "inspect", "node.key"]),
        "is neither a membership nor a border file",
    );
    // It was put beside the wrong key, or damaged on the way.
    std::fs::copy(place.path("node.membership"), place.path("other.membership")).unwrap();
    let receive = ["receive", "--key", "other.key", "--router", "127.0.0.1:9"];
    says(place.run(&receive), "this membership is that of");
    let text = std::fs::read_to_string(place.path("node.membership")).unwrap();
    let at = text.len() - 3;
    let flipped = if &text[at..=at] == "0" { "1" } else { "0" };
    place.write("other.membership", &format!("{}{flipped}{}", &text[..at], &text[at + 1..]));
    says(place.run(&receive), "get it from the domain once more");
}

#[test]
fn limits_are_given_shown_and_never_widened() {
    let place = Place::new();
    place.keygen("domain", "domain.key");
    let site = place.keygen("node", "site.key");
    let node = place.keygen("node", "node.key");
    let admit = |key: &str, name: &str, out: &str, more: &[&str]| {
        let plain = ["domain", "admit", name, "--key", key, "--out", out];
        place.run(&[&plain[..], more].concat())
    };
    let own =
        ["--rights", "admit,join", "--names", "10", "--rate", "2Mbit/s", "--send-to", "inside"];
    let made = admit("domain.key", &site, "site.membership", &own);
    assert_eq!(made.code, 0, "{}", made.errors);
    let says = "at each router and RIB: 10 names at most, 2 Mbit/s at most, to send inside of the domain only";
    assert!(made.output.contains(says), "{}", made.output);
    for (more, what) in [
        (["--names", "11"], "less than that (names)"),
        (["--rate", "2001kbit"], "less than that (rate)"),
        (["--rate", "2"], "is no rate"),
        (["--names", "0"], "0 is not in"),
        (["--send-to", "outside"], "outside"),
    ] {
        let run = admit("site.key", &node, "node.membership", &more);
        assert_eq!(run.code, 2, "{}", run.output);
        assert!(run.errors.contains(what), "{}", run.errors);
    }
    let less = ["--names", "1", "--send-to", &site];
    let made = admit("site.key", &node, "node.membership", &less);
    assert_eq!(made.code, 0, "{}", made.errors);
    let inspected = place.run(&["--json", "domain", "inspect", "node.membership"]).object();
    let expected = serde_json::json!({
        "names": 1, "kbit_per_s": 2000, "inside_only": true, "only_to": site
    });
    assert_eq!(inspected["limits"], expected, "what is not said stays as it was");
    let plain = place.run(&["domain", "inspect", "node.membership"]).output;
    assert!(plain.contains("no name but its own, 2 Mbit/s at most"), "{plain}");
}

#[test]
fn a_member_is_held_to_its_limits_and_why_says_to_which() {
    let place = Place::new();
    let domain = place.keygen("domain", "domain.key");
    let (_rib, rib) = start_rib(&place, &domain);
    admit(&place, "domain.key", "router-1.key", "carry,publish");
    let (_router, at, admin) = start_router(&place, &domain, &rib, "router-1.key");
    let mut receivers = Vec::new();
    for key in ["node-server.key", "node-other.key"] {
        admit(&place, "domain.key", key, "join");
        receivers.push(place.start(&["receive", "--key", key, "--router", &at]));
    }
    let names =
        receivers.iter_mut().map(|it| it.next_object()["name"].as_str().unwrap().to_owned());
    let [server, other] = names.collect::<Vec<_>>().try_into().unwrap();
    let limits = ["--names", "1", "--rate", "100kbit", "--send-to", &server];
    admit_within(&place, "domain.key", "node-sensor.key", "join", &limits);
    let ping = |to: &str| {
        place.run(&["ping", to, "--count", "1", "--key", "node-sensor.key", "--router", &at])
    };
    let reached = ping(&server);
    assert_eq!(reached.code, 0, "{}{}", reached.output, reached.errors);
    assert_eq!(ping(&other).code, 1, "it may not");
    let why = |label: &str| place.run(&["why", label, "--admin", &admin]).output;
    let refused = why("node-sensor");
    assert!(refused.contains("as its domain leaves it no more names to send to"), "{refused}");
    let only = format!("send to {server} (node-server) only");
    assert!(refused.contains(&format!("lets it {only}")), "{refused}");

    // While it is there, it is said what it may.
    let mut sensor = place.start(&["receive", "--key", "node-sensor.key", "--router", &at]);
    sensor.next_object();
    let allowed = why("node-sensor");
    let limits = format!("no name but its own, 100 kbit/s at most, to {only}");
    assert!(allowed.contains(&format!("together with all whom it admits: {limits}")), "{allowed}");
    let status = place.run(&["--json", "status", "--admin", &admin]).object();
    assert_eq!(status["dropped_pdus"]["rate_exceeded"], 0);
    assert!(status["dropped_pdus"]["out_of_reach"].as_u64() > Some(0), "{status}");
}

#[test]
fn a_border_file_is_made_read_and_refused_with_what_to_do() {
    let place = Place::new();
    let domain = place.keygen("domain", "domain.key");
    let parent = place.keygen("domain", "parent.key");
    let router = place.keygen("router", "router.key");
    let other = place.keygen("router", "other.key");
    let delegate = |more: &[&str]| place.run(&[&["domain", "delegate"][..], more].concat());
    let says = |run: crate::harness::Run, what: &str| {
        assert_eq!(run.code, 2, "{}", run.output);
        assert!(run.errors.contains(what), "{}", run.errors);
        assert_eq!(run.errors.lines().count(), 1, "{}", run.errors);
    };
    let made = delegate(&["--to", &router, "--parent", &parent, "--days", "3"]);
    assert_eq!(made.code, 0, "{}", made.errors);
    assert!(made.output.contains("written to router.border"), "{}", made.output);
    says(delegate(&["--to", &router]), "exists and is not overwritten");
    says(delegate(&["--to", &router, "--key", "router.key", "--out", "x"]), "is no domain's key");
    says(
        delegate(&["--to", &router, "--parent", &domain, "--out", "x"]),
        "neither its own border router nor around itself",
    );
    let inspected = place.run(&["--json", "domain", "inspect", "router.border"]).object();
    assert_eq!(inspected["domain"], domain.as_str());
    assert_eq!(inspected["router"], router.as_str());
    assert_eq!(inspected["parent"], parent.as_str());
    assert_eq!(inspected["up_to"], serde_json::Value::Null);
    assert_eq!(inspected["holds"], true);
    let plain = place.run(&["domain", "inspect", "router.border"]).output;
    assert!(plain.contains(&format!("{domain} says:\n  router {router} stands at my border")));
    assert!(plain.contains(&format!("{parent} is around me")), "{plain}");
    let start = |more: &[&str]| {
        let plain =
            ["router", "--listen", ANY, "--rib", "127.0.0.1:9", "--border", "router.border"];
        place.run(&[&plain[..], more].concat())
    };
    says(start(&["--key", "other.key"]), "is for the router");
    says(start(&["--key", "router.key", "--domain", &parent]), "this is the border of");
    says(start(&["--key", "router.key", "--around", &other]), "is around it");
    says(start(&["--key", "router.key", "--clock-offset-s", "400000"]), "does not hold");
}

/// A domain inside of another: its RIB, an interior router and a border, all of them closed to
/// strangers, but for the border.
struct Inner {
    _rib: Running,
    _border: Running,
    _interior: Running,
    name: String,
    rib: String,
    interior: String,
}

/// What is started for a domain, with the RIB of the domain around and that domain's key. Its
/// interior router lets a name be served by members that has no membership itself.
fn start_inner(place: &Place, label: &str, around: (&str, &str, &str), served: &str) -> Inner {
    let (around_key, around, parent) = around;
    let key = format!("domain-{label}.key");
    let name = admit(place, around_key, &key, "join,carry,publish,admit");
    let member = |role: &str, rights: &str| {
        let file = format!("{role}-{label}.key");
        let name = admit(place, &key, &file, rights);
        (file, name)
    };
    let (rib_key, _) = member("rib", "publish");
    let closed = ["--strangers", "refused", "--admit-domain", &name];
    let store = format!("{label}.redb");
    let rib = [
        "rib", "--key", &rib_key, "--listen", ANY, "--domain", &name, "--parent", parent,
        "--store", &store,
    ];
    let mut running = place.start(&[&rib[..], &closed].concat());
    let at = remote(&running.next_object());

    let (border_key, router) = member("router", "carry,publish");
    let words = format!("{label}.border");
    let delegate = ["domain", "delegate", "--key", &key, "--to", &router, "--parent", around];
    let run = place.run(&[&delegate[..], &["--out", &words]].concat());
    assert_eq!(run.code, 0, "{}", run.errors);
    let border =
        ["router", "--key", &border_key, "--listen", ANY, "--rib", &at, "--border", &words];
    let mut border = place.start(&border);
    border.next_object();

    let interior_key = format!("router-{label}-inside.key");
    admit(place, &key, &interior_key, "carry,publish");
    let interior = ["router", "--key", &interior_key, "--listen", ANY, "--rib", &at];
    let domain = ["--domain", &name, "--around", around, "--admit", served];
    let mut interior = place.start(&[&interior[..], &domain, &closed].concat());
    let interior_at = remote(&interior.next_object());
    Inner {
        _rib: running,
        _border: border,
        _interior: interior,
        name,
        rib: at,
        interior: interior_at,
    }
}

#[test]
fn what_is_exported_is_reached_from_another_domain_and_nothing_else_is() {
    let place = Place::new();
    let world = place.keygen("domain", "world.key");
    place.keygen("rib", "rib-world.key");
    let closed = ["--strangers", "refused", "--admit-domain", &world];
    let rib = ["rib", "--key", "rib-world.key", "--listen", ANY, "--domain", &world];
    let mut rib = place.start(&[&rib[..], &closed].concat());
    let parent = remote(&rib.next_object());
    let capsule = place.keygen("capsule", "capsule.key");
    let sea = start_inner(&place, "sea", ("world.key", &world, &parent), &capsule);
    let land = start_inner(&place, "land", ("world.key", &world, &parent), &capsule);

    for (key, domain) in [("alice", "sea"), ("carol", "sea"), ("bob", "land")] {
        admit(&place, &format!("domain-{domain}.key"), &format!("node-{key}.key"), "join");
    }
    let receive = |key: &str, more: &[&str]| {
        let plain = ["receive", "--key", key, "--router", &sea.interior];
        let mut running = place.start(&[&plain[..], more].concat());
        let name = running.next_object()["name"].as_str().unwrap().to_owned();
        (running, name)
    };
    // What she serves is known by her word, whose key stays at home.
    assert_eq!(place.run(&["certify", "--server", "node-alice"]).code, 0);
    let serving = ["--export", &sea.name, "--serve", "capsule.adcert"];
    let (_alice, alice) = receive("node-alice.key", &serving);
    let (_carol, carol) = receive("node-carol.key", &[]);
    let ping = |to: &str, more: &[&str]| {
        let plain =
            ["ping", to, "--count", "1", "--key", "node-bob.key", "--router", &land.interior];
        place.run(&[&plain[..], more].concat())
    };
    let reached = ping(&alice, &["--export", &land.name]);
    assert_eq!(reached.code, 0, "{}{}", reached.output, reached.errors);
    let served = ping(&capsule, &["--export", &land.name]);
    assert_eq!(served.code, 0, "{}{}", served.output, served.errors);
    assert_ne!(ping(&carol, &["--export", &land.name]).code, 0, "she is not exported");
    assert_ne!(ping(&alice, &[]).code, 0, "who asks may not leave");

    // A trace shows borders, and that there is something behind them.
    let trace = |key: &str, more: &[&str]| {
        let plain = ["trace", &alice, "--key", key, "--router", &land.interior];
        place.run(&[&plain[..], &["--export", &land.name], more].concat())
    };
    let plain = trace("node-bob.key", &[]);
    assert_eq!(plain.code, 0, "{}{}", plain.output, plain.errors);
    assert!(plain.output.contains("(inside of a domain: hidden)"), "{}", plain.output);
    let refused = trace("node-bob.key", &["--rib", &land.rib]);
    refused.is_refused_with(&["the RIB refuses to answer", "the right to publish"]);
    admit(&place, "domain-land.key", "node-dora.key", "join,publish");
    let told = trace("node-dora.key", &["--rib", &land.rib]);
    assert_eq!(told.code, 0, "{}{}", told.output, told.errors);
    for words in [
        "at the border of domain-land: domain-land says: router-land may carry",
        "at the border of domain-sea: domain-sea says: router-sea may carry",
        "(inside of domain-sea: hidden)",
        "says: I am known outside by domain-sea",
    ] {
        assert!(told.output.contains(words), "`{words}` is not in: {}", told.output);
    }
    assert!(!told.output.contains("router-sea-inside"), "{}", told.output);
}

#[test]
fn a_closed_domain_has_a_capsule_served_by_who_may_and_says_why_not_by_others() {
    let place = Place::new();
    let domain = place.keygen("domain", "domain.key");
    let (_rib, rib) = start_rib(&place, &domain);
    admit(&place, "domain.key", "router-1.key", "carry,publish");
    let (_router, router, admin) = start_router(&place, &domain, &rib, "router-1.key");
    admit(&place, "domain.key", "node-alice.key", "join");
    let capsule = place.keygen("capsule", "capsule.key");
    let reached = || {
        let ping = ["ping", &capsule, "--count", "1", "--key", "node-alice.key"];
        place.run(&[&ping[..], &["--router", &router]].concat()).code == 0
    };
    let serve = |key: &str, rights: &str| {
        let server = admit(&place, "domain.key", key, rights);
        let word = format!("{key}.adcert");
        let run = place.run(&["certify", "--server", &server, "--out", &word]);
        assert_eq!(run.code, 0, "{}", run.errors);
        place.start(&["receive", "--key", key, "--serve", &word, "--router", &router])
    };
    let _joins = serve("node-joins.key", "join");
    let why = || place.run(&["why", &capsule, "--admin", &admin]).output;
    let since = std::time::Instant::now();
    while !why().contains("has shown no membership with the right to serve") {
        assert!(since.elapsed().as_secs() < 20, "{}", why());
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert!(!reached());
    let mut serves = serve("node-serves.key", "join,serve");
    let ready = serves.next_object();
    assert_eq!(ready["serves"][0], capsule.as_str());
    assert!(reached());
}
