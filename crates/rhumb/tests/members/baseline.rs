//! A plain route server: BIRD, told all members' policies.

use std::path::Path;

use super::{EXCHANGE, Lan, MATRIX, MEMBERS, Process, SERVER, Station};

/// Runs until dropped.
pub(crate) struct Baseline {
    _process: Process,
    _station: Station,
}

impl Baseline {
    /// Starts it, with all members for clients.
    pub(crate) fn start(lan: &mut Lan, folder: &Path) -> Self {
        let station = lan.station(1);
        let file = folder.join("server.conf");
        std::fs::write(&file, config()).unwrap();
        let (file, socket, pid) =
            (file.display(), folder.join("server.ctl"), folder.join("server.pid"));
        let script = format!("bird -f -c {file} -s {} -P {}", socket.display(), pid.display());
        let process = Process::start(&station.host, &script, &folder.join("server.log"));
        Self { _process: process, _station: station }
    }
}

fn config() -> String {
    let clients = (0..MEMBERS.len()).map(client).collect::<String>();
    format!(
        "router id {SERVER};\nlog stderr all;\nipv4 table master4 sorted;\nipv6 table master6 sorted;\n\
         protocol device {{}}\n{clients}"
    )
}

fn client(index: usize) -> String {
    let asn = MEMBERS[index].0;
    let row = (0..MEMBERS.len()).filter(|from| *from != index && MATRIX[*from][index] == 1);
    let allowed: Vec<String> = row.map(|from| MEMBERS[from].0.to_string()).collect();
    let prepends: String = [(101, 1), (102, 2), (103, 3)]
        .map(|(order, times)| {
            let prepend = "bgp_path.prepend(bgp_path.first); ".repeat(times);
            format!(" if ({EXCHANGE}, {order}, {asn}) ~ bgp_large_community then {{ {prepend}}}\n")
        })
        .concat();
    // `secondary`: where the best route may not go to a client, the best that may.
    let channel = format!("import all; export filter to{index}; secondary; next hop keep;");
    format!(
        "filter to{index} {{\n if ! (bgp_path.first ~ [{allowed}]) then reject;\n \
         if (0, {asn}) ~ bgp_community || ({EXCHANGE}, 0, {asn}) ~ bgp_large_community then reject;\n \
         if ((0, {EXCHANGE}) ~ bgp_community || ({EXCHANGE}, 0, 0) ~ bgp_large_community) && \
         ! (({EXCHANGE}, {asn}) ~ bgp_community || ({EXCHANGE}, 1, {asn}) ~ bgp_large_community) then reject;\n\
         {prepends} bgp_community.delete([(0, *), ({EXCHANGE}, *)]);\n \
         bgp_large_community.delete([({EXCHANGE}, *, *)]);\n accept;\n}}\n\
         protocol bgp member{index} {{\n local {SERVER} as {EXCHANGE};\n neighbor 10.90.0.{number} as {asn};\n \
         rs client;\n local role rs_server;\n connect retry time 1;\n connect delay time 1;\n \
         error wait time 1, 2;\n ipv4 {{ {channel} }};\n ipv6 {{ {channel} }};\n}}\n",
        allowed = allowed.join(", "),
        number = 11 + index,
    )
}
