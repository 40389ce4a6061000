//! Directories of several domains and those who ask them, joined by a network that loses nothing,
//! under a clock of its own.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_link::Endpoint;
use rhumb_rib::store::Embedded;
use rhumb_rib::{Config, Server};
use rhumb_trust::{Identity, Now};
use rhumb_wire::datagram::{Datagram, RECORD_OVERHEAD, RecordHeader};
use rhumb_wire::rib::{
    RequestId, RibRequest, RibRequestBody, RibResponse, RibResponseBody, StoreId,
};
use rhumb_wire::{Action, Batch, Certificate, Name, Pdu, PduHeader, Role};

use super::{Holder, NOW_S};

/// How long one step of the clock is.
const TICK: Duration = Duration::from_millis(10);

pub(crate) struct Net {
    pub(crate) now: Now,
    pub(crate) ribs: Vec<RibHost>,
    pub(crate) ends: Vec<End>,
    /// Addresses that nothing reaches.
    pub(crate) cut: BTreeSet<SocketAddr>,
    under_way: VecDeque<(SocketAddr, SocketAddr, Vec<u8>)>,
    folder: tempfile::TempDir,
    secrets: u8,
}

/// A directory, and what it is started again from.
pub(crate) struct RibHost {
    pub(crate) address: SocketAddr,
    pub(crate) server: Option<Server<Embedded>>,
    identity: Arc<Identity>,
    config: Config,
    store: PathBuf,
    /// Another handle of its store, for commits.
    shared: Option<Embedded>,
    /// Whether its work is done between its calls.
    pub(crate) is_deferred: bool,
}

/// Somebody with sessions with directories: who asks them, or whom they take for one.
pub(crate) struct End {
    pub(crate) address: SocketAddr,
    pub(crate) endpoint: Endpoint,
    pub(crate) identity: Arc<Identity>,
    pub(crate) heard: Vec<(PduHeader, Vec<u8>)>,
    outgoing: VecDeque<(SocketAddr, Vec<u8>)>,
    next_id: u32,
}

impl Net {
    pub(crate) fn new() -> Self {
        #[expect(clippy::disallowed_methods, reason = "the virtual clock begins somewhere")]
        let now = Now { instant: Instant::now(), unix_ms: NOW_S * 1000 };
        Self {
            now,
            ribs: Vec::new(),
            ends: Vec::new(),
            cut: BTreeSet::new(),
            under_way: VecDeque::new(),
            folder: tempfile::tempdir().expect("a folder"),
            secrets: 0,
        }
    }

    pub(crate) fn address(number: usize) -> SocketAddr {
        ([192, 0, 2, u8::try_from(number).expect("few")], 4000).into()
    }

    /// A directory of `domain` whose parents are at these addresses.
    pub(crate) fn add_rib(&mut self, domain: &Holder, parents: &[SocketAddr]) -> usize {
        self.add_rib_with(domain, parents, Config::default())
    }

    pub(crate) fn add_rib_with(
        &mut self,
        domain: &Holder,
        parents: &[SocketAddr],
        mut config: Config,
    ) -> usize {
        let number = self.ribs.len();
        config.domain = Some(domain.name());
        let remote =
            |address: &SocketAddr| rhumb_directory::Remote { address: *address, name: None };
        config.parents = parents.iter().map(remote).collect();
        self.ribs.push(RibHost {
            address: Self::address(number),
            server: None,
            identity: Arc::new(Identity::generate(Role::Rib, 0).expect("a key")),
            config,
            store: self.folder.path().join(format!("rib{number}.0")),
            shared: None,
            is_deferred: false,
        });
        self.start(number);
        number
    }

    /// The name of a directory.
    pub(crate) fn name_of(&self, number: usize) -> Name {
        self.ribs[number].identity.name()
    }

    /// Starts a directory anew with other settings.
    pub(crate) fn configure(&mut self, number: usize, change: impl FnOnce(&mut Config)) {
        self.stop(number);
        change(&mut self.ribs[number].config);
        self.start(number);
    }

    /// Starts a directory with the store that it has.
    pub(crate) fn start(&mut self, number: usize) {
        self.secrets += 1;
        let rib = &mut self.ribs[number];
        (rib.server, rib.shared) = (None, None);
        rib.config.store = StoreId([self.secrets; 16]);
        let store = Embedded::open(&rib.store).expect("a store");
        rib.shared = Some(store.share());
        let (identity, config) = (rib.identity.clone(), rib.config.clone());
        let link = rhumb_link::Config::default();
        let server = Server::new(identity, store, config, link, [self.secrets; 32], self.now);
        let mut server = server.expect("a server");
        if rib.is_deferred {
            server.defer_work();
        }
        rib.server = Some(server);
    }

    /// Stops a directory; those at the other ends hear of it.
    pub(crate) fn stop(&mut self, number: usize) {
        let (now, rib) = (self.now, &mut self.ribs[number]);
        rib.shared = None;
        if let Some(mut server) = rib.server.take() {
            server.close_all(now);
            let mut batch = Batch::new();
            server.poll_transmit(&mut batch);
            for (to, datagram) in batch.iter() {
                self.under_way.push_back((rib.address, to, datagram.to_vec()));
            }
        }
        self.run(100);
    }

    /// Starts a directory with an empty store.
    pub(crate) fn start_empty(&mut self, number: usize) {
        let secrets = self.secrets;
        let rib = &mut self.ribs[number];
        rib.store = self.folder.path().join(format!("rib{number}.{}", secrets + 1));
        self.start(number);
    }

    pub(crate) fn add_end(&mut self, role: Role) -> usize {
        let number = self.ends.len();
        self.add_end_at(role, Self::address(100 + number))
    }

    pub(crate) fn add_end_at(&mut self, role: Role, address: SocketAddr) -> usize {
        self.add_end_as(Arc::new(Identity::generate(role, 0).expect("a key")), address)
    }

    pub(crate) fn add_end_as(&mut self, identity: Arc<Identity>, address: SocketAddr) -> usize {
        self.secrets += 1;
        let config = rhumb_link::Config::default();
        let secret = [self.secrets; 32];
        let endpoint = Endpoint::new(identity.clone(), config, secret, self.now.instant);
        let endpoint = endpoint.expect("an endpoint");
        self.ends.push(End {
            address,
            endpoint,
            identity,
            heard: Vec::new(),
            outgoing: VecDeque::new(),
            next_id: 0,
        });
        self.ends.len() - 1
    }

    pub(crate) fn rib(&self, number: usize) -> &Server<Embedded> {
        self.ribs[number].server.as_ref().expect("it runs")
    }

    /// Lets so much time pass.
    pub(crate) fn run(&mut self, ms: u64) {
        for _ in 0..ms.div_ceil(10) {
            self.tick();
        }
    }

    fn tick(&mut self) {
        let now = self.now.plus(TICK);
        self.now = now;
        for rib in &mut self.ribs {
            let Some(server) = &mut rib.server else { continue };
            server.handle_timeout(now);
            rib.work(now);
            rib.flush(&mut self.under_way);
        }
        for end in &mut self.ends {
            end.endpoint.handle_timeout(now.instant);
            end.flush(&mut self.under_way);
        }
        while !self.under_way.is_empty() {
            let mut inboxes: BTreeMap<SocketAddr, Vec<(SocketAddr, Vec<u8>)>> = BTreeMap::new();
            for (from, to, datagram) in self.under_way.drain(..) {
                if !self.cut.contains(&to) && !self.cut.contains(&from) {
                    inboxes.entry(to).or_default().push((from, datagram));
                }
            }
            for (at, datagrams) in inboxes {
                if let Some(rib) = self.ribs.iter_mut().find(|it| it.address == at) {
                    for some in datagrams.chunks(64) {
                        rib.receive(some, now, &mut self.under_way);
                    }
                } else if let Some(end) = self.ends.iter_mut().find(|it| it.address == at) {
                    end.receive(datagrams, now);
                    end.flush(&mut self.under_way);
                }
            }
        }
    }

    fn join(&mut self, end: usize, rib: usize) {
        let (address, name) = (self.ribs[rib].address, self.ribs[rib].identity.name());
        if self.ends[end].endpoint.session_of(&name).is_none() {
            self.ends[end].endpoint.connect(address, Some(name), self.now.instant);
            for _ in 0..20 {
                self.run(10);
                if self.ends[end].endpoint.session_of(&name).is_some() {
                    return;
                }
            }
            panic!("no session with the RIB {rib}");
        }
    }

    /// Sends a request; returns its identifier.
    pub(crate) fn send(&mut self, end: usize, rib: usize, body: RibRequestBody) -> RequestId {
        self.join(end, rib);
        let name = self.ribs[rib].identity.name();
        let id = self.ends[end].send(name, body, self.now);
        self.ends[end].flush(&mut self.under_way);
        id
    }

    /// What was answered to a request so far.
    pub(crate) fn answer(&self, end: usize, id: RequestId) -> Option<RibResponseBody> {
        let responses = self.ends[end].responses();
        responses.into_iter().find(|it| it.id == id).map(|it| it.body)
    }

    /// Asks, and waits for the answer, five seconds at most.
    pub(crate) fn try_ask(
        &mut self,
        end: usize,
        rib: usize,
        body: RibRequestBody,
    ) -> Option<RibResponseBody> {
        let id = self.send(end, rib, body);
        (0..500).find_map(|_| {
            self.run(10);
            self.answer(end, id)
        })
    }

    pub(crate) fn ask(&mut self, end: usize, rib: usize, body: RibRequestBody) -> RibResponseBody {
        self.try_ask(end, rib, body).expect("an answer")
    }

    pub(crate) fn publish(&mut self, end: usize, rib: usize, by: &Holder, said: Certificate) {
        let body =
            RibRequestBody::Publish { metadata: vec![by.metadata()], certificates: vec![said] };
        assert_eq!(self.ask(end, rib, body), RibResponseBody::Stored);
    }

    /// At which level a name is found, and by which certificates; `None` when it is absent.
    pub(crate) fn look_up(
        &mut self,
        end: usize,
        rib: usize,
        name: Name,
    ) -> Option<(u8, Vec<Certificate>)> {
        match self.ask(end, rib, RibRequestBody::LookUpRoute(name)) {
            RibResponseBody::Found { level, certificates, .. } => Some((level, certificates)),
            RibResponseBody::Absent(_) => None,
            other => panic!("{other:?} is no answer to a look-up"),
        }
    }
}

impl RibHost {
    fn receive(
        &mut self,
        datagrams: &[(SocketAddr, Vec<u8>)],
        now: Now,
        under_way: &mut VecDeque<(SocketAddr, SocketAddr, Vec<u8>)>,
    ) {
        let Some(server) = &mut self.server else { return };
        let mut batch = Batch::new();
        for (from, datagram) in datagrams {
            batch.push(*from, datagram);
        }
        server.handle_batch(&mut batch, now);
        let out = batch.iter().filter(|(_, datagram)| !datagram.is_empty());
        under_way.extend(out.map(|(to, datagram)| (self.address, to, datagram.to_vec())));
        self.work(now);
        self.flush(under_way);
    }

    /// Does what was deferred.
    fn work(&mut self, now: Now) {
        let Some(server) = self.server.as_mut().filter(|_| self.is_deferred) else { return };
        while let Some(verification) = server.poll_verification() {
            server.handle_verified(verification.run(), now);
        }
        let store = self.shared.as_mut().expect("it runs");
        while let Some(commit) = server.poll_commit() {
            server.handle_committed(commit.run(store), now);
        }
    }

    fn flush(&mut self, under_way: &mut VecDeque<(SocketAddr, SocketAddr, Vec<u8>)>) {
        let Some(server) = &mut self.server else { return };
        let mut batch = Batch::new();
        server.poll_transmit(&mut batch);
        for (to, datagram) in batch.iter() {
            under_way.push_back((self.address, to, datagram.to_vec()));
        }
        let error = server.poll_error();
        assert!(error.is_none(), "{error:?}");
    }
}

impl End {
    /// Sends a request to whoever has this name, in the session there is.
    pub(crate) fn send(&mut self, to: Name, body: RibRequestBody, now: Now) -> RequestId {
        self.next_id += 1;
        let id = RequestId(self.next_id);
        let mut data = Vec::new();
        RibRequest { id, body }.emit(&mut data);
        self.send_pdu(PduHeader::new(Action::RibRequest, self.identity.name(), to), &data, now);
        id
    }

    /// Answers as a RIB does.
    pub(crate) fn respond(&mut self, to: Name, response: &RibResponse, now: Now) {
        let mut data = Vec::new();
        response.emit(&mut data);
        self.send_pdu(PduHeader::new(Action::RibResponse, self.identity.name(), to), &data, now);
    }

    fn send_pdu(&mut self, header: PduHeader, data: &[u8], now: Now) {
        let mut datagram = vec![0; RecordHeader::LEN];
        header.emit(data, &[], &mut datagram).expect("it fits");
        datagram.resize(datagram.len() + RECORD_OVERHEAD - RecordHeader::LEN, 0);
        let session = self.endpoint.session_of(&header.destination).expect("a session");
        let to = self.endpoint.seal(session, &mut datagram, now.instant).expect("sealed");
        self.outgoing.push_back((to, datagram));
    }

    fn flush(&mut self, under_way: &mut VecDeque<(SocketAddr, SocketAddr, Vec<u8>)>) {
        let mut batch = Batch::new();
        self.endpoint.poll_transmit(&mut batch);
        for (to, datagram) in batch.iter() {
            under_way.push_back((self.address, to, datagram.to_vec()));
        }
        for (to, datagram) in self.outgoing.drain(..) {
            under_way.push_back((self.address, to, datagram));
        }
    }

    fn receive(&mut self, datagrams: Vec<(SocketAddr, Vec<u8>)>, now: Now) {
        for (from, mut datagram) in datagrams {
            match Datagram::parse(&datagram) {
                Ok(Datagram::Record(_)) => {
                    let opened = self.endpoint.open(from, &mut datagram, now.instant);
                    let Ok(opened) = opened else { continue };
                    if opened.plaintext.is_empty() {
                        continue;
                    }
                    let bytes = &datagram[opened.plaintext];
                    let pdu = Pdu::parse(bytes).expect("a PDU");
                    self.heard.push((pdu.header(), pdu.data().to_vec()));
                }
                Ok(handshake) => {
                    let _ = self.endpoint.handle_handshake(from, handshake, now.instant);
                }
                Err(_) => panic!("no datagram of ours"),
            }
        }
    }

    /// All responses so far.
    pub(crate) fn responses(&self) -> Vec<RibResponse> {
        let responses = self.heard.iter().filter(|(it, _)| it.action == Action::RibResponse);
        responses.map(|(_, data)| RibResponse::parse(data).expect("a response")).collect()
    }
}
