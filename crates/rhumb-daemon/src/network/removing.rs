//! Who is taken out of a network: struck off the ledger first, so that nobody gives another
//! membership, and then the RIB is told, from which every router hears of it.
//!
//! INVARIANT: the ledger keeps whom it struck off until the RIB has stored the removal, however
//! long that is away, and whoever ends meanwhile.

use rhumb_trust::{MAX_MEMBERSHIP_LIFETIME_S, Removal, Window};
use rhumb_wire::PublishedLabel;

use super::created::{Created, Part};
use super::joined::Joined;
use super::labels;
use super::ledger::{Ledger, Member};
use crate::clock;
use crate::failure::{Failure, Outcome};
use crate::inquiry::tell_removal;
use crate::remote::Remote;

/// Takes whoever is called so out of the network, and out of this user's book of names: who it was,
/// and why the RIB does not know it yet, if so.
///
/// # Errors
/// When nobody is called so, it is this host, or it cannot be written.
pub fn remove(created: &Created, label: &PublishedLabel) -> Outcome<(Member, Option<Failure>)> {
    if Joined::find(&created.folder)?.is_some_and(|own| own.label == *label) {
        return Err(Failure::setup_text(format!(
            "{label} is this host itself, which keeps the network; to have it carry only: rhumb network run --no-node"
        )));
    }
    let member = Ledger::change(&created.folder, |ledger| ledger.remove(label))?;
    let untold = tell_removals(created).err();
    labels::forget(created.folder.label(), &member.label, member.name)?;
    Ok((member, untold))
}

/// Tells the RIB of those that it has not been told of.
pub(super) fn tell_removals(created: &Created) -> Outcome {
    let ledger = Ledger::read(&created.folder)?;
    if ledger.removed().is_empty() {
        return Ok(());
    }
    let giver = created.giver()?;
    let address = std::net::SocketAddr::new(created.near(), created.port(Part::Rib));
    let rib = Remote { name: Some(created.rib), address };
    for name in ledger.removed().iter().copied() {
        let now = clock::now();
        let window = Window::starting(now.unix_s(), MAX_MEMBERSHIP_LIFETIME_S);
        let removal = Removal::sign(&giver, giver.membership(), name, now.unix_ms, window);
        let removal = removal.map_err(Failure::operation)?;
        for told in tell_removal(&giver, &removal, &[rib]) {
            if let Some(why_not) = told.why_not {
                return Err(Failure::operation_text(why_not));
            }
        }
        Ledger::change(&created.folder, |ledger| {
            ledger.has_told(name);
            Ok(())
        })?;
    }
    Ok(())
}
