//! What a proxy tells about itself: its ready line, status, routes, and metrics.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use rhumb_bgp::policy::prefix::parse_prefix;
use rhumb_bgp::policy::{Member as Index, Unwanted};
use rhumb_bgp::wire::{AsPathSegment, RpkiValidation};
use rhumb_bgp::{Attributes, Family, State};
use rhumb_daemon::admin::Admin;
use rhumb_daemon::daemon::{Metric, Snapshot};
use rhumb_member::{Refusal, Shown};
use rhumb_wire::Name;
use serde::Serialize;
use serde_json::{Value, json};

use super::super::control::Request;
use super::super::routes::prefix_text;
use super::Proxy;

/// The one line a proxy prints when it is at work.
pub(super) struct Ready {
    pub(super) name: Name,
    pub(super) site: String,
    pub(super) listen: SocketAddr,
    pub(super) router: SocketAddr,
    pub(super) control: Option<PathBuf>,
    pub(super) admin: Option<Admin>,
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "member ready: {} for router {}, at {}", self.site, self.router, self.listen)?;
        match &self.control {
            Some(control) => {
                write!(f, " (routes: rhumb member routes --control {})", control.display())
            }
            None => Ok(()),
        }
    }
}

impl Serialize for Ready {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({
            "ready": true,
            "role": "member",
            "name": self.name.to_string(),
            "site": self.site,
            "address": self.listen,
            "router": self.router,
            "control": self.control,
            "admin": self.admin,
        })
        .serialize(serializer)
    }
}

/// The answer to a question on the control socket.
pub(super) fn answer(proxy: &Proxy, request: &Request) -> Value {
    match request {
        Request::Status => status(proxy),
        Request::Routes { prefix: None } => routes(proxy, None),
        Request::Routes { prefix: Some(text) } => match parse_prefix(text) {
            Some(prefix) => routes(proxy, Some(prefix)),
            None => json!({ "error": format!("`{text}` is no prefix") }),
        },
    }
}

fn routes(proxy: &Proxy, prefix: Option<rhumb_bgp::wire::Prefix>) -> Value {
    let offers = proxy.table.offers(prefix);
    let others: Vec<Value> = offers.iter().map(|shown| route(proxy, shown)).collect();
    let own: Vec<Value> = proxy
        .table
        .own(prefix)
        .into_iter()
        .map(|(prefix, attributes, versions)| {
            let labels = |members: &rhumb_bgp::policy::MemberSet| -> Vec<String> {
                members.iter().map(|member| proxy.standing.label(member)).collect()
            };
            json!({
                "prefix": prefix_text(prefix),
                "path": path(attributes),
                "next_hop": attributes.next_hop().to_string(),
                "versions": versions.iter().map(labels).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({ "routes": others, "own": own })
}

fn route(proxy: &Proxy, shown: &Shown<'_>) -> Value {
    let offer = shown.offer;
    let taken = offer.taken.as_ref().ok();
    json!({
        "prefix": prefix_text(shown.prefix),
        "from": proxy.standing.label(shown.key.from),
        "variant": shown.key.variant,
        "path": offer.attributes().map(path),
        "next_hop": offer.attributes().map(|it| it.next_hop().to_string()),
        "rpki": match offer.validity {
            RpkiValidation::Valid => "valid",
            RpkiValidation::Invalid => "invalid",
            RpkiValidation::NotFound => "not found",
        },
        "local_preference": taken.map(|taken| taken.candidate.preference),
        "class": shown.class,
        "selected": shown.is_selected,
        "in_use": shown.is_given,
        "why": why(shown),
    })
}

fn why(shown: &Shown<'_>) -> String {
    match (&shown.offer.taken, shown.class) {
        (Err(refusal), _) => refused(*refusal),
        (Ok(_), Some(class)) if shown.is_given && shown.is_selected => {
            format!("in use: chosen by the exchange within class {class}")
        }
        (Ok(_), Some(class)) if shown.is_given => format!("in use: the best of class {class}"),
        (Ok(_), Some(0)) => "of the best class, another one was chosen".to_owned(),
        (Ok(_), Some(class)) => format!("of class {class}, behind the best"),
        (Ok(_), None) => "not ranked yet".to_owned(),
    }
}

fn refused(refusal: Refusal) -> String {
    let why = match refusal {
        Refusal::Malformed(malformed) => malformed.as_str().to_owned(),
        Refusal::Stranger => "its announcer is not in the roster".to_owned(),
        Refusal::Policy(Unwanted::Loop) => "our AS is in its path".to_owned(),
        Refusal::Policy(Unwanted::FirstAsn) => {
            "its path does not begin with its announcer".to_owned()
        }
        Refusal::Policy(Unwanted::Blackhole) => "it asks for packets to be thrown away".to_owned(),
        Refusal::Policy(Unwanted::Rule(Some(rule))) => format!("by import rule {}", rule + 1),
        Refusal::Policy(Unwanted::Rule(None)) => "no import rule takes it".to_owned(),
    };
    format!("refused: {why}")
}

fn path(attributes: &Attributes) -> Vec<Value> {
    let segments = attributes.as_path().segments;
    let shown = segments.iter().flat_map(|segment| match segment {
        AsPathSegment::AsSequence(numbers) => numbers.iter().map(|it| json!(it)).collect(),
        AsPathSegment::AsSet(numbers) => vec![json!(numbers)],
    });
    shown.collect()
}

fn status(proxy: &Proxy) -> Value {
    let counts = proxy.table.counts();
    json!({
        "role": "member",
        "name": proxy.credentials.name().to_string(),
        "address": proxy.listener.address,
        "site": proxy.standing.label(Index(proxy.standing.lane.0)),
        "uptime_s": proxy.started.elapsed().as_secs(),
        "reloads": proxy.reloads,
        "router": router(proxy),
        "servers": proxy.links.report(),
        "exchange": exchange(proxy),
        "routes": {
            "own": counts.own,
            "prefixes": counts.prefixes,
            "offered": counts.offers,
            "taken": counts.taken,
            "in_use": counts.given,
            "being_judged": counts.waiting,
        },
        "counters": proxy.exchange.counters,
        "rpki": { "payloads": counts.vrps, "caches": proxy.rtr.report() },
    })
}

fn router(proxy: &Proxy) -> Value {
    let router = proxy.neighbour.status();
    let [v4, v6] = Family::ALL.map(|family| {
        let routes = router.routes[family as usize];
        json!({ "received": routes.received, "stale": routes.stale, "sent": routes.sent })
    });
    json!({
        "address": proxy.settings.bgp.router,
        "state": state(router.state),
        "waits_for": waits_for(router.state, proxy.settings.bgp.router),
        "since_s": router.since.elapsed().as_secs(),
        "last_down": router.last_down.map(|reason| reason.to_string()),
        "problem": router.problem,
        "ipv4": v4,
        "ipv6": v6,
        "messages_received": router.counters.messages_received,
        "messages_sent": router.counters.messages_sent,
        "treated_as_withdraw": router.counters.treated_as_withdraw,
        "leaks": router.counters.leaks,
        "refused_connections": proxy.listener.refused(),
    })
}

fn exchange(proxy: &Proxy) -> Value {
    let (core, live) = (proxy.exchange.seat.status(), proxy.exchange.seat.live_shards());
    json!({
        "shards": live.map(|(_, all)| all),
        "live_shards": live.map(|(live, _)| live),
        "sites": proxy.standing.sites.len(),
        "server_sites": core.map(|(status, _)| status.server_lanes),
        "synced": proxy.exchange.seat.has_all() && proxy.table.has_judged_all(),
        "apart_s": proxy.exchange.seat.apart_since().map(|since| since.elapsed().as_secs()),
        "announced_routes": core.map(|(status, _)| status.announced),
        "refused_routes": core.map(|(status, _)| status.refused),
        "refused_why": core.filter(|(status, _)| status.refused > 0).map(|_| BEYOND_QUOTA),
        "known_routes": core.map(|(status, _)| status.known),
        "unopened": core.map(|(status, _)| status.unopened),
        "inconsistent": core.map(|(status, _)| status.inconsistent),
        "round_p50_us": proxy.exchange.rounds.at(500),
        "round_p99_us": proxy.exchange.rounds.at(990),
    })
}

/// What can be done about routes that a server refused.
const BEYOND_QUOTA: &str =
    "they are beyond this site's quota, max_routes and max_mib of the roster: nobody gets them";

/// In one line, while the session is not up.
fn waits_for(state: State, router: SocketAddr) -> Option<String> {
    Some(match state {
        State::Idle => "a moment, before the next try".to_owned(),
        State::Active => format!("a connection from {router}, or the time for the next try"),
        State::Connect => format!("{router} to take a connection"),
        State::OpenSent => format!("the OPEN of {router}: it has connected, and says nothing"),
        State::OpenConfirm => format!("the first KEEPALIVE of {router}"),
        State::Established => return None,
    })
}

fn state(state: State) -> &'static str {
    match state {
        State::Idle => "idle",
        State::Active => "active",
        State::Connect => "connect",
        State::OpenSent => "open sent",
        State::OpenConfirm => "open confirm",
        State::Established => "established",
    }
}

/// Status and metrics of this moment.
pub(super) fn snapshot(proxy: &Proxy) -> Snapshot {
    let (counts, counters) = (proxy.table.counts(), proxy.exchange.counters);
    let router = proxy.neighbour.status();
    let (connected, _) = proxy.links.count();
    let live = proxy.exchange.seat.live_shards().map_or(0, |(live, _)| live);
    let routes = [
        ("own", counts.own),
        ("offered", counts.offers),
        ("taken", counts.taken),
        ("in_use", counts.given),
    ];
    let events = [
        ("announced", counters.announced),
        ("withdrawn", counters.withdrawn),
        ("offered", counters.offered),
        ("retracted", counters.retracted),
        ("asked", counters.asked),
        ("selected", counters.selected),
        ("missed", counters.missed),
    ];
    let lost = [
        ("no_prefix", counters.no_prefix),
        ("too_long", counters.too_long),
        ("too_many", counters.too_many),
    ];
    let metrics = vec![
        ROUTER_UP.is(router.state == State::Established),
        SERVERS.is(connected),
        LIVE.is(live),
        WAITING.is(proxy.links.waiting()),
        ROUTES.by("kind", routes),
        EVENTS.by("kind", events),
        LOST.by("kind", lost),
    ];
    Snapshot { status: status(proxy), metrics }
}

/// 0 for longer than a moment: the router is away, see `last_down` in the status.
const ROUTER_UP: Metric =
    Metric::gauge("rhumb_member_router_up", "Whether the session with the router is up.");
/// Less than all: see `problem` in the status.
const SERVERS: Metric =
    Metric::gauge("rhumb_member_connected_servers", "Servers of the exchange with a connection.");
/// 0: nothing is computed; routes are used for five minutes more.
const LIVE: Metric =
    Metric::gauge("rhumb_member_live_shards", "Shards in which both parties compute.");
/// What stays high says that a server is too slow.
const WAITING: Metric = Metric::gauge("rhumb_member_waiting_bytes", "Bytes that wait for servers.");
/// `offered` minus `taken` are those that policies refuse.
const ROUTES: Metric = Metric::gauge("rhumb_member_routes", "Routes by kind.");
/// `missed` grows when this proxy answers too late.
const EVENTS: Metric = Metric::counter(
    "rhumb_member_events_total",
    "What was told to the exchange, and what it told, by kind.",
);
/// Anything but zero needs a look.
const LOST: Metric = Metric::counter(
    "rhumb_member_lost_routes_total",
    "Routes that could not be told or read, by kind.",
);
