//! How long look-ups take when the RIB dies that is asked: the client that routers have, with both
//! RIBs, and one of them killed in the middle of a steady load.
//!
//! A client waits for as long as a RIB mostly takes, [`LONGEST_HEDGE`] at the most, and asks the
//! other one then. So none may take longer than that and an answer.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rhumb_directory::{Answered, Directory, Question, Remote};
use rhumb_link::Event;
use rhumb_wire::Name;
use rhumb_wire::rib::RibResponseBody;

use crate::client::Line;
use crate::report::Report;
use crate::servers::Ribs;
use crate::world::Holder;

/// That of `rhumb-directory`.
const LONGEST_HEDGE: Duration = Duration::from_millis(200);
/// Between two look-ups.
const EVERY: Duration = Duration::from_millis(5);
const BEFORE: Duration = Duration::from_secs(5);
const AFTER: Duration = Duration::from_secs(10);

/// A router's client, and when each look-up began that is under way.
struct Asker {
    line: Line,
    directory: Directory,
    names: HashMap<rhumb_link::SessionId, Name>,
    under_way: HashMap<Name, Instant>,
    took: Vec<Duration>,
    unanswered: usize,
}

impl Asker {
    fn connect(ribs: &Ribs) -> Self {
        let remotes: Vec<Remote> = ribs
            .ribs
            .iter()
            .map(|rib| Remote { address: rib.at.1, name: Some(rib.at.0) })
            .collect();
        let mut asker = Self {
            line: Line::new(&ribs.router),
            directory: Directory::new(&remotes, 2 * ribs.holders.len(), 16, Instant::now()),
            names: HashMap::new(),
            under_way: HashMap::new(),
            took: Vec::new(),
            unanswered: 0,
        };
        let began = Instant::now();
        while asker.names.len() < remotes.len() {
            assert!(began.elapsed() < Duration::from_secs(20), "no session");
            asker.turn(Duration::from_millis(10));
        }
        asker
    }

    fn look_up(&mut self, name: Name) {
        let now = Instant::now();
        assert!(self.directory.look_up_route(name, now), "it cannot be asked");
        self.under_way.entry(name).or_insert(now);
    }

    fn turn(&mut self, within: Duration) {
        let now = Instant::now();
        for (index, Remote { address, name }) in self.directory.connect_due(now) {
            let attempt = self.line.endpoint.connect(address, name, now);
            self.directory.connecting(index, attempt);
        }
        self.directory.handle_timeout(now);
        while let Some((session, data)) = self.directory.poll_request() {
            let to = self.names[&session];
            self.line.send(session, to, &data);
        }
        for (session, answer) in self.line.turn(within) {
            let now = Instant::now();
            let answered = self.directory.take_answered(answer.id, session, now);
            let Answered::Question(question @ Question::Route(name), _) = answered else {
                continue;
            };
            assert!(matches!(answer.body, RibResponseBody::Found { .. }), "{:?}", answer.body);
            self.directory.settle(&question);
            self.took.extend(self.under_way.remove(&name).map(|began| now - began));
        }
        let now = Instant::now();
        while let Some(event) = self.line.endpoint.poll_event() {
            match event {
                Event::Established { session, attempt: Some(attempt), peer, .. } => {
                    self.names.insert(session, peer);
                    self.directory.established(attempt, session, now);
                }
                Event::Failed { attempt, .. } => _ = self.directory.failed(attempt, now),
                Event::Closed { session, .. } => _ = self.directory.closed(session, now),
                _ => {}
            }
        }
        while let Some((question, _)) = self.directory.poll_concluded() {
            if let Question::Route(name) = question {
                self.unanswered += usize::from(self.under_way.remove(&name).is_some());
            }
        }
    }

    /// Looks up one name after the other for a while; how long the longest took.
    fn look_up_for(&mut self, time: Duration, names: &mut impl Iterator<Item = Name>) -> Duration {
        self.took.clear();
        let (began, mut next) = (Instant::now(), Instant::now());
        while began.elapsed() < time || !self.under_way.is_empty() {
            if began.elapsed() < time && next <= Instant::now() {
                next += EVERY;
                let name = names.next().expect("names without end");
                self.look_up(name);
            }
            self.turn(Duration::from_millis(1));
            assert!(began.elapsed() < 4 * time, "{} under way", self.under_way.len());
        }
        self.took.iter().copied().max().expect("some were answered")
    }
}

pub(crate) fn measure(mut ribs: Ribs, report: &mut Report) {
    let mut asker = Asker::connect(&ribs);
    let names: Vec<Name> = ribs.holders.iter().map(Holder::name).collect();
    let mut names = names.into_iter().cycle();
    let before = asker.look_up_for(BEFORE, &mut names);
    // It is the one that is asked first, if both are as quick.
    ribs.ribs.remove(0).running.kill();
    let after = asker.look_up_for(AFTER, &mut names);
    let answered = asker.took.len();
    asker.took.sort();
    report.figure("longest_look_up_before_ms", before.as_secs_f64() * 1e3);
    report.figure("median_look_up_after_death_ms", asker.took[answered / 2].as_secs_f64() * 1e3);
    report.figure("longest_look_up_at_death_ms", after.as_secs_f64() * 1e3);
    let most = LONGEST_HEDGE + before;
    let ratio = after.as_secs_f64() / most.as_secs_f64();
    report.at_most("longest_look_up_at_death_to_a_hedge_and_an_answer", ratio, 1.0);
    report.at_most("look_ups_unanswered_at_death", asker.unanswered as f64, 0.0);
}
