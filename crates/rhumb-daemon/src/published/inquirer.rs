//! Asks RIBs for an owner's list, and believes the newest that its owner has signed.
//!
//! It asks under a key of the moment, so that no RIB hears who looks for whom; and since a RIB has
//! one session with a name, that of a node which hears there who was removed stays as it is. A RIB
//! that refuses strangers is asked in the node's own name, if that may be.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_trust::{Identity, Verified, verify_names};
use rhumb_wire::rib::Refusal;
use rhumb_wire::{Metadata, Name, PublishedNames};

use super::{Answer, NotFound};
use crate::clock;
use crate::failure::Outcome;
use crate::inquiry::{Directory, SaidOfNames, Session};
use crate::key;
use crate::remote::Remote;

/// Who asks, and whom.
pub struct Inquirer {
    asks: Asks,
    ribs: Vec<Rib>,
}

/// As whom.
struct Asks {
    stranger: Arc<Identity>,
    /// Where strangers are refused.
    own: Option<Arc<Identity>>,
}

struct Rib {
    remote: Remote,
    /// And when it was last used.
    session: Option<(Session, Instant)>,
    /// It did not answer: others are asked without it until then.
    rests_until: Option<Instant>,
    refuses_strangers: bool,
}

impl Inquirer {
    /// Asks these; those that refuse strangers as `own`.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn new(own: Option<Arc<Identity>>, ribs: &[Remote]) -> Outcome<Self> {
        let asks = Asks { stranger: key::load_or_ephemeral(None)?, own };
        let mut inquirer = Self { asks, ribs: Vec::new() };
        for remote in ribs.iter().copied() {
            if inquirer.ribs.iter().any(|rib| rib.remote == remote) {
                continue;
            }
            let (session, rests_until, refuses_strangers) = (None, None, false);
            inquirer.ribs.push(Rib { remote, session, rests_until, refuses_strangers });
        }
        Ok(inquirer)
    }

    /// The newest list of this owner's that any RIB shows and that the owner has signed, be it in
    /// force or not: a newer one that has ended counts before an older one.
    ///
    /// # Errors
    /// What speaks most clearly of why there is none.
    pub fn ask(&mut self, owner: Name) -> Answer {
        let now = clock::now().instant;
        let rests = |rib: &Rib| rib.rests_until.is_some_and(|until| now < until);
        let all_rest = self.ribs.iter().all(rests);
        let asks = &self.asks;
        let asked = self.ribs.iter_mut().filter(|rib| all_rest || !rests(rib));
        let mut best: Answer = Err(NotFound::Silent("none was asked".to_owned()));
        for rib in asked {
            let answer = rib.ask(asks, owner);
            if let Err(problem) = &answer
                && !problem.is_certain()
            {
                tracing::debug!(rib = %rib.remote.address, %problem, "published names are not looked up");
            }
            best = better(best, answer);
        }
        best
    }
}

impl Rib {
    fn ask(&mut self, asks: &Asks, owner: Name) -> Answer {
        let is_own = self.refuses_strangers;
        let identity = asks.own.as_ref().filter(|_| is_own).unwrap_or(&asks.stranger);
        let mut said = match self.look_up(identity, owner) {
            // It may have begun anew, and know nothing of the session.
            Err((_, true)) => self.look_up(identity, owner),
            said => said,
        };
        if let (Ok(SaidOfNames::Refused(Refusal::NotAuthorised)), Some(own), false) =
            (&said, &asks.own, is_own)
        {
            (self.refuses_strangers, self.session) = (true, None);
            said = self.look_up(own, owner);
        }
        let said = said.map_err(|(failure, _)| {
            self.rests_until = Some(clock::now().instant + RESTS);
            NotFound::Silent(failure)
        })?;
        self.rests_until = None;
        match said {
            SaidOfNames::List(said) => {
                let (list, metadata) = *said;
                let believed = believed(list, &metadata, clock::now().unix_s());
                believed.map(Arc::new).ok_or(NotFound::Forged(owner))
            }
            SaidOfNames::Nothing => Err(NotFound::Nothing(owner)),
            SaidOfNames::UnknownOwner => Err(NotFound::UnknownOwner(owner)),
            SaidOfNames::Refused(refusal) => Err(NotFound::Refused(refusal)),
            SaidOfNames::Unfit => Err(NotFound::Forged(owner)),
        }
    }

    /// Asks over the session that there is, or a new one; or says why not, and whether it was over
    /// one that there was.
    fn look_up(
        &mut self,
        identity: &Arc<Identity>,
        owner: Name,
    ) -> Result<SaidOfNames, (String, bool)> {
        let now = clock::now().instant;
        // Nobody looks after it between questions: what rested for long may have ended.
        let session = self.session.take().filter(|(_, used)| now < *used + KEPT);
        let is_old = session.is_some();
        let said = (|| -> Outcome<(SaidOfNames, Session)> {
            let mut session = match session {
                Some((session, _)) => session,
                None => Session::connect(Arc::clone(identity), self.remote, PATIENCE)?,
            };
            let said = Directory::new(&mut session, identity.name()).look_up_names(owner)?;
            Ok((said, session))
        })();
        let (said, session) = said.map_err(|failure| (failure.to_string(), is_old))?;
        self.session = Some((session, clock::now().instant));
        Ok(said)
    }
}

/// The list, if its owner has signed it; whether it holds now is looked at when it is used.
fn believed(
    list: PublishedNames,
    owner: &Metadata,
    now_s: u64,
) -> Option<Verified<PublishedNames>> {
    let within_s = now_s.clamp(list.not_before_s, list.not_after_s);
    verify_names(list, owner, within_s).ok()
}

/// Of two answers the newer list, or else what says more.
fn better(one: Answer, other: Answer) -> Answer {
    let says = |problem: &NotFound| match problem {
        NotFound::Nothing(_) => 5,
        NotFound::UnknownOwner(_) => 4,
        NotFound::Forged(_) => 3,
        NotFound::Refused(_) => 2,
        NotFound::Silent(why) => u8::from(!why.is_empty()),
        _ => 0,
    };
    match (one, other) {
        (Ok(one), Ok(other)) if one.sequence >= other.sequence => Ok(one),
        (Ok(one), Err(_)) => Ok(one),
        (_, Ok(other)) => Ok(other),
        (Err(one), Err(other)) if says(&one) > says(&other) => Err(one),
        (_, Err(other)) => Err(other),
    }
}

/// A RIB answers within milliseconds; this is for lost datagrams.
const PATIENCE: Duration = Duration::from_secs(2);
/// So that one that is away holds up questions to others now and then, and not each.
const RESTS: Duration = Duration::from_secs(30);
/// Within what a RIB waits before it takes a silent peer for gone.
const KEPT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rhumb_trust::Window;
    use rhumb_wire::Role;

    use super::*;

    const NOW_S: u64 = 1000;

    fn signed(by: &Identity, sequence: u64, window: Window) -> PublishedNames {
        by.publish(BTreeMap::new(), sequence, window).unwrap()
    }

    fn answer(by: &Identity, sequence: u64, window: Window) -> Answer {
        Ok(Arc::new(believed(signed(by, sequence, window), by.metadata(), NOW_S).unwrap()))
    }

    #[test]
    fn the_newest_list_counts_also_when_it_has_ended() {
        let owner = Identity::generate(Role::Node, 0).unwrap();
        let (holds, ended) = (Window::starting(NOW_S, 600), Window::starting(1, 2));
        let (old, new) = (answer(&owner, 1, holds), answer(&owner, 2, ended));
        assert_eq!(better(old.clone(), new.clone()), new);
        assert_eq!(better(new.clone(), old.clone()), new);
        let unknown = Err(NotFound::UnknownOwner(owner.name()));
        assert_eq!(better(unknown.clone(), old.clone()), old);
        assert_eq!(better(old.clone(), unknown.clone()), old);
        let silent = Err(NotFound::Silent("x".to_owned()));
        assert_eq!(better(unknown.clone(), silent.clone()), unknown);
        assert_eq!(better(silent, unknown.clone()), unknown);
    }

    #[test]
    fn only_what_its_owner_has_signed_is_believed_whenever_it_holds() {
        let (owner, other) = (
            Identity::generate(Role::Node, 0).unwrap(),
            Identity::generate(Role::Node, 0).unwrap(),
        );
        for window in
            [Window::starting(NOW_S, 60), Window::starting(1, 2), Window::starting(9999, 1)]
        {
            let list = signed(&owner, 1, window);
            assert!(believed(list.clone(), owner.metadata(), NOW_S).is_some());
            assert!(believed(list.clone(), other.metadata(), NOW_S).is_none());
            let bent = PublishedNames { sequence: 2, ..list };
            assert!(believed(bent, owner.metadata(), NOW_S).is_none());
        }
    }
}
