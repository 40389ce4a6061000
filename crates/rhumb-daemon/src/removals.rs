//! Who was removed from domains, as RIBs tell a node that lets in their members.
//!
//! 1. A thread for each RIB asks it for all removals behind its mark, until there are no more.
//! 2. Then it is told of the next one at once, and asks on; and once a minute in any case.
//! 3. What verifies, and is of a domain that matters here, the node is told of: it puts out who was
//!    removed. Until one RIB has told everything it takes nobody for a member, so nobody who was
//!    removed gets in because the node has just begun.
//!
//! INVARIANT: no RIB can keep from the node what another one tells, or have it put out anybody but
//! by his own domain's word.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rhumb_node::Node;
use rhumb_trust::{Identity, Removal, Verified};
use rhumb_wire::Name;
use rhumb_wire::rib::{
    Mark, RemovalLists, RequestId, RibRequestBody, RibResponse, RibResponseBody,
};

use crate::clock;
use crate::failure::{Failure, Outcome};
use crate::inquiry::{Directory, Session};
use crate::remote::Remote;

/// The RIBs that tell a node who was removed, if there are any.
#[derive(Debug, Clone)]
pub struct Hearing {
    node: Node,
    has_ribs: bool,
    domains: Arc<Mutex<BTreeSet<Name>>>,
}

impl Hearing {
    /// Has `ribs`, asked as `identity`, tell `node`, until the process ends.
    ///
    /// # Errors
    ///
    /// When there are no threads.
    pub fn begin(node: &Node, identity: &Arc<Identity>, ribs: &[Remote]) -> Outcome<Self> {
        let domains = Arc::<Mutex<BTreeSet<Name>>>::default();
        for rib in ribs.iter().copied() {
            let mut ear = Ear {
                node: node.clone(),
                identity: Arc::clone(identity),
                rib,
                domains: Arc::clone(&domains),
                heeded: BTreeSet::new(),
                mark: Mark::default(),
                ask_at: clock::now().instant,
            };
            let thread = std::thread::Builder::new().name("removals".to_owned());
            thread.spawn(move || ear.listen()).map_err(Failure::operation)?;
        }
        Ok(Self { node: node.clone(), has_ribs: !ribs.is_empty(), domains })
    }

    /// Members of these domains are let in: to be said before they are.
    pub fn heed(&self, domains: impl IntoIterator<Item = Name>) {
        let domains: BTreeSet<Name> = domains.into_iter().collect();
        let mut heeded = self.domains.lock().unwrap_or_else(PoisonError::into_inner);
        if domains.is_subset(&heeded) {
            return;
        }
        if !self.has_ribs {
            tracing::warn!(
                "nobody tells who is removed from the domains: their members are let in until their memberships end; give --rib"
            );
        } else {
            self.node.await_removals();
        }
        heeded.extend(domains);
    }
}

/// What listens to one RIB.
struct Ear {
    node: Node,
    identity: Arc<Identity>,
    rib: Remote,
    domains: Arc<Mutex<BTreeSet<Name>>>,
    /// Of which it has been told so far.
    heeded: BTreeSet<Name>,
    mark: Mark,
    ask_at: Instant,
}

impl Ear {
    fn listen(&mut self) {
        let mut wait = LEAST_WAIT;
        let mut was_told = false;
        loop {
            let begun = clock::now().instant;
            let Err(failure) = self.hear();
            if !was_told {
                let rib = self.rib.address;
                tracing::warn!(%rib, %failure, "it does not tell who was removed from domains");
            }
            // Said again when it had been heard meanwhile.
            was_told = begun.elapsed() < HEARD_FOR;
            wait = if was_told { (wait * 2).min(MOST_WAIT) } else { LEAST_WAIT };
            std::thread::sleep(wait);
        }
    }

    /// Hears until the session breaks; one begins as soon as a domain matters, and takes the place
    /// of nothing else in this name before that.
    fn hear(&mut self) -> Outcome<Infallible> {
        while self.heeded.is_empty() {
            std::thread::sleep(LOOK_AGAIN);
            self.look_for_domains();
        }
        let mut session = Session::connect(Arc::clone(&self.identity), self.rib, PATIENCE)?;
        self.ask_at = clock::now().instant;
        loop {
            self.look_for_domains();
            let now = clock::now().instant;
            if self.ask_at <= now {
                self.ask(&mut session)?;
            } else if let Some(told) = session.unasked(self.ask_at.min(now + LOOK_AGAIN))? {
                self.told_unasked(&mut session, &told.data)?;
            }
        }
    }

    /// Other domains matter now: everything is to be told once more.
    fn look_for_domains(&mut self) {
        let domains = self.domains.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if domains != self.heeded {
            (self.heeded, self.mark, self.ask_at) =
                (domains, Mark::default(), clock::now().instant);
        }
    }

    /// Asks until there are no more.
    fn ask(&mut self, session: &mut Session) -> Outcome {
        let mut are_all_believed = true;
        for _ in 0..MOST_IN_A_ROW {
            let question = RibRequestBody::Removals(self.mark);
            let answer = Directory::new(session, self.identity.name()).request(question)?;
            let (to, lists) = match answer {
                RibResponseBody::Removals { to, removals } => (to, removals),
                RibResponseBody::Refused(refusal) => {
                    return Err(Failure::operation_text(format!("the RIB refuses: {refusal}")));
                }
                _ => return Err(Failure::operation_text("an answer that fits no question")),
            };
            let goes_on = !lists.is_empty() && to != self.mark;
            are_all_believed &= self.tell(lists, !goes_on);
            self.mark = to;
            if !goes_on {
                break;
            }
        }
        // A clock may have been wrong.
        if !are_all_believed {
            self.mark = Mark::default();
        }
        self.ask_at = clock::now().instant + ASK_AGAIN_AFTER;
        Ok(())
    }

    fn told_unasked(&mut self, session: &mut Session, data: &[u8]) -> Outcome {
        let Ok(RibResponse { id, body: RibResponseBody::Removals { removals, .. } }) =
            RibResponse::parse(data)
        else {
            return Ok(());
        };
        self.tell(removals, false);
        acknowledge(session, self.identity.name(), id)?;
        // There may be more behind it, or something in between that was not told.
        self.ask_at = clock::now().instant;
        Ok(())
    }

    /// Tells the node what is to be believed; says whether that was all.
    fn tell(&self, lists: Vec<RemovalLists>, are_all: bool) -> bool {
        let now_s = clock::now().unix_s();
        let count = lists.len();
        let parsed = lists.into_iter().filter_map(|lists| Removal::from_lists(lists).ok());
        let (ours, others): (Vec<Removal>, Vec<Removal>) =
            parsed.partition(|it| self.heeded.iter().any(|domain| it.is_of(domain)));
        let believed: Vec<Verified<Removal>> =
            ours.into_iter().filter_map(|removal| removal.verify(now_s).ok()).collect();
        let are_believed = believed.len() + others.len() == count;
        self.node.note_removals(believed, are_all);
        are_believed
    }
}

fn acknowledge(session: &mut Session, source: Name, id: RequestId) -> Outcome {
    let mut data = Vec::new();
    rhumb_wire::rib::RibRequest { id, body: RibRequestBody::Acknowledge }.emit(&mut data);
    session.say(rhumb_wire::Action::RibRequest, source, &data)
}

/// A RIB answers within milliseconds; this is for lost datagrams.
const PATIENCE: Duration = Duration::from_secs(3);
const LEAST_WAIT: Duration = Duration::from_secs(1);
const MOST_WAIT: Duration = Duration::from_secs(30);
/// A session that held for so long was one.
const HEARD_FOR: Duration = Duration::from_secs(10);
/// As routers do (section 8.8 of the specification).
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(60);
/// How late another domain is noticed.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// Questions after which a RIB that always knows more is left alone for a minute: as many removals
/// as are kept.
const MOST_IN_A_ROW: usize = 1 << 14;
