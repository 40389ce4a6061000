//! Honest nodes that join and are published.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_node::{Config, Node, Remote};
use rhumb_trust::Identity;
use rhumb_wire::{Name, Role};

use super::now;

/// A node that was published; it stays until this is dropped.
pub(crate) struct Joined {
    pub(crate) name: Name,
    pub(crate) took: Duration,
    _node: Node,
}

/// Nodes that join one after the other, `count` of them, each at an address of its own, and are
/// offered so long for it. Those who were published.
pub(crate) fn joins(router: SocketAddr, count: u8, patience: Duration) -> Vec<Joined> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let join = |number| {
        let identity = Arc::new(Identity::generate(Role::Node, now().unix_s()).unwrap());
        let mut config = Config::new(Remote::new(router));
        config.bind = Some((Ipv4Addr::new(127, 9, number, 1), 0).into());
        config.join_timeout = patience;
        let begun = Instant::now();
        let node = runtime.block_on(Node::join(identity, config)).ok()?;
        Some(Joined { name: node.name(), took: begun.elapsed(), _node: node })
    };
    (0..count).filter_map(join).collect()
}
