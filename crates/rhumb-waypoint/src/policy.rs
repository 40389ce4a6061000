//! A policy: traffic that is stamped by what it is, and whither it goes.

use std::fmt;

use rhumb_io::steering::Selector;

use crate::via::Via;

/// Traffic that is stamped by what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Which.
    pub selector: Selector,
    /// The one family of its prefixes; both without any.
    pub family: Option<Family>,
    /// Whither.
    pub via: Via,
}

/// A family of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Selector {
            source, destination, protocol, source_ports, destination_ports, users, ..
        } = &self.selector;
        if let Some(users) = users {
            write!(f, "user {} ", users.start())?;
        }
        if let Some((prefix, bits)) = source {
            write!(f, "from {prefix}/{bits} ")?;
        }
        if let Some((prefix, bits)) = destination {
            write!(f, "to {prefix}/{bits} ")?;
        }
        if let Some(protocol) = protocol {
            write!(f, "protocol {protocol} ")?;
        }
        for (what, ports) in [("source ports", source_ports), ("ports", destination_ports)] {
            if let Some(ports) = ports {
                write!(f, "{what} {}-{} ", ports.start(), ports.end())?;
            }
        }
        write!(f, "via {}", self.via)
    }
}

/// Each is a rule or two, which every packet of the host is compared with.
pub const MOST_POLICIES: usize = 64;
