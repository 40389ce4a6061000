//! Locators that nobody is at, or somebody else.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use rhumb_trust::{Identity, Window};
use rhumb_wire::certificate::Locator;
use rhumb_wire::{Name, Role, Statement};

use super::{Publisher, now};

/// Publishes so many names at a RIB, all of them as routers that are at `victim`.
pub(crate) fn publish_locators(rib: SocketAddr, victim: SocketAddr, count: usize) -> Vec<Name> {
    let mut publisher = Publisher::connect(Ipv4Addr::new(127, 5, 0, 1), rib);
    for _ in 0..count {
        let now = now();
        let identity = Arc::new(Identity::generate(Role::Router, now.unix_s()).unwrap());
        let locator = Statement::Locator(Locator::new(victim).unwrap());
        let window = Window::starting(now.unix_s(), 600);
        let certificate = identity.certify(locator, now.unix_ms, window).unwrap();
        publisher.publish(&identity, certificate);
    }
    publisher.finish();
    publisher.stored
}
