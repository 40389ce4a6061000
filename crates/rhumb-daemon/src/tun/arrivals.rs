//! The thread that gives the host what names send to it: packets, and runs of segments under one
//! header, as far as their parts follow each other.

use std::io;

use rhumb_io::ip::{Fate, IpBatch, IpIo, Tun};
use rhumb_node::ip::{Arrived, DropReason, Joined};
use rhumb_node::{Block, PacketPort};

use super::Shared;
use crate::clock;

/// Runs until the node has left.
pub(super) fn run(mut port: PacketPort, tun: Tun, shared: &Shared) {
    let mut blocks = Vec::new();
    let batch = IpBatch::new(tun.mtu().max(LONGEST) as usize);
    let mut arrivals = Arrivals { tun, batch, lost: 0 };
    while port.blocking_receive(&mut blocks, AT_ONCE) > 0 {
        if let Err(error) = arrivals.hand_over(&blocks, shared) {
            tracing::error!(%error, "packets cannot be given to this host any more");
            return;
        }
        port.give_back(&mut blocks);
    }
}

struct Arrivals {
    tun: Tun,
    /// Packets that have yet to be handed over.
    batch: IpBatch,
    /// What the device did not take of these blocks.
    lost: u64,
}

impl Arrivals {
    /// Hands over what came, in the order in which it came.
    fn hand_over(&mut self, blocks: &[Block], shared: &Shared) -> io::Result<()> {
        let mut arrived = Vec::with_capacity(blocks.iter().map(|it| it.packets.len()).sum());
        let now = clock::now().instant;
        let mut overlay = shared.lock();
        for block in blocks {
            let from = (block.from, block.as_member);
            overlay.take(from, block.packets.iter(), now, &mut arrived);
        }
        drop(overlay);
        let mut run: Option<Joined<'_>> = None;
        for one in arrived {
            let piece = match one {
                Arrived::Packet(packet) => {
                    self.hand_over_run(run.take())?;
                    self.lost += u64::from(!self.batch.push(&packet));
                    continue;
                }
                Arrived::Piece(piece) => piece,
            };
            let follows = match &mut run {
                Some(run) => run.join(piece),
                None => Err(piece),
            };
            if let Err(other) = follows {
                self.hand_over_run(run.replace(Joined::new(other)))?;
            }
        }
        self.hand_over_run(run)?;
        self.hand_over_packets()?;
        if self.lost > 0 {
            shared.lock().count_dropped(DropReason::Device, std::mem::take(&mut self.lost));
        }
        Ok(())
    }

    fn hand_over_run(&mut self, run: Option<Joined<'_>>) -> io::Result<()> {
        let Some(run) = run else { return Ok(()) };
        // What came before comes before.
        self.hand_over_packets()?;
        let payloads: Vec<&[u8]> = run.payloads().collect();
        let fate = self.tun.send_run(&run.head(), run.segment_len(), &payloads)?;
        self.lost += u64::from(fate != Fate::Sent);
        Ok(())
    }

    fn hand_over_packets(&mut self) -> io::Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let report = self.tun.send(&mut self.batch)?;
        self.lost += (self.batch.len() as u64).saturating_sub(report.sent as u64);
        self.batch.clear();
        Ok(())
    }
}

/// As many as are checked and handed over together.
const AT_ONCE: usize = 256;
/// Peers may have devices that take more than ours gives.
const LONGEST: u32 = 2048;
