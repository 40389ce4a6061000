//! Waiting for many sockets as for one. Systems other than Linux have their own ways to, which are
//! not used yet: there links go over UDP and nothing else.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use rhumb_io::fd::AsFd;
#[cfg(not(windows))]
use rhumb_io::fd::BorrowedFd;

/// There is none.
pub(crate) enum Poller {}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    pub(crate) fn add(&self, _: impl AsFd, _: u64, _: bool) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn change(&self, _: &TcpStream, _: u64, _: bool) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn remove(&self, _: &TcpStream) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn wait(&self, _: Duration, _: &mut Vec<u64>) -> io::Result<()> {
        match *self {}
    }
}

#[cfg(windows)]
impl std::os::windows::io::AsSocket for Poller {
    fn as_socket(&self) -> std::os::windows::io::BorrowedSocket<'_> {
        match *self {}
    }
}

#[cfg(not(windows))]
impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match *self {}
    }
}
