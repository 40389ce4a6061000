//! `rhumb exchange`: one of the two servers of a private exchange, or a standby of one.
//!
//! 1. Look at configuration, key and roster; with `--check` that is all.
//! 2. Listen; one thread a shard holds a sans-IO shard of `rhumb_exchange` (`shard.rs`), the
//!    runtime's threads move messages.
//! 3. Members connect (`members.rs`), and one server of each party forms a pair (`pair.rs`).
//! 4. On SIGHUP, and once a second for the load of ports, files are read again. A roster is taken
//!    if it extends the former one: connections stay, and so does what is held.
//! 5. On SIGTERM all are told goodbye.

use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rhumb_channel::{Credentials, Listener};
use rhumb_daemon::cli::{ExchangeArguments, ExchangeCommand};
use rhumb_daemon::config::{ConfigFile, ExchangeSettings};
use rhumb_daemon::daemon::{self, Control, Hangup};
use rhumb_daemon::exchange_protocols::{GOODBYE, MEMBER, PAIR, WATCH};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::key;
use rhumb_daemon::output::Form;
use rhumb_daemon::roster::{self, Site};
use rhumb_daemon::status;
use rhumb_daemon::supervisor::{self, Heart};
use rhumb_exchange::{Common, Roster, ServerConfig, Shard};
use rhumb_mpc::Party;
use rhumb_wire::{Name, Role};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use hub::{Hub, Input};
use pair::Leader;
use plain::Plain;
use port_load::PortLoad;
use report::{Checked, Facts, Ready};
use shard::{Report, Worker};

mod hub;
mod members;
mod pair;
mod plain;
mod port_load;
mod report;
mod shard;

/// Runs the command.
pub(crate) fn run(
    arguments: &ExchangeArguments,
    file: &ConfigFile,
    with_parent: bool,
    form: Form,
) -> Outcome {
    if let Some(ExchangeCommand::Status(asked)) = &arguments.command {
        let admin =
            asked.admin.clone().map_or_else(|| file.exchange_admin(), |admin| Ok(Some(admin)))?;
        return status::ask(admin, false, file, form);
    }
    let settings = file.exchange(arguments)?;
    let identity = key::load(&settings.key, Role::Node)?;
    let credentials = Credentials::new(&identity).map_err(Failure::setup)?;
    let sites = roster::load(&settings.roster)?;
    let config = server_config(&settings, &sites)?;
    if arguments.check {
        settings.plain.as_ref().map_or(Ok(()), plain::check)?;
        form.print(&Checked {
            name: credentials.name(),
            party: settings.party,
            sites: sites.len(),
        });
        return Ok(());
    }
    let control = daemon::take_control(settings.admin.as_ref(), "exchange", with_parent)?;
    let hangup = Hangup::catch(control.wake().clone())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Failure::operation)?;
    let server = Server { settings, credentials, control, hangup, form };
    runtime.block_on(server.run(config, sites))
}

/// What it was started with.
struct Server {
    settings: ExchangeSettings,
    credentials: Credentials,
    control: Control,
    hangup: Hangup,
    form: Form,
}

/// Whom the door admits: the members of the roster in
/// force, the other party's servers, and our standby.
type Admitted = Arc<RwLock<Arc<Roster>>>;

impl Server {
    async fn run(self, config: ServerConfig, sites: Vec<Site>) -> Outcome {
        let admitted: Admitted = Arc::new(RwLock::new(Arc::clone(&config.common.roster)));
        let mut listener = self.listen(&admitted).await?;
        let address = listener.local_addr().map_err(Failure::setup)?;
        let woken = Arc::new(Notify::new());
        daemon::notify_by(self.control.wake().clone(), Arc::clone(&woken))?;
        let plain = self.settings.plain.as_ref().map(Plain::start).transpose()?;
        let (started, door) = (Instant::now(), listener.counters());
        let (mut sites, running) = (sites, self.start(&config)?);
        let ready = Ready {
            name: self.credentials.name(),
            party: self.settings.party,
            is_standby: self.settings.primary.is_some(),
            address,
            admin: self.control.admin(),
        };
        supervisor::say_ready(self.form, &ready);
        let mut heart = Heart::new(started);
        let mut port_load = self.settings.port_load.as_deref().map(PortLoad::new);
        let mut period = interval(FILES_PERIOD);
        period.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                channel = listener.accept() => running.take(&self, channel),
                () = woken.notified() => {}
                _ = period.tick() => running.read_port_load(port_load.as_mut(), &sites),
            }
            heart.beat(Instant::now());
            if self.control.is_stopped() {
                break;
            }
            if running.has_failed() {
                return Err(Failure::operation_text("a shard has ended; see the log"));
            }
            self.control.answer(|| {
                let facts = Facts {
                    name: self.credentials.name(),
                    address,
                    started,
                    is_standby: self.settings.primary.is_some(),
                    door: door.each(),
                    plain: plain.as_ref(),
                };
                report::snapshot(&facts, &running.hub, &running.reports())
            });
            if let Some(_reloading) = self.hangup.take()
                && let Some((config, read)) = self.read_roster(&sites, &running.hub)
            {
                *admitted.write().unwrap_or_else(PoisonError::into_inner) =
                    Arc::clone(&config.common.roster);
                running.hub.set_roster(config);
                sites = read;
                port_load = self.settings.port_load.as_deref().map(PortLoad::new);
            }
        }
        running.end().await;
        if let Some(plain) = &plain {
            plain.stop().await;
        }
        Ok(())
    }

    async fn listen(&self, admitted: &Admitted) -> Outcome<Listener> {
        let admitted = Arc::clone(admitted);
        let (peers, party) = (self.settings.peers.clone(), self.settings.party);
        let standby = self.settings.standby;
        let admits = move |name: Name| {
            let roster = admitted.read().unwrap_or_else(PoisonError::into_inner);
            let may_call = party == Party::Two && peers.iter().any(|peer| peer.name == name);
            may_call || standby == Some(name) || roster.lane_of_key(&name.0).is_some()
        };
        let protocols = [MEMBER, PAIR, WATCH];
        let listener =
            Listener::bind(self.settings.listen, &self.credentials, &protocols, admits).await;
        listener.map_err(|error| {
            Failure::setup_text(format!("listen address {}: {error}", self.settings.listen))
        })
    }

    /// The roster, if it has changed, is in order, and extends that in force.
    fn read_roster(&self, sites: &[Site], hub: &Hub) -> Option<(ServerConfig, Vec<Site>)> {
        let read = roster::load(&self.settings.roster).and_then(|read| {
            let config = server_config(&self.settings, &read)?;
            if !config.common.roster.extends(&hub.config().common.roster) {
                return Err(Failure::setup_text(MOVED));
            }
            Ok((config, read))
        });
        match read {
            Ok((_, read)) if read == sites => {
                tracing::info!("the roster is the same");
                None
            }
            Ok(changed) => {
                tracing::info!(sites = changed.1.len(), "the roster is read anew");
                Some(changed)
            }
            Err(failure) => {
                tracing::error!(%failure, "the roster stays as it was");
                None
            }
        }
    }

    /// Starts shards, and the calls to the other party.
    fn start(&self, config: &ServerConfig) -> Outcome<Running> {
        let shared = Arc::new(config.clone());
        let (mut inputs, mut threads, mut reports) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..config.common.shards {
            let shard = Shard::new(self.settings.party, number, Arc::clone(&shared))
                .map_err(Failure::setup)?;
            let (sender, receiver) = channel();
            let report = Arc::new(Mutex::new(Report::default()));
            let leads = self.settings.party == Party::One;
            let worker = Worker::new(shard, receiver, Arc::clone(&report), leads);
            let thread = std::thread::Builder::new().name(format!("shard-{number}"));
            threads.push(thread.spawn(move || worker.run()).map_err(Failure::operation)?);
            inputs.push(sender);
            reports.push(report);
        }
        let hub = Arc::new(Hub::new(self.settings.party, config.clone(), inputs));
        let mut leading = None;
        if self.settings.party == Party::One {
            let leader = Leader {
                hub: Arc::clone(&hub),
                credentials: self.credentials.clone(),
                peers: self.settings.peers.clone(),
                primary: self.settings.primary,
                takeover: self.settings.takeover,
            };
            leading = Some(tokio::spawn(leader.lead()).abort_handle());
        }
        Ok(Running { hub, tasks: Mutex::default(), leading, threads, shards: reports })
    }
}

/// What runs.
struct Running {
    hub: Arc<Hub>,
    tasks: Mutex<JoinSet<()>>,
    /// What calls the other party: party one's.
    leading: Option<AbortHandle>,
    threads: Vec<JoinHandle<()>>,
    shards: Vec<Arc<Mutex<Report>>>,
}

impl Running {
    /// Serves a channel that came in.
    fn take(&self, server: &Server, channel: rhumb_channel::Channel) {
        let hub = Arc::clone(&self.hub);
        let is_member = hub.config().common.roster.lane_of_key(&channel.peer.0).is_some();
        let is_peer = server.settings.peers.iter().any(|peer| peer.name == channel.peer);
        let is_standby = server.settings.standby == Some(channel.peer);
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        match channel.protocol.name {
            name if name == MEMBER.name && is_member => {
                tasks.spawn(members::serve(hub, channel));
            }
            name if name == PAIR.name && is_peer && hub.party == Party::Two => {
                tasks.spawn(pair::answer(hub, channel));
            }
            name if name == WATCH.name && is_standby => {
                tasks.spawn(pair::tell_standby(hub, channel));
            }
            protocol => {
                // Known, but not for this: a member that calls as a party, say.
                tracing::warn!(address = %channel.address, protocol, "a connection is refused");
                hub.counters.refused.fetch_add(1, Ordering::Relaxed);
                tasks.spawn(pair::hang_up(channel));
            }
        }
    }

    fn read_port_load(&self, port_load: Option<&mut PortLoad>, sites: &[Site]) {
        let Some(port_load) = port_load else { return };
        match port_load.read_if_changed(sites) {
            Ok(None) => {}
            Ok(Some(percents)) => {
                let preferences = port_load::preferences(&percents);
                self.hub.tell_all(|| Input::Preferences(Arc::clone(&preferences)));
            }
            Err(failure) => tracing::warn!(%failure, "the load of ports stays as it was"),
        }
    }

    fn has_failed(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    fn reports(&self) -> Vec<Report> {
        let read = |shard: &Arc<Mutex<Report>>| {
            shard.lock().unwrap_or_else(PoisonError::into_inner).clone()
        };
        self.shards.iter().map(read).collect()
    }

    /// Ends shards and connections. Whoever is connected is told by the end of its channel.
    async fn end(self) {
        self.hub.tell_all(|| Input::End);
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a shard has panicked");
            }
        }
        let mut tasks = self.tasks.into_inner().unwrap_or_else(PoisonError::into_inner);
        let was_paired = self.hub.pair().is_some();
        self.hub.cut_all();
        let over = async { while tasks.join_next().await.is_some() {} };
        // Who does not hear a goodbye notices the end.
        let _ = timeout(GOODBYE, over).await;
        if let Some(leading) = &self.leading {
            if was_paired {
                sleep(GOODBYE_OF_PAIR).await;
            }
            leading.abort();
        }
    }
}

fn server_config(settings: &ExchangeSettings, sites: &[Site]) -> Outcome<ServerConfig> {
    let roster = roster::for_exchange(sites)?;
    let common = Common { roster, shards: settings.shards, form: settings.select_best };
    let mut config = ServerConfig::new(common);
    config.engine = settings.pools;
    config.ranking = settings.rank_deadline;
    (config.stale, config.settle) = (settings.stale, settings.stale);
    config.pass = settings.rechoose;
    config.check().map_err(Failure::setup)?;
    Ok(config)
}

/// What is said of a roster that cannot be taken while the server runs.
const MOVED: &str = "a site has another place, AS or key than before: add sites at the end, give those that are gone `removed = true`, or start both parties \
                     again";
/// How soon the load of ports takes effect.
const FILES_PERIOD: Duration = Duration::from_secs(1);
/// What a goodbye to the other party takes, with a round trip between continents.
const GOODBYE_OF_PAIR: Duration = Duration::from_millis(300);
