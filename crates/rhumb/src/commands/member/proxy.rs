//! The proxy at work: one task that holds everything, and is told by others what happens.

mod report;

use std::time::{Duration, Instant};

use rhumb_bgp::{Event as RouterEvent, Family, Order, State};
use rhumb_channel::Credentials;
use rhumb_daemon::config::{BgpSettings, ConfigFile, MemberSettings};
use rhumb_daemon::daemon::bgp::{Admitted, Listener, Neighbour, Reach, TcpPassword};
use rhumb_daemon::daemon::{self, Control, Hangup};
use rhumb_daemon::exchange_links::{self, Links, Said, Servers};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::key;
use rhumb_daemon::output::Form;
use rhumb_daemon::supervisor::{self, Heart};
use rhumb_exchange::routes_in;
use rhumb_member::{Changes, Exchange, Pace, Table, Untold};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{sleep, timeout};

use super::Standing;
use super::control::{Question, Socket};
use super::judge::{Judge, cost};
use super::rtr::{Published, RtrFeed};

/// All that the task holds.
pub(super) struct Proxy {
    pub(super) file: ConfigFile,
    pub(super) settings: MemberSettings,
    pub(super) credentials: Credentials,
    pub(super) standing: Standing,
    pub(super) table: Table,
    pub(super) exchange: Exchange,
    pub(super) links: Links,
    pace: Pace,
    judge: Judge,
    untold: Untold,
    pub(super) neighbour: Neighbour,
    pub(super) listener: Listener,
    pub(super) rtr: RtrFeed,
    pub(super) started: Instant,
    pub(super) reloads: u64,
    /// Families of the router's session of which it has not
    /// told all; nothing while there is no session.
    awaited: Option<Vec<Family>>,
    /// Whether the exchange has been told that all is there.
    table_ended: bool,
    /// Whether the router was told that it has all, since its session came up.
    router_ended: bool,
    control: Control,
    hangup: Hangup,
    /// Ends with the proxy.
    socket: Option<Socket>,
    sources: Sources,
}

/// What tells the task what happens.
struct Sources {
    router: mpsc::Receiver<(usize, RouterEvent)>,
    vrps: watch::Receiver<Published>,
    questions: mpsc::Receiver<Question>,
    woken: std::sync::Arc<Notify>,
}

impl Proxy {
    /// Opens sockets, and begins to connect. To be called in a runtime.
    pub(super) fn start(
        file: ConfigFile,
        settings: MemberSettings,
        credentials: Credentials,
        standing: Standing,
        control: Control,
        hangup: Hangup,
    ) -> Outcome<Self> {
        let (events, router) = mpsc::channel(EVENTS);
        let (neighbour, listener) = start_bgp(&settings, events)?;
        let table = Table::new(standing.policies.clone(), settings.select_best);
        let pace = Pace::new(Instant::now(), cost(table.law()));
        let servers =
            Servers { exchange: settings.exchange.clone(), neutral: settings.neutral.clone() };
        let links = Links::start(pace.grid, &servers, &credentials)?;
        let rtr = RtrFeed::start(&settings.rtr);
        let (asked, questions) = mpsc::channel(QUESTIONS);
        let socket =
            settings.control.as_deref().map(|path| Socket::open(path, asked)).transpose()?;
        let woken = std::sync::Arc::new(Notify::new());
        daemon::notify_by(control.wake().clone(), std::sync::Arc::clone(&woken))?;
        let vrps = rtr.subscribe();
        let roster = std::sync::Arc::clone(&standing.roster);
        Ok(Self {
            table,
            pace,
            judge: Judge::start()?,
            untold: Untold::default(),
            exchange: Exchange::new(roster, standing.lane, settings.select_best, Instant::now()),
            file,
            settings,
            credentials,
            standing,
            links,
            neighbour,
            listener,
            rtr,
            started: Instant::now(),
            reloads: 0,
            awaited: None,
            table_ended: false,
            router_ended: false,
            control,
            hangup,
            socket,
            sources: Sources { router, vrps, questions, woken },
        })
    }

    /// Until a signal says stop.
    pub(super) async fn run(mut self, form: Form) -> Outcome {
        let ready = report::Ready {
            name: self.credentials.name(),
            site: self.standing.label(rhumb_bgp::policy::Member(self.standing.lane.0)),
            listen: self.listener.address,
            router: self.settings.bgp.router,
            control: self.settings.control.clone(),
            admin: self.control.admin(),
        };
        supervisor::say_ready(form, &ready);
        let mut heart = Heart::new(self.started);
        let (mut from_router, mut from_links, mut judged) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            let mut changes = Changes::default();
            heart.beat(Instant::now());
            let pause = if self.links.is_behind() { ROOM_PAUSE } else { TICK };
            let left = |at: Instant| at.saturating_duration_since(Instant::now());
            let due = [self.exchange.closes(), self.untold.due()].into_iter().flatten().min();
            let pause = due.map_or(pause, |at| left(at).min(pause));
            tokio::select! {
                _ = self.sources.router.recv_many(&mut from_router, A_TURN) => {
                    for (_, event) in from_router.drain(..) {
                        self.heard_router(event, &mut changes);
                    }
                }
                () = self.links.recv(&mut from_links, A_TURN) => {
                    for event in from_links.drain(..) {
                        if let Some(said) = self.links.hear(event, &mut self.exchange.seat) {
                            self.heard_server(&said, &mut changes);
                        }
                    }
                }
                done = self.judge.judged(&mut judged, A_TURN) => {
                    done?;
                    judged.drain(..).for_each(|it| self.table.judged(it, &mut changes));
                }
                Ok(()) = self.sources.vrps.changed() => {
                    let published = self.sources.vrps.borrow_and_update().clone();
                    let vrps = published.vrps.as_ref().clone();
                    let cache = published.cache.map(tracing::field::display);
                    tracing::info!(payloads = vrps.len(), cache, "the RPKI says something else");
                    self.table.set_vrps(vrps, &mut changes);
                }
                Some(question) = self.sources.questions.recv() => {
                    let answer = report::answer(&self, &question.request);
                    // Who asked may have gone.
                    let _ = question.answer.send(answer);
                }
                () = self.sources.woken.notified() => {
                    if self.control.is_stopped() {
                        return self.leave().await;
                    }
                    if let Some(_reloading) = self.hangup.take() {
                        self.reload(&mut changes)?;
                    }
                    self.control.answer(|| report::snapshot(&self));
                }
                () = sleep(pause) => {}
            }
            self.settle(changes).await?;
        }
    }

    /// Tells everybody what follows from a turn.
    async fn settle(&mut self, mut changes: Changes) -> Outcome {
        let now = Instant::now();
        let is_away = self.exchange.seat.is_away(now);
        self.table.suspend(is_away, &mut changes);
        self.untold.add(std::mem::take(&mut changes.exchange), now, &self.pace.grid);
        for change in self.untold.take_due(now) {
            self.exchange.tell(&change).map_err(Failure::operation)?;
        }
        self.end_table();
        self.hear_core(now, &mut changes);
        changes.cases.drain(..).for_each(|case| self.judge.take(case));
        while let Some(judged) = self.judge.try_judged() {
            self.table.judged(judged, &mut changes);
        }
        while let Some(due) = self.exchange.answer(&self.table, Instant::now()) {
            self.links.speak(&mut self.exchange.seat, due);
        }
        self.links.pump(&mut self.exchange.seat);
        for orders in batches(changes.router) {
            self.neighbour.order(orders).await;
        }
        Ok(())
    }

    fn heard_router(&mut self, event: RouterEvent, changes: &mut Changes) {
        self.untold.heard_router(Instant::now());
        match event {
            RouterEvent::Up(negotiated) => {
                self.untold.table_begins(Instant::now());
                self.awaited = Some(negotiated.families().collect());
                self.router_ended = false;
                self.table.set_router_id(negotiated.remote_id, changes);
            }
            RouterEvent::Announced { prefix, attributes, .. } => {
                self.table.announced(prefix, attributes, changes);
            }
            RouterEvent::Withdrawn { prefix, .. } => self.table.withdrawn(prefix, changes),
            RouterEvent::EndOfRib(family) => {
                if let Some(awaited) = &mut self.awaited {
                    awaited.retain(|other| *other != family);
                }
                if self.awaited.as_ref().is_some_and(Vec::is_empty) {
                    self.untold.table_ended();
                }
            }
            RouterEvent::Down(_) => {
                self.awaited = None;
                self.untold.table_ended();
            }
            _ => {}
        }
    }

    fn heard_server(&mut self, said: &Said, changes: &mut Changes) {
        let Said { connection, message, came } = said;
        self.pace.heard(*came, routes_in(message));
        let up = self.links.all_up();
        let handled = self.exchange.handle(*connection, message, &up, exchange_links::fresh);
        if let Some(sites) = self.exchange.seat.take_longer_roster() {
            let ours = self.standing.sites.len();
            tracing::warn!(sites, ours, "a server has a longer roster: get it from the exchange");
        }
        match handled {
            Ok(outcomes) => {
                if outcomes.is_new {
                    self.table_ended = false;
                    let all = self.table.all_exports().collect();
                    self.untold.begin(all, Instant::now(), &self.pace.grid);
                }
            }
            Err(error) => self.links.cut(*connection, &error, &mut self.exchange.seat),
        }
        self.hear_core(*came, changes);
    }

    /// Takes what the core says about what came at some time. Answers leave when that time says so.
    fn hear_core(&mut self, came: Instant, changes: &mut Changes) {
        let due = self.pace.due_soon(came);
        let outcomes = self.exchange.take_events(&mut self.table, changes, due, Instant::now());
        self.end_of_rib(outcomes.is_synced, changes);
        self.links.speak(&mut self.exchange.seat, self.pace.due(came));
    }

    /// Tells the exchange that all is there, once the router has told all, or nothing for long.
    fn end_table(&mut self) {
        let has_told = self.awaited.as_ref().is_some_and(Vec::is_empty);
        let is_late = self.started.elapsed() > ROUTER_PATIENCE;
        let is_told = self.untold.is_empty() && self.exchange.seat.status().is_some();
        if !self.table_ended && (has_told || is_late) && is_told {
            self.exchange.seat.end_of_table();
            self.table_ended = true;
        }
    }

    /// Tells the router that it has all, once the exchange has told all, or is not there.
    fn end_of_rib(&mut self, is_synced: bool, changes: &mut Changes) {
        if is_synced {
            tracing::info!("all that the exchange has is here");
        }
        let status = self.neighbour.status();
        let is_up = status.state == State::Established;
        let has_all = self.exchange.seat.status().is_some_and(|(_, is_synced)| is_synced);
        let has_all = has_all && changes.cases.is_empty() && self.table.has_judged_all();
        let is_late = status.since.elapsed() > EXCHANGE_PATIENCE;
        if is_up && !self.router_ended && (has_all || is_late) {
            changes.router.extend(Family::ALL.map(Order::EndOfRib));
            self.router_ended = true;
        }
    }

    /// Reads configuration and roster again. What is wrong with them changes nothing.
    fn reload(&mut self, changes: &mut Changes) -> Outcome {
        let read = self.file.again().and_then(|file| {
            let settings = file.member()?;
            let standing = Standing::read(&settings, self.credentials.name())?;
            Ok((file, settings, standing))
        });
        let (file, settings, standing) = match read {
            Ok(read) => read,
            Err(failure) => {
                tracing::error!(%failure, "all stays as it was");
                return Ok(());
            }
        };
        self.reloads += 1;
        self.table.set_policies(standing.policies.clone(), changes);
        self.pace.set_cost(cost(self.table.law()));
        let roster = std::sync::Arc::clone(&standing.roster);
        if !self.exchange.seat.set_roster(roster, standing.lane) {
            tracing::warn!(sites = standing.sites.len(), "sites have other places in the roster");
            // All is announced to the exchange again, when a server has the roster, too.
            changes.exchange.clear();
            self.links.begin_anew();
        }
        tracing::warn!("policies read again");
        (self.file, self.settings, self.standing) = (file, settings, standing);
        Ok(())
    }

    /// Says goodbye to all.
    async fn leave(mut self) -> Outcome {
        self.exchange.seat.leave();
        self.links.pump(&mut self.exchange.seat);
        let words = "the proxy shuts down".to_owned();
        let orders = self.neighbour.order(vec![Order::Stop(words)]);
        let _ = timeout(GOODBYE, orders).await;
        let until = Instant::now() + GOODBYE;
        let waits = |proxy: &Self| {
            proxy.links.waiting() > 0 || proxy.neighbour.status().state == State::Established
        };
        while waits(&self) && Instant::now() < until {
            sleep(ROOM_PAUSE).await;
        }
        drop(self.socket.take());
        Ok(())
    }
}

fn start_bgp(
    settings: &MemberSettings,
    events: mpsc::Sender<(usize, RouterEvent)>,
) -> Outcome<(Neighbour, Listener)> {
    let bgp = &settings.bgp;
    let password = password(bgp)?;
    let seed = u64::from_le_bytes(*key::fresh_secret()?.first_chunk().unwrap_or(&[0; 8]));
    let local = (!bgp.listen.ip().is_unspecified()).then(|| bgp.listen.ip());
    let reach = Reach { address: bgp.router, local, password: password.clone() };
    let neighbour = Neighbour::start(bgp.config.clone(), reach, seed, 0, events)?;
    let admitted = Admitted { address: bgp.router.ip(), password, door: neighbour.door() };
    let listener = Listener::start(bgp.listen, vec![admitted])?;
    Ok((neighbour, listener))
}

/// The password that the router has, if there is to be one.
pub(super) fn password(bgp: &BgpSettings) -> Outcome<Option<TcpPassword>> {
    bgp.password.as_deref().map(|path| TcpPassword::read(path, "the router")).transpose()
}

/// Orders in batches of bounded size.
fn batches(orders: Vec<Order>) -> impl Iterator<Item = Vec<Order>> {
    let mut orders = orders.into_iter();
    std::iter::from_fn(move || {
        let batch: Vec<Order> = orders.by_ref().take(A_TURN).collect();
        (!batch.is_empty()).then_some(batch)
    })
}

/// Events that wait to be taken, of each kind of source: some messages' worth.
const EVENTS: usize = 1024;
/// Events taken in one turn, so that each kind has its turn within milliseconds.
const A_TURN: usize = 1024;
/// Questions of people and scrapers.
const QUESTIONS: usize = 16;
/// How late is noticed what nothing tells.
const TICK: Duration = Duration::from_millis(500);
/// How soon a server that took nothing is asked again.
const ROOM_PAUSE: Duration = Duration::from_millis(2);
/// A router that is there has told all within this time; if not, the exchange forgets what an
/// earlier process of this member announced.
const ROUTER_PATIENCE: Duration = Duration::from_secs(60);
/// A router that restarts defers its choice until it is told that it has all, at most for so long.
const EXCHANGE_PATIENCE: Duration = Duration::from_secs(20);
/// What a goodbye may take.
const GOODBYE: Duration = Duration::from_secs(2);
