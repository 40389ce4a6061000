//! A node at the switch: the production link by real handshakes, a certificate for the router,
//! labels given and taken, and data that it seals and opens outside of what is measured.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rhumb_link::{Endpoint, SessionId};
use rhumb_switch::{Config, Remote, Switch};
use rhumb_trust::{Identity, Now, Window};
use rhumb_wire::datagram::{Datagram, RECORD_OVERHEAD, RecordHeader};
use rhumb_wire::flow::FlowAccept;
use rhumb_wire::pdu::{Frame, Label, LabelledHeader};
use rhumb_wire::{
    Action, Batch, Certificate, Metadata, Name, Pdu, PduHeader, Role, Scope, Statement, bundle,
    stream,
};

use crate::chance::Chance;

/// How PDUs of a known flow travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// With both names: the first ones of a flow, and those of whoever does not take labels.
    Names,
    /// With a label: all others.
    Labels,
}

impl Form {
    /// Bytes of the header.
    pub(crate) fn header_len(self) -> usize {
        match self {
            Self::Names => PduHeader::LEN,
            Self::Labels => LabelledHeader::LEN,
        }
    }
}

/// A node with one session, to the switch.
pub(crate) struct Member {
    identity: Arc<Identity>,
    /// Names that it answers and sends for, by their owners' word.
    served: Vec<Arc<Identity>>,
    endpoint: Endpoint,
    /// Where the switch sees it.
    pub(crate) address: SocketAddr,
    router: Name,
    router_address: SocketAddr,
    session: Option<SessionId>,
    joined: bool,
    /// What the switch wants in place of a source, which is ours, and a destination.
    labels: HashMap<(Name, Name), Label>,
    /// How many labels we gave for what is sent to us.
    labels_given: u32,
    /// PDUs that wait to be sent.
    answers: Vec<Vec<u8>>,
    /// Where PDUs are put together.
    scratch: Vec<u8>,
}

impl Member {
    /// A member that begins to connect.
    pub(crate) fn new(
        address: SocketAddr,
        router: Name,
        router_address: SocketAddr,
        now: Now,
    ) -> Self {
        Self::on_lane(0, address, router, router_address, now)
    }

    /// One that sends on this lane.
    pub(crate) fn on_lane(
        lane: u8,
        address: SocketAddr,
        router: Name,
        router_address: SocketAddr,
        now: Now,
    ) -> Self {
        let mut link = link_config();
        link.send_lane = lane;
        Self::with(link, address, router, router_address, now)
    }

    /// One that takes bundles, and as much in a datagram as an Ethernet frame has room for.
    #[allow(dead_code, reason = "for the bench of the switch")]
    pub(crate) fn of_bundles(
        address: SocketAddr,
        router: Name,
        router_address: SocketAddr,
        now: Now,
    ) -> Self {
        let mut link = link_config();
        link.bundles = true;
        link.max_datagram_len = 1452;
        Self::with(link, address, router, router_address, now)
    }

    /// The largest datagram to the switch, as far as is known.
    #[allow(dead_code, reason = "for the bench of the switch")]
    pub(crate) fn largest_datagram(&self) -> usize {
        let peer = self.session.and_then(|session| self.endpoint.peer(session));
        peer.map_or(0, |peer| usize::from(peer.max_datagram_len))
    }

    /// How large a datagram with a bundle may be, once the switch has said that it takes any.
    #[allow(dead_code, reason = "for the bench of the switch")]
    pub(crate) fn bundle_room(&self) -> Option<usize> {
        self.session.and_then(|session| self.endpoint.bundle_room(session))
    }

    /// One that goes over a stream when nobody answers over UDP; whoever has it carries that.
    #[allow(dead_code, reason = "for the bench of peers")]
    pub(crate) fn over_stream(
        address: SocketAddr,
        router: Name,
        router_address: SocketAddr,
        now: Now,
    ) -> Self {
        let mut link = link_config();
        link.streams = true;
        Self::with(link, address, router, router_address, now)
    }

    fn with(
        link: rhumb_link::Config,
        address: SocketAddr,
        router: Name,
        router_address: SocketAddr,
        now: Now,
    ) -> Self {
        let identity = identity(Role::Node, now);
        let mut endpoint =
            Endpoint::new(identity.clone(), link, [3; 32], now.instant).expect("endpoint");
        endpoint.connect(router_address, Some(router), now.instant);
        Self {
            identity,
            served: Vec::new(),
            endpoint,
            address,
            router,
            router_address,
            session: None,
            joined: false,
            labels: HashMap::new(),
            labels_given: 0,
            answers: Vec::new(),
            scratch: Vec::new(),
        }
    }

    #[allow(dead_code, reason = "for the bench of peers")]
    pub(crate) fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    #[allow(dead_code, reason = "for the bench of peers")]
    pub(crate) fn endpoint_mut(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    pub(crate) fn name(&self) -> Name {
        self.identity.name()
    }

    /// Whether the switch carries for this member.
    pub(crate) fn is_joined(&self) -> bool {
        self.joined
    }

    /// Whether PDUs to `destination` can travel with a label.
    pub(crate) fn has_label_to(&self, destination: &Name) -> bool {
        self.labels.contains_key(&(self.name(), *destination))
    }

    /// Whether anybody was given a label for PDUs to us.
    pub(crate) fn has_given_labels(&self) -> bool {
        self.labels_given > 0
    }

    /// Takes what comes while sessions and flows are opened.
    pub(crate) fn handle(&mut self, datagram: &mut [u8], now: Now) {
        match Datagram::parse(datagram) {
            Ok(Datagram::Record(_)) => {
                if let Some(range) = self.open(datagram, now)
                    && let Ok(Frame::Full(pdu)) = Frame::parse(&datagram[range])
                {
                    self.handle_pdu(&pdu);
                }
            }
            Ok(handshake) => {
                let from = self.router_address;
                let _ = self.endpoint.handle_handshake(from, handshake, now.instant);
            }
            Err(_) => {}
        }
    }

    fn handle_pdu(&mut self, pdu: &Pdu<'_>) {
        match pdu.action() {
            Action::Accept => self.joined = true,
            Action::FlowAccept => {
                let accept = FlowAccept::parse(pdu.data()).expect("the switch gives labels");
                self.labels.insert((pdu.destination(), pdu.source()), accept.label);
            }
            Action::Data => {
                self.labels_given += 1;
                let accept = FlowAccept { label: Label(self.labels_given) };
                let mut answer = Vec::new();
                PduHeader::new(Action::FlowAccept, pdu.destination(), pdu.source())
                    .emit(&accept.emit(), &[], &mut answer)
                    .expect("a label fits");
                self.answers.push(answer);
            }
            action => panic!("a member is not sent {action:?}"),
        }
    }

    /// Appends what it has to say; the first thing on a session is its certificate.
    pub(crate) fn transmit(&mut self, out: &mut Batch, now: Now) {
        self.endpoint.handle_timeout(now.instant);
        self.endpoint.poll_transmit(out);
        while let Some(event) = self.endpoint.poll_event() {
            if let rhumb_link::Event::Established { session, .. } = event {
                self.session = Some(session);
                self.advertise(out, now);
            }
        }
        for answer in std::mem::take(&mut self.answers) {
            self.push(out, self.router_address, &answer, now);
        }
    }

    fn advertise(&mut self, out: &mut Batch, now: Now) {
        let route = self.route(now);
        let mut pdu = Vec::new();
        PduHeader::new(Action::Advertise, self.name(), self.router)
            .emit(&[], &[route], &mut pdu)
            .expect("one certificate fits");
        self.push(out, self.router_address, &pdu, now);
    }

    /// Joins for one more name, which gives its word for it; to be sent by [`Member::transmit`].
    pub(crate) fn serve(&mut self, now: Now) -> Name {
        let owner = identity(Role::Capsule, now);
        let window = Window::starting(now.unix_s(), LEASE_S);
        let statement = Statement::Service { server: self.name(), several: false };
        let word = owner.certify(statement, 1, window).expect("a signature");
        let mut metadata = Vec::new();
        Metadata::emit_list(&[(**owner.metadata()).clone()], &mut metadata);
        let mut pdu = Vec::new();
        PduHeader::new(Action::Advertise, owner.name(), self.router)
            .emit(&metadata, &[word, self.route(now)], &mut pdu)
            .expect("two certificates fit");
        self.answers.push(pdu);
        let name = owner.name();
        self.served.push(owner);
        name
    }

    fn route(&self, now: Now) -> Certificate {
        let statement = Statement::Route { via: self.router, scope: Scope::Any };
        let window = Window::starting(now.unix_s(), LEASE_S);
        self.identity.certify(statement, 1, window).expect("a signature")
    }

    /// Appends an empty record, so that the session does not go silent.
    pub(crate) fn keep_alive(&mut self, out: &mut Batch, now: Now) {
        self.push(out, self.router_address, &[], now);
    }

    /// Appends a sealed Data PDU; `peer` is written beside it.
    pub(crate) fn push_data(
        &mut self,
        out: &mut Batch,
        peer: SocketAddr,
        (destination, form): (Name, Form),
        data: &[u8],
        now: Now,
    ) {
        self.push_data_as(self.name(), out, peer, (destination, form), data, now);
    }

    /// As [`Member::push_data`], from any name that it sends for.
    pub(crate) fn push_data_as(
        &mut self,
        source: Name,
        out: &mut Batch,
        peer: SocketAddr,
        (destination, form): (Name, Form),
        data: &[u8],
        now: Now,
    ) {
        let mut pdu = std::mem::take(&mut self.scratch);
        pdu.clear();
        let header = PduHeader::new(Action::Data, source, destination);
        match form {
            Form::Names => header.emit(data, &[], &mut pdu),
            Form::Labels => {
                let label = self.labels[&(source, destination)];
                LabelledHeader { action: Action::Data, ttl: header.ttl, tag: header.tag, label }
                    .emit(data, &mut pdu)
            }
        }
        .expect("the data fit");
        self.push(out, peer, &pdu, now);
        self.scratch = pdu;
    }

    fn push(&mut self, out: &mut Batch, peer: SocketAddr, pdu: &[u8], now: Now) {
        let session = self.session.expect("a session");
        let peer = self.stream().unwrap_or(peer);
        let datagram = out.push_with(peer, pdu.len() + RECORD_OVERHEAD);
        datagram[RecordHeader::LEN..][..pdu.len()].copy_from_slice(pdu);
        self.endpoint.seal(session, datagram, now.instant).expect("the session lives");
    }

    /// Appends so many sealed Data PDUs with labels, in bundles as large as they may be.
    #[allow(dead_code, reason = "for the bench of the switch")]
    pub(crate) fn push_bundles(
        &mut self,
        out: &mut Batch,
        peer: SocketAddr,
        destination: Name,
        (data, count): (&[u8], usize),
        now: Now,
    ) {
        let room = self.bundle_room().expect("the switch takes bundles");
        let label = self.labels[&(self.name(), destination)];
        let PduHeader { action, ttl, tag, .. } =
            PduHeader::new(Action::Data, self.name(), destination);
        let mut pdu = Vec::new();
        LabelledHeader { action, ttl, tag, label }.emit(data, &mut pdu).expect("the data fit");
        let most = (room - RECORD_OVERHEAD) / (bundle::LENGTH_LEN + pdu.len());
        let mut left = count;
        while left > 0 {
            let mut bytes = Vec::new();
            let count = left.min(most);
            (0..count).for_each(|_| bundle::push(&mut bytes, &pdu));
            left -= count;
            let datagram = out.push_with(peer, bytes.len() + RECORD_OVERHEAD);
            datagram[RecordHeader::LEN..][..bytes.len()].copy_from_slice(&bytes);
            let session = self.session.expect("a session");
            self.endpoint.seal_bundle(session, datagram, now.instant).expect("it lives");
        }
    }

    /// How many PDUs of a forwarded bundle are for us and bring `data`.
    #[allow(dead_code, reason = "for the bench of the switch")]
    pub(crate) fn arrive(&mut self, datagram: &mut [u8], data: &[u8], now: Now) -> usize {
        let Ok(opened) = self.endpoint.open(self.router_address, datagram, now.instant) else {
            return 0;
        };
        let bundle = &datagram[opened.plaintext];
        let Ok(pdus) = bundle::pdus(bundle) else { return 0 };
        let is_ours = |pdu: &Range<usize>| match Frame::parse(&bundle[pdu.clone()]) {
            Ok(Frame::Labelled(pdu)) => {
                (1..=self.labels_given).contains(&pdu.label().0) && pdu.data() == data
            }
            _ => false,
        };
        if opened.is_bundle { pdus.filter(is_ours).count() } else { 0 }
    }

    /// Whether a forwarded datagram is in `form`, for us, and brings `data`.
    pub(crate) fn arrives(
        &mut self,
        datagram: &mut [u8],
        form: Form,
        data: &[u8],
        now: Now,
    ) -> bool {
        self.data_of(datagram, form, now) == Some(data)
    }

    /// What a forwarded datagram brings, if it is in `form` and for us.
    pub(crate) fn data_of<'a>(
        &mut self,
        datagram: &'a mut [u8],
        form: Form,
        now: Now,
    ) -> Option<&'a [u8]> {
        let range = self.open(datagram, now)?;
        match Frame::parse(&datagram[range]) {
            Ok(Frame::Full(pdu)) if form == Form::Names && self.answers_for(pdu.destination()) => {
                Some(pdu.data())
            }
            Ok(Frame::Labelled(pdu)) if form == Form::Labels => {
                (1..=self.labels_given).contains(&pdu.label().0).then(|| pdu.data())
            }
            _ => None,
        }
    }

    /// Answers what the switch asks about the path, or what is large would soon go there no more.
    /// Whether it was such a question.
    pub(crate) fn answers_path(&mut self, datagram: &mut [u8], out: &mut Batch, now: Now) -> bool {
        let is_path = datagram.first().is_some_and(|first| first >> 4 == 0xD);
        if is_path {
            self.open(datagram, now);
            self.endpoint.poll_transmit(out);
        }
        is_path
    }

    fn answers_for(&self, name: Name) -> bool {
        name == self.name() || self.served.iter().any(|owner| owner.name() == name)
    }

    fn open(&mut self, datagram: &mut [u8], now: Now) -> Option<Range<usize>> {
        let from = self.stream().unwrap_or(self.router_address);
        let opened = self.endpoint.open(from, datagram, now.instant).ok()?;
        (!opened.plaintext.is_empty()).then_some(opened.plaintext)
    }

    /// The address of the stream that the session is on, if it is.
    fn stream(&self) -> Option<SocketAddr> {
        let peer = self.endpoint.peer(self.session?)?;
        Some(peer.address).filter(stream::is_address)
    }
}

/// Bytes to carry.
pub(crate) fn data(payload: usize, chance: &mut Chance) -> Vec<u8> {
    (0..payload).map(|_| chance.next_u64() as u8).collect()
}

/// A switch with no upstream router, and with the RIBs given: its own members need none.
pub(crate) fn switch(max_flows: usize, ribs: Vec<Remote>, now: Now) -> Switch {
    switch_with(1, max_flows, ribs, now)
}

/// The same with so many workers, itself among them.
pub(crate) fn switch_with(workers: u8, max_flows: usize, ribs: Vec<Remote>, now: Now) -> Switch {
    let mut link = link_config();
    link.workers = workers;
    let config = Config { max_flows, ribs, link, ..Config::default() };
    Switch::new(identity(Role::Router, now), config, [4; 32], now).expect("switch")
}

pub(crate) fn now() -> Now {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let unix_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    Now { instant: std::time::Instant::now(), unix_ms }
}

pub(crate) fn identity(role: Role, now: Now) -> Arc<Identity> {
    Arc::new(Identity::generate(role, now.unix_s()).expect("a key"))
}

pub(crate) fn link_config() -> rhumb_link::Config {
    let mut config = rhumb_link::Config::default();
    config.max_datagram_len = MAX_DATAGRAM_LEN;
    config
}

/// Room for a payload of 8,900 bytes.
const MAX_DATAGRAM_LEN: u16 = 9200;
/// Longer than any bench.
const LEASE_S: u64 = 3600;
