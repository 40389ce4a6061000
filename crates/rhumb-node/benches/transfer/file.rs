//! A file from node to node over a router.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use rhumb_node::transfer::{ReadAt, WriteAt, sha256_of};
use rhumb_node::{Config, Node};
use rhumb_trust::{Access, Identity, Rule, Standing};
use rhumb_wire::transfer::{FileName, Kind, Offer};
use rhumb_wire::{Name, Role};

use crate::flows::{LOOKS_EVERY, Progress};
use crate::place::Place;
use crate::router::Router;

/// A file without a disk: any length, the same byte everywhere.
pub(crate) struct Pattern;

impl ReadAt for Pattern {
    fn read_exact_at(&mut self, _offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        buffer.fill(0x5A);
        Ok(())
    }
}

impl WriteAt for Pattern {
    fn write_all_at(&mut self, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

/// The offer of a file of this length.
pub(crate) fn offer(bytes: u64) -> Offer {
    let sha256 = sha256_of(&mut Pattern, bytes).expect("a pattern can be read");
    let name = FileName::new("pattern").expect("a fit name");
    Offer { kind: Kind::File, length: bytes, sha256, name }
}

/// The receiver knows the sender by name, so it is no stranger, and its router is beside it.
pub(crate) fn over(place: &Place<'_>, bytes: u64, progress: &Progress) {
    let offer = offer(bytes);
    let sender = Arc::new(Identity::generate(Role::Node, 1).expect("a key"));
    let from = sender.name();
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| place.far(move || receive(place.address, from, &tell, progress)));
        let (to, router) = told.recv().expect("a receiver");
        place.near(|| send(sender, to, router, offer, progress));
    });
}

fn receive(at: IpAddr, from: Name, tell: &mpsc::Sender<(Name, SocketAddr)>, progress: &Progress) {
    let router = Router::start(at);
    let standing = Standing::Admitted;
    let rule = Rule { name: Some(from), domain: None, role: None, label: None, standing };
    let access = Access { rules: vec![rule], ..Access::default() };
    runtime().block_on(async {
        let identity = Arc::new(Identity::generate(Role::Node, 1).expect("a key"));
        let node = join(identity, Config { access, ..config(router.address) }).await;
        tell.send((node.name(), router.address)).expect("a sender");
        let arrived = Arc::<AtomicU64>::default();
        let seen = Arc::clone(&arrived);
        let receiving =
            node.receive_file(|_| Ok(Pattern), move |bytes| seen.store(bytes, Ordering::Relaxed));
        tokio::pin!(receiving);
        loop {
            tokio::select! {
                received = &mut receiving => {
                    progress.arrived.store(received.expect("received").bytes, Ordering::Relaxed);
                    // The last words of the connection are on their way.
                    return;
                }
                () = tokio::time::sleep(GLANCE) => {
                    progress.arrived.store(arrived.load(Ordering::Relaxed), Ordering::Relaxed);
                    if progress.stop.load(Ordering::Relaxed) {
                        return;
                    }
                }
            }
        }
    });
}

fn send(me: Arc<Identity>, to: Name, router: SocketAddr, offer: Offer, progress: &Progress) {
    runtime().block_on(async {
        let node = join(me, config(router)).await;
        let sending = node.send_file(to, Pattern, offer, |_| ());
        tokio::pin!(sending);
        loop {
            tokio::select! {
                sent = &mut sending => {
                    let stopped = progress.stop.load(Ordering::Relaxed);
                    assert!(sent.is_ok() || stopped, "{sent:?}");
                    return;
                }
                () = tokio::time::sleep(LOOKS_EVERY) => {
                    if progress.stop.load(Ordering::Relaxed) {
                        return;
                    }
                }
            }
        }
    });
}

fn config(router: SocketAddr) -> Config {
    Config { require_published: false, ..Config::new(router) }
}

async fn join(identity: Arc<Identity>, config: Config) -> Node {
    Node::join(identity, config).await.expect("joined")
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// How often it is noted how much has arrived.
const GLANCE: std::time::Duration = std::time::Duration::from_millis(2);
