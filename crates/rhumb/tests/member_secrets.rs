//! What a real proxy says to each party, message by message, is the same in worlds that
//! differ in its policy alone: while its router announces, a site is added to the
//! roster, policies change, and the proxy begins anew.
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use rhumb_exchange::Party;

use crate::exchanging::Exchange;
use crate::exchanging::member::roster_of;
use crate::exchanging::parties::{Frame, Parties};
use crate::exchanging::proxy::{self, Settings};
use crate::exchanging::router::{EXCHANGE_AS, Router, attributes};

/// The proxy that is watched.
const PROXY: u16 = 2;
/// In the roster at first; another comes later.
const SITES: usize = 4;

/// What nobody is to learn.
#[derive(Debug, Clone, Copy, Default)]
struct Secrets {
    /// Who may have its routes: at first, and from the change of policies on.
    export: [&'static str; 2],
    /// What it takes.
    import: &'static str,
    /// Communities of every other route of its router.
    communities: &'static [(u32, u32, u32)],
    /// Whether others let it have their routes.
    gets_routes: bool,
}

const OPEN: Secrets = Secrets { export: ["", ""], import: "", communities: &[], gets_routes: true };

/// A message of the proxy as a party sees it that does not look into its
/// shares: kind, length, and of words the destination.
type Seen = (u8, usize, Option<Vec<u8>>);

fn seen(frame: &Frame) -> Seen {
    let bytes = &frame.bytes;
    // Kind, shard, mark; announcements have a nonce then.
    let at = match bytes[0] {
        1 | 2 => Some(3 + 16 + 16),
        3 => Some(3 + 16),
        _ => None,
    };
    let destination = at.map(|at| {
        let len = usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        bytes[at + 2..at + 2 + len].to_vec()
    });
    (bytes[0], bytes.len(), destination)
}

/// Words and answers of a connection, each in their order.
type View = [Vec<Seen>; 2];

fn view(frames: &[Frame], party: Party) -> View {
    let of_proxy = frames.iter().filter(|it| it.is_proxys && it.party == party).map(seen);
    // A hello begins with an R.
    of_proxy.partition(|(kind, ..)| matches!(kind, 1..=4 | b'R')).into()
}

/// Lives through all that can happen, and gives what each party has seen of it.
fn live(secrets: &Secrets) -> [View; 2] {
    let exchange = Exchange::new(SITES + 1);
    exchange.write_roster("roster.toml", 0..SITES);
    let parties = Parties::start(&exchange, SITES);
    parties.act(|core| [0, 1, 3].into_iter().for_each(|lane| core.start_member(lane)));
    let others = |number: u8| {
        let to: &[u16] = if secrets.gets_routes { &[PROXY] } else { &[] };
        for from in [0, 1] {
            let attributes = attributes(64500 + u32::from(from), &[64700], &[]);
            let route = [&[1, 10, 0, 0, from as u8][..], attributes.canonical()].concat();
            parties.announce(from, vec![0, 4, 24, 10, 1, number], to, route);
            parties.wait_for_quiet();
        }
    };
    let (router, servers) = (Router::start(PROXY), parties.servers(&exchange));
    let settings = |at: usize| Settings {
        servers: &servers,
        router: Some(router.address),
        export: secrets.export[at],
        import: secrets.import,
        ..Settings::default()
    };
    let mut proxy = proxy::start(&exchange, PROXY, &settings(0));
    proxy.wait_for("table", |status| status["exchange"]["synced"] == true);
    parties.wait_for_quiet();
    let announce = |third: u32, tail: u32| {
        let orders = if third.is_multiple_of(2) { secrets.communities } else { &[] };
        router.announce(&format!("10.9.{third}.0/24"), &[tail], orders);
    };
    // One after the other, so that in each world the router sends them in this order.
    for third in [5, 2, 8, 1, 9, 4, 7, 6] {
        let heard = |frames: &[Frame]| view(frames, Party::One)[0].len();
        let before = heard(&parties.frames());
        announce(third, 64800);
        parties.wait_for("announcement", |frames| (heard(frames) > before).then_some(()));
    }
    others(1);

    // A site more, of which the servers hear first.
    let longer = std::sync::Arc::new(roster_of(&exchange, SITES + 1));
    parties.act(move |core| core.set_roster(longer));
    parties.wait_for_quiet();
    exchange.write_roster("roster.toml", 0..=SITES);
    proxy.running.nudge("HUP");
    parties.wait_for_quiet();
    others(2);

    // Other policies, and the same once more.
    for reloads in [2, 3] {
        proxy::configure(&exchange, PROXY, &settings(1));
        proxy.running.nudge("HUP");
        proxy.wait_for("reload", |status| status["reloads"] == reloads);
        parties.wait_for_quiet();
    }
    others(3);

    // Begun anew, the router has all that it had: which it sends together where it is alike.
    proxy.running.kill();
    proxy = proxy::start_again(&exchange, PROXY);
    let announces = |count: usize| {
        proxy.wait_for("announcements", |status| {
            let exchange = &status["exchange"];
            exchange["synced"] == true && exchange["announced_routes"] == count
        });
        parties.wait_for_quiet();
    };
    announces(8);
    announce(3, 64801);
    announces(9);
    router.withdraw("10.9.2.0/24");
    router.withdraw("10.9.3.0/24");
    announces(7);
    let status = proxy.status();
    let offered = if secrets.gets_routes { 6 } else { 0 };
    assert_eq!(status["routes"]["offered"], offered, "{status:#}");
    assert_eq!(status["routes"]["own"], 7, "{status:#}");
    let frames = parties.frames();
    [Party::One, Party::Two].map(|party| view(&frames, party))
}

#[test]
fn what_a_proxy_says_and_in_which_order_tells_neither_party_its_policy() {
    let worlds = [
        (
            "the newcomer may have nothing",
            Secrets { export: ["except = [\"AS64504\"]"; 2], ..OPEN },
        ),
        ("nobody may have anything", Secrets { export: ["only = [\"AS64599\"]"; 2], ..OPEN }),
        (
            "policies change",
            Secrets { export: ["", "except = [\"AS64501\", \"AS64504\"]"], ..OPEN },
        ),
        ("some are for nobody", Secrets { communities: &[(EXCHANGE_AS, 0, 0)], ..OPEN }),
        (
            "it takes nothing",
            Secrets { import: "[[member.import.rule]]\naction = \"reject\"", ..OPEN },
        ),
        ("it may have nothing of others", Secrets { gets_routes: false, ..OPEN }),
    ];
    let lives = std::thread::scope(|scope| {
        let all = std::iter::once(&OPEN).chain(worlds.iter().map(|(_, secrets)| secrets));
        let threads: Vec<_> = all.map(|secrets| scope.spawn(|| live(secrets))).collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect::<Vec<_>>()
    });
    let open = &lives[0];
    let count = |kind: u8| open[0].iter().flatten().filter(|it| it.0 == kind).count();
    // Eight routes at first, with the roster, twice with
    // policies, and by another process; and one more.
    assert_eq!((count(1), count(3)), (5 * 8 + 1, 2));
    assert!(count(7) >= 3 && count(5) >= 3, "{} and {} answers", count(7), count(5));
    for ((what, _), other) in worlds.iter().zip(&lives[1..]) {
        for (party, (open, other)) in (1..).zip(open.iter().zip(other)) {
            for (kind, (open, other)) in ["words", "answers"].iter().zip(open.iter().zip(other)) {
                let first = open.iter().zip(other).position(|(left, right)| left != right);
                let at = first.map(|at| (at, &open[at], &other[at]));
                assert_eq!((at, open.len()), (None, other.len()), "{what}: party {party}, {kind}");
            }
        }
    }
}
