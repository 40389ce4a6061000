//! The thread that gives the host what names send to it.

use crate::clock;
use rhumb_io::ip::{IpBatch, IpIo, Tun};
use rhumb_node::Port;
use rhumb_node::ip::DropReason;

use super::Shared;

/// Runs until the node has left.
pub(super) fn run(mut port: Port, mut tun: Tun, shared: &Shared) {
    let mut messages = Vec::with_capacity(AT_ONCE);
    let mut batch = IpBatch::new(tun.mtu().max(LONGEST) as usize);
    while port.blocking_receive(&mut messages, AT_ONCE) > 0 {
        batch.clear();
        let now = clock::now().instant;
        let mut overlay = shared.lock();
        for message in &messages {
            if let Some(packet) =
                overlay.incoming((message.from, message.as_member), &message.body, now)
                && !batch.push(&packet)
            {
                overlay.count_dropped(DropReason::Device, 1);
            }
        }
        drop(overlay);
        port.give_back(&mut messages);
        match tun.send(&mut batch) {
            Ok(report) => {
                let lost = (batch.len() as u64).saturating_sub(report.sent as u64);
                if lost > 0 {
                    shared.lock().count_dropped(DropReason::Device, lost);
                }
            }
            Err(error) => {
                tracing::error!(%error, "packets cannot be given to this host any more");
                return;
            }
        }
    }
}

/// As many as are checked and handed over together.
const AT_ONCE: usize = 256;
/// Peers may have devices that take more than ours gives.
const LONGEST: u32 = 2048;
