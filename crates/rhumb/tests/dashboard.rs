//! `rhumb dashboard` at the edge of its process, and in a real browser with a real network: nodes
//! that appear, traffic that moves, an alarm, and nothing asked of anybody else.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rhumb_rib::Entry;
use rhumb_rib::store::{Change, Embedded, Store};
use rhumb_trust::{Identity, Window, load_key};
use rhumb_wire::certificate::Locator;
use rhumb_wire::{Name, Role, Scope, Statement};
use serde_json::{Value, json};

use crate::driven::Browser;
use crate::harness::{Place, Running, remote};

/// A dashboard on a port of its own, and where it is.
fn dashboard(place: &Place, more: &[&str]) -> (Running, Value) {
    let arguments = [&["dashboard", "--listen", "127.0.0.1:0"], more].concat();
    let mut dashboard = place.start(&arguments);
    let ready = dashboard.next_object();
    (dashboard, ready)
}

fn get(address: &str, path: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn afar_nothing_is_shown_without_a_token_of_ones_own() {
    let place = Place::new();
    let run = place.run(&["dashboard", "--listen", "0.0.0.0:0"]);
    run.is_refused_with(&["reached from afar", "plain text", "--token-file", "127.0.0.1"]);
    place.write("token", "a-token-of-twenty-characters\n");
    let set = |mode| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(place.path("token"), permissions).unwrap();
    };
    let afar = ["dashboard", "--listen", "0.0.0.0:0", "--token-file", "token"];
    set(0o644);
    place.run(&afar).is_refused_with(&["holds a secret", "chmod 600"]);
    set(0o600);
    let mut dashboard = place.start(&afar);
    let ready = dashboard.next_object();
    // A token that is in a file is not printed, and that it travels in plain text is said.
    assert!(!ready["url"].as_str().unwrap().contains("token"), "{ready}");
    dashboard.wait_for_error("not encrypted");
    let port = ready["address"].as_str().unwrap().rsplit(':').next().unwrap().to_owned();
    let answer = get(&format!("127.0.0.1:{port}"), "/api/state", "");
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    assert_eq!(dashboard.end().0, 0);
    place.write("token", "short\n");
    place.run(&afar).is_refused_with(&["20 to 200 characters"]);
    place
        .run(&["dashboard", "--token-file", "none"])
        .is_refused_with(&["no file none", "umask 077"]);
}

#[test]
fn what_is_wrong_is_said_before_anything_is_served() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    place.run(&["dashboard", "--listen", &at]).is_refused_with(&["is in use", "--listen"]);
    place.run(&["dashboard", "--only"]).refused_by_the_command_line("--admin");
    place
        .run(&["dashboard", "--host", "http://x"])
        .refused_by_the_command_line("no name of a host");
}

/// Every user of a machine reaches its loopback addresses.
#[test]
fn on_loopback_a_token_is_asked_for_too_and_is_new_each_time() {
    let place = Place::new();
    let (first, one) = dashboard(&place, &[]);
    let (second, other) = dashboard(&place, &[]);
    let token =
        |ready: &Value| ready["url"].as_str().unwrap().split_once("#token=").unwrap().1.to_owned();
    assert_ne!(token(&one), token(&other));
    let address = one["address"].as_str().unwrap();
    assert!(get(address, "/", "").starts_with("HTTP/1.1 200 "));
    for (path, headers, status) in [
        ("/api/state", "", 401),
        ("/api/state", "Rhumb-Key: x\r\nCookie: rhumb-dashboard=x\r\n", 401),
        ("/", "Origin: http://evil.example\r\n", 403),
        ("/", "Sec-Fetch-Site: cross-site\r\n", 403),
        ("/", "Host: evil.example\r\n", 403),
    ] {
        let answer = get(address, path, headers);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path} {headers}: {answer}");
    }
    assert_eq!(first.signal("TERM"), 0);
    let (code, errors) = second.end();
    assert_eq!((code, errors.as_str()), (0, ""));
}

/// Three routers with a RIB, and nodes at them, each with a socket for status.
struct Site {
    rib: Option<Running>,
    admins: Vec<String>,
    router: String,
    router_port: u16,
    _running: Vec<Running>,
}

impl Site {
    fn start(place: &Place) -> Self {
        let mut site = Self {
            rib: None,
            admins: Vec::new(),
            router: String::new(),
            router_port: 0,
            _running: Vec::new(),
        };
        place.keygen("rib", "directory.key");
        let mut rib = place.start(&[
            "rib",
            "--listen",
            "127.0.0.1:0",
            "--key",
            "directory.key",
            "--store",
            "rib.redb",
            "--admin",
            &site.admin("directory"),
        ]);
        let to_rib = remote(&rib.next_object());
        site.rib = Some(rib);
        let mut routers = Vec::new();
        for label in ["harbour", "hill", "mill"] {
            place.keygen("router", &format!("{label}.key"));
            let key = format!("{label}.key");
            let mut router = place.start(&[
                "router",
                "--listen",
                "127.0.0.1:0",
                "--key",
                &key,
                "--rib",
                &to_rib,
                "--admin",
                &site.admin(label),
            ]);
            routers.push(router.next_object());
            site._running.push(router);
        }
        for (node, at) in [("alice", 0), ("bob", 1), ("carol", 2), ("dora", 1)] {
            place.keygen("node", &format!("{node}.key"));
            let to = remote(&routers[at]);
            let (key, inbox) = (format!("{node}.key"), format!("{node}-inbox"));
            std::fs::create_dir(place.path(&inbox)).unwrap();
            let mut running = place.start(&[
                "receive",
                "--key",
                &key,
                "--router",
                &to,
                "--dir",
                &inbox,
                "--admin",
                &site.admin(node),
            ]);
            running.next_object();
            site._running.push(running);
        }
        // Whoever makes a key may write anything into its label.
        let claims = ["keygen", "--out", "mallory.key", "--label", EXPLOIT];
        assert_eq!(place.run(&claims).code, 0);
        assert_eq!(place.run(&["name", "remove", "mallory"]).code, 0);
        std::fs::create_dir(place.path("mallory-inbox")).unwrap();
        let mut mallory = place.start(&[
            "receive",
            "--key",
            "mallory.key",
            "--router",
            &remote(&routers[0]),
            "--dir",
            "mallory-inbox",
        ]);
        mallory.next_object();
        site._running.push(mallory);
        site.router = remote(&routers[0]);
        site.router_port = site.router.rsplit(':').next().unwrap().parse().unwrap();
        site
    }

    fn admin(&mut self, label: &str) -> String {
        let path = format!("./{label}.sock");
        self.admins.push(path.clone());
        path
    }
}

/// Sends files from Alice's router to the others, again and again, until it is dropped.
struct Traffic {
    is_over: Arc<AtomicBool>,
    sends: Option<JoinHandle<()>>,
}

impl Traffic {
    fn begin(place: Arc<Place>, router: String) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        std::fs::write(place.path("tides.bin"), vec![7; 3_000_000]).unwrap();
        std::fs::write(place.path("winds.bin"), vec![8; 500_000]).unwrap();
        place.keygen("node", "erin.key");
        let sends = std::thread::spawn(move || {
            let all = [("bob", "tides"), ("carol", "winds"), ("bob", "winds"), ("dora", "tides")];
            for (to, file) in all.into_iter().cycle() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let file = format!("{file}.bin");
                let _ = std::fs::remove_file(place.path(&format!("{to}-inbox/{file}")));
                place.run(&["send", &file, "--to", to, "--key", "erin.key", "--router", &router]);
                std::thread::sleep(Duration::from_millis(300));
            }
        });
        Self { is_over, sends: Some(sends) }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = self.sends.take().map(JoinHandle::join);
    }
}

#[test]
fn a_browser_sees_the_network_live_and_asks_nobody_else() {
    let place = Arc::new(Place::new());
    let Some(browser) = Browser::start(place.folder()) else { return };
    let mut site = Site::start(&place);
    let admins: Vec<&str> = site.admins.iter().flat_map(|it| ["--admin", it]).collect();
    let (_dashboard, ready) = dashboard(&place, &admins);
    let (url, address) = (ready["url"].as_str().unwrap(), ready["address"].as_str().unwrap());
    browser.resize(1280, 860, false);
    browser.open(url);
    // The token leaves the address at once, and all daemons appear.
    browser.wait_for(&format!(
        "document.querySelectorAll('.card .dot.up').length === {}",
        site.admins.len()
    ));
    assert_eq!(browser.look("location.hash"), "");
    browser.wait_for("document.querySelector('.well')");
    // Traffic moves.
    let traffic = Traffic::begin(Arc::clone(&place), site.router.clone());
    browser.wait_for(
        "[...document.querySelectorAll('.figures dd')][2].textContent.includes('Mbit/s')",
    );
    if std::env::var_os(PICTURES).is_some() {
        // Pictures are to have something in their charts.
        std::thread::sleep(Duration::from_secs(100));
    }
    sees_everybody_and_their_words(&browser);
    a_way_is_found_with_its_evidence(&browser, &place, &site.router);
    views_fit_any_screen(&browser, &VIEWS);
    what_is_seen_can_be_reached_by_keys(&browser);
    nobody_else_was_asked(&browser, address);
    another_port_learns_nothing(&browser, address);
    // Two alarms: somebody throws datagrams at a router, and the RIB is killed.
    browser.open(&format!("http://{address}/#overview"));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for number in 0..60_u8 {
        socket.send_to(&[number; 200], ("127.0.0.1", site.router_port)).unwrap();
    }
    browser.wait_for(
        "document.querySelector('.alarms .problem')?.textContent.includes('dropped in a minute')",
    );
    site.rib.take().unwrap().kill();
    browser.wait_for("document.querySelector('.alarms').textContent.includes('it has ended')");
    browser.wait_for(
        "document.querySelector('.alarms').textContent.includes('no session with its RIB')",
    );
    browser.wait_for("document.title.startsWith('(')");
    keep(&browser, "alarms");
    drop(traffic);
    nobody_else_was_asked(&browser, address);
}

/// A RIB over a store of many names, and one that every user of the machine can ask.
#[test]
fn a_browser_looks_through_the_names_of_a_rib() {
    let place = Place::new();
    let Some(browser) = Browser::start(place.folder()) else { return };
    let alice = place.keygen("node", "alice.key");
    let names = store_of_many(&place, &alice);
    place.keygen("rib", "rib.key");
    let start = |key: &str, store: &str, admin: &str| {
        let own = ["--key", key, "--store", store, "--admin", admin];
        let mut rib = place.start(&[&["rib", "--listen", "127.0.0.1:0"], &own[..]].concat());
        let ready = rib.next_object();
        (rib, ready["admin"].as_str().unwrap().to_owned())
    };
    place.keygen("rib", "other.key");
    let (_rib, socket) = start("rib.key", "many.redb", "./rib.sock");
    let (_other, open) = start("other.key", "other.redb", "127.0.0.1:0");
    let (_dashboard, ready) = dashboard(&place, &["--only", "--admin", &socket, "--admin", &open]);
    browser.open(ready["url"].as_str().unwrap());
    browser.wait_for("document.querySelectorAll('.card .dot.up').length === 2");
    browser.resize(1280, 860, false);
    browser.run("location.hash = 'directory'", &json!([]));
    let section = format!("document.querySelector('section[data-key={}]')", json!(socket));
    let look = |section: &str, text: &str| {
        browser.wait_for(&format!("{section}?.querySelector('.ask input')"));
        browser.run(
            &format!("const input = {section}.querySelector('.ask input'); input.value = ''; input.focus()"),
            &json!([]),
        );
        browser.type_keys(if text.is_empty() { " " } else { text });
        browser.type_keys(ENTER);
    };
    let titles = format!(
        "[...new Set([...{section}.querySelectorAll('td[data-label=Name] span[title]')].map((it) => it.title))]"
    );
    let shows = |expected: &[Name]| {
        let expected: Vec<String> = expected.iter().map(Name::to_string).collect();
        browser.wait_for(&format!("JSON.stringify({titles}) === '{}'", json!(expected)));
    };
    // Page by page, and back.
    look(&section, "");
    shows(&names[..25]);
    keep(&browser, "names-light");
    let press = |words: &str| {
        let button = format!(
            "[...{section}.querySelectorAll('.pages button')].find((it) => it.textContent === '{words}')"
        );
        browser.run(&format!("{button}.click()"), &json!([]));
    };
    press("Next page");
    shows(&names[25..50]);
    press("Next page");
    shows(&names[50..]);
    assert_eq!(
        browser.look(&format!("{section}.querySelector('.pages button:last-child').disabled")),
        true
    );
    press("Page before");
    shows(&names[25..50]);
    // By a beginning, by what somebody is called here, and by what nobody is.
    let beginning = names[40].to_string()[..8].to_owned();
    look(&section, &beginning);
    shows(&names[40..41]);
    look(&section, "alice");
    shows(&[alice.parse().unwrap()]);
    for said in ["alice", "node", "locator", "192.0.2.1:4000", "route", "via"] {
        browser.wait_for(&format!("{section}.querySelector('tbody').textContent.includes('{said}') || {section}.textContent.includes('{said}')"));
    }
    views_fit_any_screen(&browser, &["directory"]);
    look(&section, "No Such");
    browser.wait_for(&format!(
        "{section}.querySelector('.note.bad').textContent.includes('Nobody is called')"
    ));
    // A RIB that every user can ask lists nothing, and says why.
    let other = format!("document.querySelector('section[data-key={}]')", json!(open));
    look(&other, "");
    browser.wait_for(&format!(
        "{other}.querySelector('.note.bad')?.textContent.includes('by a Unix socket only')"
    ));
    let console = browser.console();
    assert!(console.iter().all(|line| line.contains("502")), "{console:?}");
}

/// A store of sixty names with a route each, and of this one, which has a locator, too; all of them
/// in order.
fn store_of_many(place: &Place, alice: &str) -> Vec<Name> {
    let now_s =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let alice_key = load_key(&place.path("alice.key"), None).unwrap();
    let mut holders: Vec<Identity> =
        (0..60).map(|_| Identity::generate(Role::Node, now_s).unwrap()).collect();
    assert_eq!(alice_key.name().to_string(), alice);
    holders.push(alice_key);
    let by = holders[0].name();
    let window = Window::starting(now_s, 600);
    let changes: Vec<Change> = holders
        .iter()
        .map(|holder| {
            let mut entry = Entry::new((**holder.metadata()).clone(), by);
            let locator = Locator::new("192.0.2.1:4000".parse().unwrap()).unwrap();
            let route = Statement::Route { via: by, scope: Scope::Any };
            for (statement, sequence) in [(route, 1), (Statement::Locator(locator), 2)] {
                if sequence == 1 || holder.name().to_string() == alice {
                    let said = holder.certify(statement, sequence, window).unwrap();
                    entry.admit(&said, by, now_s).unwrap();
                }
            }
            Change { name: holder.name(), before: None, after: Some(entry) }
        })
        .collect();
    let mut store = Embedded::open(&place.path("many.redb")).unwrap();
    store.commit(&changes).unwrap();
    let mut names: Vec<Name> = holders.iter().map(Identity::name).collect();
    names.sort_unstable();
    names
}

/// Nobody else was asked for anything since this was looked at last, and nothing went wrong.
fn nobody_else_was_asked(browser: &Browser, address: &str) {
    let own = format!("http://{address}/");
    let asked = browser.requests();
    assert!(asked.iter().any(|url| url.ends_with("/api/state")), "{asked:?}");
    let foreign: Vec<&String> = asked.iter().filter(|url| !url.starts_with(&own)).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
    assert_eq!(browser.console(), [""; 0]);
}

/// A daemon that tells one status, whatever it is asked.
fn told(place: &Place, name: &str, status: &Value) -> String {
    let path = place.path(name);
    let listener = UnixListener::bind(&path).unwrap();
    let answer = format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{status}\n");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    path.display().to_string()
}

/// What a waypoint, a key server, a server of an exchange and a member tell, as they tell it.
#[test]
fn a_browser_sees_accounts_and_rounds() {
    let place = Place::new();
    let Some(browser) = Browser::start(place.folder()) else { return };
    let name = "a2".repeat(26);
    let waypoint = json!({
        "role": "waypoint", "name": "raw", "address": "192.0.2.1", "uptime_s": 99, "epochs": [3, 4],
        "counters": {"forwarded_packets": 12_345, "forwarded_bytes": 9_876_543, "dropped_packets": 7},
        "revocations": {"serial": 8, "in_force": 2, "is_current": false, "is_kept": true},
        "accounts": [{"principal": 4242, "packets": 12_000, "bytes": 9_000_000}],
        "dropped_by_reason": {"binding": 7},
    });
    let keyserver = json!({
        "role": "keyserver", "name": "_k.example.net", "address": "192.0.2.53:53", "uptime_s": 9,
        "principals": 5, "revocations": 2, "serial": 9, "counters": {"keys": 3},
        "followers": [{"waypoint": "192.0.2.1", "serial": 8, "seen_s": 3}],
    });
    let exchange = json!({
        "role": "exchange", "name": name, "address": "192.0.2.7:7480", "uptime_s": 70, "party": 1,
        "is_standby": false, "sites": 3, "pair": null,
        "members": [{"site": "Example/fra", "address": "192.0.2.9:4711", "connected_s": 60,
            "unsent_bytes": 0, "refused_routes": 31}],
        "routes": {"current": 800, "exported": 900}, "rounds": {"under_way": 4, "selected": 77, "missed": 1},
        "triples": {"bits_in_stock": 6400, "vectors_in_stock": 640},
        "export_latency_us": {"p50": 900, "p99": 4000}, "round_latency_us": {"p50": 5000, "p99": 9000},
        "shards": [{"shard": 0, "computes": true, "waiting": 1, "current": 800, "handled": 44}],
    });
    let member = json!({
        "role": "member", "name": name, "address": "127.0.0.1:179", "site": "Example/fra", "uptime_s": 5,
        "router": {"state": "established", "since_s": 3, "problem": "no password"},
        "exchange": {"shards": 4, "live_shards": 3}, "routes": {"own": 11, "offered": 12, "in_use": 10},
    });
    // Of daemons that tell nonsense, or what this version does not know, the page believes nothing.
    let nonsense = json!({
        "role": "router", "name": 7, "sessions": 5, "attached": [1, null, "x", {}], "ribs": {"a": 1},
        "tables": [1, 2], "newest_flows": "no", "own_statement": [], "domain": 3, "members": 1,
        "counters": {"forwarded_pdus": "many"}, "dropped_pdus": {"a": {"b": 1}, "malformed": -1},
    });
    let unheard_of = json!({"role": {"x": 1}, "sessions": [{"peer": 3, "role": []}], "site": []});
    let all = [
        ("n.sock", nonsense),
        ("u.sock", unheard_of),
        ("w.sock", waypoint),
        ("k.sock", keyserver),
        ("x.sock", exchange),
        ("m.sock", member),
    ];
    let admins: Vec<String> = all.iter().map(|(at, status)| told(&place, at, status)).collect();
    let admins: Vec<&str> = admins.iter().flat_map(|it| ["--admin", it]).collect();
    let (_dashboard, ready) = dashboard(&place, &admins);
    browser.open(ready["url"].as_str().unwrap());
    browser.wait_for("document.querySelectorAll('.card .dot.up').length === 6");
    browser.wait_for("document.querySelector('.alarms').textContent.includes('no connection with the other server')");
    browser.run("location.hash = 'waypoints'", &json!([]));
    for said in ["4242", "9\u{202f}MB", "behind", "_k.example.net", "8, behind", "3, 4"] {
        browser.wait_for(&format!("document.querySelector('main').textContent.includes('{said}')"));
    }
    browser.run("location.hash = 'exchange'", &json!([]));
    for said in ["Party 1", "away", "Example/fra", "31", "9.00\u{202f}ms", "no password", "of 4"] {
        browser.wait_for(&format!("document.querySelector('main').textContent.includes('{said}')"));
    }
    views_fit_any_screen(&browser, &[&VIEWS[..], &["waypoints", "exchange"]].concat());
    nobody_else_was_asked(&browser, ready["address"].as_str().unwrap());
}

/// The picture has all names, its links carry, and a label that is markup stays text.
fn sees_everybody_and_their_words(browser: &Browser) {
    browser.run("location.hash = 'network'", &json!([]));
    browser.wait_for("document.querySelectorAll('.peer').length >= 9");
    for label in ["directory", "harbour", "hill", "mill", "alice", "bob", "carol", "dora"] {
        browser.wait_for(&format!("[...document.querySelectorAll('.peer text')].some((it) => it.textContent === '{label}')"));
    }
    browser.wait_for("document.querySelector('.link.busy')");
    browser.wait_for(&format!("document.body.textContent.includes({})", json!("<img src=x")));
    assert_eq!(browser.look("document.querySelectorAll('img, main script').length"), 0);
    assert_eq!(browser.look("globalThis.owned === undefined"), true);
    // Not even the page's own code can make markup of text.
    let refused = "try { document.body.innerHTML = '<b>x</b>'; return 'made' } catch (error) { return error.name }";
    assert_eq!(browser.run(refused, &json!([])), "TypeError");
    browser.console();
    browser.run("location.hash = 'flows'", &json!([]));
    browser.wait_for("document.querySelector('tbody')?.textContent.includes('bob')");
    browser.run("location.hash = 'certificates'", &json!([]));
    browser.wait_for("document.querySelector('tbody')?.textContent.includes('Attached name')");
}

/// By `rhumb trace`, from the router that the configuration file names.
fn a_way_is_found_with_its_evidence(browser: &Browser, place: &Place, router: &str) {
    place.write("rhumb.toml", &format!("[node]\nrouter = \"{router}\"\n"));
    browser.run("location.hash = 'trace'", &json!([]));
    browser.wait_for("document.querySelector('.ask input')");
    browser.run("document.querySelector('.ask input').focus()", &json!([]));
    browser.type_keys("bob");
    browser.type_keys(ENTER);
    browser.wait_for("document.querySelectorAll('.hops li').length === 4");
    for said in ["harbour", "hill", "bob", "the name itself", "may carry by the word of harbour"] {
        browser
            .wait_for(&format!("document.querySelector('.hops').textContent.includes('{said}')"));
    }
    browser.wait_for("document.querySelector('.hops details code').textContent.length > 100");
}

/// In light and dark, on a desk and on a phone: nothing is wider than the screen.
fn views_fit_any_screen(browser: &Browser, views: &[&str]) {
    for (theme, width, height, is_phone) in
        [("light", 1280, 860, false), ("dark", 1280, 860, false), ("light", 360, 780, true)]
    {
        browser.prefer("prefers-color-scheme", theme);
        browser.resize(width, height, is_phone);
        browser.wait_for(&format!("document.documentElement.dataset.theme === '{theme}'"));
        for view in views {
            browser.run(&format!("location.hash = '{view}'"), &json!([]));
            browser.wait_for(&format!("document.querySelector('main > [data-key={view}]')"));
            let is_within = format!("document.documentElement.scrollWidth <= {width}");
            assert_eq!(browser.look(&is_within), true, "{view} at {width}");
            let form = if is_phone { "phone" } else { theme };
            keep(browser, &format!("{view}-{form}"));
        }
    }
    browser.resize(1280, 860, false);
}

/// By Tab and Enter alone: to a view, to somebody in the picture, and along a chart.
fn what_is_seen_can_be_reached_by_keys(browser: &Browser) {
    let focused = |what: &str| {
        for _ in 0..60 {
            if browser.look(&format!("Boolean(document.activeElement.matches({}))", json!(what)))
                == true
            {
                return;
            }
            browser.type_keys(TAB);
        }
        panic!("the keys never lead to {what}");
    };
    browser.run("location.hash = 'overview'; document.activeElement.blur()", &json!([]));
    focused("nav a[href='#network']");
    browser.type_keys(ENTER);
    browser.wait_for("document.querySelector('main > [data-key=network]')");
    focused(".peer");
    browser.type_keys(ENTER);
    browser.wait_for("document.querySelector('.facts dl')");
    browser.run("location.hash = 'traffic'", &json!([]));
    browser.wait_for("document.querySelector('.plot svg')");
    focused(".plot svg");
    browser.type_keys(LEFT);
    browser.wait_for("document.querySelector('.cursor')");
}

/// A server of another user at another port of this host: it is sent the cookie, and has nothing of
/// it; and its page reads nothing and frames nothing.
fn another_port_learns_nothing(browser: &Browser, address: &str) {
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = elsewhere.local_addr().unwrap();
    let page = "<!doctype html><title>elsewhere</title><p>x";
    let heard = std::thread::spawn(move || {
        loop {
            let (mut stream, _) = elsewhere.accept().unwrap();
            // A browser may open a connection that it does not use.
            stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
            let mut head = [0; 8192];
            let read = stream.read(&mut head).unwrap_or(0);
            let head = String::from_utf8_lossy(&head[..read]).into_owned();
            if head.starts_with("GET /elsewhere ") {
                let len = page.len();
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n{page}").unwrap();
                return head;
            }
        }
    });
    browser.open(&format!("http://{at}/elsewhere"));
    let heard = heard.join().unwrap();
    let cookie = heard.lines().find(|line| line.to_ascii_lowercase().starts_with("cookie:"));
    let cookie = cookie.expect("browsers send cookies to every port of a host").to_owned();
    let answer = get(address, "/api/state", &format!("{cookie}\r\n"));
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    let read = "const done = arguments[arguments.length - 1]; \
                return fetch(arguments[0], {credentials: 'include'}).then((it) => it.status, (error) => error.name)";
    for path in ["/api/state", "/"] {
        let told = browser.run(read, &json!([format!("http://{address}{path}")]));
        assert_eq!(told, "TypeError", "{path}");
    }
    let framed = "const frame = document.createElement('iframe'); frame.src = arguments[0]; document.body.append(frame); \
                  return new Promise((done) => { frame.onload = () => { try { done(String(frame.contentDocument?.body?.textContent ?? '')) } catch { done('closed') } } })";
    let told = browser.run(framed, &json!([format!("http://{address}/")]));
    assert!(!told.as_str().unwrap().contains("Rhumb"), "{told}");
    // All of this was asked for by the other page.
    browser.open("about:blank");
    browser.requests();
    browser.console();
}

/// Keeps a picture where somebody asked for them: `cargo xtask screens`.
fn keep(browser: &Browser, name: &str) {
    let Some(folder) = std::env::var_os(PICTURES).map(PathBuf::from) else { return };
    std::thread::sleep(Duration::from_millis(400));
    std::fs::write(folder.join(format!("dashboard-{name}.png")), browser.picture()).unwrap();
}

const VIEWS: [&str; 8] =
    ["overview", "network", "traffic", "sessions", "flows", "certificates", "directory", "trace"];
/// Where pictures are wanted, if they are.
const PICTURES: &str = "RHUMB_PICTURES";
const EXPLOIT: &str = "<img src=x onerror=globalThis.owned=1>";
const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";
const LEFT: &str = "\u{e012}";
