//! The command line of `rhumb member`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use rhumb_bgp::policy::prefix::parse_prefix;
use rhumb_bgp::wire::Prefix;

/// `rhumb member`
#[derive(Debug, Default, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct MemberArguments {
    /// Only look at configuration, key, roster and policies, and say whether they are in order
    #[arg(long)]
    pub check: bool,
    /// What to ask a running proxy
    #[command(subcommand)]
    pub command: Option<MemberCommand>,
}

/// What to ask a running proxy.
#[derive(Debug, Subcommand)]
pub enum MemberCommand {
    /// Show routes: others' with their class and why they are used or
    /// refused, and the router's own with who gets them
    Routes(RoutesArguments),
    /// Show sessions, queues and latencies
    Status(MemberStatusArguments),
}

/// `rhumb member routes`
#[derive(Debug, Args)]
pub struct RoutesArguments {
    /// Only those to this prefix
    #[arg(value_name = "PREFIX", value_parser = parse_prefix_argument)]
    pub prefix: Option<Prefix>,
    /// The proxy's control socket [default: from the configuration file]
    #[arg(long, value_name = "FILE")]
    pub control: Option<PathBuf>,
}

/// `rhumb member status`
#[derive(Debug, Args)]
pub struct MemberStatusArguments {
    /// The proxy's control socket [default: from the configuration file]
    #[arg(long, value_name = "FILE")]
    pub control: Option<PathBuf>,
}

fn parse_prefix_argument(text: &str) -> Result<Prefix, String> {
    parse_prefix(text).ok_or_else(|| format!("`{text}` is no prefix like 192.0.2.0/24"))
}
