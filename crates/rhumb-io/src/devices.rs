//! The network devices that a socket's datagrams go by, and what they do themselves of what packet
//! I/O asks for: cut runs of UDP segments (UDP_SEGMENT), join arriving datagrams to superpackets
//! (UDP_GRO). Where a device does not, the kernel does, at this host's cost; the sockets ask for
//! both in any case, so nothing is chosen here: it is told to who has to choose a device.

use std::net::SocketAddr;

/// A network device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Whether it cuts runs of UDP segments into packets: `tx-udp-segmentation` is on. Devices
    /// that are none, as veth, say so too where they hand whole runs on.
    pub cuts_runs: bool,
    /// Whether it joins packets that arrive: `rx-gro-hw` is on.
    pub joins_runs: bool,
}

/// The devices that have the address of a socket bound to `local`, or, where that is every address,
/// those that are up and have any. Devices that are not Ethernet do not count. None where the
/// system does not tell.
#[cfg(target_os = "linux")]
pub(crate) fn devices(local: SocketAddr) -> Vec<Device> {
    use std::os::fd::AsFd;

    let Ok(socket) = std::net::UdpSocket::bind(("127.0.0.1", 0)) else { return Vec::new() };
    let names = crate::xdp::find_interfaces(local);
    let features = ["tx-udp-segmentation", "rx-gro-hw"];
    let device = |name: String| {
        let found = crate::ethtool::active_features(socket.as_fd(), &name, features);
        let [cuts_runs, joins_runs] = found.ok()?;
        Some(Device { name, cuts_runs, joins_runs })
    };
    names.into_iter().take(MAX_DEVICES).filter_map(device).collect()
}

/// None: this system does not tell.
#[cfg(not(target_os = "linux"))]
pub(crate) fn devices(_: SocketAddr) -> Vec<Device> {
    Vec::new()
}

/// More are asked about by nobody.
#[cfg(target_os = "linux")]
const MAX_DEVICES: usize = 16;
