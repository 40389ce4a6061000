//! The private exchange on the LAN: both servers, and a proxy
//! for each member, as their operators run them.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{EXCHANGE, Lan, MATRIX, MEMBERS, PATIENCE, Station};
use crate::harness::{Place, Running};
use crate::wire::Host;

/// Both servers' hosts, keys and settings; and what runs.
pub(crate) struct Private {
    pub(crate) place: Place,
    /// Those of [`SERVERS`].
    stations: [Station; 3],
    names: [String; 3],
    /// Names of the members' keys.
    keys: Vec<String>,
    servers: [Option<Running>; 3],
    proxies: Vec<Proxy>,
    /// Whether proxies take part in Select-Best.
    selects: bool,
    /// Members of the plain route server at party one, to which their proxies speak for them.
    plain: Vec<usize>,
}

/// What a proxy's settings have besides the usual.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct More<'a> {
    /// Keys of `[member]`.
    pub(crate) member: &'a str,
    /// Keys of `[member.bgp]`.
    pub(crate) bgp: &'a str,
    /// Keys and rules of `[member.export]`.
    pub(crate) export: &'a str,
    /// Rules of `[member.import]`.
    pub(crate) import: &'a str,
}

/// A member's proxy.
struct Proxy {
    station: Station,
    running: Option<Running>,
}

/// Party one's server, party two's, and its standby.
const SERVERS: [&str; 3] = ["one", "two", "two-b"];

/// Addresses on the LAN: servers at 2, 3 and 4, the proxy of member n at 101 + n.
pub(crate) fn proxy_address(index: usize) -> String {
    format!("10.90.0.{}", 101 + index)
}

impl Private {
    /// Makes hosts, keys and settings; nothing runs yet.
    pub(crate) fn new(lan: &mut Lan, selects: bool) -> Self {
        let place = Place::new();
        let names = SERVERS.map(|server| place.keygen("node", &format!("{server}.key")));
        let stations = [2, 3, 4].map(|number| lan.station(number));
        let keys: Vec<String> = (0..MEMBERS.len())
            .map(|index| place.keygen("node", &format!("member{index}.key")))
            .collect();
        let [one, two, standby] = &names;
        let callers = format!("peer = [\"{one}@10.90.0.2:7480\"]");
        let called = format!(
            "peer = [\"{two}@10.90.0.3:7480\", \"{standby}@10.90.0.4:7480\"]\ntakeover_ms = 500\n\
             port_load = \"load\""
        );
        for (at, (server, more)) in SERVERS.iter().zip([&called, &callers, &callers]).enumerate() {
            place.write(
                &format!("{server}.toml"),
                &format!(
                    "log = \"rhumb=info\"\n[exchange]\nparty = {}\nkey = \"{server}.key\"\nroster = \"roster.toml\"\n\
                     listen = \"{}:7480\"\nadmin = \"127.0.0.1:7481\"\nshards = 2\n{more}\n",
                    1 + at.min(1),
                    stations[at].v4,
                ),
            );
        }
        place.write("load", "");
        let proxies = (0..MEMBERS.len())
            .map(|index| Proxy { station: lan.station(101 + index), running: None })
            .collect();
        let (servers, plain) = ([None, None, None], Vec::new());
        let private = Self { place, stations, names, keys, servers, proxies, selects, plain };
        private.write_roster(MEMBERS.len(), None);
        (0..MEMBERS.len()).for_each(|index| private.configure(index, ""));
        private
    }

    /// A roster of the first so many members, of which one may be gone.
    pub(crate) fn write_roster(&self, members: usize, removed: Option<usize>) {
        let mut roster = String::new();
        for (index, ((asn, _), name)) in MEMBERS.iter().zip(&self.keys).take(members).enumerate() {
            let is_removed = removed == Some(index);
            roster += &format!(
                "[[site]]\nmember = \"m{index}\"\nsite = \"sp\"\nasn = {asn}\nname = \"{name}\"\n\
                 removed = {is_removed}\n"
            );
        }
        self.place.write("roster.toml", &roster);
    }

    /// Has all servers read their files again.
    pub(crate) fn reload_servers(&self) {
        self.servers.iter().flatten().for_each(|server| server.nudge("HUP"));
    }

    /// How full each member's port is, in percent.
    pub(crate) fn set_load(&self, load: &[u32]) {
        let lines = load.iter().enumerate().map(|(index, load)| format!("m{index}/sp {load}\n"));
        self.place.write("load", &lines.collect::<String>());
    }

    /// Writes the settings of a member's proxy: its row of the matrix, and `more` about exports.
    pub(crate) fn configure(&self, index: usize, more: &str) {
        self.configure_with(index, More { export: more, ..More::default() });
    }

    /// Writes the settings of a member's proxy, with all kinds of more.
    pub(crate) fn configure_with(&self, index: usize, more: More<'_>) {
        let (asn, _) = MEMBERS[index];
        let row = (0..MEMBERS.len()).filter(|to| *to != index && MATRIX[index][*to] == 1);
        let row: Vec<String> = row.map(|to| format!("\"AS{}\"", MEMBERS[to].0)).collect();
        let own = proxy_address(index);
        let router = match self.plain.contains(&index) {
            true => format!("{}\"\npassive = true", self.stations[0].v4),
            false => format!("10.90.0.{}\"", 11 + index),
        };
        let [one, two, standby] = &self.names;
        let More { member, bgp, export, import } = more;
        let only = match export.contains("only = ") {
            true => String::new(),
            false => format!("only = [{}]", row.join(", ")),
        };
        self.place.write(
            &format!("member{index}.toml"),
            &format!(
                "log = \"rhumb=info\"\n[member]\nkey = \"member{index}.key\"\nroster = \"roster.toml\"\nasn = {asn}\n\
                 exchange_asn = {EXCHANGE}\nexchange = [\"{one}@10.90.0.2:7480\"]\n\
                 neutral = [\"{two}@10.90.0.3:7480\", \"{standby}@10.90.0.4:7480\"]\nselect_best = {}\ncontrol = \"member{index}.sock\"\n\
                 {member}\n[member.bgp]\nrouter = \"{router}\nlisten = \"{own}\"\nid = \"{own}\"\n{bgp}\n\
                 [member.export]\notherwise = \"accept\"\n{only}\n{export}\n\
                 [member.import]\notherwise = \"accept\"\n{import}\n",
                self.selects,
            ),
        );
    }

    /// Has party one run a plain route server for these members, whose password is in `plain.md5`;
    /// those with a proxy take part in the private service, too.
    pub(crate) fn serve_plainly(&mut self, members: &[(usize, bool)]) {
        let mut settings = format!("asn = {EXCHANGE}\nrouter_id = \"{}\"\n", self.stations[0].v4);
        for (index, has_proxy) in members {
            let row = (0..MEMBERS.len()).filter(|to| to != index && MATRIX[*index][*to] == 1);
            let only: Vec<u32> = row.map(|to| MEMBERS[to].0).collect();
            settings += &format!(
                "[[exchange.plain]]\nmember = \"m{index}\"\nasn = {}\naddress = \"10.90.0.{}\"\nonly = {only:?}\n\
                 password = \"plain.md5\"\n",
                MEMBERS[*index].0,
                11 + index,
            );
            if *has_proxy {
                settings += &format!("proxy = \"{}\"\n", proxy_address(*index));
                self.plain.push(*index);
                self.configure(*index, "");
            }
        }
        let file = self.place.path("one.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        self.place.write("one.toml", &(text + &settings));
    }

    /// Writes a file that its owner alone may read.
    pub(crate) fn write_secret(&self, file: &str, text: &str) {
        self.place.write(file, text);
        let owner_only = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(self.place.path(file), owner_only).unwrap();
    }

    /// The address of party one, at which its plain route server is.
    pub(crate) fn plain_address(&self) -> &str {
        &self.stations[0].v4
    }

    /// What `rhumb exchange status --json` says of the plain route server's clients.
    pub(crate) fn plain_clients(&self) -> Vec<Value> {
        let arguments = ["--json", "--config", "one.toml", "exchange", "status"];
        let (place, host) = (&self.place, &self.stations[0].host);
        let run = host.enter(|| place.run(&arguments));
        assert_eq!(run.code, 0, "{}", run.errors);
        run.object()["plain"]["clients"].as_array().unwrap().clone()
    }

    /// The host of a member's proxy.
    pub(crate) fn host_of_proxy(&self, index: usize) -> &Host {
        &self.proxies[index].station.host
    }

    /// Starts one of [`SERVERS`].
    pub(crate) fn start_server(&mut self, server: usize) {
        let config = format!("{}.toml", SERVERS[server]);
        let (place, host) = (&self.place, &self.stations[server].host);
        let mut running = host.enter(|| place.start(&["--config", &config, "exchange"]));
        assert_eq!(running.next_object()["ready"], true);
        self.servers[server] = Some(running);
    }

    /// Starts a member's proxy.
    pub(crate) fn start_proxy(&mut self, index: usize) {
        let config = format!("member{index}.toml");
        let (place, host) = (&self.place, &self.proxies[index].station.host);
        let mut running = host.enter(|| place.start(&["--config", &config, "member"]));
        assert_eq!(running.next_object()["ready"], true);
        self.proxies[index].running = Some(running);
    }

    /// Kills a member's proxy without a warning.
    pub(crate) fn kill_proxy(&mut self, index: usize) {
        self.proxies[index].running.take().unwrap().kill();
    }

    /// Has a member's proxy leave.
    pub(crate) fn end_proxy(&mut self, index: usize) {
        assert_eq!(self.proxies[index].running.take().unwrap().signal("TERM"), 0);
    }

    /// Has a member's proxy read its settings again.
    pub(crate) fn reload_proxy(&self, index: usize) {
        self.proxies[index].running.as_ref().unwrap().nudge("HUP");
    }

    /// Kills one of [`SERVERS`] without a warning.
    pub(crate) fn kill_server(&mut self, server: usize) {
        self.servers[server].take().unwrap().kill();
    }

    /// What `rhumb member ... --json` says of a member's proxy.
    pub(crate) fn ask(&self, index: usize, question: &[&str]) -> Value {
        let config = format!("member{index}.toml");
        let run = self.place.run(&[&["--json", "--config", &config, "member"], question].concat());
        assert_eq!(run.code, 0, "{}", run.errors);
        run.object()
    }

    /// Waits until a proxy's status is as wanted.
    #[track_caller]
    pub(crate) fn wait_for(
        &self,
        index: usize,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Value {
        let begin = Instant::now();
        loop {
            let status = self.ask(index, &["status"]);
            if is_so(&status) {
                return status;
            }
            assert!(begin.elapsed() < PATIENCE, "no {what}: {status:#}\n{}", self.logs());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// What all processes have logged since the last time, and how proxies stand.
    pub(crate) fn logs(&self) -> String {
        let running =
            (0..self.proxies.len()).filter(|index| self.proxies[*index].running.is_some());
        let statuses: String =
            running.map(|index| format!("{}\n", self.ask(index, &["status"]))).collect();
        let servers = self.servers.iter().flatten();
        let proxies = self.proxies.iter().filter_map(|proxy| proxy.running.as_ref());
        let logs = servers.chain(proxies).map(|it| format!("--\n{}", it.errors_so_far()));
        logs.chain([statuses]).collect()
    }
}
