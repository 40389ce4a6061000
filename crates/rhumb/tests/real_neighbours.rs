//! Real routers behind proxies beside other machinery of an exchange: a cache of the RPKI, signed
//! segments, the plain route server.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

use members::private::{More, Private, proxy_address};
use members::slice::Announced;
use members::{Lan, MEMBERS, Member, PATIENCE, Process, Table, expect_tables_or, oracle};

use crate::members;

/// Both parties, and the routers of these members, told
/// to speak with their proxies. Nothing runs yet.
fn rig(indices: &[usize]) -> Option<(Lan, tempfile::TempDir, Private, Vec<Member>)> {
    let mut lan = members::lan()?;
    let folder = tempfile::tempdir().unwrap();
    let private = Private::new(&mut lan, false);
    let router =
        |index: &usize| Member::new(&mut lan, *index, &proxy_address(*index), folder.path());
    let routers = indices.iter().map(router).collect();
    Some((lan, folder, private, routers))
}

/// A route of a member of its own, by way of another AS.
fn route(prefix: &str, origin: u32) -> Announced {
    let (standard, large) = (Vec::new(), Vec::new());
    let origin_name = "igp".to_owned();
    Announced {
        prefix: prefix.to_owned(),
        origin: origin_name,
        med: None,
        tail: vec![origin],
        standard,
        large,
    }
}

/// What a cache of the RPKI is to say: prefixes, and who may originate them.
fn write_roas(file: &Path, roas: &[(&str, u32)]) {
    let all: Vec<String> = roas
        .iter()
        .map(|(prefix, asn)| {
            format!("{{\"prefix\": \"{prefix}\", \"maxLength\": 24, \"asn\": \"AS{asn}\", \"ta\": \"test\"}}")
        })
        .collect();
    let text = format!("{{\"metadata\": {{}}, \"roas\": [{}]}}", all.join(", "));
    let beside = file.with_extension("new");
    std::fs::write(&beside, text).unwrap();
    std::fs::rename(&beside, file).unwrap();
}

#[track_caller]
fn wait_for(what: &str, private: &Private, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "no {what}: {}", private.logs());
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

/// Announcer and receiver are BIRDs; the receiver's proxy asks StayRTR, which runs beside it.
#[test]
fn what_the_rpki_says_decides_which_routes_a_router_gets() {
    if std::process::Command::new("stayrtr").arg("-version").output().is_err() {
        println!("skipped: without stayrtr (Debian package stayrtr)");
        return;
    }
    let Some((_lan, folder, mut private, mut routers)) = rig(&[5, 0]) else { return };
    let (sender, receiver) = (5, 0);
    routers[0].routes =
        [("198.51.100.0/24", 64501), ("203.0.113.0/24", 64502), ("192.0.2.0/24", 64503)]
            .map(|(prefix, origin)| route(prefix, origin))
            .into();
    routers[1].routes.clear();
    let roas = folder.path().join("roas.json");
    write_roas(&roas, &[("198.51.100.0/24", 64501), ("203.0.113.0/24", 64509)]);
    let script = format!(
        "stayrtr -bind 127.0.0.1:8282 -cache {} -checktime=false -refresh 1 -metrics.addr ''",
        roas.display()
    );
    let log = folder.path().join("stayrtr.log");
    let _cache = Process::start(private.host_of_proxy(receiver), &script, &log);
    private.configure(sender, &format!("only = [\"AS{}\"]", MEMBERS[receiver].0));
    private.configure_with(
        receiver,
        More {
            member: "rtr = [\"127.0.0.1:8282\"]",
            import: "[[member.import.rule]]\nrpki = [\"invalid\"]\naction = \"reject\"\n\
                     [[member.import.rule]]\nrpki = [\"valid\"]\naction = \"accept\"\nlocal_preference = 200\n",
            ..More::default()
        },
    );
    [1, 0].into_iter().for_each(|server| private.start_server(server));
    [sender, receiver].into_iter().for_each(|index| private.start_proxy(index));
    private.wait_for(receiver, "payloads", |status| status["rpki"]["payloads"] == 2);
    routers.iter_mut().for_each(Member::start);

    let has = |prefixes: [&str; 2]| {
        let received: BTreeSet<String> = routers[1].received().into_keys().collect();
        received == prefixes.map(str::to_owned).into()
    };
    let judged = |prefix: &str| {
        let routes = private.ask(receiver, &["routes", prefix]);
        let route = &routes["routes"][0];
        (route["rpki"].as_str().map(str::to_owned), route["local_preference"].as_u64())
    };
    wait_for("valid and unknown route", &private, || has(["192.0.2.0/24", "198.51.100.0/24"]));
    assert_eq!(judged("198.51.100.0/24"), (Some("valid".to_owned()), Some(200)));
    assert_eq!(judged("203.0.113.0/24"), (Some("invalid".to_owned()), None));
    assert_eq!(judged("192.0.2.0/24"), (Some("not found".to_owned()), Some(100)));

    // Nothing but the cache's file is touched.
    write_roas(&roas, &[("198.51.100.0/24", 64509), ("203.0.113.0/24", 64502)]);
    wait_for("other routes", &private, || has(["192.0.2.0/24", "203.0.113.0/24"]));
    assert_eq!(judged("203.0.113.0/24"), (Some("valid".to_owned()), Some(200)));
    assert_eq!(judged("198.51.100.0/24"), (Some("invalid".to_owned()), None));
}

const SECRET: &str = "sesame-7391";
const WRONG: &str = "barley-5520";

#[test]
fn routers_that_sign_their_segments_are_heard_if_the_proxy_has_the_same_password() {
    let Some((_lan, _folder, mut private, mut routers)) = rig(&[0, 2]) else { return };
    for router in &mut routers {
        router.password = Some(SECRET.to_owned());
        let bgp = format!("password = \"bgp{}.md5\"", router.index);
        private.configure_with(router.index, More { bgp: &bgp, ..More::default() });
    }
    let mut told = String::new();
    let check = ["--config", "member0.toml", "member", "--check"];
    private.place.write("bgp0.md5", SECRET);
    let run = private.place.run(&check);
    run.is_refused_with(&["bgp0.md5 holds a secret", "chmod 600"]);
    told += &run.errors;
    for (text, problem) in [(SECRET.repeat(8), "this one has 88"), ("\n".to_owned(), "has 0")] {
        private.write_secret("bgp0.md5", &text);
        let run = private.place.run(&check);
        run.is_refused_with(&["bgp0.md5", "1 to 80 bytes", problem]);
        told += &run.errors;
    }

    private.write_secret("bgp0.md5", &format!("{WRONG}\n"));
    private.write_secret("bgp2.md5", &format!("{SECRET}\n"));
    [1, 0].into_iter().for_each(|server| private.start_server(server));
    [0, 2].into_iter().for_each(|index| private.start_proxy(index));
    routers.iter_mut().for_each(Member::start);
    private.wait_for(2, "session", |status| status["router"]["state"] == "established");
    let status = private.wait_for(0, "advice", |status| {
        status["router"]["problem"].as_str().is_some_and(|it| it.contains("TCP-MD5 password"))
    });
    assert_eq!(status["router"]["messages_received"], 0, "{status:#}");
    assert!(routers.iter().all(|router| router.received().is_empty()));
    let logs = private.logs();
    assert!(logs.contains("cannot connect"), "{logs}");
    told += &logs;

    private.end_proxy(0);
    private.write_secret("bgp0.md5", SECRET);
    private.start_proxy(0);
    let expected = oracle::tables(routers.iter(), routers.iter(), None);
    assert!(expected.values().all(|table| !table.is_empty()));
    expect_tables_or("with the right password", routers.iter(), &expected, PATIENCE, || {
        private.logs()
    });
    let status = private.ask(0, &["status"]);
    assert!(status["router"]["problem"].is_null(), "{status:#}");
    told += &private.logs();
    assert!(!told.contains(SECRET) && !told.contains(WRONG), "{told}");
}

/// Its proxy waits for no word about IPv6, and so knows at once what is no more.
#[test]
fn a_router_without_ipv6_has_told_all_when_it_has_told_its_ipv4_routes() {
    let Some((_lan, _folder, mut private, mut routers)) = rig(&[5, 0]) else { return };
    let (announcer, receiver) = (5, 0);
    routers[0].only_v4 = true;
    routers[0].routes = [("198.51.100.0/24", 64501), ("203.0.113.0/24", 64502)]
        .map(|(to, by)| route(to, by))
        .into();
    routers[1].routes.clear();
    private.configure(announcer, &format!("only = [\"AS{}\"]", MEMBERS[receiver].0));
    [1, 0].into_iter().for_each(|server| private.start_server(server));
    [announcer, receiver].into_iter().for_each(|index| private.start_proxy(index));
    routers.iter_mut().for_each(Member::start);
    wait_for("both routes", &private, || routers[1].received().len() == 2);

    private.kill_proxy(announcer);
    routers[0].withdraw("203.0.113.0/24");
    private.start_proxy(announcer);
    wait_for("end of what is gone", &private, || {
        routers[1].received().keys().eq(["198.51.100.0/24"])
    });
}

/// What a member of the plain route server gets, of which a proxy brings it `private`, and `plain`
/// comes from its fellows there: the better, or where both are as good, the latter.
fn merged(private: Table, plain: Table) -> Table {
    let rank = |route: &members::Received| {
        let origins = ["igp", "egp", "incomplete"];
        (route.path.len(), origins.iter().position(|name| *name == route.origin))
    };
    let mut merged = private;
    for (prefix, route) in plain {
        if merged.get(&prefix).is_none_or(|other| rank(&route) <= rank(other)) {
            merged.insert(prefix, route);
        }
    }
    merged
}

/// Each of these has what it should: 0 and 2 are at the plain route
/// server, and 0, 1 and 4 in the private service.
#[track_caller]
fn expect_met(
    what: &str,
    routers: &[Member],
    private: &Private,
    present: &[usize],
) -> BTreeMap<usize, Table> {
    let present = || routers.iter().filter(|it| present.contains(&it.index));
    let table = |to: usize, from: &[usize]| {
        let receiver = routers.iter().filter(|it| it.index == to);
        let announcers = present().filter(|it| from.contains(&it.index));
        oracle::tables(receiver, announcers, None).remove(&to).unwrap()
    };
    let expected: BTreeMap<usize, Table> = [
        (0, merged(table(0, &[1, 4]), table(0, &[2]))),
        (1, table(1, &[0, 4])),
        (2, table(2, &[0])),
        (4, table(4, &[0, 1])),
    ]
    .into();
    let context = || format!("{:#?}\n{}", private.plain_clients(), private.logs());
    expect_tables_or(what, present(), &expected, PATIENCE, context);
    expected
}

/// Members 0 and 2 have sessions with the plain route server, and 0 a
/// proxy there; 1 and 4 have proxies of their own.
#[test]
fn a_member_of_the_plain_route_server_meets_those_of_the_private_service() {
    let Some((_lan, _folder, mut private, mut routers)) = rig(&[0, 1, 2, 4]) else { return };
    private.serve_plainly(&[(0, true), (2, false)]);
    private.write_secret("plain.md5", "");
    let check = private.place.run(&["--config", "one.toml", "exchange", "--check"]);
    check.is_refused_with(&["plain.md5", "1 to 80 bytes"]);
    private.write_secret("plain.md5", SECRET);
    for at in [0, 2] {
        routers[at].neighbour = private.plain_address().to_owned();
        routers[at].password = Some(SECRET.to_owned());
    }
    [0, 1, 4].into_iter().for_each(|index| private.start_proxy(index));
    [1, 0].into_iter().for_each(|server| private.start_server(server));
    routers.iter_mut().for_each(Member::start);
    let all = [0, 1, 2, 4];
    let expected = expect_met("at the beginning", &routers, &private, &all);
    let from_private = |route: &&members::Received| [25933, 53237].contains(&route.path[0]);
    assert!(expected[&0].values().filter(from_private).count() > 10);
    assert!(expected[&0].values().any(|route| route.path[0] == MEMBERS[2].0));
    assert!(expected[&1].values().any(|route| route.path[0] == MEMBERS[0].0 && route.med > 0));

    // Nothing else was sent to anybody, such as what its router would drop as its own.
    let clients = private.plain_clients();
    let sent = |index: usize| {
        let router = private.ask(index, &["status"])["router"].clone();
        router["ipv4"]["sent"].as_u64().unwrap() + router["ipv6"]["sent"].as_u64().unwrap()
    };
    let count = |index: usize| expected[&index].len() as u64;
    assert_eq!((sent(1), sent(4)), (count(1), count(4)));
    assert_eq!(clients[0]["sent"], count(0));
    // Routes with its AS in their path are for its router to refuse.
    assert!(
        (count(2)..=routers[0].routes.len() as u64).contains(&clients[1]["sent"].as_u64().unwrap())
    );
    assert_eq!(clients[0]["proxy"]["sent"], routers[0].routes.len());
    assert!(clients[1]["proxy"].is_null(), "{clients:#?}");

    for at in 0..3 {
        let prefix = routers[0].routes[at * 5].prefix.clone();
        routers[0].withdraw(&prefix);
        let prefix = routers[1].routes[at * 5].prefix.clone();
        routers[1].withdraw(&prefix);
    }
    expect_met("after withdrawals", &routers, &private, &all);
    private.kill_proxy(0);
    private.start_proxy(0);
    expect_met("after the proxy was killed", &routers, &private, &all);
    routers[0].kill();
    expect_met("after the router was killed", &routers, &private, &[1, 2, 4]);
}
