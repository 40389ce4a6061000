//! Examples of messages of the private exchange: what goes over all
//! connections while three members exchange two routes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use rhumb_exchange::{
    Common, Connection, Destination, Event, ExchangeError, Hello, Lane, LaneSet, Member, Output,
    Party, Roster, Route, Server, ServerConfig, Site,
};
use rhumb_mpc::{FieldBits, Parameters, Seed};

/// A message of each kind and direction, the engine's cut, which parse as well.
pub(crate) fn messages() -> Result<Vec<Vec<u8>>, ExchangeError> {
    let sites = (0..3).map(|number| Site {
        id: format!("site-{number}"),
        member: "member".to_owned(),
        asn: 64500,
        key: [number; 32],
    });
    let common = Common::new(Arc::new(Roster::new(sites.collect())?));
    let mut config = ServerConfig::new(common.clone());
    config.engine = Parameters { field: FieldBits::Two, bit_words: 1024, vector_words: 256 };
    let (config, now) = (Arc::new(config), Instant::now());
    let mut servers = [Server::new(Party::One, &config)?, Server::new(Party::Two, &config)?];
    for (number, server) in servers.iter_mut().enumerate() {
        server.pair_begun(7, || Seed::new([number as u8; 32]), now)?;
    }
    let hellos = [Party::One, Party::Two].map(|party| config.hello(party, [1; 32]).emit());
    let mut examples: BTreeMap<(u8, u8, u8), Vec<u8>> = BTreeMap::new();
    let mut members = Vec::new();
    for lane in 0..3 {
        let mut member = Member::new(common.clone(), Lane(lane), true, 1, [lane as u8; 32])?;
        for number in 0..2 {
            member.connected(Connection(number as u32), [Party::One, Party::Two][number]);
            while let Some(hello) = member.poll_message(Connection(number as u32)) {
                assert!(Hello::parse(&hello).is_ok());
                examples.insert((0, 0, 0), hello);
            }
            member.handle(Connection(number as u32), &hellos[number])?;
            servers[number].member_joined(Lane(lane), true, now);
        }
        members.push(member);
    }
    examples.insert((1, 0, 0), hellos[0].clone());
    let destination = Destination::new(b"192.0.2.0/24")?;
    for member in &mut members[..2] {
        let policy = LaneSet::of(&common.roster, [Lane(2)])?;
        member.announce(&destination, &policy, &Route::new(b"route")?)?;
    }
    members.iter_mut().for_each(Member::end_of_table);
    deliver(&mut members, &mut servers, now, &mut examples)?;
    members[0].withdraw(&destination);
    deliver(&mut members, &mut servers, now, &mut examples)?;
    assert!(examples.len() > 20, "{:?}", examples.keys());
    Ok(examples.into_values().collect())
}

/// Keeps the first of each way, kind and kind of order.
fn deliver(
    members: &mut [Member],
    servers: &mut [Server; 2],
    now: Instant,
    examples: &mut BTreeMap<(u8, u8, u8), Vec<u8>>,
) -> Result<(), ExchangeError> {
    let mut keep = |way: u8, message: &[u8], what: usize| {
        let what = message.get(what).copied().unwrap_or(0);
        examples
            .entry((way, message[0], what))
            .or_insert(message[..message.len().min(1 << 12)].to_vec());
    };
    loop {
        let mut is_quiet = true;
        for number in 0..2 {
            for (lane, member) in members.iter_mut().enumerate() {
                while let Some(message) = member.poll_message(Connection(number as u32)) {
                    is_quiet = false;
                    keep(2, &message, usize::MAX);
                    servers[number].member_message(Lane(lane as u16), &message, now)?;
                }
            }
            while let Some(output) = servers[number].poll_output() {
                is_quiet = false;
                match output {
                    Output::Peer(message) => {
                        keep(3, &message, if message[0] == 7 { 11 } else { usize::MAX });
                        servers[1 - number].peer_message(&message, now)?;
                    }
                    Output::Member { lane, message } => {
                        keep(4, &message, usize::MAX);
                        let member = &mut members[usize::from(lane.0)];
                        member.handle(Connection(number as u32), &message)?;
                        while let Some(event) = member.poll_event() {
                            if let Event::Rank { round, candidates, .. } = event {
                                let classes: Vec<_> =
                                    candidates.iter().map(|candidate| (candidate.id, 1)).collect();
                                member.rank(round, &classes);
                            }
                        }
                    }
                    Output::PairFailed(error) | Output::MemberFailed { error, .. } => {
                        return Err(error);
                    }
                }
            }
        }
        if is_quiet {
            return Ok(());
        }
    }
}
