//! `docs/domain-keys.md`, played as it stands: a domain's keys are renewed, rolled over, lost and
//! stolen while its network runs, and sessions of members go on.
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::domains::admit;
use crate::harness::{Place, Run, Running, remote};
use crate::pages::{commands, page};

const ANY: &str = "127.0.0.1:0";
/// Far longer than it takes.
const PATIENCE: Duration = Duration::from_secs(30);
const DAEMONS: [&str; 3] = ["rib", "router", "alice"];
const MEMBERS: [&str; 4] = ["rib", "router", "alice", "bob"];

/// A RIB, a router, and Alice, who receives; Bob asks whether she is there.
struct Scene {
    place: Place,
    rib: Running,
    rib_at: String,
    router: Running,
    router_at: String,
    admin: String,
    alice: String,
    _receiver: Running,
}

/// A place with the keys of everybody.
fn keys() -> Place {
    let place = Place::new();
    for (role, key) in [("rib", "rib"), ("router", "router"), ("node", "alice"), ("node", "bob")] {
        place.keygen(role, &format!("{key}.key"));
    }
    place
}

impl Scene {
    /// With rules about these domains.
    fn start(place: Place, domains: &[&str]) -> Self {
        rule(&place, domains);
        let plain = ["--listen", ANY, "--admin", ANY, "--config", "rules.toml"];
        let mut rib = place.start(&[&["rib", "--key", "rib.key"][..], &plain].concat());
        let rib_at = remote(&rib.next_object());
        let role = ["router", "--key", "router.key", "--rib", &rib_at];
        let mut router = place.start(&[&role[..], &plain].concat());
        let ready = router.next_object();
        let (router_at, admin) = (remote(&ready), ready["admin"].as_str().unwrap().to_owned());
        let mut receiver = place.start(&["receive", "--key", "alice.key", "--router", &router_at]);
        let alice = receiver.next_object()["name"].as_str().unwrap().to_owned();
        Self { place, rib, rib_at, router, router_at, admin, alice, _receiver: receiver }
    }

    fn status(&self) -> Value {
        self.place.run(&["--json", "status", "--admin", &self.admin]).object()
    }

    fn session(&self, peer: &str) -> Option<Value> {
        let status = self.status();
        status["sessions"].as_array().unwrap().iter().find(|it| it["peer"] == peer).cloned()
    }

    fn pinged(&self, key: &str) -> Run {
        let router = &self.router_at;
        self.place.run(&["ping", &self.alice, "--count", "1", "--key", key, "--router", router])
    }

    fn assert_reached(&self) {
        let run = self.pinged("bob.key");
        assert_eq!(run.code, 0, "{}{}", run.output, run.errors);
    }

    /// Rules name these domains from now on.
    fn rule_anew(&self, domains: &[&str]) {
        rule(&self.place, domains);
        self.rib.nudge("HUP");
        self.router.nudge("HUP");
    }

    /// Brings what lies in `members` to everybody, and waits until the router shows it, and sees
    /// Alice's and the RIB's: given by `issuers`, the domain first.
    fn distribute(&self, issuers: &[&str]) {
        for member in MEMBERS {
            bring(&self.place, member);
        }
        let expected: Value = issuers.iter().map(|it| name(&self.place, it)).collect();
        let [rib, alice] = [name(&self.place, "rib"), self.alice.clone()];
        let seen = |peer: &str| {
            self.session(peer).is_some_and(|it| it["membership"]["issuers"] == expected)
        };
        wait_for("the router sees new memberships", || seen(&rib) && seen(&alice));
        wait_for("the router shows its own", || self.status()["membership"]["issuers"] == expected);
    }
}

/// Puts a file of `members` beside the key, as a whole.
fn bring(place: &Place, member: &str) {
    let file = format!("{member}.membership");
    std::fs::copy(place.path("members").join(&file), place.path("brought")).unwrap();
    std::fs::rename(place.path("brought"), place.path(&file)).unwrap();
}

fn rule(place: &Place, domains: &[&str]) {
    let mut text = String::new();
    for service in ["rib", "router"] {
        text += &format!("[{service}]\nstrangers = \"refused\"\n");
    }
    for domain in domains {
        let domain = name(place, domain);
        text += &format!("[[rib.access]]\ndomain = \"{domain}\"\n");
        text += &format!("[[router.access]]\ndomain = \"{domain}\"\n");
    }
    place.write("rules.toml", &text);
}

/// The name in a key file.
fn name(place: &Place, key: &str) -> String {
    let key = rhumb_trust::load_key(&place.path(&format!("{key}.key")), None).unwrap();
    key.name().to_string()
}

/// Runs a block of the page in the place.
fn play(place: &Place, block: &str, variables: &[(&str, &str)]) {
    let binary = Path::new(env!("CARGO_BIN_EXE_rhumb")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let output = Command::new("bash")
        .args(["-e", "-c", block])
        .current_dir(place.folder())
        .env("HOME", place.folder())
        .env_remove("XDG_DATA_HOME")
        .env("PATH", path)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{block}: {said}");
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_domains_keys_are_exchanged_and_no_members_session_ends() {
    let page = page("docs/domain-keys.md");
    let blocks = |from: &str, until: &str| commands(&page, from, until);
    let place = keys();
    play(&place, blocks("# Keys of", "## Renewing")[0], &[]);
    DAEMONS.iter().chain(&["bob"]).for_each(|member| bring(&place, member));
    // A thief has the working key, and admits himself.
    admit(&place, "working.key", "node-mallory.key", "join");
    let scene = Scene::start(place, &["domain"]);
    let place = &scene.place;
    scene.assert_reached();
    assert_eq!(scene.pinged("node-mallory.key").code, 0);
    let started = Instant::now();

    play(place, blocks("## Renewing", "## Another")[0], &[]);
    scene.distribute(&["domain", "working"]);

    let [give, remove] = blocks("## Another", "## The domain's own")[..] else { panic!() };
    play(place, give, &[]);
    scene.distribute(&["domain", "working-2"]);
    play(place, remove, &[("RIB", &scene.rib_at)]);
    wait_for("Mallory is out", || scene.pinged("node-mallory.key").code == 2);
    scene.assert_reached();

    let [both, alone] = blocks("### While a key", "### When no key")[..] else { panic!() };
    play(place, both, &[]);
    scene.distribute(&["domain", "new", "new-working"]);
    scene.rule_anew(&["new"]);
    scene.assert_reached();
    play(place, alone, &[]);
    scene.distribute(&["new", "new-working"]);
    scene.assert_reached();
    // The old domain admits nobody any more.
    admit(place, "domain.key", "node-late.key", "join");
    assert_eq!(scene.pinged("node-late.key").code, 2);

    // The sessions are those of the start.
    let lasted = started.elapsed().as_secs();
    for peer in ["alice", "rib"] {
        let session = scene.session(&name(place, peer)).unwrap();
        let log = scene.router.errors_so_far();
        assert!(session["age_s"].as_u64() >= Some(lasted), "{peer}, {lasted} s: {session} {log}");
    }
}

#[test]
fn while_rules_name_two_domains_members_go_over_from_the_one_to_the_other() {
    let page = page("docs/domain-keys.md");
    let place = keys();
    play(&place, commands(&page, "# Keys of", "## Renewing")[0], &[]);
    MEMBERS.iter().for_each(|member| bring(&place, member));
    let scene = Scene::start(place, &["domain"]);
    let place = &scene.place;
    // No key is left that may admit.
    for lost in ["domain.key", "working.membership"] {
        std::fs::rename(place.path(lost), place.path("lost")).unwrap();
        std::fs::rename(place.path("lost"), place.path(&format!("away-{lost}"))).unwrap();
    }
    let made = place.run(&["domain", "create", "--out", "new.key", "--working", "new-working.key"]);
    assert_eq!(made.code, 0, "{}", made.errors);
    std::fs::copy(place.path("away-domain.key"), place.path("old.key")).unwrap();
    let started = Instant::now();
    scene.rule_anew(&["old", "new"]);
    let given_by = name(place, "working");
    let renew = ["domain", "renew", "members", "--given-by", &given_by, "--key", "new-working.key"];
    let renewed = place.run(&renew);
    assert_eq!(renewed.code, 0, "{}{}", renewed.output, renewed.errors);
    scene.distribute(&["new", "new-working"]);
    scene.rule_anew(&["new"]);
    scene.assert_reached();
    let lasted = started.elapsed().as_secs();
    assert!(scene.session(&scene.alice).unwrap()["age_s"].as_u64() >= Some(lasted));
}

#[test]
fn a_domain_whose_key_was_stolen_is_cut_off_by_the_one_around_and_its_members_stay() {
    let page = page("docs/domain-keys.md");
    let place = keys();
    place.keygen("domain", "world.key");
    std::fs::create_dir(place.path("members")).unwrap();
    let say = |arguments: &[&str]| {
        let run = place.run(&[&["domain", "admit"], arguments].concat());
        assert_eq!(run.code, 0, "{}", run.errors);
    };
    let sea = place.keygen("domain", "sea.key");
    let all = "join,carry,publish,admit";
    say(&[&sea, "--key", "world.key", "--rights", all, "--out", "sea.membership"]);
    for (member, rights) in
        [("rib", "publish"), ("router", "carry,publish"), ("alice", "join"), ("bob", "join")]
    {
        let out = format!("members/{member}.membership");
        say(&[&name(&place, member), "--key", "sea.key", "--rights", rights, "--out", &out]);
        bring(&place, member);
    }
    admit(&place, "sea.key", "node-mallory.key", "join");
    let scene = Scene::start(place, &["world"]);
    assert_eq!(scene.pinged("node-mallory.key").code, 0);
    let started = Instant::now();

    let block = commands(&page, "### When it was stolen", "Exports and border files")[0];
    let (give, remove) = block.split_at(block.find("rhumb domain remove").unwrap());
    play(&scene.place, give, &[]);
    scene.distribute(&["world", "sea-2", "sea-2-working"]);
    play(&scene.place, remove, &[("WORLD_RIB", &scene.rib_at)]);
    wait_for("Mallory is out", || scene.pinged("node-mallory.key").code == 2);
    scene.assert_reached();
    let lasted = started.elapsed().as_secs();
    assert!(scene.session(&scene.alice).unwrap()["age_s"].as_u64() >= Some(lasted));
}

#[test]
fn nobody_is_renewed_whom_a_removal_among_the_files_took_back_and_problems_are_said() {
    let place = keys();
    place.keygen("domain", "domain.key");
    std::fs::create_dir(place.path("members")).unwrap();
    let (alice, bob) = (name(&place, "alice"), name(&place, "bob"));
    for (member, names) in [(&alice, "3"), (&bob, "5")] {
        let out = format!("members/{}.membership", &member[..4]);
        let admit = ["domain", "admit", member, "--names", names, "--out", &out];
        assert_eq!(place.run(&admit).code, 0);
    }
    let take_back = ["domain", "remove", &bob, "--out", "members/bob.removal"];
    assert_eq!(place.run(&take_back).code, 0);
    let renew = |more: &[&str]| {
        let renew = ["--json", "domain", "renew", "members", "--key", "domain.key"];
        place.run(&[&renew[..], more].concat())
    };
    let run = renew(&["--days", "90"]);
    assert_eq!(run.code, 1, "{}", run.errors);
    assert!(run.errors.contains("1 of 2 memberships were not renewed"), "{}", run.errors);
    let told: Value = serde_json::from_str(&run.output).unwrap();
    let of = |member: &str| {
        let entries = told["entries"].as_array().unwrap();
        entries.iter().find(|it| it["member"] == member).unwrap().clone()
    };
    assert_eq!(of(&bob)["why_not"], "it was taken back");
    assert!(of(&alice)["not_after_s"].is_u64());
    let file = format!("members/{}.membership", &alice[..4]);
    let seen = place.run(&["--json", "domain", "inspect", &file]).object();
    assert_eq!(
        (&seen["limits"]["names"], &seen["not_after_s"]),
        (&3.into(), &of(&alice)["not_after_s"])
    );

    // Elsewhere nothing is overwritten, and what another key gave is left alone.
    std::fs::create_dir(place.path("out")).unwrap();
    assert_eq!(renew(&["--out", "out"]).code, 1);
    let again = renew(&["--out", "out"]);
    assert!(again.output.contains("is not overwritten"), "{}", again.output);
    let none =
        place.run(&["domain", "renew", "members", "--key", "domain.key", "--given-by", &bob]);
    assert_eq!(none.code, 0);
    assert!(none.output.contains("nothing here was given by"), "{}", none.output);
    place.write("members/bent.removal", "rhumb-removal 1\nremoved x\n");
    renew(&[]).is_refused_with(&["bent.removal is damaged"]);
    place.run(&["domain", "renew", "none"]).is_refused_with(&["no key file working.key"]);
}
