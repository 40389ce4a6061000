//! The command line of `rhumb name`.

use clap::{Args, Subcommand};
use rhumb_wire::Name;

use crate::names::{self, Label};

/// `rhumb name`
#[derive(Debug, Args)]
pub struct NameArguments {
    /// What to do [default: list]
    #[command(subcommand)]
    pub command: Option<NameCommand>,
}

/// What to do with the book of names.
#[derive(Debug, Subcommand)]
pub enum NameCommand {
    /// Show what names are called on this machine
    List,
    /// Call a name by a label from now on
    Add {
        /// One word
        label: Label,
        /// The name, or NAME@ADDR as routers and RIBs print it
        #[arg(value_parser = parse_printed)]
        name: Name,
    },
    /// Call nothing by this label any more
    Remove {
        /// The word
        label: Label,
        /// Of several names, the one that is not to be called so
        #[arg(value_parser = names::parse)]
        name: Option<Name>,
    },
}

/// A name, and perhaps where it is.
fn parse_printed(text: &str) -> Result<Name, String> {
    names::parse(text.split_once('@').map_or(text, |(name, _)| name))
}
