//! A member's part in Select-Best: it is asked, it answers both parties
//! with shares, and puts their results together.

use std::collections::{BTreeMap, HashMap};

use rhumb_mpc::Party;
use zeroize::Zeroizing;

use super::{Candidate, Connection, Event, Member, Round};
use crate::circuits::{CLASS_BITS, Choice, Form};
use crate::message::Tag;
use crate::message::member::FromMember;
use crate::route::{Destination, RouteId};
use crate::shard::ranking_len;

/// Rounds of a shard.
#[derive(Default)]
pub(super) struct MemberRounds {
    open: BTreeMap<Tag, MemberRound>,
    /// The last round that compared a route.
    by_id: HashMap<RouteId, Tag>,
}

struct MemberRound {
    ids: Vec<RouteId>,
    destination: Option<Destination>,
    /// How this member has ranked them: by place, zero for
    /// those it does not want. None before it has.
    classes: Option<Vec<u8>>,
    results: [Option<u128>; 2],
}

impl MemberRounds {
    pub(super) fn clear(&mut self) {
        self.open.clear();
        self.by_id.clear();
    }

    fn begin(&mut self, tag: Tag, round: MemberRound) {
        for id in &round.ids {
            if let Some(former) = self.by_id.get(id).copied() {
                self.end(former);
            }
        }
        while self.open.len() >= MAX_ROUNDS {
            let oldest = self.open.first_key_value().map(|(tag, _)| *tag);
            oldest.and_then(|tag| self.end(tag));
        }
        self.by_id.extend(round.ids.iter().map(|id| (*id, tag)));
        self.open.insert(tag, round);
    }

    fn end(&mut self, tag: Tag) -> Option<MemberRound> {
        let round = self.open.remove(&tag)?;
        for id in &round.ids {
            if self.by_id.get(id) == Some(&tag) {
                self.by_id.remove(id);
            }
        }
        Some(round)
    }
}

impl Member {
    /// Both parties have asked.
    pub(super) fn begin_round(&mut self, round: Round, ids: Vec<RouteId>) {
        let shard = &mut self.shards[usize::from(round.shard)];
        let mut destination = None;
        let mut candidates = Vec::new();
        for id in &ids {
            if let Some(held) = shard.holdings.route(*id) {
                // What leads elsewhere was put among these by
                // its announcer, who lied to the servers.
                let first = destination.get_or_insert_with(|| held.destination.clone());
                if *first == held.destination {
                    candidates.push(Candidate { id: *id, from: held.from });
                }
            }
        }
        let (classes, results) = (None, [None; 2]);
        let member_round = MemberRound { ids, destination: destination.clone(), classes, results };
        shard.rounds.begin(round.tag, member_round);
        self.events.push_back(Event::Rank { round, destination, candidates });
    }

    /// Answers [`Event::Rank`]: a class from 1 to 15 for each route that this member would use,
    /// more is better. A round that is over is left alone. With the default circuit the exchange
    /// chooses among those of the best class.
    pub fn rank(&mut self, round: Round, classes: &[(RouteId, u8)]) {
        let at = usize::from(round.shard);
        let form = self.common.form;
        let Some(shard) = self.shards.get_mut(at) else { return };
        let (Some(live), Some(open)) = (shard.live, shard.rounds.open.get_mut(&round.tag)) else {
            return;
        };
        if open.classes.is_some() {
            return;
        }
        let class_of = |id: &RouteId| {
            let class =
                classes.iter().find(|(other, _)| other == id).map_or(0, |(_, class)| *class);
            if shard.holdings.route(*id).is_some() { class.min((1 << CLASS_BITS) - 1) } else { 0 }
        };
        let by_place: Vec<u8> = open.ids.iter().map(class_of).collect();
        let best = by_place.iter().copied().max().unwrap_or(0);
        let bits = form.ranking_bits();
        let mut ranking = Zeroizing::new(vec![0_u8; ranking_len(form, open.ids.len())]);
        for (place, class) in by_place.iter().enumerate() {
            let value = match form {
                Form::TopClass => u8::from(best > 0 && *class == best),
                Form::Paper | Form::Index => *class,
            };
            for bit in 0..bits {
                let at = place * bits + bit;
                ranking[at / 8] |= (value >> bit & 1) << (at % 8);
            }
        }
        open.classes = Some(by_place);
        let mask = self.coins.bytes(ranking.len());
        masked(&mut ranking, &mask);
        self.send(live.one, at, &FromMember::Ranking { round: round.tag, share: &mask });
        self.send(live.two, at, &FromMember::Ranking { round: round.tag, share: &ranking });
    }

    /// A party's share of a result.
    pub(super) fn take_result(&mut self, connection: Connection, at: usize, tag: Tag, share: u128) {
        let form = self.common.form;
        let shard = &mut self.shards[at];
        let party = shard.live.filter(|live| live.epoch == tag.epoch).and_then(|live| {
            let parties = [(live.one, Party::One), (live.two, Party::Two)];
            parties.into_iter().find(|(other, _)| *other == connection)
        });
        let (Some((_, party)), Some(round)) = (party, shard.rounds.open.get_mut(&tag)) else {
            self.status.stale += 1;
            return;
        };
        round.results[party as usize - 1] = Some(share);
        let [Some(one), Some(two)] = round.results else { return };
        let Some(round) = shard.rounds.end(tag) else { return };
        let (Some(destination), Some(classes)) = (round.destination, round.classes) else { return };
        let place = match form.open([one, two]) {
            Some(Choice::Nothing) => {
                self.events.push_back(Event::Selected { destination, id: None });
                return;
            }
            Some(Choice::Place(place)) => Some(place),
            Some(Choice::Key(key)) => round
                .ids
                .iter()
                .position(|id| shard.holdings.route(*id).is_some_and(|held| *held.key == key)),
            None => None,
        };
        let id = place.and_then(|place| round.ids.get(place).copied());
        let is_held = id.is_some_and(|id| shard.holdings.route(id).is_some());
        let class = place.and_then(|place| classes.get(place)).copied().unwrap_or(0);
        let event = match id.filter(|_| is_held) {
            // A circuit that compares may choose a route that this
            // member would not use, if there is no other.
            Some(_) if class == 0 => Event::Selected { destination, id: None },
            Some(id) => Event::Selected { destination, id: Some(id) },
            None => {
                self.status.inconsistent += 1;
                Event::Missed { destination }
            }
        };
        self.events.push_back(event);
    }

    pub(super) fn take_missed(&mut self, connection: Connection, at: usize, tag: Tag) {
        let shard = &mut self.shards[at];
        if shard.live.is_some_and(|live| live.one == connection && live.epoch == tag.epoch) {
            let round = shard.rounds.end(tag);
            if let Some(destination) = round.and_then(|round| round.destination) {
                self.events.push_back(Event::Missed { destination });
            }
        }
    }
}

/// Party one's share is the mask, party two's what comes of it.
pub(crate) fn masked(ranking: &mut [u8], mask: &[u8]) {
    for (byte, mask) in ranking.iter_mut().zip(mask) {
        *byte ^= mask;
    }
}

/// Rounds that a member keeps open: four times as many as the servers do.
const MAX_ROUNDS: usize = 1024;
