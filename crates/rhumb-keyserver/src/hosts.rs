//! A zone of hosts that have addresses of IPv6 and nothing else, for programs of one machine: from
//! a question to the bytes of its answer. Which hosts there are is for the caller to say.
//!
//! Invariant: nothing here panics, whatever the bytes; nothing is asked of anybody else; and hosts
//! outside of the zone are refused, whoever they are.

use std::net::Ipv6Addr;

use domain::base::iana::{Class, Opcode, Rcode, Rtype};
use domain::base::name::ToName;
use domain::base::{Message, Question, Record, Serial, Ttl};
use domain::rdata::{Aaaa, Soa, ZoneRecordData};

use crate::reply::{Entry, Extension, Reply};
use crate::zone::DomainName;

/// What a host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    /// Somebody's, who has this address.
    Address(Ipv6Addr),
    /// Nobody's, but a host below it is somebody's.
    Between,
    /// Nobody's.
    Nobody,
    /// Somebody's whose address leads to somebody else.
    Taken,
    /// Whose it is could not be found out.
    NotKnown,
}

/// What became of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    /// It is somebody's host, and this is its address.
    Address,
    /// It is there, and has nothing of what was asked for, such as an address of IPv4.
    NoData,
    /// It is nobody's host.
    NoSuchHost,
    /// Its address leads to somebody else.
    AddressTaken,
    /// Whose host it is could not be found out.
    NotKnown,
    /// It is not for us to say, or not to be asked of us.
    Refused,
    /// It is no question, or several, or cannot be read: nothing.
    Malformed,
}

impl Answered {
    /// Each, and its label in metrics.
    pub const ALL: [(Self, &'static str); 7] = [
        (Self::Address, "address"),
        (Self::NoData, "no_data"),
        (Self::NoSuchHost, "no_such_host"),
        (Self::AddressTaken, "address_taken"),
        (Self::NotKnown, "not_known"),
        (Self::Refused, "refused"),
        (Self::Malformed, "malformed"),
    ];
}

/// The answer of `zone` to a message, if there is anything to be said. `find` is asked about hosts
/// below the zone, in the text form of DNS.
pub fn answer(
    zone: &DomainName,
    message: &[u8],
    find: impl FnOnce(&str) -> Host,
) -> (Answered, Option<Vec<u8>>) {
    let Ok(message) = Message::from_octets(message) else { return (Answered::Malformed, None) };
    if message.header().qr() {
        return (Answered::Malformed, None);
    }
    // What several questions ask would have to be repeated to whoever asks them.
    let (Ok(extension), Ok(question)) = (Extension::of(&message), message.sole_question()) else {
        return (Answered::Malformed, None);
    };
    let (answered, reply) = match extension {
        // The form of the reply says which versions there are.
        Some(it) if it.version != 0 => (Answered::Refused, Reply::default()),
        _ if message.header().opcode() == Opcode::QUERY => reply(zone, &question, find),
        _ => (Answered::Refused, Reply::of(Rcode::NOTIMP)),
    };
    (answered, Some(reply.compose(&message, extension)))
}

fn reply(
    zone: &DomainName,
    question: &Question<impl ToName>,
    find: impl FnOnce(&str) -> Host,
) -> (Answered, Reply) {
    let host: DomainName = question.qname().to_name();
    let qtype = question.qtype();
    let is_transfer = [Rtype::AXFR, Rtype::IXFR].contains(&qtype);
    if !host.ends_with(zone) || question.qclass() != Class::IN || is_transfer {
        return (Answered::Refused, Reply::of(Rcode::REFUSED));
    }
    if host == *zone {
        return match qtype {
            Rtype::SOA | Rtype::ANY => (Answered::NoData, positive(soa(zone))),
            _ => (Answered::NoData, negative(Rcode::NOERROR, zone)),
        };
    }
    match find(&host.to_string()) {
        Host::Address(address) if [Rtype::AAAA, Rtype::ANY].contains(&qtype) => {
            let data = ZoneRecordData::Aaaa(Aaaa::new(address));
            let ttl = Ttl::from_secs(TTL_S);
            (Answered::Address, positive(Record::new(host, Class::IN, ttl, data)))
        }
        Host::Address(_) | Host::Between => (Answered::NoData, negative(Rcode::NOERROR, zone)),
        Host::Nobody => (Answered::NoSuchHost, negative(Rcode::NXDOMAIN, zone)),
        Host::Taken => (Answered::AddressTaken, Reply::of(Rcode::SERVFAIL)),
        Host::NotKnown => (Answered::NotKnown, Reply::of(Rcode::SERVFAIL)),
    }
}

fn positive(entry: Entry) -> Reply {
    Reply { is_authoritative: true, answer: vec![entry], ..Reply::default() }
}

fn negative(rcode: Rcode, zone: &DomainName) -> Reply {
    Reply { rcode, is_authoritative: true, authority: vec![soa(zone)], ..Reply::default() }
}

/// Without it, resolvers would keep for as long as they like that something is not there.
fn soa(zone: &DomainName) -> Entry {
    let ttl = Ttl::from_secs(TTL_S);
    // A server has to have a name and a mailbox; this one is asked by its address, and by nobody
    // from elsewhere.
    let data = Soa::new(zone.clone(), zone.clone(), Serial(1), ttl, ttl, ttl, ttl);
    Record::new(zone.clone(), Class::IN, ttl, ZoneRecordData::Soa(data))
}

/// What everybody takes (RFC 1035, section 4.2.1): one question and one record fit, so that nothing
/// is ever truncated.
#[cfg(any(test, fuzzing))]
pub(crate) const LONGEST_ANSWER: usize = 512;
/// Labels of the book change, and who changes one does not want to wait; asking again costs
/// nothing.
const TTL_S: u32 = 10;

#[cfg(test)]
mod tests {
    use domain::base::MessageBuilder;
    use proptest::prelude::*;

    use super::*;

    const ADDRESS: Ipv6Addr = Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, 7);

    fn question(host: &str, qtype: Rtype, class: Class) -> Vec<u8> {
        let mut message = MessageBuilder::new_vec();
        message.header_mut().set_id(7);
        message.header_mut().set_rd(true);
        let mut message = message.question();
        message.push((DomainName::vec_from_str(host).unwrap(), qtype, class)).unwrap();
        message.finish()
    }

    fn find(host: &str) -> Host {
        match host {
            "camera.rhumb.internal" => Host::Address(ADDRESS),
            "my.rhumb.internal" => Host::Between,
            "taken.rhumb.internal" => Host::Taken,
            "camera.alice.rhumb.internal" => Host::NotKnown,
            _ => Host::Nobody,
        }
    }

    fn zone() -> DomainName {
        DomainName::vec_from_str("rhumb.internal").unwrap()
    }

    /// Code, addresses and records of authority.
    fn ask(question: &[u8]) -> (Answered, Rcode, Vec<Ipv6Addr>, usize) {
        let (answered, bytes) = answer(&zone(), question, find);
        let bytes = bytes.unwrap();
        assert!(bytes.len() <= LONGEST_ANSWER);
        let message = Message::from_octets(&bytes[..]).unwrap();
        assert_eq!((message.header().id(), message.header().qr()), (7, true));
        let addresses = message.answer().unwrap().limit_to::<Aaaa>();
        let addresses = addresses.map(|record| record.unwrap().data().addr()).collect();
        let authority = message.authority().unwrap().count();
        (answered, message.header().rcode(), addresses, authority)
    }

    #[test]
    fn hosts_that_are_names_have_an_address_and_nothing_else() {
        let of = |host, qtype| ask(&question(host, qtype, Class::IN));
        let address = (Answered::Address, Rcode::NOERROR, vec![ADDRESS], 0);
        assert_eq!(of("camera.rhumb.internal", Rtype::AAAA), address);
        assert_eq!(of("camera.rhumb.internal", Rtype::ANY), address);
        let nothing = (Answered::NoData, Rcode::NOERROR, vec![], 1);
        assert_eq!(of("camera.rhumb.internal", Rtype::A), nothing);
        assert_eq!(of("camera.rhumb.internal", Rtype::HTTPS), nothing);
        assert_eq!(of("my.rhumb.internal", Rtype::AAAA), nothing);
        assert_eq!(of("rhumb.internal", Rtype::AAAA), nothing);
        assert_eq!(of("rhumb.internal", Rtype::SOA), (Answered::NoData, Rcode::NOERROR, vec![], 0));
        let nobody = (Answered::NoSuchHost, Rcode::NXDOMAIN, vec![], 1);
        assert_eq!(of("other.rhumb.internal", Rtype::AAAA), nobody);
        assert_eq!(of("other.rhumb.internal", Rtype::A), nobody);
        let taken = (Answered::AddressTaken, Rcode::SERVFAIL, vec![], 0);
        assert_eq!(of("taken.rhumb.internal", Rtype::AAAA), taken);
        let not_known = (Answered::NotKnown, Rcode::SERVFAIL, vec![], 0);
        assert_eq!(of("camera.alice.rhumb.internal", Rtype::AAAA), not_known);
    }

    #[test]
    fn all_else_is_refused() {
        let refused = (Answered::Refused, Rcode::REFUSED, vec![], 0);
        for host in ["example.org", "internal", ".", "xrhumb.internal", "rhumb.internal.org"] {
            assert_eq!(ask(&question(host, Rtype::AAAA, Class::IN)), refused, "{host}");
        }
        let ours = "camera.rhumb.internal";
        assert_eq!(ask(&question(ours, Rtype::AAAA, Class::CH)), refused);
        assert_eq!(ask(&question("rhumb.internal", Rtype::AXFR, Class::IN)), refused);
        let mut update = question(ours, Rtype::AAAA, Class::IN);
        update[2] |= 5 << 3;
        assert_eq!(ask(&update), (Answered::Refused, Rcode::NOTIMP, vec![], 0));
        let none = MessageBuilder::new_vec().finish();
        assert_eq!(answer(&zone(), &none, find).0, Answered::Malformed);
    }

    #[test]
    fn extensions_are_told_apart_and_answers_are_never_answered() {
        let mut message = MessageBuilder::new_vec().question();
        let host = DomainName::vec_from_str("camera.rhumb.internal").unwrap();
        message.push((host, Rtype::AAAA, Class::IN)).unwrap();
        let mut message = message.additional();
        message
            .opt(|opt| {
                opt.set_udp_payload_size(4096);
                opt.set_version(1);
                Ok(())
            })
            .unwrap();
        let (answered, bytes) = answer(&zone(), &message.finish(), find);
        let bytes = bytes.unwrap();
        let said = Message::from_octets(&bytes[..]).unwrap();
        assert_eq!((answered, said.opt_rcode().to_string()), (Answered::Refused, "BADVERS".into()));
        assert_eq!(answer(&zone(), &bytes, find), (Answered::Malformed, None));
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..80), at in 0usize..60, byte: u8,
        ) {
            let mut question = question("camera.rhumb.internal", Rtype::AAAA, Class::IN);
            if let Some(place) = question.get_mut(at) {
                *place = byte;
            }
            for message in [bytes, question] {
                if let (_, Some(bytes)) = answer(&zone(), &message, find) {
                    prop_assert!(bytes.len() <= LONGEST_ANSWER);
                }
            }
        }
    }
}
