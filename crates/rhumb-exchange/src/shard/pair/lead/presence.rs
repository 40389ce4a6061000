//! Which lanes are here, join, part and leave, and when members may be told what is gone.

use super::{Lead, stale_at};
use crate::message::pair::Order;
use crate::roster::Lane;
use crate::shard::Shard;
use crate::shard::pair::Role;
use std::sync::Arc;
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
        let config = Arc::clone(&self.config);
        let Some(lead) = self.lead() else { return };
        let gone =
            lead.absent.iter().filter(|(lane, since)| now >= stale_at(&config, **lane, **since));
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

    /// Members may be told what is gone once all who had routes are back, or their time is up.
    pub(super) fn settle(&mut self, now: Instant) {
        let deadline = self.config.settle;
        let Some(lead) = self.lead() else { return };
        if lead.is_settled || (now < lead.began + deadline && !self.all_are_back()) {
            return;
        }
        if let Some(lead) = self.lead() {
            lead.is_settled = true;
            lead.said.append(&mut lead.said_early);
            // Of those that lack nothing none has been told so.
            let lanes: Vec<Lane> = lead.syncs.keys().copied().collect();
            lanes.into_iter().for_each(|lane| lead.replay_later(lane));
        }
    }

    /// Whether nothing that members hold of a former pair can still be said again. Where neither
    /// party has heard of a former pair, as after the loss of both, nobody knows who had routes,
    /// and all lanes are waited for.
    fn all_are_back(&self) -> bool {
        let Some(Role::Lead(lead)) = self.pair.as_ref().map(|pair| &pair.role) else {
            return false;
        };
        if !lead.awaited.is_empty() {
            return false;
        }
        if lead.had_former {
            return lead.former.iter().all(|(lane, first)| self.is_back(lead, *lane, Some(*first)));
        }
        (0..self.connections.len()).all(|lane| self.is_back(lead, Lane(lane as u16), None))
    }

    /// Whether both parties have heard of a lane all that there was before this pair, and
    /// have done it. A process that had words then says nothing anew; one that began since
    /// has said all only at the end of its table.
    fn is_back(&self, lead: &Lead, lane: Lane, first: Option<u64>) -> bool {
        let last = self.table.last(lane);
        let is_here = !lead.absent.contains_key(&lane)
            && lead.queues[lane.index()].is_empty()
            && last.number > 0
            && last >= lead.theirs[lane.index()].last;
        let has_said_all = first == Some(last.incarnation) || self.table.has_ended(lane);
        is_here && has_said_all || self.config.common.roster.is_closed(lane)
    }
}
