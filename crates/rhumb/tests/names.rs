//! Labels and beginnings in place of names: what they stand for on
//! this machine, and what they never stand for.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::os::unix::fs::PermissionsExt;

use crate::harness::Place;
use crate::network::Network;

const BOOK: &str = ".local/share/rhumb/names.toml";

fn address(remote: &str) -> &str {
    remote.split_once('@').unwrap().1
}

#[test]
fn labels_stand_where_names_do_and_are_shown_where_names_are() {
    let place = Place::new();
    let network = Network::start(&place);
    let bob = place.keygen("node", "bob.key");
    let router = format!("router@{}", address(&network.router()));
    let mut receiver = place.start(&["receive", "--key", "bob.key", "--router", &router]);
    assert_eq!(receiver.next_object()["name"], bob.as_str());

    for called in ["bob", &bob[..10], &bob[..40], &bob] {
        let ping = place.run(&["--json", "ping", called, "--count", "1", "--router", &router]);
        assert_eq!(ping.code, 0, "{}", ping.errors);
        assert_eq!(ping.object()["name"], bob.as_str());
    }
    std::fs::create_dir(place.path("out")).unwrap();
    place.write("out/letter", "x");
    let sent = place.run(&["--json", "send", "out/letter", "--to", "bob", "--router", &router]);
    assert_eq!((sent.code, &sent.object()["to"]), (0, &bob.as_str().into()), "{}", sent.errors);

    let trace = place.run(&["trace", "bob", "--router", &router]);
    let own = network.router_ready["name"].as_str().unwrap();
    assert!(trace.output.contains(&format!("{own}  (router)")), "{}", trace.output);
    assert!(trace.output.contains(&format!("{bob}  (bob)")), "{}", trace.output);
    assert!(trace.output.contains("this node says: router may carry"), "{}", trace.output);
    let admin = network.router_ready["admin"].as_str().unwrap();
    let status = place.run(&["status", "--admin", admin]).output;
    assert!(status.contains(&format!("router {own} (router) at")), "{status}");
    assert!(status.contains(&format!("peer {bob} (bob)")), "{status}");
}

#[test]
fn what_somebody_calls_itself_is_shown_as_its_word_and_never_looked_up() {
    let place = Place::new();
    let network = Network::start(&place);
    let router = network.router();
    // Eve's key was made elsewhere: nothing here knows it but what she says of herself.
    let elsewhere = Place::new();
    let label = "bob\u{1b}[2J";
    let eve = elsewhere.run(&["--json", "keygen", "--out", "eve.key", "--label", label]);
    let eve = eve.object()["name"].as_str().unwrap().to_owned();
    let mut receiver = elsewhere.start(&["receive", "--key", "eve.key", "--router", &router]);
    assert_eq!(receiver.next_object()["name"], eve.as_str());

    let admin = network.router_ready["admin"].as_str().unwrap();
    let status = place.run(&["status", "--admin", admin]).output;
    assert!(status.contains("calls itself \"bob\\u{1b}[2J\""), "{status}");
    assert!(!status.contains('\u{1b}') && !status.contains("(bob"), "{status}");
    for called in ["bob", &eve[..10]] {
        let ping = place.run(&["ping", called, "--router", &router]);
        assert_eq!(ping.code, 2, "{}", ping.output);
        assert!(ping.errors.contains("nothing is called so here"), "{}", ping.errors);
    }
    let added = place.run(&["name", "add", "eve", &format!("{eve}@192.0.2.1:7460")]);
    assert_eq!(added.code, 0, "{}", added.errors);
    for called in ["eve", &eve[..10]] {
        assert_eq!(place.run(&["ping", called, "--router", &router]).code, 0);
    }
}

#[test]
fn what_fits_two_names_is_refused_with_both() {
    let place = Place::new();
    std::fs::create_dir(place.path("old")).unwrap();
    let first = place.keygen("node", "old/bob.key");
    let again = place.run(&["--json", "keygen", "--out", "bob.key"]);
    assert!(again.errors.contains(&first), "{}", again.errors);
    let second = again.object()["name"].as_str().unwrap().to_owned();
    let ping = || place.run(&["ping", "bob", "--router", "127.0.0.1:9"]).errors;
    for what in ["2 names", &first, &second, "old/bob.key", "rhumb name remove bob"] {
        assert!(ping().contains(what), "`{what}` is not in: {}", ping());
    }
    place
        .run(&["name", "add", "bob", &first])
        .is_refused_with(&["stands for another name", &second]);
    assert_eq!(place.run(&["name", "remove", "bob", &first]).code, 0);
    assert!(ping().contains("127.0.0.1:9"), "{}", ping());

    // Who begins anew in the same folder is not asked about keys that are gone.
    std::fs::remove_file(place.path("bob.key")).unwrap();
    assert!(ping().contains("nothing is called so here"), "{}", ping());
    let third = place.keygen("node", "bob.key");
    let listed = place.run(&["--json", "name"]);
    assert_eq!(listed.object()["name"], third.as_str(), "{}", listed.output);
    place.run(&["name", "add", "a b", &third]).refused_by_the_command_line("cannot be a label");
}

#[test]
fn a_book_that_others_could_have_written_is_not_believed() {
    let place = Place::new();
    let name = place.keygen("node", "bob.key");
    let mode = |path: &str| std::fs::metadata(place.path(path)).unwrap().permissions().mode();
    assert_eq!(mode(BOOK) & 0o777, 0o600);
    assert_eq!(mode(".local/share/rhumb") & 0o777, 0o700);
    let ping = || place.run(&["ping", "bob", "--router", "127.0.0.1:9"]);
    let set = |mode| {
        std::fs::set_permissions(place.path(BOOK), PermissionsExt::from_mode(mode)).unwrap();
    };
    set(0o660);
    ping().refused_by_the_command_line("chmod 600");
    place.run(&["name", "list"]).is_refused_with(&["chmod 600"]);
    let other = place.run(&["keygen", "--out", "carol.key"]);
    assert_eq!(other.code, 0, "a key is made whatever becomes of its label");
    assert!(other.errors.contains("no label here"), "{}", other.errors);
    set(0o600);
    let text = std::fs::read_to_string(place.path(BOOK)).unwrap();
    place.write(BOOK, &text.replace("version = 1", "version = 2"));
    ping().refused_by_the_command_line("version 2");
    place.write(BOOK, &text.replace(&name, "abc"));
    ping().refused_by_the_command_line("`abc` is not a name");

    // A configuration file names in full: it means the same for whoever reads it.
    place.write(BOOK, &text);
    place.write("rhumb.toml", "[node]\nrouter = \"bob@127.0.0.1:9\"\n");
    place.run(&["ping", &name]).is_refused_with(&["rhumb.toml", "`bob` is not a name"]);
}

#[test]
fn keys_that_are_made_at_the_same_time_are_all_entered() {
    let place = Place::new();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let place = &place;
            scope.spawn(move || place.keygen("node", &format!("k{number}.key")));
        }
    });
    let listed = place.run(&["--json", "name"]).output;
    assert_eq!(listed.lines().count(), 8, "{listed}");
}
