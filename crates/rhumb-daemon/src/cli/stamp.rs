//! The command line of `rhumb stamp`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::parse_resolver;
use crate::admin::{Admin, USUAL};

/// `rhumb stamp`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, after_help = STAMP_HELP)]
pub struct StampArguments {
    /// To do in place of running a command.
    #[command(subcommand)]
    pub task: Option<StampTask>,
    /// Where keys come from, and what is stamped.
    #[command(flatten)]
    pub keys: StampKeyArguments,
    /// Serve /status and /metrics over HTTP: on a Unix socket that this user and
    /// root may ask (`socket`, or a path), or on a loopback address, which answers
    /// every user; port 0 picks one [default: off]
    #[arg(long, value_name = "PATH|ADDR", value_parser = Admin::parse)]
    pub admin: Option<Admin>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<std::ffi::OsString>,
}

/// What `rhumb stamp` does other than to run a command.
#[derive(Debug, Subcommand)]
pub enum StampTask {
    /// Stamp for sockets that processes hand over, for users, and for networks behind this host
    Daemon(Box<StampDaemonArguments>),
    /// Show what a running `rhumb stamp` is doing
    Status(StampStatusArguments),
}

/// Through which waypoints, and with which keys.
#[derive(Debug, Default, Args)]
pub struct StampKeyArguments {
    /// The waypoints to pass, in this order, 1 to 4; once more for the other family of addresses.
    /// Given several times for one family: ways in the order in which they are preferred, each used
    /// while those before it are silent or refuse [default: those of the capability files]
    #[arg(long, value_name = "W1,W2", value_parser = parse_waypoints)]
    pub(crate) via: Vec<Waypoints>,
    /// A capability file; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) capability: Vec<PathBuf>,
    /// A principal file: keys are fetched from its key server, over DNS; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) principal: Vec<PathBuf>,
    /// A DNS resolver to ask for keys; may be repeated [default: those of /etc/resolv.conf]
    #[arg(long, value_name = "ADDR", value_parser = parse_resolver)]
    pub(crate) resolver: Vec<SocketAddr>,
    /// What becomes of packets for which there is no valid key [default: drop]
    #[arg(long, value_enum, value_name = "drop|plain")]
    pub(crate) fallback: Option<FallbackArgument>,
    /// Carry packets in UDP when W is the first waypoint, for firewalls and address translators on
    /// the way; to ADDR:PORT where a translator has W there; may be repeated
    #[arg(long, value_name = "W[=ADDR:PORT]", value_parser = parse_carried)]
    pub(crate) udp: Vec<CarriedInUdp>,
    /// Stamp questions to DNS servers, too, which else go the usual way
    #[arg(long)]
    pub(crate) stamp_dns: bool,
}

/// Waypoints of one family of addresses, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waypoints(pub(crate) Vec<IpAddr>);

/// A waypoint to which packets go in UDP, and where they go for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CarriedInUdp {
    /// Its address, as in a way.
    pub waypoint: IpAddr,
    /// Where datagrams to it go.
    pub to: SocketAddr,
}

/// What becomes of packets for which there is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FallbackArgument {
    /// They are dropped
    Drop,
    /// They go the usual way, unstamped
    Plain,
}

/// `rhumb stamp daemon`
#[derive(Debug, Default, Args)]
pub struct StampDaemonArguments {
    #[command(flatten)]
    pub(crate) keys: StampKeyArguments,
    /// Stamp what this user sends; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Vec<String>,
    /// The Unix socket at which processes hand over sockets to be stamped [default: off]
    #[arg(long, value_name = "FILE")]
    pub(crate) socket: Option<PathBuf>,
    /// A user who may hand over sockets, beside this process's own and root; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) allow: Vec<String>,
    /// Give up root once everything is open, and go on as this user, who has
    /// to be able to read and write the files given
    #[arg(long, value_name = "USER")]
    pub(crate) run_as: Option<String>,
    /// Serve /status and /metrics over HTTP: on a Unix socket that this user and root may
    /// ask (`--admin` alone, or with a path), or on a loopback address, which answers
    /// every user; port 0 picks one [default: off]
    #[arg(long, value_name = "PATH|ADDR", num_args = 0..=1, default_missing_value = USUAL, value_parser = Admin::parse)]
    pub(crate) admin: Option<Admin>,
    /// Look at the settings, say what is wrong with them, and end
    #[arg(long)]
    pub check: bool,
}

/// `rhumb stamp status`
#[derive(Debug, Args)]
pub struct StampStatusArguments {
    /// The admin address that it was started with [default: from the configuration file]
    #[arg(long, value_name = "PATH|ADDR", value_parser = Admin::parse)]
    pub admin: Option<Admin>,
}

/// A waypoint, and where it is reached by UDP if not at itself.
pub(crate) fn parse_carried(text: &str) -> Result<CarriedInUdp, String> {
    let (waypoint, to) = match text.split_once('=') {
        Some((waypoint, to)) => (waypoint, Some(to)),
        None => (text, None),
    };
    let waypoint: IpAddr =
        waypoint.trim().parse().map_err(|_| format!("`{waypoint}` is no IP address"))?;
    let to = match to {
        Some(to) => to.trim().parse().map_err(|_| {
            format!("`{to}` is no address with a port, as 192.0.2.1:7470 or [2001:db8::1]:7470")
        })?,
        None => SocketAddr::new(waypoint, rhumb_capability::PLATYPUS_PORT),
    };
    if waypoint.is_ipv4() != to.is_ipv4() {
        return Err(format!("{waypoint} and {to} are of different families of addresses"));
    }
    Ok(CarriedInUdp { waypoint, to })
}

/// Waypoints, with commas between.
pub(crate) fn parse_waypoints(text: &str) -> Result<Waypoints, String> {
    let parse = |one: &str| one.trim().parse().map_err(|_| format!("`{one}` is no IP address"));
    let list = text.split(',').map(parse).collect::<Result<Vec<IpAddr>, _>>()?;
    let is_mixed = list.iter().any(|one| one.is_ipv4() != list[0].is_ipv4());
    match list.len() {
        _ if is_mixed => Err("a packet passes waypoints of one family of addresses".to_owned()),
        1..=rhumb_capability::MAX_CAPABILITIES => Ok(Waypoints(list)),
        many => Err(format!(
            "{many} waypoints; a packet passes {} at most",
            rhumb_capability::MAX_CAPABILITIES
        )),
    }
}

const STAMP_HELP: &str = "\
Examples:
  rhumb stamp --capability w1.cap --capability w2.cap -- curl http://192.0.2.80/
  rhumb stamp --principal me.principal --via 192.0.2.1,198.51.100.1 -- ssh host
  rhumb stamp daemon --principal me.principal --via 192.0.2.1 --user alice

Needs root, or CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF and a control group (version 2) to make groups in.
The exit code is the command's; 127 when it cannot be started.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waypoint_is_reached_by_udp_at_itself_or_elsewhere() {
        let parsed = |text: &str| parse_carried(text).map(|it| it.to.to_string());
        assert_eq!(parsed("192.0.2.1").as_deref(), Ok("192.0.2.1:7470"));
        assert_eq!(parsed("2001:db8::1").as_deref(), Ok("[2001:db8::1]:7470"));
        assert_eq!(parsed("10.0.0.5 = 198.51.100.1:99").as_deref(), Ok("198.51.100.1:99"));
        for (text, problem) in [
            ("here", "`here` is no IP address"),
            ("10.0.0.5=198.51.100.1", "no address with a port"),
            ("10.0.0.5=[2001:db8::1]:7470", "different families"),
        ] {
            assert!(parsed(text).unwrap_err().contains(problem), "{text}");
        }
    }
}
