//! A server whose owner has named a newer one since, and which
//! takes its place when the newer one is not there.
//!
//! 1. The older server advertises again, now and then. The router knows that its word is not the
//!    newest, and whether the newer server is there it does not: so it asks the RIB to store the
//!    older word, and attaches nobody yet.
//! 2. The RIB refuses while a route leads to the newer server: then the older one is told so, as
//!    ever. Otherwise it stores the older word, and the name is attached.
//! 3. A router whose session with a server ends tells the RIBs, which need not
//!    wait for the end of the server's lease then.
//!
//! When the newer server is back its word is published
//! again, and the older one hears as from any move.

use rhumb_link::SessionId;
use rhumb_trust::{Chain, Now, Verified};
use rhumb_wire::{Action, Certificate, Name, Pdu, PduHeader, Statement};

use crate::Switch;
use crate::job::HeldPdu;
use crate::newest::names_other_server;

impl Switch {
    /// Whether an advertisement that is superseded is an older server's,
    /// and nobody is known here to serve the name.
    pub(crate) fn may_stand_in(
        &mut self,
        header: PduHeader,
        chain: &Chain,
        newer: &Certificate,
    ) -> bool {
        let name = chain.origin();
        header.action == Action::Advertise
            && header.destination == self.name()
            && names_other_server(newer, &chain.certificates()[0])
            && self.routes.attached_as(&name).next().is_none()
            && self.directory.is_ready()
            && self.directory.can_publish(&name)
    }

    /// Asks the RIBs whether an older server may take the place of the newer one.
    pub(crate) fn ask_to_stand_in(
        &mut self,
        request: HeldPdu,
        chain: Verified<Chain>,
        tag: u32,
        now: Now,
    ) {
        let name = chain.origin();
        if let Ok(pdu) = Pdu::parse(&request.pdu)
            && let Ok(metadata) = rhumb_wire::Metadata::parse_list(pdu.data())
        {
            self.learn_metadata(metadata);
        }
        let Some(metadata) = self.metadata_of(&name) else { return };
        let certificate = chain.certificates()[0].clone();
        self.publishing.stand_by(request, chain, tag);
        self.publish(metadata, vec![certificate], now);
        self.flush_requests(now);
    }

    /// The RIB has stored an older server's word: it counts again.
    pub(crate) fn stand_in(&mut self, name: Name, now: Now) {
        let Some((request, chain)) = self.publishing.take_standing_by(&name) else { return };
        self.routes.tables().step_back(chain.first());
        self.routes.catch_up();
        self.admitted(request, chain, now);
    }

    /// The session of a server has ended: RIBs need not wait for the end
    /// of its lease to know that it is not there.
    pub(crate) fn tell_gone(&mut self, session: SessionId, attached: &[Name]) {
        let own = self.name();
        let (mut gone, mut served) = (Vec::new(), Vec::new());
        let mut serves = false;
        for name in attached {
            let Some(attached) = self.routes.attached_on(name, session) else { continue };
            serves |= attached.server().is_some();
            if attached.is_one_of_several() {
                served.push((*name, attached.sequence()));
            }
            if let Some(Certificate { statement: Statement::Route { via, .. }, sequence, .. }) =
                attached.certificates.first()
                && *via == own
            {
                gone.push((*name, *sequence));
            }
        }
        // That a server is gone comes before what it served: who asked for that is told then.
        for (name, sequence) in gone.into_iter().filter(|_| serves).chain(served) {
            self.directory.tell_gone(name, sequence);
        }
    }
}
