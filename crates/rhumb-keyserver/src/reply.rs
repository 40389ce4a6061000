//! From what is to be said to the bytes of an answer, and how many bytes a datagram may have.

use domain::base::iana::{OptRcode, Rcode, Rtype};
use domain::base::message_builder::StaticCompressor;
use domain::base::{Message, MessageBuilder, Name, Record};
use domain::rdata::ZoneRecordData;

/// A record of an answer.
pub(crate) type Entry = Record<Name<Vec<u8>>, ZoneRecordData<Vec<u8>, Name<Vec<u8>>>>;

/// What is to be said.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) rcode: Rcode,
    /// Whether we are an authority for this.
    pub(crate) is_authoritative: bool,
    pub(crate) answer: Vec<Entry>,
    pub(crate) authority: Vec<Entry>,
    pub(crate) additional: Vec<Entry>,
}

/// What a question says in its OPT record (RFC 6891).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extension {
    /// The largest datagram that can be taken.
    pub(crate) payload_size: u16,
    /// 0 is the only one there is.
    pub(crate) version: u8,
}

impl Default for Reply {
    fn default() -> Self {
        Self::of(Rcode::NOERROR)
    }
}

impl Reply {
    /// Nothing but a code.
    pub(crate) fn of(rcode: Rcode) -> Self {
        let (answer, authority, additional) = (Vec::new(), Vec::new(), Vec::new());
        Self { rcode, is_authoritative: false, answer, authority, additional }
    }

    /// The bytes of the answer to `question`.
    pub(crate) fn compose(
        &self,
        question: &Message<&[u8]>,
        extension: Option<Extension>,
    ) -> Vec<u8> {
        let is_version_known = extension.is_none_or(|extension| extension.version == 0);
        let code = if is_version_known { OptRcode::from(self.rcode) } else { OptRcode::BADVERS };
        self.write(question, extension.map(|_| code), is_version_known, false)
    }

    /// The bytes that say: ask over TCP.
    pub(crate) fn compose_truncated(
        &self,
        question: &Message<&[u8]>,
        extension: Option<Extension>,
    ) -> Vec<u8> {
        let code = extension.map(|_| OptRcode::from(self.rcode));
        self.write(question, code, false, true)
    }

    fn write(
        &self,
        question: &Message<&[u8]>,
        opt_code: Option<OptRcode>,
        is_whole: bool,
        is_truncated: bool,
    ) -> Vec<u8> {
        let builder = MessageBuilder::from_target(StaticCompressor::new(Vec::new()))
            .expect("invariant: a Vec takes a header");
        let rcode = opt_code.map_or(self.rcode, OptRcode::rcode);
        let mut answer = builder.start_error(question, rcode);
        answer.header_mut().set_aa(self.is_authoritative);
        answer.header_mut().set_tc(is_truncated);
        let room = "invariant: a Vec grows, and counts stay below the bound of a feed's answer";
        if is_whole {
            self.answer.iter().for_each(|record| answer.push(record).expect(room));
        }
        let mut authority = answer.authority();
        if is_whole {
            self.authority.iter().for_each(|record| authority.push(record).expect(room));
        }
        let mut additional = authority.additional();
        if is_whole {
            self.additional.iter().for_each(|record| additional.push(record).expect(room));
        }
        if let Some(code) = opt_code {
            let pushed = additional.opt(|opt| {
                opt.set_udp_payload_size(OUR_PAYLOAD_SIZE);
                opt.set_rcode(code);
                Ok(())
            });
            pushed.expect(room);
        }
        additional.finish().into_target()
    }
}

impl Extension {
    /// The OPT record of a question; `Err` when there are several.
    pub(crate) fn of(message: &Message<&[u8]>) -> Result<Option<Self>, Rcode> {
        let additional = message.additional().map_err(|_| Rcode::FORMERR)?;
        let mut count = 0;
        for record in additional {
            let record = record.map_err(|_| Rcode::FORMERR)?;
            count += usize::from(record.rtype() == Rtype::OPT);
        }
        match (count, message.opt()) {
            (0, _) => Ok(None),
            (1, Some(opt)) => {
                Ok(Some(Self { payload_size: opt.udp_payload_size(), version: opt.version() }))
            }
            _ => Err(Rcode::FORMERR),
        }
    }
}

/// The most that a datagram may have which answers `question_len` bytes: never more than twice as
/// many, so that nobody is worth flooding through us; never more than the asker takes.
pub(crate) fn datagram_limit(question_len: usize, extension: Option<Extension>) -> usize {
    let accepted = extension.map_or(PLAIN_LIMIT, |extension| {
        usize::from(extension.payload_size.clamp(PLAIN_LIMIT as u16, OUR_PAYLOAD_SIZE))
    });
    accepted.min(MAX_AMPLIFICATION * question_len)
}

/// A datagram answers at most this many times the question's bytes.
pub const MAX_AMPLIFICATION: usize = 2;
/// What everybody takes (RFC 1035, section 4.2.1).
const PLAIN_LIMIT: usize = 512;
/// Passes every network in one piece: the value of DNS flag day 2020.
const OUR_PAYLOAD_SIZE: u16 = 1232;
