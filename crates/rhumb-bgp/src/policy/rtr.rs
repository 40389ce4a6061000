//! How validated payloads come from a cache: the client's side of the RPKI-to-router protocol (RFC
//! 8210, and RFC 6810 with caches that know no more), sans-IO.
//!
//! One [`RtrClient`] is for one cache. Its flow:
//!
//! 1. [`RtrClient::connected`]: asks for what changed since the serial it has, or for everything.
//! 2. [`RtrClient::handle_bytes`]: a response is gathered apart, and taken as a whole at its end;
//!    until then, the set is the one before.
//! 3. [`RtrClient::handle_timeout`]: asks again after the refresh interval, and gives the
//!    set up when it has expired.
//! 4. [`RtrClient::disconnected`]: a response under way is forgotten; the set stays until it
//!    expires. When to connect again is the caller's.
//!
//! [`RtrCaches`] says which cache's set is in force: the first that has one, in the order of
//! preference (RFC 8210, section 10).

pub mod pdu;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

pub use pdu::PduError;
use pdu::{CacheError, Intervals, Pdu, Received};

use super::rpki::Vrp;

/// A client of one cache.
#[derive(Debug)]
pub struct RtrClient {
    /// The newest version that the cache may know.
    version: u8,
    /// Whether the connection's version is still open.
    first_answer: bool,
    /// A serial that the cache told of while it answered.
    noted: Option<u32>,
    /// Session and serial of the set.
    state: Option<(u16, u32)>,
    vrps: BTreeSet<Vrp>,
    intervals: Intervals,
    /// When the set was complete, if there is one.
    since: Option<Instant>,
    link: Link,
    input: Vec<u8>,
    output: Vec<u8>,
    news: bool,
    counters: RtrCounters,
}

/// What happened, for metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RtrCounters {
    /// Responses taken that had everything.
    pub resets: u64,
    /// Responses taken that had what changed.
    pub deltas: u64,
    /// Sets given up because the cache was silent for too long.
    pub expired: u64,
    /// Connections ended because of what the cache sent.
    pub faults: u64,
}

#[derive(Debug)]
enum Link {
    Down,
    /// Nothing is asked; when to ask is known.
    Idle {
        ask_at: Instant,
    },
    /// Asked; the answer must have begun by then.
    Asked {
        reset: bool,
        until: Instant,
    },
    /// An answer is under way; it must have ended by then.
    Answer {
        vrps: BTreeSet<Vrp>,
        reset: bool,
        session: u16,
        until: Instant,
    },
}

/// Why a connection has to end. The set stays until it expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RtrError {
    /// It is no message of the protocol.
    #[error("no message of RFC 8210: {0}")]
    Malformed(PduError),
    /// The cache speaks no version that we do, or changed it.
    #[error("the cache speaks version {0} now")]
    Version(u8),
    /// The cache reports an error, with this code (RFC 8210, section 12).
    #[error("the cache reports error {0} (RFC 8210, section 12)")]
    Reported(u16),
    /// A message that has no place there.
    #[error("a message that has no place there")]
    Unexpected,
    /// Another session within one connection, or in an answer to a serial of this one.
    #[error("the session changed in the middle")]
    Session,
    /// A payload twice, or the withdrawal of one that was not there.
    #[error("the cache announced a payload twice, or withdrew one it had not announced")]
    Inconsistent,
    /// More than [`MOST_VRPS`].
    #[error("more than {MOST_VRPS} payloads")]
    TooMany,
    /// Silence for [`ANSWER`].
    #[error("no answer for {} s", ANSWER.as_secs())]
    Silent,
}

impl Default for RtrClient {
    fn default() -> Self {
        Self {
            version: NEWEST,
            first_answer: false,
            noted: None,
            state: None,
            vrps: BTreeSet::new(),
            intervals: Intervals::DEFAULT,
            since: None,
            link: Link::Down,
            input: Vec::new(),
            output: Vec::new(),
            news: false,
            counters: RtrCounters::default(),
        }
    }
}

impl RtrClient {
    /// There is a connection to the cache.
    pub fn connected(&mut self, now: Instant) {
        self.input.clear();
        self.output.clear();
        self.first_answer = true;
        self.ask(now);
    }

    /// There is none any more.
    pub fn disconnected(&mut self) {
        self.forget_unanswered();
        self.link = Link::Down;
        self.input.clear();
        self.output.clear();
    }

    /// Some caches close the connection instead of saying that they do not know a serial: one that
    /// was not answered is not asked about again.
    fn forget_unanswered(&mut self) {
        if let Link::Asked { reset: false, .. } = self.link {
            self.state = None;
        }
    }

    /// Bytes from the cache. Work is bounded by what comes,
    /// and memory by [`MOST_VRPS`] and one message.
    ///
    /// # Errors
    ///
    /// What ends the connection: the caller sends what [`Self::poll_transmit`] still has, closes
    /// it, and calls [`Self::disconnected`]. After an [`RtrError::Version`] the next connection
    /// begins with an older version.
    pub fn handle_bytes(&mut self, bytes: &[u8], now: Instant) -> Result<(), RtrError> {
        self.input.extend_from_slice(bytes);
        let mut input = std::mem::take(&mut self.input);
        let mut at = 0;
        let result = loop {
            match Pdu::parse(&input[at..]) {
                Ok(None) => break Ok(()),
                Ok(Some((received, len))) => {
                    if let Err(error) = self.handle_pdu(received, now) {
                        self.report(&error, &input[at..at + len]);
                        break Err(error);
                    }
                    at += len;
                }
                Err(error) => {
                    let error = RtrError::Malformed(error);
                    let seen = input.len().min(at + pdu::HEADER_LEN);
                    self.report(&error, &input[at..seen]);
                    break Err(error);
                }
            }
        };
        input.drain(..at);
        self.input = input;
        if result.is_err() {
            self.counters.faults += 1;
            self.link = Link::Down;
        }
        result
    }

    fn handle_pdu(&mut self, received: Received, now: Instant) -> Result<(), RtrError> {
        if let Pdu::Error { code } = received.pdu {
            return Err(self.reported(code, received.version));
        }
        if let Pdu::Notify { serial, .. } = received.pdu {
            match self.link {
                Link::Idle { .. } => self.ask(now),
                // Before the first answer it is ignored (section 7), whatever its version.
                _ if self.first_answer => {}
                // The answer under way may be older than what this is about.
                _ => self.noted = Some(serial),
            }
            return Ok(());
        }
        self.agree(received.version)?;
        match received.pdu {
            Pdu::CacheReset => {
                let Link::Asked { reset: false, .. } = self.link else {
                    return Err(RtrError::Unexpected);
                };
                self.state = None;
                self.ask(now);
                Ok(())
            }
            Pdu::CacheResponse { session } => self.begin(session, now),
            Pdu::Prefix { announced, vrp } => self.gather(announced, vrp, now),
            // Of routers' keys (RFC 8635) and what later versions bring, nothing is used here.
            Pdu::Other => match self.link {
                Link::Answer { .. } => Ok(()),
                _ => Err(RtrError::Unexpected),
            },
            Pdu::EndOfData { session, serial, intervals } => {
                self.end(session, serial, intervals, now)
            }
            Pdu::Notify { .. } | Pdu::SerialQuery { .. } | Pdu::ResetQuery | Pdu::Error { .. } => {
                Err(RtrError::Unexpected)
            }
        }
    }

    /// A cache that knows less answers the first question in its own version
    /// (section 7); from then on it is the connection's.
    fn agree(&mut self, version: u8) -> Result<(), RtrError> {
        if version == self.version {
            self.first_answer = false;
            return Ok(());
        }
        if !self.first_answer || version > self.version {
            return Err(RtrError::Version(version));
        }
        self.version = version;
        self.first_answer = false;
        // Sessions are a version's own (section 5.1): what was asked about one
        // of another version has to be asked again.
        match self.state.take() {
            None => Ok(()),
            Some(_) => Err(RtrError::Version(version)),
        }
    }

    fn reported(&mut self, code: u16, version: u8) -> RtrError {
        // Some caches answer a serial of another session, which they had before a
        // restart, by an error and not by a reset (section 5.9): whatever it is
        // about, the next question is one for everything.
        self.state = None;
        match CacheError::from_code(code) {
            CacheError::UnsupportedVersion if version < self.version => {
                self.version = version;
                RtrError::Version(version)
            }
            CacheError::UnsupportedVersion if self.version > 0 => {
                self.version -= 1;
                RtrError::Version(version)
            }
            _ => RtrError::Reported(code),
        }
    }

    fn begin(&mut self, session: u16, now: Instant) -> Result<(), RtrError> {
        let Link::Asked { reset, .. } = self.link else { return Err(RtrError::Unexpected) };
        let vrps = match self.state {
            // Section 5.5: an answer to a serial is of the same session.
            Some((ours, _)) if !reset && ours != session => {
                self.state = None;
                return Err(RtrError::Session);
            }
            _ if reset => BTreeSet::new(),
            _ => self.vrps.clone(),
        };
        self.link = Link::Answer { vrps, reset, session, until: now + ANSWER };
        Ok(())
    }

    fn gather(&mut self, announced: bool, vrp: Vrp, now: Instant) -> Result<(), RtrError> {
        let Link::Answer { vrps, until, .. } = &mut self.link else {
            return Err(RtrError::Unexpected);
        };
        *until = now + ANSWER;
        let changed = if announced { vrps.insert(vrp) } else { vrps.remove(&vrp) };
        let too_many = vrps.len() > MOST_VRPS;
        if too_many || !changed {
            // What we have does not fit what the cache has
            // (sections 5.6 and 5.11): from the beginning, then.
            self.state = None;
            return Err(if too_many { RtrError::TooMany } else { RtrError::Inconsistent });
        }
        Ok(())
    }

    fn end(
        &mut self,
        session: u16,
        serial: u32,
        intervals: Option<Intervals>,
        now: Instant,
    ) -> Result<(), RtrError> {
        let Link::Answer { vrps, reset, session: begun, .. } = &mut self.link else {
            return Err(RtrError::Unexpected);
        };
        if *begun != session {
            return Err(RtrError::Session);
        }
        let (vrps, reset) = (std::mem::take(vrps), *reset);
        if reset {
            self.counters.resets += 1;
        } else {
            self.counters.deltas += 1;
        }
        self.news |= self.since.is_none() || vrps != self.vrps;
        self.vrps = vrps;
        self.state = Some((session, serial));
        self.since = Some(now);
        self.intervals = intervals.unwrap_or(Intervals::DEFAULT).bounded();
        self.link = Link::Idle { ask_at: now + self.intervals.refresh };
        if self.noted.is_some_and(|noted| noted != serial) {
            self.ask(now);
        }
        Ok(())
    }

    /// Asks for what changed, or for everything.
    fn ask(&mut self, now: Instant) {
        let pdu = match self.state {
            Some((session, serial)) => Pdu::SerialQuery { session, serial },
            None => Pdu::ResetQuery,
        };
        pdu.emit(self.version, &mut self.output);
        self.noted = None;
        self.link = Link::Asked { reset: self.state.is_none(), until: now + ANSWER };
    }

    /// Tells the cache what was wrong, unless that was an error itself.
    fn report(&mut self, error: &RtrError, pdu: &[u8]) {
        let code = match error {
            RtrError::Malformed(PduError::Kind(_)) => CacheError::UnsupportedPdu,
            RtrError::Malformed(_) | RtrError::Unexpected | RtrError::Session => {
                CacheError::Corrupt
            }
            RtrError::Version(_) => CacheError::UnexpectedVersion,
            RtrError::Inconsistent => CacheError::Inconsistent,
            RtrError::TooMany => CacheError::Internal,
            RtrError::Reported(_) | RtrError::Silent => return,
        };
        if !pdu::is_error(pdu) {
            pdu::emit_error(self.version, code, pdu, &mut self.output);
        }
    }

    /// What is to be sent, if anything is.
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        (!self.output.is_empty()).then(|| std::mem::take(&mut self.output))
    }

    /// When [`Self::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let link = match &self.link {
            Link::Down => None,
            Link::Idle { ask_at } => Some(*ask_at),
            Link::Asked { until, .. } | Link::Answer { until, .. } => Some(*until),
        };
        let expiry = self.since.map(|since| since + self.intervals.expire);
        link.into_iter().chain(expiry).min()
    }

    /// Does what is due.
    ///
    /// # Errors
    ///
    /// The cache owed an answer: the connection ends, as after [`Self::handle_bytes`].
    pub fn handle_timeout(&mut self, now: Instant) -> Result<(), RtrError> {
        if self.since.is_some_and(|since| since + self.intervals.expire <= now) {
            self.since = None;
            self.state = None;
            self.vrps.clear();
            // It may know more by now.
            self.version = NEWEST;
            self.news = true;
            self.counters.expired += 1;
        }
        match self.link {
            Link::Idle { ask_at } if ask_at <= now => self.ask(now),
            Link::Asked { until, .. } | Link::Answer { until, .. } if until <= now => {
                self.counters.faults += 1;
                self.forget_unanswered();
                self.link = Link::Down;
                return Err(RtrError::Silent);
            }
            _ => {}
        }
        Ok(())
    }

    /// The set; `None` where there is none, or it has expired.
    pub fn vrps(&self) -> Option<&BTreeSet<Vrp>> {
        self.since.is_some().then_some(&self.vrps)
    }

    /// Whether the set is another one since this was last asked.
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    /// Whether the next question is only one for what changed.
    pub fn knows_serial(&self) -> bool {
        self.state.is_some()
    }

    /// How long to wait before the next connection after one that failed.
    pub fn retry_after(&self) -> Duration {
        self.intervals.retry
    }

    /// What happened.
    pub fn counters(&self) -> RtrCounters {
        self.counters
    }
}

/// Clients of several caches, by preference.
#[derive(Debug)]
pub struct RtrCaches(Vec<RtrClient>);

impl RtrCaches {
    /// So many caches, the preferred one first.
    pub fn new(caches: usize) -> Self {
        Self((0..caches).map(|_| RtrClient::default()).collect())
    }

    /// The client of a cache.
    pub fn client(&mut self, cache: usize) -> Option<&mut RtrClient> {
        self.0.get_mut(cache)
    }

    /// Which cache's set is in force, and the set.
    pub fn in_force(&self) -> Option<(usize, &BTreeSet<Vrp>)> {
        self.0.iter().enumerate().find_map(|(cache, client)| Some((cache, client.vrps()?)))
    }

    /// All clients.
    pub fn iter(&self) -> impl Iterator<Item = &RtrClient> {
        self.0.iter()
    }
}

/// RFC 8210's.
const NEWEST: u8 = 1;
/// How long a cache may keep us waiting for an answer to begin, or to go on.
pub const ANSWER: Duration = Duration::from_secs(60);
/// Several times what the RPKI has today (half a million), and 200 MB.
pub const MOST_VRPS: usize = 4_000_000;
