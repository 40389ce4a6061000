//! Telling RIBs that a domain takes back what made a name its member. Each keeps that, and tells
//! routers.

use std::sync::Arc;
use std::time::Duration;

use rhumb_trust::{Identity, Removal};
use rhumb_wire::rib::{RibRequestBody, RibResponseBody};

use super::directory::Directory;
use super::session::Session;
use crate::failure::{Failure, Outcome};
use crate::remote::Remote;

/// What became of a removal at one RIB.
pub struct Told {
    /// Which.
    pub rib: Remote,
    /// None where it is stored.
    pub why_not: Option<String>,
}

/// Tells all of them side by side, so that one that is away holds up nobody.
pub fn tell_removal(identity: &Arc<Identity>, removal: &Removal, ribs: &[Remote]) -> Vec<Told> {
    std::thread::scope(|scope| {
        let telling: Vec<_> = ribs
            .iter()
            .map(|rib| scope.spawn(move || tell(identity.clone(), removal, *rib)))
            .collect();
        let told = telling.into_iter().zip(ribs).map(|(telling, rib)| {
            let why_not = match telling.join() {
                Ok(outcome) => outcome.err().map(|failure| failure.to_string()),
                Err(_) => Some("telling it failed".to_owned()),
            };
            Told { rib: *rib, why_not }
        });
        told.collect()
    })
}

fn tell(identity: Arc<Identity>, removal: &Removal, rib: Remote) -> Outcome {
    let own = identity.name();
    let mut session = Session::connect(identity, rib, PATIENCE)?;
    let (metadata, certificates) = removal.lists();
    let order = RibRequestBody::Publish { metadata, certificates };
    let answer = Directory::new(&mut session, own).request(order);
    session.close();
    match answer? {
        // Where a later one of that name is known, that counts.
        RibResponseBody::Stored | RibResponseBody::Superseded(_) => Ok(()),
        RibResponseBody::Refused(refusal) => Err(Failure::operation_text(format!(
            "it refuses: {refusal}; it has to be of this domain (rhumb rib --domain NAME), or have rules about it (--admit-domain)"
        ))),
        _ => Err(Failure::operation_text("it gave an answer that does not fit")),
    }
}

/// A RIB answers within milliseconds; this is for handshakes of which datagrams are lost.
const PATIENCE: Duration = Duration::from_secs(5);
