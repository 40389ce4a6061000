//! A network by three commands: made, run, and joined by a code, as `docs/network.md` says; from
//! nothing to a ping and to a page.
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rhumb_trust::Membership;
use serde_json::json;

use crate::harness::{Place, Running};
use crate::hosts::{Keeper, host, joined, own_address, up, wait_for};
use crate::pages::{after, built, commands, page, play};
use crate::ports::web_server;
use crate::recorder::{self, Recorder};

/// Below the recording in the page.
const RECORDED: &str =
    "A network made, run and joined by three commands, and a ping between its two members";
const BODY: &[u8] = b"a page for members";

fn ping(place: &Place, name: &str) -> i32 {
    place.run(&["ping", name, "--count", "1"]).code
}

#[test]
fn a_network_is_made_run_and_joined_without_a_file_or_a_name() {
    let keeper = Keeper::create("home");
    let mut running = keeper.run_with(&[]);
    let alice = joined(&keeper.invite("alice"));
    let (node, told) = up(&alice);
    assert_eq!(told.last().unwrap()["network"], json!("alice in home"));
    wait_for("alice reaches the host", || ping(&alice, "host") == 0);
    wait_for("the host knows alice", || ping(&keeper.place, "alice") == 0);
    // Members are let in by one word, and find each other by their labels.
    let web = web_server(BODY.to_vec()).to_string();
    let offered = ["serve", "80", "--to", &web, "--allow-domain", "home"];
    let mut server = keeper.place.start(&offered);
    server.next_object();
    let proxy = told.iter().find(|it| it["role"] == json!("proxy")).unwrap();
    let proxy = format!("socks5h://{}", proxy["local"].as_str().unwrap());
    // Before the RIB has told who was removed, nobody is taken for a member.
    wait_for("a page", || {
        crate::proxy::curl(&["--proxy", &proxy, "http://host.rhumb.internal/"]).stdout == BODY
    });
    // Who comes later knows who was there before.
    let bob = joined(&keeper.invite("bob"));
    let (_bobs, _) = up(&bob);
    wait_for("bob reaches alice", || ping(&bob, "alice") == 0);
    assert_eq!(keeper.members(), ["alice", "bob", "host"]);
    // What is printed for people says what comes next.
    let listed = alice.run(&["network"]).output;
    assert!(listed.contains("home") && listed.contains("member alice"), "{listed}");
    let removed = keeper.place.run(&["network", "remove", "alice"]);
    assert_eq!(removed.code, 0, "{}{}", removed.output, removed.errors);
    let (code, said) = node.end_by_itself();
    assert!(code == 1 && said.contains("this host was removed from home"), "{code} {said}");
    assert_ne!(ping(&bob, "alice"), 0);
    let called = keeper.place.run(&["name"]).output;
    assert!(called.contains("bob") && !called.contains("alice"), "{called}");
    keeper.place.run(&["network", "remove", "host"]).is_refused_with(&["this host itself"]);
    // Invited again she comes by another name.
    std::fs::remove_dir_all(alice.path(".local/share/rhumb/networks/home")).unwrap();
    let again = alice.run(&["join", &keeper.invite("alice")]);
    assert_eq!(again.code, 0, "{}", again.errors);
    assert_eq!(keeper.members(), ["alice", "bob", "host"]);
    assert_eq!(ping(&bob, "host"), 0);
    // Nothing outlives what was run.
    drop(server);
    running.nudge("TERM");
    let _ = running.child.wait();
    assert_eq!(keeper.place.processes_left(), Vec::<u32>::new());
}

/// What the page shows as a recording: each command as somebody types it, and what it says.
#[test]
fn three_commands_say_what_the_recording_shows() {
    let (host, alice) = (host(), host());
    // Readers of the page have this address, too; tests beside this one have their own.
    let address = if recorder::is_wanted() { "127.0.0.1".to_owned() } else { own_address() };
    let mut recorder = Recorder::begin("network", RECORDED, [&host, &alice]);
    let says = |recorder: &mut Recorder, who: &str, place: &Place, line: &str| -> String {
        recorder.add(who, &format!("$ rhumb {line}"));
        let run = place.run(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(run.code, 0, "{line}: {}", run.errors);
        recorder.add(who, &run.output);
        run.output
    };
    let create = format!("network create home --address {address}");
    says(&mut recorder, "host", &host, &create);
    recorder.add("host", "$ rhumb network run home &");
    let running = host.start_for_people(&["network", "run", "home"]);
    runs(&mut recorder, "host", &running, "let somebody join");
    let invited = says(&mut recorder, "host", &host, "network invite home --as alice");
    let (_, code) = invited.split_once("rhumb join ").unwrap();
    let code = code.split_whitespace().next().unwrap();
    says(&mut recorder, "alice", &alice, &format!("join {code}"));
    recorder.add("alice", "$ rhumb up &");
    let node = alice.start_for_people(&["up"]);
    runs(&mut recorder, "alice", &node, "ready: this host is");
    wait_for("alice reaches the host", || ping(&alice, "host") == 0);
    says(&mut recorder, "alice", &alice, "ping host --count 3");
    recorder.end();
}

/// What it says until it is ready.
fn runs(recorder: &mut Recorder, who: &str, running: &Running, until: &str) {
    let mut is_over = false;
    wait_for(until, || {
        for line in running.lines_so_far() {
            is_over |= line.contains(until);
            recorder.add(who, &line);
        }
        is_over
    });
}

#[test]
fn a_part_that_dies_is_started_again() {
    let keeper = Keeper::create("home");
    let _running = keeper.run();
    let code = keeper.invite("alice");
    let parts = || -> Vec<(u32, String)> {
        let of = |id: u32| {
            let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            (id, String::from_utf8_lossy(&line).replace('\0', " "))
        };
        keeper.place.processes().into_iter().map(of).collect()
    };
    let of = |words: &str| parts().into_iter().find(|(_, line)| line.contains(words));
    for words in ["network keep", " rib ", " router "] {
        let (id, _) = of(words).unwrap();
        let killed = std::process::Command::new("kill").args(["-9", &id.to_string()]).status();
        assert!(killed.unwrap().success());
        wait_for(words, || of(words).is_some_and(|(another, _)| another != id));
    }
    wait_for("it is as good as before", || {
        let alice = host();
        alice.run(&["join", &code]).code == 0
    });
}

#[test]
fn parts_compute_by_what_the_command_was_told_to() {
    let keeper = Keeper::create("home");
    let running = keeper.run_with(&["--cipher", "library", "--log", "rhumb=debug"]);
    // It says so itself, and so do its router, its RIB and its node.
    wait_for("all say so", || running.errors_so_far().matches("by=Library").count() >= 4);
}

#[test]
fn what_is_made_is_its_users_alone_and_a_second_of_that_name_is_refused() {
    let keeper = Keeper::create("home");
    let folder = keeper.place.path(".local/share/rhumb/networks/home");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    for file in std::fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    let before = std::fs::read(folder.join("domain.key")).unwrap();
    let again = ["network", "create", "home", "--address", "127.0.0.1"];
    keeper.place.run(&again).is_refused_with(&["called home here already", "another label"]);
    assert_eq!(std::fs::read(folder.join("domain.key")).unwrap(), before);
    assert!(keeper.place.run(&["name"]).output.contains("home"));
    // A label of the book that is somebody else's stays so.
    let place = host();
    let name = place.keygen("node", "sea.key");
    let taken = ["network", "create", "sea", "--address", "127.0.0.1"];
    place.run(&taken).is_refused_with(&["sea stands for another name here", &name]);
    assert!(!place.path(".local/share/rhumb/networks/sea").exists());
    let nowhere = ["network", "create", "lake", "--address", "http://lake"];
    place.run(&nowhere).refused_by_the_command_line("no address and no host");
    place.run(&["network", "run"]).is_refused_with(&["rhumb network create LABEL"]);
    place.run(&["network", "invite", "--as", "x"]).is_refused_with(&["keeps no network"]);
    place.run(&["up", "--network", "lake"]).is_refused_with(&["no network that is called lake"]);
}

#[test]
fn memberships_are_given_again_unattended() {
    // Twenty days ago.
    let then = format!("--clock-offset-s=-{}", 20 * 86_400);
    let keeper = Keeper { place: host(), address: own_address() };
    let alice = host();
    let run = |place: &Place, arguments: &[&str]| {
        let run = place.run(&[&[&then, "--json"], arguments].concat());
        assert_eq!(run.code, 0, "{}", run.errors);
        run.object()
    };
    run(&keeper.place, &["network", "create", "home", "--address", &keeper.address]);
    let mut running = keeper.place.start(&[&then, "network", "run", "--no-node"]);
    assert_eq!(running.next_object()["role"], json!("network"));
    let code = run(&keeper.place, &["network", "invite", "--as", "alice"]);
    run(&alice, &["join", code["code"].as_str().unwrap()]);
    drop(running);
    assert_eq!(keeper.place.processes_left(), Vec::<u32>::new());
    let at = |place: &Place, file: &str| {
        let path = place.path(&format!(".local/share/rhumb/networks/home/{file}"));
        Membership::load(&path).unwrap().not_after_s()
    };
    let all = || {
        let parts = ["router", "rib"].map(|it| at(&keeper.place, &format!("{it}.membership")));
        [parts[0], parts[1], at(&alice, "node.membership")]
    };
    let given = all();
    // Now all of it is over.
    let _running = keeper.run();
    let _node = up(&alice);
    for (before, now) in given.into_iter().zip(all()) {
        assert!(now > before + 19 * 86_400, "{before} {now}");
    }
    let status = alice.run(&["--json", "status"]).object();
    assert!(status["membership"]["warning"].is_null(), "{status}");
}

#[test]
fn a_router_joins_and_carries() {
    let keeper = Keeper::create("home");
    let _running = keeper.run_with(&[]);
    let code = keeper.invite_with(&["--as", "tower", "--role", "router"]);
    let tower = host();
    tower.run(&["join", &code]).is_refused_with(&["for a router", "--router"]);
    let run = tower.run(&["join", &code, "--router"]);
    assert_eq!(run.code, 0, "{}", run.errors);
    assert_eq!(keeper.members(), ["host", "tower"]);
    // It listens at an address of its own.
    let address = own_address();
    let run = ["network", "run", "home", "--address", &address];
    let mut carrying = tower.start(&run);
    let ready = carrying.next_object();
    assert_eq!((&ready["role"], &ready["host"]), (&json!("network"), &json!(address)), "{ready}");
    let alice = joined(&keeper.invite("alice"));
    let router = format!("{address}:{}", ready["router_port"]);
    let key = ".local/share/rhumb/networks/home/node.key";
    let by_it = ["ping", "host", "--count", "1", "--key", key, "--router", &router];
    wait_for("she reaches the host by it", || alice.run(&by_it).code == 0);
    let stranger = ["ping", "host", "--router", &router];
    alice.run(&stranger).is_refused_with(&["rules do not let this name in"]);
}

#[test]
fn the_page_works_as_it_stands() {
    let place = Place::new();
    built(&place);
    let page = page("docs/network.md");
    let all = commands(&page, "# A network of your own", "## What lies where");
    let mut script = "export PATH=\"$PWD/target/release:$PATH\"\n".to_owned();
    for (number, block) in all.iter().enumerate() {
        script += &format!("echo; echo '$ block {number}'\n{block}");
    }
    script += "\nexit 0\n";
    let Some(played) = play(&place, &script, &["curl", "python3"]) else { return };
    let block = |words: &str| {
        let number = all.iter().position(|block| block.contains(words)).unwrap();
        after(&played, &format!("block {number}\n"))
    };
    assert!(block("rhumb network create").contains("3: "), "{played}");
    assert!(block("rhumb serve 8080").contains("a page for members"), "{played}");
    let shown = block("rhumb network show");
    assert!(shown.contains("alice") && shown.contains("bob is no member any more"), "{played}");
    assert!(shown.contains("\nbob is out"), "{played}");
    assert!(block("alice rhumb doctor").contains("\nnothing is wrong\n"), "{played}");
}
