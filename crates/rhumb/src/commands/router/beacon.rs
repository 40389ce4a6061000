//! How nodes on the local network find this router: a thread of its own answers them, so that no
//! flood of questions holds up the worker.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rhumb_daemon::config::DiscoveryChoice;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_io::Wake;
use rhumb_io::udp::UdpSocket;
use rhumb_node::discovery::{Beacon, BeaconCounters};

/// The thread that answers. It ends when this is dropped.
pub(super) struct BeaconThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    stopped: AtomicBool,
    counters: Mutex<BeaconCounters>,
    wake: Wake,
}

/// A beacon for the router on `socket`, as far as it is wanted and the discovery port can be had.
pub(super) fn open(choice: DiscoveryChoice, socket: &UdpSocket) -> Outcome<Option<Beacon>> {
    if choice == DiscoveryChoice::Off {
        return Ok(None);
    }
    match Beacon::new(socket) {
        Ok(beacon) => Ok(Some(beacon)),
        Err(error) if choice == DiscoveryChoice::On => Err(Failure::setup(error)),
        Err(error) => {
            tracing::warn!(%error, "nodes nearby have to be given this router's address");
            Ok(None)
        }
    }
}

impl BeaconThread {
    /// Answers from now on.
    pub(super) fn start(mut beacon: Beacon) -> Outcome<Self> {
        let shared = Arc::new(Shared {
            stopped: AtomicBool::new(false),
            counters: Mutex::default(),
            wake: Wake::new().map_err(Failure::setup)?,
        });
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("discovery".to_owned())
            .spawn(move || {
                while !of_thread.stopped.load(Ordering::Acquire) {
                    if let Err(error) = beacon.turn(&of_thread.wake) {
                        tracing::error!(%error, "nodes nearby do not find this router any more");
                        return;
                    }
                    of_thread.publish(beacon.counters());
                }
            })
            .map_err(Failure::operation)?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// What was answered and dropped so far.
    pub(super) fn counters(&self) -> BeaconCounters {
        *self.shared.lock()
    }
}

impl Shared {
    fn publish(&self, counters: BeaconCounters) {
        *self.lock() = counters;
    }

    fn lock(&self) -> MutexGuard<'_, BeaconCounters> {
        // Nothing that holds the lock can panic half-way through.
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for BeaconThread {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Release);
        self.shared.wake.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of it has been reported by itself.
            let _ = thread.join();
        }
    }
}
