//! Sealed records, byte for byte. The vectors are made here, and again by the model in Python
//! (`tests/python/test_platypus.py`) from `docs/keyserver.md` alone.
//!
//! `RHUMB_WRITE_VECTORS=1` writes them, as `cargo xtask vectors` does.

#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::net::IpAddr;
use std::path::Path;

use data_encoding::HEXLOWER;
use rhumb_capability::{
    Capability, Delegations, Epoch, EpochKeys, Flags, Master, Principal, Scheme, Suite, Window,
};
use rhumb_keyserver::question::KeyQuestion;
use rhumb_keyserver::record::{SharedKey, seal};
use serde_json::{Value, json};

const ZONE: &str = "_k.example.net";
const MASTER: [u8; Master::LEN] = [7; Master::LEN];
const KEY: [u8; SharedKey::LEN] = [200; SharedKey::LEN];
const NOT_AFTER_S: u64 = 1_700_003_600;

#[test]
fn the_vectors_say_what_the_code_does() {
    let waypoints: [IpAddr; 2] = ["192.0.2.2".parse().unwrap(), "2001:db8::2".parse().unwrap()];
    let all = waypoints.into_iter().flat_map(|it| Suite::ALL.map(|suite| vector(it, suite)));
    let made: Value = all.collect();
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/vectors/platypus/records.json");
    if std::env::var_os("RHUMB_WRITE_VECTORS").is_some() {
        std::fs::write(&path, format!("{made:#}\n")).unwrap();
    }
    let stored: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(made, stored, "docs/vectors/platypus/records.json says otherwise than the code");
}

fn vector(waypoint: IpAddr, suite: Suite) -> Value {
    let capability = Capability {
        waypoint,
        principal: Principal(7),
        flags: Flags::NONE,
        window: Window(830_078),
        epoch: Epoch(3),
        suite,
        scheme: Scheme::CaveatChain,
        delegations: Delegations::default(),
    };
    let master = Master::new(MASTER);
    let record = EpochKeys::new(capability.epoch, &master).mint(capability, NOT_AFTER_S).unwrap();
    let Capability { principal, flags, window, epoch, scheme, .. } = capability;
    let name = format!("{}.{ZONE}", KeyQuestion { waypoint, principal, flags, window }.label());
    let sealed = seal(&record, &SharedKey::new(KEY), &name).unwrap();
    json!({
        "form": "key record",
        "name": format!("{waypoint}, {suite}"),
        "hex": HEXLOWER.encode(&sealed),
        "fields": {
            "suite": suite.number(),
            "waypoint": waypoint,
            "principal": principal.0,
            "window": window.0,
            "epoch": epoch.0,
            "scheme": scheme.number(),
            "delegations": [],
            "master": HEXLOWER.encode(&MASTER),
            "not_after": NOT_AFTER_S,
            "key": HEXLOWER.encode(&KEY),
            "zone": ZONE,
            "query name": name,
        },
    })
}
