//! Examples of messages between BGP speakers, as the target takes them: a
//! choice, then messages without their markers.

use std::time::Instant;

use rhumb_bgp::config::GracefulRestart;
use rhumb_bgp::wire::{
    AsPath, AsPathSegment, Ipv4Prefix, Ipv6Prefix, LargeCommunity, Origin, PathAttribute, Prefix,
};
use rhumb_bgp::{
    Attributes, Config, Family, FamilyConfig, NextHop, Session, Side, State, Transmit,
};

/// What a speaker says once it is up, for a few choices of the target.
pub(crate) fn examples() -> Vec<Vec<u8>> {
    [0u8, 1, 2, 4, 32].map(|choice| [&[choice][..], &said(choice & 1 != 0)].concat()).to_vec()
}

fn said(add_path: bool) -> Vec<u8> {
    let now = Instant::now();
    let config = |ours, theirs: u32| {
        let mut config = Config::new(ours, [10, 0, 0, ours as u8].into(), theirs);
        let paths = FamilyConfig {
            add_path_receive: add_path,
            add_path_send: add_path,
            max_prefixes: None,
        };
        config.set_family(Family::Ipv4, Some(paths));
        let time = std::time::Duration::from_secs(60);
        config.graceful_restart =
            Some(GracefulRestart { restart_time: time, stale_time: time, restarting: false });
        config
    };
    let session =
        |ours, theirs| Session::new(config(ours, theirs), 1).expect("a sound configuration");
    let (mut one, mut two) = (session(64500, 64501), session(64501, 64500));
    one.start(now);
    two.start(now);
    fill(&mut one, now);
    let ends = (one.connected(Side::Outgoing, now), two.connected(Side::Incoming, now));
    let (Some(end), Some(other)) = ends else { unreachable!("both wait for a connection") };
    let mut said = Vec::new();
    loop {
        let messages = [one.poll_transmit(now), two.poll_transmit(now)];
        if messages == [None, None] {
            break;
        }
        let [from_one, from_two] = messages;
        if let Some(Transmit::Send(_, bytes)) = from_one {
            if one.state() == State::Established {
                said.extend(u16::try_from(bytes.len() - 19).expect("a message").to_be_bytes());
                said.extend_from_slice(&bytes[18..]);
            }
            two.handle_bytes(other, &bytes, now);
        }
        if let Some(Transmit::Send(_, bytes)) = from_two {
            one.handle_bytes(end, &bytes, now);
        }
    }
    assert_eq!((two.state(), two.count_in(Family::Ipv4)), (State::Established, 2));
    said
}

fn fill(session: &mut Session, now: Instant) {
    let segments = vec![AsPathSegment::AsSequence(vec![64500, 4_200_000_000])];
    let list = [
        PathAttribute::Origin(Origin::Igp),
        PathAttribute::AsPath(AsPath { segments }),
        PathAttribute::Med(7),
        PathAttribute::AtomicAggregate,
        PathAttribute::Communities(vec![64_500 << 16 | 1]),
        PathAttribute::LargeCommunities(vec![LargeCommunity::new(64500, 0, 1)]),
    ];
    let hops = [
        NextHop::V4([192, 0, 2, 1].into()),
        NextHop::V6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into(), None),
    ];
    let prefixes = [
        Prefix::V4(Ipv4Prefix::new([10, 1, 0, 0].into(), 16)),
        Prefix::V6(Ipv6Prefix::new([0x2001, 0xdb8, 1, 0, 0, 0, 0, 0].into(), 48)),
        Prefix::V4(Ipv4Prefix::new([10, 2, 3, 0].into(), 24)),
    ];
    for (number, prefix) in prefixes.into_iter().enumerate() {
        let attributes =
            Attributes::new(hops[number % 2], &list[..6 - number]).expect("attributes");
        session.announce(prefix, 0, &attributes, now).expect("it may be sent");
    }
}
