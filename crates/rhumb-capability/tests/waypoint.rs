//! What a waypoint tells by ICMP, and what it does not: its own errors for proven
//! packets alone, and those of others handed to the original source, with the original
//! packet in them where the quoted one is proven.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use rhumb_capability::{
    Credential, DropReason, Encapsulation, EpochKeys, ErrorRelay, Family, IcmpDrop, IcmpSent, Next,
    Packet, Revocation, Revocations, Stamper, Suite, Undelivered, Verdict, Waypoint, core_of,
    into_udp, is_icmp,
};

use crate::world::{
    EPOCH, NOW_US, PRINCIPAL, config, credential, destination, header_at, ip_packet, ip_packet_to,
    master, set_checksum, source, stamp_with, stamped, waypoint,
};

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

fn first(family: Family) -> Waypoint {
    let mut first = Waypoint::new(config(family, 1)).unwrap();
    first.install_epoch(EpochKeys::new(EPOCH, &master(1)));
    first
}

fn relay(family: Family) -> ErrorRelay {
    let mut relay = ErrorRelay::new(&config(family, 1)).unwrap();
    relay.install_epoch(EpochKeys::new(EPOCH, &master(1)));
    relay
}

/// What a waypoint makes of a packet, and what it replies.
fn handle(waypoint: &mut Waypoint, packet: &[u8]) -> (Verdict, Vec<u8>, Vec<Vec<u8>>) {
    let (mut arena, mut replies) = (packet.to_vec(), Vec::new());
    let mut packets = [Packet::new(0, packet.len(), rhumb_capability::Carriage::Ip)];
    waypoint.handle_batch(&mut arena, &mut packets, NOW_US, |reply| replies.push(reply.to_vec()));
    let Packet { start, len, verdict, .. } = packets[0];
    (verdict, arena[start..start + len].to_vec(), replies)
}

/// A packet that waypoint 1 has sent on to waypoint 2.
fn sent_on(family: Family, suite: Suite, payload: &[u8]) -> Vec<u8> {
    let credentials = [credential(family, 1, suite), credential(family, 2, suite)];
    let credentials: Vec<&Credential> = credentials.iter().collect();
    let packet = stamped(&credentials, &ip_packet(family, payload));
    let (verdict, sent, _) = handle(&mut first(family), &packet);
    assert!(
        matches!(verdict, Verdict::Forward(it) if it.next == Next::Waypoint(waypoint(family, 2)))
    );
    sent
}

/// What a router on the way says about the first bytes of a packet.
fn says(family: Family, kind: u8, code: u8, rest: [u8; 4], quote: &[u8]) -> Vec<u8> {
    let mut icmp = vec![kind, code, 0, 0];
    icmp.extend_from_slice(&rest);
    icmp.extend_from_slice(quote);
    let mut packet = match family {
        Family::V4 => {
            let mut packet = ip_packet(family, &icmp);
            packet[12..16].copy_from_slice(&[203, 0, 113, 9]);
            packet[16..20].copy_from_slice(&quote[12..16]);
            packet[9] = 1;
            set_checksum(&mut packet);
            packet
        }
        Family::V6 => {
            let mut packet = ip_packet(family, &icmp);
            packet[24..40].copy_from_slice(&quote[8..24]);
            packet[6] = 58;
            packet
        }
    };
    set_icmp_checksum(family, &mut packet);
    packet
}

fn sum(family: Family, packet: &[u8]) -> u16 {
    let icmp = &packet[header_at(family)..];
    let mut bytes = icmp.to_vec();
    if family == Family::V6 {
        bytes.extend_from_slice(&packet[8..40]);
        bytes.extend_from_slice(&[0, 0, 0, 58]);
        bytes.extend_from_slice(&(icmp.len() as u32).to_be_bytes());
    }
    // The pseudo-header is behind: all its words are whole only if the message's are.
    assert!(family == Family::V4 || icmp.len().is_multiple_of(2));
    let words =
        bytes.chunks(2).map(|w| u64::from(w[0]) << 8 | w.get(1).map_or(0, |b| u64::from(*b)));
    let mut sum: u64 = words.sum();
    while sum > 0xFFFF {
        sum = (sum >> 16) + (sum & 0xFFFF);
    }
    sum as u16
}

fn set_icmp_checksum(family: Family, packet: &mut [u8]) {
    let at = header_at(family) + 2;
    packet[at..at + 2].fill(0);
    let checksum = !sum(family, packet);
    packet[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}

fn too_big(family: Family, mtu: u16) -> (u8, u8, [u8; 4]) {
    let [high, low] = mtu.to_be_bytes();
    if family == Family::V4 { (3, 4, [0, 0, high, low]) } else { (2, 0, [0, 0, high, low]) }
}

fn relayed(relay: &mut ErrorRelay, message: &[u8], now_us: u64) -> Option<Vec<u8>> {
    let mut out = None;
    relay.handle(message, now_us, |reply| out = Some(reply.to_vec()));
    assert!(out.as_ref().is_none_or(|out| out.len() <= message.len()), "it grew");
    out
}

/// A message is to the original source, sound, and quotes the packet that
/// the source sent, but for its hop limit and id.
#[track_caller]
fn is_about(family: Family, message: &[u8], kind: u8, original: &[u8]) {
    let at = header_at(family);
    assert!(is_icmp(message));
    assert_eq!((sum(family, message), message[at]), (0xFFFF, kind));
    let (from, to) = match family {
        Family::V4 => (&message[12..16], &message[16..20]),
        Family::V6 => (&message[8..24], &message[24..40]),
    };
    let octets = |address: std::net::IpAddr| match address {
        std::net::IpAddr::V4(v4) => v4.octets().to_vec(),
        std::net::IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    assert_eq!((from, to), (&octets(waypoint(family, 1))[..], &octets(source(family))[..]));
    let mut quote = message[at + 8..].to_vec();
    let mut expected = original[..quote.len()].to_vec();
    let hops = if family == Family::V4 { 8 } else { 7 };
    (quote[hops], expected[hops]) = (0, 0);
    if family == Family::V4 {
        quote[4..6].fill(0);
        quote[10..12].fill(0);
        expected[10..12].fill(0);
    }
    assert_eq!(quote, expected);
}

#[test]
fn a_proven_packet_out_of_hops_is_answered_and_no_other() {
    for family in FAMILIES {
        let mut original = ip_packet(family, &[5; 200]);
        original[if family == Family::V4 { 8 } else { 7 }] = 1;
        if family == Family::V4 {
            set_checksum(&mut original);
        }
        let mut core = first(family);
        let packet = stamped(&[&credential(family, 1, Suite::HeaderAes)], &original);
        let (verdict, _, replies) = handle(&mut core, &packet);
        assert_eq!(verdict, Verdict::Drop(DropReason::TtlExpired));
        assert_eq!(replies.len(), 1);
        assert!(replies[0].len() <= packet.len());
        is_about(family, &replies[0], if family == Family::V4 { 11 } else { 3 }, &original);
        assert_eq!(core.dropped().collect::<Vec<_>>(), [(PRINCIPAL, 1)]);
        let mut forged = packet;
        let last = header_at(family) + if family == Family::V4 { 43 } else { 79 };
        forged[last] ^= 1;
        let (verdict, _, replies) = handle(&mut core, &forged);
        assert_eq!((verdict, replies.len()), (Verdict::Drop(DropReason::Binding), 0));
        assert_eq!(core.icmp().count_sent(IcmpSent::TimeExceeded), 1);
    }
}

#[test]
fn answers_are_limited_and_never_about_errors() {
    let family = Family::V4;
    let mut core = first(family);
    let stamper =
        Stamper::new(&[&credential(family, 1, Suite::HeaderAes)], Encapsulation::IP).unwrap();
    let mut original = ip_packet(family, &[8; 60]);
    original[8] = 1;
    let mut replies = 0;
    for n in 0..100 {
        let packet = stamp_with(&stamper, &original, NOW_US - n);
        replies += handle(&mut core, &packet).2.len();
    }
    assert_eq!((replies, core.icmp().count_dropped(IcmpDrop::RateLimited)), (6, 94));
    // An echo request may be answered, an error may not.
    for (kind, answers) in [(8, 1), (3, 0), (11, 0)] {
        let mut core = first(family);
        (original[9], original[20]) = (1, kind);
        let packet = stamp_with(&stamper, &original, NOW_US + u64::from(kind));
        assert_eq!(handle(&mut core, &packet).2.len(), answers, "{kind}");
        assert_eq!(core.icmp().count_dropped(IcmpDrop::AboutAnError), 1 - answers as u64);
    }
}

#[test]
fn a_too_big_on_the_way_reaches_the_source_as_its_own_packets() {
    for family in FAMILIES {
        for suite in [Suite::HeaderAes, Suite::HeaderSip] {
            let sent = sent_on(family, suite, &[7; 1200]);
            let (kind, code, rest) = too_big(family, 1300);
            let quoted = if family == Family::V4 { 548 } else { 1232 };
            let message = says(family, kind, code, rest, &sent[..quoted.min(sent.len())]);
            let mut relay = relay(family);
            let out = relayed(&mut relay, &message, NOW_US + 1000).expect("a translation");
            is_about(family, &out, kind, &ip_packet(family, &[7; 1200]));
            let at = header_at(family);
            let mtu = u16::from_be_bytes([out[at + 6], out[at + 7]]);
            let overhead = if family == Family::V4 { 24 + 2 * 20 } else { 48 + 2 * 32 };
            assert_eq!(mtu, 1300 - overhead);
            // Once for each packet, and never what is made up.
            assert_eq!(relayed(&mut relay, &message, NOW_US + 2000), None);
            let mut forged = message.clone();
            // A byte of the packet's id.
            forged[at + 8 + at + if family == Family::V4 { 20 } else { 44 }] ^= 1;
            set_icmp_checksum(family, &mut forged);
            assert_eq!(relayed(&mut relay, &forged, NOW_US + 2000), None);
            let why =
                [IcmpDrop::Repeated, IcmpDrop::Forged].map(|it| relay.counters().count_dropped(it));
            assert_eq!(why, [1, 1]);
        }
    }
}

#[test]
fn what_is_quoted_in_short_is_passed_on_as_it_is() {
    let sent = sent_on(Family::V4, Suite::HeaderAes, &[7; 400]);
    let unreachable = |quote: &[u8]| says(Family::V4, 3, 1, [0; 4], quote);
    let mut relay = relay(Family::V4);
    // RFC 792: the header and 64 bits, which hold the original source.
    let out = relayed(&mut relay, &unreachable(&sent[..28]), NOW_US).expect("a message");
    assert_eq!((&out[16..20], &out[28..]), (&[10, 0, 0, 1][..], &sent[..28]));
    assert_eq!(relayed(&mut relay, &unreachable(&sent[..27]), NOW_US), None);
    assert_eq!(relay.counters().count_dropped(IcmpDrop::ShortQuote), 1);
    // A binding over the whole packet cannot be proven by a part, nor one that is over.
    let whole = sent_on(Family::V4, Suite::PacketPolyval, &[7; 900]);
    assert!(relayed(&mut relay, &unreachable(&whole[..548]), NOW_US).is_some());
    assert!(relayed(&mut relay, &unreachable(&sent), NOW_US + 4_000_000).is_some());
    let sent = [IcmpSent::PassedOn, IcmpSent::Translated].map(|it| relay.counters().count_sent(it));
    assert_eq!(sent, [3, 0]);
}

#[test]
fn messages_that_are_not_about_us_are_dropped() {
    let family = Family::V4;
    let sent = sent_on(family, Suite::HeaderAes, &[7; 100]);
    let mut relay = relay(family);
    let mut check = |message: &[u8], why| {
        let before = relay.counters().count_dropped(why);
        assert_eq!(relayed(&mut relay, message, NOW_US), None);
        assert_eq!(relay.counters().count_dropped(why), before + 1, "{why:?}");
    };
    check(&says(family, 8, 0, [0; 4], &sent), IcmpDrop::NoError);
    let mut wrong = says(family, 3, 1, [0; 4], &sent);
    wrong[40] ^= 1;
    check(&wrong, IcmpDrop::Malformed);
    let mut other = sent.clone();
    other[9] = 6;
    check(&says(family, 3, 1, [0; 4], &other), IcmpDrop::NotOurs);
    let mut other = sent.clone();
    other[12] ^= 1;
    check(&says(family, 3, 1, [0; 4], &other), IcmpDrop::NotOurs);
    let mut nobody = sent.clone();
    nobody[24..28].copy_from_slice(&[127, 0, 0, 1]);
    check(&says(family, 3, 1, [0; 4], &nobody), IcmpDrop::NoHost);
    // The pointer of a packet that the stamper sent.
    let mut rewound = sent.clone();
    rewound[23] = 0;
    check(&says(family, 3, 1, [0; 4], &rewound), IcmpDrop::NotOurs);
    let mut own = says(family, 3, 4, [0, 0, 5, 0], &sent);
    let (from, to) = own[12..20].split_at_mut(4);
    from.copy_from_slice(to);
    check(&own, IcmpDrop::OwnKernel);
}

#[test]
fn what_does_not_fit_the_next_link_is_told_to_its_source() {
    for family in FAMILIES {
        let mut core = first(family);
        let original = ip_packet(family, &[7; 1200]);
        let tell = |core: &mut Waypoint, packet: &[u8], next| {
            let mut replies = Vec::new();
            let why = Undelivered::TooBig { mtu: 1290 };
            core.handle_undelivered(packet, next, why, NOW_US, |reply| {
                replies.push(reply.to_vec());
            });
            replies
        };
        let sent = sent_on(family, Suite::PacketPolyval, &[7; 1200]);
        let replies = tell(&mut core, &sent, Next::Waypoint(waypoint(family, 2)));
        is_about(family, &replies[0], if family == Family::V4 { 3 } else { 2 }, &original);
        let at = header_at(family);
        let overhead = if family == Family::V4 { 64 } else { 112 };
        assert_eq!(replies[0][at + 6..at + 8], (1290_u16 - overhead).to_be_bytes());
        let replies = tell(&mut core, &original, Next::Destination(destination(family)));
        is_about(family, &replies[0], if family == Family::V4 { 3 } else { 2 }, &original);
        assert_eq!(replies[0][at + 6..at + 8], 1290_u16.to_be_bytes());
        if family == Family::V4 {
            let mut may_be_cut = original.clone();
            may_be_cut[6] = 0;
            let replies = tell(&mut core, &may_be_cut, Next::Destination(destination(family)));
            assert!(replies.is_empty());
            assert_eq!(core.icmp().count_dropped(IcmpDrop::MayBeCut), 1);
        }
    }
}

#[test]
fn nothing_goes_to_what_is_no_host_or_to_this_one() {
    let family = Family::V4;
    for to in ["127.0.0.1", "224.0.0.1", "255.255.255.255", "0.0.0.0", "169.254.1.1", "10.99.0.1"] {
        let mut config = config(family, 1);
        config.refused_destinations = vec!["10.99.0.1".parse().unwrap()];
        let mut core = Waypoint::new(config).unwrap();
        core.install_epoch(EpochKeys::new(EPOCH, &master(1)));
        let original = ip_packet_to(family, &[1; 30], to.parse().unwrap());
        let packet = stamped(&[&credential(family, 1, Suite::HeaderAes)], &original);
        let (verdict, _, replies) = handle(&mut core, &packet);
        assert_eq!(verdict, Verdict::Drop(DropReason::Unroutable), "{to}");
        assert_eq!((replies.len(), core.accounts().total().packets), (0, 0));
    }
}

#[test]
fn suites_that_are_not_allowed_are_refused() {
    let mut config = config(Family::V4, 1);
    config.suites = vec![Suite::HeaderAes];
    let mut core = Waypoint::new(config).unwrap();
    core.install_epoch(EpochKeys::new(EPOCH, &master(1)));
    for suite in Suite::ALL {
        let packet =
            stamped(&[&credential(Family::V4, 1, suite)], &ip_packet(Family::V4, &[1; 30]));
        let verdict = handle(&mut core, &packet).0;
        let is_taken = matches!(verdict, Verdict::Forward(_));
        assert_eq!(is_taken, suite == Suite::HeaderAes);
        assert!(is_taken || verdict == Verdict::Drop(DropReason::Suite));
    }
}

#[test]
fn a_packet_goes_on_in_udp_and_belongs_to_the_same_core() {
    for family in FAMILIES {
        let sent = sent_on(family, Suite::HeaderAes, &[7; 101]);
        let mut buffer = vec![0; 8];
        buffer.extend_from_slice(&sent);
        let range = into_udp(&mut buffer, 8..8 + sent.len(), 7470).unwrap();
        assert_eq!((range.start, range.end), (0, 8 + sent.len()));
        assert_eq!(into_udp(&mut buffer, range.clone(), 7470), None, "no room, and UDP already");
        for cores in [1, 2, 5] {
            assert_eq!(core_of(&sent, 7470, cores), core_of(&buffer[range.clone()], 7470, cores));
        }
        let mut second = Waypoint::new(config(family, 2)).unwrap();
        second.install_epoch(EpochKeys::new(EPOCH, &master(2)));
        let (verdict, mut out, _) = handle(&mut second, &buffer[range]);
        assert!(matches!(verdict, Verdict::Forward(_)), "{verdict:?}");
        let mut original = ip_packet(family, &[7; 101]);
        let hops = if family == Family::V4 { 8 } else { 7 };
        assert_eq!(out[hops] + 2, original[hops]);
        (out[hops], original[hops]) = (0, 0);
        if family == Family::V4 {
            out[10..12].fill(0);
            original[10..12].fill(0);
        }
        assert_eq!(out, original);
    }
}

#[test]
fn any_bytes_are_relayed_or_refused() {
    let mut relay = relay(Family::V4);
    let sent = sent_on(Family::V4, Suite::HeaderAes, &[7; 40]);
    let message = says(Family::V4, 3, 1, [0; 4], &sent);
    for at in 20..message.len() {
        for value in [0, 1, 0x7F, 0xFF] {
            let mut changed = message.clone();
            changed[at] = value;
            set_icmp_checksum(Family::V4, &mut changed);
            relayed(&mut relay, &changed, NOW_US);
        }
    }
    for len in 0..message.len() {
        relayed(&mut relay, &message[..len], NOW_US);
    }
}

#[test]
fn each_address_has_epochs_of_its_own() {
    let family = Family::V4;
    let mut config = config(family, 1);
    config.addresses.push(waypoint(family, 2));
    let mut core = Waypoint::new(config).unwrap();
    let keys = |number| EpochKeys::new(EPOCH, &master(number));
    core.install_epoch_for(waypoint(family, 1), keys(1));
    core.install_epoch_for(waypoint(family, 2), keys(2));
    let takes = |core: &mut Waypoint, number, nth: u8| {
        let packet = ip_packet(family, &[nth; 30]);
        let packet = stamped(&[&credential(family, number, Suite::PacketPolyval)], &packet);
        handle(core, &packet).0
    };
    assert!(matches!(takes(&mut core, 1, 1), Verdict::Forward(_)));
    assert!(matches!(takes(&mut core, 2, 2), Verdict::Forward(_)));
    // The third of an address drives out its first, and nothing of another one's.
    for number in [10, 11] {
        let epoch = rhumb_capability::Epoch(number);
        core.install_epoch_for(waypoint(family, 1), EpochKeys::new(epoch, &master(1)));
    }
    assert_eq!(takes(&mut core, 1, 3), Verdict::Drop(DropReason::Epoch));
    assert!(matches!(takes(&mut core, 2, 4), Verdict::Forward(_)));
    core.retire_epoch_for(waypoint(family, 2), EPOCH);
    assert_eq!(takes(&mut core, 2, 5), Verdict::Drop(DropReason::Epoch));
    assert_eq!(core.live_epochs().count(), 2);
}

/// Whoever was revoked is told so, and nobody else: not about a packet whose binding is wrong,
/// never with more bytes than it sent, and seldom.
#[test]
fn who_was_revoked_is_told_if_it_proves_to_be_that_one() {
    for family in FAMILIES {
        let packet =
            stamped(&[&credential(family, 1, Suite::HeaderAes)], &ip_packet(family, &[7; 64]));
        let mut revocations = Revocations::new();
        let order = Revocation { principal: PRINCIPAL, delegation: None, until_s: u64::MAX };
        revocations.apply(1, &[order]).unwrap();
        let mut waypoint = first(family);
        waypoint.set_revocations(Arc::new(revocations));

        let (verdict, left, replies) = handle(&mut waypoint, &packet);
        assert_eq!(verdict, Verdict::Drop(DropReason::Revoked));
        assert_eq!(left, packet, "it stays as it was");
        let [told] = &replies[..] else { panic!("{} messages", replies.len()) };
        let kind = if family == Family::V4 { 3 } else { 1 };
        is_about(family, told, kind, &ip_packet(family, &[7; 64]));
        let code = if family == Family::V4 { 13 } else { 1 };
        assert_eq!(told[header_at(family) + 1], code);
        assert!(told.len() <= packet.len(), "{} bytes for {}", told.len(), packet.len());
        assert_eq!(waypoint.icmp().count_sent(IcmpSent::Prohibited), 1);

        let mut forged = packet.clone();
        let last = forged.len() - 65;
        forged[last] ^= 1;
        let (verdict, _, replies) = handle(&mut waypoint, &forged);
        assert_eq!((verdict, replies.len()), (Verdict::Drop(DropReason::Binding), 0));

        let told = (0..100).map(|_| handle(&mut waypoint, &packet).2.len()).sum::<usize>();
        assert!(told <= 6, "{told} messages at once");
        assert!(waypoint.icmp().count_dropped(IcmpDrop::RateLimited) > 90);
        assert!(
            waypoint.dropped().any(|(principal, count)| principal == PRINCIPAL && count == 101)
        );
    }
}

#[test]
fn who_asks_the_waypoint_itself_is_answered_once_and_with_no_more_than_was_sent() {
    for family in FAMILIES {
        let (kinds, protocol) = if family == Family::V4 { ([8, 0], 1) } else { ([128, 129], 58) };
        let own = waypoint(family, 1);
        let mut config = config(family, 1);
        config.refused_destinations = vec![own];
        let mut core = Waypoint::new(config).unwrap();
        core.install_epoch(EpochKeys::new(EPOCH, &master(1)));
        let asks = |kind: u8| {
            let mut question = ip_packet_to(family, &[kind, 0, 0, 0, 1, 2, 3, 4, 9, 9], own);
            question[if family == Family::V4 { 9 } else { 6 }] = protocol;
            if family == Family::V4 {
                set_checksum(&mut question);
            }
            set_icmp_checksum(family, &mut question);
            stamped(&[&credential(family, 1, Suite::HeaderAes)], &question)
        };
        let question = asks(kinds[0]);
        let mut forged = question.clone();
        *forged.last_mut().unwrap() ^= 1;
        forged[header_at(family) + 8] ^= 1;
        assert_eq!(handle(&mut core, &forged).2, Vec::<Vec<u8>>::new());

        let (verdict, _, replies) = handle(&mut core, &question);
        assert_eq!(verdict, Verdict::Drop(DropReason::Echo));
        let [reply] = &replies[..] else { panic!("{replies:?}") };
        assert!(reply.len() < question.len() && is_icmp(reply));
        assert_eq!(reply[header_at(family)..][..2], [kinds[1], 0]);
        assert_eq!(reply[header_at(family) + 4..], [1, 2, 3, 4, 9, 9]);
        let [from, to] = if family == Family::V4 { [12..16, 16..20] } else { [8..24, 24..40] };
        let bytes = |address: std::net::IpAddr| match address {
            std::net::IpAddr::V4(it) => it.octets().to_vec(),
            std::net::IpAddr::V6(it) => it.octets().to_vec(),
        };
        assert_eq!((&reply[from], &reply[to]), (&bytes(own)[..], &bytes(source(family))[..]));
        assert_eq!(sum(family, reply), 0xFFFF);

        // A repetition is none, nor is an answer a question; and it is on nobody's bill.
        let (verdict, _, replies) = handle(&mut core, &question);
        assert_eq!((verdict, replies.len()), (Verdict::Drop(DropReason::Replay), 0));
        let (verdict, _, replies) = handle(&mut core, &asks(kinds[1]));
        assert_eq!((verdict, replies.len()), (Verdict::Drop(DropReason::Unroutable), 0));
        assert_eq!(core.accounts().total().packets, 0);
        assert_eq!(core.icmp().count_sent(IcmpSent::EchoReply), 1);
    }
}

#[test]
fn answers_to_one_host_are_bounded() {
    let family = Family::V4;
    let own = waypoint(family, 1);
    let mut config = config(family, 1);
    config.refused_destinations = vec![own];
    let mut core = Waypoint::new(config).unwrap();
    core.install_epoch(EpochKeys::new(EPOCH, &master(1)));
    let stamper =
        Stamper::new(&[&credential(family, 1, Suite::HeaderAes)], Encapsulation::IP).unwrap();
    let mut question = ip_packet_to(family, &[8, 0, 0xF7, 0xFF, 0, 0, 0, 0], own);
    question[9] = 1;
    set_checksum(&mut question);
    let answered: usize = (0..100)
        .map(|us| handle(&mut core, &stamp_with(&stamper, &question, NOW_US + us)).2.len())
        .sum();
    assert_eq!(answered, 6);
    assert_eq!(core.icmp().count_dropped(IcmpDrop::RateLimited), 94);
}
