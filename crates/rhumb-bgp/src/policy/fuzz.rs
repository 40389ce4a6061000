//! Properties for the fuzzer and for tests: no text and no message makes a parser panic, and what
//! is read is written back as it was.

use std::time::{Duration, Instant};

use super::rtr::pdu::Pdu;
use super::rtr::{MOST_VRPS, RtrClient};
use super::{Community, CommunityPattern, PathPattern, PrefixRange};

/// An expression, and a path's text behind its first line break.
pub fn policy_text(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (expression, path) = text.split_once('\n').unwrap_or((text, "65000 {65001,65002}"));
    if let Ok(pattern) = expression.parse::<PathPattern>() {
        pattern.matches_text(path);
        assert_eq!(pattern.to_string(), expression);
    }
    if let Ok(range) = expression.parse::<PrefixRange>() {
        assert_eq!(range.to_string().parse(), Ok(range));
    }
    if let Ok(community) = expression.parse::<Community>() {
        assert_eq!(community.to_string().parse(), Ok(community));
        let pattern: CommunityPattern =
            expression.parse().expect("invariant: a community is a pattern");
        assert!(pattern.matches(community));
    }
}

/// What a cache sends, in pieces as long as the first byte says, with a timeout after each.
pub fn rtr(data: &[u8]) {
    let Some((step, stream)) = data.split_first() else { return };
    #[expect(clippy::disallowed_methods, reason = "a virtual clock begins somewhere")]
    let mut now = Instant::now();
    let mut client = RtrClient::default();
    client.connected(now);
    for piece in stream.chunks(usize::from(*step).max(1)) {
        let before = client.vrps().cloned();
        client.take_news();
        if client.handle_bytes(piece, now).is_err() {
            client.disconnected();
            client.connected(now);
        }
        // The set changes as a whole, and is said to.
        if client.vrps() != before.as_ref() {
            assert!(client.take_news());
        }
        assert!(client.vrps().is_none_or(|vrps| vrps.len() <= MOST_VRPS));
        client.poll_transmit();
        now += Duration::from_secs(u64::from(*step) * 10);
        if client.poll_timeout().is_some_and(|due| due <= now)
            && client.handle_timeout(now).is_err()
        {
            client.disconnected();
            client.connected(now);
        }
        // What was due was done.
        assert!(client.poll_timeout().is_none_or(|due| due > now));
    }
    if let Ok(Some((received, len))) = Pdu::parse(stream) {
        let mut written = Vec::new();
        received.pdu.emit(received.version, &mut written);
        if !written.is_empty() {
            assert_eq!(written.len(), len);
            assert_eq!(Pdu::parse(&written), Ok(Some((received, len))));
        }
    }
}
