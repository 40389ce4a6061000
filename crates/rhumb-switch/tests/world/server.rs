//! Stand-in
use rhumb_link::{Endpoint, LinkError};
use rhumb_rib::{Asker, Outcome, Rib, store::Store};
use rhumb_trust::{Identity, Now};
use rhumb_wire::{datagram::Datagram, *};
use std::sync::Arc;
use std::time::Instant;
pub struct Server<S> {
    endpoint: Endpoint,
    rib: Rib<S>,
    name: Name,
}
impl<S: Store> Server<S> {
    pub fn new(
        identity: Arc<Identity>,
        store: S,
        c: rhumb_rib::Config,
        l: rhumb_link::Config,
        secret: [u8; 32],
        now: Now,
    ) -> Result<Self, LinkError> {
        let name = identity.name();
        Ok(Self {
            endpoint: Endpoint::new(identity.clone(), l, secret, now.instant)?,
            rib: Rib::new(identity, store, c),
            name,
        })
    }
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.endpoint.poll_timeout()
    }
    pub fn handle_timeout(&mut self, now: Now) {
        self.endpoint.handle_timeout(now.instant)
    }
    pub fn handle_batch(&mut self, b: &mut Batch, now: Now) {
        let mut answers = Vec::new();
        let mut staged = Vec::new();
        for i in 0..b.len() {
            let (from, d) = b.datagram_mut(i);
            match Datagram::parse(d) {
                Ok(Datagram::Record(_)) => {
                    if let Ok(o) = self.endpoint.open(from, d, now.instant)
                        && !o.plaintext.is_empty()
                    {
                        let pdu = Pdu::parse(&d[o.plaintext]).unwrap();
                        let asker = Asker { name: pdu.source(), max_answer_len: 1300 };
                        match self.rib.handle_request(asker, pdu.data(), now.unix_s()) {
                            Outcome::Answer(a) => answers.push((o.session, pdu.header(), a)),
                            Outcome::Staged => staged.push((o.session, pdu.header())),
                            Outcome::Dropped(_) => {}
                        }
                    }
                }
                Ok(h) => {
                    let _ = self.endpoint.handle_handshake(from, h, now.instant);
                }
                Err(_) => {}
            }
            b.drop_datagram(i);
        }
        for (a, (s, h)) in self.rib.commit().into_iter().zip(staged) {
            answers.push((s, h, a));
        }
        for (s, h, a) in answers {
            let mut data = Vec::new();
            a.emit(&mut data);
            let mut pdu = vec![0; 12];
            PduHeader { tag: h.tag, ..PduHeader::new(Action::RibResponse, self.name, h.source) }
                .emit(&data, &[], &mut pdu)
                .unwrap();
            pdu.extend([0; 16]);
            if let Ok(to) = self.endpoint.seal(s, &mut pdu, now.instant) {
                b.push(to, &pdu);
            }
        }
        while self.endpoint.poll_event().is_some() {}
        self.endpoint.poll_transmit(b);
    }
}
