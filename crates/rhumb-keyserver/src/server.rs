//! The key server: messages in, answers out. No sockets, no clock, no disk.
//!
//! 1. What is no question is dropped. A datagram takes a token of its source, signed or not: a
//!    signature says who wrote a message once, and not who sends it now.
//! 2. A signature, where there is one, is checked.
//! 3. A query is answered from the zone; a follower's query may be
//!    [held](Outcome::Hold) until there is something to tell.
//! 4. An update is checked and [given out to be stored](Outcome::Store); its answer is made by
//!    [`KeyServer::stored`], when it is durable.
//! 5. Over a datagram, an answer that is longer than twice its question becomes "ask over TCP".

use std::collections::HashMap;
use std::net::IpAddr;

use domain::base::iana::{Class, Opcode, Rcode, Rtype};
use domain::base::name::ToName;
use domain::base::{Message, Name};
use rhumb_capability::{
    Capability, Delegations, EpochKeys, Principal, Scheme, Suite, Window, WindowClock,
};

use crate::counters::{Counters, DropReason, Refusal};
use crate::limiter::{Allowance, Limiter};
use crate::question::KeyQuestion;
use crate::record::{self, SharedKey};
use crate::reply::{Extension, Reply, datagram_limit};
use crate::revocation::{Batch, Book};
use crate::tsig::{KeyIndex, Keyring, Signature, SignatureFault};
use crate::update::{Update, owner_text};
use crate::zone::{DomainName, Place, Zone, text_entry};

/// A waypoint whose keys the server gives out.
#[derive(Debug)]
pub struct Waypoint {
    /// The address that capabilities name.
    pub address: IpAddr,
    /// How it divides time.
    pub clock: WindowClock,
    /// How bindings for it are computed.
    pub suite: Suite,
    /// The keys of its newest epoch.
    pub keys: EpochKeys,
    /// The key by which it follows revocations; `None` for one that follows by other means.
    pub follower: Option<KeyIndex>,
}

/// What a server is made of.
#[derive(Debug)]
pub struct Config {
    /// What it serves.
    pub zone: Zone,
    /// Whose keys it gives out.
    pub waypoints: Vec<Waypoint>,
    /// To whom.
    pub principals: HashMap<Principal, SharedKey>,
    /// The keys that sign.
    pub keyring: Keyring,
    /// Those of them that may revoke.
    pub operators: Vec<KeyIndex>,
    /// Answers a second to a network that asks by datagrams.
    pub rate_per_s: u32,
    /// Random bytes, for the rate limiter.
    pub secret: [u8; 16],
}

/// How a message came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// UDP: the source may be forged.
    Datagram,
    /// TCP.
    Stream,
}

/// What becomes of a message.
#[derive(Debug)]
pub enum Outcome {
    /// Send this.
    Answer(Vec<u8>),
    /// Send nothing.
    Drop(DropReason),
    /// Store the batch, then ask [`KeyServer::stored`] for the answer. One at a time, in order.
    Store(Staged),
    /// Ask [`KeyServer::release`] whenever something has changed, and when its time is over.
    Hold(Held),
}

/// An update on its way to the disk.
#[derive(Debug)]
pub struct Staged {
    /// What to store.
    pub batch: Batch,
    request: Request,
}

/// A question that waits for something to tell.
#[derive(Debug)]
pub struct Held {
    request: Request,
    wish: Wish,
    /// When to answer at the latest, in milliseconds of Unix time.
    pub until_ms: u64,
}

#[derive(Debug, Clone, Copy)]
enum Wish {
    After(u32),
    Everywhere(u32),
}

/// A message that is to be answered.
#[derive(Debug)]
struct Request {
    message: Vec<u8>,
    transport: Transport,
    extension: Option<Extension>,
    signature: Option<Signature>,
}

/// A waypoint that follows revocations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Follower {
    /// Which waypoint.
    pub address: IpAddr,
    /// Up to which serial it has said that it has everything; `None` before its first word.
    pub serial: Option<u32>,
    /// When it last asked, in milliseconds of Unix time.
    pub seen_ms: Option<u64>,
    key: KeyIndex,
}

/// The server.
#[derive(Debug)]
pub struct KeyServer {
    zone: Zone,
    waypoints: Vec<Waypoint>,
    principals: HashMap<Principal, SharedKey>,
    keyring: Keyring,
    operators: Vec<KeyIndex>,
    followers: Vec<Follower>,
    book: Book,
    /// The newest serial of all, stored or under way.
    staged_serial: u32,
    limiter: Limiter,
    counters: Counters,
}

impl KeyServer {
    /// A server that begins with the book of a [journal](crate::journal::Journal).
    #[must_use]
    pub fn new(config: Config, book: Book) -> Self {
        let Config { zone, waypoints, principals, keyring, operators, rate_per_s, secret } = config;
        let follower = |waypoint: &Waypoint| {
            let key = waypoint.follower?;
            Some(Follower { address: waypoint.address, serial: None, seen_ms: None, key })
        };
        Self {
            zone,
            followers: waypoints.iter().filter_map(follower).collect(),
            waypoints,
            principals,
            keyring,
            operators,
            staged_serial: book.last_serial(),
            book,
            limiter: Limiter::new(secret, rate_per_s),
            counters: Counters::default(),
        }
    }

    /// Takes a message from `source` at `now_ms`, milliseconds of Unix time.
    pub fn handle(
        &mut self,
        message: &[u8],
        source: IpAddr,
        transport: Transport,
        now_ms: u64,
    ) -> Outcome {
        let Ok(parsed) = Message::from_octets(message) else {
            return self.drop(DropReason::TooShort);
        };
        if parsed.header().qr() {
            return self.drop(DropReason::NotAQuestion);
        }
        if transport == Transport::Datagram {
            match self.limiter.take(source, now_ms) {
                Allowance::Whole => {}
                Allowance::Nothing => return self.drop(DropReason::RateLimited),
                Allowance::Truncated => {
                    self.counters.truncated += 1;
                    let extension = Extension::of(&parsed).unwrap_or_default();
                    return self
                        .short(Reply::default().compose_truncated(&parsed, extension), message);
                }
            }
        }
        let signature = self.keyring.check(message, now_ms / 1000);
        let mut request =
            Request { message: message.to_vec(), transport, extension: None, signature: None };
        let faultless = match (Extension::of(&parsed), signature) {
            (Err(rcode), _) => Err((Refusal::Malformed, rcode)),
            (Ok(extension), Ok(signature)) => {
                request.extension = extension;
                request.signature = signature;
                Ok(())
            }
            (Ok(extension), Err(fault)) => {
                request.extension = extension;
                return self.refuse_signature(&request, &fault, now_ms);
            }
        };
        let handled = faultless.and_then(|()| self.dispatch(&parsed, &request, now_ms));
        match handled {
            Ok(Next::Say(reply)) => Outcome::Answer(self.finish(&request, &reply, now_ms)),
            Ok(Next::Hold(wish, until_ms)) => {
                let held = Held { request, wish, until_ms };
                match self.release(&held, now_ms) {
                    Some(answer) => Outcome::Answer(answer),
                    None => Outcome::Hold(held),
                }
            }
            Ok(Next::Store(batch)) => Outcome::Store(Staged { batch, request }),
            Err((refusal, rcode)) => {
                self.counters.refuse(refusal);
                Outcome::Answer(self.finish(&request, &Reply::of(rcode), now_ms))
            }
        }
    }

    /// The answer to an update, after its batch was stored, or not.
    pub fn stored(&mut self, staged: &Staged, is_durable: bool, now_ms: u64) -> Vec<u8> {
        let rcode = if is_durable && self.book.apply(&staged.batch) {
            self.counters.updates += 1;
            Rcode::NOERROR
        } else {
            self.counters.store_failures += 1;
            Rcode::SERVFAIL
        };
        self.finish(&staged.request, &Reply::of(rcode), now_ms)
    }

    /// The answer to a held question, when there is something to tell or its time is over.
    pub fn release(&mut self, held: &Held, now_ms: u64) -> Option<Vec<u8>> {
        let is_due = now_ms >= held.until_ms;
        let reply = match held.wish {
            Wish::After(serial) if is_due || self.book.last_serial() != serial => {
                self.words(serial, now_ms)
            }
            Wish::Everywhere(serial) if is_due || self.reached(serial) == self.followers.len() => {
                self.reach(held, serial)
            }
            Wish::After(_) | Wish::Everywhere(_) => return None,
        };
        Some(self.finish(&held.request, &reply, now_ms))
    }

    /// Forgets what is over; to be called now and then.
    pub fn sweep(&mut self, now_ms: u64) {
        self.book.sweep(now_ms / 1000);
    }

    /// Whom keys are given to from now on.
    pub fn set_principals(&mut self, principals: HashMap<Principal, SharedKey>) {
        self.principals = principals;
    }

    /// The keys of a waypoint's newest epoch, from now on.
    pub fn set_epoch(&mut self, waypoint: IpAddr, keys: EpochKeys) {
        if let Some(known) = self.waypoints.iter_mut().find(|known| known.address == waypoint) {
            known.keys = keys;
        }
    }

    /// What is revoked.
    #[must_use]
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// What is served.
    #[must_use]
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// To how many principals keys are given.
    #[must_use]
    pub fn principals(&self) -> usize {
        self.principals.len()
    }

    /// Whose keys are given.
    #[must_use]
    pub fn waypoints(&self) -> &[Waypoint] {
        &self.waypoints
    }

    /// Who follows revocations, and how far each is.
    #[must_use]
    pub fn followers(&self) -> &[Follower] {
        &self.followers
    }

    /// What happened.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    fn dispatch(
        &mut self,
        message: &Message<&[u8]>,
        request: &Request,
        now_ms: u64,
    ) -> Result<Next, (Refusal, Rcode)> {
        if request.extension.is_some_and(|extension| extension.version != 0) {
            // The reply's own form says which versions there are.
            return Err((Refusal::NotServed, Rcode::NOERROR));
        }
        match message.header().opcode() {
            Opcode::QUERY => self.query(message, request, now_ms),
            Opcode::UPDATE => self.update(message, request, now_ms).map(Next::Store),
            _ => Err((Refusal::NotServed, Rcode::NOTIMP)),
        }
    }

    fn query(
        &mut self,
        message: &Message<&[u8]>,
        request: &Request,
        now_ms: u64,
    ) -> Result<Next, (Refusal, Rcode)> {
        let question = message.sole_question().map_err(|_| (Refusal::Malformed, Rcode::FORMERR))?;
        let name: Name<Vec<u8>> = question.qname().to_name();
        let place = self.zone.place(&name);
        if place == Place::Outside || !matches!(question.qclass(), Class::IN | Class::ANY) {
            return Err((Refusal::Outside, Rcode::REFUSED));
        }
        let qtype = question.qtype();
        if [Rtype::AXFR, Rtype::IXFR].contains(&qtype) {
            return Err((Refusal::NotAllowed, Rcode::REFUSED));
        }
        match place {
            Place::Outside | Place::Nothing => Ok(Next::Say(self.negative(Rcode::NXDOMAIN))),
            Place::Apex => Ok(Next::Say(self.apex(qtype))),
            Place::NameServer => Ok(Next::Say(self.name_server(&name, qtype))),
            Place::Key(key) => Ok(Next::Say(self.key(&key, name, qtype, now_ms))),
            Place::After(_) | Place::Since(_) | Place::Everywhere(_) => {
                self.follow(&place, request, now_ms)
            }
        }
    }

    fn apex(&mut self, qtype: Rtype) -> Reply {
        let (answer, additional) = match qtype {
            // One set of records is enough of an answer to "any" (RFC 8482).
            Rtype::SOA | Rtype::ANY => (vec![self.zone.soa(self.book.last_serial())], Vec::new()),
            Rtype::NS => (self.zone.servers(), self.zone.glue()),
            _ => return self.negative(Rcode::NOERROR),
        };
        self.counters.zone += 1;
        Reply { is_authoritative: true, answer, additional, ..Reply::default() }
    }

    fn name_server(&mut self, name: &DomainName, qtype: Rtype) -> Reply {
        let mut answer = self.zone.addresses_of(name);
        answer.retain(|record| qtype == Rtype::ANY || record.rtype() == qtype);
        if answer.is_empty() {
            return self.negative(Rcode::NOERROR);
        }
        self.counters.zone += 1;
        Reply { is_authoritative: true, answer, ..Reply::default() }
    }

    fn key(&mut self, key: &KeyQuestion, name: DomainName, qtype: Rtype, now_ms: u64) -> Reply {
        let Some((record, ttl_s)) = self.record(key, now_ms) else {
            return self.negative(Rcode::NXDOMAIN);
        };
        if ![Rtype::TXT, Rtype::ANY].contains(&qtype) {
            return self.negative(Rcode::NOERROR);
        }
        self.counters.keys += 1;
        let answer = vec![text_entry(name, ttl_s, &record)];
        Reply { is_authoritative: true, answer, ..Reply::default() }
    }

    /// The sealed record of a key and how long it may be
    /// kept; `None` where there is none to be had now.
    fn record(&self, key: &KeyQuestion, now_ms: u64) -> Option<(Vec<u8>, u32)> {
        let waypoint = self.waypoints.iter().find(|known| known.address == key.waypoint)?;
        let shared_key = self.principals.get(&key.principal)?;
        if self.book.is_revoked(key.principal) {
            return None;
        }
        let now_s = now_ms / 1000;
        let current = waypoint.clock.at(now_ms * 1000).0;
        let not_after_s = waypoint.clock.not_after_s(key.window);
        let end_s = match key.window.0.wrapping_sub(current) {
            0 | 1 => waypoint.clock.end_s(key.window),
            u32::MAX if now_s < not_after_s => not_after_s,
            _ => return None,
        };
        let capability = Capability {
            waypoint: key.waypoint,
            principal: key.principal,
            flags: key.flags,
            window: key.window,
            epoch: waypoint.keys.epoch(),
            suite: waypoint.suite,
            scheme: Scheme::CaveatChain,
            delegations: Delegations::default(),
        };
        let minted = waypoint.keys.mint(capability, not_after_s).ok()?;
        let sealed = record::seal(&minted, shared_key, &self.zone.query_name(&key.label()))?;
        Some((sealed, u32::try_from(end_s.saturating_sub(now_s)).unwrap_or(0)))
    }

    fn negative(&mut self, rcode: Rcode) -> Reply {
        self.counters.negative += 1;
        let authority = vec![self.zone.soa(self.book.last_serial())];
        Reply { rcode, is_authoritative: true, authority, ..Reply::default() }
    }

    /// Questions of waypoints and operators, which are signed.
    fn follow(
        &mut self,
        place: &Place,
        request: &Request,
        now_ms: u64,
    ) -> Result<Next, (Refusal, Rcode)> {
        let denied = (Refusal::NotAllowed, Rcode::REFUSED);
        let key = request.signature.as_ref().ok_or(denied)?.key;
        let is_follower = self.followers.iter().any(|follower| follower.key == key);
        if !is_follower && !self.operators.contains(&key) {
            return Err(denied);
        }
        let hold = |wish, time_ms| match request.transport {
            Transport::Stream => Next::Hold(wish, now_ms + time_ms),
            // A datagram waits for nobody.
            Transport::Datagram => Next::Hold(wish, now_ms),
        };
        match *place {
            Place::After(serial) => {
                for follower in self.followers.iter_mut().filter(|known| known.key == key) {
                    follower.serial = Some(serial.min(self.book.last_serial()));
                    follower.seen_ms = Some(now_ms);
                }
                Ok(hold(Wish::After(serial), HOLD_WORDS_MS))
            }
            Place::Everywhere(serial) => Ok(hold(Wish::Everywhere(serial), HOLD_REACH_MS)),
            Place::Since(serial) => Ok(Next::Say(self.words(serial, now_ms))),
            _ => Err(denied),
        }
    }

    /// The words after `serial`, oldest first, under the serial up to which they are complete.
    fn words(&mut self, serial: u32, now_ms: u64) -> Reply {
        self.counters.told += 1;
        let now_s = now_ms / 1000;
        let mut words: Vec<_> = self.book.since(serial, now_s).take(MAX_TOLD + 1).collect();
        let mut complete_to = self.book.last_serial();
        if let (true, Some(cut)) = (words.len() > MAX_TOLD, words.last().map(|word| word.serial)) {
            // What is said under one serial is told together, so the last one, which may go on,
            // waits for the next answer.
            words.retain(|word| word.serial < cut);
            complete_to = words.last().map_or(cut, |word| word.serial);
        }
        let mut answer = vec![self.zone.soa(complete_to)];
        for word in words {
            let owner = self.zone.name(&owner_text(word.action, word.subject));
            let left_s = u32::try_from(word.until_s - now_s).unwrap_or(u32::MAX);
            answer.push(text_entry(owner, left_s, word.serial.to_string().as_bytes()));
        }
        Reply { is_authoritative: true, answer, ..Reply::default() }
    }

    /// How many followers have said that they have everything up to `serial`.
    fn reached(&self, serial: u32) -> usize {
        self.followers.iter().filter(|follower| follower.serial >= Some(serial)).count()
    }

    /// Who is at `serial` and who is not: `reached 1 of 2`, then who is missing.
    fn reach(&self, held: &Held, serial: u32) -> Reply {
        let Ok(message) = Message::from_octets(held.request.message.as_slice()) else {
            return Reply::of(Rcode::FORMERR);
        };
        let Ok(question) = message.sole_question() else { return Reply::of(Rcode::FORMERR) };
        let owner: DomainName = question.qname().to_name();
        let text = format!("reached {} of {}", self.reached(serial), self.followers.len());
        let mut answer = vec![text_entry(owner.clone(), 0, text.as_bytes())];
        let missing = self.followers.iter().filter(|follower| follower.serial < Some(serial));
        for follower in missing.take(MAX_MISSING) {
            let text = format!("missing {}", follower.address);
            answer.push(text_entry(owner.clone(), 0, text.as_bytes()));
        }
        Reply { is_authoritative: true, answer, ..Reply::default() }
    }

    fn update(
        &mut self,
        message: &Message<&[u8]>,
        request: &Request,
        now_ms: u64,
    ) -> Result<Batch, (Refusal, Rcode)> {
        let signature = request.signature.as_ref().ok_or((Refusal::NotAllowed, Rcode::REFUSED))?;
        if !self.operators.contains(&signature.key) {
            return Err((Refusal::NotAllowed, Rcode::REFUSED));
        }
        let update = Update::parse(message, self.zone.apex())
            .map_err(|rcode| (Refusal::BadUpdate, rcode))?;
        if update.serial <= self.staged_serial {
            return Err((Refusal::Stale, Rcode::YXRRSET));
        }
        // Keys up to the end of the next window may be out.
        let end = |waypoint: &Waypoint| {
            let next = Window(waypoint.clock.at(now_ms * 1000).0 + 1);
            waypoint.clock.not_after_s(next)
        };
        let until_s = self.waypoints.iter().map(end).max().unwrap_or(0) + MARGIN_S;
        let batch = Batch { serial: update.serial, until_s, changes: update.changes };
        if !self.book.has_room_for(&batch) {
            return Err((Refusal::BadUpdate, Rcode::SERVFAIL));
        }
        self.staged_serial = update.serial;
        Ok(batch)
    }

    fn refuse_signature(
        &mut self,
        request: &Request,
        fault: &SignatureFault,
        now_ms: u64,
    ) -> Outcome {
        self.counters.refuse(match fault {
            SignatureFault::Malformed => Refusal::Malformed,
            SignatureFault::OutOfTime(..) => Refusal::BadTime,
            SignatureFault::UnknownKey(_) | SignatureFault::Forged(_) => Refusal::BadSignature,
        });
        let Ok(message) = Message::from_octets(request.message.as_slice()) else {
            return self.drop(DropReason::TooShort);
        };
        let mut answer = Reply::of(fault.rcode()).compose(&message, request.extension);
        self.keyring.refuse(fault, &mut answer, now_ms / 1000);
        self.short(answer, &request.message)
    }

    /// The bytes of an answer: signed if its question was, and short enough.
    fn finish(&mut self, request: &Request, reply: &Reply, now_ms: u64) -> Vec<u8> {
        let Ok(message) = Message::from_octets(request.message.as_slice()) else {
            return Vec::new();
        };
        let sign = |mut answer: Vec<u8>| {
            if let Some(signature) = &request.signature {
                self.keyring.sign_answer(signature, &mut answer, now_ms / 1000);
            }
            answer
        };
        let answer = sign(reply.compose(&message, request.extension));
        let limit = match request.transport {
            Transport::Stream => return answer,
            Transport::Datagram => datagram_limit(request.message.len(), request.extension),
        };
        if answer.len() <= limit {
            return answer;
        }
        let truncated = reply.compose_truncated(&message, request.extension);
        let answer = sign(truncated.clone());
        self.counters.truncated += 1;
        if answer.len() <= limit {
            return answer;
        }
        // Names that are compressed in a question are longer when they
        // are written out: its header alone goes back.
        sign(without_sections(truncated))
    }

    /// An answer that says next to nothing, if it is short enough to be sent to whoever it is.
    fn short(&mut self, answer: Vec<u8>, question: &[u8]) -> Outcome {
        if answer.len() <= datagram_limit(question.len(), None) {
            Outcome::Answer(answer)
        } else {
            self.drop(DropReason::TooShort)
        }
    }

    fn drop(&mut self, reason: DropReason) -> Outcome {
        self.counters.drop(reason);
        Outcome::Drop(reason)
    }
}

/// The header of a message, which then says that there is nothing else.
fn without_sections(mut message: Vec<u8>) -> Vec<u8> {
    message.truncate(HEADER_LEN);
    message[COUNTS_AT..].fill(0);
    message
}

/// What a question comes to.
enum Next {
    Say(Reply),
    Hold(Wish, u64),
    Store(Batch),
}

/// Bytes of a header of DNS, and of it, from where on it counts what follows.
const HEADER_LEN: usize = 12;
const COUNTS_AT: usize = 4;
/// Words of one answer: some 20 kB. At least
/// [`MAX_BATCH`](crate::revocation::MAX_BATCH), so that every answer gets on.
const MAX_TOLD: usize = 300;
/// Below what resolvers and translators of addresses let a silent connection live.
pub const HOLD_WORDS_MS: u64 = 20_000;
/// Waypoints that follow have a word within a second; who does not by then has to be told by name.
pub const HOLD_REACH_MS: u64 = 5_000;
/// Waypoints that are missing, by name; of more, the number says enough.
const MAX_MISSING: usize = 32;
/// Clocks of key server and waypoints may differ by this much.
const MARGIN_S: u64 = 60;
const _: () = assert!(MAX_TOLD >= crate::revocation::MAX_BATCH);
