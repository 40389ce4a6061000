//! Yggdrasil: client and server have a link by TLS to the
//! router each, point to point one to each other, and a session end to end over it.

use std::net::Ipv6Addr;
use std::process::Command;

use serde_json::{Value, json};

use super::{Contestant, Ground, Standing, datagrams};
use crate::install;
use crate::load::Ends;
use crate::machine::Core;
use crate::namespace::Namespace;
use crate::place::NetworkPath;
use crate::process::{Process, output_of};

pub(crate) fn contestant() -> Contestant {
    Contestant {
        name: "yggdrasil",
        about: format!("{}, TLS per hop and a session end to end", install::YGGDRASIL),
        // Its links are streams: the tunnel's MTU is 65,535.
        largest_payload: 65_000,
        needs_forwarding: false,
        start,
    }
}

fn start(ground: &Ground) -> Result<Standing, String> {
    let place = &ground.place;
    let listen = json!({ "Listen": [format!("tls://0.0.0.0:{PORT}")] });
    let peer = |ip: &str| json!({ "Peers": [format!("tls://{ip}:{PORT}")] });
    let inside = (&place.server, place.core_of_server());
    let (router, (server, to)) = match place.path {
        NetworkPath::Direct => (None, node("s", &listen, inside, ground)?),
        NetworkPath::Router => {
            let (router, _) = node("r", &listen, (&place.router, Core::Measured), ground)?;
            (Some(router), node("s", &peer("10.9.2.2"), inside, ground)?)
        }
    };
    let (client, from) = node("c", &peer("10.9.1.2"), (&place.client, Core::Load), ground)?;
    let load = datagrams(place, [from.into(), to.into()], Ends::Plain)?;
    Ok(Standing {
        load: Box::new(load),
        router,
        metrics: None,
        others: vec![client, server],
        tunnel: Some([from.into(), to.into()]),
    })
}

/// Starts a node with a fresh key, and returns the address that follows from the key.
fn node(
    letter: &str,
    own: &Value,
    inside: (&Namespace, Core),
    ground: &Ground,
) -> Result<(Process, Ipv6Addr), String> {
    let program = ground.tools.path("yggdrasil");
    let mut command = Command::new(&program);
    command.args(["-genconf", "-json"]);
    let text = output_of(command, inside.0)?;
    let wrong = |error: serde_json::Error| format!("yggdrasil's configuration: {error}");
    let mut config: Value = serde_json::from_str(&text).map_err(wrong)?;
    config["MulticastInterfaces"] = json!([]);
    config["AdminListen"] = json!("none");
    config["IfName"] = json!(format!("rhumb-ygg-{letter}"));
    for (key, value) in own.as_object().into_iter().flatten() {
        config[key] = value.clone();
    }
    let file = ground.folder.join(format!("yggdrasil-{letter}.json"));
    std::fs::write(&file, config.to_string()).map_err(|error| error.to_string())?;
    let with_config = |word: Option<&str>| {
        let mut command = Command::new(&program);
        command.arg("-useconffile").arg(&file).args(word);
        command
    };
    let address = output_of(with_config(Some("-address")), inside.0)?;
    let address = address.trim().parse().map_err(|error| format!("{address}: {error}"))?;
    let name = format!("yggdrasil-{letter}");
    let process = Process::start(&name, with_config(None), inside, &ground.folder)?;
    Ok((process, address))
}

const PORT: u16 = 9443;
