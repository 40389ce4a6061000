//! Where datagrams travel: a - r - b over two veth pairs in network namespaces of our own, or loopback where that is not
//! allowed.
//!
//! The veth pairs show the fair case: runs of segments (GSO) are cut in software before they enter the device, as for a
//! device that cannot, and put together again on arrival (NAPI GRO). Loopback carries them whole: the best case.
//!
//! Invariant: the namespaces belong to this process alone and end with it, however it ends.

use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Command, Stdio};

use rhumb_io::PacketIo;
use rhumb_io::udp::{Options, UdpSocket};

/// The path that all forwarders of one process share.
pub(crate) enum Path {
    Veth(Namespaces),
    Loopback { reason: String },
}

/// The sockets of one forwarder and its load.
pub(crate) struct Sockets {
    pub(crate) source: UdpSocket,
    pub(crate) forwarder: UdpSocket,
    pub(crate) sink: UdpSocket,
    /// The forwarder as the source and as the sink see it.
    pub(crate) forwarder_addresses: [SocketAddr; 2],
}

impl Path {
    pub(crate) fn new() -> Self {
        match Namespaces::new() {
            Ok(namespaces) => Self::Veth(namespaces),
            Err(reason) => Self::Loopback { reason },
        }
    }

    pub(crate) fn is_fair(&self) -> bool {
        matches!(self, Self::Veth(_))
    }

    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Veth(_) => format!(
                "fair case: two veth pairs between namespaces, MTU {MTU}, runs cut in software, NAPI GRO on arrival"
            ),
            Self::Loopback { reason } => {
                format!(
                    "best case: loopback, which carries runs whole, because no veth pairs: {reason}"
                )
            }
        }
    }

    /// A source, a forwarder and a sink, each in its place.
    pub(crate) fn sockets(&self) -> Sockets {
        let (places, ips) = match self {
            Self::Veth(namespaces) => {
                (namespaces.each_ref().map(Some), [SOURCE_IP, [0, 0, 0, 0], SINK_IP])
            }
            Self::Loopback { .. } => ([None; 3], [[127, 0, 0, 1]; 3]),
        };
        let bind = |at: usize| {
            let bind = || UdpSocket::bind((ips[at], 0).into(), Options::default());
            match places[at] {
                Some(namespace) => namespace.run(bind).expect("our own namespace"),
                None => bind(),
            }
            .expect("a free port")
        };
        let [source, forwarder, sink] = std::array::from_fn(bind);
        let port = forwarder.local_address().port();
        let facing = match self {
            Self::Veth(_) => [FORWARDER_FACING_SOURCE, FORWARDER_FACING_SINK],
            Self::Loopback { .. } => [[127, 0, 0, 1]; 2],
        };
        let forwarder_addresses = facing.map(|ip| SocketAddr::from((ip, port)));
        Sockets { source, forwarder, sink, forwarder_addresses }
    }
}

/// Those of source, forwarder and sink.
pub(crate) struct Namespaces([Namespace; 3]);

impl Namespaces {
    fn new() -> Result<Self, String> {
        let home = Namespace::current()?;
        let fresh = || {
            sys::unshare_network().map_err(|error| format!("a network namespace: {error}"))?;
            Namespace::current()
        };
        let made = fresh().and_then(|a| Ok(Self([a, fresh()?, fresh()?])));
        let returned = home.enter();
        let namespaces = made?;
        returned?;
        namespaces.connect()?;
        Ok(namespaces)
    }

    fn each_ref(&self) -> [&Namespace; 3] {
        self.0.each_ref()
    }

    fn connect(&self) -> Result<(), String> {
        let [source, forwarder, sink] = &self.0;
        let pairs = format!(
            "link add rhumb-ra mtu {MTU} type veth peer name rhumb-ar mtu {MTU} netns {}\n\
             link add rhumb-rb mtu {MTU} type veth peer name rhumb-br mtu {MTU} netns {}\n",
            source.path(),
            sink.path()
        );
        forwarder.run(|| ip(&pairs))??;
        let devices = [
            (source, "rhumb-ar", SOURCE_IP),
            (forwarder, "rhumb-ra", FORWARDER_FACING_SOURCE),
            (forwarder, "rhumb-rb", FORWARDER_FACING_SINK),
            (sink, "rhumb-br", SINK_IP),
        ];
        for (namespace, device, address) in devices {
            let [a, b, c, d] = address;
            // A device that takes single segments only has runs cut before they reach it.
            let script = format!(
                "link set {device} gso_max_segs 1\naddress add {a}.{b}.{c}.{d}/24 dev {device}\nlink set {device} up\n"
            );
            namespace.run(|| {
                ip(&script)?;
                // NAPI, and with it GRO, is for senders that do not leave TCP segments to the device.
                sys::set_feature(device, sys::TCP_SEGMENTATION, false)
                    .and_then(|()| sys::set_feature(device, sys::GENERIC_RECEIVE_OFFLOAD, true))
                    .map_err(|error| format!("offloads of a veth device: {error}"))
            })??;
        }
        Ok(())
    }
}

/// A network namespace, which lives as long as this, or a socket inside of it.
struct Namespace(OwnedFd);

impl Namespace {
    fn current() -> Result<Self, String> {
        let file = std::fs::File::open("/proc/thread-self/ns/net");
        file.map(|file| Self(file.into())).map_err(|error| format!("namespaces: {error}"))
    }

    fn enter(&self) -> Result<(), String> {
        sys::enter_network(&self.0).map_err(|error| format!("entering a namespace: {error}"))
    }

    /// Does something with this thread, and whatever it starts, inside.
    fn run<T>(&self, act: impl FnOnce() -> T) -> Result<T, String> {
        let home = Self::current()?;
        self.enter()?;
        let result = act();
        home.enter()?;
        Ok(result)
    }

    /// Where other processes find it.
    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}

/// Has `ip` do what `script` says, line by line.
fn ip(script: &str) -> Result<(), String> {
    let unavailable = |error| format!("the `ip` command: {error}");
    let mut child = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(unavailable)?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(script.as_bytes()).map_err(unavailable)?;
    }
    let output = child.wait_with_output().map_err(unavailable)?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("ip: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

const MTU: u16 = 9000;
/// Bytes of UDP payload in a packet of that size.
pub(crate) const LARGEST_DATAGRAM: usize = MTU as usize - 20 - 8;
const SOURCE_IP: [u8; 4] = [10, 9, 1, 1];
const FORWARDER_FACING_SOURCE: [u8; 4] = [10, 9, 1, 2];
const FORWARDER_FACING_SINK: [u8; 4] = [10, 9, 2, 2];
const SINK_IP: [u8; 4] = [10, 9, 2, 1];

/// System calls. Source: setns(2), unshare(2), netdevice(7), Linux `include/uapi/linux/ethtool.h`.
#[allow(unsafe_code)]
mod sys {
    use std::io;
    use std::net::UdpSocket;
    use std::os::fd::{AsRawFd, OwnedFd};

    /// Commands that set one feature of a device.
    pub(super) const TCP_SEGMENTATION: u32 = 0x1F;
    pub(super) const GENERIC_RECEIVE_OFFLOAD: u32 = 0x2C;

    /// Moves this thread into a fresh network namespace.
    pub(super) fn unshare_network() -> io::Result<()> {
        // SAFETY: no memory is involved.
        check(unsafe { libc::unshare(libc::CLONE_NEWNET) })
    }

    pub(super) fn enter_network(namespace: &OwnedFd) -> io::Result<()> {
        // SAFETY: no memory is involved; the descriptor is open.
        check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) })
    }

    /// `struct ethtool_value`.
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }

    /// Turns a feature of a device of this thread's namespace on or off.
    pub(super) fn set_feature(device: &str, command: u32, on: bool) -> io::Result<()> {
        // Any socket will do to ask by.
        let socket = UdpSocket::bind(("0.0.0.0", 0))?;
        let mut value = Value { command, data: u32::from(on) };
        // SAFETY: an ifreq is integers, and a pointer, for which zero is a value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(device.bytes().take(libc::IFNAMSIZ - 1)) {
            *to = from.cast_signed() as libc::c_char;
        }
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        // SAFETY: the request names a device, ends with a zero, and points to a value of the form that these commands
        // take; both are valid for the whole call.
        check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) })
    }

    fn check(result: libc::c_int) -> io::Result<()> {
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
