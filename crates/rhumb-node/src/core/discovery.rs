//! Finding a router: ask the local network, try whoever answers, fall
//! back to root routers (GDP paper, section 3.6).
//!
//! One round:
//! 1. [`Discovery::begin`] makes a nonce; [`Discovery::poll_query`] asks with it at [`QUERIES_AT`].
//! 2. [`Discovery::handle_answer`] notes who answers, in the order of their answers.
//! 3. [`Discovery::next`] hands them out, first come, first served; once
//!    [`WINDOW`] is over, the root routers too, in the order given; and at the
//!    very end those that disappointed a short while ago.
//! 4. [`Discovery::end`] follows when a router is joined. A round that [is
//!    over](Discovery::is_exhausted) has failed.
//!
//! Invariant: an address is handed out at most once per round, and is either an address given as a
//! root or one from which came the nonce of this round. Who is there, the handshake proves; whether
//! that is enough, [`Discovery::allows`] says.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use aws_lc_rs::hmac;
use rhumb_wire::Name;
use rhumb_wire::discovery::Nonce;

use crate::Remote;

/// The search for a router.
#[derive(Debug)]
pub(super) struct Discovery {
    roots: Vec<Remote>,
    /// Names of the only routers to join; any when empty.
    only: Vec<Name>,
    nonces: Nonces,
    round: Option<Round>,
    /// Addresses that disappointed, and until when they come last.
    avoided: Vec<(SocketAddr, Instant)>,
}

#[derive(Debug)]
struct Round {
    nonce: Nonce,
    began: Instant,
    queries: usize,
    window_over: bool,
    answers: Vec<SocketAddr>,
    tried: Vec<SocketAddr>,
}

impl Discovery {
    pub(super) fn new(roots: Vec<Remote>, only: Vec<Name>, nonces: Nonces) -> Self {
        let allowed =
            |root: &Remote| root.name.is_none_or(|name| only.is_empty() || only.contains(&name));
        let roots = roots.into_iter().filter(allowed).collect();
        Self { roots, only, nonces, round: None, avoided: Vec::new() }
    }

    /// Begins a round. Answers to the one before count no more.
    pub(super) fn begin(&mut self, now: Instant) {
        self.avoided.retain(|(_, until)| *until > now);
        self.round = Some(Round {
            nonce: self.nonces.take(),
            began: now,
            queries: 0,
            window_over: false,
            answers: Vec::new(),
            tried: Vec::new(),
        });
    }

    /// Whoever is at `address` counts as tried in this round.
    pub(super) fn skip(&mut self, address: SocketAddr) {
        if let Some(round) = &mut self.round {
            round.tried.push(address);
        }
    }

    /// Ends the round: there is a router.
    pub(super) fn end(&mut self) {
        self.round = None;
    }

    /// The nonce to ask with, when it is time to.
    pub(super) fn poll_query(&mut self, now: Instant) -> Option<Nonce> {
        let round = self.round.as_mut()?;
        let due = round.began + *QUERIES_AT.get(round.queries)?;
        if due > now {
            return None;
        }
        round.queries += 1;
        Some(round.nonce)
    }

    /// Somebody answers. False when that is no answer to this round's query.
    pub(super) fn handle_answer(&mut self, from: SocketAddr, nonce: Nonce) -> bool {
        let Some(round) = self.round.as_mut().filter(|round| round.nonce == nonce) else {
            return false;
        };
        if !round.answers.contains(&from) && round.answers.len() < MAX_ANSWERS {
            round.answers.push(from);
        }
        true
    }

    /// The next router to try, if there is one by now.
    pub(super) fn next(&mut self, now: Instant) -> Option<Remote> {
        let round = self.round.as_mut()?;
        round.window_over |= now >= round.began + WINDOW;
        let roots = match round.window_over {
            true => &self.roots[..],
            false => &[],
        };
        let answers = round.answers.iter().map(|address| Remote::new(*address));
        let untried = answers.chain(roots.iter().copied());
        let mut untried = untried.filter(|remote| !round.tried.contains(&remote.address));
        let is_avoided = |remote: &Remote| self.avoided.iter().any(|(at, _)| *at == remote.address);
        let next = match round.window_over {
            true => untried.clone().find(|remote| !is_avoided(remote)).or_else(|| untried.next()),
            false => untried.find(|remote| !is_avoided(remote)),
        }?;
        round.tried.push(next.address);
        // With one name allowed, the handshake can refuse all others before it is complete.
        let sole = self.only.first().filter(|_| self.only.len() == 1);
        Some(Remote { name: next.name.or(sole.copied()), ..next })
    }

    /// Whether this round has nobody left to try, now that the last one handed out has failed too.
    pub(super) fn is_exhausted(&self) -> bool {
        self.round.as_ref().is_none_or(|round| round.window_over)
    }

    /// When to call [`Discovery::poll_query`] or [`Discovery::next`] again.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let round = self.round.as_ref().filter(|round| !round.window_over)?;
        let next = QUERIES_AT.get(round.queries).copied().unwrap_or(WINDOW);
        Some(round.began + next)
    }

    /// Whether the router of this name may be joined.
    pub(super) fn allows(&self, router: &Name) -> bool {
        self.only.is_empty() || self.only.contains(router)
    }

    /// Whoever is at `address` was tried in vain: for a while, others come first.
    pub(super) fn avoid(&mut self, address: SocketAddr, now: Instant) {
        self.avoided.retain(|(other, _)| *other != address);
        if self.avoided.len() >= MAX_AVOIDED {
            self.avoided.remove(0);
        }
        self.avoided.push((address, now + AVOID_FOR));
    }
}

/// Nonces that nobody can guess who has not seen them, not even from earlier ones.
pub(super) struct Nonces {
    key: hmac::Key,
    taken: u64,
}

impl Nonces {
    /// `secret` may be used for other purposes: what is made of it here carries its purpose.
    pub(super) fn new(secret: &[u8; 32]) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, secret), taken: 0 }
    }

    fn take(&mut self) -> Nonce {
        self.taken += 1;
        let mut context = hmac::Context::with_key(&self.key);
        context.update(b"rhumb/1 discovery");
        context.update(&self.taken.to_be_bytes());
        let tag = context.sign();
        Nonce(*tag.as_ref().first_chunk().expect("invariant: SHA-256 has 32 bytes"))
    }
}

impl std::fmt::Debug for Nonces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nonces").finish_non_exhaustive()
    }
}

/// When a round asks: two of three queries may get lost, and Wi-Fi
/// loses multicasts more often than anything else.
pub(super) const QUERIES_AT: [Duration; 3] =
    [Duration::ZERO, Duration::from_millis(250), Duration::from_millis(500)];
/// How long local routers have to answer before root routers are
/// tried: many times what a local network takes.
pub(super) const WINDOW: Duration = Duration::from_secs(1);
/// Answers noted per round. Whoever floods the local network with false
/// ones wins until this round's end, and no longer.
const MAX_ANSWERS: usize = 8;
/// Long enough that a liar costs its wait once and not every time,
/// short enough for a router that was repaired.
const AVOID_FOR: Duration = Duration::from_secs(60);
/// Two rounds of liars.
const MAX_AVOIDED: usize = 2 * MAX_ANSWERS;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    fn root(port: u16) -> Remote {
        Remote { name: Some(Name([port as u8; 32])), address: address(port) }
    }

    fn begun(roots: &[u16], only: &[Name]) -> (Discovery, Nonce, Instant) {
        let roots = roots.iter().map(|port| root(*port)).collect();
        let mut discovery = Discovery::new(roots, only.to_vec(), Nonces::new(&[1; 32]));
        let now = Instant::now();
        discovery.begin(now);
        let nonce = discovery.poll_query(now).expect("the first query is due at once");
        (discovery, nonce, now)
    }

    fn ports(discovery: &mut Discovery, now: Instant) -> Vec<u16> {
        std::iter::from_fn(|| discovery.next(now)).map(|remote| remote.address.port()).collect()
    }

    #[test]
    fn a_round_asks_three_times_with_one_nonce_and_the_next_with_another() {
        let (mut discovery, nonce, begin) = begun(&[], &[]);
        let mut asked = vec![Duration::ZERO];
        while let Some(at) = discovery.poll_timeout() {
            discovery.next(at);
            match discovery.poll_query(at) {
                Some(again) => assert_eq!(again, nonce),
                None => break,
            }
            asked.push(at - begin);
        }
        assert_eq!(asked, QUERIES_AT);
        assert!(discovery.is_exhausted());
        assert_eq!(discovery.poll_timeout(), None);
        discovery.begin(begin);
        assert_ne!(discovery.poll_query(begin), Some(nonce));
    }

    #[test]
    fn answers_are_tried_in_order_and_once() {
        let (mut discovery, nonce, now) = begun(&[], &[]);
        for port in [5, 3, 5, 4] {
            assert!(discovery.handle_answer(address(port), nonce));
        }
        assert_eq!(ports(&mut discovery, now), [5, 3, 4]);
        assert!(discovery.handle_answer(address(3), nonce));
        assert!(discovery.handle_answer(address(6), nonce));
        assert_eq!(ports(&mut discovery, now + 2 * WINDOW), [6]);
        assert!(discovery.is_exhausted());
    }

    #[test]
    fn other_nonces_are_no_answers() {
        let (mut discovery, nonce, now) = begun(&[], &[]);
        assert!(!discovery.handle_answer(address(5), Nonce([0; 8])));
        discovery.begin(now);
        assert!(!discovery.handle_answer(address(5), nonce), "an answer to an earlier round");
        discovery.end();
        assert!(!discovery.handle_answer(address(5), nonce), "an answer when nobody asks");
        assert_eq!(discovery.next(now), None);
    }

    #[test]
    fn roots_come_after_the_window_and_with_their_names() {
        let (mut discovery, nonce, now) = begun(&[8, 9], &[]);
        assert_eq!(discovery.next(now + WINDOW - MS), None);
        assert!(!discovery.is_exhausted());
        discovery.handle_answer(address(9), nonce);
        discovery.handle_answer(address(5), nonce);
        // What answers locally is tried as what it is, also when it is a root.
        assert_eq!(discovery.next(now), Some(Remote::new(address(9))));
        assert_eq!(discovery.next(now + WINDOW), Some(Remote::new(address(5))));
        assert_eq!(discovery.next(now + WINDOW), Some(root(8)));
        assert_eq!(discovery.next(now + WINDOW), None);
    }

    #[test]
    fn who_disappointed_comes_last_for_a_while() {
        let (mut discovery, _, begin) = begun(&[8, 9], &[]);
        for port in [5, 8] {
            discovery.avoid(address(port), begin);
        }
        let round = |discovery: &mut Discovery, at: Instant| {
            discovery.begin(at);
            let nonce = discovery.poll_query(at).expect("a query");
            for port in [5, 6] {
                discovery.handle_answer(address(port), nonce);
            }
            let early = ports(discovery, at);
            (early, ports(discovery, at + WINDOW))
        };
        assert_eq!(round(&mut discovery, begin), (vec![6], vec![9, 5, 8]));
        let last = begin + AVOID_FOR - MS;
        assert_eq!(round(&mut discovery, last), (vec![6], vec![9, 5, 8]));
        assert_eq!(round(&mut discovery, begin + AVOID_FOR), (vec![5, 6], vec![8, 9]));
    }

    #[test]
    fn names_may_be_restricted() {
        let [a, b] = [Name([1; 32]), Name([2; 32])];
        let (discovery, ..) = begun(&[], &[]);
        assert!(discovery.allows(&a) && discovery.allows(&b));
        let (mut discovery, nonce, now) = begun(&[9], &[a]);
        assert!(discovery.allows(&a) && !discovery.allows(&b));
        discovery.handle_answer(address(5), nonce);
        assert_eq!(discovery.next(now), Some(Remote { name: Some(a), address: address(5) }));
        assert_eq!(discovery.next(now + WINDOW), None, "a root of another name");
        let (mut discovery, ..) = begun(&[9], &[a, Name([9; 32])]);
        assert_eq!(discovery.next(now + 2 * WINDOW), Some(root(9)));
        let (mut discovery, nonce, now) = begun(&[], &[a, b]);
        discovery.handle_answer(address(5), nonce);
        assert_eq!(discovery.next(now), Some(Remote::new(address(5))));
    }

    #[test]
    fn a_flood_of_answers_is_bounded() {
        let (mut discovery, nonce, now) = begun(&[9], &[]);
        for port in 1000..2000 {
            assert!(discovery.handle_answer(address(port), nonce));
            discovery.avoid(address(port), now);
        }
        assert_eq!(discovery.avoided.len(), MAX_AVOIDED);
        assert_eq!(ports(&mut discovery, now).len(), MAX_ANSWERS);
        assert_eq!(discovery.next(now + WINDOW), Some(root(9)));
    }
}
