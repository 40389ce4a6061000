//! Nebula: client and server have a tunnel end to end, which the router
//! relays because they cannot reach each other.

use std::process::Command;

use super::plain::IP_AND_UDP;
use super::{Contestant, Ground, Standing, datagrams};
use crate::install;
use crate::load::Ends;
use crate::machine::Core;
use crate::namespace::Namespace;
use crate::place::MTU;
use crate::process::{Process, output_of};

pub(crate) fn contestant() -> Contestant {
    Contestant {
        name: "nebula",
        about: format!("{}, relayed, AES-256-GCM end to end and per hop", install::NEBULA),
        largest_payload: TUNNEL_MTU - IP_AND_UDP,
        needs_forwarding: false,
        start,
    }
}

fn start(ground: &Ground) -> Result<Standing, String> {
    let place = &ground.place;
    certify(ground)?;
    let is_relay =
        "lighthouse: {am_lighthouse: true}\nrelay: {am_relay: true, use_relays: false}\n";
    let router = node("r", is_relay, (&place.router, Core::Measured), ground)?;
    let end = |underlay: &str| {
        format!(
            "static_host_map: {{\"10.66.0.254\": [\"{underlay}:{PORT}\"]}}\n\
             lighthouse: {{am_lighthouse: false, interval: 1, hosts: [\"10.66.0.254\"]}}\n\
             relay: {{am_relay: false, use_relays: true, relays: [\"10.66.0.254\"]}}\n"
        )
    };
    let client = node("c", &end("10.9.1.2"), (&place.client, Core::Load), ground)?;
    let server = node("s", &end("10.9.2.2"), (&place.server, Core::Load), ground)?;
    let ips = [CLIENT.into(), SERVER.into()];
    let load = datagrams(place, ips, Ends::Plain)?;
    Ok(Standing {
        load: Box::new(load),
        router: Some(router),
        metrics: None,
        others: vec![client, server],
        tunnel: Some(ips),
    })
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

fn node(
    letter: &str,
    own: &str,
    inside: (&Namespace, Core),
    ground: &Ground,
) -> Result<Process, String> {
    let name = format!("nebula-{letter}");
    let config = format!(
        "pki: {{ca: nebula-ca.crt, cert: {name}.crt, key: {name}.key}}\n\
         listen: {{host: 0.0.0.0, port: {PORT}}}\n\
         tun: {{dev: rhumb-neb-{letter}, mtu: {TUNNEL_MTU}}}\n\
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
