//! Where a flow runs: this host, or the two hosts of a wire.

use std::net::{IpAddr, Ipv4Addr};

use crate::hosts::Host;
use crate::wire::{FAR, Wire};

/// Two ends, of which the far one has an address.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    hosts: Option<(&'a Host, &'a Host)>,
    pub(crate) address: IpAddr,
}

impl<'a> Place<'a> {
    pub(crate) fn loopback() -> Self {
        Self { hosts: None, address: Ipv4Addr::LOCALHOST.into() }
    }

    pub(crate) fn along(wire: &'a Wire) -> Self {
        Self { hosts: Some((&wire.near, &wire.far)), address: FAR }
    }

    /// Does something at the near end.
    pub(crate) fn near<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        match self.hosts {
            Some((near, _)) => near.enter(work),
            None => work(),
        }
    }

    /// Does something at the far end.
    pub(crate) fn far<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        match self.hosts {
            Some((_, far)) => far.enter(work),
            None => work(),
        }
    }
}
