//! Public-key work that runs off the worker. The switch hands out a [`Job`] with everything it
//! needs; whoever runs it gives the [`Done`] back. A job owns the PDU that waits for it, so a
//! flow's first PDU is not lost, and the number of jobs is bounded. Nothing of the switch's own is
//! changed by a job, and of what it shares, the tables, only by what has been verified.

use std::sync::Arc;
use std::time::Instant;

use rhumb_directory::Question;
use rhumb_link::{HandshakeDone, HandshakeJob, SessionId};
use rhumb_trust::log::verify_head;
use rhumb_trust::{
    Chain, ChainError, Membership, Now, Removal, StatementError, Verified, fingerprint_of,
    verify_chain_beside, verify_statement,
};
use rhumb_wire::log::{Head, MapPath};
use rhumb_wire::rib::Mark;
use rhumb_wire::{Certificate, Metadata, Name, PublicKey};

use crate::tables::{Tables, Taken};

/// Work for a thread that may take its time.
#[derive(Debug)]
pub struct Job {
    pub(crate) task: Task,
    pub(crate) now_s: u64,
    /// When somebody began to wait for it.
    pub(crate) brought_at: Option<Instant>,
}

/// What came of a [`Job`].
#[derive(Debug)]
pub struct Done {
    pub(crate) outcome: Outcome,
    /// When somebody began to wait for it.
    pub(crate) brought_at: Option<Instant>,
}

#[derive(Debug)]
pub(crate) enum Task {
    /// Do these certificates let `session`'s peer carry for the PDU's source, through us?
    Admit { request: HeldPdu, origin: Name, certificates: Vec<Certificate>, issuers: Issuers },
    /// Do these certificates lead to `destination`?
    Route { told: Heard, destination: Name, certificates: Vec<Certificate>, issuers: Issuers },
    /// The same of a change that a RIB tells. What verifies is taken over at once.
    Told(ToldWay),
    /// Did the RIB of this number say that there is no answer to the question?
    Absence { replica: usize, question: Question, certificate: Certificate, rib: Arc<Metadata> },
    /// Does an issuer say so, as the RIB on `session` tells?
    Change { certificate: Certificate, issuer: Arc<Metadata> },
    /// Did an issuer say something newer than what we presented, as the router on `session` shows?
    Newer { session: SessionId, certificate: Certificate, issuer: Arc<Metadata> },
    /// Does the holder of the name, which is attached, say by which domain it is known outside?
    Export { request: HeldPdu, certificate: Certificate, issuer: Arc<Metadata> },
    /// Does the holder of the name take back what it said?
    Withdrawal { request: HeldPdu, certificate: Certificate, issuer: Arc<Metadata> },
    /// Does this make the source of the PDU a member of the group that it is for?
    Join { request: HeldPdu, membership: Box<Membership> },
    /// Does the owner of the group that the PDU is for take back a membership of it?
    Expel { request: HeldPdu, removal: Box<Removal> },
    /// Do domains take back what made these names their members, as a RIB tells?
    Removals(ToldRemovals),
    /// Did this RIB sign the head of its log?
    Head { told: ToldHead, rib: Arc<Metadata> },
    /// The next step of a handshake that somebody began.
    Handshake(HandshakeJob),
}

#[derive(Debug)]
pub(crate) enum Outcome {
    Admit {
        request: HeldPdu,
        result: Result<Verified<Chain>, ChainError>,
        /// Of what was refused.
        fingerprint: Option<[u8; 32]>,
    },
    Route {
        told: Heard,
        destination: Name,
        result: Result<Verified<Chain>, ChainError>,
    },
    Told(HeardWay),
    Absence {
        replica: usize,
        question: Question,
        result: Result<Verified<Certificate>, StatementError>,
    },
    Change {
        result: Result<Verified<Certificate>, StatementError>,
    },
    Newer {
        session: SessionId,
        result: Result<Verified<Certificate>, StatementError>,
    },
    Export {
        request: HeldPdu,
        issuer: Arc<Metadata>,
        result: Result<Verified<Certificate>, StatementError>,
    },
    Withdrawal {
        request: HeldPdu,
        issuer: Arc<Metadata>,
        result: Result<Verified<Certificate>, StatementError>,
    },
    Join {
        request: HeldPdu,
        membership: Box<Membership>,
        is_member: bool,
    },
    Expel {
        request: HeldPdu,
        removal: Option<Verified<Removal>>,
    },
    Removals(HeardRemovals),
    Head {
        about: (usize, Told),
        result: Result<Verified<Head>, StatementError>,
    },
    Handshake(HandshakeDone),
}

/// From where a route came to our ears; found so many domains further out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// We asked for the way of this number, the first being 0, and this RIB answered.
    Answer { replica: usize, level: u8, number: u8 },
    /// We asked by which domains a name is known outside, and the RIB of this number answered.
    Export { replica: usize },
    /// We asked this RIB alone, to compare.
    Check { replica: usize, level: u8 },
    /// An earlier run of ours saved it.
    Saved { level: u8 },
}

impl Heard {
    /// The question about this name that it answers, and which RIB does.
    pub(crate) fn answers(self, name: Name) -> Option<(Question, usize)> {
        match self {
            Self::Answer { replica, number, .. } => Some((Question::way(name, number), replica)),
            Self::Export { replica } => Some((Question::Export(name), replica)),
            Self::Check { replica, .. } => Some((Question::Check(name, replica), replica)),
            Self::Saved { .. } => None,
        }
    }
}

/// A way that a RIB tells unasked, to be verified.
#[derive(Debug)]
pub(crate) struct ToldWay {
    pub(crate) from: SessionId,
    /// Found so many domains further out.
    pub(crate) level: u8,
    pub(crate) destination: Name,
    pub(crate) certificates: Vec<Certificate>,
    /// Of each certificate.
    pub(crate) issuers: Vec<Arc<Metadata>>,
    /// Where it is taken over.
    pub(crate) tables: Arc<Tables>,
    pub(crate) now: Now,
}

/// What came of that.
#[derive(Debug)]
pub(crate) struct HeardWay {
    pub(crate) from: SessionId,
    pub(crate) level: u8,
    /// Of whoever the first certificate is by.
    pub(crate) metadata: Arc<Metadata>,
    pub(crate) result: Result<(Arc<Verified<Chain>>, Option<Taken>), ChainError>,
}

impl ToldWay {
    /// Does the work.
    fn verify(self, now_s: u64) -> HeardWay {
        let Self { from, level, destination, certificates, mut issuers, tables, now } = self;
        let keys = keys(&certificates, &issuers);
        let metadata = issuers.swap_remove(0);
        let issuers = Issuers { keys, believed: tables.believed(&certificates) };
        let result = issuers.verify(destination, certificates, now_s).map(|chain| {
            let chain = Arc::new(chain);
            let taken = Self::take_over(&tables, &chain, level, now);
            (chain, taken)
        });
        HeardWay { from, level, metadata, result }
    }

    /// What was taken over. Of what is for some domains only nothing is: the switch knows whether
    /// its own is one of them.
    pub(crate) fn take_over(
        tables: &Tables,
        chain: &Arc<Verified<Chain>>,
        level: u8,
        now: Now,
    ) -> Option<Taken> {
        chain.bounds().next().is_none().then(|| tables.take_told(chain, level, now))
    }
}

/// Removals that a RIB told, to be verified.
#[derive(Debug)]
pub(crate) struct ToldRemovals {
    pub(crate) from: SessionId,
    /// How far it has told.
    pub(crate) to: Mark,
    pub(crate) removals: Vec<Removal>,
    /// Whether all that was told could be read.
    pub(crate) all_are_some: bool,
}

/// What came of that.
#[derive(Debug)]
pub(crate) struct HeardRemovals {
    pub(crate) from: SessionId,
    pub(crate) to: Mark,
    pub(crate) believed: Vec<Verified<Removal>>,
    pub(crate) are_all_believed: bool,
}

impl ToldRemovals {
    /// Does the work: 60 µs for each certificate.
    fn verify(self, now_s: u64) -> HeardRemovals {
        let Self { from, to, removals, all_are_some } = self;
        let all = removals.len();
        let believed: Vec<_> =
            removals.into_iter().filter_map(|removal| removal.verify(now_s).ok()).collect();
        let are_all_believed = all_are_some && believed.len() == all;
        HeardRemovals { from, to, believed, are_all_believed }
    }
}

/// Who told of a head, and why.
#[derive(Debug)]
pub(crate) enum Told {
    /// The RIB itself, of this number, to prove what it says of a name.
    Proof { name: Name, path: Option<Box<MapPath>> },
    /// The router on this session.
    Router(SessionId),
}

/// A head to be verified.
#[derive(Debug)]
pub(crate) struct ToldHead {
    pub(crate) replica: usize,
    pub(crate) head: Box<Head>,
    pub(crate) told: Told,
}

impl ToldHead {
    /// Does the work: one signature.
    pub(crate) fn verify(
        self,
        rib: &Metadata,
        now_s: u64,
    ) -> ((usize, Told), Result<Verified<Head>, StatementError>) {
        let Self { replica, head, told } = self;
        ((replica, told), verify_head(*head, rib, now_s))
    }
}

/// The PDU that waits for a verification, and where it came from.
#[derive(Debug)]
pub(crate) struct HeldPdu {
    pub(crate) session: SessionId,
    pub(crate) pdu: Vec<u8>,
}

/// What is known of the issuers in a chain: eight at most, so lists are looked through faster than
/// maps.
#[derive(Debug)]
pub(crate) struct Issuers {
    pub(crate) keys: Vec<(Name, PublicKey)>,
    /// What of the chain was verified before.
    pub(crate) believed: Vec<Verified<Certificate>>,
}

/// The keys of certificates, by their issuers' metadata.
pub(crate) fn keys(
    certificates: &[Certificate],
    issuers: &[Arc<Metadata>],
) -> Vec<(Name, PublicKey)> {
    let names = certificates.iter().map(|certificate| certificate.issuer);
    names.zip(issuers.iter().map(|metadata| metadata.key)).collect()
}

impl Issuers {
    fn verify(
        &self,
        origin: Name,
        certificates: Vec<Certificate>,
        now_s: u64,
    ) -> Result<Verified<Chain>, ChainError> {
        let key_of =
            |name: &Name| self.keys.iter().find(|(known, _)| known == name).map(|(_, key)| *key);
        verify_chain_beside(origin, certificates, &self.believed, key_of, now_s)
    }
}

impl Job {
    /// Does the work: up to 0.5 ms of public-key operations.
    pub fn run(self) -> Done {
        let now_s = self.now_s;
        let outcome = match self.task {
            Task::Admit { request, origin, certificates, issuers } => {
                admit(request, origin, certificates, &issuers, now_s)
            }
            Task::Route { told, destination, certificates, issuers } => Outcome::Route {
                told,
                destination,
                result: issuers.verify(destination, certificates, now_s),
            },
            Task::Told(told) => Outcome::Told(told.verify(now_s)),
            Task::Absence { replica, question, certificate, rib } => Outcome::Absence {
                replica,
                question,
                result: verify_statement(&certificate, &rib, now_s),
            },
            Task::Change { certificate, issuer } => {
                Outcome::Change { result: verify_statement(&certificate, &issuer, now_s) }
            }
            Task::Newer { session, certificate, issuer } => {
                Outcome::Newer { session, result: verify_statement(&certificate, &issuer, now_s) }
            }
            Task::Export { request, certificate, issuer } => Outcome::Export {
                request,
                result: verify_statement(&certificate, &issuer, now_s),
                issuer,
            },
            Task::Withdrawal { request, certificate, issuer } => Outcome::Withdrawal {
                request,
                result: verify_statement(&certificate, &issuer, now_s),
                issuer,
            },
            Task::Join { request, membership } => {
                let is_member = membership.check(&membership.member(), now_s).is_ok();
                Outcome::Join { request, membership, is_member }
            }
            Task::Expel { request, removal } => {
                Outcome::Expel { request, removal: removal.verify(now_s).ok() }
            }
            Task::Removals(told) => Outcome::Removals(told.verify(now_s)),
            Task::Head { told, rib } => {
                let (about, result) = told.verify(&rib, now_s);
                Outcome::Head { about, result }
            }
            Task::Handshake(job) => Outcome::Handshake(job.run()),
        };
        Done { outcome, brought_at: self.brought_at }
    }
}

fn admit(
    request: HeldPdu,
    origin: Name,
    certificates: Vec<Certificate>,
    issuers: &Issuers,
    now_s: u64,
) -> Outcome {
    let shown = certificates.clone();
    let result = issuers.verify(origin, certificates, now_s);
    let fingerprint = result.is_err().then(|| fingerprint_of(&origin, &shown));
    Outcome::Admit { request, result, fingerprint }
}
