//! Where it happens: client, router and server in network namespaces of
//! their own, joined by two veth pairs of MTU 1,500; or client and server alone, joined by one.
//!
//! Over a router, client and server reach each other by nothing else, and its kernel forwards only
//! when told to. Point to point, whatever a contestant needs of a router runs on the server's host.

use crate::machine::Core;
use crate::namespace::{Namespace, ip, set_up_veth};

/// What lies between client and server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NetworkPath {
    /// One link.
    #[allow(dead_code, reason = "for the bench of ends")]
    Direct,
    /// A third host.
    Router,
}

/// The namespaces.
pub(crate) struct Place {
    pub(crate) path: NetworkPath,
    pub(crate) client: Namespace,
    /// Point to point, the server's.
    pub(crate) router: Namespace,
    pub(crate) server: Namespace,
}

impl Place {
    /// # Errors
    /// Without root, or without the `ip` command.
    pub(crate) fn new(path: NetworkPath) -> Result<Self, String> {
        let [client, router] = Namespace::fresh()?;
        let server = match path {
            NetworkPath::Direct => router.run(Namespace::current)??,
            NetworkPath::Router => {
                let [server] = Namespace::fresh()?;
                server
            }
        };
        let place = Self { path, client, router, server };
        place.connect()?;
        Ok(place)
    }

    fn connect(&self) -> Result<(), String> {
        for namespace in [&self.client, &self.router, &self.server] {
            namespace.run(|| ip("link set lo up\n"))??;
        }
        let (client, router) = (&self.client, &self.router);
        pair((router, "rhumb-rc", ROUTER_FACING_CLIENT), (client, "rhumb-cr", CLIENT_IP))?;
        if self.path == NetworkPath::Direct {
            return Ok(());
        }
        let server = (&self.server, "rhumb-sr", SERVER_IP);
        pair((router, "rhumb-rs", ROUTER_FACING_SERVER), server)?;
        self.client.run(|| ip("route add 10.9.2.0/24 via 10.9.1.2\n"))??;
        self.server.run(|| ip("route add 10.9.1.0/24 via 10.9.2.2\n"))?
    }

    /// Whether the router's kernel forwards.
    pub(crate) fn set_forwarding(&self, on: bool) -> Result<(), String> {
        let text = if on { "1" } else { "0" };
        self.router
            .run(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", text))?
            .map_err(|error| format!("the kernel's forwarding: {error}"))
    }

    /// Where the server's processes run. Over a router they leave a core to what is on the way;
    /// point to point that core is theirs.
    pub(crate) fn core_of_server(&self) -> Core {
        match self.path {
            NetworkPath::Direct => Core::Measured,
            NetworkPath::Router => Core::Load,
        }
    }

    /// The router's address as the server has it.
    pub(crate) fn router_facing_server(&self) -> [u8; 4] {
        match self.path {
            NetworkPath::Direct => ROUTER_FACING_CLIENT,
            NetworkPath::Router => ROUTER_FACING_SERVER,
        }
    }
}

/// Joins two namespaces by a pair of devices of these names and addresses.
fn pair(
    one: (&Namespace, &str, [u8; 4]),
    other: (&Namespace, &str, [u8; 4]),
) -> Result<(), String> {
    let (device, peer, path) = (one.1, other.1, other.0.path());
    let script =
        format!("link add {device} mtu {MTU} type veth peer name {peer} mtu {MTU} netns {path}\n");
    one.0.run(|| ip(&script))??;
    for (namespace, device, address) in [one, other] {
        namespace.run(|| set_up_veth(device, address))??;
    }
    Ok(())
}

/// What an Ethernet carries.
pub(crate) const MTU: usize = 1500;
pub(crate) const CLIENT_IP: [u8; 4] = [10, 9, 1, 1];
pub(crate) const ROUTER_FACING_CLIENT: [u8; 4] = [10, 9, 1, 2];
pub(crate) const ROUTER_FACING_SERVER: [u8; 4] = [10, 9, 2, 2];
pub(crate) const SERVER_IP: [u8; 4] = [10, 9, 2, 1];
