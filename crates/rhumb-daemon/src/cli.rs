//! The command line: commands, options and their help.
//! Values are checked here as far as text allows.

mod access;
mod capability;
mod dashboard;
mod doctor;
mod domain;
mod exchange;
mod group;
pub mod manual;
mod member;
mod name;
mod network;
mod ports;
mod stamp;
mod top;
mod tun;
mod waypoint;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use rhumb_collector::Endpoint;
use rhumb_wire::{Name, Role};

use crate::admin::{Admin, USUAL};
use crate::names::{self, Called};
use crate::remote::{Remote, parse_address};
use crate::size::parse_size;
use crate::store::{StoreAt, parse_store};
use crate::values::{
    LEASE_RANGE_S, LocatorChoice, MAX_DATAGRAM_RANGE, MOST_COALESCE_US, parse_locator,
    parse_workers,
};

pub(crate) use access::{AccessArguments, SenderArguments, Strangers};
pub(crate) use capability::parse_resolver;
pub use capability::{
    CapabilityArguments, CapabilityCommand, DelegateArguments, FollowArguments, KeyserverArguments,
    MasterArguments, MintArguments, RevokeArguments, ServerArguments, SignerArguments,
};
pub use dashboard::DashboardArguments;
pub use doctor::DoctorArguments;
pub use domain::{
    AdmitArguments, BorderArguments, CarryArguments, CreateArguments, DomainArguments,
    DomainCommand, ListArguments, RemoveArguments, RenewArguments, Right, RoutesArguments,
};
pub use exchange::{ExchangeArguments, ExchangeCommand};
pub use group::{
    GroupArguments, GroupCommand, GroupReceiveArguments, GroupRemoveArguments, GroupSendArguments,
};
pub use manual::{CompletionsArguments, ManArguments};
pub use member::{MemberArguments, MemberCommand};
pub(crate) use name::parse_published;
pub use name::{NameArguments, NameCommand, OwnerArguments};
pub(crate) use network::parse_label;
pub use network::{
    InviteArguments, JoinArguments, NetworkArguments, NetworkCommand, NetworkCreateArguments,
    NetworkRunArguments,
};
pub(crate) use ports::parse_called_port;
pub use ports::{
    CalledPort, ForwardArguments, Local, Offered, ProxyArguments, ServeArguments, UpArguments,
};
pub use stamp::{
    CarriedInUdp, FallbackArgument, StampArguments, StampDaemonArguments, StampKeyArguments,
    StampTask,
};
pub(crate) use stamp::{parse_carried, parse_waypoints};
pub use top::{TopArguments, TopScreen};
pub use tun::{AcceptedRoute, TunArguments};
pub(crate) use tun::{LEAST_MTU, MOST_MTU, RESOLVER, parse_accepted, parse_network};
pub use waypoint::{AccountsArguments, WaypointArguments, WaypointCommand, WaypointIoArgument};

/// Secure routing by name.
#[derive(Debug, Parser)]
#[command(name = "rhumb", version, about = ABOUT, long_about = LONG_ABOUT, max_term_width = 100)]
pub struct CommandLine {
    /// Print JSON, one object a line
    #[arg(long, global = true)]
    pub json: bool,
    /// Configuration file [default: ./rhumb.toml, then ~/.config/rhumb/rhumb.toml; none is needed]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Which log lines to write to standard error, like `info` or
    /// `rhumb=debug` [default: RUST_LOG, then warn]
    #[arg(long, global = true, value_name = "FILTER")]
    pub log: Option<String>,
    /// Whose AES-GCM seals what is sent: nothing that is sent differs [default: fastest]
    #[arg(long, global = true, value_name = "WHICH")]
    pub cipher: Option<CipherChoice>,
    /// The collector of OpenTelemetry that a daemon pushes what it counts to, by OTLP over HTTP,
    /// like `https://HOST:4318` [default: none]
    #[arg(long, global = true, value_name = "URL", value_parser = parse_collector)]
    pub otlp: Option<Endpoint>,
    /// No progress bar, not even on a terminal
    #[arg(long, global = true)]
    pub quiet: bool,
    /// End when standard input closes: for processes that must not outlive their parent
    #[arg(long, global = true, hide = true)]
    pub with_parent: bool,
    /// Seconds that this process's civil clock is ahead: for tests of what takes hours
    #[arg(long, global = true, hide = true, default_value_t = 0, allow_negative_numbers = true)]
    pub clock_offset_s: i64,
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

fn parse_collector(text: &str) -> Result<Endpoint, String> {
    Endpoint::parse(text).map_err(|error| error.to_string())
}

impl CommandLine {
    /// The command line of this process. One that asks for help, or does not fit, ends the process.
    pub fn read() -> Self {
        Self::parse()
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show it all: a RIB, three routers, two nodes, a file moved by name, three attacks refused
    Demo(DemoArguments),
    /// Make a network, run it, and let hosts join
    Network(NetworkArguments),
    /// Become a member of a network, by a code from its keeper
    Join(JoinArguments),
    /// Make a key and the name it speaks for
    Keygen(KeygenArguments),
    /// Show and change what names are called on this machine
    Name(NameArguments),
    /// Let a server answer for a capsule's or a group's name, for some days
    Certify(CertifyArguments),
    /// Say who belongs to a trust domain and who stands at its border, and show what was said
    Domain(DomainArguments),
    /// Show what an AdCert says
    Inspect(InspectArguments),
    /// Run a RIB: the directory of verified routes
    Rib(RibArguments),
    /// Run a router: carries traffic for names that let it
    Router(RouterArguments),
    /// Send a file, a folder or standard input to a name
    Send(SendArguments),
    /// Receive files, under this node's name
    Receive(ReceiveArguments),
    /// Offer a program of this host as a port of this node's name, encrypted from end to end
    Serve(ServeArguments),
    /// Bring a port that somebody offers under a name to an address of this host
    Forward(ForwardArguments),
    /// Let programs that can use a proxy reach names, as hosts NAME.rhumb.internal
    Proxy(ProxyArguments),
    /// Run one node for all programs of this host: a proxy, and what the configuration file offers
    /// and brings here
    Up(UpArguments),
    /// Give this host an address that is its name, for all programs: a network device, whose
    /// packets go to other names, encrypted from end to end
    Tun(TunArguments),
    /// Receive what is sent to a group, or send to it: one message to everybody in it
    Group(GroupArguments),
    /// Measure the round trip to a name
    Ping(PingArguments),
    /// Show the routers on the way to a name
    Trace(TraceArguments),
    /// Show what a running RIB, router, key server or waypoint is doing
    Status(StatusArguments),
    /// Watch running daemons in the terminal: rates, sessions, flows, drops, certificates
    Top(TopArguments),
    /// Serve a page that shows what this host's daemons are doing: the network as a picture that
    /// moves, traffic, drops, certificates and alarms
    Dashboard(DashboardArguments),
    /// Find out what is wrong with what this host has: files, clock, router, RIB, keeper, ports and
    /// running daemons; and say what to do
    Doctor(DoctorArguments),
    /// Say what a name may do at a running router, and why, or what it lacks
    Why(WhyArguments),
    /// Run a key server: gives Platypus keys to principals over DNS, and takes them back
    Keyserver(KeyserverArguments),
    /// Make, restrict, show and take back Platypus capabilities
    Capability(CapabilityArguments),
    /// Run a Platypus waypoint: forwards IP packets that prove they
    /// may pass, and keeps accounts of who sent them
    Waypoint(WaypointArguments),
    /// Run the proxy beside a member's router, which takes part in a private exchange for it
    Member(MemberArguments),
    /// Run one of the two servers of a private exchange, which hands out
    /// members' routes without seeing their policies
    Exchange(ExchangeArguments),
    /// Send a command's packets through waypoints, or a socket's, a user's, or a network's
    Stamp(StampArguments),
    /// Print the script by which a shell completes commands and options: source <(rhumb
    /// completions bash)
    Completions(CompletionsArguments),
    /// Write manual pages: one of the program, and one of each command
    Man(ManArguments),
}

/// `rhumb demo`
#[derive(Debug, Args)]
pub struct DemoArguments {
    /// The file to move [default: a part of this program]
    pub file: Option<PathBuf>,
    /// Show trust domains instead: five of them on three levels, a file that goes from one of the
    /// inner ones to another, who is not let in, and what is not found from outside
    #[arg(long)]
    pub domains: bool,
}

/// `rhumb keygen`
#[derive(Debug, Args)]
pub struct KeygenArguments {
    /// What the name is for
    #[arg(long, value_enum, default_value_t = KeyRole::Node)]
    pub role: KeyRole,
    /// Where to write the key [default: node.key, router.key, rib.key, capsule.key or domain.key]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// A few words that become part of the name's metadata, for all to see
    #[arg(long, value_name = "TEXT")]
    pub label: Option<String>,
    /// Seal the key with the passphrase in the first line of this
    /// file; to use the key, set RHUMB_PASSPHRASE
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<PathBuf>,
}

/// Whose code computes AES-GCM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CipherChoice {
    /// Rhumb's own where it was measured to be the faster one, by up to six times; or else aws-lc
    Fastest,
    /// aws-lc, for those who trust no other
    Library,
    /// Rhumb's own, where the processor has what that needs: also where nobody has measured it
    Own,
}

/// Roles that keys are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KeyRole {
    /// Sends and receives
    Node,
    /// Carries for others
    Router,
    /// Keeps the directory
    Rib,
    /// Is served by others, and moves between them: its key stays at home
    Capsule,
    /// Says who belongs to it and what they may do: its key stays at home
    Domain,
}

impl From<KeyRole> for Role {
    fn from(role: KeyRole) -> Self {
        match role {
            KeyRole::Node => Self::Node,
            KeyRole::Router => Self::Router,
            KeyRole::Rib => Self::Rib,
            KeyRole::Capsule => Self::Capsule,
            KeyRole::Domain => Self::Domain,
        }
    }
}

/// `rhumb certify`
#[derive(Debug, Args)]
pub struct CertifyArguments {
    /// The key file of the capsule, or of the group
    #[arg(long, value_name = "FILE", default_value = "capsule.key")]
    pub key: PathBuf,
    /// The name of the node that is to answer
    #[arg(long, value_name = "NAME", value_parser = names::parse)]
    pub server: Name,
    /// Lets it answer beside all others that are certified with this: who sends is led to the
    /// nearest that is there. Without, this server takes the place of every other one
    #[arg(long)]
    pub several: bool,
    /// For how many days from now
    #[arg(long, default_value_t = DEFAULT_DAYS, value_parser = clap::value_parser!(u32).range(1..=MOST_DAYS))]
    pub days: u32,
    /// Where to write the AdCert, which is public
    #[arg(long, value_name = "FILE", default_value = "capsule.adcert")]
    pub out: PathBuf,
}

/// `rhumb inspect`
#[derive(Debug, Args)]
pub struct InspectArguments {
    /// An AdCert that `rhumb certify` made
    pub file: PathBuf,
}

/// What is done with a RIB that runs
#[derive(Debug, Subcommand)]
pub enum RibCommand {
    /// Show how busy it is: look-ups and orders in a second, how long they wait, what is full
    Stats {
        /// Its admin endpoint [default: the one of the configuration file, or the only one there]
        #[arg(long, value_name = "PATH|ADDR", value_parser = Admin::parse)]
        admin: Option<Admin>,
        /// For how many seconds to look
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
        seconds: u64,
    },
    /// Show the names that it stores, page by page: what is said of each, by whom, and until when
    List {
        /// Whose: a name, what it is called here, or how it begins [default: all]
        #[arg(value_name = "NAME")]
        begins: Option<String>,
        /// Go on behind this name, the last one that was shown
        #[arg(long, value_name = "NAME", value_parser = names::parse)]
        after: Option<Name>,
        /// How many names at the most
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u8).range(1..=100))]
        limit: u8,
        /// Its admin endpoint, a socket [default: the one of the configuration file, or the only
        /// one there]
        #[arg(long, value_name = "PATH", value_parser = Admin::parse)]
        admin: Option<Admin>,
    },
    /// Copy what it stores into a new file while it goes on; a RIB started with that file as its
    /// store goes on from there
    Backup {
        /// The file to make, which must not be there
        file: PathBuf,
        /// Its admin endpoint, a socket [default: the one of the configuration file, or the only
        /// one there]
        #[arg(long, value_name = "PATH", value_parser = Admin::parse)]
        admin: Option<Admin>,
    },
}

/// `rhumb rib`
#[derive(Debug, Default, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct RibArguments {
    /// What else is done with RIBs than to run one
    #[command(subcommand)]
    pub command: Option<RibCommand>,
    /// UDP address to listen on [default: 0.0.0.0:7461]
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub(crate) listen: Option<SocketAddr>,
    /// TCP address to take links over TLS at, for routers that UDP is blocked for [default: none]
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub(crate) tls_listen: Option<SocketAddr>,
    /// The RIB's key file
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// The store: a file, made if missing, or a cluster that speaks CQL, as
    /// cql://HOST[:PORT],HOST/KEYSPACE [default: rib.redb]
    #[arg(long, value_name = "FILE|CQL", value_parser = parse_store)]
    pub(crate) store: Option<StoreAt>,
    /// Make what is missing of the cluster's tables, each row at so many nodes; once for all RIBs
    #[arg(long, value_name = "REPLICAS", value_parser = clap::value_parser!(u8).range(1..=9))]
    pub(crate) create_schema: Option<u8>,
    /// The trust domain whose names it knows
    #[arg(long, value_name = "NAME", value_parser = names::parse)]
    pub(crate) domain: Option<Name>,
    /// A RIB of the domain around that one, which is asked for what is not known here, and told
    /// what exports itself; may be repeated
    #[arg(long, value_name = "NAME@ADDR", value_parser = names::parse_remote)]
    pub(crate) parent: Vec<Remote>,
    /// The largest datagram to send or receive, in bytes of UDP payload; a path
    /// that takes less is found out [default: 1452]
    #[arg(long, value_name = "BYTES", value_parser = max_datagram_parser())]
    pub(crate) max_datagram: Option<u16>,
    #[command(flatten)]
    pub(crate) access: AccessArguments,
    /// Serve /status and /metrics over HTTP: on a Unix socket that this user and root may
    /// ask (`--admin` alone, or with a path), on one that the group of its folder may ask, too
    /// (`readers:PATH`), or on a loopback address, which answers every user; port 0 picks one
    /// [default: off]
    #[arg(long, value_name = "PATH|ADDR", num_args = 0..=1, default_missing_value = USUAL, value_parser = Admin::parse)]
    pub(crate) admin: Option<Admin>,
}

/// `rhumb router`
#[derive(Debug, Default, Args)]
pub struct RouterArguments {
    /// UDP address to listen on [default: 0.0.0.0:7460]
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub(crate) listen: Option<SocketAddr>,
    /// TCP address to take links over TLS at, for whom UDP is blocked; port 443 gets through most
    /// firewalls [default: none]
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub(crate) tls_listen: Option<SocketAddr>,
    /// The router's key file
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// A RIB to publish at and to ask; may be repeated
    #[arg(long, value_name = "NAME@ADDR", value_parser = names::parse_remote)]
    pub(crate) rib: Vec<Remote>,
    /// A router that this one is reached through; may be repeated: the first one is preferred, and
    /// when it is gone, the next one takes its place within a second
    #[arg(long, value_name = "NAME@ADDR", value_parser = names::parse_remote)]
    pub(crate) upstream: Vec<Remote>,
    /// The address that others reach this router at, or `none` to be reached through an upstream
    /// only [default: the listen address]
    #[arg(long, value_name = "ADDR|none", value_parser = parse_locator)]
    pub(crate) locator: Option<LocatorChoice>,
    /// Whether nodes on the local network find this router by asking for one [default: on, unless
    /// it listens on a loopback address]
    #[arg(long, value_enum, value_name = "on|off")]
    pub(crate) discovery: Option<OnOff>,
    /// Seconds that the router's certificates last; renewed at half [default: 600]. A RIB keeps
    /// what lasts longer than an hour only for routers that its rules of access admit
    #[arg(long, value_name = "S", value_parser = lease_parser())]
    pub(crate) lease_s: Option<u32>,
    /// The largest datagram to send or receive, in bytes of UDP payload; a path
    /// that takes less is found out [default: 1452]
    #[arg(long, value_name = "BYTES", value_parser = max_datagram_parser())]
    pub(crate) max_datagram: Option<u16>,
    /// How datagrams come in and go out: by sockets; by AF_XDP, past the kernel's network stack,
    /// where the driver runs programs (`xdp`) or surely gains by it (`auto`) [default: socket]
    #[arg(long, value_enum, value_name = "socket|auto|xdp")]
    pub(crate) io: Option<IoArgument>,
    /// A network interface for AF_XDP, may be repeated [default: all that have the listen address,
    /// and all that are up where the router listens at every address]
    #[arg(long, value_name = "NAME")]
    pub(crate) interface: Vec<String>,
    /// Threads that forward, 1 to 8, or `auto` for one a core [default: 1]
    #[arg(long, value_name = "N|auto", value_parser = parse_workers)]
    pub(crate) workers: Option<u8>,
    /// Microseconds, up to 1000, for which a busy router lets datagrams gather, so that each costs
    /// less; 0 for never [default: 50]
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u16).range(0..=i64::from(MOST_COALESCE_US)))]
    pub(crate) coalesce_us: Option<u16>,
    /// Keep each worker on a core of its own: worker 0 on core 0, and so on
    #[arg(long)]
    pub(crate) pin: bool,
    /// Keep the routes in this file, to start with them again,
    /// also when no RIB is reachable [default: off]
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<PathBuf>,
    /// The trust domain that this router is of [default: that of the border file, or none]
    #[arg(long, value_name = "NAME", value_parser = names::parse)]
    pub(crate) domain: Option<Name>,
    /// A domain around it, the nearest first; may be repeated
    #[arg(long, value_name = "NAME", value_parser = names::parse)]
    pub(crate) around: Vec<Name>,
    /// A domain that lies in it, as a neighbour that is a customer: what is known in this domain
    /// alone may be shown there; may be repeated
    #[arg(long = "customer", value_name = "NAME", value_parser = names::parse)]
    pub(crate) customers: Vec<Name>,
    /// Stand at the domain's border, by this word of the domain (`rhumb domain delegate`)
    #[arg(long, value_name = "FILE")]
    pub(crate) border: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) access: AccessArguments,
    /// Give up root once everything is open, and go on as this user, who has
    /// to be able to read and write the files given
    #[arg(long, value_name = "USER")]
    pub(crate) run_as: Option<String>,
    /// Serve /status and /metrics over HTTP: on a Unix socket that this user and root may
    /// ask (`--admin` alone, or with a path), on one that the group of its folder may ask, too
    /// (`readers:PATH`), or on a loopback address, which answers every user; port 0 picks one
    /// [default: off]
    #[arg(long, value_name = "PATH|ADDR", num_args = 0..=1, default_missing_value = USUAL, value_parser = Admin::parse)]
    pub(crate) admin: Option<Admin>,
}

/// A choice of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnOff {
    /// Yes
    On,
    /// No
    Off,
}

/// A choice of packet I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IoArgument {
    /// Sockets
    Socket,
    /// AF_XDP with zero copy, or else sockets
    Auto,
    /// AF_XDP where it is possible, or else sockets
    Xdp,
}

/// What every command that joins as a node takes.
#[derive(Debug, Default, Args)]
pub struct NodeArguments {
    /// The router to join [default: whichever answers on the local network]
    #[arg(long, value_name = "[NAME@]ADDR", value_parser = names::parse_remote, conflicts_with_all = ["root", "only"])]
    pub(crate) router: Option<Remote>,
    /// A root router, to join when none answers on the local network; may be repeated
    #[arg(long, value_name = "[NAME@]ADDR", value_parser = names::parse_remote)]
    pub(crate) root: Vec<Remote>,
    /// Of the routers found, join only the one of this name; may be repeated
    #[arg(long, value_name = "NAME", value_parser = names::parse)]
    pub(crate) only: Vec<Name>,
    /// The node's key file [default: a fresh key for this run]
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// Talk with this name alone: routers carry nothing between this node and anybody else
    #[arg(long = "for", value_name = "NAME", value_parser = names::parse)]
    pub(crate) only_peer: Option<Name>,
    /// Let this trust domain, which the router is of, carry between this node and the domain's
    /// outside. Without it nobody outside of the domain can reach this name
    #[arg(long, value_name = "DOMAIN", value_parser = names::parse)]
    pub(crate) export: Option<Name>,
    /// The outermost domain in which this name may be known by that [default: everywhere]
    #[arg(long, value_name = "DOMAIN", value_parser = names::parse)]
    pub(crate) export_up_to: Option<Name>,
    /// Seconds that the router may carry for this node; renewed at half [default: 600]. A RIB keeps
    /// what lasts longer than an hour only if its rules of access admit the router
    #[arg(long, value_name = "S", value_parser = lease_parser())]
    pub(crate) lease_s: Option<u32>,
    /// The largest datagram to send or receive, in bytes of UDP payload; a path
    /// that takes less is found out [default: 1452]
    #[arg(long, value_name = "BYTES", value_parser = max_datagram_parser())]
    pub(crate) max_datagram: Option<u16>,
}

impl NodeArguments {
    /// Whether they say by which router to join, or as whom.
    pub(crate) fn says_how(&self) -> bool {
        self.router.is_some()
            || !self.root.is_empty()
            || !self.only.is_empty()
            || self.key.is_some()
    }

    /// Whether they leave open how to join, and as whom.
    pub(crate) fn says_nothing(&self) -> bool {
        self.router.is_none()
            && self.root.is_empty()
            && self.only.is_empty()
            && self.key.is_none()
            && self.only_peer.is_none()
            && self.export.is_none()
            && self.export_up_to.is_none()
            && self.lease_s.is_none()
            && self.max_datagram.is_none()
    }
}

/// What every command takes that goes to whom an owner calls something.
#[derive(Debug, Default, Args)]
pub struct AskedRibs {
    /// A RIB that is asked for LABEL.OWNER in place of a name, which OWNER publishes; may be
    /// repeated [default: those of the running node, or of the file]
    #[arg(long, value_name = "[NAME@]ADDR", value_parser = names::parse_remote)]
    pub rib: Vec<Remote>,
}

impl AskedRibs {
    /// Those given, or else others.
    pub fn or<'a>(&'a self, others: &'a [Remote]) -> &'a [Remote] {
        if self.rib.is_empty() { others } else { &self.rib }
    }
}

/// `rhumb send`
#[derive(Debug, Args)]
pub struct SendArguments {
    /// The file or the folder to send; - for standard input, as it comes
    pub file: PathBuf,
    /// What it is called there [default: as it is called here]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Who it is for
    #[arg(long, value_name = "NAME", value_parser = names::parse_called)]
    pub to: Called,
    /// Where LABEL.OWNER is looked up, if it is for whom an owner calls so.
    #[command(flatten)]
    pub asks: AskedRibs,
    /// The node that sends.
    #[command(flatten)]
    pub node: NodeArguments,
}

/// `rhumb receive`
#[derive(Debug, Args)]
pub struct ReceiveArguments {
    /// Where to put what arrives; nothing there is ever overwritten
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// End after the first file
    #[arg(long)]
    pub once: bool,
    /// Write the first file to standard output as it comes, and end; all else is told on standard
    /// error. What was written is the file only if this ends well
    #[arg(long, conflicts_with_all = ["dir", "once"])]
    pub stdout: bool,
    #[command(flatten)]
    pub(crate) senders: SenderArguments,
    /// A RIB that tells who was removed from the domains that files are taken from; may be
    /// repeated. Without one a membership counts until it ends
    #[arg(long, value_name = "NAME@ADDR", value_parser = names::parse_remote)]
    pub(crate) rib: Vec<Remote>,
    /// Take no file larger than this, like 500MB or 2GiB [default: 1GB from
    /// strangers, from others what the disk has room for]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_size: Option<u64>,
    /// Receive for the capsule of this AdCert, too; may be repeated
    #[arg(long, value_name = "FILE")]
    pub serve: Vec<PathBuf>,
    /// Serve /status and /metrics over HTTP: on a Unix socket that this user and root may
    /// ask (`--admin` alone, or with a path), on one that the group of its folder may ask, too
    /// (`readers:PATH`), or on a loopback address, which answers every user; port 0 picks one
    /// [default: off]
    #[arg(long, value_name = "PATH|ADDR", num_args = 0..=1, default_missing_value = USUAL, value_parser = Admin::parse)]
    pub(crate) admin: Option<Admin>,
    /// The node that receives.
    #[command(flatten)]
    pub node: NodeArguments,
}

/// `rhumb ping`
#[derive(Debug, Args)]
pub struct PingArguments {
    /// Who to ask
    #[arg(value_parser = names::parse_called)]
    pub name: Called,
    /// Where LABEL.OWNER is looked up.
    #[command(flatten)]
    pub asks: AskedRibs,
    /// How often
    #[arg(short, long, default_value_t = DEFAULT_PING_COUNT, value_parser = clap::value_parser!(u32).range(1..))]
    pub count: u32,
    /// The node that asks.
    #[command(flatten)]
    pub node: NodeArguments,
}

/// `rhumb trace`
#[derive(Debug, Args)]
pub struct TraceArguments {
    /// Who to trace the way to
    #[arg(value_parser = names::parse_called)]
    pub name: Called,
    /// Ask this RIB, that of this node's own domain, which trust domains are on the way, and which
    /// routers stand at their borders; it has to answer this node
    #[arg(long, value_name = "[NAME@]ADDR", value_parser = names::parse_remote)]
    pub rib: Option<Remote>,
    /// The node that asks.
    #[command(flatten)]
    pub node: NodeArguments,
}

/// `rhumb status`
#[derive(Debug, Args)]
pub struct StatusArguments {
    /// The admin socket or address of the RIB, router or key server [default: from the
    /// configuration file, or else the only socket at the usual place]
    #[arg(long, value_name = "PATH|ADDR", value_parser = Admin::parse)]
    pub admin: Option<Admin>,

    /// Show a router's newest flows: who sends to whom. `--json` always does
    #[arg(long)]
    pub flows: bool,
}

/// `rhumb why`
#[derive(Debug, Args)]
pub struct WhyArguments {
    /// The name
    #[arg(value_parser = names::parse)]
    pub name: Name,
    /// The admin socket or address of the router [default: from the configuration file, or else the
    /// only socket at the usual place]
    #[arg(long, value_name = "PATH|ADDR", value_parser = Admin::parse)]
    pub admin: Option<Admin>,
}

fn max_datagram_parser() -> clap::builder::RangedI64ValueParser<u16> {
    let (low, high) = (*MAX_DATAGRAM_RANGE.start(), *MAX_DATAGRAM_RANGE.end());
    clap::value_parser!(u16).range(i64::from(low)..=i64::from(high))
}

fn lease_parser() -> clap::builder::RangedI64ValueParser<u32> {
    let (low, high) = (*LEASE_RANGE_S.start(), *LEASE_RANGE_S.end());
    clap::value_parser!(u32).range(i64::from(low)..=i64::from(high))
}

/// Long enough for nobody to be woken at night.
const DEFAULT_DAYS: u32 = 7;
/// What RIBs store at most.
const MOST_DAYS: i64 = (rhumb_rib::MAX_SERVICE_LIFETIME_S / 86_400) as i64;
/// Enough to see a median.
const DEFAULT_PING_COUNT: u32 = 5;
const ABOUT: &str = "Secure routing by name: RIB, router, node tools and demo in one binary";
const LONG_ABOUT: &str = "Secure routing by name: a name is the hash of its holder's key, stays the \
    same wherever the holder moves, and routers carry its traffic only with the holder's \
    certificate. Begin with `rhumb demo`. Where an option takes a NAME, a label that the name has on this \
    machine (`rhumb name`) and the first 10 of its 52 characters do as well.";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn the_defaults_in_the_help_are_those_in_the_code() {
        use crate::remote::{DEFAULT_RIB_PORT, DEFAULT_ROUTER_PORT};
        use crate::values::DEFAULT_LEASE_S;
        let mut command = CommandLine::command();
        let mut help =
            |name| command.find_subcommand_mut(name).unwrap().render_long_help().to_string();
        assert!(help("rib").contains(&format!("[default: 0.0.0.0:{DEFAULT_RIB_PORT}]")));
        let router = help("router");
        assert!(router.contains(&format!("[default: 0.0.0.0:{DEFAULT_ROUTER_PORT}]")));
        assert!(router.contains(&format!("[default: {DEFAULT_LEASE_S}]")));
    }
}
