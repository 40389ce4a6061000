//! A capture of a native handshake and of what follows shows no name, no key
//! and no metadata; Debug output shows no secret.

#![allow(clippy::unwrap_used)] // A test may.

use std::sync::Arc;
use std::time::Duration;

use rhumb_link::{Config, Endpoint};
use rhumb_trust::Identity;
use rhumb_wire::{Metadata, Role};

use crate::pair::{Net, is_record};

fn telling_identity(label: &str) -> Arc<Identity> {
    let describe = |key| {
        Metadata::new(Role::Router, key, 0x1122_3344_5566_7788)
            .with_attribute("label", label)
            .unwrap()
    };
    Arc::new(Identity::generate_with(describe).unwrap())
}

#[test]
fn a_capture_shows_no_name_and_no_metadata() {
    let mut net = Net::new();
    let identities = [telling_identity("the-first-router"), telling_identity("the-second-router")];
    for identity in &identities {
        net.add_identity(identity.clone(), Config::default());
    }
    net.establish();
    net.assert_carries("payload in the clear would be seen");
    net.run(rhumb_link::RENEWAL_INTERVAL + Duration::from_secs(300));
    assert!(net.sent.len() > 1000);
    let mut secrets = vec![b"payload in the clear".to_vec()];
    for identity in &identities {
        secrets.push(identity.name().0.to_vec());
        secrets.push(identity.name().to_string().into_bytes());
        secrets.push(identity.metadata().emit());
    }
    let needles: std::collections::HashSet<&[u8]> =
        secrets.iter().flat_map(|secret| secret.windows(8)).collect();
    for flying in &net.sent {
        for window in flying.bytes.windows(8) {
            assert!(!needles.contains(window), "{window:02x?} in {:02x?}", flying.bytes);
        }
    }
}

#[test]
fn the_search_would_find_a_name_in_the_clear() {
    let mut net = Net::pair();
    let (session, _) = net.establish();
    let name = net.name(0);
    let mut flying = net.seal(0, session, &name.0).unwrap();
    assert!(is_record(&flying.bytes));
    assert!(!flying.bytes.windows(8).any(|window| window == &name.0[..8]));
    flying.bytes[12..44].copy_from_slice(&name.0);
    assert!(flying.bytes.windows(8).any(|window| window == &name.0[..8]));
}

#[test]
fn debug_output_shows_no_secret() {
    let mut net = Net::pair();
    let (session, _) = net.establish();
    let endpoint: &Endpoint = &net.hosts[0].endpoint;
    let shown = format!(
        "{endpoint:?} {:?} {:?} {:?}",
        endpoint.peer(session).unwrap(),
        net.hosts[0].events,
        endpoint.drops()
    );
    // The secret of host 0 is 32 times 1.
    assert!(!shown.contains("1, 1, 1, 1") && !shown.contains("01010101"), "{shown}");
    assert!(!format!("{endpoint:?}").contains("key"), "{endpoint:?}");
    assert!(format!("{endpoint:?}").len() < 200, "{endpoint:?}");
}

#[test]
fn an_endpoint_can_move_to_a_thread() {
    fn assert_send<T: Send>() {}
    assert_send::<Endpoint>();
}
