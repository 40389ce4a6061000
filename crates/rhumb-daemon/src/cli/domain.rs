//! The command line of `rhumb domain`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use rhumb_wire::{Name, Rights};

use crate::names;

/// `rhumb domain`
#[derive(Debug, Args)]
pub struct DomainArguments {
    /// What to do
    #[command(subcommand)]
    pub command: DomainCommand,
}

/// What to do with a trust domain.
#[derive(Debug, Subcommand)]
pub enum DomainCommand {
    /// Say that a name belongs to the domain, and what it may do there
    Admit(AdmitArguments),
    /// Show what a membership says
    Inspect {
        /// The file
        file: PathBuf,
    },
}

/// `rhumb domain admit`
#[derive(Debug, Args)]
pub struct AdmitArguments {
    /// Who belongs to it
    #[arg(value_parser = names::parse)]
    pub name: Name,
    /// The domain's key, or one that was admitted to admit: its own membership lies beside it
    #[arg(long, value_name = "FILE", default_value = "domain.key")]
    pub key: PathBuf,
    /// What it may do, one or more
    #[arg(long, value_enum, value_delimiter = ',', default_value = "join")]
    pub rights: Vec<Right>,
    /// For how many days from now
    #[arg(long, default_value_t = DEFAULT_DAYS, value_parser = clap::value_parser!(u32).range(1..=MOST_DAYS))]
    pub days: u32,
    /// Where to write the membership
    #[arg(long, value_name = "FILE", default_value = "member.membership")]
    pub out: PathBuf,
}

/// What a member may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Right {
    /// Join routers, and send by them
    Join,
    /// Carry for others, as a router
    Carry,
    /// Publish at RIBs
    Publish,
    /// Admit others, to no more than it may do itself
    Admit,
}

impl From<Right> for Rights {
    fn from(right: Right) -> Self {
        match right {
            Right::Join => Self::JOIN,
            Right::Carry => Self::CARRY,
            Right::Publish => Self::PUBLISH,
            Right::Admit => Self::ADMIT,
        }
    }
}

/// A month: long enough to be renewed by hand.
const DEFAULT_DAYS: u32 = 30;
/// As [`rhumb_trust::MAX_MEMBERSHIP_LIFETIME_S`].
const MOST_DAYS: i64 = 366;
