//! Servers, proxies and routers, each a process on a host of its own.

use std::process::Command;
use std::thread::sleep;
use std::time::Instant;

use serde_json::Value;

use crate::harness::{Place, Running};
use crate::lan::{Lan, Station};
use crate::router::{Router, Session};
use crate::usage::Usage;
use crate::{PATIENCE, PATIENCE_A_ROUTE, PERIOD};

/// All that runs. Ends with the value.
pub(crate) struct Rig {
    _lan: Lan,
    place: Place,
    servers: Vec<(Station, Running)>,
    proxies: Vec<Proxy>,
    pub(crate) routers: Vec<Router>,
    pub(crate) routes: usize,
    pub(crate) contested: usize,
    pub(crate) shards: usize,
}

/// What processes have used, by name, and what routers were told, up to a moment.
pub(crate) struct State {
    pub(crate) usage: Vec<(String, Usage)>,
    pub(crate) sessions: Vec<Session>,
}

struct Proxy {
    station: Station,
    running: Option<Running>,
    /// Of the process before.
    former: Usage,
}

impl Rig {
    /// All but the late member's proxy run and are connected; nobody announces anything.
    ///
    /// # Errors
    ///
    /// Why it cannot be.
    pub(crate) fn new(routes: usize, shards: usize) -> Result<Self, String> {
        let found = Command::new("sh").args(["-c", "command -v bird"]).output();
        if !found.is_ok_and(|it| it.status.success()) {
            return Err("without bird (Debian package bird2)".to_owned());
        }
        let mut lan = Lan::new()?;
        let place = Place::new();
        let contested = routes / 10;
        let servers = start_servers(&mut lan, &place, shards);
        let proxies = (0..MEMBERS)
            .map(|index| Proxy {
                station: lan.station(101 + index),
                running: None,
                former: Usage::default(),
            })
            .collect();
        let routers = (0..MEMBERS)
            .map(|index| {
                let own = [routes, contested].get(index).copied().unwrap_or(0);
                let station = lan.station(11 + index);
                Router::start(
                    index,
                    station,
                    asn(index),
                    &proxy_address(index),
                    own,
                    place.folder(),
                )
            })
            .collect();
        let mut rig =
            Self { _lan: lan, place, servers, proxies, routers, routes, contested, shards };
        (0..LATE).for_each(|index| rig.start_proxy(index));
        rig.wait("sessions", |rig| {
            rig.routers[..LATE].iter().all(|router| router.session().is_up)
                && (0..LATE).all(|index| rig.is_synced(index))
        });
        Ok(rig)
    }

    pub(crate) fn start_proxy(&mut self, index: usize) {
        let (place, proxy) = (&self.place, &mut self.proxies[index]);
        let config = format!("member{index}.toml");
        let mut running =
            proxy.station.host.enter(|| place.start(&["--config", &config, "member"]));
        assert_eq!(running.next_object()["ready"], true);
        proxy.running = Some(running);
    }

    pub(crate) fn kill_proxy(&mut self, index: usize) {
        let proxy = &mut self.proxies[index];
        if let Some(running) = proxy.running.take() {
            proxy.former = Usage::of(running.child.id());
            running.kill();
        }
    }

    /// Waits until it is so.
    pub(crate) fn wait(&self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let over = Instant::now() + PATIENCE + PATIENCE_A_ROUTE * self.routes as u32;
        while !is_so(self) {
            assert!(Instant::now() < over, "no {what}:\n{}", self.describe());
            sleep(PERIOD);
        }
    }

    /// Waits until the servers have had nothing to do for a while.
    pub(crate) fn rest(&self) {
        let mut before = Value::Null;
        self.wait("rest", |rig| {
            // What a shard tells of itself may be a quarter of a second old.
            sleep(PERIOD * 5);
            let status = rig.ask_server(0);
            let is_idle = status["routes"]["waiting"] == 0 && status["rounds"]["under_way"] == 0;
            let now = serde_json::json!([status["routes"], status["rounds"]]);
            is_idle && std::mem::replace(&mut before, now.clone()) == now
        });
    }

    /// Routes that the servers have exported.
    pub(crate) fn exported(&self) -> u64 {
        self.ask_server(0)["routes"]["exported"].as_u64().unwrap_or(0)
    }

    /// How all stand.
    pub(crate) fn state(&self) -> State {
        State { usage: self.usage(), sessions: self.sessions() }
    }

    /// Of each process, by name.
    fn usage(&self) -> Vec<(String, Usage)> {
        let servers =
            self.servers.iter().enumerate().map(|(at, (_, running))| {
                (format!("party {}", at + 1), Usage::of(running.child.id()))
            });
        let proxies = self.proxies.iter().enumerate().map(|(at, proxy)| {
            let now = proxy.running.as_ref().map(|running| Usage::of(running.child.id()));
            let mut usage = now.unwrap_or_default();
            usage.cpu_s += proxy.former.cpu_s;
            usage.most_resident_mb = usage.most_resident_mb.max(proxy.former.most_resident_mb);
            (format!("proxy {at}"), usage)
        });
        let routers = self.routers.iter();
        let routers = routers.map(|it| (format!("bird {}", it.index), Usage::of(it.id())));
        servers.chain(proxies).chain(routers).collect()
    }

    /// What each router was told so far.
    fn sessions(&self) -> Vec<Session> {
        self.routers.iter().map(Router::session).collect()
    }

    fn is_synced(&self, index: usize) -> bool {
        self.ask_proxy(index)["exchange"]["synced"] == true
    }

    fn ask_proxy(&self, index: usize) -> Value {
        let config = format!("member{index}.toml");
        let run = self.place.run(&["--json", "--config", &config, "member", "status"]);
        if run.code == 0 { run.object() } else { Value::Null }
    }

    fn ask_server(&self, index: usize) -> Value {
        let (place, (station, _)) = (&self.place, &self.servers[index]);
        let asked = ["--json", "exchange", "status", "--admin", ADMIN];
        let run = station.host.enter(|| place.run(&asked));
        if run.code == 0 { run.object() } else { Value::Null }
    }

    /// For people, where it does not go on.
    fn describe(&self) -> String {
        let running = self.proxies.iter().filter_map(|proxy| proxy.running.as_ref());
        let servers = self.servers.iter().map(|(_, running)| running);
        let logs: String = servers.chain(running).map(Running::errors_so_far).collect();
        let servers: String = (0..2).map(|at| format!("{:#}\n", self.ask_server(at))).collect();
        let proxies: String =
            (0..MEMBERS).map(|at| format!("{:#}\n", self.ask_proxy(at))).collect();
        let routers: String = self.routers.iter().map(Router::log).collect();
        format!("{servers}{proxies}{:#?}\n{logs}{routers}", self.sessions())
    }
}

/// Keys, roster and settings of all, and the servers.
fn start_servers(lan: &mut Lan, place: &Place, shards: usize) -> Vec<(Station, Running)> {
    let names = ["one", "two"].map(|server| place.keygen("node", &format!("{server}.key")));
    let site = |index: usize| {
        let name = place.keygen("node", &format!("member{index}.key"));
        let asn = asn(index);
        format!("[[site]]\nmember = \"m{index}\"\nsite = \"a\"\nasn = {asn}\nname = \"{name}\"\n")
    };
    place.write("roster.toml", &(0..MEMBERS).map(site).collect::<String>());
    let addresses =
        [format!("{}@10.90.0.2:7480", names[0]), format!("{}@10.90.0.3:7480", names[1])];
    for index in 0..MEMBERS {
        let [one, two] = &addresses;
        let (asn, own) = (asn(index), proxy_address(index));
        place.write(
            &format!("member{index}.toml"),
            &format!(
                "log = \"rhumb=info\"\n[member]\nkey = \"member{index}.key\"\nroster = \"roster.toml\"\nasn = {asn}\n\
                 exchange_asn = {EXCHANGE}\nexchange = [\"{one}\"]\nneutral = [\"{two}\"]\nselect_best = true\n\
                 control = \"member{index}.sock\"\n\
                 [member.bgp]\nrouter = \"10.90.0.{}\"\nlisten = \"{own}\"\nid = \"{own}\"\nmax_prefixes = {MAX_PREFIXES}\n\
                 [member.export]\notherwise = \"accept\"\n[member.import]\notherwise = \"accept\"\n",
                11 + index,
            ),
        );
    }
    let start = |(at, server): (usize, &str)| {
        let station = lan.station(2 + at);
        let config = format!("{server}.toml");
        place.write(
            &config,
            &format!(
                "log = \"rhumb=info\"\n[exchange]\nrechoose_ms = 86400000\nparty = {}\nkey = \"{server}.key\"\nroster = \"roster.toml\"\n\
                 peer = [\"{}\"]\nlisten = \"{}:7480\"\nadmin = \"{ADMIN}\"\nshards = {shards}\n",
                at + 1,
                addresses[1 - at],
                station.v4,
            ),
        );
        let mut running = station.host.enter(|| place.start(&["--config", &config, "exchange"]));
        assert_eq!(running.next_object()["ready"], true);
        (station, running)
    };
    ["one", "two"].into_iter().enumerate().map(start).collect()
}

fn asn(index: usize) -> u32 {
    64_500 + index as u32
}

fn proxy_address(index: usize) -> String {
    format!("10.90.0.{}", 101 + index)
}

/// The one with the table, one that has a part of it, too, and one whose proxy starts late.
pub(crate) const ANNOUNCER: usize = 0;
pub(crate) const RIVAL: usize = 1;
pub(crate) const LATE: usize = 3;
pub(crate) const MEMBERS: usize = 4;
/// The AS of the exchange's route servers.
pub(crate) const EXCHANGE: u32 = 64_499;
const ADMIN: &str = "127.0.0.1:7481";
/// Above any table here.
const MAX_PREFIXES: usize = 2_000_000;
