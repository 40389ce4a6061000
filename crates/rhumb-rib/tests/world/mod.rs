//! Holders of names and a directory to tell them to, at a time of the test's choosing.

#![allow(dead_code, reason = "each test file uses its own part of this")]
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

pub(crate) mod later;
pub(crate) mod net;

use std::net::SocketAddr;
use std::sync::Arc;

use rhumb_rib::store::{Memory, Store};
use rhumb_rib::{Account, Asker, Config, NameLimits, OrderId, Outcome, Rib};
use rhumb_trust::{ChainError, Identity, Standing, Window, name_of, verify_chain};
use rhumb_wire::certificate::Locator;
use rhumb_wire::rib::{
    Refusal, RequestId, RibRequest, RibRequestBody, RibResponse, RibResponseBody,
};
use rhumb_wire::{Certificate, Metadata, Name, Role, Scope, Statement};

pub(crate) use crate::{ELSEWHERE, Usual, usual};

/// When every test begins.
pub(crate) const NOW_S: u64 = 1_000_000;
/// How long what is said lasts, unless a test says otherwise.
pub(crate) const LIFETIME_S: u64 = 600;
/// Who publishes and asks, unless a test says otherwise.
pub(crate) const ASKER: Name = Name([0xA5; 32]);

/// Who can sign for a name.
pub(crate) struct Holder(pub(crate) Identity);

impl Holder {
    pub(crate) fn new() -> Self {
        Self::of(Role::Router)
    }

    pub(crate) fn of(role: Role) -> Self {
        Self(Identity::generate(role, 0).unwrap())
    }

    pub(crate) fn line(len: usize) -> Vec<Self> {
        (0..len).map(|_| Self::new()).collect()
    }

    pub(crate) fn name(&self) -> Name {
        self.0.name()
    }

    pub(crate) fn metadata(&self) -> Metadata {
        (**self.0.metadata()).clone()
    }

    pub(crate) fn say(&self, statement: Statement, sequence: u64, window: Window) -> Certificate {
        self.0.certify(statement, sequence, window).unwrap()
    }

    pub(crate) fn route(&self, via: Name, sequence: u64) -> Certificate {
        self.say(Statement::Route { via, scope: Scope::Any }, sequence, window())
    }

    pub(crate) fn locator(&self, sequence: u64) -> Certificate {
        let address = SocketAddr::from(([192, 0, 2, 1], 4000));
        self.say(Statement::Locator(Locator::new(address).unwrap()), sequence, window())
    }

    pub(crate) fn withdrawal(&self, sequence: u64) -> Certificate {
        self.say(Statement::Withdrawal, sequence, window())
    }
}

/// The usual window.
pub(crate) fn window() -> Window {
    Window::starting(NOW_S, LIFETIME_S)
}

/// Routes from each holder to the next.
pub(crate) fn routes(line: &[Holder], sequence: u64) -> Vec<Certificate> {
    line.windows(2).map(|pair| pair[0].route(pair[1].name(), sequence)).collect()
}

/// A directory, asked one thing at a time.
pub(crate) struct Directory<S> {
    pub(crate) rib: Rib<S>,
    pub(crate) identity: Arc<Identity>,
    pub(crate) now_s: u64,
    /// How those who ask are treated.
    pub(crate) standing: Standing,
    /// How many names they may have.
    pub(crate) limits: NameLimits,
    next_id: u32,
}

impl Directory<Usual> {
    pub(crate) fn new() -> Self {
        Self::with(Config::default())
    }

    pub(crate) fn with(config: Config) -> Self {
        Self::over(usual(Memory::new()), config)
    }
}

impl<S: Store> Directory<S> {
    pub(crate) fn over(store: S, config: Config) -> Self {
        let identity = Arc::new(Identity::generate(Role::Rib, 0).unwrap());
        let rib = Rib::new(identity.clone(), store, config);
        let (standing, limits) = (Standing::Admitted, NameLimits::NONE);
        Self { rib, identity, now_s: NOW_S, standing, limits, next_id: 0 }
    }

    /// What is answered, after a commit if need be; `None` when nothing is.
    pub(crate) fn ask_as(&mut self, name: Name, body: RibRequestBody) -> Option<RibResponseBody> {
        self.next_id += 1;
        let id = RequestId(self.next_id);
        let mut data = Vec::new();
        RibRequest { id, body }.emit(&mut data);
        let Self { standing, limits, .. } = *self;
        let asker = Asker { standing, limits, ..Asker::stranger(name, 1300) };
        let response = match self.rib.handle_request(asker, &data, self.now_s) {
            Outcome::Answer(response) => response,
            Outcome::Staged(id) => late_answer(&mut self.rib, id)?,
            Outcome::Noted | Outcome::Dropped(_) => return None,
        };
        // As it travels.
        let mut bytes = Vec::new();
        response.emit(&mut bytes);
        assert_eq!(RibResponse::parse(&bytes).as_ref(), Ok(&response));
        assert_eq!(response.id, id);
        Some(response.body)
    }

    pub(crate) fn ask(&mut self, body: RibRequestBody) -> RibResponseBody {
        self.ask_as(ASKER, body).expect("an answer")
    }

    pub(crate) fn publish_as(
        &mut self,
        publisher: Name,
        issuers: &[&Holder],
        certificates: Vec<Certificate>,
    ) -> Result<(), Refusal> {
        let metadata = issuers.iter().map(|holder| holder.metadata()).collect();
        match self.ask_as(publisher, RibRequestBody::Publish { metadata, certificates }) {
            Some(RibResponseBody::Stored) => Ok(()),
            Some(RibResponseBody::Refused(refusal)) => Err(refusal),
            Some(RibResponseBody::Superseded(_)) => Err(Refusal::Superseded),
            other => panic!("{other:?} is no answer to an order"),
        }
    }

    pub(crate) fn publish(
        &mut self,
        issuers: &[&Holder],
        certificates: Vec<Certificate>,
    ) -> Result<(), Refusal> {
        self.publish_as(ASKER, issuers, certificates)
    }

    /// Publishes one statement together with its issuer's metadata.
    pub(crate) fn tell(
        &mut self,
        holder: &Holder,
        certificate: Certificate,
    ) -> Result<(), Refusal> {
        self.publish(&[holder], vec![certificate])
    }

    pub(crate) fn look_up(&mut self, name: Name) -> RibResponseBody {
        self.ask(RibRequestBody::LookUpRoute(name))
    }

    /// The certificates found; none when the answer is an absence.
    pub(crate) fn found(&mut self, name: Name) -> Vec<Certificate> {
        match self.look_up(name) {
            RibResponseBody::Found { certificates, .. } => certificates,
            RibResponseBody::Absent(_) => Vec::new(),
            other => panic!("{other:?} is no answer to a look-up"),
        }
    }

    /// What the asker makes of the answer: every signature checked, by the metadata in it alone.
    pub(crate) fn verified_routers(&mut self, name: Name) -> Result<Vec<Name>, ChainError> {
        let RibResponseBody::Found { metadata, certificates, .. } = self.look_up(name) else {
            return Err(ChainError::Empty);
        };
        let key_of = |name: &Name| metadata.iter().find(|m| name_of(m) == *name).map(|m| m.key);
        let chain = verify_chain(name, certificates, key_of, self.now_s)?;
        Ok(chain.routers().collect())
    }

    pub(crate) fn stored_names(&mut self) -> u64 {
        self.rib.stored_names().unwrap_or_else(|_| {
            // Of a store elsewhere it has to be read.
            self.rib.commit();
            self.rib.stored_names().unwrap()
        })
    }

    /// How many names count against `publisher`.
    pub(crate) fn held_by(self, publisher: Name) -> u64 {
        self.rib.into_store().held(&Account::Publisher(publisher)).unwrap().names
    }

    /// Sweeps until the end of the store.
    pub(crate) fn sweep(&mut self) {
        while self.rib.sweep(self.now_s, 16) == 16 {}
    }
}

/// What becomes of something that waits, which nothing else does; `None` if there is no answer.
fn late_answer<S: Store>(rib: &mut Rib<S>, id: OrderId) -> Option<RibResponse> {
    let answers = rib.commit();
    if rib.poll_abandoned() == Some(id) {
        assert_eq!(answers, []);
        return None;
    }
    let [response] = answers.try_into().unwrap();
    Some(response)
}

/// What a look-up is answered, also where something has to be read elsewhere first.
pub(crate) fn look_up_with<S: Store>(
    rib: &mut Rib<S>,
    asker: Asker,
    data: &[u8],
    now_s: u64,
) -> Option<RibResponse> {
    match rib.handle_request(asker, data, now_s) {
        Outcome::Answer(response) => Some(response),
        Outcome::Staged(id) if ELSEWHERE => late_answer(rib, id),
        Outcome::Dropped(_) => None,
        other => panic!("{other:?}: a look-up is answered at once"),
    }
}
