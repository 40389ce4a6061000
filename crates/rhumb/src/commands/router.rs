//! `rhumb router`: a switch behind a UDP socket or AF_XDP, a thread for its
//! public-key work, and one for each further worker.
//!
//! 1. Take the key; bind the socket and the discovery port,
//!    give up privileges; bind the admin endpoint.
//! 2. Work until a RIB answers, for [`RIB_DEADLINE`] at most: then a wrong address is told of, and
//!    the router goes on without, since names that join it can reach each other. Only a RIB that
//!    proves another name ends it. One that answers is also waited for until it says what it makes
//!    of this router's own statement.
//! 3. Say that we are ready, let nodes find us, and work until a signal says
//!    stop. From here on the RIB may come and go.

use std::net::{SocketAddr, UdpSocket as StdUdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_daemon::belonging::Belonging;
use rhumb_daemon::config::{DomainSettings, RouterDomain, RouterSettings};
use rhumb_daemon::daemon::{self, Ready, RulesFollower, Snapshot, Worker};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::output::Form;
use rhumb_daemon::privileges::{self, Keep};
use rhumb_daemon::remote::{Remote, any_port_towards};
use rhumb_daemon::service::{self, Service};
use rhumb_daemon::supervisor;
use rhumb_daemon::values::LocatorChoice;
use rhumb_daemon::{clock, key};
use rhumb_io::udp::Options;
use rhumb_io::xdp::{OnInterface, Refusal, Rings};
use rhumb_io::{Backend, Choice, Counters, Device, Opened, PacketIo, Wake};
use rhumb_link::{LinkError, StreamNews, StreamOrder};
use rhumb_stream::{Carrier, Listening, OnStreams, Settings};
use rhumb_switch::{Done, Event, Job, Switch};
use rhumb_trust::{Identity, Now};
use rhumb_wire::{Batch, Role};

use beacon::BeaconThread;
use border::BorderThread;
use publishing::Publishing;
use state::StateFile;
use workers::WorkerThreads;

mod beacon;
mod border;
mod publishing;
mod report;
mod stamps;
mod state;
mod workers;

/// Runs the command.
pub(crate) fn run(settings: &RouterSettings, with_parent: bool, form: Form) -> Outcome {
    let identity = key::load(&settings.key, Role::Router)?;
    let belonging = Belonging::of(identity.clone(), Some(&settings.key));
    let opened = |it: &DomainSettings| it.open(identity.name(), clock::now().unix_s());
    let domain = settings.domain.as_ref().map(opened).transpose()?;
    let Io { io, others, steered, said } = open_io(settings)?;
    let listening = listen_for_tls(settings)?;
    let address = io.local_address();
    let beacon = beacon::open(settings.discovery, io.udp())?;
    // Before there are other threads.
    privileges::give_up(settings.run_as, Keep::Nothing)?;
    let label = format!("router-{}", identity.name().short());
    let control = daemon::take_control(settings.admin.as_ref(), &label, with_parent)?;
    let mut io = with_streams(io, listening, settings, &identity, control.wake())?;

    let domain = domain.map(in_domain);
    let config = rhumb_switch::Config { domain, ..switch_config(settings, address)? };
    let locator = config.locator;
    let now = clock::now();
    let mut switch =
        Switch::new(identity, config, key::fresh_secret()?, now).map_err(Failure::setup)?;
    let state = match &settings.state {
        Some(path) => Some(StateFile::open(path, &mut switch, now)?),
        None => None,
    };
    let wake = control.wake();
    let workers = WorkerThreads::start(&switch, others, steered, settings.pin, wake)?;
    if settings.pin {
        workers::pin_worker(0);
    }
    let border = BorderThread::start(settings, &mut switch, wake)?;
    belonging.follow(true, {
        let wake = wake.clone();
        move || wake.wake()
    })?;
    let mut router = Router::new(switch, state, workers, address, wake.clone(), now)?;
    router.belonging = Some(belonging);
    router.border = border;
    router.rules = Some(RulesFollower::start(settings.access.clone(), wake)?);

    if !service::serve(&mut io, &mut router, &control, Router::has_settled)? {
        return router.finish();
    }
    if let Startup::Waiting { error, .. } = &router.startup {
        let failure = unreachable_rib(&settings.ribs, error.as_ref());
        // Whoever answers under another name will not become the right one by waiting.
        let is_wrong = matches!(error, Some(LinkError::UnexpectedName { .. }));
        match &router.state {
            Some(_) => tracing::warn!("{failure}; going on with the routes that were saved"),
            None if is_wrong => return Err(failure),
            None => tracing::warn!(
                "{failure}; going on: names at this router reach each other, and are published when it answers"
            ),
        }
        router.startup = Startup::Over;
    }
    router.beacon = beacon.map(BeaconThread::start).transpose()?;
    let ready = Ready {
        role: Role::Router,
        name: router.switch.name(),
        address: locator.unwrap_or(address),
        admin: control.admin(),
        io: said,
    };
    supervisor::say_ready(form, &ready);
    let failed = |router: &mut Router, _| router.workers.have_failed();
    if service::serve(&mut io, &mut router, &control, failed)? {
        router.finish()?;
        return Err(Failure::operation_text("a worker ended"));
    }
    router.finish()
}

/// The packet I/O of all workers.
struct Io {
    /// Of worker 0.
    io: Backend,
    others: Vec<Backend>,
    /// Whether these receive what is for them.
    steered: bool,
    /// What there is on each interface, for people.
    said: Vec<String>,
}

/// The packet I/O of choice. Where an interface got less than was wished for, a line says why.
fn open_io(settings: &RouterSettings) -> Outcome<Io> {
    let options = Options { coalesce: settings.coalesce, ..Options::default() };
    let opened = rhumb_io::open(&settings.io, settings.listen, options, settings.workers.into());
    let Opened { mut backends, steered, interfaces, refusal } = opened.map_err(Failure::setup)?;
    if !steered {
        tracing::warn!("this system does not spread datagrams over workers; worker 0 does");
    }
    // Who lets the router choose is not warned of what it did not choose.
    let tell = |interface: Option<&str>, refusal: &Refusal| match settings.io {
        Choice::Xdp(_) => {
            tracing::warn!(interface, "no AF_XDP, going on with sockets: {refusal}");
        }
        _ => tracing::info!(interface, "packet I/O by sockets: {refusal}"),
    };
    if let Some(refusal) = refusal {
        tell(None, &refusal);
    }
    let mut said = Vec::new();
    for OnInterface { name, rings } in interfaces {
        if let Err(refusal) = &rings {
            tell(Some(&name), refusal);
        }
        said.push(match rings {
            Ok(Rings { queues, zero_copy }) => {
                let copy = if zero_copy { "zero copy" } else { "copy" };
                let s = if queues == 1 { "" } else { "s" };
                format!("{name} by AF_XDP ({copy}, {queues} queue{s})")
            }
            Err(_) => format!("{name} by sockets"),
        });
    }
    if said.is_empty() {
        said.push("by sockets".to_owned());
    }
    let io = backends.remove(0);
    said.extend(io.devices().iter().filter_map(|device| match device {
        Device { name, cuts_runs: true, joins_runs: true } => {
            Some(format!("{name} cuts and joins runs"))
        }
        Device { name, cuts_runs: true, .. } => Some(format!("{name} cuts runs")),
        Device { name, joins_runs: true, .. } => Some(format!("{name} joins runs")),
        Device { .. } => None,
    }));
    Ok(Io { io, others: backends, steered, said })
}

/// Where links over TLS come in, if anywhere.
fn listen_for_tls(settings: &RouterSettings) -> Outcome<Option<Listening>> {
    settings.tls_listen.map(rhumb_stream::listen).transpose().map_err(Failure::setup)
}

/// The packet I/O of worker 0, with streams beside it.
fn with_streams(
    io: Backend,
    listening: Option<Listening>,
    settings: &RouterSettings,
    identity: &Arc<Identity>,
    wake: &Wake,
) -> Outcome<Carrier> {
    let mut carrier = Carrier::new(io);
    let (max_datagram_len, limits) = (settings.max_datagram_len, settings.limits);
    let streams = Settings { listening, max_datagram_len, limits };
    let carried = carrier.carry_streams(identity.clone(), streams, wake.clone());
    carried.map(|()| carrier).map_err(Failure::setup)
}

fn switch_config(settings: &RouterSettings, bound: SocketAddr) -> Outcome<rhumb_switch::Config> {
    let remote =
        |remote: &Remote| rhumb_switch::Remote { address: remote.address, name: remote.name };
    let locator = match settings.locator {
        LocatorChoice::None => None,
        LocatorChoice::At(address) => Some(address),
        LocatorChoice::Automatic if !bound.ip().is_unspecified() => Some(bound),
        LocatorChoice::Automatic => Some(outward_address(&settings.ribs, bound)?),
    };
    let mut link = rhumb_link::Config::default();
    link.workers = settings.workers;
    // The verifier does it.
    link.handshakes_elsewhere = true;
    link.streams = true;
    link.limits = settings.limits;
    link.max_datagram_len = settings.max_datagram_len;
    Ok(rhumb_switch::Config {
        ribs: settings.ribs.iter().map(remote).collect(),
        upstreams: settings.upstreams.iter().map(remote).collect(),
        locator,
        locators: settings.locators.clone(),
        lease_s: settings.lease_s.into(),
        check_rib_answers: settings.check_rib_answers,
        link,
        access: settings.access.access.clone(),
        ..rhumb_switch::Config::default()
    })
}

/// The domain as the switch takes it.
fn in_domain(domain: RouterDomain) -> rhumb_switch::Domain {
    let words = domain.delegation.iter().flat_map(|delegation| {
        let metadata = delegation.metadata();
        delegation.certificates().iter().map(|word| (metadata.clone(), word.clone()))
    });
    let words = words.collect();
    let RouterDomain { name, around, customers, .. } = domain;
    rhumb_switch::Domain { name, around, customers, words }
}

/// This host's address on the way to the first RIB. Connecting a UDP
/// socket asks the routing table and sends nothing.
fn outward_address(ribs: &[Remote], bound: SocketAddr) -> Outcome<SocketAddr> {
    let ask = |rib: &Remote| {
        let socket = StdUdpSocket::bind(any_port_towards(rib.address))?;
        socket.connect(rib.address)?;
        socket.local_addr()
    };
    let found = ribs.first().and_then(|rib| ask(rib).ok());
    found.map(|address| SocketAddr::new(address.ip(), bound.port())).ok_or_else(|| {
        Failure::setup_text(
            "this host has no address on the way to the RIB; give --locator ADDR, or --locator none",
        )
    })
}

fn unreachable_rib(ribs: &[Remote], error: Option<&LinkError>) -> Failure {
    let addresses: Vec<String> = ribs.iter().map(|rib| rib.address.to_string()).collect();
    let reason = error.map_or("nobody answered in time".to_owned(), ToString::to_string);
    Failure::setup_text(format!(
        "RIB {} unreachable: {reason}; check that it runs, and its name and address",
        addresses.join(", ")
    ))
}

/// The switch, its verifier, and what is known of the start.
struct Router {
    switch: Switch,
    workers: WorkerThreads,
    address: SocketAddr,
    started: Instant,
    startup: Startup,
    verifier: Worker<Job, Done>,
    state: Option<StateFile>,
    /// While nodes on the local network can find this router.
    beacon: Option<BeaconThread>,
    /// Where capabilities are demanded, or demanded of this router.
    border: Option<BorderThread>,
    publishing: Publishing,
    rules: Option<RulesFollower>,
    belonging: Option<Belonging>,
}

#[derive(Debug)]
enum Startup {
    Waiting {
        until: Instant,
        error: Option<LinkError>,
    },
    /// A RIB is there, and has been sent this router's own statement.
    Publishing {
        until: Instant,
    },
    Over,
}

impl Router {
    fn new(
        switch: Switch,
        state: Option<StateFile>,
        workers: WorkerThreads,
        address: SocketAddr,
        wake: Wake,
        now: Now,
    ) -> Outcome<Self> {
        let verifier = Worker::start_behind("verifier", wake, Job::run)?;
        let startup = Startup::Waiting { until: now.instant + RIB_DEADLINE, error: None };
        let started = now.instant;
        let publishing = Publishing::new(switch.name());
        Ok(Self {
            switch,
            workers,
            address,
            started,
            startup,
            verifier,
            state,
            beacon: None,
            border: None,
            publishing,
            rules: None,
            belonging: None,
        })
    }

    /// Saves what is to be known again after a restart.
    fn finish(mut self) -> Outcome {
        let border = self.border.take().map_or(Ok(()), |border| border.finish(&self.switch));
        match self.state.take() {
            Some(state) => border.and(state.finish(&mut self.switch, clock::now())),
            None => border,
        }
    }

    /// Whether a RIB answers, or it is clear that none will.
    fn has_settled(&mut self, now: Now) -> bool {
        match &self.startup {
            Startup::Over => true,
            // Whoever answers under another name will not become the right one by waiting.
            Startup::Waiting { error: Some(LinkError::UnexpectedName { .. }), .. } => true,
            Startup::Waiting { until, .. } => *until <= now.instant,
            Startup::Publishing { until } => {
                let is_over = *until <= now.instant || self.publishing.is_answered();
                if is_over {
                    self.startup = Startup::Over;
                }
                is_over
            }
        }
    }

    fn take_events(&mut self, now: Now) {
        while let Some(event) = self.switch.poll_event() {
            if let Some(line) = self.publishing.observe(&event, now) {
                tracing::warn!("{line}");
            }
            match (&mut self.startup, &event) {
                // At the start, what goes wrong is said once, when it is clear that it does.
                (Startup::Waiting { error, .. }, Event::RibLost { error: lost, .. }) => {
                    error.clone_from(lost);
                    continue;
                }
                (startup @ Startup::Waiting { .. }, Event::RibReady { .. }) => {
                    *startup = Startup::Publishing { until: now.instant + OWN_DEADLINE };
                }
                _ => {}
            }
            report::log(&event);
        }
    }
}

impl OnStreams for Router {
    fn handle_stream(&mut self, news: StreamNews, now: Now) -> Option<SocketAddr> {
        self.switch.handle_stream(news, now)
    }

    fn poll_stream_order(&mut self) -> Option<StreamOrder> {
        self.switch.poll_stream_order()
    }
}

impl Service for Router {
    fn handle_batch(&mut self, batch: &mut Batch, now: Now) {
        self.switch.handle_batch(batch, now);
        self.workers.pass_orders(&mut self.switch);
    }

    fn advance(&mut self, now: Now) {
        self.workers.take_hand_overs(|handed| self.switch.handle_hand_over(handed, now));
        for done in self.verifier.results() {
            self.switch.handle_done(done, now);
        }
        if self.switch.poll_timeout().is_some_and(|due| due <= now.instant) {
            self.switch.handle_timeout(now);
        }
        if let Some((access, _reloading)) = self.rules.as_mut().and_then(RulesFollower::poll) {
            self.switch.set_access(access, now);
        }
        if let Some(identity) = self.belonging.as_ref().and_then(Belonging::poll)
            && let Err(error) = self.switch.show(&identity, now)
        {
            tracing::warn!(%error, "the new membership cannot be shown");
        }
        self.take_events(now);
        self.verifier.hand_out(|| self.switch.poll_job());
        self.workers.pass_orders(&mut self.switch);
        if let Some(border) = &mut self.border {
            border.advance(&mut self.switch, now);
        }
        if let Some(state) = &mut self.state {
            state.save_if_due(&mut self.switch, now);
        }
    }

    fn poll_transmit(&mut self, out: &mut Batch) {
        self.switch.poll_transmit(out);
    }

    fn close_all(&mut self, now: Now) {
        self.switch.close_all(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let startup = match self.startup {
            Startup::Waiting { until, .. } | Startup::Publishing { until } => Some(until),
            Startup::Over => None,
        };
        let at_once = self.workers.goes_on().then(Instant::now);
        let border = self.border.as_ref().map(BorderThread::poll_timeout);
        [startup, at_once, border, self.switch.poll_timeout()].into_iter().flatten().min()
    }

    fn other_sockets(&self) -> Counters {
        self.workers.counters()
    }

    fn snapshot(&mut self, now: Now) -> Snapshot {
        let uptime = now.instant.saturating_duration_since(self.started);
        let found = self.beacon.as_ref().map(BeaconThread::counters);
        let status = self.switch.status(now);
        let mut snapshot = report::snapshot(&status, self.address, uptime, found.as_ref());
        if let Some(border) = &self.border {
            border.report(&mut snapshot);
        }
        if let Some(belonging) = &self.belonging {
            belonging.report(&mut snapshot);
        }
        self.publishing.report(&mut snapshot.status, now.unix_s());
        snapshot
    }
}

/// A handshake with two lost datagrams takes under 2 s; people wait no
/// longer than this for a typing error to show.
const RIB_DEADLINE: Duration = Duration::from_secs(5);
/// A RIB that is there answers within milliseconds; a busy one is not waited for.
const OWN_DEADLINE: Duration = Duration::from_secs(1);
