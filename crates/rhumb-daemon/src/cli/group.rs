//! The command line of `rhumb group`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::NodeArguments;

/// `rhumb group`
#[derive(Debug, Args)]
pub struct GroupArguments {
    /// What to do
    #[command(subcommand)]
    pub command: GroupCommand,
}

/// What to do with a group.
#[derive(Debug, Subcommand)]
pub enum GroupCommand {
    /// Show what is sent to a group, a line for each message, until stopped
    Receive(GroupReceiveArguments),
    /// Send a message to everybody who receives, or each line of standard input
    Send(GroupSendArguments),
    /// Tell the group's routers that somebody is a member no longer: where they know of members,
    /// it is out within a second
    Remove(GroupRemoveArguments),
}

impl GroupCommand {
    /// The node that does it.
    pub fn node(&self) -> &NodeArguments {
        match self {
            Self::Receive(GroupReceiveArguments { node, .. })
            | Self::Send(GroupSendArguments { node, .. })
            | Self::Remove(GroupRemoveArguments { node, .. }) => node,
        }
    }
}

/// `rhumb group receive`
#[derive(Debug, Args)]
pub struct GroupReceiveArguments {
    /// The membership by which this node receives; the group's owner makes it:
    /// rhumb domain admit --rights join
    pub membership: PathBuf,
    /// Be the group's root as well, by this AdCert: members' routers find the group where this
    /// node is. There is one root; its owner makes the AdCert: rhumb certify --key GROUP.key
    #[arg(long, value_name = "FILE")]
    pub serve: Option<PathBuf>,
    /// End after so many messages
    #[arg(short, long, value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// The port that messages are for
    #[arg(long, default_value_t = DEFAULT_GROUP_PORT)]
    pub port: u16,
    /// The node that receives: the one that the membership is about
    #[command(flatten)]
    pub node: NodeArguments,
}

/// `rhumb group send`
#[derive(Debug, Args)]
pub struct GroupSendArguments {
    /// The membership by which this node sends; the group's owner makes it:
    /// rhumb domain admit --rights publish
    pub membership: PathBuf,
    /// The message [default: each line of standard input]
    pub text: Option<String>,
    /// The port that messages are for
    #[arg(long, default_value_t = DEFAULT_GROUP_PORT)]
    pub port: u16,
    /// The node that sends: the one that the membership is about
    #[command(flatten)]
    pub node: NodeArguments,
}

/// `rhumb group remove`
#[derive(Debug, Args)]
pub struct GroupRemoveArguments {
    /// The removal, as written by rhumb domain remove --out
    pub removal: PathBuf,
    /// The node that tells: any
    #[command(flatten)]
    pub node: NodeArguments,
}

/// Of the ports of a node, for messages to groups.
const DEFAULT_GROUP_PORT: u16 = 1;
