//! What fuzzing holds of the records of TLS, whatever comes and however it is cut.

use rhumb_aead::{Algorithm, Choice, Key};
use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::{ConnectionTrafficSecrets, Error};

use crate::protected::{First, Life, Protected, Secrets};
use crate::record::Outgoing;

/// Two properties. Of a stream of which some records were sealed by the peer and some by nobody,
/// exactly what stands in the good ones before the first bad one is handed over, however the
/// stream is cut. And what gathers in pieces comes out whole, whatever keys are taken meanwhile.
///
/// # Panics
/// When one of them does not hold.
pub fn tls_records(data: &[u8]) {
    let Some((&[kind, cut], rest)) = data.split_first_chunk() else { return };
    match kind & 1 {
        0 => receive(usize::from(cut) + 1, rest),
        _ => exchange(usize::from(cut), rest),
    }
}

/// A peer that seals what it likes: pieces of `rest`, each behind two bytes of what it does.
fn receive(cut: usize, mut rest: &[u8]) {
    let (mut peer, mut stream) = (Peer::new(), Vec::new());
    while let Some((&[what, len], behind)) = rest.split_first_chunk() {
        let (piece, behind) = behind.split_at(behind.len().min(usize::from(len)));
        rest = behind;
        match what % 8 {
            // Data, with as much padding as is zero at its end, or of whatever type it ends in.
            0..=2 => peer.seal(&[piece, &[23]].concat(), &mut stream),
            3 => peer.seal(piece, &mut stream),
            4 => peer.seal(&[24, 0, 0, 1, what >> 7, 22], &mut stream),
            5 => peer.seal(&[1, what >> 3, 21], &mut stream),
            // Sealed, and altered; and nobody's at all.
            6 => {
                let begin = stream.len();
                peer.is_false = true;
                peer.seal(piece, &mut stream);
                stream[begin + 5 + usize::from(what >> 3) % (piece.len() + 16)] ^= 1;
            }
            _ => {
                peer.is_false |= !piece.is_empty();
                stream.extend_from_slice(piece);
            }
        }
    }
    let mut end = end(true, u64::MAX);
    let (mut kept, mut got, mut is_over) = (Vec::new(), Vec::new(), false);
    for part in stream.chunks(cut) {
        kept.extend_from_slice(part);
        let (taken, state) = end.open(&mut kept, &mut |it| got.extend_from_slice(it));
        kept.drain(..taken);
        is_over = state != Ok(Life::Open);
        if is_over {
            break;
        }
    }
    assert_eq!(got, peer.said, "what is handed over is what was said");
    assert!(is_over || !peer.is_over, "who says what it must not is not gone on with");
    assert!(!is_over || peer.is_over || peer.is_false, "who says what it may is gone on with");
}

/// The peer of [`receive`], and what is to come of what it says: RFC 8446, anew.
struct Peer {
    key: u8,
    number: u64,
    said: Vec<u8>,
    quiet: u32,
    /// It has said what ends the connection.
    is_over: bool,
    /// What follows is not its own, and may be half of something.
    is_false: bool,
}

impl Peer {
    fn new() -> Self {
        Self { key: 0, number: 0, said: Vec::new(), quiet: 0, is_over: false, is_false: false }
    }

    fn seal(&mut self, inner: &[u8], stream: &mut Vec<u8>) {
        let mut inner = inner.to_vec();
        let [high, low] = ((inner.len() + 16) as u16).to_be_bytes();
        let header = [23, 3, 3, high, low];
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&self.number.to_be_bytes());
        let key = Key::new(Algorithm::Aes256Gcm, &[self.key; 32], Choice::Library);
        let text = inner.clone();
        let tag = key.seal(nonce, &header, &mut inner);
        stream.extend_from_slice(&[&header[..], &inner, &tag].concat());
        self.number += 1;
        if !self.is_over && !self.is_false {
            self.follow(&text);
        }
    }

    /// What this is to those who read it.
    fn follow(&mut self, inner: &[u8]) {
        let content = inner.iter().rposition(|byte| *byte > 0).map(|at| (inner[at], &inner[..at]));
        self.quiet += 1;
        match content {
            Some((23, data)) => {
                self.said.extend_from_slice(data);
                if !data.is_empty() {
                    self.quiet = 0;
                }
            }
            Some((22, [24, 0, 0, 1, 0 | 1])) => self.take_next_key(),
            // The end that reads has dialled: tickets are for it.
            Some((22, messages)) if are_tickets(messages) => {}
            Some((22, messages)) if is_tickets_and_an_update(messages) => self.take_next_key(),
            Some((21, [_, 90])) => {}
            _ => self.is_over = true,
        }
        self.is_over |= self.quiet > 32;
    }

    fn take_next_key(&mut self) {
        self.key = self.key.wrapping_add(1);
        self.number = 0;
    }
}

fn are_tickets(messages: &[u8]) -> bool {
    match messages {
        [4, a, b, c, rest @ ..] => {
            let len = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
            rest.len() == len || rest.get(len..).is_some_and(are_tickets)
        }
        _ => false,
    }
}

fn is_tickets_and_an_update(messages: &[u8]) -> bool {
    let update = messages.len().checked_sub(5).map(|at| messages.split_at(at));
    matches!(update, Some((tickets, [24, 0, 0, 1, 0 | 1])) if are_tickets(tickets))
}

/// Two ends of ours that send what `rest` says, by pieces of `len` bytes.
fn exchange(len: usize, rest: &[u8]) {
    let mut ends = [end(true, 3), end(false, 2)];
    for (turn, piece) in rest.chunks(len.max(1)).enumerate() {
        let mut outgoing = Outgoing::default();
        // More than one record, from a few bytes.
        let sent = piece.repeat(1 + usize::from(piece[0]) * usize::from(turn % 3 == 0));
        sent.chunks(len * 7 + 1).for_each(|part| outgoing.append(part));
        let mut stream = Vec::new();
        let [one, other] = &mut ends;
        let (from, to) = if turn % 2 == 0 { (one, other) } else { (other, one) };
        assert_eq!(from.renew_if_due(&mut stream), Ok(()));
        let sealed = from.seal(outgoing).expect("it is open");
        assert_eq!(sealed.len(), sent.len() + sent.len().div_ceil(1 << 14) * 22);
        stream.extend_from_slice(&sealed);
        let mut got = Vec::new();
        let opened = to.open(&mut stream, &mut |it| got.extend_from_slice(it));
        assert_eq!(opened, (stream.len(), Ok(Life::Open)));
        assert_eq!(got, sent);
    }
}

/// An end whose keys are known: each is the number of its updates, 32 times.
fn end(is_client: bool, most_sealed: u64) -> Protected {
    let (sending, receiving) = ((0, secrets(0)), (0, secrets(0)));
    let next = Box::new(Counted { sending: 0, receiving: 0 });
    let first = First { sending, receiving, next, is_client };
    let end = Protected::new(first, Choice::Fastest).expect("the cipher is one of ours");
    end.with_most_sealed(most_sealed)
}

struct Counted {
    sending: u8,
    receiving: u8,
}

impl Secrets for Counted {
    fn next_sending(&mut self) -> Result<(u64, ConnectionTrafficSecrets), Error> {
        self.sending = self.sending.wrapping_add(1);
        Ok((0, secrets(self.sending)))
    }

    fn next_receiving(&mut self) -> Result<(u64, ConnectionTrafficSecrets), Error> {
        self.receiving = self.receiving.wrapping_add(1);
        Ok((0, secrets(self.receiving)))
    }
}

fn secrets(number: u8) -> ConnectionTrafficSecrets {
    ConnectionTrafficSecrets::Aes256Gcm { key: AeadKey::from([number; 32]), iv: Iv::from([0; 12]) }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_properties_hold(kind in 0..2_u8, cut in any::<u8>(), rest in vec(any::<u8>(), 0..600)) {
            super::tls_records(&[&[kind, cut][..], &rest].concat());
        }

        #[test]
        fn they_hold_for_what_a_peer_says(
            cut in any::<u8>(),
            steps in vec((0..6_u8, any::<bool>(), vec(any::<u8>(), 0..60)), 0..40),
        ) {
            let mut data = vec![0, cut];
            for (what, asks, piece) in steps {
                // What ends the connection is rare.
                let what = if what == 3 || what == 5 { 0 } else { what };
                data.extend([what | u8::from(asks) << 7, piece.len() as u8]);
                data.extend(piece);
            }
            super::tls_records(&data);
        }
    }
}
