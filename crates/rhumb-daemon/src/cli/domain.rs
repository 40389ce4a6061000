//! The command line of `rhumb domain`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use rhumb_wire::{Limits, Name, Rights};

use crate::admin::Admin;
use crate::names;
use crate::remote::Remote;
use crate::size::parse_rate;

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
    /// Make a domain: its key, and a working key that admits members, so that the domain's own can
    /// be kept off line
    Create(CreateArguments),
    /// Say that a name belongs to the domain, and what it may do there
    Admit(AdmitArguments),
    /// Give memberships again, by the same key or by another one: the same rights and limits, for
    /// longer. Daemons take a new file beside their key while they run
    Renew(RenewArguments),
    /// Take back what made a name a member, and tell the domain's RIBs, from which every router
    /// hears of it within a second
    Remove(RemoveArguments),
    /// Let a router stand at the domain's border, and say which domain is around this one
    Delegate(BorderArguments),
    /// Let a neighbour domain carry for this one, as a word that the domain's RIB shows it
    Carry(CarryArguments),
    /// Show which domains a running RIB reaches by which neighbours, the way that is taken first,
    /// and why
    Routes(RoutesArguments),
    /// Show what a membership, a border file, a carriage file or a removal says
    Inspect {
        /// The file
        file: PathBuf,
    },
    /// List the memberships and border files of a folder: who may what, until when, and what ends
    /// soon or is over
    List(ListArguments),
}

/// `rhumb domain create`
#[derive(Debug, Args)]
pub struct CreateArguments {
    /// Where to write the domain's key
    #[arg(long, value_name = "FILE", default_value = "domain.key")]
    pub out: PathBuf,
    /// Where to write the working key, with its membership beside it
    #[arg(long, value_name = "FILE", default_value = "working.key")]
    pub working: PathBuf,
    /// A few words that become part of the domain's metadata, for all to see
    #[arg(long, value_name = "TEXT")]
    pub label: Option<String>,
    /// Seal the domain's key with the passphrase in the first line of this file; to use the key,
    /// set RHUMB_PASSPHRASE
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<PathBuf>,
    /// For how many days from now the working key may admit others
    #[arg(long, default_value_t = MOST_DAYS as u32, value_parser = clap::value_parser!(u32).range(1..=MOST_DAYS))]
    pub days: u32,
}

/// `rhumb domain list`
#[derive(Debug, Args)]
pub struct ListArguments {
    /// Files, and folders to look for them in; not in folders below
    #[arg(value_name = "PATH", default_value = ".")]
    pub paths: Vec<PathBuf>,
    /// How many days before its end something ends soon
    #[arg(long, value_name = "DAYS", default_value_t = SOON_DAYS)]
    pub soon: u32,
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
    /// The membership of KEY, if it does not lie beside it: as what it is to admit
    #[arg(long = "as", value_name = "FILE")]
    pub as_member: Option<PathBuf>,
    /// What it may do, one or more
    #[arg(long, value_enum, value_delimiter = ',', default_value = "join")]
    pub rights: Vec<Right>,
    /// Most names that it may have at one router or RIB, together with all whom it admits, its own
    /// among them [default: as many as KEY may]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub names: Option<u32>,
    /// Most that a router carries for it, together with all whom it admits: 500kbit, 2Mbit, 1Gbit
    /// a second [default: as much as KEY may]
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub rate: Option<u32>,
    /// To whom it may send: `inside` of the domain only, one NAME only, or both after each other
    /// [default: to whom KEY may]
    #[arg(long, value_name = "inside|NAME", value_parser = SendTo::parse)]
    pub send_to: Vec<SendTo>,
    /// For how many days from now
    #[arg(long, default_value_t = DEFAULT_DAYS, value_parser = clap::value_parser!(u32).range(1..=MOST_DAYS))]
    pub days: u32,
    /// Where to write the membership
    #[arg(long, value_name = "FILE", default_value = "member.membership")]
    pub out: PathBuf,
}

/// To whom a member may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendTo {
    /// To names inside of the domain.
    Inside,
    /// To this name.
    One(Name),
}

impl SendTo {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "inside" => Ok(Self::Inside),
            name => names::parse(name).map(Self::One),
        }
    }
}

impl AdmitArguments {
    /// How much is given: what is not said stays as the giver's `own` limits have it.
    ///
    /// # Errors
    /// When two names are said to be the only one.
    pub fn limits(&self, own: Limits) -> Result<Limits, String> {
        let names = self.names.unwrap_or(own.names);
        let kbit_per_s = self.rate.unwrap_or(own.kbit_per_s);
        let mut limits = Limits { names, kbit_per_s, ..own };
        let mut only_to = None;
        for send_to in &self.send_to {
            match *send_to {
                SendTo::Inside => limits.inside_only = true,
                SendTo::One(name) if only_to.is_none_or(|only| only == name) => {
                    only_to = Some(name);
                }
                SendTo::One(_) => return Err("--send-to takes one name".to_owned()),
            }
        }
        Ok(Limits { only_to: only_to.or(limits.only_to), ..limits })
    }
}

/// `rhumb domain renew`
#[derive(Debug, Args)]
pub struct RenewArguments {
    /// Memberships, and folders to look for them in; not in folders below. A removal that lies
    /// there as a file keeps whom it is about from being admitted again
    #[arg(value_name = "PATH", default_value = ".")]
    pub paths: Vec<PathBuf>,
    /// The key that gives them: the domain's, or one that was admitted to admit
    #[arg(long, value_name = "FILE", default_value = "working.key")]
    pub key: PathBuf,
    /// Renew what this name gave [default: what KEY itself gave]
    #[arg(long, value_name = "NAME", value_parser = names::parse)]
    pub given_by: Option<Name>,
    /// For how many days from now
    #[arg(long, default_value_t = DEFAULT_DAYS, value_parser = clap::value_parser!(u32).range(1..=MOST_DAYS))]
    pub days: u32,
    /// A folder to write them to, each under the name of its file [default: each takes the place
    /// of the one before, as a whole]
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
}

/// `rhumb domain remove`
#[derive(Debug, Args)]
pub struct RemoveArguments {
    /// Who is a member no longer, nor those that it admitted
    #[arg(value_parser = names::parse, required_unless_present = "from")]
    pub name: Option<Name>,
    /// A removal that was signed elsewhere, to be brought to RIBs
    #[arg(long, value_name = "FILE", conflicts_with_all = ["name", "key", "as_member", "out", "days"], requires = "ribs")]
    pub from: Option<PathBuf>,
    /// The domain's key, or one that was admitted to admit: its own membership lies beside it
    #[arg(long, value_name = "FILE", default_value = "domain.key")]
    pub key: PathBuf,
    /// The membership of KEY, if it does not lie beside it
    #[arg(long = "as", value_name = "FILE")]
    pub as_member: Option<PathBuf>,
    /// The RIBs of the domain, all of them: one that is not told cannot tell its routers. Given
    /// several times
    #[arg(long = "rib", value_name = "NAME@ADDR", required_unless_present = "out")]
    pub ribs: Vec<Remote>,
    /// For how many days: no shorter than what it takes back was given for
    #[arg(long, default_value_t = MOST_DAYS as u32, value_parser = clap::value_parser!(u32).range(1..=MOST_DAYS))]
    pub days: u32,
    /// Where to write the removal, to be carried by hand; it is public
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `rhumb domain delegate`
#[derive(Debug, Args)]
pub struct BorderArguments {
    /// The domain's key
    #[arg(long, value_name = "FILE", default_value = "domain.key")]
    pub key: PathBuf,
    /// The router at the border: what is exported by the domain goes out and comes in there. A
    /// domain may have several; each takes over when another one is gone
    #[arg(long = "to", value_name = "NAME", value_parser = names::parse)]
    pub router: Name,
    /// This router is the only border from now on: it takes the place of all named before
    #[arg(long)]
    pub only: bool,
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

/// `rhumb domain carry`
#[derive(Debug, Args)]
pub struct CarryArguments {
    /// The domain's key
    #[arg(long, value_name = "FILE", default_value = "domain.key")]
    pub key: PathBuf,
    /// The neighbour domain that may carry
    #[arg(long = "by", value_name = "NAME", value_parser = names::parse)]
    pub neighbour: Name,
    /// To and from its own names and its customers' alone, as for a peer or a customer [default: to
    /// and from everybody, as for a provider]
    #[arg(long)]
    pub within: bool,
    /// For how many days from now
    #[arg(long, default_value_t = MOST_BORDER_DAYS, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_BORDER_DAYS)))]
    pub days: u32,
    /// Where to write the carriage file, which is public
    #[arg(long, value_name = "FILE", default_value = "neighbour.carriage")]
    pub out: PathBuf,
}

/// `rhumb domain routes`
#[derive(Debug, Args)]
pub struct RoutesArguments {
    /// The domain that is to be reached [default: all]
    #[arg(value_parser = names::parse)]
    pub domain: Option<Name>,
    /// The admin socket or address of the RIB [default: from the configuration file, or else the
    /// only socket at the usual place]
    #[arg(long, value_name = "PATH|ADDR", value_parser = Admin::parse)]
    pub admin: Option<Admin>,
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
    /// Join as names of others, too, that it answers for by their AdCerts
    Serve,
}

impl From<Right> for Rights {
    fn from(right: Right) -> Self {
        match right {
            Right::Join => Self::JOIN,
            Right::Carry => Self::CARRY,
            Right::Publish => Self::PUBLISH,
            Right::Admit => Self::ADMIT,
            Right::Serve => Self::SERVE,
        }
    }
}

/// As long as people are away.
const SOON_DAYS: u32 = 14;
/// A month: long enough to be renewed by hand.
const DEFAULT_DAYS: u32 = 30;
/// As [`rhumb_trust::MAX_MEMBERSHIP_LIFETIME_S`].
const MOST_DAYS: i64 = 366;
/// What RIBs store at most. It is renewed by hand, and a router without it is no border.
const MOST_BORDER_DAYS: u32 = (rhumb_trust::MAX_DELEGATION_LIFETIME_S / 86_400) as u32;
