//! GoBGP: routes put in and read by its command line.

use serde_json::Value;

use super::{Announced, EXCHANGE, Member, Process, Received, Table, is_v6};

pub(super) fn start(member: &Member) -> Vec<Process> {
    let families: String = ["ipv4-unicast", "ipv6-unicast"]
        .map(|name| {
            format!("[[neighbors.afi-safis]]\n[neighbors.afi-safis.config]\nafi-safi-name = \"{name}\"\n")
        })
        .concat();
    let file = member.write(
        "gobgp.toml",
        format!(
            "[global.config]\nas = {}\nrouter-id = \"{}\"\n[[neighbors]]\n[neighbors.config]\n\
             neighbor-address = \"{}\"\npeer-as = {EXCHANGE}\n[neighbors.timers.config]\nconnect-retry = 1\n{families}",
            member.asn, member.station.v4, member.neighbour
        ),
    );
    let script = format!("gobgpd -f {} --api-hosts 127.0.0.1:50051", file.display());
    let process = Process::start(&member.station.host, &script, &member.path("gobgp.log"));
    let commands: String =
        member.routes.iter().map(|route| command(member, "add", route) + "\n").collect();
    let file = member.write("commands", commands);
    let wait = "for i in $(seq 100); do gobgp global > /dev/null 2>&1 && break; sleep 0.1; done";
    member.ask(&format!("{wait}; xargs -P 4 -L 1 -- env < {}", file.display()));
    vec![process]
}

fn command(member: &Member, verb: &str, route: &Announced) -> String {
    let family = if is_v6(&route.prefix) { "ipv6" } else { "ipv4" };
    let mut text =
        format!("gobgp global rib {verb} -a {family} {} origin {}", route.prefix, route.origin);
    let mut option = |name: &str, values: Vec<String>| {
        if !values.is_empty() {
            text += &format!(" {name} {}", values.join(","));
        }
    };
    option("aspath", route.tail.iter().map(u32::to_string).collect());
    option("med", route.med.iter().map(u32::to_string).collect());
    option("community", route.standard.iter().map(|(high, low)| format!("{high}:{low}")).collect());
    option("large-community", route.large.iter().map(|(a, b, c)| format!("{a}:{b}:{c}")).collect());
    text + " nexthop " + member.next_hop(&route.prefix)
}

pub(super) fn announce(member: &Member, route: &Announced) {
    member.ask(&command(member, "add", route));
}

pub(super) fn withdraw(member: &Member, route: &Announced) {
    member.ask(&command(member, "del", route));
}

pub(super) fn received(member: &Member) -> Table {
    let mut table = Table::new();
    for family in ["ipv4", "ipv6"] {
        // Without a session it has no answer.
        let script = format!("gobgp neighbor {} adj-in -a {family} -j || true", member.neighbour);
        let routes: Value = serde_json::from_str(&member.ask(&script)).unwrap_or_default();
        for (prefix, paths) in routes.as_object().into_iter().flatten() {
            if paths[0]["attrs"].is_array() {
                table.insert(prefix.clone(), route(&paths[0]["attrs"]));
            }
        }
    }
    table
}

fn route(attributes: &Value) -> Received {
    let find = |kind: u64, key: &str| {
        let all = attributes.as_array().unwrap();
        all.iter().find(|it| it["type"] == kind).map(|it| it[key].clone()).unwrap_or_default()
    };
    let number = |value: &Value| value.as_u64().unwrap() as u32;
    let segments = find(2, "as_paths");
    let path =
        segments.as_array().into_iter().flatten().flat_map(|it| it["asns"].as_array().unwrap());
    let next_hop = [find(3, "nexthop"), find(14, "nexthop")]
        .into_iter()
        .find_map(|it| Some(it.as_str()?.to_owned()));
    let standard = find(8, "communities");
    let standard = standard.as_array().into_iter().flatten().map(|it| {
        let both = number(it);
        format!("{}:{}", both >> 16, both & 0xFFFF)
    });
    let large = find(32, "value");
    let large = large.as_array().into_iter().flatten().map(|it| {
        let part = |key: &str| it[key].as_u64().unwrap();
        format!("{}:{}:{}", part("ASN"), part("LocalData1"), part("LocalData2"))
    });
    Received {
        next_hop: next_hop.unwrap(),
        path: path.map(number).collect(),
        origin: ["igp", "egp", "incomplete"][find(1, "value").as_u64().unwrap() as usize]
            .to_owned(),
        med: [find(4, "metric"), find(4, "value")].iter().find_map(Value::as_u64).unwrap_or(0)
            as u32,
        communities: standard.chain(large).collect(),
    }
}
