//! FRR: networks with a route map each, and `vtysh`. Its `zebra` runs beside,
//! since it tells which interface a neighbour is on.

use serde_json::Value;

use super::{Announced, EXCHANGE, Member, Process, Received, Table, is_v6};

pub(super) fn start(member: &Member) -> Vec<Process> {
    let file = member.write("frr.conf", config(member));
    member.ask(&format!("chown -R frr:frr {}", member.path("").display()));
    let folder = member.path("");
    let folder = folder.display();
    let zebra = format!(
        "/usr/lib/frr/zebra -z {folder}/zserv -i {folder}/zebra.pid --vty_socket {folder} -A 127.0.0.1"
    );
    let zebra = Process::start(&member.station.host, &zebra, &member.path("zebra.log"));
    member
        .ask(&format!("for i in $(seq 100); do test -S {folder}/zserv && break; sleep 0.1; done"));
    let bgpd = format!(
        "/usr/lib/frr/bgpd -n -z {folder}/zserv -f {} -i {folder}/bgpd.pid --vty_socket {folder} -A 127.0.0.1 -p 179",
        file.display()
    );
    let bgpd = Process::start(&member.station.host, &bgpd, &member.path("bgpd.log"));
    vec![bgpd, zebra]
}

fn config(member: &Member) -> String {
    let neighbour = &member.neighbour;
    let mut text = format!(
        "router bgp {}\n bgp router-id {}\n no bgp ebgp-requires-policy\n no bgp network import-check\n \
         no bgp default ipv4-unicast\n neighbor {neighbour} remote-as {EXCHANGE}\n \
         no neighbor {neighbour} enforce-first-as\n neighbor {neighbour} local-role rs-client\n \
         neighbor {neighbour} timers connect 1\n",
        member.asn, member.station.v4
    );
    if let Some(password) = &member.password {
        text += &format!(" neighbor {neighbour} password {password}\n");
    }
    for (family, wants_v6) in [("ipv4", false), ("ipv6", true)] {
        let routes = member.routes.iter().filter(|route| is_v6(&route.prefix) == wants_v6);
        let networks: String = routes
            .map(|it| format!("  network {} route-map {}\n", it.prefix, map_name(it)))
            .collect();
        text += &format!(
            " address-family {family} unicast\n  neighbor {neighbour} activate\n  \
             neighbor {neighbour} soft-reconfiguration inbound\n{networks} exit-address-family\n"
        );
    }
    text + &member
        .routes
        .iter()
        .map(|route| map(member, route).join("\n") + "\n")
        .collect::<String>()
}

fn map_name(route: &Announced) -> String {
    route.prefix.replace(['/', ':', '.'], "_")
}

fn map(member: &Member, route: &Announced) -> Vec<String> {
    let mut lines = vec![
        format!("route-map {} permit 10", map_name(route)),
        format!(" set origin {}", route.origin),
    ];
    let mut set = |what: &str, values: Vec<String>| {
        if !values.is_empty() {
            lines.push(format!(" set {what} {}", values.join(" ")));
        }
    };
    set("as-path prepend", route.tail.iter().map(u32::to_string).collect());
    set("metric", route.med.iter().map(u32::to_string).collect());
    set("community", route.standard.iter().map(|(high, low)| format!("{high}:{low}")).collect());
    set("large-community", route.large.iter().map(|(a, b, c)| format!("{a}:{b}:{c}")).collect());
    if is_v6(&route.prefix) {
        set("ipv6 next-hop global", vec![member.station.v6.clone()]);
    }
    lines
}

fn vtysh(member: &Member, commands: &[String]) -> String {
    let commands: String = commands.iter().map(|command| format!(" -c '{command}'")).collect();
    member.ask(&format!("vtysh --vty_socket {}{commands}", member.path("").display()))
}

fn network(member: &Member, route: &Announced, line: String) -> Vec<String> {
    let family = if is_v6(&route.prefix) { "ipv6" } else { "ipv4" };
    let lines = ["configure terminal".to_owned(), format!("router bgp {}", member.asn)];
    lines.into_iter().chain([format!("address-family {family} unicast"), line]).collect()
}

pub(super) fn announce(member: &Member, route: &Announced) {
    let name = map_name(route);
    let mut commands = vec!["configure terminal".to_owned(), format!("no route-map {name}")];
    commands.extend(map(member, route));
    vtysh(member, &commands);
    vtysh(member, &network(member, route, format!("network {} route-map {name}", route.prefix)));
}

pub(super) fn withdraw(member: &Member, route: &Announced) {
    vtysh(member, &network(member, route, format!("no network {}", route.prefix)));
}

pub(super) fn received(member: &Member) -> Table {
    let mut table = Table::new();
    for family in ["ipv4", "ipv6"] {
        let text = vtysh(member, &[format!("show bgp {family} unicast json detail")]);
        let value: Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        for (prefix, paths) in value["routes"].as_object().into_iter().flatten() {
            let from = |path: &&Value| path["peer"]["peerId"] == member.neighbour.as_str();
            if let Some(path) = paths.as_array().unwrap().iter().find(from) {
                table.insert(prefix.clone(), route(path));
            }
        }
    }
    table
}

fn route(path: &Value) -> Received {
    let global =
        path["nexthops"].as_array().unwrap().iter().find(|hop| hop["scope"] != "link-local");
    let words = |value: &Value| -> Vec<String> {
        value.as_str().unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    };
    let communities = [&path["community"]["string"], &path["largeCommunity"]["string"]];
    Received {
        next_hop: global.unwrap()["ip"].as_str().unwrap().to_owned(),
        path: words(&path["aspath"]["string"]).iter().map(|asn| asn.parse().unwrap()).collect(),
        origin: path["origin"].as_str().unwrap().to_lowercase(),
        med: path["metric"].as_u64().unwrap_or(0) as u32,
        communities: communities.into_iter().flat_map(words).collect(),
    }
}
