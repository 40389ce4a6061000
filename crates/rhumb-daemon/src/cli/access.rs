//! Options of `rhumb router`, `rhumb rib` and `rhumb receive` about who may use them.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use rhumb_wire::Name;

use crate::names;

/// Who may use a router or a RIB.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct AccessArguments {
    /// Admit this name: it has a share that no stranger can touch; may be repeated
    #[arg(long, value_name = "NAME", value_parser = names::parse)]
    pub(crate) admit: Vec<Name>,
    /// Admit the names in this file, one a line; read again at SIGHUP; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) admit_file: Vec<PathBuf>,
    /// Admit the members of this trust domain, by what they show of it; may be repeated
    #[arg(long, value_name = "NAME", value_parser = names::parse)]
    pub(crate) admit_domain: Vec<Name>,
    /// Refuse this name; may be repeated
    #[arg(long, value_name = "NAME", value_parser = names::parse)]
    pub(crate) refuse: Vec<Name>,
    /// Whether those whom no rule names share a small pool, or are refused [default: allowed]
    #[arg(long, value_enum, value_name = "allowed|refused")]
    pub(crate) strangers: Option<Strangers>,
}

/// Who may send to a receiver.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SenderArguments {
    /// Take files from this name, and from nobody else; may be repeated
    #[arg(long, value_name = "NAME", value_parser = names::parse)]
    pub(crate) from: Vec<Name>,
    /// Take files from the names in this file, one a line, and from nobody
    /// else; read again at SIGHUP; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) from_file: Vec<PathBuf>,
    /// Take files from the members of this trust domain, by what they show of it, and from nobody
    /// else; may be repeated
    #[arg(long, value_name = "NAME", value_parser = names::parse)]
    pub(crate) from_domain: Vec<Name>,
}

/// What becomes of whom no rule names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Strangers {
    /// They share a small pool
    Allowed,
    /// They are refused
    Refused,
}

impl From<&SenderArguments> for AccessArguments {
    fn from(senders: &SenderArguments) -> Self {
        let SenderArguments { from, from_file, from_domain } = senders.clone();
        let is_closed = !(from.is_empty() && from_file.is_empty() && from_domain.is_empty());
        let strangers = is_closed.then_some(Strangers::Refused);
        Self {
            admit: from,
            admit_file: from_file,
            admit_domain: from_domain,
            strangers,
            ..Self::default()
        }
    }
}
