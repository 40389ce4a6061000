//! BIRD: static routes with attributes, its configuration read anew for each change, and `birdc`.

use super::{EXCHANGE, Member, Process, Received, Table, is_v6};

pub(super) fn start(member: &Member) -> Vec<Process> {
    let file = member.write("bird.conf", config(member));
    let (socket, pid) = (member.path("bird.ctl"), member.path("bird.pid"));
    let script =
        format!("bird -f -c {} -s {} -P {}", file.display(), socket.display(), pid.display());
    let process = Process::start(&member.station.host, &script, &member.path("bird.log"));
    let wait =
        format!("for i in $(seq 100); do test -S {} && break; sleep 0.1; done", socket.display());
    member.ask(&wait);
    vec![process]
}

/// Tells it what it announces from now on.
pub(super) fn configure(member: &Member) {
    member.write("bird.conf", config(member));
    birdc(member, "configure");
}

fn birdc(member: &Member, command: &str) -> String {
    member.ask(&format!(
        "birdc -r -s {0} show status > /dev/null; birdc -s {0} {command}",
        member.path("bird.ctl").display()
    ))
}

fn config(member: &Member) -> String {
    let (v4, v6, asn) = (&member.station.v4, &member.station.v6, member.asn);
    let mut text = format!("router id {v4};\nlog stderr all;\nprotocol device {{}}\n");
    for (family, wants_v6) in [("ipv4", false), ("ipv6", true)] {
        let routes = member.routes.iter().filter(|route| is_v6(&route.prefix) == wants_v6);
        let routes: String = routes.map(static_route).collect();
        text += &format!("protocol static static_{family} {{\n {family};\n{routes}}}\n");
    }
    // It sends a MED only where an export filter has set it.
    let channel = "import all; export filter { if source != RTS_STATIC then reject; \
                   if defined(bgp_med) then bgp_med = bgp_med; accept; };";
    let password = member.password.as_ref().map(|it| format!("password \"{it}\";\n "));
    let v6_channel = format!("ipv6 {{ {channel} next hop address {v6}; }};");
    let v6_channel = if member.only_v4 { String::new() } else { v6_channel };
    text + &format!(
        "protocol bgp server {{\n local {v4} as {asn};\n neighbor {} as {EXCHANGE};\n local role rs_client;\n {}\
         enforce first as off;\n connect retry time 1;\n connect delay time 1;\n error wait time 1, 2;\n \
         ipv4 {{ {channel} next hop address {v4}; }};\n {v6_channel}\n}}\n",
        member.neighbour,
        password.unwrap_or_default(),
    )
}

fn static_route(route: &super::Announced) -> String {
    let mut set =
        format!("bgp_origin = ORIGIN_{}; bgp_path = +empty+;", route.origin.to_uppercase());
    for asn in route.tail.iter().rev() {
        set += &format!(" bgp_path.prepend({asn});");
    }
    if let Some(med) = route.med {
        set += &format!(" bgp_med = {med};");
    }
    for (high, low) in &route.standard {
        set += &format!(" bgp_community.add(({high}, {low}));");
    }
    for (a, b, c) in &route.large {
        set += &format!(" bgp_large_community.add(({a}, {b}, {c}));");
    }
    format!(" route {} blackhole {{ {set} }};\n", route.prefix)
}

/// How many routes its neighbour has withdrawn since the session came up.
pub(super) fn withdrawals(member: &Member) -> u32 {
    let text = birdc(member, "show protocols all server");
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix("Import withdraws:"));
    let counts: Vec<u32> =
        lines.map(|counts| counts.split_whitespace().next().unwrap().parse().unwrap()).collect();
    assert_eq!(counts.len(), 2, "{text}");
    counts.iter().sum()
}

pub(super) fn received(member: &Member) -> Table {
    let mut table = Table::new();
    let mut route: Option<(String, Received)> = None;
    let text = birdc(member, "show route all protocol server");
    for line in text.lines() {
        if let Some((prefix, _)) = line.split_once(char::is_whitespace)
            && prefix.contains('/')
        {
            table.extend(route.take());
            let empty = Received {
                next_hop: String::new(),
                path: Vec::new(),
                origin: String::new(),
                med: 0,
                communities: [].into(),
            };
            route = Some((prefix.to_owned(), empty));
        }
        let (Some((_, route)), Some((key, value))) = (&mut route, line.trim().split_once(": "))
        else {
            continue;
        };
        match key {
            "BGP.origin" => route.origin = value.to_lowercase(),
            "BGP.as_path" => {
                route.path = value.split(' ').map(|asn| asn.parse().unwrap()).collect();
            }
            // The link-local one behind it, if any, is of the neighbour's wire.
            "BGP.next_hop" => route.next_hop = value.split(' ').next().unwrap().to_owned(),
            "BGP.med" => route.med = value.parse().unwrap(),
            "BGP.community" | "BGP.large_community" => {
                let all = value.trim_matches(['(', ')']).split(") (");
                route
                    .communities
                    .extend(all.map(|one| one.replace([',', ' '], ":").replace("::", ":")));
            }
            _ => {}
        }
    }
    table.extend(route);
    table
}
