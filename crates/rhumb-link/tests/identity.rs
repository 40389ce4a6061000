//! Only a name that a certificate proves is accepted, and only the one that the caller expects.

#![allow(clippy::unwrap_used)] // A test may.

use std::time::Duration;

use rhumb_link::{Config, DropReason, Event, LinkError, MIN_DATAGRAM_LEN};
use rhumb_trust::x509::IdentityError;
use rhumb_wire::datagram::{SessionIndex, SessionParameters};
use rhumb_wire::{Name, WireError};

use crate::foreign::{Foreign, Version, certificate};
use crate::pair::{Net, identity};

const VERSIONS: [Version; 2] = [Version::Dtls12, Version::Dtls13];

#[test]
fn another_name_than_expected_is_refused() {
    let mut net = Net::pair();
    let expected = Name([7; 32]);
    let address = net.hosts[1].address;
    let attempt = net.hosts[0].endpoint.connect(address, Some(expected), net.now);
    net.collect(0);
    net.run(Duration::from_secs(20));
    let error = LinkError::UnexpectedName { expected, actual: net.name(1) };
    assert_eq!(net.take_events(0), [Event::Failed { attempt, address, error }]);
    assert!(net.find_session(0, 1).is_none() && net.find_session(1, 0).is_none());
}

#[test]
fn the_expected_name_is_accepted() {
    let mut net = Net::pair();
    let expected = net.name(1);
    let address = net.hosts[1].address;
    net.hosts[0].endpoint.connect(address, Some(expected), net.now);
    net.collect(0);
    net.run(Duration::from_secs(1));
    net.assert_carries("expected name");
}

#[test]
fn our_own_name_at_the_other_end_is_refused() {
    let mut net = Net::new();
    let twin = identity();
    net.add_identity(twin.clone(), Config::default());
    net.add_identity(twin, Config::default());
    net.connect(0, 1);
    net.run(Duration::from_secs(20));
    let own = LinkError::Identity(IdentityError::OwnName);
    assert!(
        matches!(&net.take_events(0)[..], [Event::Failed { error, .. }] if *error == own),
        "a mirror is no peer"
    );
}

/// Certificates that prove no name, and why.
fn refused() -> Vec<(dimpl::DtlsCertificate, IdentityError)> {
    let (us, other) = (identity(), identity());
    let mut longer = us.metadata().emit();
    longer.push(0);
    vec![
        (certificate(&us, None), IdentityError::NoMetadata),
        (certificate(&us, Some(other.metadata().emit())), IdentityError::KeyMismatch),
        (certificate(&us, Some(longer)), IdentityError::Metadata(WireError::TrailingBytes)),
        (certificate(&us, Some(vec![])), IdentityError::Metadata(WireError::Truncated)),
    ]
}

#[test]
fn a_responder_that_proves_no_name_is_refused() {
    for version in VERSIONS {
        for (certificate, reason) in refused() {
            let mut net = Net::new();
            net.add(Config::default());
            let mut foreign = Foreign::new(&net, version, certificate, None);
            let attempt = net.hosts[0].endpoint.connect(foreign.address, None, net.now);
            net.collect(0);
            foreign.run(&mut net, Duration::from_secs(4));
            let error = LinkError::Identity(reason);
            let failed = Event::Failed { attempt, address: foreign.address, error };
            assert_eq!(net.take_events(0), [failed], "{version:?}");
        }
    }
}

#[test]
fn an_initiator_that_proves_no_name_is_refused() {
    for version in VERSIONS {
        for (certificate, reason) in refused() {
            let mut net = Net::new();
            net.add(Config::default());
            let mut foreign = Foreign::new(&net, version, certificate, Some(0));
            foreign.run(&mut net, Duration::from_secs(4));
            assert_eq!(
                net.drops(0).iter().find(|(reason, _)| *reason == DropReason::IdentityRefused),
                Some(&(DropReason::IdentityRefused, 1)),
                "{version:?} {reason:?}"
            );
            assert_eq!(net.hosts[0].endpoint.half_open(), 0);
            assert_eq!(net.take_events(0), []);
        }
    }
}

#[test]
fn a_foreign_peer_that_proves_its_name_is_accepted_in_both_directions() {
    for version in VERSIONS {
        for foreign_begins in [false, true] {
            let mut net = Net::new();
            net.add(Config::default());
            let them = identity();
            let certificate = certificate(&them, Some(them.metadata().emit()));
            let mut foreign = Foreign::new(&net, version, certificate, foreign_begins.then_some(0));
            if !foreign_begins {
                net.hosts[0].endpoint.connect(foreign.address, Some(them.name()), net.now);
                net.collect(0);
            }
            foreign.run(&mut net, Duration::from_secs(4));
            assert!(foreign.connected, "{version:?} {foreign_begins}");
            let theirs = SessionParameters::parse(&foreign.messages[0]).unwrap();
            assert_ne!(theirs.index.as_u32(), 0);
            let index = SessionIndex::new(5).unwrap();
            foreign.say(&SessionParameters { index, lanes: 1, max_datagram_len: 1300 }.emit());
            foreign.run(&mut net, Duration::from_millis(100));
            let session = net.hosts[0].endpoint.session_of(&them.name()).unwrap();
            let peer = net.hosts[0].endpoint.peer(session).unwrap();
            assert_eq!(peer.max_datagram_len, MIN_DATAGRAM_LEN, "it answers no probes");
            assert_eq!((peer.address, peer.initiator), (foreign.address, !foreign_begins));
            assert_eq!(&peer.metadata, them.metadata());
            assert_eq!(net.seal(0, session, &[0; 1232]).unwrap_err(), DropReason::TooBig);
            assert!(net.seal(0, session, &[0; 1232 - 28]).is_ok());
        }
    }
}
