//! A key server as a process, asked by others' programs: dig, nsupdate
//! and hickory; and killed in the middle of work.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::net::UdpSocket;
use std::process::Command;
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;

use crate::keyzone::{KeyZone, Server, WAYPOINTS, WINDOW_S, ZONE, dig, has, key_name};

const ANY: &str = "127.0.0.1:0";
/// In the third byte of a DNS message.
const TRUNCATED: u8 = 2;
const DIG: (&str, &str) = ("dig", "bind9-dnsutils");

#[test]
fn dig_gets_keys_by_udp_and_tcp_with_and_without_edns() {
    if !has(DIG.0, DIG.1) {
        return;
    }
    let zone = KeyZone::new(ANY);
    let server = zone.start();
    for waypoint in WAYPOINTS {
        let name = key_name(waypoint, 42);
        let mut records = Vec::new();
        for how in [
            &["+noedns"][..],
            &["+edns=0", "+bufsize=1232", "+nocookie"],
            &["+tcp", "+noedns"],
            &["+tcp", "+edns=0"],
        ] {
            let answer = server.dig(&[&["+ignore", &name, "TXT"], how].concat());
            assert!(answer.contains("status: NOERROR"), "{answer}");
            assert!(answer.contains("flags: qr aa;"), "{answer}");
            let lines = answer.lines().filter(|line| !line.starts_with(';'));
            let mut lines = lines.map(|line| line.split_whitespace().collect::<Vec<&str>>());
            let fields = lines.find(|fields| fields.get(3) == Some(&"TXT")).unwrap();
            let ttl_s: u64 = fields[1].parse().unwrap();
            assert!((1..=WINDOW_S).contains(&ttl_s));
            records.push(fields[4..].join(" "));
        }
        records.dedup();
        assert_eq!(records.len(), 1, "{records:?}");
        let shouted = server.dig(&["+short", &name.to_uppercase(), "TXT"]);
        assert_eq!(shouted.trim(), records[0]);
    }
    assert_eq!(server.status(&zone.place)["counters"]["keys"], 10);
}

#[test]
fn dig_is_told_what_there_is_not() {
    if !has(DIG.0, DIG.1) {
        return;
    }
    let zone = KeyZone::new(ANY);
    let server = zone.start();
    let unknown = key_name(WAYPOINTS[0], 43);
    for (arguments, status) in [
        (&[unknown.as_str(), "TXT"][..], "NXDOMAIN"),
        (&["nonsense._k.example.net", "TXT"], "NXDOMAIN"),
        (&["example.net", "SOA"], "REFUSED"),
        (&["_k.example.org", "SOA"], "REFUSED"),
        (&[".", "NS"], "REFUSED"),
        (&["-c", "CH", "version.bind", "TXT"], "REFUSED"),
        (&["0.after._k.example.net", "TXT"], "REFUSED"),
        (&[ZONE, "A"], "NOERROR"),
        (&["+edns=1", "+noednsnegotiation", ZONE, "SOA"], "BADVERS"),
        (&["+opcode=NOTIFY", ZONE, "SOA"], "NOTIMP"),
    ] {
        let answer = server.dig(arguments);
        assert!(answer.contains(&format!("status: {status}")), "{arguments:?}: {answer}");
    }
    let transfer = server.dig(&[ZONE, "AXFR"]);
    assert!(transfer.contains("Transfer failed"), "{transfer}");
    let soa = server.dig(&["+notcp", "+noedns", "+ignore", ZONE, "SOA"]);
    assert!(soa.contains("flags: qr aa tc;"), "{soa}");
    let soa = server.dig(&["+noedns", "+short", ZONE, "SOA"]);
    assert!(soa.starts_with("ns._k.example.net. hostmaster._k.example.net. 0 "), "{soa}");
    let servers = server.dig(&["+tcp", ZONE, "NS"]);
    assert!(servers.contains("127.0.0.53"), "{servers}");
}

#[test]
fn both_families_are_served() {
    if !has(DIG.0, DIG.1) {
        return;
    }
    let zone = KeyZone::new("[::1]:0");
    let server = zone.start();
    let name = key_name(WAYPOINTS[1], 42);
    let by_udp = server.dig(&["+short", &name, "TXT"]);
    assert!(!by_udp.is_empty());
    assert_eq!(server.dig(&["+tcp", "+short", &name, "TXT"]), by_udp);
}

#[test]
fn nsupdate_revokes_with_the_right_key_and_serial_alone() {
    if !has("nsupdate", DIG.1) {
        return;
    }
    let zone = KeyZone::new(ANY);
    let server = zone.start();
    let serial = || server.status(&zone.place)["serial"].as_u64().unwrap();
    let revoke = |key, record: &str, serial: u32| {
        zone.nsupdate(&server, key, &format!("update add {record}.{ZONE} 0 TXT \"{serial}\""))
    };
    let operator = Some("operator.tsig");
    assert_eq!(revoke(operator, "42.revoked", 10).code, 0);
    assert_eq!(serial(), 10);
    zone.capability(&["signer", "operator", "--out", "forged.tsig"]);
    zone.capability(&["signer", "stranger", "--out", "stranger.tsig"]);
    for (key, record, serial, why) in [
        (operator, "43.revoked", 10, "YXRRSET"),
        (operator, "43.revoked", 9, "YXRRSET"),
        (None, "43.revoked", 11, "REFUSED"),
        (Some("a.tsig"), "43.revoked", 11, "REFUSED"),
        (Some("forged.tsig"), "43.revoked", 11, "BADSIG"),
        (Some("stranger.tsig"), "43.revoked", 11, "BADKEY"),
        (operator, "revoked", 11, "REFUSED"),
    ] {
        let refused = revoke(key, record, serial);
        assert_ne!(refused.code, 0, "{key:?} {record}");
        assert!(refused.errors.contains(why), "{key:?} {record}: {}", refused.errors);
    }
    assert_eq!(serial(), 10);
    let deleted = zone.nsupdate(&server, operator, &format!("update delete 42.revoked.{ZONE} TXT"));
    assert!(deleted.errors.contains("REFUSED"), "{}", deleted.errors);
    let both = format!(
        "update add 7.42.revoked.{ZONE} 0 TXT \"12\"\nupdate add 42.restored.{ZONE} 0 TXT \"12\""
    );
    let run = zone.nsupdate(&server, operator, &both);
    assert_eq!(run.code, 0, "{}", run.errors);
    assert_eq!(serial(), 12);
    let refused = &server.status(&zone.place)["refused"];
    assert_eq!((&refused["stale"], &refused["bad_signature"]), (&2.into(), &2.into()));
}

#[test]
fn a_signed_question_that_is_replayed_is_answered_at_the_rate_of_its_source() {
    if !has(DIG.0, DIG.1) {
        return;
    }
    let zone = KeyZone::new(ANY);
    let server = zone.start();
    // dig asks somebody on the way, who keeps the datagram.
    let on_the_way = UdpSocket::bind("127.0.0.1:0").unwrap();
    on_the_way.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let port = on_the_way.local_addr().unwrap().port().to_string();
    let key = zone.place.path("operator.tsig");
    let name = key_name(WAYPOINTS[0], 42);
    let mut dig_there = Command::new("dig");
    dig_there.args(["@127.0.0.1", "-p", &port, "+notcp", "+tries=1", "+time=1", "-k"]);
    dig_there.arg(&key).args([&name, "TXT"]);
    let asked = std::thread::spawn(move || dig_there.output());
    let mut signed = [0; 2048];
    let len = on_the_way.recv(&mut signed).unwrap();
    asked.join().unwrap().unwrap();

    // The signature is good for five minutes, whoever sends it.
    let replayer = UdpSocket::bind("127.0.0.1:0").unwrap();
    replayer.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let begin = Instant::now();
    let mut whole = 0_u64;
    let mut answer = [0; 2048];
    for _ in 0..40 {
        for _ in 0..50 {
            replayer.send_to(&signed[..len], server.address).unwrap();
        }
        replayer.set_nonblocking(true).unwrap();
        std::thread::sleep(Duration::from_millis(5));
        while replayer.recv(&mut answer).is_ok() {
            whole += u64::from(answer[2] & TRUNCATED == 0);
        }
    }
    replayer.set_nonblocking(false).unwrap();
    while replayer.recv(&mut answer).is_ok() {
        whole += u64::from(answer[2] & TRUNCATED == 0);
    }
    // 50 a second and 100 at once, of 2,000.
    let most = 100 + 50 * (begin.elapsed().as_secs() + 1);
    assert!((1..=most.min(1_500)).contains(&whole), "{whole} whole answers, at most {most}");
    let status = server.status(&zone.place);
    assert!(status["dropped"]["rate_limited"].as_u64().unwrap() > 100, "{status:#}");

    // Who has the key is answered meanwhile, by TCP, which dig takes when it is told to.
    let key = key.display().to_string();
    let answered = server.dig(&["+tcp", "-k", &key, &name, "TXT"]);
    assert!(answered.contains("status: NOERROR") && !answered.contains("rify"), "{answered}");
    let answered = server.dig(&["-k", &key, &name, "TXT"]);
    assert!(answered.contains("status: NOERROR"), "{answered}");
}

#[test]
fn waypoints_have_a_revocation_before_the_operator_is_told_so() {
    let zone = KeyZone::new(ANY);
    let server = zone.start();
    let mut followers = ["a", "b"].map(|waypoint| zone.follow(&server, waypoint));
    let report = zone.revoke(&server, &["42"]);
    assert_eq!(report.code, 0, "{}", report.errors);
    let report = report.object();
    assert_eq!((&report["waypoints"], &report["reached"]), (&2.into(), &2.into()));
    for follower in &mut followers {
        let heard = follower.next_object();
        assert_eq!(heard["serial"], report["serial"]);
        assert_eq!(heard["revoked"][0]["principal"], 42);
    }
    let next = zone.revoke(&server, &["42", "--id", "7"]).object();
    assert!(next["serial"].as_u64() > report["serial"].as_u64());
    let old = report["serial"].as_u64().unwrap().to_string();
    let stale = zone.revoke(&server, &["42", "--serial", &old]);
    assert_eq!(stale.code, 1);
    assert!(stale.errors.contains("leave --serial out"), "{}", stale.errors);
    let restored = zone.revoke(&server, &["42", "--restore"]);
    assert_eq!(restored.code, 0, "{}", restored.errors);
    for follower in &mut followers {
        follower.next_object();
        let heard = follower.next_object();
        let ids: Vec<_> =
            heard["revoked"].as_array().unwrap().iter().map(|one| &one["id"]).collect();
        assert_eq!(ids, [&7]);
    }
    // One that is gone is named, and the revocation counts all the same.
    let [_, lost] = followers;
    lost.kill();
    let report = zone.revoke(&server, &["43"]);
    assert_eq!(report.code, 1);
    assert!(report.errors.contains(WAYPOINTS[1]), "{}", report.errors);
    assert_eq!(report.object()["reached"], 1);
}

#[test]
fn a_follower_outlives_its_server_and_hears_what_it_missed() {
    let zone = KeyZone::new(ANY);
    let server = zone.start();
    let mut follower = zone.follow(&server, "a");
    let listen = server.address.to_string();
    server.running.kill();
    let again = Server::of(zone.place.start(&["keyserver", "--listen", &listen]));
    let back = follower.next_object();
    assert_eq!(back["serial"], 0);
    let serial = zone.revoke(&again, &["42"]).object()["serial"].clone();
    assert_eq!(follower.next_object()["serial"], serial);
}

#[test]
fn what_was_acknowledged_outlives_kill_9() {
    let zone = KeyZone::new(ANY);
    let mut acknowledged = 0;
    for round in 1..=5u64 {
        let server = zone.start();
        let status = server.status(&zone.place);
        assert!(status["serial"].as_u64().unwrap() >= acknowledged, "{status}");
        assert!(status["revocations"].as_u64().unwrap() >= (round - 1) * 3, "{status}");
        let key = zone.place.path("operator.tsig");
        let operator = std::fs::read_to_string(key).unwrap();
        // From another thread, as fast as it is answered, until the server is killed under it.
        let updates = std::thread::spawn({
            let (address, first) = (server.address, round * 1000);
            move || updates_until_it_ends(&operator, address, first)
        });
        while server.status(&zone.place)["counters"]["updates"].as_u64().unwrap() < 3 {
            std::thread::sleep(Duration::from_millis(5));
        }
        server.running.kill();
        acknowledged = updates.join().unwrap();
        assert!(acknowledged >= round * 1000 + 2);
    }
    let server = zone.start();
    assert!(server.status(&zone.place)["serial"].as_u64().unwrap() >= acknowledged);
}

/// The last serial that was acknowledged.
fn updates_until_it_ends(key: &str, address: std::net::SocketAddr, first: u64) -> u64 {
    use rhumb_capability::Principal;
    use rhumb_keyserver::feed::ask_over_stream;
    use rhumb_keyserver::operator::Operator;
    use rhumb_keyserver::revocation::{Action, Subject};
    use rhumb_keyserver::tsig::TsigKey;

    let mut operator = Operator::new(ZONE, TsigKey::parse(key).unwrap()).unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let now_s = || std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let mut acknowledged = 0;
    for serial in first..first + 1000 {
        let subject = Subject { principal: Principal(serial as u32), delegation: None };
        let update = operator.update(serial as u32, &[(Action::Revoke, subject)], 1, now_s());
        let Ok(answer) = ask_over_stream(&mut stream, &update) else { break };
        operator.read_update(&answer, now_s()).unwrap();
        acknowledged = serial;
    }
    acknowledged
}

#[test]
fn files_are_read_again_while_it_runs() {
    let zone = KeyZone::new(ANY);
    let server = zone.start();
    let resolver = server.address.to_string();
    let fetch = |file: &str, id: &str| {
        zone.place.run(&[
            "--json",
            "capability",
            "delegate",
            "--from",
            file,
            "--prefix",
            "203.0.113.0/24",
            "--id",
            id,
            "--waypoint",
            WAYPOINTS[0],
            "--resolver",
            &resolver,
        ])
    };
    zone.capability(&["mint", "77"]);
    // The book is read once a second; a name that is asked too soon is asked again.
    let run = fetch("77.principal", "1");
    assert_eq!(run.code, 0, "{}", run.errors);
    zone.capability(&["master", WAYPOINTS[0], "--after", "a.master", "--out", "a2.master"]);
    std::fs::rename(zone.place.path("a2.master"), zone.place.path("a.master")).unwrap();
    while server.status(&zone.place)["waypoints"][0]["epoch"] != 2 {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(fetch("42.principal", "2").code, 0);
    let capability = zone.capability(&["inspect", "192.0.2.1-2.capability"]);
    assert_eq!(capability["epoch"], 2);
}

#[test]
fn hickory_resolves_keys() {
    let zone = KeyZone::new(ANY);
    let server = zone.start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut connections = vec![ConnectionConfig::udp(), ConnectionConfig::tcp()];
    connections.iter_mut().for_each(|connection| connection.port = server.address.port());
    let mut name_server = NameServerConfig::udp_and_tcp(server.address.ip());
    name_server.connections = connections;
    let config = ResolverConfig::from_name_servers(vec![name_server]);
    let found = runtime.block_on(async {
        let builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        let resolver = builder.build().unwrap();
        let mut found = Vec::new();
        for waypoint in WAYPOINTS {
            let lookup = resolver.txt_lookup(format!("{}.", key_name(waypoint, 42))).await.unwrap();
            let record = &lookup.answers()[0];
            let RData::TXT(text) = &record.data else { panic!("{record:?}") };
            found.push((record.ttl, text.txt_data.concat().len()));
        }
        let absent = resolver.txt_lookup(format!("{}.", key_name(WAYPOINTS[0], 43))).await;
        assert!(absent.unwrap_err().is_nx_domain());
        found
    });
    for (ttl_s, len) in found {
        assert!((1..=WINDOW_S).contains(&u64::from(ttl_s)));
        assert_eq!(len, 39);
    }
}

#[test]
fn metrics_count_and_logs_hold_no_secret() {
    if !has(DIG.0, DIG.1) {
        return;
    }
    let zone = KeyZone::new(ANY);
    let running = zone.place.start_with(&["keyserver"], |command| {
        command.env("RUST_LOG", "trace");
    });
    let server = Server::of(running);
    server.dig(&[&key_name(WAYPOINTS[0], 42), "TXT"]);
    zone.revoke(&server, &["42"]);
    let url = format!("http://{}/metrics", server.admin);
    let metrics = http_get(&server.admin, "/metrics");
    for line in [
        "rhumb_keyserver_answered_questions_total{kind=\"key\"} 1",
        "rhumb_keyserver_stored_updates_total 1",
        "rhumb_keyserver_behind_waypoints 2",
        "rhumb_keyserver_principals 1",
    ] {
        assert!(metrics.contains(line), "{url}: {line} is not in {metrics}");
    }
    let (code, errors) = server.running.end();
    assert_eq!(code, 0);
    assert!(errors.contains("revocations stored"), "{errors}");
    for file in ["principals", "a.master", "42.principal", "operator.tsig"] {
        let text = std::fs::read_to_string(zone.place.path(file)).unwrap();
        for secret in text.split(|c: char| c.is_whitespace() || "\";".contains(c)) {
            assert!(secret.len() < 30 || !errors.contains(secret), "{file}");
        }
    }
}

fn http_get(address: &str, path: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn one_address_has_one_key_server_and_one_journal() {
    let zone = KeyZone::new(ANY);
    let server = zone.start();
    zone.place.run(&["keyserver"]).is_refused_with(&["revocations is in use"]);
    let text = std::fs::read_to_string(zone.place.path("rhumb.toml")).unwrap();
    let text = text.replace("operators", "journal = \"other\"\noperators");
    zone.place.write("rhumb.toml", &text);
    let listen = server.address.to_string();
    zone.place
        .run(&["keyserver", "--listen", &listen])
        .is_refused_with(&["listen address", "another name server"]);
    let mut command = Command::new("dig");
    command.args([&format!("@{}", server.address.ip()), "-p", &server.address.port().to_string()]);
    if has(DIG.0, DIG.1) {
        assert!(dig(&mut command, &["+short", ZONE, "SOA"]).contains("hostmaster"));
    }
}
