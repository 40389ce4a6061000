//! An operator's side: the questions and updates that revoke, and what their answers say.

use domain::base::iana::{Class, Opcode, Rcode, Rtype};
use domain::base::{Message, MessageBuilder, Record, Ttl};
use domain::rdata::{Soa, Txt};

use crate::revocation::{Action, Subject};
use crate::tsig::{AnswerFault, QuestionMac, TsigKey, check_answer, sign_question};
use crate::update::owner_text;
use crate::zone::{DomainName, Zone, ZoneError, text_entry};

/// One who revokes, over one connection; a question at a time.
#[derive(Debug)]
pub struct Operator {
    zone: Zone,
    key: TsigKey,
    pending: Option<(u16, QuestionMac)>,
}

/// How far a serial has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// Waypoints that have it.
    pub reached: usize,
    /// Waypoints that follow at all.
    pub followers: usize,
    /// The addresses of some of those that have not.
    pub missing: Vec<String>,
}

/// Why a key server did not do as it was told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OperatorError {
    /// The answer is not signed with the key, or not for this question.
    #[error("the answer is not signed with this key; is it the right server?")]
    Forged,
    /// The server does not know the key, or has another secret or clock.
    #[error(
        "the key server refuses the signature: {0}; compare key files (BADKEY, BADSIG) or \
         clocks (BADTIME)"
    )]
    KeyRefused(String),
    /// The serial is not above the last one.
    #[error("the serial is not above the last one; leave --serial out")]
    Stale,
    /// Not allowed with this key, or not of the form.
    #[error("the key server refuses: is the key that of an operator?")]
    Refused,
    /// The server's disk failed, or its book is full.
    #[error("the key server could not store the revocation; see its log and its disk")]
    NotStored,
    /// Another rcode.
    #[error("the key server answers {0}; is it the right zone?")]
    Other(String),
    /// Signed, and not as it has to be.
    #[error("the key server's answer cannot be read")]
    Malformed,
}

impl Operator {
    /// An operator of the zone `apex`.
    ///
    /// # Errors
    /// When the zone is none.
    pub fn new(apex: &str, key: TsigKey) -> Result<Self, ZoneError> {
        Ok(Self { zone: Zone::elsewhere(apex)?, key, pending: None })
    }

    /// Asks for the newest serial, under a random `id`.
    pub fn last_serial(&mut self, id: u16, now_s: u64) -> Vec<u8> {
        self.question(self.zone.apex().clone(), Rtype::SOA, id, now_s)
    }

    /// Reads the answer to [`Operator::last_serial`].
    ///
    /// # Errors
    /// As [`OperatorError`] says.
    pub fn read_serial(&mut self, answer: &[u8], now_s: u64) -> Result<u32, OperatorError> {
        let message = self.check(answer, now_s)?;
        let soa = message.answer().ok().and_then(|answer| answer.limit_to::<Soa<_>>().next());
        let soa = soa.and_then(Result::ok).ok_or(OperatorError::Malformed)?;
        Ok(soa.data().serial().into_int())
    }

    /// Says something about some subjects, under a serial above all before.
    pub fn update(
        &mut self,
        serial: u32,
        changes: &[(Action, Subject)],
        id: u16,
        now_s: u64,
    ) -> Vec<u8> {
        let room = "invariant: a Vec grows";
        let mut builder = MessageBuilder::new_vec();
        builder.header_mut().set_id(id);
        builder.header_mut().set_opcode(Opcode::UPDATE);
        let mut zone = builder.question();
        zone.push((self.zone.apex(), Rtype::SOA, Class::IN)).expect(room);
        let mut section = zone.authority();
        for (action, subject) in changes {
            let owner = self.zone.name(&owner_text(*action, *subject));
            let record = text_entry(owner, 0, serial.to_string().as_bytes());
            let (owner, data) = record.into_owner_and_data();
            section.push(Record::new(owner, Class::IN, Ttl::ZERO, data)).expect(room);
        }
        self.sign(section.finish(), id, now_s)
    }

    /// Reads the answer to [`Operator::update`].
    ///
    /// # Errors
    /// As [`OperatorError`] says; [`OperatorError::Stale`] when the serial was not new.
    pub fn read_update(&mut self, answer: &[u8], now_s: u64) -> Result<(), OperatorError> {
        self.check(answer, now_s).map(|_| ())
    }

    /// Asks which waypoints have a serial. The server answers when all have, or after
    /// [`HOLD_REACH_MS`](crate::server::HOLD_REACH_MS).
    pub fn everywhere(&mut self, serial: u32, id: u16, now_s: u64) -> Vec<u8> {
        self.question(self.zone.name(&format!("{serial}.everywhere")), Rtype::TXT, id, now_s)
    }

    /// Reads the answer to [`Operator::everywhere`].
    ///
    /// # Errors
    /// As [`OperatorError`] says.
    pub fn read_reach(&mut self, answer: &[u8], now_s: u64) -> Result<Reach, OperatorError> {
        let message = self.check(answer, now_s)?;
        let answer = message.answer().map_err(|_| OperatorError::Malformed)?;
        let mut reach = None;
        let mut missing = Vec::new();
        for text in answer.limit_to::<Txt<_>>() {
            let text = text.map_err(|_| OperatorError::Malformed)?;
            let text: Vec<u8> = text.data().iter().flatten().copied().collect();
            let text = String::from_utf8(text).map_err(|_| OperatorError::Malformed)?;
            match text.split(' ').collect::<Vec<_>>()[..] {
                ["reached", reached, "of", followers] => {
                    reach = reached.parse().ok().zip(followers.parse().ok());
                }
                ["missing", address] => missing.push(address.to_owned()),
                _ => return Err(OperatorError::Malformed),
            }
        }
        let (reached, followers) = reach.ok_or(OperatorError::Malformed)?;
        Ok(Reach { reached, followers, missing })
    }

    fn question(&mut self, name: DomainName, qtype: Rtype, id: u16, now_s: u64) -> Vec<u8> {
        let mut builder = MessageBuilder::new_vec();
        builder.header_mut().set_id(id);
        let mut question = builder.question();
        question.push((name, qtype)).expect("invariant: a Vec grows");
        self.sign(question.finish(), id, now_s)
    }

    fn sign(&mut self, mut message: Vec<u8>, id: u16, now_s: u64) -> Vec<u8> {
        let mac = sign_question(&self.key, &mut message, now_s);
        self.pending = Some((id, mac));
        message
    }

    fn check<'a>(
        &mut self,
        answer: &'a [u8],
        now_s: u64,
    ) -> Result<Message<&'a [u8]>, OperatorError> {
        let (id, mac) = self.pending.take().ok_or(OperatorError::Forged)?;
        match check_answer(&self.key, &mac, answer, now_s) {
            Ok(()) => {}
            Err(AnswerFault::Forged) => return Err(OperatorError::Forged),
            Err(AnswerFault::Refused(code)) => {
                return Err(OperatorError::KeyRefused(code.to_string()));
            }
        }
        let message = Message::from_octets(answer).map_err(|_| OperatorError::Malformed)?;
        if message.header().id() != id || !message.header().qr() {
            return Err(OperatorError::Forged);
        }
        match message.header().rcode() {
            Rcode::NOERROR => Ok(message),
            Rcode::YXRRSET => Err(OperatorError::Stale),
            Rcode::REFUSED => Err(OperatorError::Refused),
            Rcode::SERVFAIL => Err(OperatorError::NotStored),
            code => Err(OperatorError::Other(code.to_string())),
        }
    }
}
