//! What becomes of another member's route: its validity, and what the import policy says. A thread
//! of its own thinks about it, one route after the other, so that however long that takes, nothing
//! else of the proxy takes longer.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use rhumb_bgp::policy::{Candidate, ImportPolicy, Member, Roster, Route, Unwanted, Vrps};
use rhumb_bgp::wire::{AsPath, AsPathSegment, Origin, PathAttribute, Prefix, RpkiValidation};
use rhumb_bgp::{Attributes, NextHop};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::encoding::{Announced, Malformed};
use super::table::Key;
use crate::failure::{Failure, Outcome};

/// By what routes are judged.
#[derive(Debug, Clone)]
pub(super) struct Law {
    pub(super) import: ImportPolicy,
    pub(super) roster: Roster,
    pub(super) vrps: Arc<Vrps>,
}

/// A route that is to be judged.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) prefix: Prefix,
    pub(super) key: Key,
    /// Greater than that of any case before.
    pub(super) number: u64,
    pub(super) announced: Result<Announced, Malformed>,
    pub(super) law: Arc<Law>,
}

/// A case, and what became of its route.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) case: Case,
    pub(super) validity: RpkiValidation,
    pub(super) taken: Result<Taken, Refusal>,
}

/// A route that may be used.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) candidate: Candidate,
    /// As the router gets it.
    pub(super) attributes: Attributes,
}

/// Why a route is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It could not be read.
    Malformed(Malformed),
    /// The announcer is no member.
    Stranger,
    /// The policy refuses it.
    Policy(Unwanted),
}

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

impl Case {
    pub(super) fn judge(self) -> Judged {
        let from = self.key.from;
        let (validity, taken) = match &self.announced {
            Ok(announced) => {
                let validity = self.law.validity(self.prefix, &announced.attributes, from);
                (validity, self.law.import(self.prefix, from, announced, validity))
            }
            Err(malformed) => (RpkiValidation::NotFound, Err(Refusal::Malformed(*malformed))),
        };
        Judged { case: self, validity, taken }
    }
}

impl Law {
    pub(super) fn validity(
        &self,
        prefix: Prefix,
        attributes: &Attributes,
        from: Member,
    ) -> RpkiValidation {
        let asn = self.roster.asn(from).unwrap_or(0);
        let origin = rhumb_bgp::policy::rpki::origin_of(&attributes.as_path(), asn);
        self.vrps.validate(prefix, origin)
    }

    fn import(
        &self,
        prefix: Prefix,
        from: Member,
        announced: &Announced,
        validity: RpkiValidation,
    ) -> Result<Taken, Refusal> {
        let announcer_asn = self.roster.asn(from).ok_or(Refusal::Stranger)?;
        let (list, next_hop) = (announced.attributes.list(), announced.attributes.next_hop());
        let address = Some(next_hop.address());
        let route = Route {
            prefix,
            attributes: &list,
            next_hop: address,
            announcer: from,
            announcer_asn,
            validity,
        };
        let imported = self.import.import(&route).map_err(Refusal::Policy)?;
        let candidate = Candidate::new(
            &Route { attributes: &imported.attributes, ..route },
            imported.preference,
            announced.router_id,
        );
        let attributes = if imported.attributes == list {
            announced.attributes.clone()
        } else {
            Attributes::new(next_hop, &imported.attributes)
                .map_err(|_| Refusal::Malformed(Malformed::Attributes))?
        };
        Ok(Taken { candidate, attributes })
    }

    /// How long a route takes, some more than that, and in powers of two: what is counted for each
    /// route that is announced to anybody, so it must say no more than how long the policy is.
    /// Measured on a route that nobody has announced.
    pub(super) fn cost(&self) -> Duration {
        let other = self.roster.iter().find(|(_, asn)| *asn != self.import.own_asn);
        let Some((from, asn)) = other else { return LEAST_COST };
        let segments = vec![AsPathSegment::AsSequence(vec![asn, 64511, 64510, 64509])];
        let list = [PathAttribute::Origin(Origin::Igp), PathAttribute::AsPath(AsPath { segments })];
        let prefix = rhumb_bgp::policy::prefix::prefix_of([192, 0, 2, 0].into(), 24);
        let attributes = Attributes::new(NextHop::V4([192, 0, 2, 1].into()), &list);
        let (Some(prefix), Ok(attributes)) = (prefix, attributes) else { return LEAST_COST };
        let announced = Announced { router_id: [192, 0, 2, 1].into(), attributes };
        let times = (0..TRIES).map(|_| {
            let begin = Instant::now();
            let validity = self.validity(prefix, &announced.attributes, from);
            // What becomes of it is of no account.
            let _ = self.import(prefix, from, &announced, validity);
            begin.elapsed()
        });
        let least = times.min().unwrap_or_default().as_micros() as u64;
        LEAST_COST.max(Duration::from_micros(least.next_power_of_two())).min(MOST_COST)
    }
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
