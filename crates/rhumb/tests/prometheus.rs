//! The files for Prometheus and Grafana, as a real Prometheus reads them: rules and settings are
//! valid, each alert goes off for what it is about and for nothing else, and every expression of
//! rules and dashboard is answered from a real router, RIB and node, by metrics that there are.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Place, Running, remote};

#[test]
fn rules_and_settings_are_valid_and_each_alert_goes_off_for_what_it_is_about() {
    if !has_prometheus() {
        return;
    }
    promtool(&["check", "config", "prometheus.yml"]);
    promtool(&["check", "rules", "alerts.yml"]);
    promtool(&["test", "rules", "tests.yml"]);
    // Each has a case of trouble, and one where all is well.
    let tests = file("prometheus/tests.yml");
    let tried: Vec<&str> = tests.split("  - name: ").skip(1).collect();
    for alert in alerts() {
        let of_it: Vec<&&str> = tried.iter().filter(|it| it.starts_with(&alert.name)).collect();
        let is_tried =
            |case: &str| of_it.iter().any(|it| it.starts_with(&format!("{}, {case}", alert.name)));
        assert!(is_tried("trouble") && is_tried("all is well"), "{} is not tried", alert.name);
        for it in of_it {
            let goes_off = it.contains("exp_labels:");
            assert_eq!(goes_off, it.starts_with(&format!("{}, trouble", alert.name)), "{it}");
        }
    }
}

#[test]
fn each_alert_says_what_it_is_what_to_do_and_where_that_is_explained() {
    let alerts = alerts();
    assert!(alerts.len() > 40, "{}", alerts.len());
    let names: BTreeSet<&String> = alerts.iter().map(|it| &it.name).collect();
    assert_eq!(names.len(), alerts.len(), "two have one name");
    for alert in &alerts {
        assert!(alert.name.starts_with("Rhumb"), "{}", alert.name);
        for key in ["severity", "summary", "do"] {
            assert!(alert.says.get(key).is_some_and(|it| it.len() > 3), "{}: {key}", alert.name);
        }
        let (page, heading) = match alert.says["documentation"].split_once('#') {
            Some((page, heading)) => (page, Some(heading)),
            None => (alert.says["documentation"].as_str(), None),
        };
        let page = std::fs::read_to_string(root().join(page)).unwrap_or_else(|_| panic!("{page}"));
        if let Some(heading) = heading {
            let is_there = page.lines().any(|line| anchor(line).as_deref() == Some(heading));
            assert!(is_there, "{}: no heading #{heading}", alert.name);
        }
    }
}

#[test]
fn what_is_asked_for_is_counted_as_it_is_asked_for() {
    let metrics = metrics_in_the_source();
    assert!(metrics.len() > 100, "{}", metrics.len());
    for (what, expression) in expressions() {
        for name in names_in(&expression) {
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|it| name.strip_suffix(it));
            let kind = metrics.get(&name).or_else(|| metrics.get(base?));
            let kind = kind.unwrap_or_else(|| panic!("{what}: there is no metric {name}"));
            // A rate of what can fall is nonsense, and so is a counter as it stands.
            let grows = kind != "gauge";
            for part in expression.split(&name).collect::<Vec<_>>().windows(2) {
                let is_rate = ["rate(", "increase("].iter().any(|it| part[0].ends_with(it));
                assert_eq!(is_rate, grows, "{what}: {name} is a {kind}, in {expression}");
            }
        }
    }
}

#[test]
fn a_real_prometheus_answers_every_expression_from_real_daemons() {
    if !has_prometheus() {
        return;
    }
    let place = Place::new();
    let daemons = Daemons::start(&place);
    let told = daemons.metrics();
    let Some(server) = Server::start(&place, &daemons.admins) else { return };
    let up = || server.number("sum(up)");
    wait_for("all to be scraped", || up() == Some(3.0));
    wait_for("rates", || {
        daemons.talk(&place);
        server.number("sum(rate(rhumb_switch_forwarded_pdus_total[1m]))") > Some(0.0)
    });
    let mut with_figures = 0;
    for (what, expression) in expressions() {
        let ask = || server.ask(&expression).unwrap_or_else(|problem| panic!("{what}: {problem}"));
        let names = names_in(&expression);
        let is_told = names.iter().all(|name| told.contains(name));
        // Filters leave out what does not happen here: it is asked whether there is anything.
        let is_filtered = [" > ", " < ", " == ", " != ", "="]
            .iter()
            .any(|it| expression.replace("job=~", "").replace("instance=~", "").contains(it));
        if is_told && !is_filtered && !names.is_empty() {
            // A rate needs two scrapes, and one of these daemons may have been late to the second.
            wait_for(&format!("{what}, of {expression}"), || !ask().is_empty());
            with_figures += 1;
        } else {
            ask();
        }
    }
    assert!(with_figures > 30, "{with_figures} panels have figures");
    // The rules are evaluated, and nothing is wrong with these daemons.
    wait_for("rules", || {
        let groups = server.get("/api/v1/rules")["data"]["groups"].clone();
        let rules = groups.as_array().into_iter().flatten().flat_map(|it| it["rules"].as_array());
        let rules: Vec<&Value> = rules.flatten().collect();
        assert!(rules.iter().all(|rule| rule["health"] != "err"), "{groups:#}");
        rules.len() == alerts().len() && rules.iter().all(|rule| rule["health"] == "ok")
    });
    let firing = server.ask("ALERTS{alertstate=\"firing\"}").unwrap();
    assert!(firing.is_empty(), "{firing:?}");
    drop(daemons.router);
    let away = || server.number("count(up == 0)");
    wait_for("the router to be missed", || away() == Some(1.0));
    wait_for("its alert", || !server.ask("ALERTS{alertname=\"RhumbDown\"}").unwrap().is_empty());
}

/// A RIB, a router and a receiver to which somebody talks, with metrics on loopback.
struct Daemons {
    router: Running,
    to_router: String,
    admins: Vec<String>,
    _others: [Running; 2],
}

impl Daemons {
    fn start(place: &Place) -> Self {
        let any = "127.0.0.1:0";
        for (role, key) in
            [("rib", "rib.key"), ("router", "router.key"), ("node", "bob.key"), ("node", "a.key")]
        {
            place.keygen(role, key);
        }
        std::fs::create_dir(place.path("in")).unwrap();
        let mut rib = place.start(&[
            "rib", "--listen", any, "--key", "rib.key", "--store", "rib.redb", "--admin", any,
        ]);
        let of_rib = rib.next_object();
        let mut router = place.start(&[
            "router",
            "--listen",
            any,
            "--key",
            "router.key",
            "--rib",
            &remote(&of_rib),
            "--admin",
            any,
        ]);
        let of_router = router.next_object();
        let to_router = remote(&of_router);
        let mut bob = place.start(&[
            "receive", "--key", "bob.key", "--router", &to_router, "--dir", "in", "--admin", any,
        ]);
        let of_bob = bob.next_object();
        let admins = [of_rib, of_router, of_bob].map(|it| it["admin"].as_str().unwrap().to_owned());
        Self { router, to_router, admins: admins.to_vec(), _others: [rib, bob] }
    }

    /// Has a name send to another one.
    fn talk(&self, place: &Place) {
        let to = &self.to_router;
        let ping = place.run(&["ping", "bob", "--key", "a.key", "--router", to, "-c", "3"]);
        assert_eq!(ping.code, 0, "{}", ping.errors);
    }

    /// The names of all that they count.
    fn metrics(&self) -> BTreeSet<String> {
        let pages = self.admins.iter().map(|admin| http(admin, "/metrics").unwrap().1);
        let lines = pages.flat_map(|page| page.lines().map(str::to_owned).collect::<Vec<_>>());
        let name = |line: String| line.split(['{', ' ']).next().map(str::to_owned);
        lines.filter(|line| line.starts_with("rhumb_")).filter_map(name).collect()
    }
}

/// A Prometheus on loopback with our rules, which asks these daemons each second.
struct Server {
    address: String,
    _process: Running,
}

impl Server {
    fn start(place: &Place, admins: &[String]) -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("127.0.0.1:{port}");
        let targets: Vec<String> = admins.iter().map(|it| format!("\"{it}\"")).collect();
        let settings = file("prometheus/prometheus.yml")
            .replace("15s", "1s")
            .replace("\"127.0.0.1:7470\"", &targets.join(", "))
            .replace("      - targets: [\"127.0.0.1:7471\"]\n        labels: { part: rib }\n", "");
        assert_eq!(settings.matches("127.0.0.1").count(), 1 + admins.len(), "{settings}");
        place.write("prometheus.yml", &settings);
        place.write("alerts.yml", &file("prometheus/alerts.yml"));
        let mut command = Command::new("prometheus");
        command.current_dir(place.folder()).args([
            "--config.file=prometheus.yml",
            "--storage.tsdb.path=data",
            &format!("--web.listen-address={address}"),
        ]);
        let process = Running::spawn(command);
        let server = Self { address, _process: process };
        wait_for("Prometheus", || {
            http(&server.address, "/-/ready").is_ok_and(|(is_ready, _)| is_ready)
        });
        Some(server)
    }

    fn get(&self, path: &str) -> Value {
        serde_json::from_str(&http(&self.address, path).unwrap().1).unwrap()
    }

    /// What an expression gives, or what Prometheus has against it.
    fn ask(&self, expression: &str) -> Result<Vec<Value>, String> {
        let expression = expression
            .replace("$__rate_interval", "1m")
            .replace("$job", ".*")
            .replace("$instance", ".*");
        let spelt: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let (_, answer) = http(&self.address, &format!("/api/v1/query?query={spelt}"))?;
        let answer: Value = serde_json::from_str(&answer).map_err(|it| it.to_string())?;
        match answer["status"] == "success" {
            true => Ok(answer["data"]["result"].as_array().cloned().unwrap_or_default()),
            false => Err(format!("{expression}: {answer}")),
        }
    }

    /// The only figure that an expression gives.
    fn number(&self, expression: &str) -> Option<f64> {
        self.ask(expression).unwrap().first()?["value"][1].as_str()?.parse().ok()
    }
}

/// Whether an answer is as it should be, and its body.
fn http(address: &str, path: &str) -> Result<(bool, String), String> {
    let told = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect(address).map_err(told)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(told)?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").map_err(told)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(told)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("no head")?;
    Ok((head.split(' ').nth(1) == Some("200"), body.to_owned()))
}

/// One rule.
struct Alert {
    name: String,
    expression: String,
    says: BTreeMap<String, String>,
}

fn alerts() -> Vec<Alert> {
    let text = file("prometheus/alerts.yml");
    let rules = text.split("- alert: ").skip(1).map(|rule| {
        let lines = rule.lines().skip(1).filter_map(|line| line.trim().split_once(": "));
        let says = lines.map(|(key, value)| (key.to_owned(), value.trim_matches('"').to_owned()));
        let says: BTreeMap<String, String> = says.collect();
        let expression = says["expr"].trim_matches('\'').replace("''", "'");
        Alert { name: rule.lines().next().unwrap().to_owned(), expression, says }
    });
    rules.collect()
}

/// All that is asked of Prometheus, with where.
fn expressions() -> Vec<(String, String)> {
    let rules = alerts().into_iter().map(|it| (it.name, it.expression));
    let dashboard: Value = serde_json::from_str(&file("grafana/rhumb.json")).unwrap();
    let mut all: Vec<(String, String)> = rules.collect();
    let mut ids = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "two panels have one id: {panel}");
        let title = panel["title"].as_str().unwrap();
        let targets = panel["targets"].as_array().into_iter().flatten();
        assert_eq!(panel["type"] == "row", targets.clone().next().is_none(), "{title}");
        all.extend(targets.map(|it| (title.to_owned(), it["expr"].as_str().unwrap().to_owned())));
    }
    assert!(ids.len() > 50, "{}", ids.len());
    all
}

/// The metrics that an expression names; those that a pattern fits, in full.
fn names_in(expression: &str) -> Vec<String> {
    let mut names = BTreeSet::new();
    let words = |text: &str| -> Vec<String> {
        let parts = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        parts.filter(|word| word.starts_with("rhumb_")).map(str::to_owned).collect()
    };
    for (number, part) in expression.split("{__name__=~\"").enumerate() {
        let rest = match number {
            0 => part,
            _ => {
                let (pattern, rest) = part.split_once("\"}").unwrap();
                let (before, of) = pattern.split_once('(').unwrap();
                let (of, after) = of.split_once(')').unwrap();
                names.extend(of.split('|').map(|of| format!("{before}{of}{after}")));
                rest
            }
        };
        names.extend(words(rest));
    }
    names.into_iter().collect()
}

/// Every metric that some daemon has, and of which kind it is.
fn metrics_in_the_source() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root().join("crates/rhumb/src"), root().join("crates/rhumb-daemon/src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(path).unwrap_or_default();
            for part in text.split("Metric::").skip(1) {
                let kind = part.split('(').next().unwrap();
                let name = part.split('"').nth(1).unwrap_or_default();
                if ["counter", "gauge", "histogram"].contains(&kind) && name.starts_with("rhumb_") {
                    found.insert(name.to_owned(), kind.to_owned());
                }
            }
        }
    }
    found
}

/// A heading's place on a page, as links name it.
fn anchor(line: &str) -> Option<String> {
    let heading = line.strip_prefix('#')?.trim_start_matches('#').trim().to_lowercase();
    let kept = heading.chars().filter(|it| it.is_alphanumeric() || " -_".contains(*it));
    Some(kept.map(|it| if it == ' ' { '-' } else { it }).collect())
}

fn has_prometheus() -> bool {
    let is_there = |program| Command::new(program).arg("--version").output().is_ok();
    let has_both = is_there("promtool") && is_there("prometheus");
    if !has_both {
        println!("skipped: without promtool and prometheus (Debian package prometheus)");
    }
    has_both
}

fn promtool(words: &[&str]) {
    let mut command = Command::new("promtool");
    let output = command.current_dir(root().join("packaging/prometheus")).args(words).output();
    let output = output.unwrap();
    let said = [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    assert!(output.status.success(), "promtool {words:?}: {said:?}");
}

fn file(path: &str) -> String {
    std::fs::read_to_string(root().join("packaging").join(path)).unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[track_caller]
fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "no {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// For a machine that is busy with everything else.
const PATIENCE: Duration = Duration::from_secs(60);
