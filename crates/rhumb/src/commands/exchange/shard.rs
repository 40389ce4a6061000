//! A shard's thread: what comes from connections goes into
//! the sans-IO shard, and what that says goes out.
//!
//! One turn:
//! 1. what waits is handled; what comes of members' messages goes
//!    out together, what comes of others at once;
//! 2. what is due by the clock;
//! 3. while there is nothing else to do, triples are made;
//! 4. wait for the next input or time.
//!
//! Invariant: the thread never waits for a connection. Who takes too little is cut.

use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rhumb_daemon::key::fresh_secret;
use rhumb_exchange::{
    ExchangeError, Lane, Latencies, Output, Shard, Status, is_announcement, round_of,
};
use rhumb_mpc::Seed;

use super::hub::{Connection, Input, Line};

/// What a shard tells about itself.
#[derive(Debug, Clone, Default)]
pub(super) struct Report {
    pub(super) status: Status,
    /// Inputs that were handled.
    pub(super) handled: u64,
    /// Connections cut for what was wrong with their messages.
    pub(super) cut: u64,
    /// Routes refused beyond their site's quota.
    pub(super) refused: Vec<(Lane, u64)>,
    /// From the arrival of an announcement until its shares went out: party one's.
    pub(super) exports: Latencies,
    /// From a round's question to its result, with the members' time in between.
    pub(super) rounds: Latencies,
}

/// All that a shard's thread has.
pub(super) struct Worker {
    shard: Shard,
    inputs: Receiver<Input>,
    members: HashMap<Lane, (Connection, Line)>,
    pair: Option<(Connection, Line)>,
    report: Arc<Mutex<Report>>,
    own: Report,
    /// When announcements came that have not been exported: party one's.
    arrivals: VecDeque<Instant>,
    /// Exports that were counted.
    exported: u64,
    /// When rounds began that have no result yet.
    rounds: HashMap<u64, Instant>,
    /// Whether this is party one, which alone knows what waits.
    leads: bool,
}

impl Worker {
    pub(super) fn new(
        shard: Shard,
        inputs: Receiver<Input>,
        report: Arc<Mutex<Report>>,
        leads: bool,
    ) -> Self {
        Self {
            shard,
            inputs,
            members: HashMap::new(),
            pair: None,
            report,
            own: Report::default(),
            arrivals: VecDeque::new(),
            exported: 0,
            rounds: HashMap::new(),
            leads,
        }
    }

    /// Works until it is told to end.
    pub(super) fn run(mut self) {
        let mut next_report = Instant::now();
        loop {
            let more = self.handle_waiting();
            let Some(more) = more else {
                return self.tell();
            };
            let now = Instant::now();
            if self.shard.poll_timeout().is_some_and(|due| due <= now) {
                self.shard.handle_timeout(now);
                self.flush();
            }
            if next_report <= now {
                self.tell();
                next_report = now + REPORT_PERIOD;
            }
            if more {
                continue;
            }
            let is_filling = self.shard.refill();
            self.flush();
            let due = self.shard.poll_timeout().map_or(next_report, |due| due.min(next_report));
            let left = due.saturating_duration_since(Instant::now());
            let left = if is_filling { Duration::ZERO } else { left };
            match self.inputs.recv_timeout(left) {
                Ok(Input::End) | Err(RecvTimeoutError::Disconnected) => return self.tell(),
                Ok(input) => self.handle(input),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Handles what waits, a bounded number; whether there
    /// may be more, and nothing when it is to end.
    fn handle_waiting(&mut self) -> Option<bool> {
        let mut more = true;
        for _ in 0..MAX_INPUTS_A_TURN {
            match self.inputs.try_recv() {
                Ok(Input::End) | Err(TryRecvError::Disconnected) => return None,
                Ok(input) => self.handle(input),
                Err(TryRecvError::Empty) => {
                    more = false;
                    break;
                }
            }
        }
        self.flush();
        Some(more)
    }

    fn handle(&mut self, input: Input) {
        let now = Instant::now();
        self.own.handled += 1;
        match input {
            Input::MemberHere { lane, connection, participates, line } => {
                self.drop_member(lane);
                self.members.insert(lane, (connection, line));
                self.shard.member_joined(lane, participates, now);
            }
            Input::MemberSaid { lane, connection, message, .. } => {
                self.hear(lane, connection, &message, now);
                // The turn ends with what comes of it, so that
                // many withdrawals, say, are one order.
                return;
            }
            Input::MemberGone { lane, connection } => {
                if self.members.get(&lane).is_some_and(|(here, _)| *here == connection) {
                    self.members.remove(&lane);
                    self.shard.member_left(lane, now);
                }
            }
            Input::PairBegins { connection, epoch, line } => {
                self.begin_pair(connection, epoch, line, now);
            }
            Input::PairSaid { connection, message } => {
                if self.pair.as_ref().is_some_and(|(here, _)| *here == connection) {
                    self.shard.peer_message(&message, now);
                }
            }
            Input::PairEnds { connection } => {
                if self.pair.as_ref().is_some_and(|(here, _)| *here == connection) {
                    self.pair = None;
                    self.shard.pair_ended(now);
                }
            }
            Input::Preferences(preferences) => {
                if let Err(error) = self.shard.set_preferences(&preferences) {
                    tracing::error!(%error, "the load of ports is not taken");
                }
            }
            Input::Roster(config) => {
                if let Err(error) = self.shard.set_roster(config, now) {
                    tracing::error!(%error, "the roster is not taken");
                }
            }
            Input::End => {}
        }
        self.flush();
    }

    fn hear(&mut self, lane: Lane, connection: Connection, message: &[u8], now: Instant) {
        if self.members.get(&lane).is_none_or(|(here, _)| *here != connection) {
            return;
        }
        if let Err(error) = self.shard.member_message(lane, message, now) {
            self.cut_member(lane, &error);
        } else if self.leads && is_announcement(message) {
            self.arrivals.push_back(now);
        }
    }

    fn begin_pair(&mut self, connection: Connection, epoch: u64, line: Line, now: Instant) {
        let begun = match fresh_secret() {
            Ok(seed) => self
                .shard
                .pair_begun(epoch, Seed::new(seed), now)
                .map_err(|error| error.to_string()),
            Err(failure) => Err(failure.to_string()),
        };
        match begun {
            Ok(()) => self.pair = Some((connection, line)),
            Err(error) => {
                tracing::error!(error, "a pair cannot begin");
                line.cut.notify_one();
            }
        }
    }

    /// Sends what the shard wants sent.
    fn flush(&mut self) {
        self.count_exports();
        while let Some(output) = self.shard.poll_output() {
            match output {
                Output::Member { lane, message } => {
                    self.time_round(&message);
                    let line = self.members.get(&lane);
                    if line.is_some_and(|(_, line)| !line.send(message)) {
                        self.drop_member(lane);
                    }
                }
                Output::Peer(message) => {
                    if self.pair.as_ref().is_some_and(|(_, line)| !line.send(message)) {
                        self.pair = None;
                        self.shard.pair_ended(Instant::now());
                    }
                }
                Output::MemberFailed { lane, error } => self.cut_member(lane, &error),
                Output::PairFailed(error) => {
                    tracing::error!(%error, "the pair has failed");
                    if let Some((_, line)) = self.pair.take() {
                        line.cut.notify_one();
                    }
                }
            }
        }
    }

    fn cut_member(&mut self, lane: Lane, error: &ExchangeError) {
        let site = self.shard.site(lane).map_or("", |site| &site.id);
        tracing::warn!(site, %error, "a member's connection is cut");
        self.own.cut += 1;
        self.drop_member(lane);
    }

    /// Nothing more of a connection counts that is cut. What its
    /// task says of its end is of no account then.
    fn drop_member(&mut self, lane: Lane) {
        if let Some((_, line)) = self.members.remove(&lane) {
            line.cut.notify_one();
            self.shard.member_left(lane, Instant::now());
        }
    }

    /// Announcements are exported in the order in which they came.
    fn count_exports(&mut self) {
        let exported = self.shard.counters().exported;
        let count = exported - std::mem::replace(&mut self.exported, exported);
        for arrival in self.arrivals.drain(..self.arrivals.len().min(count as usize)) {
            self.own.exports.add(arrival.elapsed().as_micros() as u64);
        }
    }

    /// A round takes from its first question to its first result.
    fn time_round(&mut self, message: &[u8]) {
        match round_of(message) {
            Some((round, false)) => {
                self.rounds.entry(round).or_insert_with(Instant::now);
            }
            Some((round, true)) => {
                if let Some(asked) = self.rounds.remove(&round) {
                    self.own.rounds.add(asked.elapsed().as_micros() as u64);
                }
            }
            None => {}
        }
    }

    /// A site that begins to announce more than its quota is named, once.
    fn tell_refused(&mut self) {
        let refused: Vec<(Lane, u64)> = self.shard.refused().collect();
        for (lane, _) in &refused {
            if !self.own.refused.iter().any(|(known, _)| known == lane) {
                let site = self.shard.site(*lane).map_or("", |site| &site.id);
                tracing::warn!(
                    site,
                    "routes are refused: they are beyond the site's quota, max_routes and max_mib of the roster"
                );
            }
        }
        self.own.refused = refused;
    }

    /// Writes down what there is to tell.
    fn tell(&mut self) {
        self.own.status = self.shard.status();
        self.tell_refused();
        if self.own.status.waiting == 0 {
            // What is left was taken back, or replaced, before it was exported.
            self.arrivals.clear();
        }
        if self.own.status.rounds == 0 {
            self.rounds.clear();
        }
        *self.report.lock().unwrap_or_else(PoisonError::into_inner) = self.own.clone();
    }
}

/// How old a shard's figures are at most.
const REPORT_PERIOD: Duration = Duration::from_millis(250);
/// So that timers are never starved: with some 20 us an announcement this stays at a millisecond.
const MAX_INPUTS_A_TURN: usize = 64;
