//! IP packets of one protocol as UDP datagrams, where only UDP gets
//! through: what follows the IP header is the payload.
//!
//! So a packet has the same shape as on a raw socket: the header is taken off in front of what is
//! sent, and made in front of what is received, from the addresses of the socket. What the outer
//! header of the datagram said otherwise (hop limit, class) is not seen. The port is the same at
//! both ends; answers, where a protocol has them, do not go back through an address translator.
//!
//! Invariant: as that of the socket below. Each packet is copied once, since a superpacket's
//! datagrams have no room in front.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use rhumb_wire::Batch;

use super::batch::{Fate, HEADROOM, IpBatch};
use super::header::{self, HOP_LIMIT, Ipv6Fields};
use super::raw::settle;
use super::{IpIo, ends_of};
use crate::udp::Ready;
use crate::{Backend, Counters, IoError, PacketIo, SendReport, Wake};

/// A UDP socket, or what goes past the kernel in its place,
/// that carries the packets of one IP protocol.
#[derive(Debug)]
pub struct UdpCarriage {
    socket: Backend,
    local: IpAddr,
    protocol: u8,
    port: u16,
    batch: Batch,
    malformed: u64,
}

impl UdpCarriage {
    /// Carries packets of `protocol`, sending them to `port` of their destinations.
    ///
    /// # Errors
    /// When the socket is bound to all addresses: a packet
    /// received would not have a destination then.
    pub fn new(socket: impl Into<Backend>, protocol: u8, port: u16) -> Result<Self, IoError> {
        let socket = socket.into();
        let address = socket.local_address();
        if address.ip().is_unspecified() {
            return Err(IoError::NoOneAddress { address });
        }
        Ok(Self { socket, local: address.ip(), protocol, port, batch: Batch::new(), malformed: 0 })
    }
}

impl IpIo for UdpCarriage {
    /// A superpacket's datagrams all come at once, so these may be more than
    /// [`RECEIVE_MOST`](super::RECEIVE_MOST).
    fn receive(&mut self, packets: &mut IpBatch) -> io::Result<usize> {
        packets.clear();
        self.socket.receive(&mut self.batch)?;
        for (peer, payload) in self.batch.iter() {
            let (header_v4, header_v6);
            let header: &[u8] = match (peer.ip(), self.local) {
                (IpAddr::V4(from), IpAddr::V4(to)) => {
                    header_v4 = header::ipv4(from, to, self.protocol, payload.len());
                    &header_v4
                }
                (IpAddr::V6(from), IpAddr::V6(to)) => {
                    let fields =
                        Ipv6Fields { flow: 0, protocol: self.protocol, hop_limit: HOP_LIMIT };
                    header_v6 = header::ipv6(from, to, fields, payload.len());
                    &header_v6
                }
                _ => {
                    self.malformed += 1;
                    continue;
                }
            };
            let len = header.len() + payload.len();
            if len > packets.packet_len() {
                self.malformed += 1;
                continue;
            }
            let (front, rest) =
                packets.spare(1)[HEADROOM..HEADROOM + len].split_at_mut(header.len());
            front.copy_from_slice(header);
            rest.copy_from_slice(payload);
            packets.received(HEADROOM, len);
        }
        Ok(packets.len())
    }

    /// Packets of other protocols are unreachable. The socket below counts
    /// drops, but does not say whose: packets have been sent as far as their
    /// fates tell, and the report tells how many were not.
    fn send(&mut self, packets: &mut IpBatch) -> io::Result<SendReport> {
        self.batch.clear();
        let mut refused = SendReport::default();
        for number in 0..packets.len() {
            let packet = packets.packet(number);
            if packet.is_empty() {
                continue;
            }
            let to = ends_of(packet).map(|(_, to)| to);
            let to = to.filter(|_| protocol_of(packet) == self.protocol);
            let fate = match to {
                Some(to) => {
                    self.batch.push(
                        SocketAddr::new(to, self.port),
                        &packet[header::header_len(packet)..],
                    );
                    Fate::Sent
                }
                None => Fate::Unreachable,
            };
            settle(packets, number, fate, &mut refused);
        }
        let mut report = self.socket.send(&self.batch)?;
        report.dropped_unreachable += refused.dropped_unreachable;
        Ok(report)
    }

    fn wait(&mut self, timeout: Option<Duration>, also: Option<&Wake>) -> io::Result<Ready> {
        self.socket.wait(timeout, also)
    }

    fn counters(&self) -> Counters {
        let mut counters = self.socket.counters();
        counters.receive_malformed += self.malformed;
        counters
    }
}

/// The protocol that a whole packet says follows its header.
fn protocol_of(packet: &[u8]) -> u8 {
    if packet[0] >> 4 == 4 { packet[9] } else { packet[6] }
}
