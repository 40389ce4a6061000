//! The thread that asks RIBs whose an address is. What they answer is a name with that address, or
//! not believed; they can withhold.
//!
//! It asks under a key of the moment: a RIB has one session with a name, and that of this node is
//! for hearing there who was removed from domains. Only where strangers are refused, and nothing is
//! to be heard, it asks in the node's own name.

use std::net::Ipv6Addr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use crate::failure::{Failure, Outcome};
use crate::inquiry::{Directory, Found, Session};
use crate::key;
use crate::remote::Remote;
use rhumb_trust::Identity;
use rhumb_wire::Name;
use rhumb_wire::rib::Refusal;

/// Who answers what [`Seeker::seek`] asks.
pub(super) struct Seeker {
    questions: SyncSender<Ipv6Addr>,
}

/// As whom RIBs are asked.
struct Asks {
    stranger: Arc<Identity>,
    /// Where strangers are refused.
    own: Option<Arc<Identity>>,
}

/// A RIB that is asked.
struct Rib {
    remote: Remote,
    session: Option<Session>,
    refuses_strangers: bool,
}

impl Seeker {
    /// Asks `ribs`, one after the other, those that refuse strangers as `own`, and tells `found`
    /// what each question came to.
    pub(super) fn start(
        own: Option<Arc<Identity>>,
        ribs: Vec<Remote>,
        found: impl Fn(Ipv6Addr, Option<Name>) + Send + 'static,
    ) -> Outcome<Self> {
        let (questions, waiting) = sync_channel(MOST_WAITING);
        let asks = Asks { stranger: key::load_or_ephemeral(None)?, own };
        let thread = std::thread::Builder::new().name("seeker".to_owned());
        let run = move || answer(&asks, ribs, &waiting, found);
        thread.spawn(run).map_err(Failure::operation)?;
        Ok(Self { questions })
    }

    /// Asks whose an address is; false when too much is asked already.
    pub(super) fn seek(&self, address: Ipv6Addr) -> bool {
        self.questions.try_send(address).is_ok()
    }
}

fn answer(
    asks: &Asks,
    ribs: Vec<Remote>,
    waiting: &Receiver<Ipv6Addr>,
    found: impl Fn(Ipv6Addr, Option<Name>),
) {
    let rib = |remote| Rib { remote, session: None, refuses_strangers: false };
    let mut ribs: Vec<Rib> = ribs.into_iter().map(rib).collect();
    while let Ok(address) = waiting.recv() {
        let mut ask = |rib: &mut Rib| {
            rib.whose(asks, address).unwrap_or_else(|failure| {
                tracing::warn!(rib = %rib.remote.address, %failure, "an address is not looked up");
                // A RIB that began anew knows nothing of the session.
                rib.session = None;
                None
            })
        };
        found(address, ribs.iter_mut().find_map(&mut ask));
    }
}

impl Rib {
    /// Whose an address is; nobody's, if it says so.
    fn whose(&mut self, asks: &Asks, address: Ipv6Addr) -> Outcome<Option<Name>> {
        match (self.look_up(asks, address)?, &asks.own) {
            (Found::Name(name), _) => Ok(Some(name)),
            (Found::Nobody, _) => Ok(None),
            (Found::Refused(Refusal::NotAuthorised), Some(_)) if !self.refuses_strangers => {
                (self.refuses_strangers, self.session) = (true, None);
                self.whose(asks, address)
            }
            (Found::Refused(refusal), _) => {
                Err(Failure::setup_text(format!("the RIB refuses to answer: {refusal}")))
            }
        }
    }

    fn look_up(&mut self, asks: &Asks, address: Ipv6Addr) -> Outcome<Found> {
        let own = asks.own.as_ref().filter(|_| self.refuses_strangers);
        let identity = own.unwrap_or(&asks.stranger);
        let session = match &mut self.session {
            Some(session) => session,
            none => none.insert(Session::connect(Arc::clone(identity), self.remote, PATIENCE)?),
        };
        Directory::new(session, identity.name()).look_up_address(address)
    }
}

/// Addresses that wait to be looked up: a scan of this host's is not the RIB's to bear.
const MOST_WAITING: usize = 64;
/// A RIB answers within milliseconds; this is for lost datagrams.
const PATIENCE: Duration = Duration::from_secs(3);
