//! Options of `rhumb keyserver` and `rhumb capability`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use rhumb_capability::{DelegationId, Prefix, Principal};

use super::waypoint::SUITES_HELP;
use crate::admin::{Admin, USUAL};
use crate::remote::{DEFAULT_KEYSERVER_PORT, parse_address, parse_waypoint};

/// `rhumb keyserver`
#[derive(Debug, Default, Args)]
#[command(after_help = SUITES_HELP)]
pub struct KeyserverArguments {
    /// Address to serve DNS at, by UDP and TCP; may be repeated [default: 0.0.0.0:53]
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub(crate) listen: Vec<SocketAddr>,
    /// Serve /status and /metrics over HTTP: on a Unix socket that this user and root may
    /// ask (`--admin` alone, or with a path), or on a loopback address, which answers
    /// every user; port 0 picks one [default: off]
    #[arg(long, value_name = "PATH|ADDR", num_args = 0..=1, default_missing_value = USUAL, value_parser = Admin::parse)]
    pub(crate) admin: Option<Admin>,
    /// Read the configuration and all files that it names, say what is wrong, and end
    #[arg(long)]
    pub check: bool,
}

/// `rhumb capability`
#[derive(Debug, Args)]
pub struct CapabilityArguments {
    /// What to do
    #[command(subcommand)]
    pub command: CapabilityCommand,
}

/// What to do with capabilities.
#[derive(Debug, Subcommand)]
pub enum CapabilityCommand {
    /// Make a waypoint's master key, the first one or that of the next epoch
    Master(MasterArguments),
    /// Make a key that signs: an operator's revocations, or a waypoint's questions for them
    Signer(SignerArguments),
    /// Make a principal: a file for it to fetch its keys with, and a line in the operator's book
    Mint(MintArguments),
    /// Restrict a capability to a prefix, for somebody else to use
    Delegate(DelegateArguments),
    /// Show what a file of any of these kinds says, without its secrets
    Inspect {
        /// The file
        file: PathBuf,
    },
    /// Take back what a principal has, or what it delegated under an id
    Revoke(RevokeArguments),
    /// Follow revocations as a waypoint does, and print each change
    Follow(FollowArguments),
}

/// `rhumb capability master`
#[derive(Debug, Args)]
pub struct MasterArguments {
    /// The waypoint's address, or the name of a router that demands capabilities
    #[arg(value_name = "ADDR", value_parser = parse_waypoint)]
    pub waypoint: IpAddr,
    /// Take the epoch after that of this file [default: epoch 1]
    #[arg(long, value_name = "FILE")]
    pub after: Option<PathBuf>,
    /// Where to write the key [default: ADDR.master]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `rhumb capability signer`
#[derive(Debug, Args)]
pub struct SignerArguments {
    /// The key's name, which both sides know it by, like operator.example.net
    pub name: String,
    /// Where to write the key [default: NAME.tsig]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `rhumb capability mint`
#[derive(Debug, Args)]
#[command(after_help = SUITES_HELP)]
pub struct MintArguments {
    /// The principal's number
    #[arg(value_name = "NUMBER", value_parser = parse_principal)]
    pub principal: Principal,
    /// Of the configured waypoints, only this one; may be repeated
    #[arg(long, value_name = "ADDR", value_parser = parse_waypoint)]
    pub waypoint: Vec<IpAddr>,
    /// Where to write the principal's file [default: NUMBER.principal]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `rhumb capability delegate`
#[derive(Debug, Args)]
pub struct DelegateArguments {
    /// The principal's file, or a capability that was delegated already
    #[arg(long, value_name = "FILE")]
    pub from: PathBuf,
    /// Destinations that packets may go to, like 203.0.113.0/24
    #[arg(long, value_name = "PREFIX", required_unless_present = "reply_to")]
    pub prefix: Option<Prefix>,
    /// A reply capability: packets may go to this host, or PDUs to this name, alone
    #[arg(long, value_name = "ADDR", value_parser = parse_waypoint, conflicts_with = "prefix")]
    pub reply_to: Option<IpAddr>,
    /// What the delegation is called in bills and revocations: 0 to 16777215
    #[arg(long, value_name = "ID", value_parser = parse_id)]
    pub id: DelegationId,
    /// Which waypoint, where a principal has several
    #[arg(long, value_name = "ADDR", value_parser = parse_waypoint)]
    pub waypoint: Option<IpAddr>,
    /// For the window after the present one
    #[arg(long)]
    pub next: bool,
    /// A resolver to ask for the principal's key; may be
    /// repeated [default: those of /etc/resolv.conf]
    #[arg(long, value_name = "ADDR", value_parser = parse_resolver)]
    pub resolver: Vec<SocketAddr>,
    /// Where to write the capability [default: WAYPOINT-ID.capability]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Which key server, and as whom.
#[derive(Debug, Args)]
pub struct ServerArguments {
    /// The file of the key that signs
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// The key server's address [default: that of the configuration file]
    #[arg(long, value_name = "ADDR", value_parser = parse_resolver)]
    pub server: Option<SocketAddr>,
    /// The zone [default: that of the configuration file]
    #[arg(long, value_name = "NAME")]
    pub zone: Option<String>,
}

/// `rhumb capability revoke`
#[derive(Debug, Args)]
pub struct RevokeArguments {
    /// The principal's number
    #[arg(value_name = "NUMBER", value_parser = parse_principal)]
    pub principal: Principal,
    /// Only what it delegated under this id
    #[arg(long, value_name = "ID", value_parser = parse_id)]
    pub id: Option<DelegationId>,
    /// Undo a revocation
    #[arg(long)]
    pub restore: bool,
    /// The serial, larger than all before [default: the
    /// time in seconds, or the last serial and one]
    #[arg(long, value_name = "SERIAL", value_parser = clap::value_parser!(u32).range(1..))]
    pub serial: Option<u32>,
    /// The key server that is told.
    #[command(flatten)]
    pub server: ServerArguments,
}

/// `rhumb capability follow`
#[derive(Debug, Args)]
pub struct FollowArguments {
    /// The key server that is asked.
    #[command(flatten)]
    pub server: ServerArguments,
}

fn parse_principal(text: &str) -> Result<Principal, String> {
    let number = text.parse().map_err(|_| format!("`{text}` is no number of a principal"))?;
    Ok(Principal(number))
}

fn parse_id(text: &str) -> Result<DelegationId, String> {
    let id = text.parse().ok().and_then(DelegationId::new);
    id.ok_or_else(|| format!("`{text}` is no delegation id; give 0 to {}", DelegationId::MAX))
}

/// An address whose port is that of DNS where none is given.
pub(crate) fn parse_resolver(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<IpAddr>() {
        Ok(address) => Ok(SocketAddr::new(address, DEFAULT_KEYSERVER_PORT)),
        Err(_) => parse_address(text),
    }
}
