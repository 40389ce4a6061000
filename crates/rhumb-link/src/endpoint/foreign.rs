//! Hellos of foreign peers, which are not wrapped: nothing is kept until the cookie has come back.
//!
//! 1. A hello of the exchange in progress, sent again, goes there.
//! 2. One without a cookie is answered by one, in no more bytes than it has
//!    itself. Whoever wrote it, nothing here changes.
//! 3. A good cookie proves the address: whoever is there begins, or has begun anew.
//! 4. Any other that is no first hello may be what an exchange waits
//!    for: the answer to a demand of the library.

use std::net::SocketAddr;
use std::time::Instant;

use super::Endpoint;
use crate::DropReason;
use crate::dtls::Library;
use crate::hello::{self, Hello, Version};
use crate::retry::HelloHash;

impl Endpoint {
    pub(super) fn handle_foreign_hello(
        &mut self,
        from: SocketAddr,
        bytes: &[u8],
        now: Instant,
    ) -> Result<(), DropReason> {
        let hash = HelloHash::of(bytes);
        if let Some(id) = self.response_to(from, &hash) {
            self.feed(id, bytes, now);
            return Ok(());
        }
        let hello = match Hello::parse(bytes) {
            Ok(hello) if hello.cookie().is_none() && hello.message_seq == 0 => {
                return self.ask_for_cookie(from, &hello, bytes.len(), now);
            }
            Ok(hello) => hello,
            Err(reason) => return self.feed_responder(from, bytes, reason, now),
        };
        let Some(proof) = self.cookies.verify(from, &hello, now) else {
            return self.feed_responder(from, bytes, DropReason::BadToken, now);
        };
        if !self.config.accept {
            return Err(DropReason::NotAccepting);
        }
        let version = hello.version;
        let make = move |library: &Library| library.respond_again(version, &proof, now);
        self.begin_response(from, hash, make, bytes, now)
    }

    fn ask_for_cookie(
        &mut self,
        from: SocketAddr,
        hello: &Hello<'_>,
        len: usize,
        now: Instant,
    ) -> Result<(), DropReason> {
        if !self.config.accept {
            return Err(DropReason::NotAccepting);
        }
        let answer = match hello.version {
            Version::Dtls12 => hello::verify_request(&self.cookies.issue(from, hello, now)),
            Version::Dtls13 => {
                let suite = hello.suite(&self.library.suites).ok_or(DropReason::HelloRefused)?;
                if !hello.has_share_of(&self.library.groups) {
                    return Err(DropReason::HelloRefused);
                }
                hello::retry_request(suite, &self.cookies.issue(from, hello, now))
            }
        };
        if answer.len() > len {
            return Err(DropReason::Amplification);
        }
        self.outgoing.push(from, &answer);
        Ok(())
    }

    /// Gives a hello to the exchange that the same address began, unless it was the first.
    fn feed_responder(
        &mut self,
        from: SocketAddr,
        bytes: &[u8],
        otherwise: DropReason,
        now: Instant,
    ) -> Result<(), DropReason> {
        let known = self.routes.get(&from).and_then(|route| route.responder);
        let id = known.filter(|_| !hello::is_first(bytes)).ok_or(otherwise)?;
        self.feed(id, bytes, now);
        Ok(())
    }
}
