//! What a router could cost at least: the kernel's own forwarding, and a process that moves
//! datagrams by `rhumb-io` and does nothing else. Neither protects anything.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use rhumb_io::PacketIo;
use rhumb_io::udp::{Options, UdpSocket};
use rhumb_wire::Batch;

use super::{Contestant, Ground, Standing, datagrams};
use crate::load::Ends;
use crate::machine::Core;
use crate::place::{CLIENT_IP, MTU, ROUTER_FACING_CLIENT, SERVER_IP};
use crate::process::Process;

/// The word that makes this program the bare forwarder.
pub(crate) const FORWARD: &str = "forward";

pub(crate) fn linux() -> Contestant {
    Contestant {
        name: "linux",
        about: "the kernel's forwarding, in the clear; no process, so no CPU time to read"
            .to_owned(),
        largest_payload: MTU - IP_AND_UDP,
        needs_forwarding: true,
        start: |ground| {
            let load = datagrams(&ground.place, [CLIENT_IP.into(), SERVER_IP.into()], Ends::Plain)?;
            Ok(Standing {
                load: Box::new(load),
                router: None,
                metrics: None,
                others: Vec::new(),
                tunnel: None,
            })
        },
    }
}

pub(crate) fn bare() -> Contestant {
    Contestant {
        name: "bare",
        about: "rhumb-io, address changed, in the clear".to_owned(),
        largest_payload: MTU - IP_AND_UDP,
        needs_forwarding: false,
        start: start_bare,
    }
}

fn start_bare(ground: &Ground) -> Result<Standing, String> {
    let mut load = datagrams(&ground.place, [CLIENT_IP.into(), SERVER_IP.into()], Ends::Plain)?;
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(this);
    command.args([FORWARD, &load.to.to_string()]);
    let inside = (&ground.place.router, Core::Measured);
    let mut router = Process::start("bare", command, inside, &ground.folder)?;
    router.first_line()?;
    load.to = (ROUTER_FACING_CLIENT, PORT).into();
    Ok(Standing {
        load: Box::new(load),
        router: Some(router),
        metrics: None,
        others: Vec::new(),
        tunnel: None,
    })
}

/// Sends whatever comes to `to`, in turns as a router's worker does, until it is killed.
pub(crate) fn forward(to: &str) -> Result<(), String> {
    let to: SocketAddr = to.parse().map_err(|error| format!("{to}: {error}"))?;
    let bound = UdpSocket::bind(([0, 0, 0, 0], PORT).into(), Options::default());
    let mut socket = bound.map_err(|error| error.to_string())?;
    println!("ready");
    let mut batch = Batch::new();
    loop {
        socket.wait(Some(WAIT), None).map_err(|error| error.to_string())?;
        for _ in 0..BATCHES_A_TURN {
            if socket.receive(&mut batch).map_err(|error| error.to_string())? == 0 {
                break;
            }
            for slot in 0..batch.len() {
                batch.redirect(slot, to);
            }
            socket.send(&batch).map_err(|error| error.to_string())?;
        }
    }
}

/// What IPv4 and UDP put before a message.
pub(super) const IP_AND_UDP: usize = 28;
const PORT: u16 = 7470;
/// For nothing in particular: nobody has to be heard but the socket.
const WAIT: Duration = Duration::from_secs(1);
/// As a router's worker.
const BATCHES_A_TURN: usize = 8;
