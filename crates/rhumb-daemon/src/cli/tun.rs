//! The command line of `rhumb tun`.

use std::net::SocketAddr;

use clap::Args;
use ipnet::IpNet;
use rhumb_wire::Name;

use super::NodeArguments;
use crate::admin::{Admin, USUAL};
use crate::names;
use crate::remote::Remote;

/// `rhumb tun`
#[derive(Debug, Args)]
pub struct TunArguments {
    /// The network device, which is gone when this ends [default: the first of rhumb0, rhumb1 and
    /// so on that is free]
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// Let this name send packets to this host, as it likes; may be repeated. Others can only
    /// answer what this host sends to them
    #[arg(long, value_name = "NAME", value_parser = names::parse)]
    pub allow: Vec<Name>,
    /// Let the members of this trust domain do so, by what they show of it; may be repeated
    #[arg(long, value_name = "NAME", value_parser = names::parse)]
    pub allow_domain: Vec<Name>,
    /// Let everybody do so who knows the name: what listens on this host has to look after itself
    #[arg(long, conflicts_with_all = ["allow", "allow_domain"])]
    pub allow_all: bool,
    /// A name that this host can send packets to; may be repeated. So are those allowed, those in
    /// the book (`rhumb name`), and those that have sent packets here
    #[arg(long, value_name = "NAME", value_parser = names::parse)]
    pub peer: Vec<Name>,
    /// This network lies behind this host, which hands on what names that are allowed send there;
    /// may be repeated. They hear of it when they ask
    #[arg(long, value_name = "NETWORK", value_parser = parse_network)]
    pub advertise_route: Vec<IpNet>,
    /// Let this network, or what this name says of it, lie behind the name; may be repeated
    #[arg(long, value_name = "NETWORK=NAME", value_parser = parse_route)]
    pub accept_route: Vec<AcceptedRoute>,
    /// A RIB that is asked for names of other addresses, and who was removed from the domains
    /// allowed; may be repeated. It has to serve this name, and hears who is looked for
    #[arg(long, value_name = "NAME@ADDR", value_parser = names::parse_remote)]
    pub rib: Vec<Remote>,
    /// Answer programs of this host that ask for the addresses of NAME.rhumb.internal, and of
    /// labels of the book in the place of NAME: a name server on this loopback address, which
    /// knows nothing else. What has all programs ask it is said at the start
    /// [default: none; without an address: 127.0.0.41:53]
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = RESOLVER)]
    pub resolver: Option<SocketAddr>,
    /// Bytes of the largest packet on the device. More than the default helps where links carry
    /// more than Ethernet's
    #[arg(long, value_name = "BYTES", default_value_t = LEAST_MTU, value_parser = clap::value_parser!(u32).range(i64::from(LEAST_MTU)..=i64::from(MOST_MTU)))]
    pub mtu: u32,
    /// Give up root once the device is there, and go on as this user, who has to be able to read
    /// the files given
    #[arg(long, value_name = "USER")]
    pub run_as: Option<String>,
    /// Serve /status and /metrics over HTTP: on a Unix socket that this user and root may
    /// ask (`--admin` alone, or with a path), or on a loopback address, which answers
    /// every user; port 0 picks one [default: off]
    #[arg(long, value_name = "PATH|ADDR", num_args = 0..=1, default_missing_value = USUAL, value_parser = Admin::parse)]
    pub admin: Option<Admin>,
    /// The node that has the address.
    #[command(flatten)]
    pub node: NodeArguments,
}

/// `NETWORK=NAME`
#[derive(Debug, Clone, Copy)]
pub struct AcceptedRoute {
    /// What may lie behind it.
    pub network: IpNet,
    /// Behind whom.
    pub name: Name,
}

fn parse_route(text: &str) -> Result<AcceptedRoute, String> {
    parse_accepted(text, names::parse)
}

/// The network, and the name as somebody reads it.
pub(crate) fn parse_accepted(
    text: &str,
    read: impl Fn(&str) -> Result<Name, String>,
) -> Result<AcceptedRoute, String> {
    let how = || format!("`{text}` is no NETWORK=NAME, like 192.0.2.0/24=NAME");
    let (network, name) = text.split_once('=').ok_or_else(how)?;
    Ok(AcceptedRoute { network: parse_network(network)?, name: read(name)? })
}

/// Its first address, and how many bits make it.
pub(crate) fn parse_network(text: &str) -> Result<IpNet, String> {
    let net: IpNet =
        text.parse().map_err(|_| format!("`{text}` is no network, like 192.0.2.0/24"))?;
    match net.trunc() == net {
        true => Ok(net),
        false => Err(format!("`{text}` is an address in {}; give that", net.trunc())),
    }
}

/// A loopback address that nobody else has, with the port that everybody asks: `resolv.conf` has no
/// place for another one.
pub(crate) const RESOLVER: &str = "127.0.0.41:53";
/// What IPv6 demands of any device.
pub(crate) const LEAST_MTU: u32 = 1280;
/// Longer than any datagram of a link.
pub(crate) const MOST_MTU: u32 = 65_535;
