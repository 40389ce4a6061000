//! The command line of `rhumb name`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use rhumb_wire::{Name, PublishedLabel};

use super::MOST_DAYS;
use crate::names::{self, Label, PUBLISHED_LABELS};
use crate::remote::Remote;

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
    /// Say what names are called under a name of one's own, to everybody: whoever asks for
    /// `camera.OWNER` is led to NAME. What is said is the whole list: labels that were published
    /// before and are not given are gone
    Publish {
        /// A word, of a-z, 0-9, `-` and `_`, and the name that it stands for
        #[arg(value_name = "LABEL=NAME", value_parser = parse_published, required = true)]
        names: Vec<(PublishedLabel, Name)>,
        /// For how many days from now; then it is to be said again
        #[arg(long, default_value_t = MOST_DAYS as u32, value_parser = clap::value_parser!(u32).range(1..=MOST_DAYS))]
        days: u32,
        /// Whose names, and where.
        #[command(flatten)]
        owner: OwnerArguments,
    },
    /// Show what somebody publishes under its name
    Published {
        /// The owner
        #[arg(value_parser = names::parse)]
        owner: Name,
        /// A RIB that is asked; may be repeated: the newest list counts
        #[arg(long, value_name = "[NAME@]ADDR", value_parser = names::parse_remote, required = true)]
        rib: Vec<Remote>,
        /// The key file of the node that asks, where RIBs do not answer everybody [default: a fresh
        /// key for this run]
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
    },
    /// Take back all that was published under a name of one's own
    Withdraw {
        /// Whose names, and where.
        #[command(flatten)]
        owner: OwnerArguments,
    },
}

/// Who publishes, and where.
#[derive(Debug, Args)]
pub struct OwnerArguments {
    /// The owner's key file, of whatever role
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// A RIB that is to tell whoever asks; may be repeated
    #[arg(long, value_name = "NAME@ADDR", value_parser = names::parse_remote, required = true)]
    pub rib: Vec<Remote>,
}

/// Takes `LABEL=NAME`.
pub(crate) fn parse_published(text: &str) -> Result<(PublishedLabel, Name), String> {
    let (label, name) = text
        .split_once('=')
        .ok_or_else(|| format!("`{text}` is no LABEL=NAME, like camera=NAME"))?;
    let label = label
        .parse()
        .map_err(|_| format!("`{label}` cannot be published; give {PUBLISHED_LABELS}"))?;
    Ok((label, names::parse(name)?))
}

/// A name, and perhaps where it is.
fn parse_printed(text: &str) -> Result<Name, String> {
    names::parse(text.split_once('@').map_or(text, |(name, _)| name))
}
