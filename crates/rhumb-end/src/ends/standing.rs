//! Who is at the other end of a connection, by the rules of this one. Before he has proven himself
//! only a name is known, by routers' word; with the proof comes what he shows of a trust domain,
//! and it is here that it counts.
//!
//! 1. Who begins has a place among strangers, unless his name alone was chosen, or he has lately
//!    shown that he belongs to a domain that was: so strangers keep out no member who comes again.
//! 2. Once both names are proven he is judged: let in, as a stranger or as one who was chosen, or
//!    told that he is not.
//! 3. He is judged again whenever rules or removals are others. A connection that rests on a
//!    membership ends with that.

use std::sync::Arc;

use quinn_proto::{Dir, VarInt};
use rhumb_trust::{Access, Identity, Membership, Noted, Now, Removal, Standing, Verified, Who};
use rhumb_wire::{Name, Rights};

use super::{ConnectionId, DONE, Ends, Event, MAX_BETWEEN};
use crate::connection::{Connection, Origin, Phase};
use crate::credentials::Proof;
use crate::transport::Share;
use crate::{DropReason, EndError, NOT_ALLOWED};

/// What came of judging somebody.
#[derive(Debug, Clone, Copy)]
struct Judged {
    standing: Standing,
    /// He was chosen: by name, or by what he shows.
    is_chosen: bool,
    /// A membership of his counts for something here, until then.
    member_until_s: Option<u64>,
}

/// By what somebody is judged who has proven himself.
#[derive(Clone, Copy)]
pub(super) struct By<'a> {
    pub(super) access: &'a Access,
    /// What this end itself shows of a domain.
    pub(super) own: Option<&'a Membership>,
    pub(super) now_s: u64,
    /// Nobody is taken for a member yet.
    awaits_removals: bool,
}

impl Ends {
    /// Has these rules count: connections end of whom they refuse. Removals that were noted count
    /// on.
    pub fn set_access(&mut self, access: Access, now: Now) {
        self.access = Access { removals: self.access.removals.clone(), ..access };
        self.lately.clear();
        self.judge_all(now);
    }

    /// Shows what `identity`, which is of this end's name, shows of a trust domain, in connections
    /// that begin from now on.
    ///
    /// # Errors
    /// When the library refuses to make a certificate.
    pub fn show(&mut self, identity: Arc<Identity>) -> Result<(), EndError> {
        self.credentials.identity = identity;
        for shown in self.shown.values_mut() {
            shown.certificate = self.credentials.shown(shown.ad_cert.as_ref())?;
        }
        Ok(())
    }

    /// Takes nobody for a member of anything until [`Ends::told_removals`]: who was removed is yet
    /// to be told.
    pub fn await_removals(&mut self) {
        self.awaits_removals = true;
    }

    /// All has been told that there was to tell of removals so far.
    pub fn told_removals(&mut self) {
        self.awaits_removals = false;
    }

    /// These were removed from domains; connections end that rest on such memberships.
    pub fn note_removals(&mut self, removals: Vec<Verified<Removal>>, now: Now) {
        let noted = removals.into_iter().map(|removal| self.access.removals.note(removal));
        if noted.filter(|noted| *noted == Noted::New).count() > 0 {
            self.judge_all(now);
        }
    }

    fn judge_all(&mut self, now: Now) {
        for id in self.connections.keys().copied().collect::<Vec<_>>() {
            self.judge_again(id, now);
        }
    }

    fn judge_again(&mut self, id: ConnectionId, now: Now) {
        let Some(connection) = self.connections.get(&id) else { return };
        if !matches!(connection.phase, Phase::Open { .. }) {
            return;
        }
        let Some(judged) = self.judged(connection, now) else { return };
        let (local, peer, origin) = (connection.local, connection.peer, connection.origin);
        let rested = connection.member_until_s.is_some();
        let rests = judged.member_until_s.is_some();
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.standing = judged.standing;
        }
        // What this end itself began goes on; the other one can open nothing on it.
        let is_theirs = origin != Origin::Ours;
        if is_theirs && (judged.standing == Standing::Refused || (rested && !rests)) {
            self.turn_away(id, DropReason::SenderRefused, now);
            self.events.push_back(Event::Refused { peer, local, port: None });
        }
    }

    /// Ends a connection whose peer is not let in, and says so to him.
    pub(super) fn turn_away(&mut self, id: ConnectionId, reason: DropReason, now: Now) {
        self.drops.count(reason);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let peer = connection.peer;
        let code = VarInt::from_u64(NOT_ALLOWED).unwrap_or(VarInt::MAX);
        connection.quic.close(now.instant, code, bytes::Bytes::new());
        self.end(id, EndError::NotAllowed(peer));
        self.settle(id, now);
    }

    /// The handshake is over: the verifier has seen who it is.
    pub(super) fn opened(&mut self, id: ConnectionId, now: Now) {
        let Some(connection) = self.connections.get(&id) else { return };
        if !matches!(connection.phase, Phase::Beginning { .. }) {
            return;
        }
        let Some(judged) = self.judged(connection, now) else {
            let error = EndError::ProofRefused(connection.peer);
            return self.give_up(id, error, now);
        };
        let (local, peer, origin) = (connection.local, connection.peer, connection.origin);
        if let Origin::Theirs { is_stranger } = origin
            && let Err(reason) = self.let_in(id, is_stranger, judged)
        {
            self.turn_away(id, reason, now);
            if reason != DropReason::TooManyConnections {
                self.events.push_back(Event::Refused { peer, local, port: None });
            }
            return;
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.standing = judged.standing;
            connection.member_until_s = judged.member_until_s;
            connection.opened(now);
            connection.begin_records(now.instant);
        }
        if origin != Origin::Ours && judged.member_until_s.is_some() {
            self.lately.note(peer, now.instant);
        }
        let between = self.by_names.entry((local, peer)).or_default();
        between.retain(|it| *it != id);
        between.push(id);
        // A peer that began anew again and again keeps the newest.
        let surplus = between.len().saturating_sub(MAX_BETWEEN);
        let old_ones: Vec<_> = between[..surplus].to_vec();
        for old in old_ones {
            self.close(old, DONE, now);
        }
        let is_ours = origin == Origin::Ours;
        self.events.push_back(Event::Connected { id, local, peer, is_ours });
        // What came along with the last packet of the handshake.
        for dir in [Dir::Bi, Dir::Uni] {
            self.take_streams(id, dir, now);
        }
    }

    /// Gives somebody a place who has proven himself, of the kind that is his.
    fn let_in(
        &mut self,
        id: ConnectionId,
        seemed_stranger: bool,
        judged: Judged,
    ) -> Result<(), DropReason> {
        if judged.standing == Standing::Refused {
            return Err(DropReason::SenderRefused);
        }
        if !judged.is_chosen && !self.offers.are_open() {
            return Err(DropReason::NotOffered);
        }
        let is_stranger = !judged.is_chosen;
        if !self.gate.has_room(is_stranger) {
            return Err(DropReason::TooManyConnections);
        }
        self.gate.opened(seemed_stranger, is_stranger);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.origin = Origin::Theirs { is_stranger };
            if seemed_stranger != is_stranger {
                Share::of(is_stranger).give(&mut connection.quic);
            }
        }
        Ok(())
    }

    /// What becomes of whoever is at the other end; `None` before he has proven himself.
    fn judged(&self, connection: &Connection, now: Now) -> Option<Judged> {
        let proof = connection.verifier.proof()?;
        let by = self.by(now);
        let is_member = |domain: &Name| proof.is_member(&connection.local, domain, by);
        let standing = proof.standing(&connection.local, by);
        let named = self.offers.choose(&connection.peer, is_member);
        let counts = || self.offers.domains().copied().chain(self.access.domains());
        let until_s = proof.membership().map(Membership::not_after_s);
        Some(Judged {
            standing,
            is_chosen: standing == Standing::Admitted || named,
            member_until_s: until_s.filter(|_| counts().any(|domain| is_member(&domain))),
        })
    }

    /// By what is judged now.
    pub(super) fn by(&self, now: Now) -> By<'_> {
        let own = self.credentials.identity.membership();
        let (access, awaits_removals) = (&self.access, self.awaits_removals);
        By { access, own, now_s: now.unix_s(), awaits_removals }
    }

    /// Whether what somebody shows of a domain may count for him.
    pub(super) fn looks_at_memberships(&self) -> bool {
        self.access.domains().next().is_some() || self.offers.domains().next().is_some()
    }
}

impl Proof {
    /// Whether it shows that its holder may join in a domain, or serve there for whom he speaks.
    pub(super) fn is_member(&self, local: &Name, domain: &Name, by: By<'_>) -> bool {
        let rights = match self.served() {
            None => Rights::JOIN,
            Some(_) => Rights::JOIN.and(Rights::SERVE),
        };
        by.access.has_rights(&self.holder(local, by), domain, rights)
    }

    /// Whose key it has: a membership that does not let him send to `local` is as none.
    fn holder(&self, local: &Name, by: By<'_>) -> Who<'_> {
        let who = self.claim().who(by.now_s);
        let counts = |it: &&Membership| !by.awaits_removals && it.lets_send_to(local, by.own);
        Who { membership: who.membership.filter(counts), ..who }
    }

    fn standing(&self, local: &Name, by: By<'_>) -> Standing {
        let holder = self.holder(local, by);
        let Some(ad_cert) = self.served() else { return by.access.standing(&holder) };
        let (name, metadata) = (&ad_cert.owner(), &**ad_cert.metadata());
        let served = Who { name, metadata, membership: None, now_s: by.now_s };
        by.access.standing_of_served(&served, &holder)
    }
}
