//! Waking a worker that waits for datagrams, from another thread.
//!
//! Invariant: a wake is never lost: it ends the current wait of the worker or else its next one.
//! Wakes that come before the worker looks count as one. A `Wake` belongs to one worker; its clones
//! are what others wake that worker with.

#[cfg(not(windows))]
use std::fs::File;
use std::io::{self, Read, Write};
#[cfg(windows)]
use std::net::TcpStream as File;
use std::sync::Arc;
use std::time::Duration;

use crate::IoError;
use crate::fd::AsFd;
#[cfg(not(windows))]
use crate::fd::BorrowedFd;
use crate::poll::{Interest, poll};

/// Wakes a worker. Cheap to clone and to send to other threads.
#[derive(Debug, Clone)]
pub struct Wake {
    ends: Arc<Ends>,
}

#[derive(Debug)]
struct Ends {
    read: File,
    write: File,
}

impl Wake {
    /// A wake for one worker.
    pub fn new() -> Result<Self, IoError> {
        let ends = open().map_err(|source| IoError::Wake { source })?;
        Ok(Self { ends: Arc::new(ends) })
    }

    /// Ends the worker's wait, the current one or the next.
    pub fn wake(&self) {
        // The only possible failure is a full counter or pipe,
        // and then the worker is about to wake anyway.
        let _ = (&self.ends.write).write(&1u64.to_ne_bytes());
    }

    /// Waits until it is woken, or the time is over; says whether it was.
    ///
    /// # Errors
    /// When the system does not let this thread wait.
    pub fn wait(&self, timeout: Duration) -> io::Result<bool> {
        poll(&[Interest::Readable(self.as_fd())], Some(timeout)).map(|_| self.take())
    }

    /// Forgets the wakes so far; says whether there were any.
    pub fn take(&self) -> bool {
        let mut woken = false;
        let mut buffer = [0; 64];
        while matches!((&self.ends.read).read(&mut buffer), Ok(read) if read > 0) {
            woken = true;
        }
        woken
    }
}

#[cfg(not(windows))]
impl AsFd for Wake {
    /// Readable while there are wakes to take.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ends.read.as_fd()
    }
}

#[cfg(windows)]
impl std::os::windows::io::AsSocket for Wake {
    /// Readable while there are wakes to take.
    fn as_socket(&self) -> std::os::windows::io::BorrowedSocket<'_> {
        self.ends.read.as_socket()
    }
}

#[cfg(target_os = "linux")]
fn open() -> io::Result<Ends> {
    let event = crate::poll::event_descriptor()?;
    Ok(Ends { write: File::from(event.try_clone()?), read: File::from(event) })
}

#[cfg(not(any(target_os = "linux", windows)))]
fn open() -> io::Result<Ends> {
    use std::os::fd::OwnedFd;
    let (read, write) = std::os::unix::net::UnixStream::pair()?;
    read.set_nonblocking(true)?;
    write.set_nonblocking(true)?;
    Ok(Ends { read: File::from(OwnedFd::from(read)), write: File::from(OwnedFd::from(write)) })
}

/// Windows waits for sockets alone, and has no pairs of them: both ends of a connection of this
/// process with itself, which nobody else can have.
#[cfg(windows)]
fn open() -> io::Result<Ends> {
    let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
    let write = File::connect(listener.local_addr()?)?;
    let own = write.local_addr()?;
    // Who else of this host comes in between is turned away.
    let read = loop {
        let (stream, from) = listener.accept()?;
        if from == own {
            break stream;
        }
    };
    read.set_nonblocking(true)?;
    write.set_nonblocking(true)?;
    write.set_nodelay(true)?;
    Ok(Ends { read, write })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wakes_are_taken_once() {
        let wake = Wake::new().expect("event descriptor");
        assert!(!wake.take());
        wake.wake();
        wake.clone().wake();
        assert!(wake.take());
        assert!(!wake.take());
    }
}
