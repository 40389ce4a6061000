//! The sockets of several workers at one address, and which of them a datagram goes to.
//!
//! A sealed datagram names its lane in clear (`docs/spec.md`, section 4.1): lane n goes to socket n
//! modulo their number, and everything else to the first. On Linux the system does that by a small
//! program (SO_REUSEPORT with SO_ATTACH_REUSEPORT_CBPF, Linux 4.5, no privilege needed). Where it
//! cannot, the first socket receives everything, and the others only send from its address: its
//! owner hands over what is for others.
//! Source: socket(7), Linux `Documentation/networking/filter.rst`.

use std::net::SocketAddr;

use super::{Options, UdpSocket};
use crate::{IoError, PacketIo};

/// Sockets at one address.
#[derive(Debug)]
pub struct Group {
    /// The sockets, in the order of their workers.
    pub sockets: Vec<UdpSocket>,
    /// Whether each receives its share. If not, the first
    /// receives all, and the others are to send only.
    pub steered: bool,
}

impl Group {
    /// `count` sockets at `address`; the system chooses the port when it is 0.
    ///
    /// # Errors
    /// When the address cannot be bound. That the system cannot steer is no error.
    pub fn bind(address: SocketAddr, options: Options, count: usize) -> Result<Self, IoError> {
        let alone = Options { reuse_port: false, ..options };
        if count <= 1 {
            return Ok(Self { sockets: vec![UdpSocket::bind(address, alone)?], steered: true });
        }
        match Self::bind_steered(address, options, count) {
            Ok(sockets) => Ok(Self { sockets, steered: true }),
            Err(IoError::SocketOption { .. }) => {
                let first = UdpSocket::bind(address, alone)?;
                Self::unsteered(first, count)
            }
            Err(error) => Err(error),
        }
    }

    /// What [`Group::bind`] makes of a socket where the system cannot steer.
    ///
    /// # Errors
    /// When there are no more descriptors.
    pub fn unsteered(first: UdpSocket, count: usize) -> Result<Self, IoError> {
        let others: Result<Vec<_>, _> = (1..count).map(|_| first.sender()).collect();
        let mut sockets = others?;
        sockets.insert(0, first);
        Ok(Self { sockets, steered: false })
    }

    fn bind_steered(
        address: SocketAddr,
        options: Options,
        count: usize,
    ) -> Result<Vec<UdpSocket>, IoError> {
        // Whoever else has this port must not become one of the group, nor we of his.
        if address.port() != 0 {
            drop(UdpSocket::bind(address, Options { reuse_port: false, ..options })?);
        }
        let options = Options { reuse_port: true, ..options };
        let mut sockets = vec![UdpSocket::bind(address, options)?];
        let address = sockets[0].local_address();
        for _ in 1..count {
            sockets.push(UdpSocket::bind(address, options)?);
        }
        // The system knows the sockets by the order in which they were bound.
        sockets[0].steer(&program(count as u32))?;
        Ok(sockets)
    }
}

/// One instruction of a classic BPF program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) code: u16,
    /// Instructions to pass over when a comparison holds.
    pub(crate) then: u8,
    /// And when it does not.
    pub(crate) otherwise: u8,
    pub(crate) operand: u32,
}

/// The program that says which of `count` sockets a datagram goes to. Its offset 0 is
/// the datagram's first byte; one that is too short goes to socket 0, for so the
/// system ends a program that reads beyond the end.
fn program(count: u32) -> [Instruction; 11] {
    let step = |code, operand| Instruction { code, then: 0, otherwise: 0, operand };
    let is = |kind, then, otherwise| Instruction { code: IS_EQUAL, then, otherwise, operand: kind };
    [
        // A sealed datagram: its first half byte is 8, B, D or E.
        step(LOAD_BYTE, 0),
        step(AND, 0xF0),
        is(0x80, 4, 0),
        is(0xB0, 3, 0),
        is(0xD0, 2, 0),
        is(0xE0, 1, 0),
        step(RETURN, 0),
        // The lane is the low three bits of the four bytes of kind and index.
        step(LOAD_BYTE, 3),
        step(AND, 7),
        step(MODULO, count),
        step(RETURN_ACCUMULATOR, 0),
    ]
}

// linux/bpf_common.h and linux/filter.h: class | size | mode, or class | operation | source.
const LOAD_BYTE: u16 = 0x30; // BPF_LD | BPF_B | BPF_ABS
const AND: u16 = 0x54; // BPF_ALU | BPF_AND | BPF_K
const MODULO: u16 = 0x94; // BPF_ALU | BPF_MOD | BPF_K
const IS_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const RETURN: u16 = 0x06; // BPF_RET | BPF_K
const RETURN_ACCUMULATOR: u16 = 0x16; // BPF_RET | BPF_A
