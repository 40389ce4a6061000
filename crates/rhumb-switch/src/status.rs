//! What a switch tells about itself: plain data, for `status`, metrics and tests.
//!
//! Serialised, it is what `rhumb status` shows of a router: renaming a field renames what people
//! and programs read.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rhumb_directory::{Conduct, Fault, Fill, Fork, LogCounts};
use rhumb_link::Peer;
use rhumb_trust::{Now, Removals};
use rhumb_wire::log::Head;
use rhumb_wire::{Certificate, Limits, Name, Role, Statement};
use serde::{Serialize, Serializer};

use crate::Switch;
use crate::counters::Counters;
use crate::flows::split_names;
use crate::tables::Fills;

/// A switch as it stands.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// Its own name.
    pub name: Name,
    /// Its RIBs.
    pub ribs: Vec<RibStatus>,
    /// Its upstream routers, the preferred one first.
    pub upstreams: Vec<UpstreamStatus>,
    /// Its secure sessions.
    pub sessions: Vec<SessionStatus>,
    /// The names attached to it.
    pub attached: Vec<AttachedStatus>,
    /// Entries in the flow table.
    pub flows: usize,
    /// Names whose traffic is let in.
    pub grants: usize,
    /// Routes learnt from the RIB.
    pub routes: usize,
    /// Names known to be absent.
    pub absences: usize,
    /// How full each of its tables is, and those that it shares.
    #[serde(serialize_with = "by_name")]
    pub tables: Vec<TableStatus>,
    /// What it has done, with all its workers.
    pub counters: Counters,
    /// What each of its workers has done, the switch's own first.
    pub workers: Vec<WorkerStatus>,
    /// PDUs dropped, by each [`DropReason`](crate::DropReason).
    #[serde(serialize_with = "by_reason")]
    pub dropped_pdus: Vec<(&'static str, u64)>,
    /// PDUs whose capability was refused, by each
    /// [`rhumb_capability::DropReason`]; none where nothing is demanded.
    #[serde(serialize_with = "by_reason")]
    pub refused_capabilities: Vec<(&'static str, u64)>,
    /// Peers that demand capabilities.
    pub stamps: Vec<StampStatus>,
    /// Datagrams that the link below dropped, by each [`rhumb_link::DropReason`].
    #[serde(serialize_with = "by_reason")]
    pub dropped_datagrams: Vec<(&'static str, u64)>,
    /// The trust domain that it belongs to, if it was told of one.
    pub domain: Option<DomainStatus>,
    /// What it says of itself at the RIBs: where it is, or through whom it is reached.
    pub own_statement: Option<CertificateStatus>,
    /// What it says of routers that it hands traffic to; up to [`LISTED`].
    pub delegations: Vec<CertificateStatus>,
    /// Flows that were made lately, the newest first; up to [`LISTED`].
    pub newest_flows: Vec<FlowStatus>,
    /// Names whose traffic is let in; up to [`LISTED`] of them, in no order.
    pub some_grants: Vec<GrantStatus>,
    /// Groups that somebody here is a part of: those with the most members, [`LISTED`] at most.
    pub groups: Vec<GroupStatus>,
    /// Members of all groups, by the sessions that brought them.
    pub group_members: usize,
    /// How many removals of members are known, by domains whose members are judged here.
    pub removals: usize,
    /// Who was refused by the rules of access lately, the last one first; a few.
    pub refused: Vec<RefusedStatus>,
}

/// Somebody whom the rules of access refuse.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RefusedStatus {
    /// Who.
    pub name: Name,
    /// What it wanted last.
    pub wanted: Wanted,
    /// How many seconds ago that was.
    pub age_s: u64,
    /// How often it was refused since it is remembered.
    pub times: u64,
    /// The number of the rule of access that refuses it, from 1; none where no rule fits.
    pub rule: Option<usize>,
    /// What it lacks to be taken for a member of a domain that is let in, or of what its domain
    /// left it nothing more.
    pub missing: Option<String>,
    /// What its domain limits, if it was that: names, rate, or names to send to.
    pub limit: Option<String>,
}

/// What somebody wanted who was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Wanted {
    /// To be attached here.
    Join,
    /// To have something carried.
    Send,
    /// An answer of this router itself.
    Answer,
}

/// A peer that demands capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StampStatus {
    /// Who.
    pub peer: Name,
    /// Seconds until the last capability for it that is known ends; 0 when there is none.
    pub expires_in_s: u64,
}

/// What one worker has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct WorkerStatus {
    /// PDUs forwarded to a next hop.
    pub forwarded_pdus: u64,
    /// Bytes of the datagrams they left in.
    pub forwarded_bytes: u64,
    /// Datagrams that it handed to another.
    pub handed_over: u64,
}

impl WorkerStatus {
    pub(crate) fn of(counters: &Counters) -> Self {
        let Counters { forwarded_pdus, forwarded_bytes, handed_over, .. } = *counters;
        Self { forwarded_pdus, forwarded_bytes, handed_over }
    }
}

/// A RIB as a switch sees it.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct RibStatus {
    /// Where it is.
    pub address: SocketAddr,
    /// Who it is, when there is a session.
    pub name: Option<Name>,
    /// Whether there is a session in which it answers.
    #[serde(rename = "connected")]
    pub is_connected: bool,
    /// For how many seconds it has answered nothing that it
    /// was asked, if that is longer than a busy one takes.
    pub no_answer_since_s: Option<u64>,
    /// What was proven against it last, while it is asked after all others for that.
    pub suspected_of: Option<&'static str>,
    /// How many seconds ago that was.
    pub last_fault_s: Option<u64>,
    /// For how many more seconds it is asked last.
    pub suspected_for_s: Option<u64>,
    /// How often each kind of fault was proven.
    #[serde(serialize_with = "by_reason")]
    pub faults: [(&'static str, u64); Fault::ALL.len()],
    /// How often it lacked what another RIB had, and took it over: no fault.
    pub behind: u64,
    /// How many rounds of questions it left without an answer in time.
    pub unanswered: u64,
    /// How many heads its log had before the newest that is known; none where it keeps no log.
    pub log_epoch: Option<u64>,
    /// How many names that head is of.
    pub log_names: Option<u64>,
    /// Answers that its log was asked for, and confirmed.
    pub proven: u64,
    /// Answers of which its log has shown neither that nor the contrary: no fault.
    pub unproven: u64,
    /// What proves, to whoever has its metadata, that it tells different things to different
    /// askers: two heads that it signed, in hexadecimal.
    #[serde(serialize_with = "heads_in_hexadecimal")]
    pub fork: Option<Fork>,
}

/// An upstream router as a switch sees it.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct UpstreamStatus {
    /// Where it is.
    pub address: SocketAddr,
    /// Who it is, when there is a session.
    pub name: Option<Name>,
    /// What it is good for at the moment.
    pub state: UpstreamUse,
}

/// What an upstream router is good for at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum UpstreamUse {
    /// The switch is reached through it.
    #[serde(rename = "in use")]
    InUse,
    /// There is a session, and another one is used.
    #[serde(rename = "standing by")]
    StandingBy,
    /// There is no session.
    #[serde(rename = "not reached")]
    NotReached,
}

/// One secure session.
#[derive(Debug, Clone, Serialize)]
pub struct SessionStatus {
    /// The peer's proven name.
    pub peer: Name,
    /// What the peer is.
    pub role: Role,
    /// What the peer calls itself in its metadata: its own word.
    #[serde(rename = "calls_itself")]
    pub label: Option<String>,
    /// Where it is.
    pub address: SocketAddr,
    /// What the session goes over: `udp` or `tls`.
    pub transport: &'static str,
    /// For how many seconds the session has been up.
    pub age_s: u64,
    /// The largest datagram that is sent to it, in bytes of UDP payload.
    pub largest_datagram: u16,
    /// How long the peer takes to answer, as far as it was asked of late.
    #[serde(rename = "round_trip_ms", serialize_with = "milliseconds")]
    pub round_trip: Option<Duration>,
    /// Datagrams sent to it since its newest handshake, but for those that further workers sent.
    pub sent_datagrams: Option<u64>,
    /// How it is treated: `admitted`, `stranger` or `refused`.
    pub standing: &'static str,
    /// The number of the rule of access that says so, from 1.
    pub rule: Option<usize>,
    /// What it lacks to be treated as members of a domain are.
    pub missing: Option<String>,
    /// What it has shown of a trust domain, if that holds.
    pub membership: Option<MembershipStatus>,
}

/// A switch's place in a trust domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DomainStatus {
    /// The domain.
    pub name: Name,
    /// The domains around it, the nearest first.
    pub around: Vec<Name>,
    /// At a border: seconds until the domain's word for it ends, with which it is none any more.
    pub border_expires_in_s: Option<u64>,
}

/// What a peer has shown of a trust domain.
#[derive(Debug, Clone, Serialize)]
pub struct MembershipStatus {
    /// The domain.
    pub domain: Name,
    /// By whose words, the domain's first.
    pub issuers: Vec<Name>,
    /// What it may do there.
    pub rights: Vec<&'static str>,
    /// How much of it, together with all whom it admitted.
    pub limits: LimitsStatus,
    /// Seconds until the first of these words ends.
    pub expires_in_s: u64,
    /// Whose removal counts against it, so that it is as none.
    pub removed_by: Option<Name>,
}

/// How much a member may have; 0 and nothing where its domain does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LimitsStatus {
    /// Most names.
    pub names: u32,
    /// Most that is carried for it, in 1000 bits a second.
    pub kbit_per_s: u32,
    /// It sends inside of the domain only.
    pub inside_only: bool,
    /// The only name that it sends to.
    pub only_to: Option<Name>,
}

impl From<Limits> for LimitsStatus {
    fn from(limits: Limits) -> Self {
        let Limits { names, kbit_per_s, inside_only, only_to } = limits;
        Self { names, kbit_per_s, inside_only, only_to }
    }
}

impl MembershipStatus {
    pub(crate) fn of(peer: &Peer, removals: &Removals, now: Now) -> Option<Self> {
        let shown = peer.membership.as_deref()?;
        shown.check(&peer.name, now.unix_s()).ok()?;
        Some(Self {
            domain: shown.domain(),
            issuers: shown.certificates().iter().map(|it| it.issuer).collect(),
            rights: shown.rights().names().collect(),
            limits: shown.limits().into(),
            expires_in_s: shown.not_after_s().saturating_sub(now.unix_s()),
            removed_by: removals.against(shown),
        })
    }
}

/// A name attached to a switch.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct AttachedStatus {
    /// The name.
    pub name: Name,
    /// Seconds until its certificate ends.
    pub expires_in_s: u64,
}

/// A group, as one switch sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GroupStatus {
    /// Its name.
    pub name: Name,
    /// Members that this switch knows: its own, and those that others told it of.
    pub members: usize,
    /// Those of them who may send.
    pub senders: usize,
    /// Sessions behind which somebody receives.
    pub branches: usize,
    /// The next router toward the root; none where this one is it, or where none is known.
    pub toward_root: Option<Name>,
    /// Whether this switch is its root.
    pub is_root: bool,
}

/// How full a table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TableStatus {
    /// What it holds.
    #[serde(skip)]
    pub name: &'static str,
    /// Its entries.
    pub used: usize,
    /// The most it holds.
    pub bound: usize,
}

/// A statement of the switch's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CertificateStatus {
    /// What it says.
    #[serde(rename = "says", serialize_with = "in_words")]
    pub statement: Statement,
    /// Seconds until it ends.
    pub expires_in_s: u64,
}

/// PDUs of one source and one destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FlowStatus {
    /// Who sends.
    pub source: Name,
    /// Who receives.
    pub destination: Name,
    /// Whom they go to from here; `None` when the session with it has ended.
    pub next: Option<Name>,
    /// Seconds until the flow is looked into again; 0 when it is at its next PDU.
    pub expires_in_s: u64,
}

/// A name whose traffic is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct GrantStatus {
    /// The name.
    pub name: Name,
    /// Who may carry it here; `None` when the session with it has ended.
    pub from: Option<Name>,
    /// Seconds until the first certificate of its chain ends.
    pub expires_in_s: u64,
}

impl Switch {
    pub(crate) fn table_status(&self, shared: &Fills) -> Vec<TableStatus> {
        let sessions = Fill {
            used: self.plane.link().sessions().count(),
            bound: self.plane.link().limits().sessions,
        };
        let [strangers, at_one] =
            [self.plane.link().strangers(), self.plane.link().most_strangers_at_a_source()]
                .map(|(used, bound)| Fill { used, bound });
        let (grants, acceptances) = self.admission.fills();
        [
            ("flows", self.plane.flows().fill()),
            ("grants", grants),
            ("acceptances", acceptances),
            ("attached", self.routes.attached_fill()),
            ("watched", self.directory.watched_fill()),
            ("routes", shared.routes),
            ("absences", shared.absences),
            ("statements", shared.newest),
            ("metadata", shared.metadata),
            ("sessions", sessions),
            ("strangers", strangers),
            ("strangers_at_one_address", at_one),
            ("verifications", self.jobs.fill()),
        ]
        .map(|(name, Fill { used, bound })| TableStatus { name, used, bound })
        .to_vec()
    }

    pub(crate) fn stamp_status(&self, now: Now) -> Vec<StampStatus> {
        let peers = self.transit.peers();
        let status = |(peer, not_after_s): (Name, Option<u64>)| StampStatus {
            peer,
            expires_in_s: not_after_s.unwrap_or(0).saturating_sub(now.unix_s()),
        };
        peers.map(status).collect()
    }

    pub(crate) fn delegation_status(&self, now: Now) -> Vec<CertificateStatus> {
        let delegations = self.publishing.delegations().take(LISTED);
        delegations.map(|certificate| CertificateStatus::of(certificate, now)).collect()
    }

    pub(crate) fn flow_status(&self, now: Now) -> Vec<FlowStatus> {
        let newest = self.plane.flows().newest(LISTED, self.routes.seen());
        newest
            .map(|(flow, names, stands)| {
                let (source, destination) = split_names(names);
                let next = self.plane.peer(flow.next).map(|peer| peer.name);
                let until = self.routes.clock().instant(flow.until);
                let left = until.saturating_duration_since(now.instant).as_secs();
                FlowStatus {
                    source,
                    destination,
                    next,
                    expires_in_s: if stands { left } else { 0 },
                }
            })
            .collect()
    }

    pub(crate) fn grant_status(&self, now: Now) -> Vec<GrantStatus> {
        let grants = self.admission.grants().take(LISTED);
        grants
            .map(|((name, session), grant)| GrantStatus {
                name: *name,
                from: self.plane.peer(*session).map(|peer| peer.name),
                expires_in_s: grant.chain.not_after_s().saturating_sub(now.unix_s()),
            })
            .collect()
    }
}

impl RibStatus {
    pub(crate) fn of(
        address: SocketAddr,
        name: Option<Name>,
        silent_for: Option<Duration>,
    ) -> Self {
        let is_connected = name.is_some() && silent_for.is_none();
        let no_answer_since_s = silent_for.map(|lasts| lasts.as_secs());
        Self {
            address,
            name,
            is_connected,
            no_answer_since_s,
            suspected_of: None,
            last_fault_s: None,
            suspected_for_s: None,
            faults: Fault::ALL.map(|fault| (fault.as_str(), 0)),
            behind: 0,
            unanswered: 0,
            log_epoch: None,
            log_names: None,
            proven: 0,
            unproven: 0,
            fork: None,
        }
    }

    /// The same, and what is known of its log.
    pub(crate) fn with_log(
        self,
        head: Option<&Head>,
        fork: Option<&Fork>,
        counts: LogCounts,
    ) -> Self {
        Self {
            log_epoch: head.map(|head| head.epoch),
            log_names: head.map(|head| head.names),
            proven: counts.proven,
            unproven: counts.unproven,
            fork: fork.copied(),
            ..self
        }
    }

    /// The same, and how it has behaved.
    pub(crate) fn with(self, conduct: &Conduct, now: Instant) -> Self {
        let suspicion = conduct.suspicion(now);
        Self {
            suspected_of: suspicion.map(|it| it.fault.as_str()),
            last_fault_s: suspicion.map(|it| it.ago.as_secs()),
            suspected_for_s: suspicion.map(|it| it.left.as_secs()),
            faults: Fault::ALL.map(|fault| (fault.as_str(), conduct.times(fault))),
            behind: conduct.behind(),
            unanswered: conduct.unanswered(),
            ..self
        }
    }
}

impl UpstreamStatus {
    pub(crate) fn of(address: SocketAddr, name: Option<Name>, is_used: bool) -> Self {
        let state = match name {
            _ if is_used => UpstreamUse::InUse,
            Some(_) => UpstreamUse::StandingBy,
            None => UpstreamUse::NotReached,
        };
        Self { address, name, state }
    }
}

impl CertificateStatus {
    pub(crate) fn of(certificate: &Certificate, now: Now) -> Self {
        let expires_in_s = certificate.not_after_s.saturating_sub(now.unix_s());
        Self { statement: certificate.statement, expires_in_s }
    }
}

fn heads_in_hexadecimal<S: Serializer>(fork: &Option<Fork>, to: S) -> Result<S::Ok, S::Error> {
    let spelt = |head: &Head| {
        let mut bytes = Vec::with_capacity(Head::LEN);
        head.emit(&mut bytes);
        bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    fork.as_ref().map(|fork| [spelt(&fork.one), spelt(&fork.other)]).serialize(to)
}

fn milliseconds<S: Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    time.map(|time| (time.as_secs_f64() * 1e6).round() / 1e3).serialize(to)
}

fn by_reason<S: Serializer>(counts: &[(&str, u64)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(counts.iter().copied())
}

fn by_name<S: Serializer>(tables: &[TableStatus], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(tables.iter().map(|table| (table.name, table)))
}

fn in_words<S: Serializer>(statement: &Statement, to: S) -> Result<S::Ok, S::Error> {
    match statement {
        Statement::Route { via, .. } => to.collect_str(&format_args!("carried by {via}")),
        Statement::Locator(locator) => to.collect_str(&format_args!("at {}", locator.address())),
        other => to.collect_str(&format_args!("{other:?}")),
    }
}

/// Flows, grants and delegations that a status lists, of perhaps a million: enough to see who
/// talks, and a worker is not held up by it.
pub const LISTED: usize = 64;
