//! Transaction signatures, RFC 8945, with HMAC-SHA-256: who asks is who holds
//! the key, and the answer is to this question.
//!
//! A signature is the last record of a message. It covers the message without it, the key's name,
//! the time and, in an answer, the question's own signature: so an answer cannot be kept and shown
//! for another question. The `domain` crate has the same behind `ring` or OpenSSL; the project's
//! cryptography is aws-lc-rs alone.

mod key;

use aws_lc_rs::hmac;
use domain::base::iana::{Class, Rcode, Rtype, TsigRcode};
use domain::base::{Message, Name, ParsedName, Record, ToName, Ttl};
use domain::rdata::Tsig;
use domain::rdata::tsig::Time48;
use subtle::ConstantTimeEq;

pub use key::{FRESH_SECRET_LEN, MAX_SECRET_LEN, MIN_SECRET_LEN, TsigKey, TsigKeyError};

/// The keys that a server knows.
#[derive(Debug, Default)]
pub struct Keyring {
    keys: Vec<TsigKey>,
}

/// Which key of the [`Keyring`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyIndex(usize);

/// A message's signature that verified: whose it is, and what its answer has to cover.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// Who signed.
    pub key: KeyIndex,
    mac: Mac,
    message_len: usize,
}

/// Why a signature is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignatureFault {
    /// No message, or a signature that is not the last record or not of the form: FORMERR.
    Malformed,
    /// A key or an algorithm that is not known: BADKEY.
    UnknownKey(RefusedSignature),
    /// Not made with the key: BADSIG.
    Forged(RefusedSignature),
    /// Made at another time than now: BADTIME.
    OutOfTime(Signature, RefusedSignature),
}

/// What an answer repeats of a signature that it refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedSignature {
    name: Name<Vec<u8>>,
    algorithm: Name<Vec<u8>>,
    time_s: u64,
    message_len: usize,
}

type Mac = [u8; MAC_LEN];
type Found<'a> = Record<ParsedName<&'a [u8]>, Tsig<&'a [u8], ParsedName<&'a [u8]>>>;

impl Keyring {
    /// Adds a key.
    ///
    /// # Errors
    /// The key, when there is one of the same name.
    pub fn add(&mut self, key: TsigKey) -> Result<KeyIndex, TsigKey> {
        if self.keys.iter().any(|known| known.name() == key.name()) {
            return Err(key);
        }
        self.keys.push(key);
        Ok(KeyIndex(self.keys.len() - 1))
    }

    /// The key at `index`.
    #[must_use]
    pub fn key(&self, index: KeyIndex) -> &TsigKey {
        &self.keys[index.0]
    }

    /// Checks a question's signature; `None` when it has none.
    ///
    /// # Errors
    /// As [`SignatureFault`] says.
    pub fn check(&self, message: &[u8], now_s: u64) -> Result<Option<Signature>, SignatureFault> {
        let Some((start, found)) = find(message)? else { return Ok(None) };
        let refused = RefusedSignature {
            name: found.owner().to_name(),
            algorithm: found.data().algorithm().to_name(),
            time_s: seconds(found.data().time_signed()),
            message_len: start,
        };
        let known = self.keys.iter().position(|key| *key.name() == refused.name);
        let Some(index) = known.filter(|_| is_algorithm(&refused.algorithm)) else {
            return Err(SignatureFault::UnknownKey(refused));
        };
        let Some(mac) = verified(&self.keys[index], message, start, &found, None)? else {
            return Err(SignatureFault::Forged(refused));
        };
        let signature = Signature { key: KeyIndex(index), mac, message_len: start };
        if !is_in_time(found.data(), now_s) {
            return Err(SignatureFault::OutOfTime(signature, refused));
        }
        Ok(Some(signature))
    }

    /// Signs the answer to a question with this signature.
    pub fn sign_answer(&self, signature: &Signature, answer: &mut Vec<u8>, now_s: u64) {
        sign(self.key(signature.key), Some(&signature.mac), answer, now_s);
    }

    /// Puts the refusal of a signature into `answer`, which has its rcode set to NOTAUTH.
    pub fn refuse(&self, fault: &SignatureFault, answer: &mut Vec<u8>, now_s: u64) {
        match fault {
            SignatureFault::Malformed => {}
            SignatureFault::UnknownKey(refused) => {
                refused.append(TsigRcode::BADKEY, answer);
            }
            SignatureFault::Forged(refused) => refused.append(TsigRcode::BADSIG, answer),
            SignatureFault::OutOfTime(signature, refused) => {
                let key = self.key(signature.key);
                let now = time48(now_s).into_octets();
                let fields =
                    Fields { time_s: refused.time_s, error: TsigRcode::BADTIME, other: &now };
                let mac = compute(key, Some(&signature.mac), answer, &fields);
                append(key.name(), &algorithm(), &mac, &fields, answer);
            }
        }
    }
}

impl Signature {
    /// How long the message is without its signature.
    #[must_use]
    pub fn message_len(&self) -> usize {
        self.message_len
    }
}

impl SignatureFault {
    /// The rcode of an answer.
    #[must_use]
    pub fn rcode(&self) -> Rcode {
        match self {
            Self::Malformed => Rcode::FORMERR,
            _ => Rcode::NOTAUTH,
        }
    }
}

impl RefusedSignature {
    /// An error of BADKEY and BADSIG goes out unsigned: there
    /// is no key to sign it with (section 5.3.2).
    fn append(&self, error: TsigRcode, answer: &mut Vec<u8>) {
        let fields = Fields { time_s: self.time_s, error, other: &[] };
        append(&self.name, &self.algorithm, &[], &fields, answer);
    }
}

/// Signs a question. Returns what the answer's signature has to cover: hand it to [`check_answer`].
pub fn sign_question(key: &TsigKey, message: &mut Vec<u8>, now_s: u64) -> QuestionMac {
    QuestionMac(sign(key, None, message, now_s))
}

/// The signature of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionMac(Mac);

/// Whether an answer is signed with the key of its question, for this question, and now.
///
/// # Errors
/// The server's own word, when it says why it refused the
/// question's signature: that word may be unsigned.
pub fn check_answer(
    key: &TsigKey,
    question: &QuestionMac,
    message: &[u8],
    now_s: u64,
) -> Result<(), AnswerFault> {
    let (start, found) =
        find(message).map_err(|_| AnswerFault::Forged)?.ok_or(AnswerFault::Forged)?;
    let name: Name<Vec<u8>> = found.owner().to_name();
    let data = found.data();
    if name != *key.name() || !is_algorithm(&data.algorithm().to_name()) {
        return Err(AnswerFault::Forged);
    }
    if data.mac_slice().is_empty() && data.error() != TsigRcode::NOERROR {
        return Err(AnswerFault::Refused(data.error()));
    }
    match verified(key, message, start, &found, Some(&question.0)) {
        Ok(Some(_)) if data.error() != TsigRcode::NOERROR => {
            Err(AnswerFault::Refused(data.error()))
        }
        Ok(Some(_)) if is_in_time(data, now_s) => Ok(()),
        _ => Err(AnswerFault::Forged),
    }
}

/// Why a signed answer is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerFault {
    /// Not signed, with another key, for another question, or at another time.
    Forged,
    /// Whoever answers says that the question's signature
    /// is refused; nothing vouches for that word.
    Refused(TsigRcode),
}

/// Signs as RFC 8945, section 4.3, says.
fn sign(key: &TsigKey, question: Option<&Mac>, message: &mut Vec<u8>, now_s: u64) -> Mac {
    let fields = Fields { time_s: now_s, error: TsigRcode::NOERROR, other: &[] };
    let mac = compute(key, question, message, &fields);
    append(key.name(), &algorithm(), &mac, &fields, message);
    mac
}

/// What a signature says besides the key and the MAC.
struct Fields<'a> {
    time_s: u64,
    error: TsigRcode,
    other: &'a [u8],
}

fn compute(key: &TsigKey, question: Option<&Mac>, message: &[u8], fields: &Fields<'_>) -> Mac {
    let mut hmac = key.hmac();
    if let Some(mac) = question {
        hmac.update(&(MAC_LEN as u16).to_be_bytes());
        hmac.update(mac);
    }
    hmac.update(message);
    finish(hmac, key, fields.time_s, FUDGE_S, fields.error, fields.other)
}

/// The TSIG variables, section 4.3.3, and the end.
fn finish(
    mut hmac: hmac::Context,
    key: &TsigKey,
    time_s: u64,
    fudge_s: u16,
    error: TsigRcode,
    other: &[u8],
) -> Mac {
    hmac.update(key.name().as_slice());
    hmac.update(&Class::ANY.to_int().to_be_bytes());
    hmac.update(&0u32.to_be_bytes());
    hmac.update(ALGORITHM_NAME);
    hmac.update(&time48(time_s).into_octets());
    hmac.update(&fudge_s.to_be_bytes());
    hmac.update(&error.to_int().to_be_bytes());
    hmac.update(&(other.len() as u16).to_be_bytes());
    hmac.update(other);
    let mut mac = [0; MAC_LEN];
    mac.copy_from_slice(hmac.sign().as_ref());
    mac
}

/// Appends the record and counts it.
fn append(
    name: &Name<Vec<u8>>,
    algorithm: &Name<Vec<u8>>,
    mac: &[u8],
    fields: &Fields<'_>,
    message: &mut Vec<u8>,
) {
    let id = u16::from_be_bytes([message[0], message[1]]);
    let time = time48(fields.time_s);
    let tsig = Tsig::new(algorithm.clone(), time, FUDGE_S, mac, id, fields.error, fields.other)
        .expect("invariant: a MAC and a time are short");
    let record = Record::new(name.clone(), Class::ANY, Ttl::ZERO, tsig);
    record.compose(message).expect("invariant: a Vec grows");
    let count = u16::from_be_bytes([message[10], message[11]]).saturating_add(1);
    message[10..12].copy_from_slice(&count.to_be_bytes());
}

/// The signature record and where it begins. It has to be the last record, and the last bytes.
fn find(message: &[u8]) -> Result<Option<(usize, Found<'_>)>, SignatureFault> {
    let malformed = |_| SignatureFault::Malformed;
    let parsed = Message::from_octets(message).map_err(|_| SignatureFault::Malformed)?;
    for section in [parsed.answer().map_err(malformed)?, parsed.authority().map_err(malformed)?] {
        for record in section {
            if record.map_err(malformed)?.rtype() == Rtype::TSIG {
                return Err(SignatureFault::Malformed);
            }
        }
    }
    let mut section = parsed.additional().map_err(malformed)?;
    let mut found = None;
    let mut start = section.pos();
    while let Some(record) = section.next() {
        let record = record.map_err(malformed)?;
        if found.is_some() {
            return Err(SignatureFault::Malformed);
        }
        if record.rtype() == Rtype::TSIG {
            found = Some((start, record));
        }
        start = section.pos();
    }
    let Some((begin, record)) = found else { return Ok(None) };
    if start != message.len() || record.class() != Class::ANY || record.ttl() != Ttl::ZERO {
        return Err(SignatureFault::Malformed);
    }
    let record = record.to_record().map_err(malformed)?.ok_or(SignatureFault::Malformed)?;
    Ok(Some((begin, record)))
}

/// The MAC of a message whose signature begins at
/// `start`; `None` when it was not made with the key.
fn verified(
    key: &TsigKey,
    message: &[u8],
    start: usize,
    found: &Found<'_>,
    question: Option<&Mac>,
) -> Result<Option<Mac>, SignatureFault> {
    let tsig = found.data();
    let given = tsig.mac_slice();
    // Section 5.2.2.1: longer than the hash, or shorter than half of it, is no MAC at all.
    if !(MAC_LEN / 2..=MAC_LEN).contains(&given.len()) {
        return Err(SignatureFault::Malformed);
    }
    let mut hmac = key.hmac();
    if let Some(mac) = question {
        hmac.update(&(MAC_LEN as u16).to_be_bytes());
        hmac.update(mac);
    }
    let mut head = [0; 12];
    head.copy_from_slice(&message[..12]);
    head[..2].copy_from_slice(&tsig.original_id().to_be_bytes());
    let count = u16::from_be_bytes([head[10], head[11]]).saturating_sub(1);
    head[10..].copy_from_slice(&count.to_be_bytes());
    hmac.update(&head);
    hmac.update(&message[12..start]);
    let time_s = seconds(tsig.time_signed());
    let mac = finish(hmac, key, time_s, tsig.fudge(), tsig.error(), tsig.other());
    // A truncated MAC never equals a whole one: local policy is the whole one.
    Ok(bool::from(mac.ct_eq(given)).then_some(mac))
}

fn is_in_time<O: AsRef<[u8]>, N>(tsig: &Tsig<O, N>, now_s: u64) -> bool {
    let allowed = u64::from(tsig.fudge().min(FUDGE_S));
    seconds(tsig.time_signed()).abs_diff(now_s) <= allowed
}

fn is_algorithm(name: &Name<Vec<u8>>) -> bool {
    name.name_eq(&algorithm())
}

fn algorithm() -> Name<Vec<u8>> {
    Name::from_octets(ALGORITHM_NAME.to_vec()).expect("invariant: it is a name")
}

fn seconds(time: Time48) -> u64 {
    let octets = time.into_octets();
    octets.iter().fold(0, |sum, octet| sum << 8 | u64::from(*octet))
}

fn time48(time_s: u64) -> Time48 {
    Time48::from_u64(time_s & ((1 << 48) - 1))
}

/// Clocks of server and client may differ by this much (section 10 recommends
/// it); a larger wish of a client is cut to it.
pub const FUDGE_S: u16 = 300;
/// SHA-256's output.
const MAC_LEN: usize = 32;
/// `hmac-sha256.` on the wire.
const ALGORITHM_NAME: &[u8] = b"\x0bhmac-sha256\0";

#[cfg(test)]
mod tests {
    use super::*;
    use domain::base::{MessageBuilder, Rtype};

    const NOW_S: u64 = 1_800_000_000;

    fn key(secret: u8) -> TsigKey {
        TsigKey::new("Operator.example", &[secret; 32]).unwrap()
    }

    fn ring(secret: u8) -> Keyring {
        let mut ring = Keyring::default();
        ring.add(key(secret)).unwrap();
        ring
    }

    fn question() -> Vec<u8> {
        let mut builder = MessageBuilder::new_vec();
        builder.header_mut().set_id(7);
        let mut question = builder.question();
        let name = Name::<Vec<u8>>::vec_from_str("_k.example.net").unwrap();
        question.push((name, Rtype::SOA)).unwrap();
        question.finish()
    }

    #[test]
    fn question_and_answer_verify_in_their_time() {
        let mut message = question();
        let plain_len = message.len();
        let question_mac = sign_question(&key(1), &mut message, NOW_S);
        let ring = ring(1);
        for (now_s, good) in
            [(NOW_S - 301, false), (NOW_S - 300, true), (NOW_S + 300, true), (NOW_S + 301, false)]
        {
            let checked = ring.check(&message, now_s);
            match good {
                true => assert_eq!(checked.unwrap().unwrap().message_len(), plain_len),
                false => assert!(matches!(checked, Err(SignatureFault::OutOfTime(..)))),
            }
        }
        let signature = ring.check(&message, NOW_S).unwrap().unwrap();
        let mut answer = question();
        ring.sign_answer(&signature, &mut answer, NOW_S + 1);
        assert_eq!(check_answer(&key(1), &question_mac, &answer, NOW_S), Ok(()));
        let late = check_answer(&key(1), &question_mac, &answer, NOW_S + 302);
        assert_eq!(late, Err(AnswerFault::Forged));
        // The same answer for another question.
        let mut other = question();
        let other_mac = sign_question(&key(1), &mut other, NOW_S + 1);
        let kept = check_answer(&key(1), &other_mac, &answer, NOW_S);
        assert_eq!(kept, Err(AnswerFault::Forged));
    }

    #[test]
    fn each_bit_counts() {
        let mut message = question();
        sign_question(&key(1), &mut message, NOW_S);
        let ring = ring(1);
        // The id is restored from the signature, so that a forwarder may change it.
        for bit in 16..message.len() * 8 {
            let mut changed = message.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let checked = ring.check(&changed, NOW_S);
            // The case of the key's and the algorithm's name means nothing, and the bits of a
            // record's count or type may hide it.
            let same = changed.eq_ignore_ascii_case(&message);
            assert!(same || !matches!(checked, Ok(Some(_))), "bit {bit}: {checked:?}");
        }
        let mut longer = message.clone();
        longer.push(0);
        assert_eq!(ring.check(&longer, NOW_S), Err(SignatureFault::Malformed));
        assert_eq!(ring.check(&question(), NOW_S), Ok(None));
        for len in 0..message.len() {
            assert!(!matches!(ring.check(&message[..len], NOW_S), Ok(Some(_))));
        }
    }

    #[test]
    fn refusals_say_why_to_who_asked() {
        let mut message = question();
        let mac = sign_question(&key(1), &mut message, NOW_S);
        let told = |ring: &Keyring, now_s| {
            let fault = ring.check(&message, now_s).unwrap_err();
            assert_eq!(fault.rcode(), Rcode::NOTAUTH);
            let mut answer = question();
            ring.refuse(&fault, &mut answer, now_s);
            check_answer(&key(1), &mac, &answer, now_s)
        };
        let refused = |error| Err(AnswerFault::Refused(error));
        assert_eq!(told(&Keyring::default(), NOW_S), refused(TsigRcode::BADKEY));
        assert_eq!(told(&ring(2), NOW_S), refused(TsigRcode::BADSIG));
        assert_eq!(told(&ring(1), NOW_S + 1000), refused(TsigRcode::BADTIME));
    }
}
