//! A router as it runs, without RIBs: the real switch on a socket and a thread.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rhumb_io::udp::{Options, UdpSocket};
use rhumb_io::{PacketIo, Wake};
use rhumb_switch::{Config, Switch};
use rhumb_trust::{Identity, Now};
use rhumb_wire::{Batch, Role};

/// Stops when dropped.
pub(crate) struct Router {
    pub(crate) address: SocketAddr,
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

struct Stop {
    asked: AtomicBool,
    wake: Wake,
}

impl Router {
    /// One at this address, on a port that is free, in the network namespace of this thread.
    pub(crate) fn start(address: std::net::IpAddr) -> Self {
        let socket = UdpSocket::bind((address, 0).into(), Options::default()).expect("a port");
        let address = socket.local_address();
        let identity = Arc::new(Identity::generate(Role::Router, 1).expect("a key"));
        let config = Config { max_flows: 1 << 10, ..Config::default() };
        let switch = Switch::new(identity, config, [5; 32], now()).expect("a switch");
        let wake = Wake::new().expect("an event descriptor");
        let stop = Arc::new(Stop { asked: AtomicBool::new(false), wake });
        let asked = Arc::clone(&stop);
        let thread = Some(std::thread::spawn(move || run(switch, socket, &asked)));
        Self { address, stop, thread }
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.stop.asked.store(true, Ordering::Relaxed);
        self.stop.wake.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(mut switch: Switch, mut socket: UdpSocket, stop: &Stop) {
    let (mut carried, mut own) = (Batch::new(), Batch::new());
    while !stop.asked.load(Ordering::Relaxed) {
        let received = socket.receive(&mut carried).expect("a socket that is there");
        let now = now();
        switch.handle_batch(&mut carried, now);
        while let Some(job) = switch.poll_job() {
            switch.handle_done(job.run(), now);
        }
        switch.handle_timeout(now);
        switch.poll_transmit(&mut own);
        while switch.poll_event().is_some() {}
        socket.send(&carried).expect("a socket that is there");
        socket.send(&own).expect("a socket that is there");
        own.clear();
        if received == 0 {
            let timeout = switch.poll_timeout().map(|at| at.saturating_duration_since(now.instant));
            socket.wait(timeout, Some(&stop.wake)).expect("waiting");
        }
    }
}

fn now() -> Now {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Now { instant: Instant::now(), unix_ms: since_1970.as_millis() as u64 }
}
