//! Real routers behind proxies get what a plain route server with the same policies would give them.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

mod harness;
mod members;
#[path = "../../rhumb-io/tests/wire/mod.rs"]
mod wire;

use std::collections::BTreeMap;
use std::path::Path;

use members::baseline::Baseline;
use members::private::{Private, proxy_address};
use members::{Lan, MEMBERS, Member, SERVER, Table, expect_tables, oracle};

/// All members' routers, told to speak with their proxies.
fn routers(lan: &mut Lan, folder: &Path) -> Vec<Member> {
    let member = |index| Member::new(lan, index, &proxy_address(index), folder);
    (0..MEMBERS.len()).map(member).collect()
}

/// What each has from a plain route server.
fn baseline() -> Option<BTreeMap<usize, Table>> {
    let mut lan = Lan::new()?;
    let folder = tempfile::tempdir().unwrap();
    let _server = Baseline::start(&mut lan, folder.path());
    let mut all: Vec<Member> = (0..MEMBERS.len())
        .map(|index| Member::new(&mut lan, index, SERVER, folder.path()))
        .collect();
    all.iter_mut().for_each(Member::start);
    let expected = oracle::tables(all.iter(), all.iter(), None);
    expect_tables("a plain route server", all.iter(), &expected);
    Some(all.iter().map(|member| (member.index, member.received())).collect())
}

#[test]
fn a_plain_route_server_gives_what_the_oracle_says() {
    let Some(tables) = baseline() else { return };
    let routes: usize = tables.values().map(BTreeMap::len).sum();
    println!("{routes} routes at {} members", tables.len());
}

#[test]
fn behind_proxies_routers_get_what_a_plain_route_server_gives() {
    let Some(recorded) = baseline() else { return };
    let Some(mut lan) = Lan::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut private = Private::new(&mut lan, false);
    [0, 1].into_iter().for_each(|party| private.start_server(party));
    let mut all = routers(&mut lan, folder.path());
    for member in &mut all {
        private.start_proxy(member.index);
        member.start();
    }
    expect_tables("at the beginning", all.iter(), &recorded);
}
