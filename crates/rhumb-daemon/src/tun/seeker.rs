//! The thread that asks RIBs whose an address is. What they answer is a name with that address, or
//! not believed; they can withhold.

use std::net::Ipv6Addr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use crate::failure::{Failure, Outcome};
use crate::inquiry::{Directory, Session};
use crate::remote::Remote;
use rhumb_trust::Identity;
use rhumb_wire::Name;

/// Who answers what [`Seeker::seek`] asks.
pub(super) struct Seeker {
    questions: SyncSender<Ipv6Addr>,
}

impl Seeker {
    /// Asks `ribs`, one after the other, as `identity`, and tells `found` what each question came
    /// to.
    pub(super) fn start(
        identity: Arc<Identity>,
        ribs: Vec<Remote>,
        found: impl Fn(Ipv6Addr, Option<Name>) + Send + 'static,
    ) -> Outcome<Self> {
        let (questions, waiting) = sync_channel(MOST_WAITING);
        let thread = std::thread::Builder::new().name("seeker".to_owned());
        let run = move || answer(&identity, &ribs, &waiting, found);
        thread.spawn(run).map_err(Failure::operation)?;
        Ok(Self { questions })
    }

    /// Asks whose an address is; false when too much is asked already.
    pub(super) fn seek(&self, address: Ipv6Addr) -> bool {
        self.questions.try_send(address).is_ok()
    }
}

fn answer(
    identity: &Arc<Identity>,
    ribs: &[Remote],
    waiting: &Receiver<Ipv6Addr>,
    found: impl Fn(Ipv6Addr, Option<Name>),
) {
    let mut sessions: Vec<Option<Session>> = ribs.iter().map(|_| None).collect();
    while let Ok(address) = waiting.recv() {
        let mut ask = |(rib, session): (&Remote, &mut Option<Session>)| {
            look_up(identity, rib, session, address).unwrap_or_else(|failure| {
                tracing::warn!(rib = %rib.address, %failure, "an address is not looked up");
                // A RIB that began anew knows nothing of the session.
                *session = None;
                None
            })
        };
        found(address, ribs.iter().zip(&mut sessions).find_map(&mut ask));
    }
}

fn look_up(
    identity: &Arc<Identity>,
    rib: &Remote,
    session: &mut Option<Session>,
    address: Ipv6Addr,
) -> Outcome<Option<Name>> {
    let session = match session {
        Some(session) => session,
        None => session.insert(Session::connect(Arc::clone(identity), *rib, PATIENCE)?),
    };
    Directory::new(session, identity.name()).look_up_address(address)
}

/// Addresses that wait to be looked up: a scan of this host's is not the RIB's to bear.
const MOST_WAITING: usize = 64;
/// A RIB answers within milliseconds; this is for lost datagrams.
const PATIENCE: Duration = Duration::from_secs(3);
