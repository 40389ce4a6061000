//! Who may see anything: whoever showed the token, from the page itself.
//!
//! Admin sockets answer their owner alone, while a port on loopback answers every user of the
//! machine, so the token is asked for there, too. It travels once, in the body of a request; what
//! counts from then on is a session, of two halves:
//!
//! - a cookie, which no script can read (`HttpOnly`) and no other site's page has sent along
//!   (`SameSite=Strict`). A browser sends it to every port of the host, though, and a port can be
//!   another user's;
//! - a key, which the page keeps for its own origin, port included, and shows in a header. A script
//!   that somehow ran in the page could read it, and no cookie with it.
//!
//! Neither is worth anything without the other. Both are 128 random bits, compared in constant
//! time, and kept in memory as long as the process lives, for [`SESSION_LASTS`] at most.
//!
//! Invariant: a source that has shown [`FREE_TRIES`] wrong tokens is told for some seconds each
//! that it has; a token that somebody chose is not looked at meanwhile. One of ours cannot be
//! guessed, so it lets in at any time: all users of a host are one source, and none of them keeps
//! out its owner. Sources and sessions are bounded in number.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use data_encoding::BASE64URL_NOPAD;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// What lets in. Its `Debug` shows nothing of it.
pub struct Token {
    text: Zeroizing<String>,
    /// Ours, of random bits, and nobody's choice.
    is_random: bool,
}

impl Token {
    /// One of 128 random bits.
    ///
    /// # Errors
    /// When the system gives no randomness.
    pub fn random() -> Result<Self, Unrandom> {
        Ok(Self { text: secret()?, is_random: true })
    }

    /// A text that somebody chose: its last line end is no part of it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.trim_end_matches(['\r', '\n']);
        if text.len() < SHORTEST_TOKEN || text.len() > LONGEST_TOKEN {
            return Err("a token has 20 to 200 characters: head -c 24 /dev/urandom | base64");
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("a token is one line of letters, digits and signs");
        }
        Ok(Self { text: Zeroizing::new(text.to_owned()), is_random: false })
    }

    /// The text, to be shown to whoever started the process, and to nobody else.
    pub fn expose(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// The system gives no randomness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unrandom;

impl fmt::Display for Unrandom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the system gives no randomness")
    }
}

impl std::error::Error for Unrandom {}

/// The door: its token, and who has come in by it.
#[derive(Debug)]
pub struct Door {
    token: Token,
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    /// The oldest first.
    sessions: VecDeque<Session>,
    tries: HashMap<IpAddr, Tries>,
}

struct Session {
    cookie: Zeroizing<String>,
    key: Zeroizing<String>,
    since: Instant,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("since", &self.since).finish_non_exhaustive()
    }
}

/// Wrong tokens of one source: how many are still held against it at `as_of`.
#[derive(Debug, Clone, Copy)]
struct Tries {
    held: f64,
    as_of: Instant,
}

impl Tries {
    fn held_at(&self, now: Instant) -> f64 {
        let forgiven = now.saturating_duration_since(self.as_of).div_duration_f64(FORGIVES_ONE_IN);
        (self.held - forgiven).max(0.0)
    }
}

/// Both halves of a session, for the browser that made it.
#[derive(Debug)]
pub struct Halves {
    /// For the cookie.
    pub cookie: Zeroizing<String>,
    /// For the page.
    pub key: Zeroizing<String>,
}

/// Why nobody came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// It is not the token.
    Wrong,
    /// The source has shown too many that were not, and this one was not looked at.
    TooMany,
    /// The system gives no randomness.
    Unrandom,
}

impl Door {
    /// A door that `token` opens.
    pub fn new(token: Token) -> Self {
        Self { token, inside: Mutex::default() }
    }

    /// Lets in who shows the token.
    ///
    /// # Errors
    /// When it is not the token, or the source has tried too often.
    pub fn let_in(&self, shown: &str, source: IpAddr, now: Instant) -> Result<Halves, Refused> {
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        let source = network_of(source);
        let held = inside.tries.get(&source).map_or(0.0, |tries| tries.held_at(now));
        let is_it = is_same(shown, &self.token.text);
        if held > FREE_TRIES - 1.0 && !(is_it && self.token.is_random) {
            return Err(Refused::TooMany);
        }
        if !is_it {
            inside.remember(source, Tries { held: held + 1.0, as_of: now }, now);
            return Err(Refused::Wrong);
        }
        let new = || secret().map_err(|Unrandom| Refused::Unrandom);
        let session = Session { cookie: new()?, key: new()?, since: now };
        let halves = Halves { cookie: session.cookie.clone(), key: session.key.clone() };
        if inside.sessions.len() >= MOST_SESSIONS {
            inside.sessions.pop_front();
        }
        inside.sessions.push_back(session);
        Ok(halves)
    }

    /// Whether these are both halves of one session. All are compared, whatever comes of it.
    pub fn knows(&self, cookie: &str, key: &str, now: Instant) -> bool {
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        inside.forget_old(now);
        let same = |it: &Session| is_same(cookie, &it.cookie) & is_same(key, &it.key);
        inside.sessions.iter().fold(false, |known, it| known | same(it))
    }

    /// Ends a session, for whoever has both halves of it.
    pub fn let_out(&self, cookie: &str, key: &str) {
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        inside.sessions.retain(|it| !(is_same(cookie, &it.cookie) & is_same(key, &it.key)));
    }
}

impl Inside {
    fn forget_old(&mut self, now: Instant) {
        let is_old = |it: &Session| now.saturating_duration_since(it.since) > SESSION_LASTS;
        while self.sessions.front().is_some_and(is_old) {
            self.sessions.pop_front();
        }
    }

    /// Of too many sources the one with the fewest tries held against it is forgotten.
    fn remember(&mut self, source: IpAddr, tries: Tries, now: Instant) {
        if self.tries.len() >= MOST_SOURCES && !self.tries.contains_key(&source) {
            let held = |(_, tries): &(&IpAddr, &Tries)| tries.held_at(now);
            let least = self.tries.iter().min_by(|one, other| held(one).total_cmp(&held(other)));
            if let Some(least) = least.map(|(source, _)| *source) {
                self.tries.remove(&least);
            }
        }
        self.tries.insert(source, tries);
    }
}

/// Whoever has one address of IPv6 has all of its network.
fn network_of(source: IpAddr) -> IpAddr {
    match source.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            let bits = address.to_bits() & !u128::from(u64::MAX);
            IpAddr::V6(bits.into())
        }
        other => other,
    }
}

/// In a time that depends on the length of what was shown alone.
fn is_same(shown: &str, secret: &str) -> bool {
    shown.as_bytes().ct_eq(secret.as_bytes()).into()
}

fn secret() -> Result<Zeroizing<String>, Unrandom> {
    let mut bytes = Zeroizing::new([0; 16]);
    aws_lc_rs::rand::fill(bytes.as_mut()).map_err(|_| Unrandom)?;
    Ok(Zeroizing::new(BASE64URL_NOPAD.encode(bytes.as_ref())))
}

/// A day's work; whoever looks longer shows the token again.
pub const SESSION_LASTS: Duration = Duration::from_secs(12 * 60 * 60);
/// Wrong tokens that a source may show at once.
pub const FREE_TRIES: f64 = 10.0;
/// What it may show from then on: 10^5 a week, of at least 10^31 tokens.
const FORGIVES_ONE_IN: Duration = Duration::from_secs(6);
/// Browsers that look at once, and those that were left open.
const MOST_SESSIONS: usize = 64;
const MOST_SOURCES: usize = 1024;
/// As many as 128 random bits have in base64, about.
const SHORTEST_TOKEN: usize = 20;
pub(crate) const LONGEST_TOKEN: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn door() -> Door {
        Door::new(Token::parse("a-token-of-twenty-characters\n").unwrap())
    }

    #[test]
    fn the_token_makes_a_session_of_two_halves() {
        let (door, now) = (door(), Instant::now());
        let one = door.let_in("a-token-of-twenty-characters", HERE, now).unwrap();
        let other = door.let_in("a-token-of-twenty-characters", HERE, now).unwrap();
        assert!(
            door.knows(&one.cookie, &one.key, now) && door.knows(&other.cookie, &other.key, now)
        );
        // Neither half alone, nor halves of two sessions, nor the token itself.
        for (cookie, key) in [
            (one.cookie.as_str(), ""),
            ("", one.key.as_str()),
            (one.cookie.as_str(), other.key.as_str()),
            (one.key.as_str(), one.cookie.as_str()),
            (one.cookie.as_str(), one.cookie.as_str()),
            ("a-token-of-twenty-characters", "a-token-of-twenty-characters"),
            ("", ""),
        ] {
            assert!(!door.knows(cookie, key, now), "{cookie} {key}");
        }
        door.let_out(&one.cookie, &other.key);
        assert!(door.knows(&one.cookie, &one.key, now));
        door.let_out(&one.cookie, &one.key);
        assert!(!door.knows(&one.cookie, &one.key, now));
        assert!(door.knows(&other.cookie, &other.key, now));
    }

    #[test]
    fn a_session_ends_and_only_so_many_are_kept() {
        let (door, now) = (door(), Instant::now());
        let first = door.let_in("a-token-of-twenty-characters", HERE, now).unwrap();
        let end = now + SESSION_LASTS;
        assert!(door.knows(&first.cookie, &first.key, end));
        assert!(!door.knows(&first.cookie, &first.key, end + Duration::from_secs(1)));
        let first = door.let_in("a-token-of-twenty-characters", HERE, now).unwrap();
        for _ in 1..MOST_SESSIONS {
            door.let_in("a-token-of-twenty-characters", HERE, now).unwrap();
        }
        assert!(door.knows(&first.cookie, &first.key, now));
        door.let_in("a-token-of-twenty-characters", HERE, now).unwrap();
        assert!(!door.knows(&first.cookie, &first.key, now));
    }

    #[test]
    fn guessing_is_slow_and_nobody_elses_trouble() {
        let (door, now) = (door(), Instant::now());
        let wrong = |at| door.let_in("a-token-of-twenty-characterS", HERE, at).unwrap_err();
        for _ in 0..10 {
            assert_eq!(wrong(now), Refused::Wrong);
        }
        assert_eq!(wrong(now), Refused::TooMany);
        // Not even the right one is looked at, or guessing would go on behind the refusal.
        let right = "a-token-of-twenty-characters";
        assert_eq!(door.let_in(right, HERE, now).unwrap_err(), Refused::TooMany);
        assert!(door.let_in(right, "192.0.2.1".parse().unwrap(), now).is_ok());
        let later = now + FORGIVES_ONE_IN;
        assert_eq!(wrong(later), Refused::Wrong);
        assert_eq!(wrong(later), Refused::TooMany);
        assert!(door.let_in(right, HERE, later + FORGIVES_ONE_IN).is_ok());
    }

    /// Every user of a host is at the same address, or at whichever of loopback it likes.
    #[test]
    fn nobody_keeps_out_whoever_has_a_token_that_cannot_be_guessed() {
        let token = Token::random().unwrap();
        let right = token.expose().to_owned();
        let (door, now) = (Door::new(token), Instant::now());
        let wrong = |now| door.let_in("not-it", HERE, now).unwrap_err();
        (0..10).for_each(|_| assert_eq!(wrong(now), Refused::Wrong));
        assert_eq!(wrong(now), Refused::TooMany);
        assert!(door.let_in(&right, HERE, now).is_ok());
        assert_eq!(wrong(now), Refused::TooMany);
    }

    #[test]
    fn a_network_of_ipv6_is_one_source_and_sources_are_bounded() {
        let (door, now) = (door(), Instant::now());
        for number in 0..12 {
            let source = format!("2001:db8::{number:x}").parse().unwrap();
            let refused = door.let_in("wrong", source, now).unwrap_err();
            assert_eq!(refused == Refused::TooMany, number >= 10, "{number}");
        }
        for number in 0..3000_u32 {
            let source = IpAddr::V4((0x0a00_0000 + number).into());
            let _ = door.let_in("wrong", source, now);
        }
        assert_eq!(door.inside.lock().unwrap().tries.len(), MOST_SOURCES);
        // Whoever has tried most is remembered.
        let guesser = "2001:db8::ffff".parse().unwrap();
        assert_eq!(door.let_in("wrong", guesser, now).unwrap_err(), Refused::TooMany);
    }

    #[test]
    fn tokens_are_long_and_of_one_line_and_never_shown() {
        for bad in [
            "",
            "short",
            &"x".repeat(19),
            &"x".repeat(201),
            "twenty characters here",
            "\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}",
        ] {
            assert!(Token::parse(bad).is_err(), "{bad}");
        }
        for good in ["x".repeat(20), "x".repeat(200), format!("{}\r\n", "x".repeat(20))] {
            assert!(Token::parse(&good).is_ok(), "{good}");
        }
        let (one, other) = (Token::random().unwrap(), Token::random().unwrap());
        assert_ne!(one.expose(), other.expose());
        assert_eq!(one.expose().len(), 22);
        let door = Door::new(Token::parse("a-token-of-twenty-characters").unwrap());
        let halves = door.let_in("a-token-of-twenty-characters", HERE, Instant::now()).unwrap();
        let shown = format!("{door:?}");
        for secret in ["a-token", halves.cookie.as_str(), halves.key.as_str()] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
}
