//! Heads of RIBs' logs: what a RIB shows to prove an answer, and what routers tell each other so
//! that no RIB can show one of them this and another one that.
//!
//! 1. A proof that a RIB shows has a head; one that is not known is verified off the worker.
//! 2. Once a minute, and whenever a RIB is found out, the newest heads go to other routers that
//!    there are sessions with, [`MOST_TOLD`] at most and others the next time.
//! 3. A head that another router tells of counts if it is of a RIB of ours: it is verified like
//!    work that any peer brings, in turns, and its RIB has to show how it goes with the one that we
//!    know.
//!
//! INVARIANT: what others tell changes nothing but what the RIB itself has signed. Heads of other
//! RIBs are left, unread. Of a domain's RIB, which a head tells how many names it has, nobody
//! outside is told.

use rhumb_directory::{Question, Teller};
use rhumb_link::SessionId;
use rhumb_trust::{Now, Standing, StatementError, Verified};
use rhumb_wire::log::Head;
use rhumb_wire::rib::RibResponseBody;
use rhumb_wire::{Action, Name, Pdu, PduHeader, Role};

use crate::job::{Task, Told, ToldHead};
use crate::{DropReason, Switch};

impl Switch {
    /// A RIB answers a question about its log.
    pub(crate) fn handle_log_answer(
        &mut self,
        from: SessionId,
        (question, replica): (Question, usize),
        body: RibResponseBody,
        now: Now,
    ) {
        match (question, body) {
            (Question::Prove(name, _), RibResponseBody::Proof { head, path }) => {
                let Some(rib) = self.plane.peer(from).map(|peer| peer.name) else { return };
                if head.rib != rib {
                    self.plane.drop_pdu(DropReason::UnexpectedRibAnswer);
                    return self.directory.note_forged(replica, now.instant);
                }
                if let Some(known) = self.directory.known_head(&head) {
                    let about = (name, replica);
                    return self.directory.proof_shown(about, &known, path.as_ref(), now.instant);
                }
                let told = Told::Proof { name, path: path.map(Box::new) };
                self.submit_head(None, ToldHead { replica, head: Box::new(head), told }, from, now);
            }
            (Question::Link(_), RibResponseBody::WayBack(back)) => {
                self.directory.link_shown(replica, &back, now.instant);
            }
            (_, RibResponseBody::Refused(_)) => self.directory.no_log(&question, now.instant),
            _ => {
                self.plane.drop_pdu(DropReason::UnexpectedRibAnswer);
                self.directory.note_forged(replica, now.instant);
            }
        }
    }

    /// Another router tells of heads.
    pub(crate) fn handle_heads(&mut self, from: SessionId, pdu: &Pdu<'_>, now: Now) {
        let Some(peer) = self.plane.peer(from) else { return };
        let is_its_word = pdu.destination() == self.name()
            && pdu.source() == peer.name
            && peer.metadata.role == Role::Router;
        if !is_its_word {
            return self.plane.drop_pdu(DropReason::NotForUs);
        }
        if !self.is_listened_to(from, now) {
            return self.plane.drop_pdu(DropReason::Overloaded);
        }
        let Ok(heads) = Head::parse_list(pdu.data()) else {
            return self.plane.drop_pdu(DropReason::MalformedPdu);
        };
        for head in heads {
            let peer_name = |session| self.plane.peer(session).map(|peer| peer.name);
            let Some(replica) = self.directory.rib_called(&head.rib, peer_name) else { continue };
            if self.directory.known_head(&head).is_some() {
                continue;
            }
            let Some(rib) = self.directory.session_of(replica) else { continue };
            let told = ToldHead { replica, head: Box::new(head), told: Told::Router(from) };
            self.submit_head(Some(from), told, rib, now);
        }
    }

    fn submit_head(&mut self, payer: Option<SessionId>, told: ToldHead, rib: SessionId, now: Now) {
        let Some(rib) = self.plane.peer(rib).map(|peer| peer.metadata.clone()) else { return };
        // What has no room is shown or told again.
        self.queue_job(payer, Task::Head { told, rib }, now);
    }

    /// Verdict on a head.
    pub(crate) fn head_verified(
        &mut self,
        (replica, told): (usize, Told),
        result: Result<Verified<Head>, StatementError>,
        now: Now,
    ) {
        match (result, told) {
            (Ok(head), Told::Proof { name, path }) => {
                let about = (name, replica);
                self.directory.proof_shown(about, &head, path.as_deref(), now.instant);
            }
            (Ok(head), Told::Router(session)) => {
                let standing = self.neighbour(session, now).standing;
                let by = match standing {
                    Standing::Admitted => Teller::Admitted,
                    _ => Teller::Stranger,
                };
                self.directory.take_head(replica, head, by, now.instant);
            }
            // Its clock may be ahead of ours.
            (Err(StatementError::NotYetValid { .. }), _) => {}
            (Err(_), Told::Proof { .. }) => self.directory.note_forged(replica, now.instant),
            (Err(_), Told::Router(session)) => self.note_forged(session, now),
        }
        self.flush_requests(now);
    }

    /// Tells other routers of heads, when it is time.
    pub(crate) fn tell_heads(&mut self, now: Now) {
        let Some((heads, turn)) = self.directory.poll_heads(now.instant) else { return };
        let sessions = self.plane.link().sessions();
        let routers: Vec<(SessionId, Name)> = sessions
            .filter(|(_, peer)| peer.metadata.role == Role::Router)
            .filter(|(session, _)| !self.is_outside(*session, now))
            .map(|(session, peer)| (session, peer.name))
            .collect();
        let mut data = Vec::new();
        Head::emit_list(&heads, &mut data);
        let first = if routers.len() > MOST_TOLD { turn * MOST_TOLD % routers.len() } else { 0 };
        for (session, name) in routers.iter().cycle().skip(first).take(MOST_TOLD.min(routers.len()))
        {
            let header = PduHeader::new(Action::Heads, self.name(), *name);
            self.send(*session, header, &data, &[], now);
        }
    }
}

/// Routers told at once: 0.1 ms of sealing.
const MOST_TOLD: usize = 64;
