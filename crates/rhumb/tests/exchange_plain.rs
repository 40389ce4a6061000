//! The plain route server beside a private exchange: real routers of five makes get what the oracle
//! says, by lists and communities.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use members::{EXCHANGE, MATRIX, MEMBERS, Member, SERVER, expect_tables, oracle};

use crate::harness::Place;
use crate::members;

/// The configuration of party one, which reaches no other party.
fn configure(place: &Place) {
    let key = place.keygen("node", "one.key");
    place.write(
        "roster.toml",
        &format!("[[site]]\nmember = \"m\"\nsite = \"s\"\nasn = 1\nname = \"{key}\"\n"),
    );
    let clients = (0..MEMBERS.len()).map(|index| {
        let to = (0..MEMBERS.len()).filter(|to| *to != index && MATRIX[index][*to] == 1);
        let only: Vec<u32> = to.map(|to| MEMBERS[to].0).collect();
        format!(
            "[[exchange.plain]]\nmember = \"m{index}\"\nasn = {}\naddress = \"10.90.0.{}\"\nonly = {only:?}\n",
            MEMBERS[index].0,
            11 + index,
        )
    });
    place.write(
        "one.toml",
        &format!(
            "log = \"rhumb=info\"\n[exchange]\nparty = 1\nkey = \"one.key\"\nroster = \"roster.toml\"\n\
             listen = \"{SERVER}:7480\"\npeer = [\"{key}@127.0.0.1:1\"]\nadmin = \"127.0.0.1:7481\"\n\
             asn = {EXCHANGE}\nrouter_id = \"{SERVER}\"\nbgp_listen = \"{SERVER}\"\n{}",
            clients.collect::<String>()
        ),
    );
}

#[test]
fn real_routers_get_what_the_oracle_says() {
    let Some(mut lan) = members::lan() else { return };
    let place = Place::new();
    configure(&place);
    let station = lan.station(1);
    let mut server = station.host.enter(|| place.start(&["--config", "one.toml", "exchange"]));
    assert_eq!(server.next_object()["ready"], true);
    let folder = tempfile::tempdir().unwrap();
    let mut all: Vec<Member> = (0..MEMBERS.len())
        .map(|index| Member::new(&mut lan, index, SERVER, folder.path()))
        .collect();
    all.iter_mut().for_each(Member::start);
    expect_tables("at the beginning", all.iter(), &oracle::tables(all.iter(), all.iter(), None));

    let gone = all[0].routes[0].prefix.clone();
    all[0].withdraw(&gone);
    expect_tables("after a withdrawal", all.iter(), &oracle::tables(all.iter(), all.iter(), None));

    all[3].kill();
    let left = || all.iter().filter(|member| member.index != 3);
    expect_tables("without a member", left(), &oracle::tables(left(), left(), None));

    let run =
        station.host.enter(|| place.run(&["--json", "--config", "one.toml", "exchange", "status"]));
    let clients = run.object()["plain"]["clients"].as_array().unwrap().clone();
    let up = clients.iter().filter(|client| client["state"] == "established");
    assert_eq!((clients.len(), up.count()), (MEMBERS.len(), MEMBERS.len() - 1));
    assert_eq!(server.signal("TERM"), 0);
}
