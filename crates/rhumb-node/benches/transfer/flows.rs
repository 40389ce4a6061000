//! Who is held against whom: each brings bytes from the near end of a place to the far one, as fast
//! as it can, until all have arrived or nobody wants more.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};

use crate::place::Place;
use crate::{file, quic};

/// A contestant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// A file from node to node, over a router that is on the far host.
    File,
    /// TCP with a congestion control of the kernel's.
    Tcp(&'static str),
    /// QUIC without names, end to end, with a congestion control of the library's.
    Quic(&'static str),
}

/// What a flow has brought, for others to look at meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) arrived: AtomicU64,
    pub(crate) stop: AtomicBool,
}

impl Flow {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Tcp(control) => control,
            Self::Quic("bbr") => "quic_bbr",
            Self::Quic(_) => "quic_cubic",
        }
    }

    /// Brings so many bytes from one end of a place to the other, or stops when it is told to.
    pub(crate) fn run(self, place: &Place<'_>, bytes: u64, progress: &Progress) {
        match self {
            Self::File => file::over(place, bytes, progress),
            Self::Tcp(control) => tcp(place, control, bytes, progress),
            Self::Quic(control) => quic::over(place, control, bytes, progress),
        }
    }
}

impl Progress {
    pub(crate) fn is_over(&self, bytes: u64) -> bool {
        self.stop.load(Ordering::Relaxed) || self.arrived.load(Ordering::Relaxed) >= bytes
    }
}

fn tcp(place: &Place<'_>, control: &str, bytes: u64, progress: &Progress) {
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| place.far(move || take(place.address, &tell, bytes, progress)));
        let to = told.recv().expect("a listener");
        let give = || give(to, control, bytes, progress);
        // The other end closes when it has all, or wants no more.
        if let Err(error) = place.near(give) {
            assert!(progress.is_over(bytes), "{control}: {error}");
        }
    });
}

fn give(to: SocketAddr, control: &str, bytes: u64, progress: &Progress) -> io::Result<()> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_tcp_congestion(control.as_bytes())?;
    socket.connect(&SockAddr::from(to))?;
    socket.set_write_timeout(Some(LOOKS_EVERY))?;
    let mut stream = TcpStream::from(socket);
    let part = vec![0x5A; 64 << 10];
    let mut left = bytes;
    while left > 0 && !progress.stop.load(Ordering::Relaxed) {
        match stream.write(&part[..part.len().min(left as usize)]) {
            Ok(written) => left -= written as u64,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn take(at: IpAddr, tell: &mpsc::Sender<SocketAddr>, bytes: u64, progress: &Progress) {
    let listener = TcpListener::bind((at, 0)).expect("a port");
    tell.send(listener.local_addr().expect("an address")).expect("somebody who connects");
    let (mut stream, _) = listener.accept().expect("a connection");
    stream.set_read_timeout(Some(LOOKS_EVERY)).expect("a timeout");
    let mut part = vec![0; 256 << 10];
    while !progress.is_over(bytes) {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(read) => drop(progress.arrived.fetch_add(read as u64, Ordering::Relaxed)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
    }
}

/// Waits on a thread of its own, which holds up no task.
#[expect(clippy::disallowed_methods, reason = "there is no runtime on this thread")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// How soon it is noticed that nobody wants more.
pub(crate) const LOOKS_EVERY: Duration = Duration::from_millis(50);
