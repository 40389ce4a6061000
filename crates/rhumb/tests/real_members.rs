//! Real routers behind proxies get what a plain route server with the same policies would give them.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

mod members;
#[path = "../../rhumb-io/tests/wire/mod.rs"]
mod wire;

use members::baseline::Baseline;
use members::{Lan, MEMBERS, Member, SERVER, expect_tables, oracle};

#[test]
fn a_plain_route_server_gives_what_the_oracle_says() {
    let Some(mut lan) = Lan::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let _server = Baseline::start(&mut lan, folder.path());
    let mut all: Vec<Member> = (0..MEMBERS.len())
        .map(|index| Member::new(&mut lan, index, SERVER, folder.path()))
        .collect();
    all.iter_mut().for_each(Member::start);
    let expected = oracle::tables(all.iter(), all.iter(), None);
    let routes: usize = expected.values().map(|table| table.len()).sum();
    println!("{routes} routes at {} members", all.len());
    expect_tables("at the beginning", all.iter(), &expected);
}
