//! A network, and a receiver's key and folder in it: what tests of files begin with.

#![allow(clippy::unwrap_used)] // Each user is a test, which may panic.

use std::path::PathBuf;

use crate::harness::{Place, Running};
use crate::network::Network;

/// A place with a network, `receiver.key` and an empty folder `inbox`.
pub(crate) struct Inbox {
    pub(crate) place: Place,
    pub(crate) network: Network,
    /// The receiver's name.
    pub(crate) receiver: String,
}

impl Inbox {
    pub(crate) fn new() -> Self {
        let place = Place::new();
        let network = Network::start(&place);
        let receiver = place.keygen("node", "receiver.key");
        std::fs::create_dir(place.path("inbox")).unwrap();
        Self { place, network, receiver }
    }

    /// A receiver with these options besides, which is ready.
    pub(crate) fn receive(&self, more: &[&str]) -> Running {
        let router = self.network.router();
        let arguments = ["receive", "--key", "receiver.key", "--dir", "inbox", "--router", &router];
        let mut receiver = self.place.start(&[&arguments[..], more].concat());
        assert_eq!(receiver.next_object()["ready"], true);
        receiver
    }

    /// Where files arrive.
    pub(crate) fn path(&self) -> PathBuf {
        self.place.path("inbox")
    }

    /// The only part, if there is one.
    pub(crate) fn part(&self) -> Option<PathBuf> {
        let parts = std::fs::read_dir(self.path().join(".rhumb-parts")).into_iter().flatten();
        let mut paths = parts.filter_map(|entry| Some(entry.ok()?.path()));
        paths.find(|path| path.to_string_lossy().ends_with(".part"))
    }

    /// How much of it counts, if something does.
    pub(crate) fn marked(&self) -> Option<u64> {
        let mark = std::fs::read(self.part()?.with_extension("mark")).ok()?;
        Some(u64::from_be_bytes(mark.get(..8)?.try_into().unwrap()))
    }
}
