//! The switch itself: what it holds, and the calls that drive it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use rhumb_directory::{Chance, Checks, Directory};
use rhumb_link::{Endpoint, LinkError, SessionId, StreamNews, StreamOrder, WatchPeers};
use rhumb_trust::{Identity, LABEL, Now};
use rhumb_wire::{Batch, Certificate, Name, PduHeader};

use crate::Config;
use crate::admission::Admission;
use crate::counters::Counters;
use crate::domain::Place;
use crate::event::Event;
use crate::flows::split_names;
use crate::groups::Groups;
use crate::jobs::Jobs;
use crate::peering::Peering;
use crate::plane::Plane;
use crate::publishing::Publishing;
use crate::routes::Routes;
use crate::status::{
    AttachedStatus, CertificateStatus, MembershipStatus, RibStatus, SessionStatus, Status,
    UpstreamStatus,
};
use crate::tables::{Tables, sweep_after};
use crate::transit::Transit;

/// A sans-IO switch.
pub struct Switch {
    pub(crate) plane: Plane,
    pub(crate) admission: Admission,
    pub(crate) peering: Peering,
    pub(crate) publishing: Publishing,
    pub(crate) transit: Transit,
    pub(crate) jobs: Jobs,
    pub(crate) directory: Directory,
    pub(crate) routes: Routes,
    pub(crate) groups: Groups,
}

impl Switch {
    /// A switch of this identity. `secret` seeds what must be
    /// unpredictable to strangers: fresh random bytes.
    ///
    /// # Errors
    /// When the identity cannot serve for secure links.
    pub fn new(
        identity: Arc<Identity>,
        config: Config,
        secret: [u8; 32],
        now: Now,
    ) -> Result<Self, LinkError> {
        let tables = Arc::new(Tables::new(&config, &secret, now.instant));
        Self::with_tables(identity, config, tables, secret, now)
    }

    /// As [`Switch::new`], with tables that it shares with other switches of the process; their
    /// bounds are those that the tables were made with.
    ///
    /// # Errors
    /// When the identity cannot serve for secure links.
    pub fn with_tables(
        identity: Arc<Identity>,
        config: Config,
        tables: Arc<Tables>,
        secret: [u8; 32],
        now: Now,
    ) -> Result<Self, LinkError> {
        let mut link = config.link;
        link.bundles = true;
        // Of nodes there are many, and they watch us.
        link.watch_peers = WatchPeers::Infrastructure;
        let endpoint = Endpoint::new(identity.clone(), link, secret, now.instant)?;
        let one_in = config.check_rib_answers;
        let place = config.domain.clone();
        let place = place.map(|it| Place::new(it, identity.name(), config.max_grants));
        let mut switch = Self {
            plane: Plane::new(endpoint, &config),
            peering: Peering::new(&config, now.instant),
            publishing: Publishing::new(identity, &config, now.instant),
            transit: Transit::new(place),
            jobs: Jobs::new(now.instant),
            directory: Directory::new(
                &config.ribs,
                config.max_grants,
                config.max_publications,
                now.instant,
            ),
            routes: Routes::new(config.max_routes, tables, now.instant),
            admission: Admission::new(config, &secret, now.instant),
            groups: Groups::default(),
        };
        if one_in > 0 {
            let chance = Chance::new(&secret, OF_CHECKS);
            switch.directory.check_answers(Checks { one_in, chance });
        }
        let access = switch.admission.access().clone();
        switch.plane.link_mut().set_access(access, now);
        switch.want_removals(now);
        switch.handle_timeout(now);
        Ok(switch)
    }

    /// The name of this switch.
    pub fn name(&self) -> Name {
        self.publishing.name()
    }

    /// Shows what `identity`, which is of the same name, shows of a trust domain: sessions go on,
    /// and are renewed, those with RIBs and routers first.
    ///
    /// # Errors
    /// When it is another name, or no certificate can be made of it.
    pub fn show(&mut self, identity: &Identity, now: Now) -> Result<(), LinkError> {
        self.plane.link_mut().show(identity, now.instant)
    }

    /// As [`Endpoint::handle_stream`]: what happened to streams, which whoever runs the switch
    /// carries if the link's configuration says so.
    pub fn handle_stream(&mut self, news: StreamNews, now: Now) -> Option<SocketAddr> {
        let address = self.plane.link_mut().handle_stream(news, now.instant);
        self.after_control(now);
        address
    }

    /// As [`Endpoint::poll_stream_order`].
    pub fn poll_stream_order(&mut self) -> Option<StreamOrder> {
        self.plane.link_mut().poll_stream_order()
    }

    /// What happened since the last call, oldest first.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.plane.poll_event()
    }

    /// Appends the datagrams that the switch itself wants
    /// sent. Bounded by what the calls before made.
    pub fn poll_transmit(&mut self, out: &mut Batch) {
        self.plane.poll_transmit(out);
    }

    /// Ends all sessions, so that peers look for another way at
    /// once; to be sent by [`Switch::poll_transmit`].
    pub fn close_all(&mut self, now: Now) {
        self.plane.link_mut().close_all(now.instant);
    }

    /// When to call [`Switch::handle_timeout`] at the latest.
    pub fn poll_timeout(&self) -> Option<Instant> {
        [
            self.plane.link().poll_timeout(),
            self.directory.poll_timeout(),
            self.peering.poll_timeout(),
            self.peering.nearness.poll_timeout(),
            Some(self.publishing.own_due()),
            Some(self.admission.sweep_due()),
            self.groups.poll_timeout(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Does what is due: handshake retransmissions, keep-alives, repeated RIB requests,
    /// reconnections, renewals, and the sweep of what has expired, which looks at a bounded sample.
    pub fn handle_timeout(&mut self, now: Now) {
        self.plane.link_mut().handle_timeout(now.instant);
        self.directory.handle_timeout(now.instant);
        while let Some(address) = self.directory.poll_silent(now.instant) {
            self.plane.tell(Event::RibSilent { address });
        }
        while let Some((address, fault)) = self.directory.poll_fault() {
            self.plane.tell(Event::RibFault { address, fault });
        }
        self.tell_heads(now);
        self.publish_behind(now);
        self.connect_due(now);
        self.choose_upstream(now);
        self.note_measured(now);
        self.renew_own_statements(now);
        self.settle_groups(now);
        self.after_control(now);
        self.sweep(now);
    }

    /// Marks what active flows were made from as in use: they ask for
    /// none of it, and a flood must not push it out.
    fn keep_what_flows_need(&mut self) {
        let Self { plane, admission, routes, directory, .. } = self;
        plane.flows_mut().visit_active(MAX_VISITED, |flow, names| {
            let (source, destination) = split_names(names);
            routes.keep(&destination);
            if let Some(grant) = admission.keep(source, flow.ingress, flow.next) {
                directory.keep_watched(grant.chain.certificates().iter().map(|c| c.issuer));
            }
        });
    }

    /// Removes some of what has expired; soon again, if there is much of it.
    fn sweep(&mut self, now: Now) {
        if now.instant < self.admission.sweep_due() {
            return;
        }
        self.end_memberships(now);
        self.keep_what_flows_need();
        let now = now.instant;
        let Self { admission, routes, .. } = self;
        let swept = admission.sweep(now, |chance| routes.sweep_attached(chance, now));
        let goes_on = self.routes.tables().sweep(now) || swept.goes_on;
        self.admission.sweep_again_at(now + sweep_after(goes_on));
    }

    /// The switch as it stands.
    pub fn status(&self, now: Now) -> Status {
        let shared = self.routes.tables().fills();
        let (workers, own) = (self.plane.workers(), self.plane.counters());
        let counters = workers.total(own);
        let peer_name = |session| self.plane.peer(session).map(|peer| peer.name);
        Status {
            name: self.name(),
            ribs: self
                .directory
                .ribs(now.instant)
                .zip(self.directory.conducts().iter().zip(self.directory.log_counts()))
                .map(|((address, session, silent_for), (conduct, counts))| {
                    let name = session.and_then(peer_name);
                    let rib = RibStatus::of(address, name, silent_for);
                    let head = name.and_then(|name| self.directory.head_of(&name));
                    let fork = name.and_then(|name| self.directory.fork(&name));
                    rib.with(conduct, now.instant).with_log(head, fork, counts)
                })
                .collect(),
            upstreams: self
                .peering
                .upstreams()
                .map(|it| {
                    UpstreamStatus::of(it.address, it.session.and_then(peer_name), it.is_used)
                })
                .collect(),
            sessions: self.session_status(now),
            attached: self
                .routes
                .attached()
                .map(|(name, attached)| AttachedStatus {
                    name: *name,
                    expires_in_s: attached.until_s.saturating_sub(now.unix_s()),
                })
                .collect(),
            flows: self.plane.flows().fill().used,
            grants: self.admission.fills().0.used,
            routes: shared.routes.used,
            absences: shared.absences.used,
            tables: self.table_status(&shared),
            counters,
            workers: workers.status(own),
            dropped_pdus: counters.drops().map(|(why, count)| (why.as_str(), count)).collect(),
            stamps: self.stamp_status(now),
            refused_capabilities: self.transit.refused(),
            dropped_datagrams: {
                let drops = self.plane.link().drops().iter();
                drops.map(|(why, own)| (why.as_str(), own + workers.dropped(why))).collect()
            },
            domain: self.transit.place().map(|place| place.status(now)),
            own_statement: self
                .publishing
                .own_statement()
                .map(|own| CertificateStatus::of(own, now)),
            delegations: self.delegation_status(now),
            newest_flows: self.flow_status(now),
            some_grants: self.grant_status(now),
            groups: self.group_status(),
            group_members: self.groups.members(),
            removals: self.removals().len(),
            refused: self.admission.refused(now),
        }
    }

    fn session_status(&self, now: Now) -> Vec<SessionStatus> {
        let sessions = self.plane.link().sessions();
        sessions
            .map(|(session, peer)| (session, peer, self.treatment(session, now)))
            .map(|(session, peer, treatment)| SessionStatus {
                peer: peer.name,
                role: peer.metadata.role,
                label: peer.metadata.attributes().get(LABEL).cloned(),
                address: peer.at,
                transport: peer.transport().as_str(),
                age_s: now.instant.saturating_duration_since(peer.established_at).as_secs(),
                largest_datagram: peer.max_datagram_len,
                round_trip: self.plane.link().round_trip(session),
                sent_datagrams: self.plane.link().sealed(session),
                standing: treatment.standing.as_str(),
                rule: treatment.rule,
                missing: treatment.missing.map(|it| it.to_string()),
                membership: MembershipStatus::of(peer, self.removals(), now),
            })
            .collect()
    }

    /// What the switch has done.
    pub fn counters(&self) -> &Counters {
        self.plane.counters()
    }

    /// Queues a PDU of our own making, or one that waited, for `session`.
    pub(crate) fn send(
        &mut self,
        session: SessionId,
        header: PduHeader,
        data: &[u8],
        certificates: &[Certificate],
        now: Now,
    ) {
        let mut pdu = self.plane.take_scratch();
        if header.emit(data, certificates, &mut pdu).is_ok() {
            self.send_bytes(session, &pdu, now);
        }
        self.plane.give_back(pdu);
    }

    /// Queues the bytes of a PDU for `session`, stamped if
    /// its peer demands it. Whether that could be.
    pub(crate) fn send_bytes(&mut self, session: SessionId, pdu: &[u8], now: Now) -> bool {
        match self.is_to_be_stamped(session, pdu) {
            Some(names) => self.send_stamped(session, &names, [pdu, &[]], now),
            None => self.plane.queue_pdu(session, pdu, now),
        }
    }
}

/// Of what chance decides, which answers are checked; `tables` and `admission` have theirs.
const OF_CHECKS: u64 = 3;
/// Active flows that a sweep keeps the entries of: half a millisecond of work.
const MAX_VISITED: usize = 2048;
