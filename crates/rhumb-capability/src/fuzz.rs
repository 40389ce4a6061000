//! Properties for the fuzzer and for tests: no input makes a waypoint
//! panic or grow, and what is read is written alike.

use std::net::IpAddr;

use crate::{
    Carriage, Credential, Encapsulation, Epoch, EpochKeys, HeaderView, KeyRecord, Master, Packet,
    PacketIds, Stamper, Verdict, Verifier, VerifierConfig, file,
};

/// `HeaderView::parse`, `Verifier::verify_batch` in all carriages, `file::decode`.
pub fn platypus(data: &[u8]) {
    if let Ok(view) = HeaderView::parse(data) {
        for index in 0..view.count() {
            let _ = (view.waypoint(index), view.delegations(index), view.binding(index));
        }
        assert_eq!([view.header(), view.payload()].concat(), data);
    }
    verify(data);
    stamp(data);
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(credential) = file::decode(text)
    {
        assert_eq!(*file::encode(&credential), text);
    }
}

/// Nobody knows the key, so nothing passes; and a packet that is dropped is as it was.
fn verify(data: &[u8]) {
    let addresses: [IpAddr; 2] = [[192, 0, 2, 1].into(), [0x20; 16].into()];
    let mut config = VerifierConfig::new(addresses.to_vec());
    (config.packets_per_s, config.accounts) = (1, 1);
    let Ok(mut verifier) = Verifier::new(config) else { return };
    verifier.install_epoch(EpochKeys::new(Epoch(0), &Master::new([0x5A; Master::LEN])));
    let datagram = |destination| Carriage::Datagram { destination, hop_limit: 9, traffic_class: 0 };
    for carriage in [Carriage::Ip, datagram(addresses[0]), datagram(addresses[1])] {
        let mut arena = data.to_vec();
        let mut packets = [Packet::new(0, data.len(), carriage)];
        verifier.verify_batch(&mut arena, &mut packets, 0);
        assert!(matches!(packets[0].verdict, Verdict::Drop(_)));
        assert_eq!(arena, data);
    }
}

/// What is no packet is refused, and everything else is stamped so that it parses.
fn stamp(data: &[u8]) {
    let Some(record) = example_record() else { return };
    let credential = Credential::from(record);
    let Ok(stamper) = Stamper::new(&[&credential], Encapsulation::Datagram) else { return };
    let mut buffer = vec![0; stamper.headroom()];
    buffer.extend_from_slice(data);
    let packet = stamper.headroom()..buffer.len();
    if let Ok(stamped) = stamper.stamp(&mut buffer, packet, &mut PacketIds::new(0, 0), 0) {
        assert!(HeaderView::parse(&buffer[stamped]).is_ok());
    }
}

fn example_record() -> Option<KeyRecord> {
    let capability = crate::Capability {
        waypoint: [192, 0, 2, 1].into(),
        principal: crate::Principal(7),
        flags: crate::Flags::NONE,
        window: crate::Window(0),
        epoch: Epoch(0),
        suite: crate::Suite::HeaderSip,
        scheme: crate::Scheme::CaveatChain,
        delegations: crate::Delegations::default(),
    };
    EpochKeys::new(Epoch(0), &Master::new([1; Master::LEN])).mint(capability, 0).ok()
}
