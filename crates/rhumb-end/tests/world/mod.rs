//! Ends in virtual time, and a router between them that does as a test tells it.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_end::{
    Carries, Config, ConnectionId, EndError, Ends, Event, Ports, StreamId, Way, WriteError,
};
use rhumb_trust::{Identity, Now, Standing};
use rhumb_wire::payload::PayloadHeader;
use rhumb_wire::{Name, Role};

/// What a router carries.
#[derive(Debug, Clone)]
pub(crate) struct Payload {
    pub(crate) from: Name,
    pub(crate) to: Name,
    pub(crate) header: PayloadHeader,
    pub(crate) body: Vec<u8>,
}

/// What the router makes of a payload: what it carries on, and how much later than usual.
pub(crate) type Router = Box<dyn FnMut(Payload) -> Vec<(Duration, Payload)>>;

pub(crate) struct World {
    pub(crate) now: Now,
    /// The same, for routers.
    pub(crate) clock: Rc<Cell<Instant>>,
    pub(crate) router: Router,
    /// The longest body that the path carries, with anybody.
    pub(crate) longest: usize,
    /// Where payloads to a name go, unless to that name itself.
    pub(crate) served_by: HashMap<Name, Name>,
    pub(crate) standing: Standing,
    ends: Vec<(Name, Ends)>,
    under_way: BTreeMap<(Instant, u64), Payload>,
    carried: u64,
    /// What each end was told, in order.
    pub(crate) events: HashMap<Name, Vec<Event>>,
}

pub(crate) const ONE_WAY: Duration = Duration::from_millis(5);
pub(crate) const PORT: u16 = 7;
pub(crate) const PORTS: Ports = Ports { from: 9, to: PORT };
pub(crate) const LONGEST: usize = 1400;
/// Payloads that an end is asked for at once.
pub(crate) const TRAIN: usize = 16;

impl World {
    pub(crate) fn new() -> Self {
        #[expect(clippy::disallowed_methods, reason = "the first instant")]
        let instant = Instant::now();
        Self {
            now: Now { instant, unix_ms: 1_900_000_000_000 },
            clock: Rc::new(Cell::new(instant)),
            router: Box::new(honest),
            longest: LONGEST,
            served_by: HashMap::new(),
            standing: Standing::Stranger,
            ends: Vec::new(),
            under_way: BTreeMap::new(),
            carried: 0,
            events: HashMap::new(),
        }
    }

    /// Two ends; the second offers streams and datagrams at [`PORT`] to the first.
    pub(crate) fn pair() -> (Self, Name, Name) {
        let mut world = Self::new();
        let (a, b) = (world.join(), world.join());
        world.offer(b, [a]);
        (world, a, b)
    }

    pub(crate) fn identity() -> Arc<Identity> {
        Arc::new(Identity::generate(Role::Node, 1).unwrap())
    }

    pub(crate) fn join(&mut self) -> Name {
        self.join_as(Self::identity())
    }

    pub(crate) fn join_as(&mut self, identity: Arc<Identity>) -> Name {
        self.join_with(identity, Config::new(LONGEST as u16))
    }

    pub(crate) fn join_with(&mut self, identity: Arc<Identity>, config: Config) -> Name {
        let name = identity.name();
        let ends = Ends::new(identity, config, &[7; 32], self.now).unwrap();
        self.ends.retain(|(other, _)| *other != name);
        self.ends.push((name, ends));
        name
    }

    pub(crate) fn leave(&mut self, name: Name) {
        self.ends.retain(|(other, _)| *other != name);
    }

    pub(crate) fn offer(&mut self, at: Name, to: impl IntoIterator<Item = Name>) {
        let names = rhumb_end::Admits::names(to);
        for carries in [Carries::Streams, Carries::Datagrams] {
            self.end(at).offer(carries, PORT, names.clone());
        }
    }

    pub(crate) fn end(&mut self, name: Name) -> &mut Ends {
        &mut self.ends.iter_mut().find(|(it, _)| *it == name).unwrap().1
    }

    pub(crate) fn connect(&mut self, from: Name, to: Name) -> ConnectionId {
        let now = self.now;
        self.end(from).connect(from, to, now).unwrap()
    }

    /// Connects, and waits until it is there or is not.
    pub(crate) fn connected(&mut self, from: Name, to: Name) -> Result<ConnectionId, EndError> {
        let id = self.connect(from, to);
        self.run_until(Duration::from_secs(40), |world| {
            world.end(from).is_open(id) || world.ended(from, id).is_some()
        });
        match self.ended(from, id) {
            Some(error) => Err(error),
            None => Ok(id),
        }
    }

    pub(crate) fn ended(&self, at: Name, connection: ConnectionId) -> Option<EndError> {
        self.events.get(&at)?.iter().find_map(|event| match event {
            Event::Ended { id, error, .. } if *id == connection => Some(error.clone()),
            _ => None,
        })
    }

    pub(crate) fn open(&mut self, from: Name, id: ConnectionId) -> StreamId {
        let now = self.now;
        self.end(from).open(id, Way::Both, PORT, now).unwrap().unwrap()
    }

    /// Streams that an end was handed.
    pub(crate) fn opened(&self, at: Name) -> Vec<(ConnectionId, StreamId)> {
        let events = self.events.get(&at).into_iter().flatten();
        events
            .filter_map(|event| match event {
                Event::Opened { id, stream, .. } => Some((*id, *stream)),
                _ => None,
            })
            .collect()
    }

    /// Writes all of it as there is room, while the other end reads.
    pub(crate) fn write(&mut self, from: Name, id: ConnectionId, stream: StreamId, bytes: &[u8]) {
        let now = self.now;
        assert_eq!(self.end(from).write(id, stream, bytes, now), Ok(bytes.len()));
    }

    /// Sends `bytes` over a new stream, to its end, and returns what arrived at `to`.
    pub(crate) fn carry(
        &mut self,
        from: Name,
        to: Name,
        id: ConnectionId,
        bytes: &[u8],
    ) -> Vec<u8> {
        let before = self.opened(to).len();
        let stream = self.open(from, id);
        let mut written = 0;
        let mut arrived = Vec::new();
        let deadline = self.now.instant + Duration::from_secs(600);
        loop {
            let now = self.now;
            if written < bytes.len() {
                match self.end(from).write(id, stream, &bytes[written..], now) {
                    Ok(more) => written += more,
                    Err(WriteError::Blocked) => {}
                    Err(error) => panic!("{error:?}"),
                }
                if written == bytes.len() {
                    self.end(from).finish(id, stream, now).unwrap();
                }
            }
            if let Some(&(id, stream)) = self.opened(to).get(before)
                && self.read_all(to, id, stream, &mut arrived)
            {
                let now = self.now;
                self.end(to).release(id, stream, now);
                self.end(from).release(id, stream, now);
                return arrived;
            }
            assert!(self.now.instant < deadline, "{} of {}", arrived.len(), bytes.len());
            self.step();
        }
    }

    /// Reads what there is; says whether that was the end.
    pub(crate) fn read_all(
        &mut self,
        at: Name,
        id: ConnectionId,
        stream: StreamId,
        into: &mut Vec<u8>,
    ) -> bool {
        let now = self.now;
        loop {
            match self.end(at).read(id, stream, usize::MAX, now) {
                Ok(Some(bytes)) => into.extend_from_slice(&bytes),
                Ok(None) => return true,
                Err(WriteError::Blocked) => return false,
                Err(error) => panic!("{error:?}"),
            }
        }
    }

    /// What a read says when it has come to its end: an error, if it did not end well.
    pub(crate) fn outcome(
        &mut self,
        at: Name,
        id: ConnectionId,
        stream: StreamId,
    ) -> Result<Option<Vec<u8>>, WriteError> {
        let now = self.now;
        self.end(at).read(id, stream, usize::MAX, now).map(|it| it.map(|bytes| bytes.to_vec()))
    }

    pub(crate) fn run_until(&mut self, within: Duration, mut done: impl FnMut(&mut Self) -> bool) {
        let deadline = self.now.instant + within;
        while !done(self) {
            assert!(self.now.instant < deadline, "not within {within:?}");
            self.step();
        }
    }

    pub(crate) fn run(&mut self, time: Duration) {
        let until = self.now.instant + time;
        while self.now.instant < until {
            self.step();
        }
    }

    /// Hands a payload to whom it is for, as the last router does.
    pub(crate) fn deliver(&mut self, payload: &Payload) {
        let at = self.served_by.get(&payload.to).copied().unwrap_or(payload.to);
        let (now, standing) = (self.now, self.standing);
        if let Some((_, ends)) = self.ends.iter_mut().find(|(name, _)| *name == at) {
            let parts = (payload.header, &payload.body[..]);
            let _ = ends.handle(payload.from, payload.to, parts, standing, now);
        }
    }

    /// The next thing that happens: a datagram arrives, or a timer ends; a millisecond at most.
    pub(crate) fn step(&mut self) {
        self.send();
        let timers = self.ends.iter().filter_map(|(_, ends)| ends.poll_timeout());
        let arrival = self.under_way.keys().next().map(|(at, _)| *at);
        let soon = self.now.instant + Duration::from_millis(1);
        let next = timers.chain(arrival).chain([soon]).min().unwrap();
        let passed = next.saturating_duration_since(self.now.instant);
        // Both clocks go on together, and one counts milliseconds.
        self.now.unix_ms += u64::from(passed > Duration::ZERO && next == soon);
        self.now.instant = next.max(self.now.instant);
        self.clock.set(self.now.instant);
        while let Some(entry) = self.under_way.first_entry()
            && entry.key().0 <= self.now.instant
        {
            let payload = entry.remove();
            self.deliver(&payload);
        }
        for (_, ends) in &mut self.ends {
            ends.handle_timeout(self.now);
        }
        self.send();
        for (name, ends) in &mut self.ends {
            let events = self.events.entry(*name).or_default();
            events.extend(std::iter::from_fn(|| ends.poll_event()));
        }
    }

    fn send(&mut self) {
        let (now, longest) = (self.now, self.longest);
        let mut body = Vec::new();
        for (_, ends) in &mut self.ends {
            while let Some(transmit) = ends.poll_train(|_| longest, TRAIN, &mut body, now) {
                let rhumb_end::Transmit { from, to, header, each, .. } = transmit;
                for body in body.chunks(each) {
                    assert!(body.len() <= longest);
                    let payload = Payload { from, to, header, body: body.to_vec() };
                    for (later, payload) in (self.router)(payload) {
                        self.carried += 1;
                        let arrives = now.instant + ONE_WAY + later;
                        self.under_way.insert((arrives, self.carried), payload);
                    }
                }
            }
        }
    }
}

pub(crate) fn honest(payload: Payload) -> Vec<(Duration, Payload)> {
    vec![(Duration::ZERO, payload)]
}

/// Bytes that are not like each other.
pub(crate) fn noise(len: usize) -> Vec<u8> {
    let mut state = 1u32;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    })
    .take(len)
    .collect()
}
