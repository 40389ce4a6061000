//! `rhumb router` and `rhumb rib`, and two members that seal and open by the production link.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rhumb_io::Wake;
use rhumb_link::{Limits, StreamNews, StreamOrder};
use rhumb_stream::{Carrier, OnStreams, Settings};
use rhumb_trust::Now;
use rhumb_wire::datagram::RECORD_OVERHEAD;
use rhumb_wire::pdu::LabelledHeader;
use rhumb_wire::{Batch, Name};
use serde_json::Value;

use super::plain::IP_AND_UDP;
use super::{Contestant, Ground, Standing, datagrams};
use crate::load::{Datagrams, Ends};
use crate::machine::Core;
use crate::member::{self, Form, Member};
use crate::namespace::Namespace;
use crate::place::{CLIENT_IP, MTU, ROUTER_FACING_CLIENT, ROUTER_FACING_SERVER, SERVER_IP};
use crate::process::{PATIENCE, Process, output_of};

pub(crate) fn contestant() -> Contestant {
    Contestant {
        name: super::OURS,
        about: format!("rhumb {}, router and RIB, AES-256-GCM per hop", env!("CARGO_PKG_VERSION")),
        largest_payload: MTU - IP_AND_UDP - RECORD_OVERHEAD - LabelledHeader::LEN,
        needs_forwarding: false,
        start,
    }
}

pub(crate) fn over_tls() -> Contestant {
    Contestant {
        name: super::OURS_OVER_TLS,
        about: format!("rhumb {}, the same over TLS 1.3 on TCP", env!("CARGO_PKG_VERSION")),
        start: start_over_tls,
        ..contestant()
    }
}

/// A RIB and a router, in this order, and what the router says of itself.
pub(crate) fn carriers(ground: &Ground) -> Result<(Process, Process, Ready), String> {
    carriers_with(ground, &[])
}

/// As [`carriers`], with more that the router is told.
fn carriers_with(ground: &Ground, told: &[&str]) -> Result<(Process, Process, Ready), String> {
    let inside = &ground.place.router;
    for role in ["rib", "router"] {
        let file = format!("{role}.key");
        // Keys of the turn before are in the way.
        let _ = std::fs::remove_file(ground.folder.join(&file));
        output_of(rhumb(&["keygen", "--role", role, "--out", &file], &ground.folder), inside)?;
    }
    let _ = std::fs::remove_file(ground.folder.join("rib.redb"));
    let words = ["rib", "--listen", "127.0.0.1:0", "--key", "rib.key", "--store", "rib.redb"];
    let (rib, Ready { name: rib_name, address: rib_address, .. }) =
        serve("rib", &words, (inside, ground.place.core_of_server()), ground)?;
    let rib_remote = format!("{rib_name}@{rib_address}");
    let words = ["router", "--listen", "0.0.0.0:7460", "--locator", "10.9.1.2:7460"];
    let more = ["--discovery", "off", "--key", "router.key", "--rib", &rib_remote];
    let coalesce = ground.extent.coalesce_us.map(|us| format!("--coalesce-us={us}"));
    let xdp = ground.extent.xdp.then_some("--io=xdp");
    let last = ["--admin", "127.0.0.1:0"].into_iter().chain(coalesce.as_deref()).chain(xdp);
    let last = last.chain(told.iter().copied());
    let words: Vec<&str> = words.into_iter().chain(more).chain(last).collect();
    let (router, ready) = serve("router", &words, (inside, Core::Measured), ground)?;
    Ok((rib, router, ready))
}

fn start(ground: &Ground) -> Result<Standing, String> {
    let (rib, router, Ready { name, address, admin }) = carriers(ground)?;
    let now = member::now();
    let mut load = datagrams(&ground.place, [CLIENT_IP.into(), SERVER_IP.into()], Ends::Plain)?;
    let join = |socket: &mut Carrier, facing: [u8; 4]| {
        let to = SocketAddr::from((facing, address.port()));
        let mut member = Box::new(Member::new(socket.local_address(), name, to, now));
        exchange_until(&mut member, socket, Member::is_joined).map(|()| member)
    };
    let source = join(&mut load.source, ROUTER_FACING_CLIENT)?;
    let sink = join(&mut load.sink, ROUTER_FACING_SERVER)?;
    load.to = (ROUTER_FACING_CLIENT, address.port()).into();
    begin_flow(&mut load, source, sink, now)?;
    Ok(Standing {
        load: Box::new(load),
        router: Some(router),
        metrics: admin,
        others: vec![rib],
        tunnel: None,
    })
}

/// As [`start`], where nobody answers over UDP: members ask at a port that only TLS has.
fn start_over_tls(ground: &Ground) -> Result<Standing, String> {
    let any = format!("0.0.0.0:{TLS_PORT}");
    let (rib, router, Ready { name, .. }) = carriers_with(ground, &["--tls-listen", &any])?;
    let now = member::now();
    let mut load = datagrams(&ground.place, [CLIENT_IP.into(), SERVER_IP.into()], Ends::Plain)?;
    let join = |socket: &mut Carrier, facing: [u8; 4]| {
        let to = SocketAddr::from((facing, TLS_PORT));
        let mut member = Box::new(Member::over_stream(socket.local_address(), name, to, now));
        let (max_datagram_len, limits) =
            (member::link_config().max_datagram_len, Limits::default());
        let settings = Settings { listening: None, max_datagram_len, limits };
        let wake = Wake::new().map_err(|error| error.to_string())?;
        let identity = member.identity().clone();
        socket.carry_streams(identity, settings, wake).map_err(|error| error.to_string())?;
        exchange_until(&mut member, socket, Member::is_joined).map(|()| member)
    };
    // The thread that dials is begun where it dials from.
    let source = ground.place.client.run(|| join(&mut load.source, ROUTER_FACING_CLIENT))??;
    let sink = ground.place.server.run(|| join(&mut load.sink, ROUTER_FACING_SERVER))??;
    begin_flow(&mut load, source, sink, now)?;
    Ok(Standing {
        load: Box::new(load),
        router: Some(router),
        // Its system calls are not those of datagrams.
        metrics: None,
        others: vec![rib],
        tunnel: None,
    })
}

/// Sends a first message, and has both members take labels for it.
fn begin_flow(
    load: &mut Datagrams,
    mut source: Box<Member>,
    mut sink: Box<Member>,
    now: Now,
) -> Result<(), String> {
    let destination = sink.name();
    let mut first = Batch::new();
    source.push_data(&mut first, load.to, (destination, Form::Names), &[0; 16], now);
    load.source.send(&mut first).map_err(|error| error.to_string())?;
    exchange_until(&mut sink, &mut load.sink, Member::has_given_labels)?;
    let has_label = |member: &Member| member.has_label_to(&destination);
    exchange_until(&mut source, &mut load.source, has_label)?;
    load.ends = Ends::Members { source, sink };
    Ok(())
}

impl OnStreams for Member {
    fn handle_stream(&mut self, news: StreamNews, now: Now) -> Option<SocketAddr> {
        self.endpoint_mut().handle_stream(news, now.instant)
    }

    fn poll_stream_order(&mut self) -> Option<StreamOrder> {
        self.endpoint_mut().poll_stream_order()
    }
}

/// Starts a daemon of ours, and returns its name and address when it is ready.
pub(crate) fn serve(
    name: &str,
    words: &[&str],
    inside: (&Namespace, Core),
    ground: &Ground,
) -> Result<(Process, Ready), String> {
    let mut command = rhumb(&["--json", "--with-parent"], &ground.folder);
    command.args(words);
    let mut process = Process::start(name, command, inside, &ground.folder)?;
    let line = process.first_line()?;
    let ready: Value = serde_json::from_str(&line).map_err(|error| format!("{line}: {error}"))?;
    let field = |key: &str| ready[key].as_str().unwrap_or_default();
    let name = field("name").parse().map_err(|error| format!("{line}: {error}"))?;
    let address = field("address").parse().unwrap_or(NOWHERE);
    let admin = field("admin").parse().ok();
    Ok((process, Ready { name, address, admin }))
}

/// Where links over TLS come in.
const TLS_PORT: u16 = 7461;
/// Of what has none.
const NOWHERE: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);

/// What a daemon says of itself when it is ready.
pub(crate) struct Ready {
    pub(crate) name: Name,
    pub(crate) address: SocketAddr,
    pub(crate) admin: Option<SocketAddr>,
}

pub(crate) fn rhumb(words: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rhumb"));
    command.args(words).current_dir(folder).env("HOME", folder);
    command.env_remove("RUST_LOG").env_remove("RHUMB_PASSPHRASE");
    command
}

/// Lets a member send and receive over its socket until it has come so far.
fn exchange_until(
    member: &mut Member,
    socket: &mut Carrier,
    done: impl Fn(&Member) -> bool,
) -> Result<(), String> {
    let describe = |error: std::io::Error| format!("a member's socket: {error}");
    let deadline = Instant::now() + PATIENCE;
    let mut batch = Batch::new();
    loop {
        batch.clear();
        member.transmit(&mut batch, member::now());
        socket.send(&mut batch).map_err(describe)?;
        socket.meet(member, member::now());
        if done(member) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("a member is not ready after {PATIENCE:?}"));
        }
        socket.wait(Some(Duration::from_millis(20)), None).map_err(describe)?;
        let received = socket.receive(&mut batch).map_err(describe)?;
        for slot in 0..received {
            member.handle(batch.datagram_mut(slot).1, member::now());
        }
    }
}
