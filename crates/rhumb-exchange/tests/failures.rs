//! What is wrong ends the connection it came over, with an
//! error that says what it is, and nothing else.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::sync::Arc;
use std::time::Duration;

use rhumb_exchange::{
    Common, Connection, Destination, Event, ExchangeError, Form, Hello, Lane, LaneSet,
    MAX_DESTINATION, MAX_ROUTE, Member, Output, Party, Quota, Roster, Route, STALE, Server,
    ServerConfig, Site,
};

use crate::world::{Way, World, destination, roster, small};

#[test]
fn hellos_that_differ_are_refused_with_what_differs() {
    let config = small(4, Form::TopClass, 2);
    let mine = config.hello(Party::One, [1; 32]);
    let theirs = |config: &ServerConfig| config.hello(Party::Two, [2; 32]);
    assert!(config.check_party(&mine, &theirs(&config)).is_ok());

    let refused = |change: &dyn Fn(&mut ServerConfig)| {
        let mut other = config.clone();
        change(&mut other);
        config.check_party(&mine, &theirs(&other)).unwrap_err()
    };
    for lanes in [3, 5] {
        let other_roster = refused(&|other| other.common.roster = roster(lanes));
        assert_eq!(other_roster, ExchangeError::Roster);
    }
    let parameter = |what| ExchangeError::Parameter(what);
    assert_eq!(refused(&|other| other.common.shards = 3), parameter("number of shards"));
    let form = refused(&|other| other.common.form = Form::Index);
    assert_eq!(form, parameter("circuit for the best route"));
    let pool = refused(&|other| other.engine.bit_words *= 2);
    assert_eq!(pool, parameter("size of the pools of triples"));
    let same = config.check_party(&mine, &config.hello(Party::One, [2; 32])).unwrap_err();
    assert_eq!(same, ExchangeError::Speaker("is the same party as this one"));

    let mut bytes = mine.emit();
    bytes[6] = 9;
    assert_eq!(Hello::parse(&bytes), Err(ExchangeError::Version { theirs: 9 }));
    assert!(Hello::parse(b"GET / HTTP/1.1").is_err());
    // The engine's version, its field, and the sizes of two pools are last.
    let mut bytes = mine.emit();
    let at = bytes.len() - 10;
    bytes[at] -= 1;
    assert_eq!(Hello::parse(&bytes), Err(parameter("version of the computation")));

    // A member with another lane's key, a party in a member's place, a member with another roster.
    let member = |common: &Common, lane| {
        let mut member = Member::new(common.clone(), Lane(lane), true, 1, [1; 32]).unwrap();
        member.connected(Connection(0), Party::One);
        Hello::parse(&member.poll_message(Connection(0)).unwrap()).unwrap()
    };
    let hello = member(&config.common, 2);
    assert_eq!(config.check_member(&hello, Lane(2)), Ok(true));
    let lane = ExchangeError::Lane { says: Lane(2), is: Lane(3) };
    assert_eq!(config.check_member(&hello, Lane(3)), Err(lane));
    assert!(config.check_member(&mine, Lane(2)).is_err());
    let judged = |roster: Arc<Roster>| {
        let hello = member(&Common { roster, ..config.common.clone() }, 2);
        config.check_member(&hello, Lane(2))
    };
    assert_eq!(judged(moved(4)), Err(ExchangeError::Roster));
    assert_eq!(judged(moved(3)), Err(ExchangeError::Roster));
    // Lanes at the end are no difference. Whoever has more sees whether they are at the end.
    for other in [roster(3), roster(5), moved(5)] {
        assert_eq!(judged(other), Ok(true));
    }
}

/// Other lanes than those of the world's roster.
fn moved(lanes: usize) -> Arc<Roster> {
    let mut sites: Vec<Site> = roster(lanes).sites().map(|(_, site)| site.clone()).collect();
    sites.rotate_left(1);
    Arc::new(Roster::new(sites).unwrap())
}

#[test]
fn a_roster_is_its_keys_and_what_extends_it_has_them_in_their_places() {
    let mut sites: Vec<Site> = roster(4).sites().map(|(_, site)| site.clone()).collect();
    sites[2].id = "another name".to_owned();
    let renamed = Roster::new(sites.clone()).unwrap();
    assert_eq!(renamed.digest(), roster(4).digest());
    sites[2].asn += 1;
    assert!(!Roster::new(sites).unwrap().extends(&roster(4)));
    assert!(roster(5).extends(&renamed) && renamed.extends(&roster(4)));
    assert!(!roster(4).extends(&roster(5)) && !moved(5).extends(&roster(4)));
    let without = Roster::clone(&roster(4)).without([Lane(1), Lane(9)]);
    assert_eq!(without.digest(), roster(4).digest());
    let key = |lane| roster(4).site(Lane(lane)).unwrap().key;
    assert_eq!([1, 2].map(|lane| without.lane_of_key(&key(lane))), [None, Some(Lane(2))]);
    assert!(without.is_closed(Lane(1)) && !without.is_closed(Lane(2)));
}

#[test]
fn a_member_refuses_servers_that_differ() {
    let config = small(4, Form::TopClass, 2);
    let refused = |hello: &Hello| {
        let mut member = Member::new(config.common.clone(), Lane(1), true, 1, [1; 32]).unwrap();
        member.connected(Connection(0), Party::One);
        member.handle(Connection(0), &hello.emit())
    };
    assert_eq!(refused(&config.hello(Party::One, [0; 32])), Ok(()));
    let other = ExchangeError::Speaker("is the other party than was expected");
    assert_eq!(refused(&config.hello(Party::Two, [0; 32])), Err(other));
    let mut other = config.clone();
    other.common.roster = moved(4);
    assert_eq!(refused(&other.hello(Party::One, [0; 32])), Err(ExchangeError::Roster));
    other.common.roster = roster(5);
    assert_eq!(refused(&other.hello(Party::One, [0; 32])), Ok(()));
}

#[test]
fn rosters_and_parameters_have_bounds() {
    let site = |id: &str, key: u8| Site {
        id: id.to_owned(),
        member: "member".to_owned(),
        asn: 1,
        key: [key; 32],
    };
    assert!(Roster::new(Vec::new()).is_err());
    let twice = Roster::new(vec![site("a", 1), site("a", 2)]).unwrap_err();
    assert_eq!(twice, ExchangeError::BadRoster("has the id of an earlier one", 1));
    let twice = Roster::new(vec![site("a", 1), site("b", 1)]).unwrap_err();
    assert_eq!(twice, ExchangeError::BadRoster("has the key of an earlier one", 1));
    assert!(Roster::new(vec![site("", 1)]).is_err());
    let many = (0..=rhumb_exchange::MAX_LANES).map(|number| {
        let mut site = site(&number.to_string(), 0);
        site.key[..8].copy_from_slice(&(number as u64).to_le_bytes());
        site
    });
    let mut many: Vec<Site> = many.collect();
    assert!(Roster::new(many.clone()).is_err());
    many.pop();
    assert!(Roster::new(many).is_ok());

    let changes: [&dyn Fn(&mut ServerConfig); 6] = [
        &|config| config.common.shards = 0,
        &|config| config.common.shards = 257,
        &|config| config.batch = 0,
        &|config| config.batch = 257,
        &|config| config.engine.bit_words = 3,
        // Enough for any run, and not for one when a batch less one is left.
        &|config| config.engine.bit_words = 256 + 126,
    ];
    for change in changes {
        let mut config = small(4, Form::TopClass, 1);
        assert!(Server::new(Party::One, &Arc::new(config.clone())).is_ok());
        change(&mut config);
        assert!(Server::new(Party::One, &Arc::new(config)).is_err());
    }
}

#[test]
fn oversized_policies_routes_and_destinations_are_refused() {
    assert!(Destination::new(&[0; MAX_DESTINATION]).is_ok());
    assert!(Destination::new(&[0; MAX_DESTINATION + 1]).is_err());
    assert!(Route::new(&vec![0; MAX_ROUTE]).is_ok());
    assert!(Route::new(&vec![0; MAX_ROUTE + 1]).is_err());
    let roster_of = roster(70);
    let beyond = LaneSet::of(&roster_of, [Lane(70)]).unwrap_err();
    assert_eq!(beyond, ExchangeError::Policy { lane: Lane(70), lanes: 70 });
    let mut member = Member::new(Common::new(roster(60)), Lane(0), true, 1, [1; 32]).unwrap();
    let policy = LaneSet::of(&roster_of, [Lane(1)]).unwrap();
    let route = Route::new(b"r").unwrap();
    assert!(member.announce(&destination(b"d"), &policy, &route).is_err());
    assert_eq!(member.status().announced, 0);
}

/// Announcements whose half is the other party's, too
/// short, of another shard, or no message at all.
#[test]
fn a_member_that_misbehaves_is_told_apart_and_others_go_on() {
    let mut world = World::new(4, 5);
    world.settle();
    world.announce(0, b"d", &[1, 2], b"first");
    world.tap = Some(Vec::new());
    world.settle();
    let frames = world.tap.take().unwrap();
    let mut checked = 0;
    for (server, way, frame) in &frames {
        if !matches!(way, Way::ToServer { lane: 0, .. }) {
            continue;
        }
        let mut others: Vec<Vec<u8>> = (0..frame.len()).map(|len| frame[..len].to_vec()).collect();
        others.push([&frame[..], &[0]].concat());
        // The other party's half, another shard, no shard.
        for (at, byte) in
            [(0, if *server == 0 { 2 } else { 1 }), (1, frame[1] ^ 1), (1, 200), (0, 77)]
        {
            let mut other = frame.clone();
            other[at] = byte;
            others.push(other);
        }
        for other in others {
            let now = world.now;
            let running = world.servers[*server].as_mut().unwrap();
            let result = running.member_message(Lane(3), &other, now);
            assert!(result.is_err(), "{other:?}");
            checked += 1;
        }
    }
    assert!(checked > 200, "{checked}");
    world.announce(3, b"e", &[1], b"second");
    world.settle();
    assert_eq!(world.offered(1).len(), 2);
}

#[test]
fn words_that_wait_are_bounded_also_if_they_are_no_routes() {
    let mut config = small(3, Form::TopClass, 1);
    let quota = Quota { routes: 4, ..Quota::default() };
    config.common.roster = Arc::new(Roster::clone(&roster(3)).with_quotas([quota; 3]));
    let mut world = World::with(config, 8);
    world.settle();
    // Party one alone hears of a route, which all that comes after it waits
    // for; then of another's end, over and over.
    world.announce(0, b"first", &[1], b"r");
    let mut said = vec![world.member(0).poll_message(Connection(0)).unwrap()];
    let (most, what) = (8 + 256, "words of one lane that wait");
    for _ in 0..most {
        world.announce(0, b"d", &[1], b"r");
        assert!(world.member(0).poll_message(Connection(0)).is_some());
        world.withdraw(0, b"d");
        said.extend(world.member(0).poll_message(Connection(0)));
    }
    let now = world.now;
    let server = world.servers[0].as_mut().unwrap();
    let results: Vec<_> =
        said.iter().map(|message| server.member_message(Lane(0), message, now)).collect();
    assert!(results[..most].iter().all(Result::is_ok), "{results:?}");
    assert_eq!(results[most], Err(ExchangeError::TooMany { what, most }));
}

/// A member that dies between its two sends, and one that does not rank, hold nobody up.
#[test]
fn a_member_that_vanishes_at_any_message_leaves_others_unaffected() {
    for steps in (0..60).step_by(3) {
        let mut world = World::with(small(4, Form::TopClass, 1), 7);
        world.settle();
        world.announce(0, b"d", &[2, 3], b"zero");
        world.settle();
        world.announce(1, b"d", &[2, 3], b"one");
        world.steps(steps);
        world.stop_member(1);
        let third = world.announce(2, b"e", &[3], b"two");
        world.settle();
        let held = world.offered(3);
        assert!(held.iter().any(|(.., id, _)| *id == third), "{steps}");
        // Its routes stay for a while, then they are gone.
        world.pass(Duration::from_secs(40));
        let from: Vec<u16> = world.offered(3).iter().map(|(_, from, ..)| *from).collect();
        assert_eq!(from, [0, 2], "{steps}");
        assert_eq!(world.status(0).held, 2);
        assert_eq!(world.status(2).held, 2);
    }
}

#[test]
fn a_round_goes_on_without_those_who_do_not_answer() {
    let mut world = World::with(small(5, Form::TopClass, 1), 8);
    world.mute[3] = true;
    world.settle();
    let first = world.announce(0, b"d", &[2, 3], b"zero");
    world.announce(1, b"d", &[2, 3], b"one");
    world.settle();
    assert_eq!(world.selected(2, b"d"), None);
    world.pass(Duration::from_secs(2));
    assert_eq!(world.selected(2, b"d"), Some(Some(first)));
    let missed = Event::Missed { destination: destination(b"d") };
    assert!(world.events(3).contains(&missed));
    // One that does not take part has its own ranking alone, and nobody waits for it.
    world.start_member(3, false);
    world.mute[3] = false;
    let changed = world.announce(0, b"d", &[2, 3], b"changed");
    world.settle();
    assert_eq!(world.selected(2, b"d"), Some(Some(changed)));
    assert!(!world.events(3).iter().any(|event| matches!(event, Event::Rank { .. })));
    assert_eq!(world.offered(3).len(), 2);
}

/// Neither a lost connection nor the loss of a server retracts
/// anything; a member that says goodbye is gone at once.
#[test]
fn nothing_flaps() {
    let mut world = World::with(small(4, Form::TopClass, 1), 9);
    world.settle();
    for from in 0..3 {
        world.announce(from, b"d", &[3], &[from as u8]);
        world.announce(from, &[from as u8], &[3], &[from as u8]);
    }
    world.settle();
    world.connect(0, 0);
    world.connect(1, 2);
    world.settle();
    for server in [0, 2] {
        world.stop_server(server);
        world.settle();
        world.start_server(server);
        world.begin_pair(0, 2);
        world.settle();
    }
    world.pass(Duration::from_secs(100));
    let retracted = |event: &&Event| matches!(event, Event::Retracted { .. });
    let offered = |event: &&Event| matches!(event, Event::Offered { .. });
    assert_eq!(world.events(3).iter().filter(retracted).count(), 0);
    assert_eq!(world.events(3).iter().filter(offered).count(), 6);
    world.member(0).leave();
    world.settle();
    assert_eq!(world.offered(3).len(), 4);
}

/// A member is away until party one gives him up, of which the other party has not heard yet.
fn give_up(world: &mut World, lane: u16) {
    (0..4).for_each(|server| world.disconnect(lane, server));
    world.settle();
    world.now += STALE;
    let now = world.now;
    world.servers[0].as_mut().unwrap().handle_timeout(now);
}

/// A member whose time is up comes back just then: what it says on its way to a party that forgets
/// it meanwhile is said again with all that came before it.
#[test]
fn whoever_comes_back_as_he_is_given_up_loses_nothing() {
    for seed in 0..20 {
        let mut world = World::with(small(3, Form::TopClass, 1), seed);
        world.settle();
        for number in 0..20 {
            world.announce(0, &[number], &[1], &[number]);
        }
        world.settle();
        assert_eq!(world.offered(1).len(), 20);
        give_up(&mut world, 0);
        (0..4).for_each(|server| world.connect(0, server));
        world.settle();
        assert_eq!(world.offered(1).len(), 20, "seed {seed}");
        // Another process of his comes in his place.
        give_up(&mut world, 0);
        world.start_member_without_end(0, true);
        for number in 0..20 {
            world.announce(0, &[number], &[1], &[number]);
        }
        world.member(0).end_of_table();
        world.settle();
        assert_eq!(world.offered(1).len(), 20, "seed {seed}");
    }
}

/// What one party sends alone, or what both send with other tags, installs nothing.
#[test]
fn halves_of_different_computations_do_not_make_a_route() {
    let mut world = World::with(small(3, Form::TopClass, 1), 10);
    world.settle();
    // Party two is lost after its run and before its shares arrive.
    world.announce(0, b"d", &[1], b"r");
    while !world.ways.keys().any(|way| matches!(way, Way::ToMember { lane: 1, server: 2 })) {
        assert!(world.step());
    }
    world.stop_server(2);
    world.settle();
    assert!(world.offered(1).is_empty());
    world.start_server(2);
    world.begin_pair(0, 2);
    world.settle();
    assert_eq!(world.offered(1).len(), 1);
    assert_eq!(world.member(1).status().unopened, 0);
}

/// Carries what the parties say to each other, and nothing else.
fn talk(world: &mut World) {
    let now = world.now;
    loop {
        let mut messages = Vec::new();
        for server in [0, 2] {
            let running = world.servers[server].as_mut().unwrap();
            let outputs = std::iter::from_fn(|| running.poll_output());
            messages.extend(outputs.filter_map(|output| match output {
                Output::Peer(message) => Some((2 - server, message)),
                _ => None,
            }));
        }
        if messages.is_empty() {
            return;
        }
        for (server, message) in messages {
            world.servers[server].as_mut().unwrap().peer_message(&message, now).unwrap();
        }
    }
}

/// Frames of a whole history, changed at random, come at any time to anybody: errors at most.
#[test]
fn changed_frames_break_nobody() {
    let mut world = World::with(small(4, Form::TopClass, 1), 12);
    world.tap = Some(Vec::new());
    for number in 0..12 {
        world.announce(number % 3, &[b'd', (number % 2) as u8], &[1, 3], b"route");
        world.steps(40);
        world.connect(number % 4, [0, 2][usize::from(number % 2)]);
    }
    world.settle();
    let frames = world.tap.take().unwrap();
    let (mut refused, mut pairs) = (0, 0);
    for round in 0..6000_u32 {
        if round % 80 == 0 && world.pair.is_none() {
            world.begin_pair(0, 2);
            talk(&mut world);
        }
        let (_, way, frame) = &frames[world.random.below(frames.len())];
        let mut frame = frame.clone();
        for _ in 0..world.random.below(4) {
            let at = world.random.below(frame.len().min(80));
            frame[at] ^= 1 << world.random.below(8);
        }
        let now = world.now;
        let result = match *way {
            Way::ToServer { lane, server } => {
                let running = world.servers[server].as_mut().unwrap();
                running.member_message(Lane(lane), &frame, now)
            }
            Way::ToPeer { server } => {
                let running = world.servers[server].as_mut().unwrap();
                running.peer_message(&frame, now)
            }
            Way::ToMember { lane, server } => {
                world.member(lane).handle(Connection(server as u32), &frame)
            }
        };
        refused += u32::from(result.is_err());
        // Whatever came of it is lost; a pair that failed is begun anew.
        for server in [0, 2] {
            let running = world.servers[server].as_mut().unwrap();
            let outputs = std::iter::from_fn(|| running.poll_output());
            let has_failed =
                outputs.filter(|output| matches!(output, Output::PairFailed(_))).count();
            if has_failed > 0 {
                pairs += 1;
                world.end_pair();
            }
        }
    }
    assert!(refused > 500 && pairs > 20, "{refused} {pairs}");
    // With all connections anew the exchange is what it was.
    for server in [0, 2] {
        world.stop_server(server);
        world.start_server(server);
    }
    world.begin_pair(0, 2);
    for lane in 0..4 {
        world.start_member(lane, true);
    }
    world.announce(0, b"last", &[1], b"route");
    world.pass(Duration::from_secs(40));
    assert_eq!(world.offered(1).len(), 1);
}

/// What lane 1 announces has another nonce for party two. The nonce is behind kind, shard and mark.
fn tells_them_different_things(world: &mut World) {
    let announce_to_two = 2;
    world.alter = Some(Box::new(move |way, message| {
        let is_to_two = matches!(way, Way::ToServer { lane: 1, server: 2 });
        if is_to_two && message[0] == announce_to_two {
            message[19] ^= 1;
        }
    }));
}

#[test]
fn a_member_that_tells_the_parties_different_things_is_cut_alone() {
    for seed in 0..4 {
        let mut world = World::new(6, seed);
        for number in 0..8_u8 {
            let from = [0, 2, 3][usize::from(number) % 3];
            world.announce(from, &[b'd', number], &[1, 4, 5], b"honest");
        }
        world.settle();
        let ended = world.status(0).counters.pairs_ended;

        // New ones, one that takes the place of a route that is
        // current, and one that is taken back at once.
        world.announce(1, b"shared", &[4, 5], b"before");
        world.settle();
        tells_them_different_things(&mut world);
        world.announce(1, b"shared", &[4, 5], b"after");
        world.announce(1, b"forged", &[4, 5], b"forged");
        world.steps(30);
        if world.is_connected(1, 0) {
            world.withdraw(1, b"forged");
        }
        world.settle();
        assert_eq!(world.failed.first().map(|(lane, _)| *lane), Some(1));

        // It comes back, and does it again: every time it
        // alone is cut, and what others say arrives.
        for number in 0..5_u8 {
            world.failed.clear();
            [0, 2].into_iter().for_each(|server| world.connect(1, server));
            world.announce(1, &[b'f', number], &[4], b"forged again");
            world.announce(2, &[b'e', number], &[4], b"meanwhile");
            world.settle();
            assert!(world.failed.iter().all(|(lane, _)| *lane == 1));
            assert!(!world.failed.is_empty());
            let offered = world.offered(4);
            assert!(
                offered.iter().any(|(to, from, ..)| *from == 2 && to.as_bytes() == [b'e', number])
            );
            assert!(!offered.iter().any(|(to, from, ..)| *from == 1 && to.as_bytes()[0] == b'f'));
        }

        // After it has gone others join, and leave, and nobody is held up.
        world.stop_member(1);
        world.pass(Duration::from_secs(40));
        world.start_member(5, true);
        world.pass(Duration::from_secs(1));
        let routes = |world: &World| world.offered(5).iter().filter(|it| it.3 == b"honest").count();
        assert_eq!(routes(&world), 8);
        assert_eq!(world.offered(5).iter().filter(|(_, from, ..)| *from == 1).count(), 0);
        assert_eq!(world.status(0).counters.pairs_ended, ended, "the pair went on");
        assert_eq!(world.status(2).counters.pairs_ended, 0);
    }
}

#[test]
fn a_silent_member_costs_others_less_and_less() {
    let mut world = World::new(4, 5);
    world.announce(0, b"d", &[2, 3], b"zero");
    world.announce(1, b"d", &[2, 3], b"one");
    world.settle();
    world.mute[3] = true;
    let begun = world.now;
    // In each step the routes change, and member 2 is to have a result.
    let mut waited = Duration::ZERO;
    for number in 0..40_u8 {
        let id = world.announce(0, b"d", &[2, 3], &[number]);
        world.settle();
        while world.selected(2, b"d") != Some(Some(id)) {
            world.pass(Duration::from_millis(100));
            waited += Duration::from_millis(100);
        }
        world.pass(Duration::from_secs(1));
    }
    // It was waited for after 2 s, 4, 8 and 16 more: of 40 rounds
    // in 40 s five took the time that is allowed.
    assert!(world.now - begun > Duration::from_secs(40));
    assert!(waited <= 6 * world.config.ranking, "{waited:?}");

    // Once it answers again its ranking counts, at the latest when it is waited for.
    world.mute[3] = false;
    world.pass(Duration::from_secs(60));
    let id = world.announce(0, b"d", &[2, 3], b"last");
    world.settle();
    assert_eq!(world.selected(3, b"d"), Some(Some(id)));
}
