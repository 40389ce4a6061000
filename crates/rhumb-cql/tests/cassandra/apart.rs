//! Nodes with a network namespace each, wired to one Ethernet, on which clients are, too. A node
//! that is cut off drops what comes from other nodes and what goes there, and nothing else.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::NODES;
use crate::namespaces::Namespace;

/// The namespaces of a cluster. They end with this.
pub(super) struct Apart {
    /// Where the clients are.
    _outside: Namespace,
    nodes: Vec<Namespace>,
    is_cut_off: [AtomicBool; NODES],
    way_in: Arc<File>,
}

impl Apart {
    /// `None` where this program may make no namespaces, or has nothing to make rules with.
    pub(super) fn new() -> Option<Self> {
        let mut nft = Command::new("nft");
        nft.arg("--version").stdin(Stdio::null()).output().ok()?;
        let outside = Namespace::new()?;
        let nodes = (0..NODES).map(|_| Namespace::new()).collect::<Option<Vec<_>>>()?;
        outside.bridge(&nodes.iter().collect::<Vec<_>>());
        outside.run(&format!("ip addr add {NETWORK}.254/24 dev bridge"));
        for (at, node) in nodes.iter().enumerate() {
            node.run(&format!("ip addr add {}/24 dev eth", host(at)));
        }
        let way_in = File::open(format!("/proc/{}/ns/net", outside.id())).ok()?;
        let is_cut_off = Default::default();
        Some(Self { _outside: outside, nodes, is_cut_off, way_in: Arc::new(way_in) })
    }

    /// Brings this thread to where clients are.
    pub(super) fn enter(&self) {
        enter(&self.way_in);
    }

    /// What brings any thread there.
    pub(super) fn way_in(&self) -> impl Fn() + Send + Sync + use<> {
        let way_in = self.way_in.clone();
        move || enter(&way_in)
    }

    /// What to begin the command of a node with.
    pub(super) fn prefix(&self, node: usize) -> [String; 2] {
        ["nsenter".to_owned(), format!("--net=/proc/{}/ns/net", self.nodes[node].id())]
    }

    pub(super) fn cut_off(&self, node: usize) {
        let others = (0..NODES).filter(|other| *other != node).map(host).collect::<Vec<_>>();
        let others = others.join(", ");
        self.nodes[node].run(&format!(
            "nft 'add table ip cut; \
             add chain ip cut in {{ type filter hook input priority 0; }}; \
             add chain ip cut out {{ type filter hook output priority 0; }}; \
             add rule ip cut in ip saddr {{ {others} }} drop; \
             add rule ip cut out ip daddr {{ {others} }} drop'"
        ));
        self.is_cut_off[node].store(true, Ordering::Relaxed);
    }

    pub(super) fn join_again(&self, node: usize) {
        if self.is_cut_off[node].swap(false, Ordering::Relaxed) {
            self.nodes[node].run("nft delete table ip cut");
        }
    }
}

fn enter(way_in: &File) {
    move_into_link_name_space(way_in.as_fd(), Some(LinkNameSpaceType::Network))
        .expect("the namespace of this program");
}

pub(super) fn host(node: usize) -> String {
    format!("{NETWORK}.{}", node + 1)
}

const NETWORK: &str = "10.93.0";
