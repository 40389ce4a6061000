//! The command line of `rhumb tun`.

use std::net::SocketAddr;

use clap::Args;
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

/// A loopback address that nobody else has, with the port that everybody asks: `resolv.conf` has no
/// place for another one.
pub(crate) const RESOLVER: &str = "127.0.0.41:53";
/// What IPv6 demands of any device.
pub(crate) const LEAST_MTU: u32 = 1280;
/// Longer than any datagram of a link.
pub(crate) const MOST_MTU: u32 = 65_535;
