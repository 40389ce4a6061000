//! The test vectors of `docs/vectors`: every message of the protocol, and
//! what must be refused, made by the code itself.
//!
//! Each module makes one file. The test compares the files with what the code makes now; `cargo
//! xtask vectors` writes them. The independent client in `tests/python` checks the same files with
//! its own encoders and decoders. Vectors of the key schedule and of sealed records are made in
//! `rhumb-link`, where the secrets are.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic")]

mod certificates;
mod chains;
mod datagrams;
mod file;
mod log;
mod messages;
mod names;
mod parties;
mod payloads;
mod pdus;
mod rib;

use file::File;
use parties::Parties;

#[test]
fn names_and_metadata() {
    check("names.json", names::write);
}

#[test]
fn statements() {
    check("certificates.json", certificates::write);
}

#[test]
fn chains_of_statements() {
    check("chains.json", chains::write);
}

#[test]
fn clear_bytes_of_datagrams() {
    check("datagrams.json", datagrams::write);
}

#[test]
fn pdus_of_every_action() {
    check("pdus.json", pdus::write);
}

#[test]
fn answers_of_a_hop() {
    check("messages.json", messages::write);
}

#[test]
fn requests_and_responses_of_a_rib() {
    check("rib.json", rib::write);
}

#[test]
fn heads_and_ways_of_a_log() {
    check("log.json", log::write);
}

#[test]
fn payloads_and_transfers() {
    check("payloads.json", payloads::write);
}

#[test]
fn discovery() {
    check("discovery.json", datagrams::write_discovery);
}

/// Compares one file with what `write` makes, or writes it.
#[track_caller]
fn check(name: &str, write: fn(&Parties, &mut File)) {
    let mut file = File::default();
    write(&Parties::new(), &mut file);
    file.check(name);
}
