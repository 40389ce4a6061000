//! Which routers are on the links of this host: asked once, for whoever wants to know of all of
//! them. A node that joins asks by itself, and takes the first.
//!
//! INVARIANT: an answer counts if it repeats the nonce of this question and comes from a link;
//! there are at most [`MAX_ANSWERS`], and the question is over when its time is.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use aws_lc_rs::rand;
use rhumb_io::fd::AsFd;
use rhumb_io::poll::{Interest, poll};
use rhumb_wire::discovery::{Discovery, Nonce};

use super::Links;

/// What came of a question.
#[derive(Debug, Default)]
pub struct Answers {
    /// Where routers are, in the order of their answers.
    pub routers: Vec<SocketAddr>,
    /// To how many groups and broadcast addresses the question went; none without a link.
    pub links: usize,
    /// Why nothing could be asked, if nothing could.
    pub unsent: Option<io::Error>,
}

/// Asks all links, several times, and gathers answers for as long as `within`. Blocks for so long.
///
/// # Errors
/// When the system has no random numbers, or does not let it wait.
pub fn ask_around(within: Duration) -> io::Result<Answers> {
    let mut nonce = [0; 8];
    rand::fill(&mut nonce).map_err(|_| io::Error::other("no random numbers"))?;
    let mut query = Vec::with_capacity(Discovery::QUERY_LEN);
    Discovery::Query(Nonce(nonce)).emit(&mut query);
    let families = [IpAddr::from(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()];
    // A system without IPv6 has no such socket.
    let sockets = families.map(|ip| Asking::open(ip).ok());
    let asking = || sockets.iter().flatten();
    let links = asking().map(|it| it.links.query_targets().count()).sum();
    let begin = Instant::now();
    let mut answers = Answers { links, ..Answers::default() };
    let mut due = [Duration::ZERO, ASK_AGAIN, ASK_AGAIN * 2].into_iter().peekable();
    loop {
        let passed = begin.elapsed();
        if passed >= within {
            return Ok(answers);
        }
        if due.next_if(|at| *at <= passed).is_some() {
            let sent: Vec<_> = asking().flat_map(|it| it.ask(&query)).collect();
            answers.unsent = match sent.iter().any(Result::is_ok) {
                true => None,
                false => sent.into_iter().find_map(Result::err),
            };
        }
        let next = due.peek().map_or(within, |at| within.min(*at));
        let readable = sockets.each_ref().map(|it| match it {
            Some(asking) => Interest::Readable(asking.socket.as_fd()),
            None => Interest::Nothing,
        });
        poll(&readable, Some(next.saturating_sub(begin.elapsed())))?;
        asking().for_each(|it| it.hear(Nonce(nonce), &mut answers.routers));
    }
}

/// A socket of one family.
struct Asking {
    socket: UdpSocket,
    links: Links,
}

impl Asking {
    fn open(ip: IpAddr) -> io::Result<Self> {
        let socket = match ip {
            IpAddr::V4(_) => UdpSocket::bind((ip, 0))?,
            IpAddr::V6(_) => open_v6()?,
        };
        socket.set_nonblocking(true)?;
        if ip.is_ipv4() {
            socket.set_broadcast(true)?;
        }
        Ok(Self { socket, links: Links::read(ip)?.of_family(ip) })
    }

    fn ask(&self, query: &[u8]) -> Vec<io::Result<()>> {
        self.links.query_targets().map(|to| self.socket.send_to(query, to).map(drop)).collect()
    }

    fn hear(&self, nonce: Nonce, routers: &mut Vec<SocketAddr>) {
        let mut datagram = [0; Discovery::ANSWER_LEN + 1];
        for _ in 0..MAX_DATAGRAMS_A_TURN {
            let Ok((len, from)) = self.socket.recv_from(&mut datagram) else { return };
            let is_answer = Discovery::parse(&datagram[..len]) == Ok(Discovery::Answer(nonce));
            let is_new = is_answer && self.links.contains(&from) && !routers.contains(&from);
            if is_new && routers.len() < MAX_ANSWERS {
                routers.push(from);
            }
        }
    }
}

fn open_v6() -> io::Result<UdpSocket> {
    use socket2::{Domain, Protocol, Socket, Type};
    let socket = Socket::new(Domain::IPV6, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_only_v6(true)?;
    socket.bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)).into())?;
    Ok(socket.into())
}

/// Routers that are told of: a link has one or two, and a liar may be as many as he likes.
pub const MAX_ANSWERS: usize = 16;
/// A query that is lost is repeated, as nodes do.
const ASK_AGAIN: Duration = Duration::from_millis(250);
/// So that a flood does not keep it from asking, and from ending.
const MAX_DATAGRAMS_A_TURN: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn asking_on_loopback(links: Links) -> Asking {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.set_nonblocking(true).expect("nonblocking");
        Asking { socket, links }
    }

    fn say(asking: &Asking, answers: &[Discovery]) {
        for answer in answers {
            let from = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            let mut bytes = Vec::new();
            answer.emit(&mut bytes);
            from.send_to(&bytes, asking.socket.local_addr().expect("an address")).expect("sent");
        }
    }

    #[test]
    fn answers_to_this_question_from_a_link_count_and_are_bounded() {
        let (own, other) = (Nonce([1; 8]), Nonce([2; 8]));
        let asking = asking_on_loopback(Links::of_subnet([127, 0, 0, 0].into(), 8));
        let mut routers = Vec::new();
        say(&asking, &[Discovery::Answer(other), Discovery::Query(own)]);
        asking.hear(own, &mut routers);
        assert_eq!(routers, []);
        say(&asking, &[Discovery::Answer(own); MAX_ANSWERS + 5]);
        asking.hear(own, &mut routers);
        assert_eq!(routers.len(), MAX_ANSWERS);
        // As from beyond a hop.
        let far = asking_on_loopback(Links::of_subnet([192, 0, 2, 0].into(), 24));
        let mut none = Vec::new();
        say(&far, &[Discovery::Answer(own)]);
        far.hear(own, &mut none);
        assert_eq!(none, []);
    }
}
