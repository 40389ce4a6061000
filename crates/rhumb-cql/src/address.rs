//! Where a cluster is, `cql://HOST[:PORT],HOST[:PORT]/KEYSPACE`, and as whom to speak to it.
//!
//! A user and a password are not part of an address: an address is written on command lines, which
//! everybody on the machine can read.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use zeroize::{Zeroize, ZeroizeOnDrop};

/// Some nodes of a cluster, and the keyspace of the RIB in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CqlAddress {
    nodes: Vec<String>,
    keyspace: String,
}

/// Why something is no address of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CqlAddressError {
    /// It begins otherwise.
    #[error("the address of a cluster begins with cql://, as in cql://10.0.0.1,10.0.0.2/rib")]
    Scheme,
    /// It has a user in it.
    #[error(
        "an address has no user or password, since others can read command lines; put them in a file"
    )]
    Credentials,
    /// There is no node, or one is not of the form.
    #[error(
        "name nodes as HOST or HOST:PORT, with commas between them, an IPv6 address in brackets"
    )]
    Node,
    /// There is no keyspace, or its name is not one.
    #[error(
        "name the keyspace after the nodes, as in cql://10.0.0.1/rib: a-z, 0-9 and _, the first a \
             letter, 48 at most"
    )]
    Keyspace,
}

impl CqlAddress {
    /// Nodes as `HOST:PORT`.
    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// Whether all nodes are on this machine, so that nobody can listen on the way there.
    pub fn is_on_loopback(&self) -> bool {
        self.nodes.iter().all(|node| {
            let host = node.rsplit_once(':').map_or("", |(host, _)| host);
            let host = host.trim_start_matches('[').trim_end_matches(']');
            host == "localhost"
                || host.parse().is_ok_and(|it: IpAddr| it.to_canonical().is_loopback())
        })
    }

    /// The keyspace: letters, digits and underscores alone, so that it needs no quotes.
    pub fn keyspace(&self) -> &str {
        &self.keyspace
    }
}

impl FromStr for CqlAddress {
    type Err = CqlAddressError;

    fn from_str(text: &str) -> Result<Self, CqlAddressError> {
        let rest = text.strip_prefix("cql://").ok_or(CqlAddressError::Scheme)?;
        if rest.contains('@') {
            return Err(CqlAddressError::Credentials);
        }
        let (nodes, keyspace) = rest.split_once('/').ok_or(CqlAddressError::Keyspace)?;
        let nodes =
            nodes.split(',').map(node).collect::<Option<_>>().ok_or(CqlAddressError::Node)?;
        let is_word = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'_';
        let is_name = keyspace.starts_with(|it: char| it.is_ascii_lowercase())
            && keyspace.len() <= MAX_KEYSPACE_LEN
            && keyspace.bytes().all(is_word);
        let keyspace = keyspace.to_owned();
        is_name.then_some(Self { nodes, keyspace }).ok_or(CqlAddressError::Keyspace)
    }
}

impl fmt::Display for CqlAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "cql://{}/{}", self.nodes.join(","), self.keyspace)
    }
}

/// One node with its port.
fn node(text: &str) -> Option<String> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (format!("[{host}]"), port.strip_prefix(':').or(port.is_empty().then_some("")))
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host.to_owned(), (!port.is_empty()).then_some(port)),
            None => (text.to_owned(), Some("")),
        },
    };
    let port = match port? {
        "" => DEFAULT_PORT,
        port => port.parse().ok().filter(|port| *port != 0)?,
    };
    let is_host = |it: char| it.is_ascii_alphanumeric() || "-._[]:".contains(it);
    (!host.is_empty() && host.chars().all(is_host)).then(|| format!("{host}:{port}"))
}

/// A user of the cluster and the password. Neither is shown.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Credentials {
    pub(crate) user: String,
    pub(crate) password: String,
}

impl Credentials {
    /// Reads `USER:PASSWORD`, as it stands in a file or a variable: one line, whose end is left
    /// out.
    pub fn parse(text: &str) -> Option<Self> {
        let (user, password) = text.trim_end_matches(['\r', '\n']).split_once(':')?;
        let is_line = !user.is_empty() && !password.contains(['\r', '\n']);
        is_line.then(|| Self { user: user.to_owned(), password: password.to_owned() })
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Credentials(..)")
    }
}

/// The one that clusters listen on unless told otherwise.
const DEFAULT_PORT: u16 = 9042;
/// What Cassandra takes.
const MAX_KEYSPACE_LEN: usize = 48;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_ports_and_the_keyspace_needs_no_quotes() {
        let address: CqlAddress =
            "cql://a.example,10.0.0.2:9999,[2001:db8::1],[::1]:7/rib_1".parse().unwrap();
        let nodes = ["a.example:9042", "10.0.0.2:9999", "[2001:db8::1]:9042", "[::1]:7"];
        assert_eq!((address.nodes(), address.keyspace()), (&nodes.map(str::to_owned)[..], "rib_1"));
        assert_eq!(address.to_string().parse(), Ok(address));
    }

    #[test]
    fn an_address_is_on_loopback_only_if_all_of_its_nodes_are() {
        let is_on_loopback = |nodes: &str| {
            format!("cql://{nodes}/rib").parse::<CqlAddress>().unwrap().is_on_loopback()
        };
        for nodes in ["127.0.0.1", "127.0.93.1:7,localhost", "[::1]:7", "[::ffff:127.0.0.1]"] {
            assert!(is_on_loopback(nodes), "{nodes}");
        }
        for nodes in ["10.0.0.1", "127.0.0.1,10.0.0.1", "a.example", "0.0.0.0", "[2001:db8::1]"] {
            assert!(!is_on_loopback(nodes), "{nodes}");
        }
    }

    #[test]
    fn what_is_no_address_says_why() {
        use CqlAddressError::{Credentials, Keyspace, Node, Scheme};
        let long = format!("cql://a/{}", "k".repeat(49));
        for (text, expected) in [
            ("10.0.0.1/rib", Scheme),
            ("cql://me:secret@a/rib", Credentials),
            ("cql:///rib", Node),
            ("cql://a,,b/rib", Node),
            ("cql://a:0/rib", Node),
            ("cql://a:/rib", Node),
            ("cql://a b/rib", Node),
            ("cql://[::1/rib", Node),
            ("cql://[::1]x/rib", Node),
            ("cql://a", Keyspace),
            ("cql://a/", Keyspace),
            ("cql://a/Rib", Keyspace),
            ("cql://a/1rib", Keyspace),
            ("cql://a/rib;DROP", Keyspace),
            ("cql://a/rib/more", Keyspace),
            (long.as_str(), Keyspace),
        ] {
            assert_eq!(text.parse::<CqlAddress>(), Err(expected), "{text}");
        }
    }

    #[test]
    fn a_password_may_have_colons_and_is_not_shown() {
        let read = Credentials::parse("rib:a:b c\r\n").unwrap();
        assert_eq!((read.user.as_str(), read.password.as_str()), ("rib", "a:b c"));
        assert_eq!(format!("{read:?}"), "Credentials(..)");
        for text in ["", "rib", ":secret", "rib:a\nb"] {
            assert!(Credentials::parse(text).is_none(), "{text:?}");
        }
    }
}
