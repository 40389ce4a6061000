//! A node that joins for one other name hears from nobody
//! else, at the same router or behind another one.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use crate::harness::Place;
use crate::network::Network;

#[test]
fn who_joins_for_one_name_hears_from_no_other() {
    let place = Place::new();
    let network = Network::start(&place);
    let router = network.router();
    let [alice, bob, eve] = ["alice", "bob", "eve"]
        .map(|who| (place.keygen("node", &format!("{who}.key")), format!("{who}.key")));
    let options = ["receive", "--key", &bob.1, "--for", &alice.0, "--router", &router];
    let mut receiver = place.start(&options);
    assert_eq!(receiver.next_object()["name"], bob.0.as_str());

    let ping = |who: &str| {
        let options = ["ping", &bob.0, "--count", "1", "--key", who, "--router", &router];
        place.run(&options)
    };
    let heard = ping(&alice.1);
    assert_eq!(heard.code, 0, "{}", heard.errors);
    assert_ne!(ping(&eve.1).code, 0, "nobody but alice is heard");

    std::fs::create_dir(place.path("out")).unwrap();
    place.write("out/letter", "for bob");
    let sent = |who: &str| {
        let options = ["send", "out/letter", "--to", &bob.0, "--key", who, "--router", &router];
        place.run(&options)
    };
    assert_eq!(sent(&alice.1).code, 0);
    assert_ne!(sent(&eve.1).code, 0);

    // Of one's own word, too, nobody makes more than it says; and a
    // command that could not work says so at once.
    let options = ["ping", &bob.0, "--for", &eve.0, "--router", &router];
    let refused = place.run(&options);
    assert_eq!(refused.code, 2, "{}", refused.errors);
    assert!(refused.errors.contains("with --for, this node talks with"), "{}", refused.errors);
    let options =
        ["ping", &bob.0, "--key", &alice.1, "--for", &bob.0, "--count", "1", "--router", &router];
    let mutual = place.run(&options);
    assert_eq!(mutual.code, 0, "{}", mutual.errors);
}
