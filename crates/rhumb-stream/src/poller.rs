//! Waiting for many sockets as for one: epoll, level-triggered. Source: epoll(7).

use std::io;
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

/// Sockets, each with a key, and whether they wait to be read or also to be written.
pub(crate) struct Poller {
    epoll: OwnedFd,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)? })
    }

    /// Waits for `socket` to be readable from now on, and to be writable if `also_write`.
    pub(crate) fn add(&self, socket: impl AsFd, key: u64, also_write: bool) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(key), flags(also_write))?)
    }

    pub(crate) fn change(&self, socket: &TcpStream, key: u64, also_write: bool) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, socket, EventData::new_u64(key), flags(also_write))?)
    }

    /// Waits for `socket` no longer. One that is closed is waited for no longer, either.
    pub(crate) fn remove(&self, socket: &TcpStream) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, socket)?)
    }

    /// Appends the keys of sockets that are ready, a bounded number, to `ready`; waits for the
    /// first of them for `timeout` at most.
    pub(crate) fn wait(&self, timeout: Duration, ready: &mut Vec<u64>) -> io::Result<()> {
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        let mut events = [const { MaybeUninit::<Event>::uninit() }; MAX_EVENTS];
        match epoll::wait(&self.epoll, &mut events, Some(&timeout)) {
            Ok((events, _)) => ready.extend(events.iter().map(|event| event.data.u64())),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

impl AsFd for Poller {
    /// Readable while any socket is ready.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

fn flags(also_write: bool) -> EventFlags {
    if also_write { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN }
}

/// As many as are looked at before others have their turn.
const MAX_EVENTS: usize = 64;
