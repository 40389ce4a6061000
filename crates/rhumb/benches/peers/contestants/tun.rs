//! `rhumb tun` at client and server, over `rhumb router`: QUIC end to end within sessions per hop.
//! A name is reached by a router: point to point, it runs on the server's host.

use super::ours::{carriers, rhumb, serve};
use super::plain::IP_AND_UDP;
use super::{Contestant, Ground, Standing, datagrams};
use crate::load::Ends;
use crate::machine::Core;
use crate::place::ROUTER_FACING_CLIENT;
use crate::process::output_of;

pub(crate) fn contestant() -> Contestant {
    Contestant {
        name: "rhumb-tun",
        about: format!(
            "rhumb {}, tun and router, AES-128-GCM end to end and AES-256-GCM per hop",
            env!("CARGO_PKG_VERSION")
        ),
        largest_payload: 1280 - IP_AND_UDP,
        needs_forwarding: false,
        start,
    }
}

fn start(ground: &Ground) -> Result<Standing, String> {
    let place = &ground.place;
    let (rib, router, ready) = carriers(ground)?;
    for key in ["client.key", "server.key"] {
        // Those of the turn before are in the way.
        let _ = std::fs::remove_file(ground.folder.join(key));
        output_of(rhumb(&["keygen", "--out", key], &ground.folder), &place.client)?;
    }
    let end = |own: &str, other: &str, inside, facing: [u8; 4]| {
        let [a, b, c, d] = facing;
        let router = format!("{}@{a}.{b}.{c}.{d}:{}", ready.name, ready.address.port());
        let key = format!("{own}.key");
        let words = ["tun", "--key", &key, "--allow", other, "--router", &router];
        serve(own, &words, inside, ground)
    };
    let inside = (&place.client, Core::Load);
    let (client, from) = end("client", "server", inside, ROUTER_FACING_CLIENT)?;
    let inside = (&place.server, place.core_of_server());
    let (server, to) = end("server", "client", inside, place.router_facing_server())?;
    let ips = [from.name.address().into(), to.name.address().into()];
    let load = datagrams(place, ips, Ends::Plain)?;
    Ok(Standing {
        load: Box::new(load),
        router: Some(router),
        metrics: None,
        others: vec![client, server, rib],
        tunnel: Some(ips),
    })
}
