//! Hosts in a line, a - r1 - r2 - b, each of them a network namespace, with IPv4 and IPv6 addresses
//! and routes from end to end. The two in the middle forward. Nothing of it has a name in the
//! system: it is gone with the value, or with the process.

use super::Host;

/// The line. Between hosts `n` and `n + 1` is network 10.8.n.0/24 and
/// 2001:db8:8:n::/64, on which the left one has .1 (::1) on its interface `right`, and
/// the right one .2 (::2) on its interface `left`.
pub(crate) struct Line {
    pub(crate) a: Host,
    pub(crate) r1: Host,
    pub(crate) r2: Host,
    pub(crate) b: Host,
}

impl Line {
    /// Addresses by which the others reach each host, IPv4.
    pub(crate) const A: &str = "10.8.0.1";
    pub(crate) const R1: &str = "10.8.0.2";
    pub(crate) const R2: &str = "10.8.1.2";
    pub(crate) const B: &str = "10.8.2.2";
    /// And IPv6.
    pub(crate) const A6: &str = "2001:db8:8:0::1";
    pub(crate) const R1_6: &str = "2001:db8:8:0::2";
    pub(crate) const R2_6: &str = "2001:db8:8:1::2";
    pub(crate) const B6: &str = "2001:db8:8:2::2";

    /// A new one; `None`, and why, where the process may not make it.
    pub(crate) fn new() -> Option<Self> {
        let hosts =
            || Ok::<_, std::io::Error>([Host::new()?, Host::new()?, Host::new()?, Host::new()?]);
        let [a, r1, r2, b] = hosts()
            .map_err(|error| println!("skipped: namespaces need root and ip ({error})"))
            .ok()?;
        let line = Self { a, r1, r2, b };
        line.lay();
        Some(line)
    }

    fn lay(&self) {
        let hosts = [&self.a, &self.r1, &self.r2, &self.b];
        for (network, pair) in hosts.windows(2).enumerate() {
            let other = pair[1].path();
            pair[0].run(&format!("ip link add right type veth peer name left netns {other}"));
            for (host, device, number) in [(pair[0], "right", 1), (pair[1], "left", 2)] {
                host.run(&format!(
                    "ip address add 10.8.{network}.{number}/24 dev {device}; \
                     ip address add 2001:db8:8:{network}::{number}/64 dev {device} nodad; \
                     ip link set {device} up"
                ));
            }
        }
        for router in [&self.r1, &self.r2] {
            router.run(
                "echo 1 > /proc/sys/net/ipv4/ip_forward; \
                 echo 1 > /proc/sys/net/ipv6/conf/all/forwarding",
            );
        }
        let route = |host: &Host, to: &str, gateway: &str, to6: &str, gateway6: &str| {
            host.run(&format!(
                "ip route add {to} via {gateway}; ip route add {to6} via {gateway6}"
            ));
        };
        route(&self.a, "default", "10.8.0.2", "default", "2001:db8:8:0::2");
        route(&self.r1, "10.8.2.0/24", "10.8.1.2", "2001:db8:8:2::/64", "2001:db8:8:1::2");
        route(&self.r2, "10.8.0.0/24", "10.8.1.1", "2001:db8:8:0::/64", "2001:db8:8:1::1");
        route(&self.b, "default", "10.8.2.1", "default", "2001:db8:8:2::1");
    }
}
