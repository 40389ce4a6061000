//! TUN devices: what the host's own stack routes into the device comes here, and what is sent here
//! the stack takes as if it had arrived on the device.
//!
//! One packet is one system call: the device has no call for several. But the stack hands over TCP
//! segments by the dozen, as one superpacket, and leaves their checksums to us; they are cut on the
//! way into the batch, so that every packet in it fits the MTU and is whole. See
//! `docs/decisions/0018-ip-packets.md` for what that is worth.
//!
//! Invariant: the device belongs to this process, and is gone with it. Source: Linux
//! `Documentation/networking/tuntap.rst`.

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use super::batch::{Fate, HEADROOM, IpBatch};
use super::head::RunHead;
use super::raw::settle;
use super::run::Run;
use super::superpacket::{self, PREFIX_LEN};
use super::uncut::Uncut;
use super::{IpIo, RECEIVE_MOST, header, sys};
use crate::netlink::Netlink;
use crate::poll::{Interest, poll};
use crate::udp::{Ready, is_final};
use crate::{Counters, IoError, SendReport, Wake};

/// What to make of a TUN device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunOptions {
    /// Its name, 15 bytes at most; one that ends in `%d` gets the first number that is free.
    pub name: String,
    /// Bytes of the largest packet that the stack gives it.
    pub mtu: u32,
    /// Take TCP segments together as superpackets.
    pub superpackets: bool,
    /// Addresses of this host on it, each with the bits of the network that is reached by it.
    pub addresses: Vec<(IpAddr, u8)>,
}

impl Default for TunOptions {
    /// `rhumb0` or the next free one, with the MTU of Ethernet and no address.
    fn default() -> Self {
        Self { name: "rhumb%d".into(), mtu: DEFAULT_MTU, superpackets: true, addresses: Vec::new() }
    }
}

/// One queue of a TUN device.
#[derive(Debug)]
pub struct Tun {
    file: File,
    name: String,
    mtu: u32,
    /// Where superpackets are received, with their prefix; empty where there are none.
    buffer: Vec<u8>,
    counters: Counters,
}

impl Tun {
    /// A device, up and with its addresses, in the network namespace of this thread.
    ///
    /// # Errors
    /// When the process may not make one (CAP_NET_ADMIN), its
    /// name is taken, or an address cannot be had.
    pub fn open(options: &TunOptions) -> Result<Self, IoError> {
        let tun = Self::open_queue(options, false)?;
        tun.set_up(options)?;
        Ok(tun)
    }

    /// A device with several queues, each for a thread of its own. The system keeps a flow on the
    /// queue on which its packets were last sent.
    ///
    /// # Errors
    /// As [`Tun::open`].
    pub fn open_queues(options: &TunOptions, queues: usize) -> Result<Vec<Self>, IoError> {
        let mut all = Vec::with_capacity(queues);
        let mut options = options.clone();
        for _ in 0..queues {
            let tun = Self::open_queue(&options, true)?;
            options.name.clone_from(&tun.name);
            all.push(tun);
        }
        if let Some(first) = all.first() {
            first.set_up(&options)?;
        }
        Ok(all)
    }

    fn open_queue(options: &TunOptions, several: bool) -> Result<Self, IoError> {
        let (file, name) = sys::open_tun(&options.name, several, options.superpackets)
            .map_err(step(&options.name, "TUNSETIFF"))?;
        let buffer = vec![0; if options.superpackets { BUFFER_LEN } else { 0 }];
        Ok(Self { file, name, mtu: options.mtu, buffer, counters: Counters::default() })
    }

    fn set_up(&self, options: &TunOptions) -> Result<(), IoError> {
        let step = |call| step(&self.name, call);
        let mut netlink = Netlink::new().map_err(step("socket(NETLINK)"))?;
        let index = netlink.link_by_name(&self.name).map_err(step("RTM_GETLINK"))?.index;
        netlink.bring_up(index, options.mtu).map_err(step("RTM_NEWLINK"))?;
        for &(address, prefix) in &options.addresses {
            netlink.add_address(index, address, prefix).map_err(step("RTM_NEWADDR"))?;
        }
        // The kernel puts the route to an IPv6 address of its own up a
        // moment later, and loses what comes before.
        for _ in 0..ADDRESS_ATTEMPTS {
            if options.addresses.iter().all(|(address, _)| netlink.is_here(*address)) {
                break;
            }
            poll(&[], Some(ADDRESS_WAIT)).map_err(step("poll"))?;
        }
        Ok(())
    }

    /// Leads what the host receives for `address`, which is not its own, into the device: what
    /// forwards for others has such addresses. The way goes with the device.
    ///
    /// # Errors
    /// When the process may not (CAP_NET_ADMIN).
    pub fn lead(&self, address: IpAddr) -> Result<(), IoError> {
        let step = |call| step(&self.name, call);
        let mut netlink = Netlink::new().map_err(step("socket(NETLINK)"))?;
        let index = netlink.link_by_name(&self.name).map_err(step("RTM_GETLINK"))?.index;
        netlink.add_route(index, address).map_err(step("RTM_NEWROUTE"))
    }

    /// Leads what this host sends to a network, its first address and how many bits make it, into
    /// the device. The way goes with the device.
    ///
    /// # Errors
    /// When the process may not (CAP_NET_ADMIN), or the network has a way already.
    pub fn lead_network(&self, network: (IpAddr, u8)) -> Result<(), IoError> {
        let step = |call| step(&self.name, call);
        let mut netlink = Netlink::new().map_err(step("socket(NETLINK)"))?;
        let index = netlink.link_by_name(&self.name).map_err(step("RTM_GETLINK"))?.index;
        netlink.add_network(index, network).map_err(step("RTM_NEWROUTE"))
    }

    /// The same queue again, for another thread: one receives, and one sends.
    ///
    /// # Errors
    /// When there are no more descriptors.
    pub fn again(&self) -> Result<Self, IoError> {
        let file = self.file.try_clone().map_err(step(&self.name, "dup"))?;
        let (name, buffer) = (self.name.clone(), self.buffer.clone());
        Ok(Self { file, name, mtu: self.mtu, buffer, counters: Counters::default() })
    }

    /// The name of the device.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes of the largest packet that the stack gives it, as it was made.
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// Sends one packet; `None` when a signal came.
    fn write(&self, packet: &[u8]) -> io::Result<Option<Fate>> {
        if !header::is_whole(packet) {
            return Ok(Some(Fate::Unreachable));
        }
        let written = if self.buffer.is_empty() {
            (&self.file).write(packet)
        } else {
            // It says nothing: the packet is whole, and its checksum has yet to be looked at.
            let prefix = [0; PREFIX_LEN];
            (&self.file).write_vectored(&[IoSlice::new(&prefix), IoSlice::new(packet)])
        };
        fate_of(written)
    }

    /// Sends a run of segments as one superpacket, as [`Tun::write`] does.
    fn write_run(&self, run: &Run, packets: &IpBatch, first: usize) -> io::Result<Option<Fate>> {
        let payloads = (first..first + run.packets).map(|it| run.payload(packets.packet(it)));
        let parts: Vec<IoSlice<'_>> =
            std::iter::once(run.head()).chain(payloads).map(IoSlice::new).collect();
        fate_of((&self.file).write_vectored(&parts))
    }

    /// As [`IpIo::receive`], with runs of segments as they are, for a device that gives any.
    ///
    /// # Errors
    /// As there.
    pub fn receive_uncut(&mut self, uncut: &mut Uncut) -> io::Result<usize> {
        uncut.clear();
        if self.buffer.is_empty() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        while uncut.len() < RECEIVE_MOST && uncut.bytes() < UNCUT_MOST {
            self.counters.receive_calls += 1;
            match (&self.file).read(uncut.spare(BUFFER_LEN)) {
                Ok(len) => {
                    let (items, bytes) = (uncut.len(), uncut.bytes());
                    if uncut.received(len) {
                        self.counters.received_messages += 1;
                        self.counters.received_bytes += (uncut.bytes() - bytes) as u64;
                        self.counters.received_datagrams += (uncut.len() - items) as u64;
                    } else {
                        self.counters.receive_malformed += 1;
                    }
                }
                Err(error) => {
                    if !self.may_read_on(error)? {
                        break;
                    }
                }
            }
        }
        Ok(uncut.len())
    }

    /// Sends a piece of a run: `head` is of it, as [`RunHead::piece`] makes it, and the payloads
    /// follow each other. The stack takes it as segments of `segment_len`.
    ///
    /// # Errors
    /// When the device is of no further use.
    pub fn send_run(
        &mut self,
        head: &RunHead,
        segment_len: usize,
        payloads: &[&[u8]],
    ) -> io::Result<Fate> {
        let len = payloads.iter().map(|it| it.len()).sum();
        let Some(written) = head.before(len, segment_len).filter(|_| !self.buffer.is_empty())
        else {
            return Ok(Fate::Unreachable);
        };
        let first = std::iter::once(written.bytes());
        let parts: Vec<IoSlice<'_>> =
            first.chain(payloads.iter().copied()).map(IoSlice::new).collect();
        let fate = loop {
            self.counters.send_calls += 1;
            if let Some(fate) = fate_of((&self.file).write_vectored(&parts))? {
                break fate;
            }
        };
        if fate == Fate::Sent {
            self.counters.sent_messages += 1;
            self.counters.sent_datagrams += len.div_ceil(segment_len) as u64;
            self.counters.sent_bytes += (head.bytes().len() + len) as u64;
        }
        Ok(fate)
    }

    /// Whether to read on after a failure: a signal came. Otherwise nothing is there, or whatever
    /// it is passes.
    fn may_read_on(&mut self, error: io::Error) -> io::Result<bool> {
        match error.kind() {
            io::ErrorKind::WouldBlock => Ok(false),
            io::ErrorKind::Interrupted => Ok(true),
            _ if is_final(&error) => Err(error),
            _ => {
                self.counters.receive_errors += 1;
                Ok(false)
            }
        }
    }

    /// Receives what is next, one packet or many, behind those in the
    /// batch. Returns how many; 0 when it was none.
    fn receive_one(&mut self, packets: &mut IpBatch) -> io::Result<usize> {
        self.counters.receive_calls += 1;
        if !self.buffer.is_empty() {
            let len = (&self.file).read(&mut self.buffer)?;
            return Ok(superpacket::accept(&mut self.buffer[..len], packets).unwrap_or(0));
        }
        let end = HEADROOM + packets.packet_len();
        let room = &mut packets.spare(1)[HEADROOM..end];
        let len = (&self.file).read(room)?;
        // One that was larger than the room was cut without a word,
        // but does not have the length that it says.
        let is_whole = header::is_whole(&room[..len]);
        if is_whole {
            packets.received(HEADROOM, len);
        }
        Ok(usize::from(is_whole))
    }
}

impl IpIo for Tun {
    fn receive(&mut self, packets: &mut IpBatch) -> io::Result<usize> {
        packets.clear();
        while packets.len() < RECEIVE_MOST {
            let before = packets.len();
            match self.receive_one(packets) {
                Ok(0) => self.counters.receive_malformed += 1,
                Ok(_) => {
                    self.counters.received_messages += 1;
                    let bytes = (before..packets.len()).map(|it| packets.packet(it).len() as u64);
                    self.counters.received_bytes += bytes.sum::<u64>();
                }
                Err(error) => {
                    if !self.may_read_on(error)? {
                        break;
                    }
                }
            }
        }
        self.counters.received_datagrams += packets.len() as u64;
        Ok(packets.len())
    }

    /// Never too big: the stack takes packets of any size from a device,
    /// and itself says so when they fit no way on.
    fn send(&mut self, packets: &mut IpBatch) -> io::Result<SendReport> {
        let mut report = SendReport::default();
        let mut first = 0;
        while first < packets.len() {
            if packets.packet(first).is_empty() {
                first += 1;
                continue;
            }
            let may_join = !self.buffer.is_empty();
            let run = if may_join { Run::of(packets, first) } else { None };
            let count = run.as_ref().map_or(1, |run| run.packets);
            let fate = loop {
                self.counters.send_calls += 1;
                let written = match &run {
                    Some(run) => self.write_run(run, packets, first)?,
                    None => self.write(packets.packet(first))?,
                };
                if let Some(fate) = written {
                    break fate;
                }
            };
            self.counters.sent_messages += u64::from(fate == Fate::Sent);
            for number in first..first + count {
                if fate == Fate::Sent {
                    self.counters.sent_datagrams += 1;
                    self.counters.sent_bytes += packets.packet(number).len() as u64;
                }
                settle(packets, number, fate, &mut report);
            }
            first += count;
        }
        self.counters.add_drops(&report);
        Ok(report)
    }

    fn wait(&mut self, timeout: Option<Duration>, also: Option<&Wake>) -> io::Result<Ready> {
        let wake = also.map_or(Interest::Nothing, |wake| Interest::Readable(wake.as_fd()));
        let [readable, woken] = poll(&[Interest::Readable(self.file.as_fd()), wake], timeout)?;
        Ok(Ready { readable, woken: woken && also.is_some_and(Wake::take) })
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

/// What became of a packet by what the device says; `None` when a signal came.
fn fate_of(written: io::Result<usize>) -> io::Result<Option<Fate>> {
    let Err(error) = written else { return Ok(Some(Fate::Sent)) };
    Ok(match error.raw_os_error() {
        Some(libc::EINTR) => None,
        Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => Some(Fate::Busy),
        _ if is_final(&error) => return Err(error),
        // EIO above all: the device is down.
        _ => Some(Fate::Unreachable),
    })
}

/// The error of a step.
fn step(name: &str, call: &'static str) -> impl FnOnce(io::Error) -> IoError {
    let name = name.to_owned();
    move |source| IoError::Tun { name, call, source }
}

/// The largest IP packet, and the prefix.
const BUFFER_LEN: usize = PREFIX_LEN + 65_535;

/// Bytes after which a call that does not cut receives no more: what is
/// read is still in the cache when it leaves.
const UNCUT_MOST: usize = 128 << 10;

/// Ethernet's.
const DEFAULT_MTU: u32 = 1500;

/// How often it is looked whether the addresses are in use, and how long between: a second in all,
/// after which the device is used as it is.
const ADDRESS_ATTEMPTS: u32 = 1000;
const ADDRESS_WAIT: Duration = Duration::from_millis(1);
