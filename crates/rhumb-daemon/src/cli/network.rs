//! The command lines of `rhumb network` and `rhumb join`.

use std::net::Ipv6Addr;
use std::time::Duration;

use clap::{Args, Subcommand};
use rhumb_trust::invitation::Host;
use rhumb_wire::PublishedLabel;

use crate::names::PUBLISHED_LABELS;
use crate::network::{DEFAULT_PORT, Rank};

/// `rhumb network`
#[derive(Debug, Args)]
pub struct NetworkArguments {
    /// What to do [default: list]
    #[command(subcommand)]
    pub command: Option<NetworkCommand>,
}

/// What to do with networks.
#[derive(Debug, Subcommand)]
pub enum NetworkCommand {
    /// Make a network: its keys, its rules, and this host as its first member. Nothing runs yet
    Create(NetworkCreateArguments),
    /// Run what this host does for a network: router, RIB and keeper, and a node of its own
    Run(NetworkRunArguments),
    /// Let one host join, once: prints a code for it
    Invite(InviteArguments),
    /// Show the networks that this host is in
    List,
    /// Show who is a member of a network whose keeper is this host, and who is invited
    Show {
        /// The network [default: the only one]
        #[arg(value_parser = parse_label)]
        network: Option<PublishedLabel>,
    },
    /// Take a member out: every router and RIB hears of it within a second
    Remove {
        /// What the member is called
        #[arg(value_parser = parse_label)]
        member: PublishedLabel,
        /// The network [default: the only one]
        #[arg(value_parser = parse_label)]
        network: Option<PublishedLabel>,
    },
    /// Let in a host of this LAN that asks, by the number on its screen, or refuse it; without a
    /// number, show who asks
    Admit {
        /// The number that stands on the other host's screen
        #[arg(num_args = 0..)]
        number: Vec<String>,
        /// Tell that host no, instead of letting it in
        #[arg(long, requires = "number")]
        refuse: bool,
        /// The network [default: the only one whose keeper is this host]
        #[arg(long, value_name = "LABEL", value_parser = parse_label)]
        network: Option<PublishedLabel>,
    },
    /// The keeper alone: a part of `rhumb network run` and `rhumb up`
    #[command(hide = true)]
    Keep {
        /// The network
        #[arg(value_parser = parse_label)]
        network: PublishedLabel,
        /// Hosts of its links may ask to be let in
        #[arg(long)]
        asked: bool,
        /// For so many seconds they are let in without being looked at
        #[arg(long, value_name = "S", requires = "asked")]
        open_s: Option<u64>,
    },
}

/// `rhumb network create`
#[derive(Debug, Args)]
pub struct NetworkCreateArguments {
    /// What the network is called: a word, of a-z, 0-9, `-` and `_`
    #[arg(value_parser = parse_label)]
    pub label: PublishedLabel,
    /// Where members reach this host: an address or a host's name
    #[arg(long, value_name = "HOST", value_parser = parse_host)]
    pub address: Host,
    /// The router's port, of UDP and TCP; the next one is the RIB's, of UDP, and the one after that
    /// the keeper's, of TCP. Firewalls have to let all three in
    #[arg(long, default_value_t = DEFAULT_PORT)]
    pub port: u16,
    /// What this host is called as a member
    #[arg(long = "as", value_name = "LABEL", default_value = "host", value_parser = parse_label)]
    pub own: PublishedLabel,
}

/// `rhumb network run`
#[derive(Debug, Args)]
pub struct NetworkRunArguments {
    /// The network [default: the only one whose keeper is this host]
    #[arg(value_parser = parse_label)]
    pub network: Option<PublishedLabel>,
    /// Leave out this host's own node, which is `rhumb up`
    #[arg(long)]
    pub no_node: bool,
    /// Where others reach this host, if it has joined as a router: an address or a host's name
    #[arg(long, value_name = "HOST", value_parser = parse_host)]
    pub address: Option<Host>,
    /// The port of a router that has joined, of UDP and TCP [default: 7460]
    #[arg(long)]
    pub port: Option<u16>,
}

/// `rhumb network invite`
#[derive(Debug, Args)]
pub struct InviteArguments {
    /// The network [default: the only one whose keeper is this host]
    #[arg(value_parser = parse_label)]
    pub network: Option<PublishedLabel>,
    /// What whoever joins is called
    #[arg(long = "as", value_name = "LABEL", value_parser = parse_label)]
    pub label: PublishedLabel,
    /// What it may do
    #[arg(long, value_enum, default_value = "member")]
    pub role: Rank,
    /// For how long the code is good: 30m, 12h, 7d; 30 days at most
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_time)]
    pub expires: Duration,
}

/// `rhumb join`
#[derive(Debug, Args)]
pub struct JoinArguments {
    /// The code that `rhumb network invite` printed, or `-` to read it from standard input: other
    /// users of this host see arguments
    #[arg(required = true, num_args = 1..)]
    pub code: Vec<String>,
    /// Join as a router, if the code is for one
    #[arg(long)]
    pub router: bool,
    /// What the network is called on this host [default: as its keeper calls it]
    #[arg(long, value_name = "LABEL", value_parser = parse_label)]
    pub called: Option<PublishedLabel>,
}

/// A label that members have, too: one word that is the same in a host's name.
pub(crate) fn parse_label(text: &str) -> Result<PublishedLabel, String> {
    text.parse().map_err(|_| format!("`{text}` cannot be a label here; give {PUBLISHED_LABELS}"))
}

/// Where others reach a host, wherever they are.
fn parse_host(text: &str) -> Result<Host, String> {
    let is_on_link = |ip: &str| ip.parse::<Ipv6Addr>().is_ok_and(|it| it.is_unicast_link_local());
    if is_on_link(
        text.split('%').next().unwrap_or(text).trim_start_matches('[').trim_end_matches(']'),
    ) {
        return Err(format!(
            "`{text}` holds on one link alone, where `rhumb up` makes a network; give an address that others reach"
        ));
    }
    Host::parse(text)
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no time; give one like 30m, 12h or 7d");
    let (at, unit) = text.char_indices().next_back().ok_or_else(wrong)?;
    let unit_s = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let count: u64 = text[..at].parse().map_err(|_| wrong())?;
    match count.checked_mul(unit_s) {
        Some(seconds @ 1..=MOST_S) => Ok(Duration::from_secs(seconds)),
        _ => Err(format!("`{text}`: a code is good for up to 30 days, and no longer")),
    }
}

/// Whoever has the code can join; a month is long for that.
const MOST_S: u64 = 30 * 86_400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_holds_on_a_link_alone_is_no_place_for_others() {
        for text in ["fe80::1", "[fe80::1]", "fe80::1%eth0"] {
            let problem = parse_host(text).unwrap_err();
            assert!(problem.contains("`rhumb up`"), "{text}: {problem}");
        }
        for text in ["2001:db8::1", "[::1]", "192.0.2.1", "fe80.example"] {
            assert!(parse_host(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn times_have_units_and_a_bound() {
        assert_eq!(parse_time("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_time("30d"), Ok(Duration::from_secs(MOST_S)));
        for wrong in ["", "h", "1", "-1h", "1w", "0m", "31d", "99999999999999999999d", "1ä"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }
}
