//! What the servers see, on whole servers: the same for all secrets, in length,
//! number and order; and nothing that a simulator without the secrets does not make
//! as well, as far as a trained distinguisher can tell.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use rhumb_exchange::{Form, Party};

use crate::world::{Random, SERVERS, Way, World, small};

const LANES: usize = 6;
const ONE: usize = 0;
const TWO: usize = 2;

/// All that members and party one keep to themselves.
#[derive(Clone)]
struct Secrets {
    /// By announcement: whom it is for, and what it says.
    policies: Vec<Vec<u16>>,
    routes: Vec<Vec<u8>>,
    /// By member and announcer.
    likings: Vec<Vec<u8>>,
    loads: Vec<u8>,
}

const ANNOUNCEMENTS: usize = 14;

impl Secrets {
    fn drawn(seed: u64) -> Self {
        let mut random = Random(seed);
        let mut policies = Vec::new();
        let mut routes = Vec::new();
        for _ in 0..ANNOUNCEMENTS {
            policies.push((0..LANES as u16).filter(|_| random.below(2) == 0).collect());
            let len = random.below(60);
            routes.push((0..len).map(|_| random.word() as u8).collect());
        }
        let mut preferences = || (0..LANES).map(|_| random.below(16) as u8).collect::<Vec<u8>>();
        let likings = (0..LANES).map(|_| preferences()).collect();
        Self { likings, loads: preferences(), policies, routes }
    }
}

/// The same public history with any secrets: who announces
/// and withdraws what, when; who comes and goes.
fn history(secrets: &Secrets, form: Form) -> World {
    let mut world = World::with(small(LANES, form, 1), 21);
    world.tap = Some(Vec::new());
    world.prefer(&secrets.loads);
    for (lane, liking) in secrets.likings.iter().enumerate() {
        let liking = liking.clone();
        world.rank_by(lane as u16, move |candidate| liking[usize::from(candidate.from.0)]);
    }
    for (number, (policy, bytes)) in secrets.policies.iter().zip(&secrets.routes).enumerate() {
        let from = (number % 4) as u16;
        let to = [b'd', (number % 3) as u8];
        world.announce(from, &to, policy, bytes);
        world.steps(25);
        match number {
            5 => world.connect(5, ONE),
            8 => world.withdraw(0, &[b'd', 2]),
            9 => world.connect(4, TWO),
            11 => world.start_member(5, true),
            _ => {}
        }
    }
    world.settle();
    world
}

/// Who sent what kind, how long, in order.
fn shape(world: &World) -> Vec<(Way, u8, usize)> {
    let tap = world.tap.as_ref().unwrap();
    tap.iter().map(|(_, way, frame)| (*way, frame[0], frame.len())).collect()
}

#[test]
fn lengths_numbers_and_order_of_messages_do_not_depend_on_secrets() {
    for form in [Form::TopClass, Form::Index] {
        let first = history(&Secrets::drawn(1), form);
        let shapes = shape(&first);
        assert!(shapes.len() > 500, "{}", shapes.len());
        for seed in 2..6 {
            // Ids are digests of what is sealed, too, and what
            // is handed out together is in their order.
            let mut secrets = Secrets::drawn(seed);
            secrets.routes.clone_from(&Secrets::drawn(1).routes);
            let other = history(&secrets, form);
            assert!(shape(&other) == shapes, "{form:?}, secrets {seed}");
            let held =
                |world: &World| (0..6).map(|lane| world.offered(lane).len()).collect::<Vec<_>>();
            assert_ne!(held(&first), held(&other), "the secrets make a difference to members");
        }
    }
    // A longer route is of another class, and that is seen.
    let mut longer = Secrets::drawn(1);
    longer.routes[0] = vec![0; 200];
    assert!(
        shape(&history(&longer, Form::TopClass))
            != shape(&history(&Secrets::drawn(1), Form::TopClass))
    );
}

/// What routes say makes other ids, and nothing else; one is announced after the other here.
#[test]
fn lengths_numbers_and_order_of_messages_do_not_depend_on_what_routes_say() {
    let shapes = |secrets: &Secrets| {
        let mut world = World::with(small(LANES, Form::TopClass, 1), 27);
        world.tap = Some(Vec::new());
        for (number, bytes) in secrets.routes.iter().enumerate() {
            world.announce((number % 4) as u16, &[(number % 3) as u8], &[4, 5], bytes);
            world.settle();
        }
        shape(&world)
    };
    let first = shapes(&Secrets::drawn(1));
    assert!(first.len() > 500, "{}", first.len());
    assert!((2..6).all(|seed| shapes(&Secrets::drawn(seed)) == first));
}

/// With the members' coins fixed, what party one gets from them is the same to
/// the byte, whatever policies and rankings are: seeds, masks, and sealed
/// routes that say nothing of whom they are for.
#[test]
fn what_members_send_to_party_one_does_not_depend_on_policies_and_rankings() {
    let from_members = |world: &World| {
        let tap = world.tap.as_ref().unwrap();
        let frames = tap
            .iter()
            .filter(|(server, way, _)| *server == ONE && matches!(way, Way::ToServer { .. }));
        frames.map(|(_, _, frame)| frame.clone()).collect::<Vec<_>>()
    };
    let first = Secrets::drawn(1);
    let mut second = Secrets::drawn(2);
    second.routes.clone_from(&first.routes);
    let frames = from_members(&history(&first, Form::TopClass));
    assert!(frames.len() > 60, "{}", frames.len());
    assert!(frames == from_members(&history(&second, Form::TopClass)));
    second.routes[0] = vec![1; first.routes[0].len()];
    assert!(frames != from_members(&history(&second, Form::TopClass)));
}

/// Views of one announcement and of the round that follows it, one for each of two secrets or of a
/// simulator: bits of what a server got.
fn views(server: usize, count: usize, mut secret: impl FnMut(usize) -> Vec<u16>) -> Vec<Vec<f32>> {
    let mut world = World::with(small(LANES, Form::TopClass, 1), 22);
    world.announce(1, b"d", &[2, 3], b"to choose from");
    world.settle();
    let mut views = Vec::new();
    for number in 0..count {
        world.tap = Some(Vec::new());
        world.announce(0, b"d", &secret(number), b"always the same");
        world.settle();
        let tap = world.tap.take().unwrap();
        let mut view = Vec::new();
        for (at, way, frame) in &tap {
            let is_announcement = matches!(way, Way::ToServer { .. }) && [1, 2].contains(&frame[0]);
            // The engine's header and tag are public: 3 bytes, 26 and 96.
            let is_level =
                matches!(way, Way::ToPeer { .. }) && frame[0] == 1 && frame.get(4) == Some(&5);
            if *at == server && (is_announcement || is_level) {
                let secret_from = if is_level { 3 + 26 + 96 } else { 3 + 16 };
                view.extend(frame[secret_from..].iter().take(170).flat_map(|byte| {
                    (0..8).map(move |bit| if byte >> bit & 1 == 1 { 1.0 } else { -1.0 })
                }));
            }
        }
        assert!(view.len() > 1000, "{}", view.len());
        views.push(view);
    }
    views
}

/// Sparse logistic regression by gradient descent: what does not stand out of the noise
/// of so many bits gets no weight, so that a single bit that leaks is found. Gives the
/// share of unseen samples that it tells apart.
fn accuracy(samples: &[(Vec<f32>, bool)]) -> f64 {
    const STEP: f32 = 0.5;
    /// A bit that means nothing moves its weight by 0.03 at
    /// random, the worst of some thousands by 0.1.
    const NOISE: f32 = 0.1;
    let (train, test) = samples.split_at(samples.len() / 2);
    let mut weights = vec![0.0_f32; samples[0].0.len()];
    let score = |weights: &[f32], sample: &[f32]| -> f32 {
        weights.iter().zip(sample).map(|(weight, value)| weight * value).sum()
    };
    for _ in 0..60 {
        let mut slope = vec![0.0_f32; weights.len()];
        for (sample, label) in train {
            let guess = 1.0 / (1.0 + (-score(&weights, sample)).exp());
            let miss = (f32::from(u8::from(*label)) - guess) / train.len() as f32;
            slope.iter_mut().zip(sample).for_each(|(slope, value)| *slope += miss * value);
        }
        for (weight, slope) in weights.iter_mut().zip(slope) {
            let moved = *weight + STEP * slope;
            *weight = (moved.abs() - STEP * NOISE).max(0.0).copysign(moved);
        }
    }
    let right = test.iter().filter(|(sample, label)| (score(&weights, sample) > 0.0) == *label);
    right.count() as f64 / test.len() as f64
}

/// Of 300 unseen samples, a coin is right in 150 with a deviation of 8.7: within five.
fn is_a_coin(accuracy: f64) -> bool {
    (accuracy - 0.5).abs() < 0.15
}

const SAMPLES: usize = 600;

#[test]
fn a_trained_distinguisher_does_not_tell_policies_apart() {
    for server in [ONE, TWO] {
        let mut random = Random(23);
        let labels: Vec<bool> = (0..SAMPLES).map(|_| random.below(2) == 0).collect();
        let all: Vec<u16> = (1..LANES as u16).collect();
        let views =
            views(server, SAMPLES, |number| if labels[number] { all.clone() } else { Vec::new() });
        let samples: Vec<_> = views.into_iter().zip(labels).collect();
        let accuracy = accuracy(&samples);
        assert!(is_a_coin(accuracy), "{:?}: {accuracy}", SERVERS[server]);
    }
}

/// A simulator knows the lengths, and draws everything else.
#[test]
fn a_trained_distinguisher_does_not_tell_a_simulator_from_a_server() {
    for server in [ONE, TWO] {
        let mut random = Random(24);
        let real = views(server, SAMPLES / 2, |number| vec![1, (number % 5) as u16]);
        let (len, mut samples) = (real[0].len(), Vec::new());
        // Bits that are public, and the same in all real views, are given to the simulator.
        let public: Vec<Option<f32>> = (0..len)
            .map(|at| real.iter().all(|view| view[at] == real[0][at]).then_some(real[0][at]))
            .collect();
        for view in real {
            samples.push((view, true));
            let draw = |known: &Option<f32>| {
                known.unwrap_or(if random.below(2) == 0 { 1.0 } else { -1.0 })
            };
            samples.push((public.iter().map(draw).collect(), false));
        }
        let accuracy = accuracy(&samples);
        assert!(is_a_coin(accuracy), "{:?}: {accuracy}", SERVERS[server]);
    }
}

/// The distinguisher finds a leak where there is one: a policy that is not masked.
#[test]
fn the_distinguisher_sees_a_leak() {
    let mut random = Random(25);
    let labels: Vec<bool> = (0..SAMPLES).map(|_| random.below(2) == 0).collect();
    let mut views = views(TWO, SAMPLES, |number| vec![1 + u16::from(labels[number])]);
    for (view, label) in views.iter_mut().zip(&labels) {
        // One bit in a thousand that is right three times of four.
        view[100] = if (random.below(4) > 0) == *label { 1.0 } else { -1.0 };
    }
    let samples: Vec<_> = views.into_iter().zip(labels).collect();
    assert!(!is_a_coin(accuracy(&samples)));
}

/// Each word of triples is used once: both parties have used as
/// many as the runs take, no more and no fewer.
#[test]
fn triples_are_used_as_often_as_runs_take_them() {
    let mut world = history(&Secrets::drawn(1), Form::TopClass);
    for _ in 0..3 {
        for from in 0..4 {
            world.announce(from, b"more", &[5], &[from as u8]);
        }
        world.settle();
        let [one, two] = [ONE, TWO].map(|server| world.status(server));
        assert_eq!(one.counters.exported, two.counters.exported);
        assert_eq!(one.counters.selected, two.counters.selected);
        // Handing out takes none. A round of two places takes 3
        // words for up to 64 lanes, one of four takes 8.
        assert_eq!([one, two].map(|status| status.stock.vector_words_used), [0, 0]);
        let (used, selected) = (one.stock.bit_words_used, one.counters.selected);
        assert_eq!(used, two.stock.bit_words_used);
        assert!((3 * selected..=8 * selected).contains(&used), "{used} {selected}");
        assert!(selected > 5);
    }
}

/// Who can put together what: each coalition of parties and members
/// against each secret. The page says the same.
#[test]
fn coalitions_learn_what_the_page_says_and_no_more() {
    let text = include_str!("../../../docs/exchange-privacy.md");
    let rows: Vec<Vec<&str>> = text
        .lines()
        .skip_while(|line| !line.starts_with("| coalition"))
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let secrets = &rows[0][1..];
    let mut checked = 0;
    for row in &rows[2..] {
        let coalition: Vec<&str> = row[0].split(" + ").collect();
        for (secret, stated) in secrets.iter().zip(&row[1..]) {
            let [left, right] = [false, true].map(|flip| learned(&coalition, secret, flip));
            let found = if left == right { "-" } else { "learns" };
            assert_eq!(found, *stated, "{coalition:?}: {secret}");
            checked += 1;
        }
    }
    assert_eq!(checked, 9 * 5);
}

/// What a coalition sees in one of two worlds that differ in a secret, with all coins the same,
/// less what is masked or sealed by coins of others. Member 0 (in one case 4) announces to members
/// 1 and 2, then member 3 does. The coalition's members are 1 and 5, the outsider is 2.
fn learned(coalition: &[&str], secret: &str, flip: bool) -> Vec<Vec<u8>> {
    let (mut policy, mut bytes, mut liking, mut loads) =
        (vec![1, 2], "zero", 1, [1, 0, 0, 2, 0, 0]);
    let mut announcer = 0;
    match secret {
        "policy toward an outsider" => policy.truncate(if flip { 1 } else { 2 }),
        "route that none of them may have" => {
            policy = vec![2];
            bytes = if flip { "flip" } else { "zero" };
        }
        "ranking of an outsider" => liking = if flip { 9 } else { 1 },
        "port load, beyond results" if flip => loads = [2, 0, 0, 1, 0, 0],
        "port load, beyond results" => {}
        "announcer of a route that none of them may have" => {
            policy = vec![2];
            announcer = if flip { 4 } else { 0 };
        }
        _ => panic!("the page has another secret: {secret}"),
    }
    let mut world = World::with(small(LANES, Form::TopClass, 1), 26);
    world.tap = Some(Vec::new());
    world.prefer(&loads);
    world.rank_by(1, |candidate| if candidate.from.0 == 3 { 5 } else { 1 });
    world.rank_by(2, move |candidate| if candidate.from.0 == 3 { 5 } else { liking });
    world.settle();
    world.announce(announcer, b"d", &policy, bytes.as_bytes());
    world.settle();
    world.announce(3, b"d", &[1, 2], b"three");
    world.settle();

    let mut learned = Vec::new();
    let has = |who: &str| coalition.contains(&who);
    if has("party one") {
        learned.push(loads.to_vec());
    }
    if has("announcer") {
        learned.push(
            [&[announcer as u8], bytes.as_bytes(), format!("{policy:?}").as_bytes()].concat(),
        );
    }
    // Each connection in its order.
    let mut tap = world.tap.take().unwrap();
    tap.sort_by_key(|(_, way, _)| *way);
    for (server, way, frame) in &tap {
        let party = if SERVERS[*server] == Party::One { "party one" } else { "party two" };
        let (is_theirs, open) = match way {
            // Kind, shard, mark, nonce, destination, and party one's seed with the number of lanes.
            // A sealed route, its digest and party two's shares are not looked at.
            Way::ToServer { .. } if frame[0] == 1 => (has(party), 3 + 16 + 16 + 2 + 1 + 16 + 2),
            Way::ToServer { .. } if frame[0] == 2 => (has(party), 3 + 16 + 16 + 2 + 1),
            // Party one's share of a ranking is a mask, party two's is masked.
            Way::ToServer { .. } if frame[0] == 7 && *server == TWO => (has(party), 3 + 16),
            Way::ToServer { .. } => (has(party), frame.len()),
            Way::ToPeer { .. } => (has(party), 3),
            Way::ToMember { lane, .. } => {
                ((*lane == 1 && has("member")) || (*lane == 5 && has("another member")), 3)
            }
        };
        if is_theirs {
            let seen = format!("{way:?} {} {:?}", frame.len(), &frame[..open.min(frame.len())]);
            learned.push(seen.into_bytes());
        }
    }
    for (who, lane) in [("member", 1), ("another member", 5)] {
        if has(who) {
            learned.push(
                format!("{:?} {:?}", world.offered(lane), world.selected(lane, b"d")).into_bytes(),
            );
        }
    }
    if has("party one") && has("party two") {
        learned.extend(put_together(&tap));
    }
    learned
}

/// What both parties open together: the outsider's key of the first route, the
/// route if it is none, and the outsider's ranking.
fn put_together(tap: &[(usize, Way, Vec<u8>)]) -> [Vec<u8>; 3] {
    let frame = |server, way: &dyn Fn(&Way) -> bool, kind: u8| {
        let is_it = |(at, found, frame): &&(usize, Way, Vec<u8>)| {
            *at == server && way(found) && frame[0] == kind
        };
        tap.iter().find(is_it).map(|(.., frame)| frame.clone()).unwrap()
    };
    let add = |left: &[u8], right: &[u8]| -> Vec<u8> {
        left.iter().zip(right).map(|(left, right)| left ^ right).collect()
    };
    let to_two = |way: &Way| matches!(way, Way::ToMember { lane: 2, .. });
    let from_two = |way: &Way| matches!(way, Way::ToServer { lane: 2, .. });
    // After kind, shard, tag, count and id; an offer has more before its share.
    let (offer, share) = (frame(ONE, &to_two, 3), frame(TWO, &to_two, 4));
    let key = add(&offer[39 + 17..39 + 33], &share[39..39 + 16]);
    let sealed = if key == [0; 16] { Vec::new() } else { offer[39 + 33..].to_vec() };
    let ranking = add(&frame(ONE, &from_two, 7)[19..], &frame(TWO, &from_two, 7)[19..]);
    [key, sealed, ranking]
}

/// Lanes are dealt in turn, so that all have their share of each
/// run; members must not see the order of the deal.
#[test]
fn the_order_of_offers_tells_no_announcers() {
    let mut config = small(8, Form::TopClass, 1);
    config.batch = 16;
    let mut world = World::with(config, 3);
    world.settle();
    world.tap = Some(Vec::new());
    for number in 0..24_u8 {
        for from in 0..7 {
            world.announce(from, &[number, from as u8], &[], b"for nobody");
        }
    }
    world.settle();
    // Of an offer: kind, shard, tag, their number; each begins with its id, and a byte and an id of
    // what it replaces follow, a share, and the sealed route.
    let mut runs = 0;
    for (_, way, frame) in world.tap.take().unwrap() {
        if !matches!(way, Way::ToMember { lane: 7, server: 0 }) || frame[0] != 3 {
            continue;
        }
        let ids = offered_ids(&frame);
        assert!(ids.is_sorted(), "in the order of digests");
        runs += usize::from(ids.len() > 4);
    }
    assert!(runs > 5, "{runs} runs of several");
}

fn offered_ids(frame: &[u8]) -> Vec<[u8; 16]> {
    let (mut ids, mut rest) = (Vec::new(), &frame[3 + 16 + 4..]);
    while let Some((id, tail)) = rest.split_first_chunk::<16>() {
        ids.push(*id);
        let head = 1 + 16 + 16;
        let len = usize::from(u16::from_le_bytes([tail[head], tail[head + 1]]));
        rest = &tail[head + 2 + len..];
    }
    ids
}
