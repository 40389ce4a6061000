//! Nebula: client and server have a tunnel end to end, which the router
//! relays because they cannot reach each other; point to point nothing is relayed.

use std::net::Ipv4Addr;
use std::process::Command;

use super::plain::IP_AND_UDP;
use super::{Contestant, Ground, Standing, datagrams};
use crate::install;
use crate::load::Ends;
use crate::machine::Core;
use crate::namespace::Namespace;
use crate::place::{CLIENT_IP, MTU, NetworkPath, ROUTER_FACING_CLIENT};
use crate::process::{Process, output_of};

pub(crate) fn contestant() -> Contestant {
    Contestant {
        name: "nebula",
        about: format!(
            "{}, AES-256-GCM end to end, and per hop where it is relayed",
            install::NEBULA
        ),
        largest_payload: TUNNEL_MTU - IP_AND_UDP,
        needs_forwarding: false,
        start,
    }
}

fn start(ground: &Ground) -> Result<Standing, String> {
    let place = &ground.place;
    certify(ground)?;
    let (router, others) = match place.path {
        NetworkPath::Direct => (None, point_to_point(ground)?),
        NetworkPath::Router => {
            let (relay, ends) = over_a_relay(ground)?;
            (Some(relay), ends)
        }
    };
    let ips = [CLIENT.into(), SERVER.into()];
    let load = datagrams(place, ips, Ends::Plain)?;
    Ok(Standing { load: Box::new(load), router, metrics: None, others, tunnel: Some(ips) })
}

/// Each end is told where the other one is.
fn point_to_point(ground: &Ground) -> Result<Vec<Process>, String> {
    let knows = |name: [u8; 4], at: [u8; 4]| {
        let [name, at] = [name, at].map(Ipv4Addr::from);
        format!(
            "static_host_map: {{\"{name}\": [\"{at}:{PORT}\"]}}\n\
             relay: {{am_relay: false, use_relays: false}}\n"
        )
    };
    let place = &ground.place;
    let to_client = ("s", &*knows(CLIENT, CLIENT_IP), DIRECT_MTU);
    let server = node(to_client, (&place.server, place.core_of_server()), ground)?;
    let to_server = ("c", &*knows(SERVER, ROUTER_FACING_CLIENT), DIRECT_MTU);
    let client = node(to_server, (&place.client, Core::Load), ground)?;
    Ok(vec![client, server])
}

fn over_a_relay(ground: &Ground) -> Result<(Process, Vec<Process>), String> {
    let place = &ground.place;
    let is_relay =
        "lighthouse: {am_lighthouse: true}\nrelay: {am_relay: true, use_relays: false}\n";
    let relay = ("r", is_relay, TUNNEL_MTU);
    let relay = node(relay, (&place.router, Core::Measured), ground)?;
    let end = |underlay: &str| {
        format!(
            "static_host_map: {{\"10.66.0.254\": [\"{underlay}:{PORT}\"]}}\n\
             lighthouse: {{am_lighthouse: false, interval: 1, hosts: [\"10.66.0.254\"]}}\n\
             relay: {{am_relay: false, use_relays: true, relays: [\"10.66.0.254\"]}}\n"
        )
    };
    let client = ("c", &*end("10.9.1.2"), TUNNEL_MTU);
    let client = node(client, (&place.client, Core::Load), ground)?;
    let server = ("s", &*end("10.9.2.2"), TUNNEL_MTU);
    let server = node(server, (&place.server, place.core_of_server()), ground)?;
    Ok((relay, vec![client, server]))
}

/// Makes an authority and a certificate for each node.
fn certify(ground: &Ground) -> Result<(), String> {
    let run = |words: &[&str]| {
        let mut command = Command::new(ground.tools.path("nebula-cert"));
        command.args(words).current_dir(&ground.folder);
        output_of(command, &ground.place.router)
    };
    // Those of the turn before are in the way.
    let make_way = |file: &str| drop(std::fs::remove_file(ground.folder.join(file)));
    ["nebula-ca.crt", "nebula-ca.key"].into_iter().for_each(make_way);
    run(&["ca", "-name", "rhumb bench", "-out-crt", "nebula-ca.crt", "-out-key", "nebula-ca.key"])?;
    for (letter, address) in [("c", "10.66.0.1"), ("r", "10.66.0.254"), ("s", "10.66.0.2")] {
        let [certificate, key] = ["crt", "key"].map(|end| format!("nebula-{letter}.{end}"));
        [&certificate, &key].into_iter().for_each(|file| make_way(file));
        let network = format!("{address}/24");
        let authority = ["-ca-crt", "nebula-ca.crt", "-ca-key", "nebula-ca.key"];
        let own = ["-name", letter, "-ip", &network, "-out-crt", &certificate, "-out-key", &key];
        run(&[&["sign"][..], &authority, &own].concat())?;
    }
    Ok(())
}

/// Starts the node of this letter, with its own settings and the MTU of its device.
fn node(
    (letter, own, mtu): (&str, &str, usize),
    inside: (&Namespace, Core),
    ground: &Ground,
) -> Result<Process, String> {
    let name = format!("nebula-{letter}");
    let config = format!(
        "pki: {{ca: nebula-ca.crt, cert: {name}.crt, key: {name}.key}}\n\
         listen: {{host: 0.0.0.0, port: {PORT}}}\n\
         tun: {{dev: rhumb-neb-{letter}, mtu: {mtu}}}\n\
         logging: {{level: error}}\n\
         firewall: {{outbound: [{{port: any, proto: any, host: any}}], inbound: [{{port: any, proto: any, host: any}}]}}\n\
         {own}"
    );
    let file = format!("{name}.yml");
    std::fs::write(ground.folder.join(&file), config).map_err(|error| error.to_string())?;
    let mut command = Command::new(ground.tools.path("nebula"));
    command.args(["-config", &file]);
    Process::start(&name, command, inside, &ground.folder)
}

const CLIENT: [u8; 4] = [10, 66, 0, 1];
const SERVER: [u8; 4] = [10, 66, 0, 2];
const PORT: u16 = 4242;
/// What a relayed datagram's overhead leaves, about: two headers and two tags
/// of 16 bytes each, and those of UDP and IPv4.
const TUNNEL_MTU: usize = MTU - 4 * 16 - IP_AND_UDP;
/// What one that is not relayed leaves: a header and a tag less.
const DIRECT_MTU: usize = MTU - 2 * 16 - IP_AND_UDP;
