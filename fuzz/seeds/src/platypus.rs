//! Examples of Platypus: stamped packets of each suite and carriage, a capability file.

use std::net::IpAddr;

use rhumb_capability::{
    Capability, Credential, Delegations, Encapsulation, Epoch, EpochKeys, Flags, HeaderView,
    KeyRecord, Master, PacketIds, Principal, Scheme, Stamper, Suite, Window, file,
};

pub(crate) fn examples() -> Vec<Vec<u8>> {
    let mut examples = Vec::new();
    for suite in Suite::ALL {
        let v4 = credential([192, 0, 2, 1].into(), suite);
        let v6 = credential([0x20; 16].into(), suite);
        for (credential, packet) in [(&v4, &v4_packet()[..]), (&v6, &v6_packet()[..])] {
            let header = stamped(credential, packet, Encapsulation::Datagram);
            assert!(HeaderView::parse(&header).is_ok(), "an example does not parse");
            examples.push(header);
            examples.push(stamped(credential, packet, Encapsulation::IP));
            examples.push(stamped(credential, packet, Encapsulation::UDP));
        }
        let text = file::encode(&v4);
        assert!(file::decode(&text).is_ok(), "an example does not parse");
        examples.push(text.as_bytes().to_vec());
    }
    examples.push(v4_packet());
    examples
}

fn record(waypoint: IpAddr, suite: Suite) -> KeyRecord {
    let capability = Capability {
        waypoint,
        principal: Principal(7),
        flags: Flags::NONE,
        window: Window(0),
        epoch: Epoch(0),
        suite,
        scheme: Scheme::CaveatChain,
        delegations: Delegations::default(),
    };
    let keys = EpochKeys::new(Epoch(0), &Master::new([1; Master::LEN]));
    keys.mint(capability, 2048).expect("an undelegated capability of this epoch")
}

/// Delegated once, so that there is a level to change.
fn credential(waypoint: IpAddr, suite: Suite) -> Credential {
    let own = Credential::from(record(waypoint, suite));
    let everywhere = if waypoint.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
    let id = rhumb_capability::DelegationId::new(5).expect("24 bits");
    own.delegate(everywhere.parse().expect("a prefix"), id).expect("the first level")
}

fn stamped(credential: &Credential, packet: &[u8], encapsulation: Encapsulation) -> Vec<u8> {
    let stamper = Stamper::new(&[credential, credential], encapsulation).expect("one suite");
    let mut buffer = vec![0; stamper.headroom()];
    buffer.extend_from_slice(packet);
    let range = stamper.headroom()..buffer.len();
    let stamped = stamper.stamp(&mut buffer, range, &mut PacketIds::new(0, 0), 0);
    buffer[stamped.expect("there is room")].to_vec()
}

fn v4_packet() -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 24, 0, 0, 0x40, 0, 64, 17, 0, 0];
    packet.extend_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2, 1, 2, 3, 4]);
    packet
}

fn v6_packet() -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 4, 17, 64];
    packet.extend_from_slice(&[1; 16]);
    packet.extend_from_slice(&[2; 16]);
    packet.extend_from_slice(&[1, 2, 3, 4]);
    packet
}
