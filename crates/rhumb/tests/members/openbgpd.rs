//! OpenBGPD: its routes come from a table dump, which is the only
//! way to give it paths; `bgpctl` for the rest.

use serde_json::Value;

use super::{Announced, EXCHANGE, Member, Process, Received, Table, mrt};

pub(super) fn start(member: &Member) -> Vec<Process> {
    let (v4, neighbour) = (&member.station.v4, &member.neighbour);
    let file = member.write(
        "bgpd.conf",
        format!(
            "AS {}\nrouter-id {v4}\nlisten on {v4}\nfib-update no\nsocket \"{}\"\nneighbor {neighbour} {{\n \
             remote-as {EXCHANGE}\n local-address {v4}\n announce IPv4 unicast\n announce IPv6 unicast\n \
             announce policy rs-client\n enforce neighbor-as no\n}}\nallow from any\nallow to any\n\
             match from {neighbour} set localpref 10\n",
            member.asn,
            socket(member),
        ),
    );
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    // The package leaves it to the init system to make the folder that it locks itself into.
    std::fs::create_dir_all("/run/openbgpd").unwrap();
    let script = format!("/usr/sbin/bgpd -d -f {}", file.display());
    let process = Process::start(&member.station.host, &script, &member.path("bgpd.log"));
    let wait = format!(
        "for i in $(seq 100); do bgpctl -s {} show > /dev/null 2>&1 && break; sleep 0.1; done",
        socket(member)
    );
    member.ask(&wait);
    announce(member, &member.routes);
    vec![process]
}

fn socket(member: &Member) -> String {
    member.path("bgpd.sock").display().to_string()
}

fn bgpctl(member: &Member, command: &str) -> String {
    member.ask(&format!("bgpctl -s {} {command}", socket(member)))
}

pub(super) fn announce(member: &Member, routes: &[Announced]) {
    let dump = mrt::table_dump(member, routes);
    let file = member.write("routes.mrt", dump);
    bgpctl(member, &format!("network mrt file {}", file.display()));
}

pub(super) fn withdraw(member: &Member, route: &Announced) {
    bgpctl(member, &format!("network delete {}", route.prefix));
}

pub(super) fn received(member: &Member) -> Table {
    let text = bgpctl(member, &format!("-j show rib in detail neighbor {}", member.neighbour));
    let value: Value = serde_json::from_str(&text).unwrap_or_default();
    let all = value["rib"].as_array().into_iter().flatten();
    all.map(|entry| (entry["prefix"].as_str().unwrap().to_owned(), route(entry))).collect()
}

fn route(entry: &Value) -> Received {
    let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let communities = ["communities", "large_communities"].map(|key| entry[key].as_array());
    let communities = communities.into_iter().flatten().flatten();
    Received {
        next_hop: text("exit_nexthop"),
        path: text("aspath").split_whitespace().map(|asn| asn.parse().unwrap()).collect(),
        origin: text("origin").to_lowercase(),
        med: entry["metric"].as_u64().unwrap_or(0) as u32,
        communities: communities.map(|it| it.as_str().unwrap().to_owned()).collect(),
    }
}
