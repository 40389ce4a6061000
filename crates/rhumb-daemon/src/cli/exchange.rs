//! The command line of `rhumb exchange`.

use std::net::SocketAddr;

use clap::{Args, Subcommand};

use crate::admin::{Admin, USUAL};
use crate::remote::parse_address;

/// `rhumb exchange`
#[derive(Debug, Default, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ExchangeArguments {
    /// Which of the two parties: 1 is the exchange, 2 the neutral
    /// one [default: from the configuration file]
    #[arg(long, value_name = "1|2", value_parser = clap::value_parser!(u8).range(1..=2))]
    pub(crate) party: Option<u8>,
    /// TCP address to listen on, for members and the other party [default: 0.0.0.0:7480]
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Serve /status and /metrics over HTTP: on a Unix socket that this user and root may
    /// ask (`--admin` alone, or with a path), or on a loopback address, which answers
    /// every user; port 0 picks one [default: off]
    #[arg(long, value_name = "PATH|ADDR", num_args = 0..=1, default_missing_value = USUAL, value_parser = Admin::parse)]
    pub(crate) admin: Option<Admin>,
    /// Only look at configuration, key and roster, and say whether they are in order
    #[arg(long)]
    pub check: bool,
    /// To do in place of running a server.
    #[command(subcommand)]
    pub command: Option<ExchangeCommand>,
}

/// What else to do about an exchange.
#[derive(Debug, Subcommand)]
pub enum ExchangeCommand {
    /// Show what a running server of the exchange is doing
    Status(ExchangeStatusArguments),
}

/// `rhumb exchange status`
#[derive(Debug, Args)]
pub struct ExchangeStatusArguments {
    /// The server's admin address [default: from the configuration file]
    #[arg(long, value_name = "PATH|ADDR", value_parser = Admin::parse)]
    pub admin: Option<Admin>,
}
