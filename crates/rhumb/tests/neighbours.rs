//! Domains beside each other, without one around them: real RIBs, borders and nodes. What a name
//! is reached by follows each domain's preference, a border that dies or a neighbour that withdraws
//! is gone around, and no domain carries for whom it has no word of.
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Place, Run, Running, remote};

const ANY: &str = "127.0.0.1:0";
/// What processes on a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Who a neighbour is, and what else the settings say of it.
pub(crate) struct Beside {
    pub(crate) label: &'static str,
    pub(crate) relation: &'static str,
    pub(crate) more: String,
}

pub(crate) fn beside(label: &'static str, relation: &'static str) -> Beside {
    Beside { label, relation, more: String::new() }
}

/// A domain: its RIB, a border, and a router inside.
pub(crate) struct Domain {
    label: &'static str,
    pub(crate) name: String,
    pub(crate) rib: String,
    pub(crate) rib_admin: String,
    pub(crate) rib_process: Running,
    pub(crate) border: Option<Running>,
    pub(crate) border_admin: String,
    interior: String,
    _interior: Running,
}

/// The keys of domains and of their RIBs are there first, since neighbours name each other.
pub(crate) struct Planned {
    pub(crate) label: &'static str,
    name: String,
    rib: String,
    listen: String,
    /// What the settings say of an exchange, by which its neighbours are told then; or nothing.
    pub(crate) exchange: String,
    /// Its router at the border, and what the settings of that say.
    pub(crate) router: String,
    pub(crate) border: String,
}

pub(crate) fn admit(place: &Place, issuer: &str, role: &str, key: &str, rights: &str) -> String {
    let name = place.keygen(role, key);
    let beside = key.replace(".key", ".membership");
    let admit = ["domain", "admit", &name, "--key", issuer, "--rights", rights, "--out", &beside];
    let run = place.run(&admit);
    assert_eq!(run.code, 0, "{}", run.errors);
    name
}

pub(crate) fn plan(place: &Place, label: &'static str) -> Planned {
    let key = format!("domain-{label}.key");
    let name = place.keygen("domain", &key);
    let rib = admit(place, &key, "rib", &format!("rib-{label}.key"), "publish");
    let socket = UdpSocket::bind(ANY).unwrap();
    let listen = socket.local_addr().unwrap().to_string();
    let router = admit(place, &key, "router", &format!("router-{label}.key"), "carry,publish");
    Planned { label, name, rib, listen, exchange: String::new(), router, border: String::new() }
}

/// Writes what a RIB's settings say of its neighbours, each of which may carry for the domain.
pub(crate) fn settle(place: &Place, plans: &[Planned], own: &Planned, neighbours: &[Beside]) {
    let mut text = format!("[rib]\n{}", own.exchange);
    for neighbour in neighbours {
        let to = plans.iter().find(|it| it.label == neighbour.label).unwrap();
        let file = format!("{}-{}.carriage", own.label, to.label);
        if !place.path(&file).exists() {
            let key = format!("domain-{}.key", own.label);
            let mut carry =
                vec!["domain", "carry", "--key", &key, "--by", &to.name, "--out", &file];
            carry.extend((neighbour.relation != "provider").then_some("--within"));
            let run = place.run(&carry);
            assert_eq!(run.code, 0, "{}", run.errors);
        }
        let told = match own.exchange.is_empty() {
            true => format!("rib = [\"{}@{}\"]", to.rib, to.listen),
            false => format!("site = \"{}/a\"", to.label),
        };
        text += &format!(
            "[[rib.neighbour]]\nname = \"{}\"\nrelation = \"{}\"\n{told}\ncarriage = \"{}\"\n{}\n",
            to.name,
            neighbour.relation,
            place.path(&file).display(),
            neighbour.more
        );
    }
    place.write(&format!("{}.toml", own.label), &text);
}

pub(crate) fn start(
    place: &Place,
    plans: &[Planned],
    own: &Planned,
    neighbours: &[Beside],
) -> Domain {
    settle(place, plans, own, neighbours);
    let Planned { label, name, listen, .. } = own;
    let key = format!("domain-{label}.key");
    let closed = ["--strangers", "refused", "--admit-domain", name];
    let (file, rib_key) = (format!("{label}.toml"), format!("rib-{label}.key"));
    let store = format!("{label}.redb");
    let rib = [
        "--config", &file, "rib", "--key", &rib_key, "--listen", listen, "--domain", name,
        "--store", &store, "--admin", ANY,
    ];
    let mut rib_process = place.start(&[&rib[..], &closed].concat());
    let ready = rib_process.next_object();
    let (rib, rib_admin) = (remote(&ready), ready["admin"].as_str().unwrap().to_owned());

    let words = format!("{label}.border");
    let to = &own.router;
    let run = place.run(&["domain", "delegate", "--key", &key, "--to", to, "--out", &words]);
    assert_eq!(run.code, 0, "{}", run.errors);
    let place_of: Vec<String> = neighbours
        .iter()
        .flat_map(|it| {
            let other = plans.iter().find(|plan| plan.label == it.label).unwrap().name.clone();
            match it.relation {
                "provider" => vec!["--around".to_owned(), other],
                "customer" => vec!["--customer".to_owned(), other],
                _ => vec![],
            }
        })
        .collect();
    let place_of: Vec<&str> = place_of.iter().map(String::as_str).collect();
    place.write(&format!("{label}-border.toml"), &own.border);
    let (border, border_admin) = start_border(place, label, &rib, &place_of);

    let interior_key = format!("router-{label}-inside.key");
    admit(place, &key, "router", &interior_key, "carry,publish");
    let inside = ["router", "--key", &interior_key, "--listen", ANY, "--rib", &rib];
    let domain = ["--domain", name];
    let around = place_of.chunks(2).filter(|it| it[0] == "--around").flatten();
    let around: Vec<&str> = around.copied().collect();
    let mut interior = place.start(&[&inside[..], &domain, &closed, &around].concat());
    let at = remote(&interior.next_object());
    Domain {
        label,
        name: name.clone(),
        rib,
        rib_admin,
        rib_process,
        border: Some(border),
        border_admin,
        interior: at,
        _interior: interior,
    }
}

/// Starts a border anew, by the settings that were written for it.
pub(crate) fn start_border(
    place: &Place,
    label: &str,
    rib: &str,
    place_of: &[&str],
) -> (Running, String) {
    let (key, words) = (format!("router-{label}.key"), format!("{label}.border"));
    let file = format!("{label}-border.toml");
    let own = ["--config", &file, "router", "--key", &key, "--listen", ANY, "--rib", rib];
    let border = ["--border", &words, "--admin", ANY];
    let mut border = place.start(&[&own[..], &border, place_of].concat());
    let admin = border.next_object()["admin"].as_str().unwrap().to_owned();
    (border, admin)
}

impl Domain {
    /// How many PDUs its border has handed on.
    fn carried(&self, place: &Place) -> u64 {
        let run = place.run(&["--json", "status", "--admin", &self.border_admin]);
        assert_eq!(run.code, 0, "{}", run.errors);
        run.object()["counters"]["forwarded_pdus"].as_u64().unwrap()
    }

    /// The neighbours by which its RIB reaches a domain, the first one first.
    pub(crate) fn ways(&self, place: &Place, to: &str) -> Vec<Value> {
        let run = place.run(&["--json", "domain", "routes", to, "--admin", &self.rib_admin]);
        assert_eq!(run.code, 0, "{}", run.errors);
        let routes = run.object();
        routes[0]["ways"].as_array().cloned().unwrap_or_default()
    }

    pub(crate) fn wait_for_ways(&self, place: &Place, to: &str, expected: &[&str]) {
        let until = Instant::now() + PATIENCE;
        loop {
            let ways = self.ways(place, to);
            let by: Vec<&str> = ways.iter().filter_map(|it| it["by"].as_str()).collect();
            if by == expected {
                return;
            }
            assert!(Instant::now() < until, "{}: {ways:?} is not by {expected:?}", self.label);
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// A node of a domain that answers pings.
pub(crate) fn receiver(place: &Place, domain: &Domain, label: &str) -> (Running, String) {
    let key = format!("node-{label}.key");
    admit(place, &format!("domain-{}.key", domain.label), "node", &key, "join");
    let receive =
        ["receive", "--key", &key, "--router", &domain.interior, "--export", &domain.name];
    let mut running = place.start(&receive);
    let name = running.next_object()["name"].as_str().unwrap().to_owned();
    (running, name)
}

pub(crate) fn ping(place: &Place, domain: &Domain, key: &str, to: &str) -> Run {
    let ping = ["ping", to, "--count", "1", "--key", key, "--router", &domain.interior];
    place.run(&[&ping[..], &["--export", &domain.name]].concat())
}

#[track_caller]
pub(crate) fn reaches(place: &Place, domain: &Domain, key: &str, to: &str) {
    let until = Instant::now() + PATIENCE;
    loop {
        let run = ping(place, domain, key, to);
        if run.code == 0 {
            return;
        }
        assert!(Instant::now() < until, "{}{}", run.output, run.errors);
    }
}

/// Two providers, left and right, with the customers near and home, and far, a peer of left.
#[test]
fn a_name_is_reached_by_the_neighbour_that_is_preferred_and_by_the_other_one_when_that_fails() {
    let place = Place::new();
    let plans: Vec<Planned> =
        ["near", "left", "right", "home", "far"].map(|label| plan(&place, label)).into();
    let [near, left, right, home, far] = &plans[..] else { panic!() };
    let liked = |label, relation| {
        let more = "preference = 500".to_owned();
        Beside { more, ..beside(label, relation) }
    };
    let below = || [liked("left", "provider"), beside("right", "provider")];
    let above = || [beside("near", "customer"), beside("home", "customer")];
    let by_left: Vec<Beside> = above().into_iter().chain([beside("far", "peer")]).collect();
    let near = start(&place, &plans, near, &below());
    let mut left = start(&place, &plans, left, &by_left);
    let mut right = start(&place, &plans, right, &above());
    let home = start(&place, &plans, home, &below());
    let far = start(&place, &plans, far, &[beside("left", "peer")]);

    near.wait_for_ways(&place, &home.name, &[&left.name, &right.name]);
    let (_alice, alice) = receiver(&place, &home, "alice");
    for (domain, key) in [("near", "node-bob.key"), ("far", "node-carol.key")] {
        admit(&place, &format!("domain-{domain}.key"), "node", key, "join");
    }
    reaches(&place, &near, "node-bob.key", &alice);
    assert!(left.carried(&place) > 0);
    assert_eq!(right.carried(&place), 0, "nobody prefers it");
    let shown = place.run(&["domain", "routes", &home.name, "--admin", &near.rib_admin]).output;
    assert!(shown.contains("> by"), "{shown}");
    assert!(shown.contains("(provider), preference 100, cost 20: it is liked less"), "{shown}");

    // By a peer of a provider, whose word is for those within that one alone.
    far.wait_for_ways(&place, &home.name, &[&left.name]);
    reaches(&place, &far, "node-carol.key", &alice);
    assert_eq!(
        far.ways(&place, &right.name),
        Vec::<Value>::new(),
        "left carries to no peer's peer"
    );

    // Another preference, read again.
    let [liked_less, liked_more] = [beside("left", "provider"), liked("right", "provider")];
    settle(&place, &plans, &plans[0], &[liked_less, liked_more]);
    near.rib_process.nudge("HUP");
    near.wait_for_ways(&place, &home.name, &[&right.name, &left.name]);
    let until = Instant::now() + PATIENCE;
    while right.carried(&place) == 0 {
        reaches(&place, &near, "node-bob.key", &alice);
        assert!(Instant::now() < until, "it goes on by left");
    }

    // Its border dies, and nobody says so.
    right.border.take().unwrap().kill();
    reaches(&place, &near, "node-bob.key", &alice);

    // Left offers home to near no longer: there is nobody else.
    let mut above = above();
    above[0].more = format!("withhold = [\"{}\"]", home.name);
    settle(&place, &plans, &plans[1], &above);
    left.rib_process.nudge("HUP");
    near.wait_for_ways(&place, &home.name, &[&right.name]);
    let (border, admin) = start_border(
        &place,
        "right",
        &right.rib,
        &["--customer", &near.name, "--customer", &home.name],
    );
    (right.border, right.border_admin) = (Some(border), admin);
    reaches(&place, &near, "node-bob.key", &alice);
    // Nor does left carry when it is asked to after all: who hands over has no word of it now.
    left.border.take().unwrap().kill();
    reaches(&place, &near, "node-bob.key", &alice);
}
