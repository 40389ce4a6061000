//! Where it happens: client, router and server in network namespaces of
//! their own, joined by two veth pairs of MTU 1,500.
//!
//! Client and server reach each other by nothing but the
//! router, and its kernel forwards only when told to.

use crate::namespace::{Namespace, ip, set_up_veth};

/// The three namespaces.
pub(crate) struct Place {
    pub(crate) client: Namespace,
    pub(crate) router: Namespace,
    pub(crate) server: Namespace,
}

impl Place {
    /// # Errors
    /// Without root, or without the `ip` command.
    pub(crate) fn new() -> Result<Self, String> {
        let [client, router, server] = Namespace::fresh()?;
        let place = Self { client, router, server };
        place.connect()?;
        Ok(place)
    }

    fn connect(&self) -> Result<(), String> {
        let pairs = format!(
            "link add rhumb-rc mtu {MTU} type veth peer name rhumb-cr mtu {MTU} netns {}\n\
             link add rhumb-rs mtu {MTU} type veth peer name rhumb-sr mtu {MTU} netns {}\n",
            self.client.path(),
            self.server.path()
        );
        self.router.run(|| ip(&pairs))??;
        let devices = [
            (&self.client, "rhumb-cr", CLIENT_IP),
            (&self.router, "rhumb-rc", ROUTER_FACING_CLIENT),
            (&self.router, "rhumb-rs", ROUTER_FACING_SERVER),
            (&self.server, "rhumb-sr", SERVER_IP),
        ];
        for (namespace, device, address) in devices {
            namespace.run(|| set_up_veth(device, address))??;
        }
        for namespace in [&self.client, &self.router, &self.server] {
            namespace.run(|| ip("link set lo up\n"))??;
        }
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
}

/// What an Ethernet carries.
pub(crate) const MTU: usize = 1500;
pub(crate) const CLIENT_IP: [u8; 4] = [10, 9, 1, 1];
pub(crate) const ROUTER_FACING_CLIENT: [u8; 4] = [10, 9, 1, 2];
pub(crate) const ROUTER_FACING_SERVER: [u8; 4] = [10, 9, 2, 2];
pub(crate) const SERVER_IP: [u8; 4] = [10, 9, 2, 1];
