//! `rhumb rib`: the directory of verified routes behind a UDP socket, a thread that verifies what
//! is published, and one that writes it, or one that speaks to the cluster where it is stored.
//! Look-ups wait for none of them but for what they need of the cluster.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_daemon::belonging::Belonging;
use rhumb_daemon::config::{NeighbourSettings, RibSettings};
use rhumb_daemon::daemon::{self, Control, Ready, RulesFollower, Snapshot, Worker};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::output::Form;
use rhumb_daemon::service::{self, Service};
use rhumb_daemon::store::StoreAt;
use rhumb_daemon::stored_names::lister;
use rhumb_daemon::supervisor;
use rhumb_daemon::{clock, key};
use rhumb_io::PacketIo;
use rhumb_io::udp::{Options, UdpSocket};
use rhumb_link::{StreamNews, StreamOrder};
use rhumb_rib::store::{Embedded, Store};
use rhumb_rib::{BATCH_DATAGRAMS, Neighbours, Remote, RibError, Server, Verdict, Verification};
use rhumb_stream::{Carrier, OnStreams, Settings};
use rhumb_trust::{Identity, Now};
use rhumb_wire::rib::StoreId;
use rhumb_wire::{Batch, Name, Role};

mod backup;
mod cluster;
mod exchange;
mod fullness;
mod keeper;
mod list;
mod report;
mod stats;

pub(crate) use backup::run as back_up;
use cluster::InCluster;
use exchange::AtExchange;
use fullness::Fullness;
use keeper::{InFile, Keeper};
pub(crate) use list::run as list;
pub(crate) use stats::run as stats;

/// Runs the command.
pub(crate) fn run(settings: &mut RibSettings, with_parent: bool, form: Form) -> Outcome {
    let identity = key::load(&settings.key, Role::Rib)?;
    let label = format!("rib-{}", identity.name().short());
    let control = daemon::take_control(settings.admin.as_ref(), &label, with_parent)?;
    match &settings.store {
        StoreAt::File(path) => {
            let store = Embedded::open_with(path, settings.store_limits.page_bytes());
            let store = store.map_err(Failure::setup)?;
            let copied = store.share();
            control.offer_copies(Box::new(move |out| {
                copied.back_up(out).map_err(std::io::Error::other)
            }));
            let listed = store.share();
            // A handle of its own, which is gone after each page and holds no old one.
            control.offer_names(lister(move |wanted| listed.share().page(wanted)));
            let keeper = InFile::start(store.share(), control.wake().clone())?;
            // Nobody outside can tell a file from an older one that took its place.
            let id = *key::fresh_secret()?.first_chunk().expect("invariant: 16 of 32 bytes");
            serve(settings, identity, (store, StoreId(id)), keeper, &control, form)
        }
        StoreAt::Cluster(address) => {
            let (keeper, store) =
                InCluster::start(address, &mut settings.cluster, control.wake().clone())?;
            control.offer_names(keeper.lister());
            serve(settings, identity, store, keeper, &control, form)
        }
    }
}

/// Serves names of this store, which `keeper` reads and writes.
fn serve<S: Store>(
    settings: &RibSettings,
    identity: Arc<Identity>,
    (store, id): (S, StoreId),
    keeper: impl Keeper<S>,
    control: &Control,
    form: Form,
) -> Outcome {
    let belonging = Belonging::of(identity.clone(), Some(&settings.key));
    let options = Options { batch_datagrams: BATCH_DATAGRAMS, ..Options::default() };
    let socket = UdpSocket::bind(settings.listen, options).map_err(Failure::setup)?;
    let address = socket.local_address();
    let listening = settings.tls_listen.map(rhumb_stream::listen).transpose();
    let listening = listening.map_err(Failure::setup)?;
    let mut io = Carrier::new(socket);
    let (max_datagram_len, limits) = (settings.max_datagram_len, settings.limits);
    let streams = Settings { listening, max_datagram_len, limits };
    io.carry_streams(identity.clone(), streams, control.wake().clone()).map_err(Failure::setup)?;
    let now = clock::now();
    let mut link = rhumb_link::Config::default();
    link.limits = settings.limits;
    link.streams = true;
    link.max_datagram_len = settings.max_datagram_len;
    let config = directory_config(settings, address, id);
    let secret = key::fresh_secret()?;
    let mut server =
        Server::new(identity, store, config, link, secret, now).map_err(Failure::setup)?;
    server.defer_work();
    let wake = control.wake();
    belonging.follow(true, {
        let wake = wake.clone();
        move || wake.wake()
    })?;
    let at_exchange =
        settings.neighbours.exchange.clone().map(|seat| {
            AtExchange::start(seat, &settings.neighbours.sites, wake.clone(), now.instant)
        });
    let mut rib = Directory {
        at_exchange: at_exchange.transpose()?,
        has_untold: false,
        server,
        verifier: Worker::start_behind("verifier", wake.clone(), Verification::run)?,
        keeper,
        rules: RulesFollower::start(settings.access.clone(), wake)?,
        belonging,
        neighbours: settings.neighbours.clone(),
        address,
        started: now.instant,
        fullness: Fullness::new(now.instant),
        parents_there: vec![false; settings.parents.len()],
        neighbours_there: BTreeSet::new(),
    };
    if settings.access.admits_nobody() && !address.ip().is_loopback() {
        tracing::warn!(
            "every router that reaches this RIB shares what strangers may store; give yours a share with --admit NAME"
        );
    }

    let ready = Ready {
        role: Role::Rib,
        name: rib.server.name(),
        address,
        admin: control.admin(),
        io: Vec::new(),
    };
    supervisor::say_ready(form, &ready);
    service::serve(&mut io, &mut rib, control, |_, _| false)?;
    Ok(())
}

fn directory_config(
    settings: &RibSettings,
    address: SocketAddr,
    store: StoreId,
) -> rhumb_rib::Config {
    let mut config = settings.store_limits.config();
    config.store = store;
    config.access = settings.access.access.clone();
    config.domain = settings.domain;
    config.neighbours = settings.neighbours.neighbours.clone();
    config.around = settings.neighbours.around.clone();
    // A port of 0 is one that the system has chosen.
    let at = settings.neighbours.address;
    config.address = at.map(|it| if it.port() == 0 { address } else { it });
    let parents = settings.parents.iter();
    config.parents = parents.map(|it| Remote { address: it.address, name: it.name }).collect();
    config
}

/// The server, its helpers, and what status tells of it.
struct Directory<S, K> {
    server: Server<S>,
    verifier: Worker<Verification, Verdict>,
    keeper: K,
    rules: RulesFollower,
    belonging: Belonging,
    neighbours: NeighbourSettings,
    /// The exchange by which neighbours are told, if there is one.
    at_exchange: Option<AtExchange>,
    /// Whether it was last said that offers have no place there.
    has_untold: bool,
    address: SocketAddr,
    started: Instant,
    fullness: Fullness,
    /// Of which RIBs of the domain around it was last said that they are there.
    parents_there: Vec<bool>,
    /// Neighbours of which it was last said that a RIB of theirs is there.
    neighbours_there: BTreeSet<Name>,
}

impl<S: Store, K: Keeper<S>> OnStreams for Directory<S, K> {
    fn handle_stream(&mut self, news: StreamNews, now: Now) -> Option<SocketAddr> {
        self.server.handle_stream(news, now)
    }

    fn poll_stream_order(&mut self) -> Option<StreamOrder> {
        self.server.poll_stream_order()
    }
}

impl<S: Store, K: Keeper<S>> Service for Directory<S, K> {
    fn handle_batch(&mut self, batch: &mut Batch, now: Now) {
        self.server.handle_batch(batch, now);
    }

    fn advance(&mut self, now: Now) {
        for verdict in self.verifier.results() {
            self.server.handle_verified(verdict, now);
        }
        self.keeper.bring(&mut self.server, now);
        if let Some((access, _reloading)) = self.rules.poll() {
            self.server.set_access(access, now);
            self.read_neighbours(now);
        }
        if let Some(at_exchange) = &self.at_exchange {
            at_exchange.meet(&mut self.server, now);
            let untold = at_exchange.untold();
            if !std::mem::replace(&mut self.has_untold, untold > 0) && untold > 0 {
                tracing::warn!(
                    untold,
                    "offers for which the exchange has no slot; give more `slots`"
                );
            }
        }
        if let Some(identity) = self.belonging.poll()
            && let Err(error) = self.server.show(&identity, now)
        {
            tracing::warn!(%error, "the new membership cannot be shown");
        }
        if self.server.poll_timeout().is_some_and(|due| due <= now.instant) {
            self.server.handle_timeout(now);
        }
        // What cannot be read is said where it is needed.
        if self.fullness.is_due(now.instant)
            && let Ok(fill) = self.server.fill()
        {
            self.fullness.note(&fill, now.instant);
        }
        let parents = self.server.parents(now.instant);
        for ((address, name, _), was_there) in parents.zip(&mut self.parents_there) {
            match (name, std::mem::replace(was_there, name.is_some())) {
                (Some(name), false) => tracing::info!(%name, %address, "RIB of the domain around"),
                (None, true) => tracing::warn!(%address, "lost a RIB of the domain around"),
                _ => {}
            }
        }
        while let Some((address, fault)) = self.server.poll_parent_fault() {
            tracing::warn!(
                %address,
                fault = fault.as_str(),
                "a RIB of the domain around is not to be trusted: {fault}. It is asked last for a \
                 while; ask whoever runs it, and take it out of `parent` if nobody can say why"
            );
        }
        self.note_neighbours();
        if let Some(error) = self.server.poll_error() {
            log(&error);
        }
        self.verifier.hand_out(|| self.server.poll_verification());
        self.keeper.fetch(&mut self.server);
    }

    fn poll_transmit(&mut self, out: &mut Batch) {
        self.server.poll_transmit(out);
    }

    fn close_all(&mut self, now: Now) {
        self.server.close_all(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.server.poll_timeout()
    }

    fn snapshot(&mut self, now: Now) -> Snapshot {
        let uptime: Duration = now.instant.saturating_duration_since(self.started);
        let mut snapshot = report::snapshot(&mut self.server, self.address, uptime, now);
        self.belonging.report(&mut snapshot);
        self.keeper.report(&mut snapshot);
        if let Some(at_exchange) = &self.at_exchange {
            at_exchange.report(&mut snapshot);
        }
        snapshot
    }
}

impl<S: Store, K> Directory<S, K> {
    /// Takes over what the file says of neighbours now: a few lines and files of a few hundred
    /// bytes.
    fn read_neighbours(&mut self, now: Now) {
        match self.neighbours.again() {
            Ok(settings) => {
                self.server.set_neighbours(&settings.neighbours, now);
                if let Some(at_exchange) = &mut self.at_exchange {
                    at_exchange.read_again(&settings.sites, &mut self.server, now);
                } else if !settings.sites.is_empty() {
                    tracing::warn!(
                        "[rib.exchange] is new: neighbours are told there after a restart"
                    );
                }
            }
            Err(failure) => tracing::warn!(%failure, "going on with the neighbours from before"),
        }
    }

    fn note_neighbours(&mut self) {
        let all = self.server.neighbours().into_iter().flat_map(Neighbours::rules);
        let there = all.map(|it| it.domain).filter(|domain| self.server.is_there(*domain));
        let there: BTreeSet<Name> = there.collect();
        for domain in there.difference(&self.neighbours_there) {
            tracing::info!(%domain, "a neighbour is there");
        }
        for domain in self.neighbours_there.difference(&there) {
            tracing::warn!(%domain, "lost a neighbour: neither its RIBs nor its words are there");
        }
        self.neighbours_there = there;
    }
}

/// Whose entry is damaged is for `debug` only, as all names of others.
fn log(error: &RibError) {
    match error {
        RibError::DamagedEntry { name } => {
            tracing::error!("an entry of the store is damaged; its name must be published again");
            tracing::debug!(%name, "damaged entry");
        }
        error => tracing::error!(%error, "the store or the key failed"),
    }
}
