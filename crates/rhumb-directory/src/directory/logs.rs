//! What RIBs' logs prove of their answers, and where a RIB tells one this and another one that.
//!
//! 1. One answer in so many is to be proven, a denial as well: the RIB is asked what its log says
//!    of the name ([`Question::Prove`]), and shows that together with the head of its log.
//! 2. A head that is not the one that is known has to be shown to follow it, or to be followed by
//!    it ([`Question::Link`]). So have those that other routers tell of
//!    ([`Directory::take_head`]).
//! 3. What was shown and is not in the log is asked for again. A RIB that still shows it has
//!    answered what its log did not say in between: `Unlogged`. Statements only ever give way to
//!    newer ones, and a log that waits for its next head says so, so no honest RIB does that.
//! 4. Two heads that contradict each other, or that their RIB cannot link, are `Forked`. The former
//!    are proof for whoever has the RIB's metadata, and are handed on: [`Directory::poll_heads`].
//!
//! A log that holds something of a name that was denied proves nothing: what expired or was
//! withdrawn is held for a while, and the way onward may be missing. But the RIB has signed both.
//!
//! A RIB without a log is asked again now and then; to have none is no fault, and shows in status.
//!
//! INVARIANT: nobody but a RIB itself can bring a fault upon it: each head here was signed by it,
//! and an answer that is late, lost or refused once proves nothing.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rhumb_trust::Verified;
use rhumb_trust::log::{fingerprint, held_of};
use rhumb_wire::log::{Hash, Head, MapPath};
use rhumb_wire::rib::RibRequestBody;
use rhumb_wire::{Certificate, Name};

use super::conduct::Fault;
use super::second::Second;
use super::{Directory, Question};
use crate::heads::{Fork, Heads, Taken};

pub(super) struct Logs {
    heads: Heads,
    /// Of each RIB.
    of: Vec<LogOf>,
    proofs: HashMap<(Name, usize), Proof>,
    /// Denials that are to be proven.
    denials: Second,
    /// When other routers are told of heads next; and how often they were.
    tell_at: Option<Instant>,
    turns: usize,
}

/// The log of one RIB.
#[derive(Default)]
struct LogOf {
    /// Until when it is not asked, since it keeps none.
    none_until: Option<Instant>,
    /// The last head that the RIB itself showed in this session, and when: it keeps that log for as
    /// long as the session lasts.
    shown: Option<(Head, Instant)>,
    link: Option<Link>,
    /// A head that it would not link before it was known whether it still keeps that log.
    unlinked: Option<Verified<Head>>,
    /// When a link was last asked for on the word of the one and of the other kind of routers.
    heard_at: [Option<Instant>; 2],
    /// How often in a row it would not link heads of the log that it keeps.
    refusals: u32,
    /// When it was last found to have signed heads that do not go together.
    forked_at: Option<Instant>,
    counts: LogCounts,
}

/// Who tells of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Teller {
    /// The RIB itself.
    Rib,
    /// A router that was admitted.
    Admitted,
    /// Any other router: there may be as many as somebody likes.
    Stranger,
}

/// What came of proofs of one RIB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogCounts {
    /// Answers that its log confirms: that it holds what they show, or nothing of what they deny.
    pub proven: u64,
    /// Answers of which it has shown neither that nor the contrary: the name went on changing, no
    /// answer came, or it refused though it keeps a log.
    pub unproven: u64,
}

/// A head that is to be linked to the one that is known.
struct Link {
    head: Verified<Head>,
    known: u64,
    sent_at: Instant,
}

/// An answer that is to be proven.
struct Proof {
    /// Nothing when it denied the name.
    shown: Option<Box<Certificate>>,
    asked_at: Instant,
    tries: u32,
    /// When the log did not say so: the answer is asked for again.
    disputed_at: Option<Instant>,
}

impl Logs {
    pub(super) fn new(replicas: usize) -> Self {
        Self {
            heads: Heads::new(replicas.max(1)),
            of: (0..replicas).map(|_| LogOf::default()).collect(),
            proofs: HashMap::new(),
            denials: Second::default(),
            tell_at: None,
            turns: 0,
        }
    }

    /// What the RIB is being asked for is not answered any more.
    pub(super) fn closed(&mut self, replica: usize) {
        let LogOf { counts, forked_at, .. } = self.of[replica];
        self.of[replica] = LogOf { counts, forked_at, ..LogOf::default() };
        self.proofs.retain(|(_, of), _| *of != replica);
    }

    /// When proofs are to be asked for again, or others to be told.
    pub(super) fn due(&self) -> Option<Instant> {
        let proofs = self.proofs.values().map(|proof| proof.asked_at + ASK_AGAIN_AFTER);
        proofs.chain(self.tell_at).min()
    }
}

// Proofs.
impl Directory {
    /// How RIBs' logs are: the newest head of each that is known, by the RIB's name.
    pub fn head_of(&self, rib: &Name) -> Option<&Head> {
        self.logs.heads.peek(rib)
    }

    /// What came of proofs of each RIB, in the order of [`Directory::ribs`].
    pub fn log_counts(&self) -> impl Iterator<Item = LogCounts> {
        self.logs.of.iter().map(|of| of.counts)
    }

    /// What proves that a RIB has told different things to different askers, if anything does.
    pub fn fork(&self, rib: &Name) -> Option<&Fork> {
        self.logs.heads.fork(rib)
    }

    /// The same head as it was verified, if it is the newest that is known of its RIB.
    pub fn known_head(&mut self, head: &Head) -> Option<Verified<Head>> {
        self.logs.heads.newest(&head.rib).filter(|known| ***known == *head).cloned()
    }

    /// Heads to tell other routers of, when it is time, and how often that was before.
    pub fn poll_heads(&mut self, now: Instant) -> Option<(Vec<Head>, usize)> {
        self.logs.tell_at.filter(|at| *at <= now)?;
        self.logs.tell_at = Some(now + TELL_EVERY);
        self.logs.turns += 1;
        Some((self.heads(), self.logs.turns - 1)).filter(|(heads, _)| !heads.is_empty())
    }

    /// What proves forks, then the newest head of each RIB. At most as many as a PDU holds.
    fn heads(&self) -> Vec<Head> {
        let forks = self.logs.heads.forks().flat_map(|fork| [fork.one, fork.other]);
        let all = forks.chain(self.logs.heads.all_newest().copied());
        let mut heads: Vec<Head> = Vec::new();
        for head in all.take(2 * Head::MAX_LIST) {
            if !heads.contains(&head) && heads.len() < Head::MAX_LIST {
                heads.push(head);
            }
        }
        heads
    }

    /// Has an answer proven that a RIB gave just now: that it shows this of the name, or nothing.
    pub(super) fn prove(&mut self, key: (Name, usize), shown: Option<&Certificate>, now: Instant) {
        let replica = key.1;
        // A RIB that answers none of them takes no room from the others', and denials, which
        // strangers bring about by asking for any name, none from what was shown.
        let under_way = self.logs.proofs.iter().filter(|((_, of), proof)| {
            *of == replica && (shown.is_some() || proof.shown.is_none())
        });
        let most = if shown.is_some() { MAX_PROOFS } else { MAX_DENIALS };
        if self.logs.of[replica].none_until.is_some_and(|until| now < until)
            || under_way.count() >= most
            || self.logs.proofs.contains_key(&key)
            || (shown.is_none() && !self.logs.denials.take(MAX_DENIALS_PER_S, now))
        {
            return;
        }
        self.logs.of[replica].none_until = None;
        let shown = shown.map(|shown| Box::new(shown.clone()));
        let proof = Proof { shown, asked_at: now, tries: 1, disputed_at: None };
        self.logs.proofs.insert(key, proof);
        self.ask_for_proof(key, now);
    }

    fn ask_for_proof(&mut self, (name, replica): (Name, usize), now: Instant) {
        self.send(replica, Question::Prove(name, replica), RibRequestBody::Prove(name), now);
    }

    /// A RIB that was asked for a proof or for a link keeps no log.
    pub fn no_log(&mut self, question: &Question, now: Instant) {
        match *question {
            Question::Prove(name, replica) => {
                self.logs.proofs.remove(&(name, replica));
                let of = &mut self.logs.of[replica];
                match of.shown {
                    // It keeps one, and shows nothing of it.
                    Some(_) => of.counts.unproven += 1,
                    None => of.none_until = Some(now + NONE_FOR),
                }
            }
            Question::Link(replica) => self.link_refused(replica, now),
            _ => {}
        }
    }

    /// A RIB showed a head, which was verified, and what that says of a name: nothing yet, if a
    /// change of the name waits for the next one.
    pub fn proof_shown(
        &mut self,
        (name, replica): (Name, usize),
        head: &Verified<Head>,
        path: Option<&MapPath>,
        now: Instant,
    ) {
        let of = &mut self.logs.of[replica];
        of.shown = Some((**head, now));
        let unlinked = of.unlinked.take().filter(|it| it.began_ms == head.began_ms);
        self.take_head(replica, head.clone(), Teller::Rib, now);
        if let Some(unlinked) = unlinked {
            self.take_head(replica, unlinked, Teller::Rib, now);
        }
        let key = (name, replica);
        let Some(proof) = self.logs.proofs.get_mut(&key) else { return };
        // It is asked again after a while: `prove_again`.
        let Some(path) = path else { return };
        let Some(held) = held_of(head, &name, path) else {
            self.logs.proofs.remove(&key);
            return self.note_fault(replica, Fault::Forged, now);
        };
        match &proof.shown {
            Some(shown) if held.contains(&fingerprint(shown)) => {
                self.logs.proofs.remove(&key);
                self.logs.of[replica].counts.proven += 1;
            }
            None => {
                self.logs.proofs.remove(&key);
                self.logs.of[replica].counts.proven += u64::from(held.is_empty());
            }
            Some(_) => {
                proof.disputed_at = Some(now);
                proof.asked_at = now;
                self.check(name, replica, now);
            }
        }
    }

    /// A RIB has shown this, asked then, or has shown nothing of the name.
    pub(super) fn settle_dispute(
        &mut self,
        (name, replica): (Name, usize),
        shown: Option<&Certificate>,
        asked_at: Instant,
        now: Instant,
    ) {
        let key = (name, replica);
        let disputed = self.logs.proofs.get(&key);
        let Some(at) = disputed.and_then(|proof| proof.disputed_at) else { return };
        if asked_at < at {
            return;
        }
        let Some(proof) = self.logs.proofs.remove(&key) else { return };
        if shown == proof.shown.as_deref() {
            self.note_fault(replica, Fault::Unlogged, now);
        }
    }

    /// Asks again for what was not shown yet, and gives up what never is.
    pub(super) fn prove_again(&mut self, now: Instant) {
        let is_due = |proof: &Proof| proof.asked_at + ASK_AGAIN_AFTER <= now;
        let due: Vec<(Name, usize)> =
            self.logs.proofs.iter().filter(|(_, it)| is_due(it)).map(|(key, _)| *key).collect();
        for key in due {
            let Some(proof) = self.logs.proofs.get_mut(&key) else { continue };
            if proof.tries >= MOST_TRIES {
                self.logs.proofs.remove(&key);
                self.logs.of[key.1].counts.unproven += 1;
                continue;
            }
            proof.tries += 1;
            proof.asked_at = now;
            match proof.disputed_at {
                Some(_) => self.check(key.0, key.1, now),
                None => self.ask_for_proof(key, now),
            }
        }
    }
}

// Heads.
impl Directory {
    /// The number of the RIB of this name, if there is a session with it: `peer` tells who that is.
    pub fn rib_called(
        &self,
        name: &Name,
        peer: impl Fn(rhumb_link::SessionId) -> Option<Name>,
    ) -> Option<usize> {
        let is_it = |rib: &super::Replica| rib.session().and_then(&peer) == Some(*name);
        self.replicas.iter().position(is_it)
    }

    /// Takes a head of the RIB of this number, whoever told of it. Of what routers tell, no more is
    /// linked than one in some seconds, of those that were admitted and of others each: who has
    /// many old heads keeps neither the RIB's own nor the former's from being linked.
    pub fn take_head(&mut self, replica: usize, head: Verified<Head>, by: Teller, now: Instant) {
        let rib = head.rib;
        let known = self.logs.heads.peek(&rib).copied();
        let Some(known) =
            known.filter(|known| known.began_ms == head.began_ms && known.epoch != head.epoch)
        else {
            let taken = self.logs.heads.take(head, &[]);
            return self.note_taken(replica, taken, now);
        };
        let of = &mut self.logs.of[replica];
        if of.link.as_ref().is_some_and(|link| link.sent_at + GIVE_UP_AFTER > now) {
            return;
        }
        let heard_at = match by {
            Teller::Rib => None,
            Teller::Admitted => Some(&mut of.heard_at[0]),
            Teller::Stranger => Some(&mut of.heard_at[1]),
        };
        if let Some(heard_at) = heard_at {
            if heard_at.is_some_and(|at| at + BETWEEN_LINKS > now) {
                return;
            }
            *heard_at = Some(now);
        }
        let (from, to) = (known.epoch.min(head.epoch), known.epoch.max(head.epoch));
        of.link = Some(Link { head, known: known.epoch, sent_at: now });
        let body = RibRequestBody::WayBack { began_ms: known.began_ms, from, to };
        self.send(replica, Question::Link(replica), body, now);
    }

    /// A RIB shows how one head leads to another.
    pub fn link_shown(&mut self, replica: usize, back: &[Hash], now: Instant) {
        let Some(link) = self.logs.of[replica].link.take() else { return };
        let known = self.logs.heads.peek(&link.head.rib).map(|known| known.epoch);
        if known != Some(link.known) {
            return;
        }
        self.logs.of[replica].refusals = 0;
        let taken = self.logs.heads.take(link.head, back);
        self.note_taken(replica, taken, now);
    }

    fn note_taken(&mut self, replica: usize, taken: Taken, now: Instant) {
        match taken {
            Taken::Same | Taken::Older => {}
            Taken::First | Taken::Newer => _ = self.logs.tell_at.get_or_insert(now + TELL_EVERY),
            // What it shows does not lead from one to the other, and it signed both.
            Taken::Unlinked { .. } | Taken::Forked => self.note_fork(replica, now),
        }
    }

    /// A RIB has signed two histories. Others hear of it at once, but of one RIB no more than once
    /// a minute: they find the same, and tell of it as well.
    fn note_fork(&mut self, replica: usize, now: Instant) {
        let forked_at = &mut self.logs.of[replica].forked_at;
        if forked_at.is_none_or(|at| at + TELL_EVERY <= now) {
            *forked_at = Some(now);
            self.logs.tell_at = Some(now);
            self.note_fault(replica, Fault::Forked, now);
        }
    }

    /// A RIB does not link two heads of its own: perhaps it was started anew since, or the one is
    /// too long ago.
    fn link_refused(&mut self, replica: usize, now: Instant) {
        let of = &mut self.logs.of[replica];
        let Some(link) = of.link.take() else { return };
        let Some(known) = self.logs.heads.peek(&link.head.rib) else { return };
        let is_of_shown = |(shown, _): &(Head, Instant)| shown.began_ms == link.head.began_ms;
        let shown = of.shown.filter(is_of_shown);
        let newest =
            shown.map_or(0, |(shown, _)| shown.epoch).max(link.head.epoch.max(known.epoch));
        if newest - link.head.epoch.min(known.epoch) >= KEPT_EPOCHS {
            // It is too long ago, and nobody leads there any more.
            of.refusals = 0;
            if link.head.epoch > known.epoch {
                self.logs.heads.begin_anew(link.head);
            }
            return;
        }
        // Whoever has shown just now that he keeps that log has all that led to its heads.
        let is_kept = shown.is_some_and(|(_, at)| at + SHOWN_LATELY > now);
        of.refusals += u32::from(is_kept);
        if of.refusals >= MOST_REFUSALS {
            of.refusals = 0;
            return self.note_fault(replica, Fault::Forked, now);
        }
        // Its own head tells which log it keeps.
        let rib = link.head.rib;
        of.unlinked = Some(link.head);
        self.ask_for_proof((rib, replica), now);
    }
}

/// Of one RIB, at once.
const MAX_PROOFS: usize = 32;
/// How many of them may be of denials.
const MAX_DENIALS: usize = 8;
/// A RIB shows us a hundred proofs in a second, most of which are to be of what it shows.
const MAX_DENIALS_PER_S: u32 = 10;
/// A RIB makes a head in a second, and one that is busy in two.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(2);
const MOST_TRIES: u32 = 4;
/// Longer than any RIB takes that is worth asking.
const GIVE_UP_AFTER: Duration = Duration::from_secs(3);
/// Of what routers tell: each costs the RIB one of a hundred proofs that we may have in a second.
const BETWEEN_LINKS: Duration = Duration::from_secs(2);
/// How long a RIB that keeps no log is not asked for it.
const NONE_FOR: Duration = Duration::from_secs(600);
/// Fewer than a RIB remembers: 18 hours of a head a second.
const KEPT_EPOCHS: u64 = 65_000;
const MOST_REFUSALS: u32 = 3;
/// So many heads more at most, which is less than what [`KEPT_EPOCHS`] leaves.
const SHOWN_LATELY: Duration = Duration::from_secs(60);
/// How often other routers are told: a RIB that tells two of them different things is found out
/// within two minutes of their neighbours' having both.
const TELL_EVERY: Duration = Duration::from_secs(60);
