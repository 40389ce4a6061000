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
    /// Let a router stand at the domain's border, and say which domain is around this one
    Delegate(BorderArguments),
    /// Show what a membership or a border file says
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

/// `rhumb domain delegate`
#[derive(Debug, Args)]
pub struct BorderArguments {
    /// The domain's key
    #[arg(long, value_name = "FILE", default_value = "domain.key")]
    pub key: PathBuf,
    /// The router at the border: what is exported by the domain goes out and comes in there. The
    /// newest file counts, and with it the router that it names
    #[arg(long = "to", value_name = "NAME", value_parser = names::parse)]
    pub router: Name,
    /// The domain around this one, by which this one is known further out [default: none; what is
    /// exported is known next to the border, and no further]
    #[arg(long, value_name = "NAME", value_parser = names::parse)]
    pub parent: Option<Name>,
    /// The outermost domain in which this one may be known [default: everywhere]
    #[arg(long, value_name = "NAME", value_parser = names::parse, requires = "parent")]
    pub up_to: Option<Name>,
    /// For how many days from now
    #[arg(long, default_value_t = MOST_BORDER_DAYS, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_BORDER_DAYS)))]
    pub days: u32,
    /// Where to write the border file, which is public
    #[arg(long, value_name = "FILE", default_value = "router.border")]
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
/// What RIBs store at most. It is renewed by hand, and a router without it is no border.
const MOST_BORDER_DAYS: u32 = (rhumb_trust::MAX_DELEGATION_LIFETIME_S / 86_400) as u32;
