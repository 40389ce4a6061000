//! Domains as files: one command makes a domain and its working key, and one lists what domains
//! said, with what is over, ends soon, or is damaged.
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use serde_json::{Value, json};

use crate::harness::{Place, remote};

const ANY: &str = "127.0.0.1:0";

#[test]
fn a_domain_made_by_one_command_admits_by_its_working_key_and_lets_members_in() {
    let place = Place::new();
    let made = place.run(&["--json", "domain", "create"]);
    assert_eq!(made.code, 0, "{}", made.errors);
    let made = made.object();
    let domain = made["domain"].as_str().unwrap();
    assert_eq!(made["rights"], json!(["join", "carry", "publish", "admit", "serve"]));
    // The domain's own key goes off line.
    std::fs::rename(place.path("domain.key"), place.path("away")).unwrap();
    for (role, rights) in [("rib", "publish"), ("router", "carry,publish"), ("node", "join")] {
        let name = place.keygen(role, &format!("{role}.key"));
        let beside = format!("{role}.membership");
        let admit = ["domain", "admit", &name, "--key", "working.key", "--rights", rights];
        let run = place.run(&[&admit[..], &["--out", &beside]].concat());
        assert_eq!(run.code, 0, "{}", run.errors);
    }
    let closed = ["--admit-domain", domain, "--strangers", "refused"];
    let rib = ["rib", "--key", "rib.key", "--listen", ANY];
    let mut rib = place.start(&[&rib[..], &closed].concat());
    let at = remote(&rib.next_object());
    let router = ["router", "--key", "router.key", "--listen", ANY, "--rib", &at];
    let mut router = place.start(&[&router[..], &closed].concat());
    let at = remote(&router.next_object());
    let mut node = place.start(&["receive", "--key", "node.key", "--router", &at]);
    assert!(node.next_object()["name"].is_string());
    assert_eq!(place.run(&["ping", domain, "--router", &at]).code, 2, "a stranger");
}

#[test]
fn no_half_domain_is_made_and_the_next_steps_are_said() {
    let place = Place::new();
    place.write("working.membership", "somebody's\n");
    let refused = place.run(&["domain", "create"]);
    refused.is_refused_with(&["working.membership exists", "--working"]);
    assert!(!place.path("domain.key").exists() && !place.path("working.key").exists());
    let twice = place.run(&["domain", "create", "--out", "a.key", "--working", "a.key"]);
    twice.is_refused_with(&["both the domain's key and the working key"]);
    place.write("phrase", "a good one\n");
    let sealed = [
        "domain",
        "create",
        "--out",
        "sea.key",
        "--working",
        "sea-admits.key",
        "--days",
        "30",
        "--passphrase-file",
        "phrase",
    ];
    let made = place.run(&sealed);
    assert_eq!(made.code, 0, "{}", made.errors);
    for words in [
        "key written to sea.key (sealed); called sea on this machine",
        "rhumb domain admit NAME --key sea-admits.key --rights join --out node.membership",
        "--admit-domain sea --strangers refused",
    ] {
        assert!(made.output.contains(words), "`{words}` is not in: {}", made.output);
    }
    let inspected = place.run(&["--json", "domain", "inspect", "sea-admits.membership"]).object();
    assert_eq!(inspected["holds"], true);
    place.run(&sealed).is_refused_with(&["sea.key exists and is not overwritten", "--out"]);
}

#[test]
fn what_domains_said_is_listed_by_its_end() {
    let place = Place::new();
    assert_eq!(place.run(&["domain", "create"]).code, 0);
    let (router, node) = (place.keygen("router", "router.key"), place.keygen("node", "alice.key"));
    let world = place.keygen("domain", "world.key");
    let say = |arguments: &[&str]| {
        let run = place.run(&[&["domain"], arguments].concat());
        assert_eq!(run.code, 0, "{}", run.errors);
    };
    say(&["delegate", "--to", &router, "--parent", &world, "--days", "20"]);
    let admit = ["admit", &node, "--key", "working.key", "--names", "3", "--days"];
    say(&[&admit[..], &["5", "--out", "alice.membership"]].concat());
    // What is none is nobody's concern, and what is damaged keeps nothing from being listed.
    place.write("notes", "rhumb is a line on the globe\n");
    place.write("old.border", "rhumb-border 1\nname x\n");
    std::fs::create_dir(place.path("below")).unwrap();

    let list =
        |more: &[&str]| place.run(&[&["--json", "domain", "list"][..], more].concat()).object();
    let short = |listed: &Value| -> Vec<(String, String)> {
        let text = |it: &Value, key: &str| it[key].as_str().unwrap().to_owned();
        let entries = listed["entries"].as_array().unwrap().iter();
        entries.map(|it| (text(it, "file"), text(it, "state"))).collect()
    };
    let expected = |states: [(&str, &str); 4]| -> Vec<(String, String)> {
        states.map(|(file, state)| (format!("./{file}"), state.to_owned())).to_vec()
    };
    let listed = list(&[]);
    let now = [
        ("old.border", "damaged"),
        ("alice.membership", "ends_soon"),
        ("router.border", "holds"),
        ("working.membership", "holds"),
    ];
    assert_eq!(short(&listed), expected(now));
    assert_eq!([&listed["over"], &listed["end_soon"], &listed["damaged"]], [0, 1, 1]);
    let [_, alice, border, _] = &listed["entries"].as_array().unwrap()[..] else { panic!() };
    assert_eq!((&alice["kind"], &alice["limits"]["names"]), (&json!("membership"), &json!(3)));
    assert_eq!(alice["rights"], json!(["join"]));
    assert_eq!((&border["name"], &border["parent"]), (&json!(router), &json!(world)));
    let soon = short(&list(&["--soon", "30"]));
    assert_eq!(soon[2].1, "ends_soon");
    let later = list(&["--clock-offset-s", "864000"]);
    assert_eq!(short(&later)[1].1, "over");
    assert_eq!(short(&list(&["--clock-offset-s", "-3600"]))[1].1, "not_yet");

    let plain = place.run(&["domain", "list"]).output;
    for words in ["join; 3 names at most", "SOON: ", "stand at the border; exported by world"] {
        assert!(plain.contains(words), "`{words}` is not in: {plain}");
    }
    assert!(plain.lines().any(|line| line.contains("domain ") && line.contains("alice ")));
    assert!(plain.ends_with("4 in all; 0 over, 1 to end soon\n"), "{plain}");
    assert!(plain.contains("damaged"), "{plain}");
    // Named, each has to be one.
    assert_eq!(list(&["alice.membership"])["entries"].as_array().unwrap().len(), 1);
    place.run(&["domain", "list", "notes"]).is_refused_with(&["notes: it is neither"]);
    place.run(&["domain", "list", "none"]).is_refused_with(&["cannot read none"]);
    assert_eq!(
        place.run(&["domain", "list", "below"]).output,
        "no memberships and no border files here\n"
    );
}
