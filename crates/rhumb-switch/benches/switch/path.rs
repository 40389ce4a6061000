//! Where datagrams travel: a - r - b over two veth pairs in network namespaces of our own, or
//! loopback where that is not allowed.
//!
//! The veth pairs show the fair case: runs of segments (GSO) are cut in software before they enter
//! the device, as for a device that cannot, and put together again on arrival (NAPI GRO). Loopback
//! carries them whole: the best case.
//!
//! Invariant: the namespaces belong to this process alone and end with it, however it ends.

use std::net::SocketAddr;

use rhumb_io::PacketIo;
use rhumb_io::udp::{Options, UdpSocket};

use crate::namespace::{Namespace, ip, set_up_veth};

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
        let namespaces = Self(Namespace::fresh()?);
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
            namespace.run(|| set_up_veth(device, address))??;
        }
        Ok(())
    }
}

const MTU: u16 = 9000;
/// Bytes of UDP payload in a packet of that size.
pub(crate) const LARGEST_DATAGRAM: usize = MTU as usize - 20 - 8;
const SOURCE_IP: [u8; 4] = [10, 9, 1, 1];
const FORWARDER_FACING_SOURCE: [u8; 4] = [10, 9, 1, 2];
const FORWARDER_FACING_SINK: [u8; 4] = [10, 9, 2, 2];
const SINK_IP: [u8; 4] = [10, 9, 2, 1];
