//! Whether there is room for an order, and on whose share it counts.
//!
//! What is new needs room on its publisher's account, in the store, and, of a stranger, in the pool
//! and in its source's part of that. A name that is there may always be renewed: where there is no
//! room for it on the share of who renews it, it stays on the share that it is on. So nobody who is
//! there is lost, whatever else is full. A longer list of published names needs room as what is new
//! does. What is there as it is takes nothing, whoever repeats it, and stays on its share.

use std::collections::HashMap;

use rhumb_trust::Standing;
use rhumb_wire::rib::Refusal;
use rhumb_wire::{Metadata, Name};

use super::commit::{Draft, Publisher};
use super::publish::NotTaken;
use crate::rib::{Asker, Fill, Rib};
use crate::store::Store;
use crate::{Account, Footprint, Held, Moves, RibError, Share};

impl<S: Store> Rib<S> {
    /// On whose share an order of `asker` counts, as the rules say of it and of the issuers.
    pub(crate) fn judge(
        &mut self,
        asker: &Asker,
        sent: &HashMap<Name, Metadata>,
        names: impl Iterator<Item = Name>,
        now_s: u64,
    ) -> Result<Share, NotTaken> {
        let mut issuers = Vec::new();
        for name in names {
            let draft = self.draft_of(name, asker.name, sent)?;
            issuers.push((name, draft.entry.metadata));
        }
        let judged = issuers.iter().map(|(name, metadata)| (*name, metadata));
        match self.admission.order(asker, judged) {
            Ok(Standing::Admitted) => Ok(Share::Admitted),
            Ok(_) => Ok(Share::Stranger(asker.source)),
            Err(issuer) => {
                let refusal = Refusal::NotAuthorised;
                self.admission.note_refused(asker.source, issuer, refusal, now_s);
                Err(refusal.into())
            }
        }
    }

    /// Gives each entry of an order its share, within what the publisher's domain leaves it.
    pub(crate) fn place(&mut self, by: &Publisher, drafts: &mut [Draft]) -> Result<(), Refusal> {
        let Publisher { name: publisher, share, limits } = *by;
        let mut moves = Moves::default();
        for draft in drafts.iter_mut().filter(|draft| !draft.is_repeated) {
            self.check_limits(by, draft, &moves)?;
            draft.entry.share = share;
            draft.entry.givers = limits.givers(&publisher);
            let wanted = Footprint::of(&draft.entry);
            let stays = draft.before.as_ref().is_some_and(|before| before.share == share);
            if (draft.grows || !stays) && !self.has_room(&wanted, &moves)? {
                let before = draft.before.as_ref().ok_or(Refusal::QuotaExceeded)?;
                draft.entry.share = before.share;
                let has_room = |rib: &mut Self, entry| rib.has_room(&Footprint::of(entry), &moves);
                if draft.grows && (stays || !has_room(self, &draft.entry)?) {
                    return Err(Refusal::QuotaExceeded);
                }
            }
            if draft.before.as_ref().is_none_or(|before| before.publisher != publisher) {
                let held = self.held(Account::Publisher(publisher), &moves)?;
                if held.names >= self.config.max_names_per_publisher {
                    return Err(Refusal::QuotaExceeded);
                }
            }
            moves.replace(draft.before.as_ref(), Some(&Footprint::of(&draft.entry)));
        }
        Ok(())
    }

    /// Whether the limits of a publisher leave it an entry. What is withdrawn takes none, unless
    /// something of it stays in force, and its own name is never lost for others'; of what is there
    /// already nothing is renewed while there is too much.
    fn check_limits(
        &mut self,
        by: &Publisher,
        draft: &Draft,
        moves: &Moves,
    ) -> Result<(), Refusal> {
        if draft.before.is_some() && draft.entry.says_nothing() {
            return Ok(());
        }
        for (account, names) in by.limits.iter() {
            let counts = |it: &Footprint| it.publisher == account || it.givers.contain(&account);
            let counts = draft.before.as_ref().is_some_and(counts);
            let own = self.held(Account::Publisher(account), moves)?.names;
            let held = own + self.held(Account::Below(account), moves)?.names;
            let room = u64::from(names) + u64::from(counts);
            if held >= room && !(counts && draft.name == by.name) {
                return Err(Refusal::QuotaExceeded);
            }
        }
        Ok(())
    }

    /// Whether something new has room.
    fn has_room(&mut self, wanted: &Footprint, moves: &Moves) -> Result<bool, Refusal> {
        let fits = |left: Held| left.names > 0 && left.bytes >= wanted.bytes;
        let strangers = self.held(Account::Strangers, moves)?;
        let admitted = self.held(Account::Admitted, moves)?;
        let all = Held {
            names: strangers.names + admitted.names,
            bytes: strangers.bytes + admitted.bytes,
        };
        if !fits(all.left_of(self.config.bound())) {
            return Ok(false);
        }
        let Share::Stranger(source) = wanted.share else { return Ok(true) };
        let mut left = strangers.left_of(self.config.strangers_bound());
        if wanted.is_kept_long {
            let capsules = self.held(Account::StrangersCapsules, moves)?;
            left = left.least(capsules.left_of(self.config.strangers_capsules_bound()));
        }
        let own = self.held(Account::Source(source), moves)?;
        Ok(fits(left) && own.may_grow(left))
    }

    /// What is counted on an account after all that is under way.
    fn held(&mut self, account: Account, moves: &Moves) -> Result<Held, Refusal> {
        let stored = self.store.held(&account).map_err(|error| self.store_failed(error))?;
        let committing = self.under_way.as_ref().and_then(|commit| commit.orders());
        let committing = committing.map(|staged| staged.moves().of(&account));
        let held = stored.moved_by(committing.unwrap_or_default());
        Ok(held.moved_by(self.staged.moves().of(&account)).moved_by(moves.of(&account)))
    }

    /// How full the store is.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn fill(&mut self) -> Result<Fill, RibError> {
        Ok(Fill {
            admitted: self.store.held(&Account::Admitted)?,
            strangers: self.store.held(&Account::Strangers)?,
            bound: self.config.bound(),
            strangers_bound: self.config.strangers_bound(),
        })
    }
}
