//! A party that has a seat among the members, and does not keep to what was agreed: it changes its
//! shares of what its own member may not have.

use std::sync::Arc;
use std::time::Instant;

use rhumb_mpc::{Party, Seed};

use super::{Output, Shard};
use crate::{
    Common, Connection, Destination, Event, Form, Hello, Lane, LaneSet, Member, Roster, Route,
    ServerConfig, Site,
};

const ANNOUNCER: u16 = 0;
/// Of the party that deviates.
const SEAT: u16 = 1;
const OTHER: u16 = 2;
const ROUTES: u8 = 10;

struct Table {
    now: Instant,
    shards: [Shard; 2],
    members: Vec<Member>,
    events: Vec<Vec<Event>>,
}

impl Table {
    #[expect(clippy::disallowed_methods, reason = "a virtual clock needs a first instant")]
    fn new(form: Form) -> Self {
        let now = Instant::now();
        let site = |number: u8| Site {
            id: format!("site-{number}"),
            member: "member".to_owned(),
            asn: 64500,
            key: [number; 32],
        };
        let roster = Roster::new((0..3).map(site).collect()).unwrap();
        let mut common = Common::new(Arc::new(roster));
        common.form = form;
        let config = Arc::new(ServerConfig::new(common.clone()));
        let mut shards = [Party::One, Party::Two]
            .map(|party| Shard::new(party, 0, Arc::clone(&config)).unwrap());
        for (number, shard) in shards.iter_mut().enumerate() {
            shard.pair_begun(7, Seed::new([number as u8; 32]), now).unwrap();
        }
        let mut members = Vec::new();
        for lane in 0..3 {
            let mut member =
                Member::new(common.clone(), Lane(lane), true, 1, [lane as u8; 32]).unwrap();
            for (number, party) in [(0, Party::One), (1, Party::Two)] {
                member.connected(Connection(number), party);
                let hello = member.poll_message(Connection(number)).unwrap();
                config.check_member(&Hello::parse(&hello).unwrap(), Lane(lane)).unwrap();
                member.handle(Connection(number), &config.hello(party, [1; 32]).emit()).unwrap();
                shards[number as usize].member_joined(Lane(lane), true, now);
            }
            members.push(member);
        }
        Self { now, shards, members, events: vec![Vec::new(); 3] }
    }

    /// What members have to say to one server.
    fn say(&mut self, server: usize) -> bool {
        let mut said = false;
        for (lane, member) in self.members.iter_mut().enumerate() {
            while let Some(message) = member.poll_message(Connection(server as u32)) {
                let lane = Lane(lane as u16);
                self.shards[server].member_message(lane, &message, self.now).unwrap();
                said = true;
            }
        }
        said
    }

    fn settle(&mut self) {
        loop {
            let mut is_quiet = true;
            for server in [0, 1] {
                is_quiet &= !self.say(server);
                while let Some(output) = self.shards[server].poll_output() {
                    is_quiet = false;
                    match output {
                        Output::Peer(message) => {
                            self.shards[1 - server].peer_message(&message, self.now);
                        }
                        Output::Member { lane, message } => {
                            let at = lane.index();
                            let member = &mut self.members[at];
                            member.handle(Connection(server as u32), &message).unwrap();
                            while let Some(event) = member.poll_event() {
                                if let Event::Rank { round, candidates, .. } = &event {
                                    let classes: Vec<_> =
                                        candidates.iter().map(|it| (it.id, 1)).collect();
                                    member.rank(*round, &classes);
                                }
                                self.events[at].push(event);
                            }
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
            if is_quiet {
                return;
            }
        }
    }

    fn offered(&self, lane: u16) -> usize {
        let is_offered = |event: &&Event| matches!(event, Event::Offered { .. });
        self.events[usize::from(lane)].iter().filter(is_offered).count()
    }
}

/// The announcer lets the other have its routes, and not the seat. The party
/// of the seat turns its share of that bit over.
fn opened_by(deviating: usize, form: Form) -> Table {
    let mut table = Table::new(form);
    table.settle();
    let policy = LaneSet::of(&table.shards[0].config.common.roster, [Lane(OTHER)]).unwrap();
    for number in 0..ROUTES {
        let (to, route) = (Destination::new(&[number]).unwrap(), Route::new(b"secret").unwrap());
        table.members[usize::from(ANNOUNCER)].announce(&to, &policy, &route).unwrap();
    }
    table.say(deviating);
    table.shards[deviating].table.turn_over(Lane(SEAT));
    table.settle();
    table
}

#[test]
fn a_party_that_turns_its_share_of_a_policy_over_opens_nothing() {
    for form in [Form::TopClass, Form::Index, Form::Paper] {
        for deviating in [0, 1] {
            let table = opened_by(deviating, form);
            assert_eq!(table.offered(OTHER), usize::from(ROUTES), "{form:?}, {deviating}");
            assert_eq!(table.offered(SEAT), 0, "{form:?}, {deviating}");
        }
    }
}
