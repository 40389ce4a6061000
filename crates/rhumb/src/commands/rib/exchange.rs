//! A RIB's domain as a member of a private exchange: the neighbours of which the settings give a
//! site are told there what is offered to them, and heard there.
//!
//! 1. A thread of its own has the member (`rhumb_member::DomainMember`), and beside it that of the
//!    connections. It announces when it is time, whatever the RIB does.
//! 2. Once a second it leaves what neighbours offer on the [`Desk`], wakes the RIB, and takes what
//!    is to be offered.
//! 3. The RIB takes and gives the same there ([`AtExchange::meet`]). Offers are verified as all
//!    that neighbours say.
//!
//! Invariant: neither waits for the other, so when something is announced tells nothing of what the
//! RIB does.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rhumb_channel::Credentials;
use rhumb_daemon::config::SeatSettings;
use rhumb_daemon::daemon::{Metric, Snapshot};
use rhumb_daemon::exchange_links::{self, Links, Said};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::roster::{self, Site};
use rhumb_daemon::{clock, key};
use rhumb_exchange::{Lane, Roster, routes_in};
use rhumb_io::Wake;
use rhumb_member::{DomainCounters, DomainMember, OfferedBy, Pace};
use rhumb_rib::Server;
use rhumb_rib::store::Store;
use rhumb_trust::Now;
use rhumb_wire::offer::Offered;
use rhumb_wire::{Name, Role};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::sleep;

/// The member's thread, as the RIB has it. It ends when this is dropped, without a goodbye: borders
/// go on while a RIB is started again.
pub(super) struct AtExchange {
    settings: SeatSettings,
    name: Name,
    label: String,
    /// The lane of each neighbour that is told here.
    lanes: BTreeMap<Name, Lane>,
    desk: Arc<Mutex<Desk>>,
    _end: oneshot::Sender<()>,
}

/// What the two leave for each other.
#[derive(Default)]
struct Desk {
    /// Who the members are and which of them are neighbours, if that is another now.
    standing: Option<Standing>,
    offers: BTreeMap<Lane, Vec<Offered>>,
    heard: BTreeMap<Lane, OfferedBy>,
    /// The RIB has not looked since.
    is_news: bool,
    report: Report,
}

/// Who the members are, and which are neighbours.
struct Standing {
    roster: Arc<Roster>,
    lane: Lane,
    lanes: BTreeMap<Name, Lane>,
}

/// How the member is doing.
#[derive(Clone, Default)]
struct Report {
    servers: Vec<Value>,
    connected: usize,
    live_shards: usize,
    status: Value,
    counters: DomainCounters,
}

impl AtExchange {
    /// Begins to connect. `sites` are those of neighbours, by their domains.
    pub(super) fn start(
        settings: SeatSettings,
        sites: &BTreeMap<Name, String>,
        wake: Wake,
        now: Instant,
    ) -> Outcome<Self> {
        let identity = key::load(&settings.key, Role::Node)?;
        let credentials = Credentials::new(&identity).map_err(Failure::setup)?;
        let name = credentials.name();
        let (standing, label) = Standing::read(&settings, sites, name)?;
        let Standing { roster, lane, lanes } = standing;
        let secret = key::fresh_secret()?;
        let mut member = DomainMember::new(roster, lane, settings.slots, secret, now);
        member.listen_to(&lanes.values().copied().collect());
        let pace = Pace::new(now, COST);
        let links = Links::start(pace.grid, &settings.servers, &credentials)?;
        let desk = Arc::new(Mutex::new(Desk::default()));
        let (end, ended) = oneshot::channel();
        let seated = Seated { member, links, pace, desk: Arc::clone(&desk), wake, look_at: now };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Failure::operation)?;
        let work = move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = ended => {}
                    () = seated.run() => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("exchange".to_owned());
        thread.spawn(work).map_err(Failure::operation)?;
        Ok(Self { settings, name, label, lanes, desk, _end: end })
    }

    /// Neighbours have other sites, or the roster may be another one.
    pub(super) fn read_again<S: Store>(
        &mut self,
        sites: &BTreeMap<Name, String>,
        server: &mut Server<S>,
        now: Now,
    ) {
        match Standing::read(&self.settings, sites, self.name) {
            Ok((standing, label)) => {
                (self.lanes, self.label) = (standing.lanes.clone(), label);
                let offers = self.offers(server, now);
                let mut desk = open(&self.desk);
                // What is there is by lanes that others may have now.
                desk.heard.clear();
                (desk.standing, desk.offers) = (Some(standing), offers);
            }
            Err(failure) => tracing::warn!(%failure, "going on with the roster from before"),
        }
    }

    /// What each lane is to be offered.
    fn offers<S: Store>(&self, server: &mut Server<S>, now: Now) -> BTreeMap<Lane, Vec<Offered>> {
        let lanes = self.lanes.iter();
        lanes.map(|(domain, lane)| (*lane, server.offered_to(*domain, now))).collect()
    }

    /// Hands the RIB what neighbours offer, and takes what they are to be offered, if that is due.
    pub(super) fn meet<S: Store>(&self, server: &mut Server<S>, now: Now) {
        let heard = {
            let mut desk = open(&self.desk);
            if !std::mem::take(&mut desk.is_news) {
                return;
            }
            desk.heard.clone()
        };
        for (domain, lane) in &self.lanes {
            if let Some(OfferedBy { offers, heard_at }) = heard.get(lane) {
                server.hear_offers(*domain, offers, *heard_at, now);
            }
        }
        let offers = self.offers(server, now);
        open(&self.desk).offers = offers;
    }

    /// Adds how it is to what the RIB tells of itself.
    pub(super) fn report(&self, snapshot: &mut Snapshot) {
        let Report { servers, connected, live_shards, status, counters } =
            open(&self.desk).report.clone();
        snapshot.status["exchange"] = json!({
            "site": self.label,
            "slots": self.settings.slots,
            "servers": servers,
            "neighbours": self.lanes.len(),
            "member": status,
            "counters": counters,
        });
        let slots = [("told", counters.told), ("untold", counters.untold + counters.too_long)];
        let heard = [
            ("heard", counters.heard),
            ("retracted", counters.retracted),
            ("late", counters.late),
            ("malformed", counters.malformed),
        ];
        snapshot.metrics.extend([
            SERVERS.is(connected),
            LIVE.is(live_shards),
            OFFERS.by("fate", slots),
            HEARD.by("fate", heard),
        ]);
    }

    /// Offers that found no slot.
    pub(super) fn untold(&self) -> usize {
        open(&self.desk).report.counters.untold
    }
}

impl Standing {
    /// Reads the roster; and what the own site is called.
    fn read(
        settings: &SeatSettings,
        sites: &BTreeMap<Name, String>,
        name: Name,
    ) -> Outcome<(Self, String)> {
        let all = roster::load(&settings.roster)?;
        let lane = roster::lane_of(&all, name, &settings.roster)?;
        let mut lanes = BTreeMap::new();
        for (domain, label) in sites {
            let place = all.iter().position(|it| it.label() == *label && !it.is_removed);
            match place.and_then(|place| u16::try_from(place).ok()).map(Lane) {
                Some(of) if of == lane => {
                    tracing::warn!(%domain, site = label, "a neighbour has our own site");
                }
                Some(of) => _ = lanes.insert(*domain, of),
                None => tracing::warn!(%domain, site = label, "the roster has no such site"),
            }
        }
        let label = all.get(usize::from(lane.0)).map(Site::label).unwrap_or_default();
        Ok((Self { roster: roster::for_exchange(&all)?, lane, lanes }, label))
    }
}

/// The member, and what it has to do with.
struct Seated {
    member: DomainMember,
    links: Links,
    pace: Pace,
    desk: Arc<Mutex<Desk>>,
    wake: Wake,
    /// When the desk is looked at next.
    look_at: Instant,
}

impl Seated {
    async fn run(mut self) {
        let mut events = Vec::new();
        loop {
            let due = self.look_at.min(self.member.poll_timeout());
            let pause = due.saturating_duration_since(Instant::now());
            let pause = if self.links.is_behind() { pause.min(ROOM_PAUSE) } else { pause };
            tokio::select! {
                () = self.links.recv(&mut events, A_TURN) => {
                    for event in events.drain(..) {
                        if let Some(said) = self.links.hear(event, &mut self.member.seat) {
                            self.heard(&said);
                        }
                    }
                }
                () = sleep(pause) => {}
            }
            let now = clock::now();
            if self.look_at <= now.instant {
                self.look(now);
            }
            if let Err(error) = self.member.handle_timeout(now.instant, now.unix_s()) {
                tracing::error!(%error, "the exchange cannot be told what is offered");
            }
            self.links.pump(&mut self.member.seat);
        }
    }

    fn heard(&mut self, said: &Said) {
        let Said { connection, message, came } = said;
        self.pace.heard(*came, routes_in(message));
        let (seat, up) = (&mut self.member.seat, self.links.all_up());
        let handled = seat.handle(*connection, message, &up, exchange_links::fresh);
        if let Some(sites) = seat.take_longer_roster() {
            tracing::warn!(sites, "a server has a longer roster: get it from the exchange");
        }
        match handled {
            Ok(true) => self.member.core_begins(*came),
            Ok(false) => {}
            Err(error) => self.links.cut(*connection, &error, seat),
        }
        let now = clock::now();
        self.member.take_events(now.instant, now.unix_s());
        self.links.speak(&mut self.member.seat, self.pace.due(*came));
    }

    /// Leaves what was heard on the desk, and takes what lies there.
    fn look(&mut self, now: Now) {
        while self.look_at <= now.instant {
            self.look_at += LOOK_EVERY;
        }
        self.member.take_events(now.instant, now.unix_s());
        let report = self.report(now.instant);
        let mut desk = open(&self.desk);
        if let Some(Standing { roster, lane, lanes }) = desk.standing.take() {
            if !self.member.set_roster(roster, lane) {
                tracing::warn!("sites have other places in the roster");
                self.links.begin_anew();
            }
            self.member.listen_to(&lanes.values().copied().collect());
        }
        self.member.set_offers(desk.offers.clone());
        desk.heard = self.member.heard();
        (desk.report, desk.is_news) = (report, true);
        drop(desk);
        self.wake.wake();
    }

    fn report(&mut self, now: Instant) -> Report {
        let seat = &mut self.member.seat;
        seat.note_pair(now);
        let (core, live) = (seat.status(), seat.live_shards());
        let core = core.map(|(status, _)| status);
        let status = json!({
            "shards": live.map(|(_, all)| all),
            "live_shards": live.map(|(live, _)| live),
            "synced": seat.has_all(),
            "apart_s": seat.apart_since().map(|at| now.saturating_duration_since(at).as_secs()),
            "server_sites": core.map(|it| it.server_lanes),
            "announced_routes": core.map(|it| it.announced),
            "refused_routes": core.map(|it| it.refused),
            "known_routes": core.map(|it| it.known),
            "unopened": core.map(|it| it.unopened),
        });
        Report {
            servers: self.links.report(),
            connected: self.links.count().0,
            live_shards: live.map_or(0, |(live, _)| live),
            status,
            counters: self.member.counters,
        }
    }
}

/// Whoever panicked with it left it whole: each change is one assignment.
fn open(desk: &Mutex<Desk>) -> MutexGuard<'_, Desk> {
    desk.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How often what was heard comes to the RIB: as often as RIBs of neighbours are asked.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What each route counts for that is handed out: to open and to read 2 KB takes less.
const COST: Duration = Duration::from_micros(16);
/// Events taken in one turn.
const A_TURN: usize = 1024;
/// How soon a server that took nothing is asked again.
const ROOM_PAUSE: Duration = Duration::from_millis(2);
/// Less than all: see `problem` in the status.
const SERVERS: Metric = Metric::gauge(
    "rhumb_rib_exchange_connected_servers",
    "Servers of the exchange with a connection.",
);
/// 0: no neighbour is heard through the exchange; what was offered is used for five minutes, last.
const LIVE: Metric = Metric::gauge(
    "rhumb_rib_exchange_live_shards",
    "Shards of the exchange in which both parties are there.",
);
/// `untold` needs more `slots` in the settings.
const OFFERS: Metric = Metric::gauge(
    "rhumb_rib_exchange_offers",
    "Offers to neighbours through the exchange, by whether they have a slot.",
);
/// `late` are clocks that differ, or an exchange that withholds; `malformed` a neighbour's fault.
const HEARD: Metric = Metric::counter(
    "rhumb_rib_exchange_heard_slots_total",
    "What neighbours said through the exchange, by what came of it.",
);
