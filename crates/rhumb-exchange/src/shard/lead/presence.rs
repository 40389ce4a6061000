//! Which lanes are here, join, part and leave, and when members may be told what is gone.

use crate::message::pair::Order;
use crate::roster::Lane;
use crate::shard::Shard;
use std::time::Instant;

impl Shard {
    /// A lane's connections have changed, or may have.
    pub(in crate::shard) fn lane_changed(&mut self, lane: Lane, now: Instant) {
        let connection = self.connections[lane.index()];
        let Some(lead) = self.lead() else { return };
        let is_here = connection.is_connected && lead.theirs[lane.index()].here.is_some();
        if is_here {
            lead.absent.remove(&lane);
        } else {
            lead.absent.entry(lane).or_insert(now);
        }
        lead.wake(lane);
        if is_here && connection.joined.is_none() {
            lead.joining.insert(lane);
        } else {
            lead.joining.remove(&lane);
        }
        // Whoever has another connection joins anew, at a place that both parties mark.
        if connection.joined.is_some() && !lead.parting.contains(&lane) {
            lead.parting.push(lane);
        }
    }

    /// Members that came or went.
    pub(super) fn next_membership(&mut self) -> Option<Order> {
        let lead = self.lead()?;
        if let Some(lane) = lead.parting.pop() {
            lead.syncs.remove(&lane);
            let is_here = lead.theirs[lane.index()].here.is_some();
            if is_here && self.connections[lane.index()].is_connected {
                self.lead()?.joining.insert(lane);
            }
            return Some(Order::Part(lane));
        }
        if let Some(lane) = lead.leaving.pop() {
            return Some(Order::Leave(lane));
        }
        let lane = lead.joining.pop_first()?;
        let theirs = lead.theirs[lane.index()].here?;
        let participates = self.connections[lane.index()].participates && theirs;
        Some(Order::Join { lane, participates })
    }

    /// Lanes that were gone for too long leave.
    pub(in crate::shard) fn leave_stale(&mut self, now: Instant) {
        let stale = self.config.stale;
        let Some(lead) = self.lead() else { return };
        let gone = lead.absent.iter().filter(|(_, since)| now >= **since + stale);
        let gone: Vec<Lane> = gone.map(|(lane, _)| *lane).collect();
        for lane in gone {
            if let Some(lead) = self.lead() {
                lead.absent.remove(&lane);
            }
            self.take_bye(lane);
        }
    }

    /// A lane leaves, and what it has said.
    pub(in crate::shard) fn take_bye(&mut self, lane: Lane) {
        let has_words = self.table.len(lane) > 0 || self.table.last(lane).number > 0;
        let Some(lead) = self.lead() else { return };
        let theirs = &lead.theirs[lane.index()];
        if has_words || !theirs.held.is_empty() || theirs.last.number > 0 {
            lead.queues[lane.index()].clear();
            if !lead.leaving.contains(&lane) {
                lead.leaving.push(lane);
            }
        }
    }

    /// Members may be told what is gone once the tables of a former pair are here, or their time is up.
    pub(super) fn settle(&mut self, now: Instant) {
        let deadline = self.config.settle;
        let Some(lead) = self.lead() else { return };
        if lead.is_settled {
            return;
        }
        let is_late = now >= lead.began + deadline;
        let has_all = lead.had_former && lead.awaited.is_empty();
        if !is_late && !has_all {
            return;
        }
        let lanes = (0..self.connections.len()).map(|lane| Lane(lane as u16));
        let mut lanes = lanes.filter(|lane| self.connections[lane.index()].joined.is_some());
        if (is_late || lanes.all(|lane| self.table.has_ended(lane)))
            && let Some(lead) = self.lead()
        {
            lead.is_settled = true;
            lead.said.append(&mut lead.said_early);
        }
    }
}
