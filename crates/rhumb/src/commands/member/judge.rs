//! Judges routes of other members ([`Case::judge`]) on a thread of its own, one after the other, so
//! that however long that takes, nothing else of the proxy takes longer.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use rhumb_bgp::wire::{AsPath, AsPathSegment, Origin, PathAttribute};
use rhumb_bgp::{Attributes, NextHop};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_member::{Announced, Case, Judged, Key, Law};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The thread that judges, until dropped.
#[derive(Debug)]
pub(super) struct Judge {
    cases: Sender<Case>,
    judged: UnboundedReceiver<Judged>,
}

impl Judge {
    pub(super) fn start() -> Outcome<Self> {
        let (cases, waiting) = channel();
        let (done, judged) = unbounded_channel();
        let work = move || work(&waiting, &done);
        std::thread::Builder::new()
            .name("judge".to_owned())
            .spawn(work)
            .map_err(Failure::operation)?;
        Ok(Self { cases, judged })
    }

    pub(super) fn take(&self, case: Case) {
        // The thread lives as long as this.
        let _ = self.cases.send(case);
    }

    /// What was judged, at least one and at most so many. May be
    /// dropped before it is done: nothing is lost.
    ///
    /// # Errors
    ///
    /// The thread has ended, which it does not do by itself.
    pub(super) async fn judged(&mut self, into: &mut Vec<Judged>, most: usize) -> Outcome {
        match self.judged.recv_many(into, most).await {
            0 => Err(Failure::operation_text("nobody judges routes any more".to_owned())),
            _ => Ok(()),
        }
    }

    /// As [`Judge::judged`], if there is something.
    pub(super) fn try_judged(&mut self) -> Option<Judged> {
        self.judged.try_recv().ok()
    }
}

fn work(cases: &Receiver<Case>, judged: &UnboundedSender<Judged>) {
    // It has the whole time that the others leave it. If it cannot
    // have less than they, it works all the same.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(LESS_URGENT);
    while let Ok(case) = cases.recv() {
        if judged.send(case.judge()).is_err() {
            return;
        }
    }
}

/// How long a route takes, some more than that, and in powers of two: what is counted for each
/// route that is announced to anybody, so it must say no more than how long the policy is. Measured
/// on a route that nobody has announced.
pub(super) fn cost(law: &Arc<Law>) -> Duration {
    let other = law.roster.iter().find(|(_, asn)| *asn != law.import.own_asn);
    let Some((from, asn)) = other else { return LEAST_COST };
    let segments = vec![AsPathSegment::AsSequence(vec![asn, 64511, 64510, 64509])];
    let list = [PathAttribute::Origin(Origin::Igp), PathAttribute::AsPath(AsPath { segments })];
    let prefix = rhumb_bgp::policy::prefix::prefix_of([192, 0, 2, 0].into(), 24);
    let attributes = Attributes::new(NextHop::V4([192, 0, 2, 1].into()), &list);
    let (Some(prefix), Ok(attributes)) = (prefix, attributes) else { return LEAST_COST };
    let announced = Ok(Announced { router_id: [192, 0, 2, 1].into(), attributes });
    let key = Key { variant: 0, from };
    let case = Case { prefix, key, number: 0, announced, law: Arc::clone(law) };
    let times = (0..TRIES).map(|_| {
        let case = case.clone();
        let begin = Instant::now();
        // What becomes of it is of no account.
        let _ = case.judge();
        begin.elapsed()
    });
    let least = times.min().unwrap_or_default().as_micros() as u64;
    LEAST_COST.max(Duration::from_micros(least.next_power_of_two())).min(MOST_COST)
}

/// The others wake for moments, and what they do shall not wait.
#[cfg(target_os = "linux")]
const LESS_URGENT: i32 = 10;
/// The least of these is no other thread's.
const TRIES: usize = 5;
/// What a route takes besides: it is opened, kept, and told to the router.
const LEAST_COST: Duration = Duration::from_micros(16);
/// Ten thousand rules with expressions.
const MOST_COST: Duration = Duration::from_millis(16);
