//! ExaBGP: a process of ours gives it commands from a file
//! that grows, and keeps what it tells in another.

use std::fs::File;
use std::io::Write;

use serde_json::Value;

use super::{Announced, EXCHANGE, Member, Process, Received, Table};

pub(super) fn start(member: &Member) -> Vec<Process> {
    let commands: String =
        member.routes.iter().map(|route| command(member, "announce", route)).collect();
    let commands = member.write("commands", commands);
    let told = member.write("told.json", "");
    let script = member.write(
        "process.sh",
        format!("tail -n +1 -F {} &\nexec cat > {}\n", commands.display(), told.display()),
    );
    let (v4, asn) = (&member.station.v4, member.asn);
    let file = member.write(
        "exabgp.conf",
        format!(
            "process ours {{\n run /bin/sh {};\n encoder json;\n}}\nneighbor {} {{\n router-id {v4};\n \
             local-address {v4};\n local-as {asn};\n peer-as {EXCHANGE};\n family {{\n  ipv4 unicast;\n  \
             ipv6 unicast;\n }}\n api {{\n  processes [ ours ];\n  neighbor-changes;\n  receive {{\n   parsed;\n   \
             update;\n  }}\n }}\n}}\n",
            script.display(),
            member.neighbour
        ),
    );
    let script = format!(
        "env exabgp.daemon.user=root exabgp.api.cli=false exabgp.api.ack=false exabgp.log.destination=stderr \
         exabgp {}",
        file.display()
    );
    vec![Process::start(&member.station.host, &script, &member.path("exabgp.log"))]
}

fn command(member: &Member, verb: &str, route: &Announced) -> String {
    let next_hop = member.next_hop(&route.prefix);
    let path: Vec<String> = [member.asn].iter().chain(&route.tail).map(u32::to_string).collect();
    let mut text = format!(
        "{verb} route {} next-hop {next_hop} origin {} as-path [ {} ]",
        route.prefix,
        route.origin,
        path.join(" ")
    );
    if let Some(med) = route.med {
        text += &format!(" med {med}");
    }
    let mut list = |name: &str, values: Vec<String>| {
        if !values.is_empty() {
            text += &format!(" {name} [ {} ]", values.join(" "));
        }
    };
    list("community", route.standard.iter().map(|(high, low)| format!("{high}:{low}")).collect());
    list("large-community", route.large.iter().map(|(a, b, c)| format!("{a}:{b}:{c}")).collect());
    text + "\n"
}

fn tell(member: &Member, command: &str) {
    let mut file = File::options().append(true).open(member.path("commands")).unwrap();
    file.write_all(command.as_bytes()).unwrap();
}

pub(super) fn announce(member: &Member, route: &Announced) {
    tell(member, &command(member, "announce", route));
}

pub(super) fn withdraw(member: &Member, route: &Announced) {
    tell(member, &command(member, "withdraw", route));
}

/// What is left of all that it was told since the session came up.
pub(super) fn received(member: &Member) -> Table {
    let mut table = Table::new();
    let told = std::fs::read_to_string(member.path("told.json")).unwrap_or_default();
    for value in told.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        if value["neighbor"]["state"].is_string() {
            table.clear();
        }
        let update = &value["neighbor"]["message"]["update"];
        let families = |key: &str| update[key].as_object().cloned().unwrap_or_default();
        for prefixes in families("withdraw").values() {
            for prefix in prefixes.as_array().into_iter().flatten() {
                table.remove(prefix["nlri"].as_str().unwrap());
            }
        }
        for next_hops in families("announce").values() {
            for (next_hop, prefixes) in next_hops.as_object().into_iter().flatten() {
                for prefix in prefixes.as_array().into_iter().flatten() {
                    let route = route(next_hop, &update["attribute"]);
                    table.insert(prefix["nlri"].as_str().unwrap().to_owned(), route);
                }
            }
        }
    }
    table
}

fn route(next_hop: &str, attributes: &Value) -> Received {
    let numbers = |value: &Value| -> Vec<u32> {
        value.as_array().into_iter().flatten().map(|it| it.as_u64().unwrap() as u32).collect()
    };
    let communities = ["community", "large-community"].map(|key| attributes[key].as_array());
    let communities = communities.into_iter().flatten().flatten().map(|one| {
        let parts: Vec<String> = numbers(one).iter().map(u32::to_string).collect();
        parts.join(":")
    });
    Received {
        // Of two addresses it tells the link-local one; both end alike.
        next_hop: next_hop.replace("fe80::", "2001:db8:90::"),
        path: numbers(&attributes["as-path"]),
        origin: attributes["origin"].as_str().unwrap().to_owned(),
        med: attributes["med"].as_u64().unwrap_or(0) as u32,
        communities: communities.collect(),
    }
}
