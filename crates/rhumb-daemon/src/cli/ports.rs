//! The command lines of `rhumb serve`, `rhumb forward`, `rhumb proxy` and `rhumb up`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use rhumb_wire::{Name, PublishedLabel};

use super::{AskedRibs, NodeArguments, parse_label};
use crate::admin::{Admin, USUAL};
use crate::names::{self, Called};
use crate::remote::{Remote, parse_address};

/// `rhumb serve`
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// The port that others ask for; with a name before it, only by that name, which is this node's
    /// or that of an AdCert given
    #[arg(value_name = "[NAME:]PORT")]
    pub service: Offered,
    /// Where the program listens [default: the same port of 127.0.0.1]
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub to: Option<SocketAddr>,
    /// It speaks UDP: offer a port of datagrams, which is another one than that of TCP
    #[arg(long)]
    pub udp: bool,
    /// Let this name use it; may be repeated. Nobody else can, not even learn that it is there
    #[arg(long, value_name = "NAME", value_parser = names::parse)]
    pub allow: Vec<Name>,
    /// Let the members of this trust domain use it, by what they show of it; may be repeated
    #[arg(long, value_name = "NAME", value_parser = names::parse)]
    pub allow_domain: Vec<Name>,
    /// Let everybody use it who knows the name
    #[arg(long, conflicts_with_all = ["allow", "allow_domain"])]
    pub allow_all: bool,
    /// A RIB that tells who was removed from the domains allowed; may be repeated. Without one a
    /// membership counts until it ends
    #[arg(long, value_name = "NAME@ADDR", value_parser = names::parse_remote)]
    pub rib: Vec<Remote>,
    /// Answer for the capsule of this AdCert, too; may be repeated
    #[arg(long, value_name = "FILE")]
    pub ad_cert: Vec<PathBuf>,
    /// Serve /status and /metrics over HTTP: on a Unix socket that this user and root may
    /// ask (`--admin` alone, or with a path), or on a loopback address, which answers
    /// every user; port 0 picks one [default: off]
    #[arg(long, value_name = "PATH|ADDR", num_args = 0..=1, default_missing_value = USUAL, value_parser = Admin::parse)]
    pub admin: Option<Admin>,
    /// The node that serves.
    #[command(flatten)]
    pub node: NodeArguments,
}

/// `rhumb forward`
#[derive(Debug, Args)]
pub struct ForwardArguments {
    /// Where programs of this host connect to [address by default: 127.0.0.1]
    #[arg(value_name = "[ADDR:]PORT")]
    pub local: Local,
    /// Whose port it leads to
    #[arg(value_name = "NAME:PORT", value_parser = parse_called_port)]
    pub service: CalledPort,
    /// Where LABEL.OWNER:PORT is looked up.
    #[command(flatten)]
    pub asks: AskedRibs,
    /// It was offered with --udp: carry datagrams
    #[arg(long)]
    pub udp: bool,
    /// The node that connects: its name is what `--allow` there is about.
    #[command(flatten)]
    pub node: NodeArguments,
}

/// `rhumb proxy`
#[derive(Debug, Args)]
pub struct ProxyArguments {
    /// Where programs of this host find the proxy, both SOCKS 5 and HTTP [address by default:
    /// 127.0.0.1]
    #[arg(value_name = "[ADDR:]PORT", default_value = "1080")]
    pub local: Local,
    /// Where hosts LABEL.NAME.rhumb.internal are looked up.
    #[command(flatten)]
    pub asks: AskedRibs,
    /// The node that connects: its name is what `--allow` there is about.
    #[command(flatten)]
    pub node: NodeArguments,
}

/// `rhumb up`
#[derive(Debug, Default, Args)]
#[command(mut_arg("key", |key| key.help(UP_KEY)))]
pub struct UpArguments {
    /// Serve /status and /metrics over HTTP: on a Unix socket that this user and root may
    /// ask (`--admin` alone, or with a path), or on a loopback address, which answers
    /// every user; port 0 picks one [default: a Unix socket]
    #[arg(long, value_name = "PATH|ADDR", num_args = 0..=1, default_missing_value = USUAL, value_parser = Admin::parse)]
    pub admin: Option<Admin>,
    /// Give up root once everything is open, and go on as this user, who has to be able to read
    /// the files given
    #[arg(long, value_name = "USER")]
    pub run_as: Option<String>,
    /// The network that this host has joined and is to be a node of, with its router, key and
    /// membership [default: the only one, unless a router or a key is given]
    #[arg(long, value_name = "LABEL", value_parser = parse_label, conflicts_with_all = ["router", "root", "only", "key"])]
    pub network: Option<PublishedLabel>,
    /// Look for a network on this LAN, and make one if there is none, although this host is in one
    /// already or nobody sits at a terminal; of several that are there take the one that is called
    /// NETWORK, or whose fingerprint begins so [default: where this host is in no network, and
    /// somebody sits at a terminal]
    #[arg(long, value_name = "NETWORK", num_args = 0..=1, conflicts_with_all = ["network", "router", "root", "only", "key"])]
    pub lan: Option<Option<String>>,
    /// Trust everybody on this LAN: join the network that is found without comparing numbers, or
    /// let in whoever asks within ten minutes
    #[arg(long, conflicts_with_all = ["router", "root", "only", "key"])]
    pub trust_lan: bool,
    /// What this host is to be called in a network of this LAN [default: its host name]
    #[arg(long = "as", value_name = "LABEL", value_parser = parse_label)]
    pub own: Option<PublishedLabel>,
    /// Offer this port of 127.0.0.1 to all members of the network; may be repeated. Other ways to
    /// offer one: `rhumb serve`, or [[up.serve]] in the file
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub serve: Vec<u16>,
    /// The node alone: a part of what runs a network
    #[arg(long, hide = true)]
    pub node_only: bool,
    /// The node.
    #[command(flatten)]
    pub node: NodeArguments,
}

/// `[NAME:]PORT`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offered {
    /// By which name alone.
    pub name: Option<Name>,
    /// The port.
    pub port: u16,
}

/// `NAME:PORT`, where an owner may call NAME something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalledPort {
    /// Whose.
    pub called: Called,
    /// The port.
    pub port: u16,
}

/// Takes what an argument may call a name, with the port behind it.
pub(crate) fn parse_called_port(text: &str) -> Result<CalledPort, String> {
    let (name, number) = text.rsplit_once(':').ok_or(NAME_AND_PORT)?;
    Ok(CalledPort { called: names::parse_called(name)?, port: port(number)? })
}

/// `[ADDR:]PORT`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Local(pub SocketAddr);

impl FromStr for Offered {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.rsplit_once(':') {
            None => Ok(Self { name: None, port: port(text)? }),
            Some((name, number)) => {
                Ok(Self { name: Some(names::parse(name)?), port: port(number)? })
            }
        }
    }
}

impl FromStr for Local {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(port) => Ok(Self(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port))),
            Err(_) => parse_address(text).map(Self),
        }
    }
}

fn port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("`{text}` is no port; give a number of 0 to 65535"))
}

const NAME_AND_PORT: &str = "give a name and a port, as in NAME:80";
const UP_KEY: &str =
    "The node's key file [default: one beside the book of names, made at the first start]";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_stand_alone_or_behind_names_and_addresses() {
        let name = Name([7; 32]);
        let offered = |text: &str| text.parse::<Offered>();
        assert_eq!(offered("80"), Ok(Offered { name: None, port: 80 }));
        assert_eq!(offered(&format!("{name}:80")), Ok(Offered { name: Some(name), port: 80 }));
        assert!(offered("65536").is_err() && offered(":80").is_err() && offered("").is_err());
        let called = Called::Name(name);
        assert_eq!(parse_called_port(&format!("{name}:22")), Ok(CalledPort { called, port: 22 }));
        let published = parse_called_port(&format!("camera.{name}:22")).unwrap();
        assert_eq!(published.called.to_string(), format!("camera.{name}"));
        assert!(parse_called_port(&name.to_string()).is_err());
        assert!(parse_called_port("22").is_err());
        let local = |text: &str| text.parse::<Local>().map(|it| it.0.to_string());
        assert_eq!(local("8080").as_deref(), Ok("127.0.0.1:8080"));
        assert_eq!(local("[::1]:8080").as_deref(), Ok("[::1]:8080"));
        assert!(local("nonsense").is_err());
    }
}
