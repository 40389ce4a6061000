//! An eavesdropper on the wire: carries every datagram between one client and one server, and sends
//! the first few sealed ones that the client sent a second time.
//!
//! It holds no key. What it can do is what anybody can who owns a cable between two hops.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_io::udp::{Options, UdpSocket};
use rhumb_io::{PacketIo, Wake};
use rhumb_wire::Batch;

/// A relay on a thread of its own; ends when dropped.
pub(super) struct Relay {
    address: SocketAddr,
    replayed: Arc<AtomicU64>,
    stopped: Arc<AtomicBool>,
    wake: Wake,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Listens on a free loopback port, for one client, and relays to `server`.
    pub(super) fn start(server: SocketAddr) -> Outcome<Self> {
        let socket = UdpSocket::bind(SocketAddr::new(server.ip(), 0), Options::default())
            .map_err(Failure::operation)?;
        let address = socket.local_address();
        let wake = Wake::new().map_err(Failure::operation)?;
        let (replayed, stopped) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let run = Run {
            socket,
            server,
            client: None,
            replayed: Arc::clone(&replayed),
            stopped: Arc::clone(&stopped),
            wake: wake.clone(),
        };
        let thread = std::thread::Builder::new()
            .name("relay".to_owned())
            .spawn(move || run.carry_on())
            .map_err(Failure::operation)?;
        Ok(Self { address, replayed, stopped, wake, thread: Some(thread) })
    }

    /// Where the client has to send.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many sealed datagrams were sent twice.
    pub(super) fn replayed(&self) -> u64 {
        self.replayed.load(Ordering::Acquire)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        self.wake.wake();
        if let Some(thread) = self.thread.take() {
            // A relay that panicked has said so already.
            let _ = thread.join();
        }
    }
}

struct Run {
    socket: UdpSocket,
    server: SocketAddr,
    client: Option<SocketAddr>,
    replayed: Arc<AtomicU64>,
    stopped: Arc<AtomicBool>,
    wake: Wake,
}

impl Run {
    /// A socket that fails ends the relay; whoever waits for the client's success notices.
    fn carry_on(mut self) {
        let (mut batch, mut copies) = (Batch::new(), Batch::new());
        while !self.stopped.load(Ordering::Acquire) {
            if self.socket.wait(Some(MAX_WAIT), Some(&self.wake)).is_err() {
                return;
            }
            while self.socket.receive(&mut batch).is_ok_and(|received| received > 0) {
                copies.clear();
                self.carry(&mut batch, &mut copies);
                // The copies leave after the originals, as an eavesdropper's would.
                if self.socket.send(&batch).is_err() || self.socket.send(&copies).is_err() {
                    return;
                }
                self.replayed.fetch_add(copies.len() as u64, Ordering::AcqRel);
            }
        }
    }

    fn carry(&mut self, batch: &mut Batch, copies: &mut Batch) {
        for index in 0..batch.len() {
            let (from, datagram) = batch.datagram_mut(index);
            if from == self.server {
                match self.client {
                    Some(client) => batch.redirect(index, client),
                    None => batch.drop_datagram(index),
                }
                continue;
            }
            self.client = Some(from);
            let so_far = self.replayed.load(Ordering::Acquire) + copies.len() as u64;
            if so_far < MAX_REPLAYED && datagram.first().is_some_and(|kind| is_sealed_pdu(*kind)) {
                copies.push(self.server, datagram);
            }
            batch.redirect(index, self.server);
        }
    }
}

/// What sealed PDUs look like from outside; a sealed close
/// would end the session before its copy comes.
fn is_sealed_pdu(first_byte: u8) -> bool {
    (0x80..=0x8F).contains(&first_byte)
}

/// Enough to see that each one is refused.
const MAX_REPLAYED: u64 = 16;
/// Only a bound: whoever stops the relay wakes it.
const MAX_WAIT: Duration = Duration::from_secs(1);
