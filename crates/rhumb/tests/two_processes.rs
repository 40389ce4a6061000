//! Two processes with one key at one router: both are told, once and in plain words; the later one
//! goes on and the other one ends.

use crate::harness::Place;
use crate::network::Network;

#[test]
fn of_two_processes_with_one_key_the_later_one_goes_on_and_the_other_one_ends() {
    let place = Place::new();
    let network = Network::start(&place);
    let router = network.router();
    let bob = place.keygen("node", "bob.key");
    let capsule = place.keygen("capsule", "capsule.key");
    let certified = place.run(&["certify", "--server", &bob]);
    assert_eq!(certified.code, 0, "{}", certified.errors);
    let mut first = place.start(&["receive", "--key", "bob.key", "--router", &router]);
    first.next_object();
    // As if the step before had been forgotten.
    let receive = ["receive", "--key", "bob.key", "--serve", "capsule.adcert", "--router", &router];
    let mut second = place.start(&receive);
    assert_eq!(second.next_object()["serves"][0], capsule.as_str());

    let (code, errors) = first.end_by_itself();
    assert_eq!(code, 1, "{errors}");
    assert!(errors.contains("another process has joined with this key"), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    let told = second.wait_for_error("another process runs with this key");
    assert!(told.contains("tells it to end"), "{told}");

    place.write("letter", "for the capsule");
    for to in [&capsule, &bob] {
        let sent = place.run(&["send", "letter", "--to", to, "--router", &router]);
        assert_eq!(sent.code, 0, "{}", sent.errors);
        assert_eq!(second.next_object()["to"], to.as_str());
    }
    assert!(second.lines_so_far().is_empty(), "it is served all the while");
    assert_eq!(second.end(), (0, String::new()), "told once");
}
