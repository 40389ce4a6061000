//! The XDP program: which frames go to our rings, and which to the kernel. Written as a table of
//! instructions, with a small assembler, so that building needs no compiler for it.
//!
//! Redirected are whole UDP datagrams to our port, or whole packets of our protocol, at one of
//! our addresses, in plain Ethernet frames: IPv4 without options or IPv6 without extension
//! headers. Everything else passes to the kernel as if we were not there: ARP, neighbour
//! discovery, ICMP, TCP, other ports, protocols and hosts, fragments, tagged frames, and what
//! is ours on queues that have no ring of ours. Where several workers have rings, the lane of a
//! datagram says whose it is.
//!
//! Invariant: a frame that is not surely ours passes. Source: Linux
//! `Documentation/bpf/standardization/instruction-set.rst`.

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use super::frame::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, PROTOCOL_UDP};

/// What is ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// UDP datagrams to this port.
    Port(u16),
    /// Packets of this IP protocol.
    Protocol(u8),
}

/// The program for what is `wanted`. `addresses` and `rings` are the maps it looks into: keys of 16
/// bytes (IPv4 mapped), and rings by receive queue, of each those of as many `users`. A sealed
/// datagram goes to the user of its lane, lane n to user n modulo their number, and everything
/// else to the first: the rule by which sockets are chosen, too (`udp::Group`). `miss` is what
/// becomes of our packets on a queue that has no ring.
pub(super) fn program(
    wanted: Wanted,
    users: u32,
    addresses: BorrowedFd<'_>,
    rings: BorrowedFd<'_>,
    miss: Action,
) -> Vec<Instruction> {
    use Op::*;
    use Size::*;
    // What stands behind the IP header, as far as it is looked at.
    let (protocol, behind) = match wanted {
        Wanted::Port(_) => (PROTOCOL_UDP, UDP),
        Wanted::Protocol(protocol) => (protocol, 0),
    };
    let port_at = |at: i16| match wanted {
        Wanted::Port(port) => {
            vec![Load(Half, R3, R7, at), IfNot(R3, network(port), Label::Pass)]
        }
        Wanted::Protocol(_) => Vec::new(),
    };
    let begin = [
        // The context is needed at the end again, when the call has clobbered R1 to R5.
        Move(R6, R1),
        Load(Word, R7, R6, CONTEXT_DATA),
        Load(Word, R8, R6, CONTEXT_DATA_END),
        // Ethernet, IPv4 and UDP headers are there? Ethernet and IPv6 alone are longer.
        Move(R2, R7),
        Add(R2, ETHERNET + IPV4 + behind),
        IfGreater(R2, R8, Label::Pass),
        Load(Half, R3, R7, 12),
        IfEqual(R3, network(ETHERTYPE_IPV4), Label::V4),
        IfEqual(R3, network(ETHERTYPE_IPV6), Label::V6),
        Goto(Label::Pass),
        //
        At(Label::V4),
        // Version 4, and a header of five words: no options.
        Load(Byte, R3, R7, 14),
        IfNot(R3, 0x45, Label::Pass),
        // No fragment: neither more to come nor an offset.
        Load(Half, R3, R7, 20),
        And(R3, network(0x3FFF)),
        IfNot(R3, 0, Label::Pass),
        Load(Byte, R3, R7, 23),
        IfNot(R3, i32::from(protocol), Label::Pass),
    ];
    let between = [
        // The key is ::ffff:destination.
        StoreValue(Double, R10, -16, 0),
        StoreValue(Word, R10, -8, i32::from_ne_bytes([0, 0, 0xFF, 0xFF])),
        Copy(-4, 30),
        Goto(Label::LookUp),
        //
        At(Label::V6),
        Move(R2, R7),
        Add(R2, ETHERNET + IPV6 + behind),
        IfGreater(R2, R8, Label::Pass),
        Load(Byte, R3, R7, 14),
        And(R3, 0xF0),
        IfNot(R3, 0x60, Label::Pass),
        // The next header is the protocol itself.
        Load(Byte, R3, R7, 20),
        IfNot(R3, i32::from(protocol), Label::Pass),
    ];
    // The key is the destination.
    let key = [Copy(-16, 38), Copy(-12, 42), Copy(-8, 46), Copy(-4, 50)];
    let user_at = |payload: i16, labels| match wanted {
        Wanted::Port(_) => user_of(users, payload, labels),
        // A packet of another protocol has no lane.
        Wanted::Protocol(_) => user_of(1, payload, labels),
    };
    let v4 = [port_at(36), user_at(42, [Label::SealedV4, Label::KnownV4])].concat();
    let v6 = [port_at(56), user_at(62, [Label::SealedV6, Label::KnownV6])].concat();
    let end = look_up(users, addresses, rings, miss);
    assemble(&[&begin, &v4[..], &between, &v6, &key, &end].concat())
}

/// Finds out whose a datagram is, from its payload in the frame: the user's number comes into R9.
/// Source: `docs/spec.md`, section 4.1.
fn user_of(users: u32, payload: i16, [sealed, known]: [Label; 2]) -> Vec<Op> {
    use Op::*;
    use Size::*;
    if users == 1 {
        return vec![Set(R9, 0)];
    }
    vec![
        Set(R9, 0),
        // Kind and index are there?
        Move(R2, R7),
        Add(R2, i32::from(payload) + 4),
        IfGreater(R2, R8, known),
        // A sealed datagram: its first half byte is 8, B, D or E.
        Load(Byte, R3, R7, payload),
        And(R3, 0xF0),
        IfEqual(R3, 0x80, sealed),
        IfEqual(R3, 0xB0, sealed),
        IfEqual(R3, 0xD0, sealed),
        IfNot(R3, 0xE0, known),
        At(sealed),
        // The lane is the low three bits of the four bytes of kind and index.
        Load(Byte, R9, R7, payload + 3),
        And(R9, 7),
        Modulo(R9, users.cast_signed()),
        At(known),
    ]
}

/// The end of the program: is the address in the key one of ours, and is there a ring for it of the
/// user in R9?
fn look_up(users: u32, addresses: BorrowedFd<'_>, rings: BorrowedFd<'_>, miss: Action) -> Vec<Op> {
    use Op::*;
    use Size::*;
    vec![
        At(Label::LookUp),
        LoadMap(R1, addresses.as_raw_fd()),
        Move(R2, R10),
        Add(R2, -16),
        Call(MAP_LOOKUP_ELEM),
        IfEqual(R0, 0, Label::Pass),
        LoadMap(R1, rings.as_raw_fd()),
        Load(Word, R2, R6, CONTEXT_QUEUE),
        Multiply(R2, users.cast_signed()),
        AddRegister(R2, R9),
        Set(R3, miss as i32),
        Call(REDIRECT_MAP),
        Exit,
        //
        At(Label::Pass),
        Set(R0, Action::Pass as i32),
        Exit,
    ]
}

/// The program that marks a socket when it is made, and lets it be made.
pub(super) fn marking(mark: u32) -> Vec<Instruction> {
    assemble(&[
        Op::Set(R2, mark.cast_signed()),
        Op::Store(Size::Word, R1, R2, SOCKET_MARK),
        Op::Set(R0, 1),
        Op::Exit,
    ])
}

/// What becomes of a frame. Source: Linux `include/uapi/linux/bpf.h`, `enum xdp_action`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Action {
    /// Only in tests, to tell our frames from others where there is no ring.
    #[cfg(test)]
    Drop = 1,
    /// It goes on in the kernel.
    Pass = 2,
}

/// An instruction in the kernel's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    V4,
    V6,
    SealedV4,
    KnownV4,
    SealedV6,
    KnownV6,
    LookUp,
    Pass,
}

/// A register. R0 is what a call returns, and the program; R1 to R5 are a
/// call's arguments; R10 is the end of the stack.
#[derive(Debug, Clone, Copy)]
struct Register(u8);

const R0: Register = Register(0);
const R1: Register = Register(1);
const R2: Register = Register(2);
const R3: Register = Register(3);
const R6: Register = Register(6);
const R7: Register = Register(7);
const R8: Register = Register(8);
const R9: Register = Register(9);
const R10: Register = Register(10);

#[derive(Debug, Clone, Copy)]
enum Size {
    Byte = 0x10,
    Half = 0x08,
    Word = 0x00,
    Double = 0x18,
}

/// One line of the table. Where there are two registers, the first is written to.
#[derive(Debug, Clone, Copy)]
enum Op {
    At(Label),
    Move(Register, Register),
    Set(Register, i32),
    Add(Register, i32),
    AddRegister(Register, Register),
    Multiply(Register, i32),
    Modulo(Register, i32),
    And(Register, i32),
    /// Into the register from memory at base and offset.
    Load(Size, Register, Register, i16),
    /// Into memory at the base, which is the first register, and offset.
    Store(Size, Register, Register, i16),
    /// A word onto the stack, from the frame: through R3.
    Copy(i16, i16),
    /// Into memory at base and offset.
    StoreValue(Size, Register, i16, i32),
    LoadMap(Register, RawFd),
    Goto(Label),
    IfGreater(Register, Register, Label),
    IfEqual(Register, i32, Label),
    IfNot(Register, i32, Label),
    Call(i32),
    Exit,
}

fn assemble(table: &[Op]) -> Vec<Instruction> {
    let places: Vec<usize> = table
        .iter()
        .scan(0, |next, op| {
            let place = *next;
            *next += op.len();
            Some(place)
        })
        .collect();
    let find = |label: Label| {
        let is_there = |op: &Op| matches!(op, Op::At(there) if *there == label);
        let line = table.iter().position(is_there).expect("invariant: the table has every label");
        places[line]
    };
    let mut program = Vec::new();
    for (op, place) in table.iter().zip(&places) {
        let jump = |label| {
            let distance = find(label) as isize - *place as isize - 1;
            i16::try_from(distance).expect("invariant: the table is short")
        };
        op.emit(jump, &mut program);
    }
    program
}

impl Op {
    /// Instructions that it takes.
    fn len(self) -> usize {
        match self {
            Self::At(_) => 0,
            Self::LoadMap(..) | Self::Copy(..) => 2,
            _ => 1,
        }
    }

    fn emit(self, jump: impl Fn(Label) -> i16, program: &mut Vec<Instruction>) {
        let zero = Register(0);
        let size_code = |size: Size| size as u8;
        let (code, to, from, offset, immediate) = match self {
            Self::At(_) => return,
            Self::Move(to, from) => (ALU64 | MOV | BY_REGISTER, to, from, 0, 0),
            Self::Set(to, value) => (ALU64 | MOV, to, zero, 0, value),
            Self::Add(to, value) => (ALU64 | ADD, to, zero, 0, value),
            Self::AddRegister(to, from) => (ALU64 | ADD | BY_REGISTER, to, from, 0, 0),
            Self::Multiply(to, value) => (ALU64 | MUL, to, zero, 0, value),
            Self::Modulo(to, value) => (ALU64 | MOD, to, zero, 0, value),
            Self::And(to, value) => (ALU64 | AND, to, zero, 0, value),
            Self::Load(size, to, base, at) => (LDX | MEM | size_code(size), to, base, at, 0),
            Self::Copy(to, from) => {
                program.push(Instruction::new(LDX | MEM | size_code(Size::Word), R3, R7, from, 0));
                (STX | MEM | size_code(Size::Word), R10, R3, to, 0)
            }
            Self::Store(size, base, from, at) => (STX | MEM | size_code(size), base, from, at, 0),
            Self::StoreValue(size, base, at, value) => {
                (ST | MEM | size_code(size), base, zero, at, value)
            }
            Self::LoadMap(to, map) => {
                program.push(Instruction::new(LD_IMM64, to, PSEUDO_MAP_FD, 0, map));
                (0, zero, zero, 0, 0)
            }
            Self::Goto(label) => (JMP | JA, zero, zero, jump(label), 0),
            Self::IfGreater(a, b, label) => (JMP | JGT | BY_REGISTER, a, b, jump(label), 0),
            Self::IfEqual(a, value, label) => (JMP | JEQ, a, zero, jump(label), value),
            Self::IfNot(a, value, label) => (JMP | JNE, a, zero, jump(label), value),
            Self::Call(helper) => (JMP | CALL, zero, zero, 0, helper),
            Self::Exit => (JMP | EXIT, zero, zero, 0, 0),
        };
        program.push(Instruction::new(code, to, from, offset, immediate));
    }
}

impl Instruction {
    fn new(code: u8, to: Register, from: Register, offset: i16, immediate: i32) -> Self {
        // The two are bit fields of one byte in C.
        let little = cfg!(target_endian = "little");
        let registers = if little { to.0 | from.0 << 4 } else { to.0 << 4 | from.0 };
        Self { code, registers, offset, immediate }
    }
}

/// What a load of two bytes finds where `value` stands in network order.
fn network(value: u16) -> i32 {
    i32::from(u16::from_ne_bytes(value.to_be_bytes()))
}

const ETHERNET: i32 = 14;
const IPV4: i32 = 20;
const IPV6: i32 = 40;
const UDP: i32 = 8;

/// Fields of `struct xdp_md`.
const CONTEXT_DATA: i16 = 0;
const CONTEXT_DATA_END: i16 = 4;
const CONTEXT_QUEUE: i16 = 16;

/// Field of `struct bpf_sock`.
const SOCKET_MARK: i16 = 16;

/// Helpers of the kernel.
const MAP_LOOKUP_ELEM: i32 = 1;
const REDIRECT_MAP: i32 = 51;

const LDX: u8 = 0x01;
const ST: u8 = 0x02;
const STX: u8 = 0x03;
const JMP: u8 = 0x05;
const ALU64: u8 = 0x07;
const MEM: u8 = 0x60;
const BY_REGISTER: u8 = 0x08;
const ADD: u8 = 0x00;
const MUL: u8 = 0x20;
const MOD: u8 = 0x90;
const AND: u8 = 0x50;
const MOV: u8 = 0xB0;
const JA: u8 = 0x00;
const JEQ: u8 = 0x10;
const JGT: u8 = 0x20;
const JNE: u8 = 0x50;
const CALL: u8 = 0x80;
const EXIT: u8 = 0x90;
const LD_IMM64: u8 = 0x18;
/// Says that the immediate is a map's descriptor.
const PSEUDO_MAP_FD: Register = Register(1);

#[cfg(test)]
mod tests {
    use std::io;
    use std::os::fd::{AsFd, OwnedFd};

    use super::super::bpf;
    use super::super::frame::tests::{ends, frame};
    use super::*;

    const PORT: u16 = 7460;

    /// The program for our port at 192.0.2.2 and 2001:db8::2, as the kernel runs it.
    struct Loaded {
        program: OwnedFd,
        _maps: [OwnedFd; 2],
    }

    impl Loaded {
        /// `None`, and why, where the test may not load programs.
        fn new(wanted: Wanted) -> Option<Self> {
            Self::for_users(wanted, 1)
        }

        fn for_users(wanted: Wanted, users: u32) -> Option<Self> {
            let load = || -> io::Result<Self> {
                let (addresses, rings) = (bpf::set_of_addresses(4)?, bpf::ring_map(1)?);
                for address in ["::ffff:192.0.2.2", "2001:db8::2"] {
                    let address: std::net::Ipv6Addr = address.parse().expect("an address");
                    bpf::insert_address(addresses.as_fd(), &address.octets())?;
                }
                let code = program(wanted, users, addresses.as_fd(), rings.as_fd(), Action::Drop);
                Ok(Self { program: bpf::load(&code)?, _maps: [addresses, rings] })
            };
            match load() {
                Ok(loaded) => Some(loaded),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    println!("skipped: to load a program needs root");
                    None
                }
                Err(error) => panic!("the kernel refuses the program: {error}"),
            }
        }

        /// Whether the program would lead the frame to us. There is no ring,
        /// so ours show by what becomes of them then.
        fn takes(&self, frame: &[u8]) -> bool {
            match bpf::run(self.program.as_fd(), frame).expect("a frame") {
                action if action == Action::Drop as u32 => true,
                action if action == Action::Pass as u32 => false,
                action => panic!("action {action}"),
            }
        }
    }

    #[test]
    fn our_datagrams_are_taken_and_nothing_else_is() {
        let Some(loaded) = Loaded::new(Wanted::Port(PORT)) else { return };
        let to = |destination: &str| {
            let source =
                if destination.starts_with('[') { "[2001:db8::9]:7" } else { "192.0.2.9:7" };
            frame(&ends(source, destination), b"payload")
        };
        let v4 = to("192.0.2.2:7460");
        let v6 = to("[2001:db8::2]:7460");
        assert!(loaded.takes(&v4) && loaded.takes(&v6));
        assert!(loaded.takes(&v4[..42]) && loaded.takes(&v6[..62]), "headers alone");

        for other in ["192.0.2.2:7461", "192.0.2.2:9245", "192.0.2.3:7460", "255.255.255.255:7460"]
        {
            assert!(!loaded.takes(&to(other)), "{other}");
        }
        for other in ["[2001:db8::2]:7461", "[2001:db8::3]:7460", "[ff02::1]:7460"] {
            assert!(!loaded.takes(&to(other)), "{other}");
        }
        for len in 14..42 {
            assert!(!loaded.takes(&v4[..len]), "{len} bytes");
        }
        for len in 14..62 {
            assert!(!loaded.takes(&v6[..len]), "{len} bytes");
        }
    }

    #[test]
    fn packets_of_our_protocol_are_taken_and_nothing_else_is() {
        let Some(loaded) = Loaded::new(Wanted::Protocol(253)) else { return };
        let of = |source: &str, destination: &str, protocol| {
            let mut frame = frame(&ends(source, destination), b"payload");
            let at = if destination.starts_with('[') { 20 } else { 23 };
            frame[at] = protocol;
            frame
        };
        let v4 = of("192.0.2.9:7", "192.0.2.2:7460", 253);
        let v6 = of("[2001:db8::9]:7", "[2001:db8::2]:7460", 253);
        assert!(loaded.takes(&v4) && loaded.takes(&v6));
        assert!(loaded.takes(&v4[..34]) && loaded.takes(&v6[..54]), "headers alone");
        for len in 14..34 {
            assert!(!loaded.takes(&v4[..len]), "{len} bytes");
        }
        for len in 14..54 {
            assert!(!loaded.takes(&v6[..len]), "{len} bytes");
        }
        assert!(!loaded.takes(&of("192.0.2.9:7", "192.0.2.2:7460", 17)), "UDP");
        assert!(!loaded.takes(&of("[2001:db8::9]:7", "[2001:db8::2]:7460", 58)), "ICMPv6");
        assert!(!loaded.takes(&of("192.0.2.9:7", "192.0.2.3:7460", 253)), "another host's");
        assert!(!loaded.takes(&of("[2001:db8::9]:7", "[2001:db8::3]:7460", 253)), "another host's");
        let mut fragment = v4.clone();
        fragment[20] = 0x20;
        assert!(!loaded.takes(&fragment));
    }

    #[test]
    fn what_is_no_plain_datagram_passes() {
        let Some(loaded) = Loaded::new(Wanted::Port(PORT)) else { return };
        let v4 = frame(&ends("192.0.2.9:7", "192.0.2.2:7460"), b"payload");
        let v6 = frame(&ends("[2001:db8::9]:7", "[2001:db8::2]:7460"), b"payload");
        let takes = |frame: &[u8], at: usize, byte: u8| {
            let mut frame = frame.to_vec();
            frame[at] = byte;
            loaded.takes(&frame)
        };
        assert!(takes(&v4, 20, 0x40) && takes(&v4, 20, 0x80), "don't fragment, reserved");
        let changes = [
            (12, 0x81, "tagged"),
            (13, 0x06, "ARP"),
            (14, 0x46, "options"),
            (14, 0x65, "version"),
            (20, 0x20, "more fragments"),
            (20, 0x01, "a later fragment"),
            (21, 0x01, "a later fragment"),
            (23, 1, "ICMP"),
            (23, 6, "TCP"),
        ];
        for (at, byte, what) in changes {
            assert!(!takes(&v4, at, byte), "{what}");
        }
        for (at, byte, what) in [(20, 58, "ICMPv6"), (20, 44, "a fragment"), (20, 0, "options")] {
            assert!(!takes(&v6, at, byte), "{what}");
        }
        assert!(!takes(&v6, 14, 0x45), "version");
        // An IPv4 destination in an IPv6 packet would find our IPv4 address: parsing refuses it.
        let mapped = frame(&ends("[2001:db8::9]:7", "[::ffff:192.0.2.2]:7460"), b"payload");
        assert_eq!(super::super::frame::parse(&mapped, 1), None);
    }
}
