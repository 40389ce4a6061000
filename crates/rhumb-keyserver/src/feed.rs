//! A waypoint's side: follows the key server's book over one TCP connection.
//!
//! 1. [`RevocationFeed::question`] makes a signed question: at first, and after a fault, "what is
//!    there since serial N?", which is answered at once; then "what comes after serial N?", which
//!    also says that everything up to N is in force here.
//! 2. The server answers that one as soon as there is something, or
//!    after [`HOLD_WORDS_MS`] that there is nothing.
//! 3. [`RevocationFeed::handle_answer`] checks the signature, which covers the question's,
//!    so that no old answer passes, and takes the words. Then 1 again, over the same
//!    connection; after a fault over another one.
//!
//! A feed that loses its server goes on with what it has, and says since when
//! ([`RevocationFeed::current_ms`]).

use std::io::{self, Read, Write};

use domain::base::iana::{Class, Rcode, Rtype};
use domain::base::{Message, MessageBuilder, Name, ToName};
use domain::rdata::{Soa, Txt};
use rhumb_capability::{CapabilityError, Revocation, Revocations};

use crate::kept::{self, KeptError};
use crate::revocation::{Action, Batch, Book, Subject};
use crate::server::HOLD_WORDS_MS;
use crate::tsig::{AnswerFault, QuestionMac, TsigKey, check_answer, sign_question};
use crate::update::{parse_owner, parse_serial};
use crate::zone::{AFTER, SINCE, Zone, ZoneError};

/// What a waypoint knows of revocations, and how it comes to know more.
#[derive(Debug)]
pub struct RevocationFeed {
    zone: Zone,
    key: TsigKey,
    book: Book,
    pending: Option<(u16, QuestionMac)>,
    current_ms: Option<u64>,
    /// Whether the server has answered since the last fault.
    is_joined: bool,
}

/// Why an answer is not taken. The connection is of no use any more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FeedError {
    /// The connection failed, or nothing came in time.
    #[error("the connection failed: {0}")]
    Connection(#[source] io::Error),
    /// Not the answer to the question, or not signed with the key for it.
    #[error("an answer is not signed with the key for its question")]
    Forged,
    /// The server does not know the key, or has another secret
    /// or clock: `BADKEY`, `BADSIG` or `BADTIME`.
    #[error("the key server refuses the signature: {0}; compare key files and clocks")]
    KeyRefused(String),
    /// The server refuses the question, with this rcode.
    #[error("the key server refuses the question: {0}; is the key that of a waypoint?")]
    Refused(String),
    /// The server knows fewer revocations than are in force here: it
    /// lost its journal. What is known here stays.
    #[error(
        "the key server is at serial {theirs}, and {ours} is in force here; did it lose its journal?"
    )]
    Backward {
        /// The newest serial here.
        ours: u32,
        /// The newest serial there.
        theirs: u32,
    },
    /// The answer is signed, and not as it has to be.
    #[error("the key server's answer cannot be read")]
    Malformed,
}

impl RevocationFeed {
    /// A feed of the zone `apex`, signed with the waypoint's own key. Nothing is revoked yet.
    ///
    /// # Errors
    /// When the zone is none.
    pub fn new(apex: &str, key: TsigKey) -> Result<Self, ZoneError> {
        let zone = Zone::elsewhere(apex)?;
        Ok(Self {
            zone,
            key,
            book: Book::default(),
            pending: None,
            current_ms: None,
            is_joined: false,
        })
    }

    /// What is known as a text for [`RevocationFeed::resume`], to be kept while nobody follows.
    /// `None` when the server told more than a book is to have.
    #[must_use]
    pub fn keep(&self) -> Option<String> {
        kept::write(self.zone.text(), &self.book)
    }

    /// Begins with what was kept, in place of nothing: it is in force at once,
    /// and the server is asked for what came since.
    ///
    /// # Errors
    /// When the text is not whole, or of another zone. Nothing of it is taken then.
    pub fn resume(&mut self, text: &str, now_s: u64) -> Result<(), KeptError> {
        let mut book = kept::read(self.zone.text(), text)?;
        book.expire(now_s);
        self.book = book;
        (self.pending, self.is_joined, self.current_ms) = (None, false, None);
        Ok(())
    }

    /// The next question, under a random `id`.
    pub fn question(&mut self, id: u16, now_ms: u64) -> Vec<u8> {
        let verb = if self.is_joined { AFTER } else { SINCE };
        let name = self.zone.name(&format!("{}.{verb}", self.book.last_serial()));
        let mut builder = MessageBuilder::new_vec();
        builder.header_mut().set_id(id);
        let mut question = builder.question();
        question.push((name, Rtype::TXT)).expect("invariant: a Vec grows");
        let mut message = question.finish();
        let mac = sign_question(&self.key, &mut message, now_ms / 1000);
        self.pending = Some((id, mac));
        message
    }

    /// Takes the answer to the last question. Returns whether anything changed.
    ///
    /// # Errors
    /// As [`FeedError`] says.
    pub fn handle_answer(&mut self, message: &[u8], now_ms: u64) -> Result<bool, FeedError> {
        self.is_joined = false;
        let (id, mac) = self.pending.take().ok_or(FeedError::Forged)?;
        match check_answer(&self.key, &mac, message, now_ms / 1000) {
            Ok(()) => {}
            Err(AnswerFault::Forged) => return Err(FeedError::Forged),
            Err(AnswerFault::Refused(code)) => return Err(FeedError::KeyRefused(code.to_string())),
        }
        let message = Message::from_octets(message).map_err(|_| FeedError::Malformed)?;
        if message.header().id() != id || !message.header().qr() {
            return Err(FeedError::Forged);
        }
        if message.header().rcode() != Rcode::NOERROR {
            return Err(FeedError::Refused(message.header().rcode().to_string()));
        }
        let (serial, batches) =
            read_words(&message, &self.zone, now_ms / 1000).ok_or(FeedError::Malformed)?;
        let ours = self.book.last_serial();
        if serial < ours {
            return Err(FeedError::Backward { ours, theirs: serial });
        }
        for batch in batches {
            self.book.apply(&batch);
        }
        let changed = self.book.last_serial() > ours;
        if serial > self.book.last_serial() {
            self.book.apply(&Batch { serial, until_s: 0, changes: Vec::new() });
        }
        self.book.expire(now_ms / 1000);
        self.current_ms = Some(now_ms);
        self.is_joined = true;
        Ok(changed)
    }

    /// One question and its answer over a blocking stream,
    /// whose time to read is at least [`EXCHANGE_MS`].
    ///
    /// # Errors
    /// As [`FeedError`] says.
    pub fn exchange<S: Read + Write>(
        &mut self,
        stream: &mut S,
        id: u16,
        mut now_ms: impl FnMut() -> u64,
    ) -> Result<bool, FeedError> {
        let question = self.question(id, now_ms());
        let answer = ask_over_stream(stream, &question).map_err(|error| {
            self.is_joined = false;
            FeedError::Connection(error)
        })?;
        self.handle_answer(&answer, now_ms())
    }

    /// The serial up to which everything is known.
    #[must_use]
    pub fn serial(&self) -> u32 {
        self.book.last_serial()
    }

    /// When the server last said that nothing is missing, in milliseconds of Unix time.
    #[must_use]
    pub fn current_ms(&self) -> Option<u64> {
        self.current_ms
    }

    /// What is revoked: for a verifier, in place of what it has.
    ///
    /// # Errors
    /// When there are more than a verifier takes.
    pub fn revocations(&self, now_s: u64) -> Result<Revocations, CapabilityError> {
        let mut set = Revocations::new();
        let revoked = self.book.since(0, now_s).filter(|word| word.action == Action::Revoke);
        let orders: Vec<Revocation> = revoked
            .map(|word| Revocation {
                principal: word.subject.principal,
                delegation: word.subject.delegation,
                until_s: word.until_s,
            })
            .collect();
        set.apply(self.serial().into(), &orders)?;
        Ok(set)
    }
}

/// The serial of an answer and its words, in batches by serial.
fn read_words(message: &Message<&[u8]>, zone: &Zone, now_s: u64) -> Option<(u32, Vec<Batch>)> {
    let mut records = message.answer().ok()?;
    let first = records.next()?.ok()?;
    let soa = first.to_record::<Soa<_>>().ok()??;
    let serial = soa.data().serial().into_int();
    let mut batches: Vec<Batch> = Vec::new();
    for record in records {
        let record = record.ok()?;
        if record.class() != Class::IN {
            return None;
        }
        let text = record.to_record::<Txt<_>>().ok()??;
        let owner: Name<Vec<u8>> = text.owner().to_name();
        let change: (Action, Subject) = parse_owner(&owner, zone.apex())?;
        let its_serial = parse_serial(text.data()).filter(|its_serial| *its_serial <= serial)?;
        let until_s = now_s + u64::from(text.ttl().as_secs());
        match batches.last_mut() {
            Some(last) if last.serial == its_serial => {
                last.until_s = last.until_s.max(until_s);
                last.changes.push(change);
            }
            Some(last) if last.serial > its_serial => return None,
            _ => batches.push(Batch { serial: its_serial, until_s, changes: vec![change] }),
        }
    }
    Some((serial, batches))
}

/// One message over a stream and the next one that comes
/// back, each with its length in front (RFC 7766).
///
/// # Errors
/// Those of the stream.
pub fn ask_over_stream<S: Read + Write>(stream: &mut S, question: &[u8]) -> io::Result<Vec<u8>> {
    let len = u16::try_from(question.len()).map_err(io::Error::other)?;
    // In one write, so that it is one segment.
    stream.write_all(&[&len.to_be_bytes(), question].concat())?;
    let mut len = [0; 2];
    stream.read_exact(&mut len)?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(len))];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

/// The most that a question may take: the server's holding it, and a slow way there and back.
pub const EXCHANGE_MS: u64 = HOLD_WORDS_MS + 5_000;
