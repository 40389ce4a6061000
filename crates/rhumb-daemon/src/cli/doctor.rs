//! The command line of `rhumb doctor`.

use clap::Args;
use rhumb_wire::PublishedLabel;

use super::network::parse_label;
use crate::names;
use crate::remote::Remote;

/// `rhumb doctor`
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct DoctorArguments {
    /// Look at this network alone [default: all that this host is in, and the configuration file]
    #[arg(long, value_name = "LABEL", value_parser = parse_label, conflicts_with_all = ["router", "rib"])]
    pub network: Option<PublishedLabel>,
    /// Look at this router, in place of those that the networks and the file name
    #[arg(long, value_name = "[NAME@]ADDR", value_parser = names::parse_remote)]
    pub router: Option<Remote>,
    /// Look at this RIB, in place of those that the networks and the file name
    #[arg(long, value_name = "[NAME@]ADDR", value_parser = names::parse_remote)]
    pub rib: Option<Remote>,
}

const AFTER_HELP: &str = "Nothing is changed. Each line is `ok`, `warning` or `problem` with what to do, or `not tried` \
with why. Exit code: 0 if there is no problem, 1 if there is.";
