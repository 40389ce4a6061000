//! The command line of `rhumb waypoint`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::admin::{Admin, USUAL};

/// `rhumb waypoint`
#[derive(Debug, Default, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = SUITES_HELP)]
pub struct WaypointArguments {
    /// An address that capabilities name this waypoint by; may be repeated
    #[arg(long, value_name = "IP")]
    pub(crate) address: Vec<IpAddr>,
    /// A master key file, or a folder of `*.master` files; may be
    /// repeated. They are read again when they change
    #[arg(long, value_name = "FILE")]
    pub(crate) master: Vec<PathBuf>,
    /// How packets come in and go out: by raw sockets; by a TUN device, to which the
    /// addresses are led; by AF_XDP beside the kernel (`xdp`), or only where the
    /// driver gains by it (`auto`) [default: auto]
    #[arg(long, value_enum, value_name = "auto|raw|tun|xdp")]
    pub(crate) io: Option<WaypointIoArgument>,
    /// A network interface for AF_XDP, may be repeated; or the name of the TUN device
    #[arg(long, value_name = "NAME")]
    pub(crate) interface: Vec<String>,
    /// The UDP port of Platypus, 0 for none [default: 7470]
    #[arg(long, value_name = "PORT")]
    pub(crate) udp_port: Option<u16>,
    /// Keep accounts in this folder, one file a period [default: in memory only]
    #[arg(long, value_name = "DIR")]
    pub(crate) accounts: Option<PathBuf>,
    /// Threads that forward, 1 to 8 [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=8))]
    pub(crate) workers: Option<u8>,
    /// Keep each worker on a core of its own: worker 0 on core 0, and so on
    #[arg(long)]
    pub(crate) pin: bool,
    /// Give up root once everything is open, and go on as this user, who has
    /// to be able to read and write the files given
    #[arg(long, value_name = "USER")]
    pub(crate) run_as: Option<String>,
    /// Serve /status and /metrics over HTTP: on a Unix socket that this user and root may
    /// ask (`--admin` alone, or with a path), or on a loopback address, which answers
    /// every user; port 0 picks one [default: off]
    #[arg(long, value_name = "PATH|ADDR", num_args = 0..=1, default_missing_value = USUAL, value_parser = Admin::parse)]
    pub(crate) admin: Option<Admin>,
    /// Only look at configuration and keys, and say whether they are in order
    #[arg(long)]
    pub check: bool,
    /// To do in place of running a waypoint.
    #[command(subcommand)]
    pub command: Option<WaypointCommand>,
}

/// What else to do about a waypoint.
#[derive(Debug, Subcommand)]
pub enum WaypointCommand {
    /// Show who sent how much: packets and bytes by resource principal and delegation
    Accounts(AccountsArguments),
}

/// `rhumb waypoint accounts`
#[derive(Debug, Args)]
pub struct AccountsArguments {
    /// The folder of the accounts [default: from the configuration file]
    #[arg(long, value_name = "DIR")]
    pub accounts: Option<PathBuf>,
    /// The period, like 2026-11-21; `all` lists the periods there are [default: the last one]
    #[arg(long, value_name = "PERIOD")]
    pub period: Option<String>,
}

/// A choice of packet I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WaypointIoArgument {
    /// AF_XDP with zero copy, or else raw sockets
    Auto,
    /// Raw sockets
    Raw,
    /// A TUN device
    Tun,
    /// AF_XDP where it is possible, or else raw sockets
    Xdp,
}

/// For all commands whose configuration names suites.
pub(super) const SUITES_HELP: &str = "\
Suites, as `suites` of a waypoint takes them and `suite` of a key server mints for them:
  header-aes      the default: bindings cover the header only. Whoever is on the way can replace the
                  payload of a packet, once. For what proves itself: TLS, SSH, QUIC, WireGuard
  header-sip      the same, for machines without AES instructions
  packet-polyval  header and payload. For plain payloads (DNS, HTTP, SNMP) over networks of others.
                  ICMP errors on the way are passed on at a tenth of the rate";
