//! What stands between two ends of a TCP connection and does what middleboxes do.

#![allow(clippy::unwrap_used, unreachable_pub)] // Tests may.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// What it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mischief {
    /// Passes all on, byte by byte.
    Splits,
    /// Passes nothing more on, and keeps the connections.
    Stalls,
    /// Ends both connections with a reset.
    Resets,
    /// Ends both connections as if all had been said.
    Truncates,
    /// Changes one byte.
    Alters,
}

/// Passes connections on, until its mischief begins.
pub struct Middlebox {
    pub address: SocketAddr,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

struct State {
    stops: AtomicBool,
    /// Bytes that may still pass, both ways together, before the mischief begins.
    left: AtomicUsize,
    passed: AtomicUsize,
    mischief: [AtomicBool; 5],
}

impl Middlebox {
    /// In front of whoever takes connections at `to`.
    pub fn new(to: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let state = Arc::new(State {
            stops: AtomicBool::new(false),
            left: AtomicUsize::new(usize::MAX),
            passed: AtomicUsize::new(0),
            mischief: [const { AtomicBool::new(false) }; 5],
        });
        let seen = Arc::clone(&state);
        let thread = std::thread::spawn(move || {
            let mut pairs: Vec<(TcpStream, TcpStream)> = Vec::new();
            while !seen.stops.load(Ordering::Relaxed) {
                if let Ok((outside, _)) = listener.accept()
                    && let Ok(inside) = TcpStream::connect(to)
                {
                    for socket in [&outside, &inside] {
                        socket.set_nonblocking(true).unwrap();
                        socket.set_nodelay(true).unwrap();
                    }
                    pairs.push((outside, inside));
                }
                pairs.retain_mut(|(outside, inside)| {
                    seen.pass(outside, inside) && seen.pass(inside, outside)
                });
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        Self { address, state, thread: Some(thread) }
    }

    /// Begins when so many more bytes have passed.
    pub fn begins(&self, mischief: Mischief, after: usize) {
        self.state.left.store(after, Ordering::Relaxed);
        self.state.mischief[mischief as usize].store(true, Ordering::Relaxed);
    }

    /// Is honest again.
    pub fn ends(&self) {
        self.state.mischief.iter().for_each(|it| it.store(false, Ordering::Relaxed));
        self.state.left.store(usize::MAX, Ordering::Relaxed);
    }

    /// Bytes that have passed, both ways.
    pub fn passed(&self) -> usize {
        self.state.passed.load(Ordering::Relaxed)
    }
}

impl State {
    fn does(&self, mischief: Mischief) -> bool {
        self.left.load(Ordering::Relaxed) == 0
            && self.mischief[mischief as usize].load(Ordering::Relaxed)
    }

    /// Passes on what there is one way; whether the connection goes on.
    fn pass(&self, from: &mut TcpStream, to: &mut TcpStream) -> bool {
        if self.does(Mischief::Resets) {
            for socket in [from, to] {
                let _ = socket2::SockRef::from(&*socket).set_linger(Some(Duration::ZERO));
            }
            return false;
        }
        if self.does(Mischief::Truncates) {
            return false;
        }
        if self.does(Mischief::Stalls) {
            return true;
        }
        let mut buffer = [0; 4096];
        for _ in 0..READS_A_TURN {
            let left = self.left.load(Ordering::Relaxed);
            let most = match left {
                0 if self.does(Mischief::Splits) => 1,
                0 => buffer.len(),
                left => left.min(buffer.len()),
            };
            let read = match from.read(&mut buffer[..most]) {
                Ok(0) => return false,
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            };
            if self.does(Mischief::Alters) {
                self.mischief[Mischief::Alters as usize].store(false, Ordering::Relaxed);
                buffer[read / 2] ^= 1;
            }
            if !write_all(to, &buffer[..read]) {
                return false;
            }
            self.passed.fetch_add(read, Ordering::Relaxed);
            if left != 0 && left != usize::MAX {
                self.left.fetch_sub(read, Ordering::Relaxed);
                if left == read {
                    return true;
                }
            }
        }
        true
    }
}

impl Drop for Middlebox {
    fn drop(&mut self) {
        self.state.stops.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Writes all; false when it is not taken.
fn write_all(to: &mut TcpStream, mut bytes: &[u8]) -> bool {
    for _ in 0..MAX_WRITES {
        match to.write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_micros(200));
            }
            Err(_) => return false,
        }
        if bytes.is_empty() {
            return true;
        }
    }
    false
}

const READS_A_TURN: usize = 256;
/// Whoever takes nothing for two seconds is gone.
const MAX_WRITES: usize = 10_000;
