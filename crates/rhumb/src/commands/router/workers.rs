//! The router's other workers: one thread each, with packet I/O
//! at the router's address and a [`FastPath`].
//!
//! One turn of a worker:
//! 1. what the switch orders is done;
//! 2. wait for datagrams, a wake or the next report;
//! 3. receive batches, forward, send; what it cannot forward is put
//!    into the queue to the switch, which is woken.
//!
//! Where the system does not steer datagrams to sockets
//! ([`rhumb_io::udp::Group`]), a worker's datagrams come as orders.
//!
//! Invariant: the queues are bounded, the one to the switch by its length, the one
//! from it by what is ordered: changes of sessions, which handshakes bound, and of
//! flows and datagrams, which the switch bounds.

use std::io;
use std::sync::mpsc::{
    Receiver, Sender, SyncSender, TryRecvError, TrySendError, channel, sync_channel,
};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rhumb_daemon::clock;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_io::{Backend, Counters, PacketIo, Wake};
use rhumb_switch::{FastPath, HandOver, MAX_HAND_OVERS, Order, Switch};
use rhumb_wire::Batch;

/// All workers but the switch. They end when this is dropped.
pub(super) struct WorkerThreads {
    /// Worker 1 first.
    threads: Vec<Thread>,
    handed: Receiver<HandOver>,
    /// Whether there may be more than was taken.
    goes_on: bool,
}

struct Thread {
    orders: Option<Sender<Order>>,
    wake: Wake,
    /// What its packet I/O has done, as of the last report.
    counters: Arc<Mutex<Counters>>,
    thread: Option<JoinHandle<()>>,
}

/// What a thread has.
struct Worker {
    path: FastPath,
    io: Backend,
    /// Whether its datagrams come in there.
    steered: bool,
    orders: Receiver<Order>,
    wake: Wake,
    handed: SyncSender<HandOver>,
    /// What found no room.
    waiting: Option<HandOver>,
    switch: Wake,
    counters: Arc<Mutex<Counters>>,
}

impl WorkerThreads {
    /// Starts a thread for each of `ios`. `wake` wakes the switch's own thread.
    pub(super) fn start(
        switch: &Switch,
        ios: Vec<Backend>,
        steered: bool,
        pin: bool,
        wake: &Wake,
    ) -> Outcome<Self> {
        let (hand_over, handed) = sync_channel(MAX_HAND_OVERS);
        let mut threads = Vec::with_capacity(ios.len());
        for (number, io) in (1..).zip(ios) {
            let (order, orders) = channel();
            let own = Wake::new().map_err(Failure::setup)?;
            let counters = Arc::new(Mutex::new(Counters::default()));
            let mut worker = Worker {
                path: switch.fast_path(number, clock::now()),
                io,
                steered,
                orders,
                wake: own.clone(),
                handed: hand_over.clone(),
                waiting: None,
                switch: wake.clone(),
                counters: Arc::clone(&counters),
            };
            let thread = std::thread::Builder::new()
                .name(format!("worker {number}"))
                .spawn(move || {
                    if pin {
                        pin_worker(number);
                    }
                    if let Err(error) = worker.run() {
                        tracing::error!(%error, worker = number, "a worker has to end");
                    }
                    worker.switch.wake();
                })
                .map_err(Failure::operation)?;
            threads.push(Thread { orders: Some(order), wake: own, counters, thread: Some(thread) });
        }
        Ok(Self { threads, handed, goes_on: false })
    }

    /// Gives the switch what was handed over, a bounded number.
    pub(super) fn take_hand_overs(&mut self, mut handle: impl FnMut(HandOver)) {
        let mut taken = 0;
        for handed in self.handed.try_iter().take(MAX_HAND_OVERS) {
            handle(handed);
            taken += 1;
        }
        self.goes_on = taken == MAX_HAND_OVERS;
    }

    /// Tells the workers what the switch orders.
    pub(super) fn pass_orders(&self, switch: &mut Switch) {
        let mut told = [false; rhumb_wire::datagram::LANES as usize];
        while let Some((worker, order)) = switch.poll_order() {
            let Some(thread) = self.threads.get(worker - 1) else { continue };
            // A worker that has ended takes no more orders: the router stops for it.
            if thread.orders.as_ref().is_some_and(|orders| orders.send(order).is_ok()) {
                told[worker - 1] = true;
            }
        }
        for (thread, _) in self.threads.iter().zip(told).filter(|(_, told)| *told) {
            thread.wake.wake();
        }
    }

    /// Whether there is more to take at once.
    pub(super) fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// Whether a worker had to end.
    pub(super) fn have_failed(&self) -> bool {
        self.threads.iter().any(|it| it.thread.as_ref().is_some_and(JoinHandle::is_finished))
    }

    /// What the workers' packet I/O has done.
    pub(super) fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        for thread in &self.threads {
            sum.add(&thread.counters.lock().unwrap_or_else(PoisonError::into_inner));
        }
        sum
    }
}

impl Drop for WorkerThreads {
    fn drop(&mut self) {
        for thread in &mut self.threads {
            thread.orders = None;
            thread.wake.wake();
        }
        for thread in &mut self.threads {
            if let Some(thread) = thread.thread.take() {
                // If it panicked, it has said so.
                let _ = thread.join();
            }
        }
    }
}

impl Worker {
    /// Works until there is nobody to take orders from.
    fn run(&mut self) -> io::Result<()> {
        let mut batch = Batch::new();
        loop {
            if !self.take_orders(&mut batch)? {
                return Ok(());
            }
            self.report_if_due();
            self.hand_over();
            let mut left = self.path.poll_timeout().saturating_duration_since(Instant::now());
            if self.waiting.is_some() {
                left = left.min(FULL_PAUSE);
            }
            if !self.steered {
                self.wake.wait(left)?;
                continue;
            }
            self.io.wait(Some(left), Some(&self.wake))?;
            for _ in 0..MAX_BATCHES_A_TURN {
                if self.io.receive(&mut batch)? == 0 {
                    break;
                }
                self.path.handle_batch(&mut batch, clock::now());
                self.io.send(&batch)?;
                if self.io.is_drained() {
                    break;
                }
            }
        }
    }

    /// Does what is ordered; whether it goes on.
    fn take_orders(&mut self, batch: &mut Batch) -> io::Result<bool> {
        batch.clear();
        let mut goes_on = true;
        for taken in 1.. {
            match self.orders.try_recv() {
                Ok(order) => self.path.handle_order(order, batch, clock::now()),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    goes_on = false;
                    break;
                }
            }
            if taken % ORDERS_A_BATCH == 0 {
                self.io.send(batch)?;
                batch.clear();
            }
        }
        if !batch.is_empty() {
            self.io.send(batch)?;
        }
        Ok(goes_on)
    }

    fn report_if_due(&mut self) {
        let now = clock::now();
        if self.path.poll_timeout() > now.instant {
            return;
        }
        self.path.handle_timeout(now);
        *self.counters.lock().unwrap_or_else(PoisonError::into_inner) = self.io.counters();
    }

    /// Hands over what there is room for, and wakes the switch for it.
    fn hand_over(&mut self) {
        let mut handed = false;
        while let Some(next) = self.waiting.take().or_else(|| self.path.poll_hand_over()) {
            match self.handed.try_send(next) {
                Ok(()) => handed = true,
                Err(TrySendError::Full(next)) => {
                    self.waiting = Some(next);
                    break;
                }
                // The switch is gone, and orders end next.
                Err(TrySendError::Disconnected(_)) => break,
            }
        }
        if handed {
            self.switch.wake();
        }
    }
}

/// Keeps this thread on the core of its number. A router
/// that may not use that core works all the same.
pub(super) fn pin_worker(worker: usize) {
    if let Err(error) = rhumb_io::pin_thread(worker) {
        tracing::warn!(%error, worker, "a worker cannot be kept on its core");
    }
}

/// How soon a full queue to the switch is tried again.
const FULL_PAUSE: Duration = Duration::from_millis(1);
/// As the router's own turn.
const MAX_BATCHES_A_TURN: usize = 8;
/// Datagrams among orders are sent by as many.
const ORDERS_A_BATCH: usize = 64;
