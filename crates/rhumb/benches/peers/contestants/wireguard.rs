//! WireGuard in user space, by two implementations: client and server have a tunnel to the router
//! each, whose kernel forwards from one to the other; point to point, one to each other.
//!
//! Each process is told its keys over its control socket. Source: the
//! cross-platform interface of WireGuard's documentation.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use aws_lc_rs::agreement::{PrivateKey, X25519};
use aws_lc_rs::encoding::{AsBigEndian, Curve25519SeedBin};
use data_encoding::HEXLOWER;

use super::plain::IP_AND_UDP;
use super::{Contestant, Ground, Standing, datagrams};
use crate::install;
use crate::leftovers;
use crate::load::Ends;
use crate::machine::Core;
use crate::namespace::{Namespace, ip};
use crate::place::{MTU, NetworkPath, ROUTER_FACING_CLIENT};
use crate::process::Process;

pub(crate) fn in_go() -> Contestant {
    Contestant {
        name: "wireguard-go",
        about: format!("{}, ChaCha20-Poly1305 per hop", install::WIREGUARD_GO),
        largest_payload: TUNNEL_MTU - IP_AND_UDP,
        needs_forwarding: true,
        start: |ground| {
            start(ground, &|device| {
                let mut command = Command::new(ground.tools.path("wireguard"));
                command.env("LOG_LEVEL", "error").args(["-f", device]);
                command
            })
        },
    }
}

pub(crate) fn in_rust() -> Contestant {
    Contestant {
        name: "boringtun",
        about: format!("{}, ChaCha20-Poly1305 per hop", install::BORINGTUN),
        largest_payload: TUNNEL_MTU - IP_AND_UDP,
        needs_forwarding: true,
        start: |ground| {
            start(ground, &|device| {
                let mut command = Command::new(ground.tools.path("boringtun-cli"));
                command
                    .args(["-f", "--disable-drop-privileges", "--verbosity", "error"])
                    .arg(device);
                command
            })
        },
    }
}

/// One end of a tunnel.
struct End<'a> {
    device: String,
    namespace: &'a Namespace,
    core: Core,
    ip: [u8; 4],
    private: String,
    public: String,
}

impl<'a> End<'a> {
    fn new(letter: char, namespace: &'a Namespace, core: Core, last: u8) -> Result<Self, String> {
        let unavailable = |_| "no key for WireGuard".to_owned();
        let key = PrivateKey::generate(&X25519).map_err(unavailable)?;
        let seed: Curve25519SeedBin<'_> = key.as_be_bytes().map_err(unavailable)?;
        let public = key.compute_public_key().map_err(unavailable)?;
        Ok(Self {
            // The names of control sockets are the machine's, not a namespace's.
            device: format!("rh{}{letter}", std::process::id()),
            namespace,
            core,
            ip: [10, 77, 0, last],
            private: HEXLOWER.encode(seed.as_ref()),
            public: HEXLOWER.encode(public.as_ref()),
        })
    }

    fn control_socket(&self) -> PathBuf {
        PathBuf::from(format!("/var/run/wireguard/{}.sock", self.device))
    }

    /// What another end is told of this one.
    fn as_peer(&self) -> String {
        let [a, b, c, d] = self.ip;
        format!("public_key={}\nallowed_ip={a}.{b}.{c}.{d}/32\n", self.public)
    }

    /// Starts the process, tells it its key and `peers`, and gives the device its address.
    fn start(&self, command: Command, ground: &Ground, peers: &str) -> Result<Process, String> {
        let inside = (self.namespace, self.core);
        let name = format!("wireguard-{}", &self.device[self.device.len() - 1..]);
        let mut process = Process::start(&name, command, inside, &ground.folder)?;
        let stream = process.wait_for("open its control socket", |_| {
            UnixStream::connect(self.control_socket()).ok()
        })?;
        let settings = format!(
            "set=1\nprivate_key={}\nlisten_port={PORT}\nreplace_peers=true\n{peers}\n",
            self.private
        );
        configure(stream, &settings)
            .map_err(|error| format!("the control socket of {name}: {error}"))?;
        let [a, b, c, d] = self.ip;
        let device = &self.device;
        let script = format!(
            "link set {device} mtu {TUNNEL_MTU}\naddress add {a}.{b}.{c}.{d}/24 dev {device}\nlink set {device} up\n"
        );
        self.namespace.run(|| ip(&script))??;
        Ok(process)
    }
}

fn configure(mut stream: UnixStream, settings: &str) -> std::io::Result<()> {
    stream.set_read_timeout(Some(ANSWER_TIME))?;
    stream.write_all(settings.as_bytes())?;
    let mut answer = Vec::new();
    let mut chunk = [0; 256];
    while !answer.ends_with(b"\n\n") {
        match stream.read(&mut chunk)? {
            0 => break,
            len => answer.extend_from_slice(&chunk[..len]),
        }
    }
    let answer = String::from_utf8_lossy(&answer);
    match answer.contains("errno=0") {
        true => Ok(()),
        false => Err(std::io::Error::other(answer.trim().to_owned())),
    }
}

fn start(ground: &Ground, command: &dyn Fn(&str) -> Command) -> Result<Standing, String> {
    let place = &ground.place;
    let client = End::new('c', &place.client, Core::Load, 1)?;
    let server = End::new('s', &place.server, place.core_of_server(), 2)?;
    let (router, others) = match place.path {
        NetworkPath::Direct => (None, point_to_point(ground, command, [&client, &server])?),
        NetworkPath::Router => {
            let (hub, ends) = over_a_hub(ground, command, [&client, &server])?;
            (Some(hub), ends)
        }
    };
    let ips = [client.ip.into(), server.ip.into()];
    let load = datagrams(place, ips, Ends::Plain)?;
    Ok(Standing { load: Box::new(load), router, metrics: None, others, tunnel: Some(ips) })
}

fn point_to_point(
    ground: &Ground,
    command: &dyn Fn(&str) -> Command,
    [client, server]: [&End<'_>; 2],
) -> Result<Vec<Process>, String> {
    leftovers::expect([client, server].map(End::control_socket));
    let [a, b, c, d] = ROUTER_FACING_CLIENT;
    let to_server = format!("{}endpoint={a}.{b}.{c}.{d}:{PORT}\n", server.as_peer());
    Ok(vec![
        server.start(command(&server.device), ground, &client.as_peer())?,
        client.start(command(&client.device), ground, &to_server)?,
    ])
}

fn over_a_hub(
    ground: &Ground,
    command: &dyn Fn(&str) -> Command,
    [client, server]: [&End<'_>; 2],
) -> Result<(Process, Vec<Process>), String> {
    let router = End::new('r', &ground.place.router, Core::Measured, 254)?;
    leftovers::expect([client, &router, server].map(End::control_socket));
    let of_router = client.as_peer() + &server.as_peer();
    let to_router = |router_ip: &str| {
        format!(
            "public_key={}\nendpoint={router_ip}:{PORT}\nallowed_ip=10.77.0.0/24\npersistent_keepalive_interval=1\n",
            router.public
        )
    };
    let hub = router.start(command(&router.device), ground, &of_router)?;
    let ends = vec![
        client.start(command(&client.device), ground, &to_router("10.9.1.2"))?,
        server.start(command(&server.device), ground, &to_router("10.9.2.2"))?,
    ];
    Ok((hub, ends))
}

/// What WireGuard's 60 bytes over IPv4 leave.
const TUNNEL_MTU: usize = MTU - 60;
const PORT: u16 = 51820;
const ANSWER_TIME: Duration = Duration::from_secs(5);
