//! A property for the fuzzer and for tests: whatever a router on the way does to what two ends say,
//! nothing panics, what is read is what was written and no more, and nobody else is believed.
//!
//! Structure-aware, because random bytes stop at the first check: input bytes choose operations,
//! and real payloads of a pair of ends are what gets altered.

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use rhumb_trust::{Identity, Now, Standing};
use rhumb_wire::payload::{PayloadHeader, PayloadKind};
use rhumb_wire::{Name, Role};

use crate::{Admits, Carries, Config, ConnectionId, Ends, Event, StreamId, Way};

/// Sequences of what a router between two ends may do.
///
/// # Panics
/// When the property does not hold.
pub fn ends(data: &[u8]) {
    let mut world = World::new();
    let mut input = data.iter().copied();
    while let Some(operation) = input.next() {
        let mut next = || input.next().unwrap_or(0);
        match operation % 8 {
            0 | 1 => world.deliver(usize::from(operation / 8) % 4),
            2 => world.alter(next(), next()),
            3 => world.copy_from_stranger(),
            4 => {
                let (kind, port) = (next(), u16::from(next()));
                let count = usize::from(next());
                let bytes: Vec<u8> = input.by_ref().take(count).collect();
                world.make_up(kind, port, &bytes);
            }
            5 => world.wait(Duration::from_millis(u64::from(next()) * 20)),
            6 => drop(world.under_way.pop_front()),
            _ => world.write(usize::from(next())),
        }
    }
    for _ in 0..200 {
        world.deliver(0);
    }
    world.read();
}

type Payload = (Name, Name, PayloadHeader, Vec<u8>);

struct World {
    now: Now,
    pair: [(Name, Ends); 2],
    connection: ConnectionId,
    stream: Option<StreamId>,
    arriving: Option<(ConnectionId, StreamId)>,
    written: usize,
    read: usize,
    longest: usize,
    under_way: VecDeque<Payload>,
}

impl World {
    fn new() -> Self {
        let now = Now { instant: *START, unix_ms: 1_900_000_000_000 };
        let pair = IDENTITIES.clone().map(|identity| {
            let name = identity.name();
            let ends = Ends::new(identity, Config::new(1400), &[7; 32], now);
            (name, ends.expect("a fresh identity makes an end"))
        });
        let [mut a, mut b] = pair;
        b.1.offer(Carries::Streams, PORT, Admits::names([a.0]));
        let connection = a.1.connect(a.0, b.0, now).expect("two names");
        let (stream, arriving) = (None, None);
        let (written, read, longest) = (0, 0, 1124);
        let under_way = VecDeque::new();
        let pair = [a, b];
        let mut world =
            Self { now, pair, connection, stream, arriving, written, read, longest, under_way };
        world.gather();
        world
    }

    fn gather(&mut self) {
        let mut body = Vec::new();
        for (_, ends) in &mut self.pair {
            while let Some(it) = ends.poll_transmit(|_| self.longest, &mut body, self.now) {
                assert!(body.len() <= self.longest);
                if self.under_way.len() < 256 {
                    self.under_way.push_back((it.from, it.to, it.header, body.clone()));
                }
            }
        }
        while let Some(event) = self.pair[1].1.poll_event() {
            match event {
                Event::Connected { peer, .. } => assert_eq!(peer, self.pair[0].0),
                Event::Opened { id, stream, port } => {
                    assert_eq!(port, PORT);
                    assert!(self.arriving.is_none(), "one stream was opened");
                    self.arriving = Some((id, stream));
                }
                _ => {}
            }
        }
        while self.pair[0].1.poll_event().is_some() {}
    }

    fn hand(&mut self, (from, to, header, body): &Payload) {
        if let Some((_, ends)) = self.pair.iter_mut().find(|(name, _)| name == to) {
            let _ = ends.handle(*from, *to, (*header, body), Standing::Stranger, self.now);
        }
        self.gather();
    }

    fn deliver(&mut self, skipped: usize) {
        let at = skipped.min(self.under_way.len().saturating_sub(1));
        if let Some(payload) = self.under_way.remove(at) {
            self.hand(&payload);
        }
    }

    fn alter(&mut self, at: u8, to: u8) {
        if let Some(mut payload) = self.under_way.pop_front() {
            let len = payload.3.len();
            if let Some(byte) = payload.3.get_mut(usize::from(at) * 5 % len.max(1)) {
                *byte ^= to.max(1);
            }
            self.hand(&payload);
        }
    }

    fn copy_from_stranger(&mut self) {
        if let Some(payload) = self.under_way.front().cloned() {
            self.hand(&(Name([0xAA; 32]), payload.1, payload.2, payload.3));
        }
    }

    fn make_up(&mut self, kind: u8, port: u16, bytes: &[u8]) {
        let kinds = [PayloadKind::Connection, PayloadKind::Half, PayloadKind::Record];
        let kind = kinds[usize::from(kind) % kinds.len()];
        let [from, to] = [self.pair[usize::from(port.is_multiple_of(2))].0, self.pair[1].0];
        self.hand(&(from, to, PayloadHeader { kind, port }, bytes.to_vec()));
    }

    fn wait(&mut self, time: Duration) {
        self.now = self.now.plus(time);
        for (_, ends) in &mut self.pair {
            ends.handle_timeout(self.now);
        }
        self.gather();
    }

    fn write(&mut self, len: usize) {
        let (now, id) = (self.now, self.connection);
        let ends = &mut self.pair[0].1;
        if self.stream.is_none() {
            self.stream = ends.open(id, Way::Both, PORT, now).ok().and_then(Result::ok);
        }
        if let Some(stream) = self.stream {
            let bytes: Vec<u8> = (self.written..self.written + len).map(said).collect();
            self.written += ends.write(id, stream, &bytes, now).unwrap_or(0);
        }
        self.read();
        self.gather();
    }

    fn read(&mut self) {
        let Some((id, stream)) = self.arriving else { return };
        while let Ok(Some(bytes)) = self.pair[1].1.read(id, stream, usize::MAX, self.now) {
            for byte in bytes {
                assert_eq!(byte, said(self.read), "something else was read than was written");
                self.read += 1;
            }
        }
        assert!(self.read <= self.written);
    }
}

/// The byte that stands at a place of the stream.
fn said(at: usize) -> u8 {
    (at * 31 % 251) as u8
}

const PORT: u16 = 7;
static IDENTITIES: LazyLock<[Arc<Identity>; 2]> = LazyLock::new(|| {
    [1, 2].map(|second| Arc::new(Identity::generate(Role::Node, second).expect("keys can be made")))
});
#[expect(clippy::disallowed_methods, reason = "the first instant")]
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_property_holds_where_all_goes_well_and_where_it_does_not() {
        let mut data = vec![0; 40];
        data.extend([7, 200, 0, 0, 0, 7, 100, 0, 0, 0]);
        ends(&data);
        let mut state = 1u32;
        for _ in 0..40 {
            let noise = std::iter::repeat_with(|| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            });
            let data: Vec<u8> = vec![0; 30].into_iter().chain(noise.take(300)).collect();
            ends(&data);
        }
    }

    #[test]
    fn it_comes_to_reading() {
        let mut world = World::new();
        for _ in 0..40 {
            world.deliver(0);
        }
        world.write(200);
        for _ in 0..10 {
            world.deliver(0);
        }
        world.read();
        assert_eq!(world.read, 200);
    }
}
