//! What is measured on sockets: a thread on a core of its own that receives, handles and sends
//! batches, as a router's worker does, and says what CPU time that took.
//!
//! 1. It waits for an order to run.
//! 2. Each turn: wait for datagrams; up to eight batches received, handled, sent; what is due by
//!    the clock. In this order, so that a switch whose turn did not come for long hears from its
//!    members before it asks who has gone silent.
//! 3. Told to stop, it reports.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rhumb_io::PacketIo;
use rhumb_io::udp::UdpSocket;
use rhumb_switch::Switch;
use rhumb_trust::Now;
use rhumb_wire::Batch;

use crate::bare::Resealer;
use crate::machine::{self, Core, thread_cpu};
use crate::member;

/// What handles the batches.
pub(crate) trait Forward: Send {
    /// Turns received datagrams into datagrams to send.
    fn handle_batch(&mut self, batch: &mut Batch, now: Now);

    /// What is due by the clock: its datagrams are appended.
    fn advance(&mut self, _out: &mut Batch, _now: Now) {}
}

impl Forward for Switch {
    fn handle_batch(&mut self, batch: &mut Batch, now: Now) {
        self.handle_batch(batch, now);
    }

    fn advance(&mut self, out: &mut Batch, now: Now) {
        // Only while members join; a router has another thread for this.
        while let Some(job) = self.poll_job() {
            let done = job.run();
            self.handle_done(done, now);
        }
        if self.poll_timeout().is_some_and(|due| due <= now.instant) {
            self.handle_timeout(now);
        }
        while self.poll_event().is_some() {}
        self.poll_transmit(out);
    }
}

/// Sends everything to one address, and does nothing else.
pub(crate) struct Redirect(pub(crate) SocketAddr);

impl Forward for Redirect {
    fn handle_batch(&mut self, batch: &mut Batch, _: Now) {
        for slot in 0..batch.len() {
            batch.redirect(slot, self.0);
        }
    }
}

/// Sends everything to one address, opened and sealed again.
pub(crate) struct Reseal {
    pub(crate) to: SocketAddr,
    pub(crate) resealer: Resealer,
}

impl Forward for Reseal {
    fn handle_batch(&mut self, batch: &mut Batch, _: Now) {
        for slot in 0..batch.len() {
            let (_, datagram) = batch.datagram_mut(slot);
            match self.resealer.open(datagram).is_some() {
                true => self.resealer.seal(0, datagram),
                false => batch.drop_datagram(slot),
            }
            batch.redirect(slot, self.to);
        }
    }
}

/// The thread.
pub(crate) struct Forwarder {
    running: Arc<AtomicBool>,
    orders: Option<Sender<()>>,
    reports: Receiver<Duration>,
    thread: Option<JoinHandle<()>>,
}

impl Forwarder {
    pub(crate) fn new(socket: UdpSocket, forward: Box<dyn Forward>) -> Self {
        let running = Arc::new(AtomicBool::new(false));
        let (orders, ordered) = channel();
        let (reported, reports) = channel();
        let mut worker = Worker { socket, forward, running: running.clone() };
        let thread = std::thread::spawn(move || {
            machine::pin(Core::Measured);
            for () in ordered {
                if reported.send(worker.run()).is_err() {
                    return;
                }
            }
        });
        Self { running, orders: Some(orders), reports, thread: Some(thread) }
    }

    pub(crate) fn start(&self) {
        self.running.store(true, Ordering::Release);
        let order = self.orders.as_ref().map(|orders| orders.send(()));
        assert!(order.is_some_and(|sent| sent.is_ok()), "the forwarder has ended");
    }

    /// The CPU time that the thread used since it was started.
    pub(crate) fn stop(&self) -> Duration {
        self.running.store(false, Ordering::Release);
        self.reports.recv().expect("the forwarder has ended")
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.running.store(false, Ordering::Release);
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // If it panicked, it has said so.
            let _ = thread.join();
        }
    }
}

struct Worker {
    socket: UdpSocket,
    forward: Box<dyn Forward>,
    running: Arc<AtomicBool>,
}

impl Worker {
    fn run(&mut self) -> Duration {
        let begin = thread_cpu();
        let mut batch = Batch::new();
        while self.running.load(Ordering::Acquire) {
            self.socket.wait(Some(WAIT), None).expect("a socket can be waited for");
            for _ in 0..BATCHES_A_TURN {
                if self.socket.receive(&mut batch).expect("the path gives datagrams") == 0 {
                    break;
                }
                self.forward.handle_batch(&mut batch, member::now());
                self.socket.send(&batch).expect("the path takes datagrams");
            }
            batch.clear();
            self.forward.advance(&mut batch, member::now());
            if !batch.is_empty() {
                self.socket.send(&batch).expect("the path takes datagrams");
            }
        }
        thread_cpu() - begin
    }
}

/// How soon an order to stop is seen.
const WAIT: Duration = Duration::from_millis(1);
const BATCHES_A_TURN: usize = 8;
