//! Against an independent model in Python (`tests/python/rhumb/platypus.py`), both ways: vectors
//! that this crate makes and the model makes again (`tests/python/test_platypus.py`), and packets
//! that the model stamps and this crate verifies.
//!
//! `RHUMB_WRITE_VECTORS=1` writes the vectors, as `cargo xtask vectors` does.

#![allow(clippy::unwrap_used, reason = "a test's helpers may panic")]

use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use data_encoding::HEXLOWER;
use rhumb_capability::{
    Carriage, Credential, Encapsulation, Epoch, EpochKeys, Family, HeaderView, Master, Packet,
    PacketIds, ReferenceSchemes, Scheme, Stamper, Suite, Verdict, Verifier, VerifierConfig,
    WindowClock,
};
use serde_json::{Value, json};

use crate::world::*;

#[test]
fn the_vectors_say_what_the_code_does() {
    let mut vectors = Vec::new();
    for family in [Family::V4, Family::V6] {
        for suite in Suite::ALL {
            for count in 1..=4 {
                let credentials: Vec<_> =
                    (1..=count).map(|n| delegated(family, n, suite, usize::from(4 - n))).collect();
                let name = format!("{family:?}, {suite}, {count} capabilities");
                vectors.push(packet_vector(&name, family, &credentials));
            }
        }
    }
    for suite in Suite::ALL {
        for scheme in [Scheme::BitChain, Scheme::Xor] {
            let own = mint(capability(Family::V4, 1, suite, scheme), 1);
            let level = delegation("10.20.0.0/17", 0xABCDEF);
            let delegated = own.delegate(level.prefix, level.id).unwrap();
            let name = format!("{suite}, {scheme}");
            vectors.push(packet_vector(&format!("{name}, own"), Family::V4, &[own]));
            vectors.push(packet_vector(&format!("{name}, delegated"), Family::V4, &[delegated]));
        }
    }
    let made = Value::Array(vectors);
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/vectors/platypus/packets.json");
    if std::env::var_os("RHUMB_WRITE_VECTORS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, format!("{made:#}\n")).unwrap();
    }
    let stored: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    for (made, stored) in made.as_array().unwrap().iter().zip(stored.as_array().unwrap()) {
        assert_eq!(made, stored, "docs/vectors/platypus/packets.json says otherwise than the code");
    }
    assert_eq!(made, stored, "there are more or fewer vectors than the code makes");
}

fn packet_vector(name: &str, family: Family, credentials: &[Credential]) -> Value {
    let all: Vec<&Credential> = credentials.iter().collect();
    let stamper = Stamper::new(&all, Encapsulation::Datagram).unwrap();
    let original = ip_packet(family, b"seventeen bytes!!");
    let stamped = stamp_in(&stamper, &original, &mut PacketIds::new(5, 77), NOW_US);
    let view = HeaderView::parse(&stamped).unwrap();
    let capabilities: Vec<Value> = credentials.iter().map(capability_fields).collect();
    json!({
        "form": "stamped packet",
        "name": name,
        "hex": HEXLOWER.encode(&stamped),
        "fields": {
            "suite": view.suite().number(),
            "source": view.source(),
            "destination": view.destination(),
            "protocol": view.protocol(),
            "do_not_fragment": view.do_not_fragment(),
            "id": HEXLOWER.encode(&view.id().0.to_be_bytes()),
            "payload": HEXLOWER.encode(view.payload()),
            "capabilities": capabilities,
        },
    })
}

fn capability_fields(credential: &Credential) -> Value {
    let capability = credential.capability();
    let number = match capability.waypoint {
        IpAddr::V4(v4) => v4.octets()[3],
        IpAddr::V6(v6) => v6.octets()[15],
    };
    let delegations: Vec<Value> = capability
        .delegations
        .iter()
        .map(|level| json!([level.prefix.to_string(), level.id.as_u32()]))
        .collect();
    json!({
        "waypoint": capability.waypoint,
        "principal": capability.principal.0,
        "window": capability.window.0,
        "epoch": capability.epoch.0,
        "scheme": capability.scheme.number(),
        "delegations": delegations,
        "master": HEXLOWER.encode(master(number).expose()),
    })
}

#[test]
fn what_the_model_stamps_is_taken() {
    let window = WindowClock::default().at(NOW_US);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/python");
    let mut command = Command::new("python3");
    command.current_dir(folder).args(["-m", "rhumb.platypus", "2004", "60"]);
    command.args([NOW_US.to_string(), window.0.to_string()]);
    let output = match command.output() {
        Ok(output) if output.status.success() => output.stdout,
        Ok(output) if String::from_utf8_lossy(&output.stderr).contains("ModuleNotFoundError") => {
            println!("skipped: what_the_model_stamps_is_taken: no Python package `cryptography`");
            return;
        }
        Err(error) => {
            println!("skipped: what_the_model_stamps_is_taken: python3: {error}");
            return;
        }
        Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
    };
    let packets: Vec<Value> = serde_json::from_slice(&output).unwrap();
    assert_eq!(packets.len(), 60);
    for packet in &packets {
        all_waypoints_take(packet);
    }
}

fn all_waypoints_take(packet: &Value) {
    let mut arena = HEXLOWER.decode(packet["hex"].as_str().unwrap().as_bytes()).unwrap();
    let payload = packet["fields"]["payload"].as_str().unwrap();
    let capabilities = packet["fields"]["capabilities"].as_array().unwrap();
    let (mut start, mut len) = (0, arena.len());
    for capability in capabilities {
        let waypoint: IpAddr = capability["waypoint"].as_str().unwrap().parse().unwrap();
        let mut config = VerifierConfig::new(vec![waypoint]);
        (config.packets_per_s, config.accounts) = (100, 10);
        config.reference_schemes = ReferenceSchemes::BitChainAndXor;
        let mut verifier = Verifier::new(config).unwrap();
        let master = HEXLOWER.decode(capability["master"].as_str().unwrap().as_bytes()).unwrap();
        let epoch = Epoch(capability["epoch"].as_u64().unwrap() as u8);
        let master = Master::new(master.try_into().unwrap());
        verifier.install_epoch(EpochKeys::new(epoch, &master));
        let carriage =
            Carriage::Datagram { destination: waypoint, hop_limit: 50, traffic_class: 0 };
        let mut packets = [Packet::new(start, len, carriage)];
        verifier.verify_batch(&mut arena, &mut packets, NOW_US);
        let Verdict::Forward(advanced) = packets[0].verdict else {
            panic!("{:?}: {packet:#}", packets[0].verdict);
        };
        let principal = u64::from(advanced.account.principal.0);
        assert_eq!(Some(principal), capability["principal"].as_u64());
        (start, len) = (packets[0].start, packets[0].len);
    }
    let delivered = &arena[start..start + len];
    assert!(HEXLOWER.encode(delivered).ends_with(payload));
}
