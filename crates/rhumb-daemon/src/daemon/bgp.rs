//! BGP over TCP: a task per neighbour drives the sans-IO [`Session`] on sockets.
//!
//! 1. [`Neighbour::start`] starts the task. It connects, or takes what a
//!    [`Listener`] hands it, and does what the session says.
//! 2. Orders ([`Order`]) come in batches: routes for the neighbour, and the end. They are always
//!    taken, so whoever gives them never waits for long; what the neighbour does not take yet waits
//!    in the session's table, once per prefix.
//! 3. Events go out over a bounded channel. While nobody takes them nothing is read from the
//!    neighbour, which TCP tells it.
//! 4. A [`Neighbour::status`] is there at any time.

mod connection;
mod listener;

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use rhumb_bgp::{
    Config, Counters, DownReason, Event, Family, Order, Session, Side, State, Transmit,
};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, sleep_until};

use crate::failure::{Failure, Outcome};
use connection::{Connection, Input, connect};

pub use listener::{Admitted, Listener, TcpPassword};

/// Where a neighbour is, and how to reach it.
#[derive(Debug, Clone)]
pub struct Reach {
    /// Where it listens.
    pub address: SocketAddr,
    /// Ours, if it is to be a certain one.
    pub local: Option<IpAddr>,
    /// Of TCP-MD5 (RFC 2385).
    pub password: Option<TcpPassword>,
}

impl Reach {
    /// Why a connection failed, and what may be done about it. Who signs segments otherwise is not
    /// answered at all, so both look alike.
    fn explain(&self, error: &io::Error) -> String {
        let advice = match (error.kind(), &self.password) {
            (io::ErrorKind::TimedOut, Some(_)) => {
                "; it is away, or its TCP-MD5 password for our address is another one, or none"
            }
            (io::ErrorKind::TimedOut, None) => {
                "; it is away, or wants a TCP-MD5 password, which we have none of"
            }
            (io::ErrorKind::ConnectionRefused, _) if self.is_here() => {
                "; on one host with us BIRD waits for ever in state Idle without `multihop;`, and takes our address without `strict bind yes;`"
            }
            (io::ErrorKind::ConnectionRefused, _) => {
                "; does BGP run there, and does it listen at this address and port?"
            }
            _ => "",
        };
        match error.kind() {
            io::ErrorKind::TimedOut => format!("no answer{advice}"),
            _ => format!("{error}{advice}"),
        }
    }

    /// Whether it is on this host: only addresses of one's own can be bound to.
    fn is_here(&self) -> bool {
        std::net::UdpSocket::bind((self.address.ip(), 0)).is_ok()
    }
}

/// A neighbour that is spoken with, until dropped.
#[derive(Debug)]
pub struct Neighbour {
    orders: mpsc::Sender<Vec<Order>>,
    incoming: mpsc::Sender<TcpStream>,
    status: watch::Receiver<Status>,
}

/// How it stands.
#[derive(Debug, Clone)]
pub struct Status {
    /// Of the state machine (RFC 4271, section 8).
    pub state: State,
    /// Since when it is in that state.
    pub since: Instant,
    /// What was read and sent since the start.
    pub counters: Counters,
    /// Routes by family: those it has announced, those it shall
    /// have, and of the former those kept from before.
    pub routes: [Routes; 2],
    /// Why the last session ended.
    pub last_down: Option<DownReason>,
    /// Why the last attempt to connect failed, and what to do; until there is a connection.
    pub problem: Option<String>,
}

/// Numbers of routes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Routes {
    /// Those that it has announced.
    pub received: usize,
    /// Of these, those kept from a session before.
    pub stale: usize,
    /// Those that it shall have.
    pub sent: usize,
}

impl Neighbour {
    /// Begins to speak with a neighbour. What it says goes to
    /// `events`, with `tag`. To be called in a runtime.
    pub fn start(
        config: Config,
        reach: Reach,
        seed: u64,
        tag: usize,
        events: mpsc::Sender<(usize, Event)>,
    ) -> Outcome<Self> {
        let session = Session::new(config, seed).map_err(Failure::setup)?;
        let (orders, ordered) = mpsc::channel(ORDERS);
        let (incoming, accepted) = mpsc::channel(INCOMING);
        let (inputs, arriving) = mpsc::channel(INPUTS);
        let (told, status) = watch::channel(Status::of(&session, Instant::now()));
        let driver = Driver {
            session,
            reach,
            tag,
            connections: Vec::new(),
            attempt: None,
            backlog: VecDeque::new(),
            inputs,
            status: told,
            last_down: None,
            problem: None,
            is_stopped: false,
        };
        tokio::spawn(driver.run(Sources { ordered, accepted, arriving, events }));
        Ok(Self { orders, incoming, status })
    }

    /// Gives orders, in their order. Waits only while earlier ones are being taken.
    pub async fn order(&self, orders: Vec<Order>) {
        // The task lives as long as this.
        let _ = self.orders.send(orders).await;
    }

    /// Where a listener puts connections from the neighbour.
    pub fn door(&self) -> mpsc::Sender<TcpStream> {
        self.incoming.clone()
    }

    /// How it stands now.
    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }
}

impl Status {
    fn of(session: &Session, since: Instant) -> Self {
        let routes = Family::ALL.map(|family| Routes {
            received: session.count_in(family),
            stale: session.count_stale(family),
            sent: session.count_out(family),
        });
        Self {
            state: session.state(),
            since,
            counters: session.counters(),
            routes,
            last_down: None,
            problem: None,
        }
    }
}

/// The task's own.
struct Driver {
    session: Session,
    reach: Reach,
    tag: usize,
    /// Two at most, and those that are being closed.
    connections: Vec<Connection>,
    attempt: Option<tokio::task::AbortHandle>,
    /// Events that nobody has taken yet.
    backlog: VecDeque<Event>,
    /// For tasks of connections.
    inputs: mpsc::Sender<Input>,
    status: watch::Sender<Status>,
    last_down: Option<DownReason>,
    problem: Option<String>,
    is_stopped: bool,
}

/// Where things come from, and where events go.
struct Sources {
    ordered: mpsc::Receiver<Vec<Order>>,
    accepted: mpsc::Receiver<TcpStream>,
    arriving: mpsc::Receiver<Input>,
    events: mpsc::Sender<(usize, Event)>,
}

impl Driver {
    async fn run(mut self, mut sources: Sources) {
        self.session.start(Instant::now());
        loop {
            self.transmit();
            while let Some(event) = self.session.poll_event() {
                self.note(&event);
                self.backlog.push_back(event);
            }
            self.tell();
            if self.is_stopped && self.connections.is_empty() {
                return;
            }
            let due = self.session.poll_timeout().unwrap_or_else(|| Instant::now() + IDLE);
            let full = self.connections.iter().find_map(Connection::full);
            tokio::select! {
                permit = sources.events.reserve(), if !self.backlog.is_empty() => {
                    let (Ok(permit), Some(event)) = (permit, self.backlog.pop_front()) else { return };
                    permit.send((self.tag, event));
                    self.tell_more(&sources.events);
                }
                orders = sources.ordered.recv() => match orders {
                    Some(orders) => orders.into_iter().for_each(|order| self.obey(order)),
                    // Nobody is interested any more.
                    None => self.obey(Order::Stop(String::new())),
                },
                stream = sources.accepted.recv() => {
                    if let Some(stream) = stream {
                        self.connected(Side::Incoming, stream);
                    }
                }
                input = sources.arriving.recv(), if self.backlog.is_empty() => {
                    if let Some(input) = input {
                        self.take(input);
                    }
                }
                () = sleep_until(due.into()) => self.session.handle_timeout(Instant::now()),
                () = async { match full { Some(outlet) => outlet.wait_for_room().await, None => sleep(IDLE).await } } => {}
            }
        }
    }

    /// Does what the session says, as long as its connections take what is to be written.
    fn transmit(&mut self) {
        while self.connections.iter().all(|connection| connection.full().is_none()) {
            match self.session.poll_transmit(Instant::now()) {
                None => return,
                Some(Transmit::Send(id, bytes)) => {
                    if let Some(connection) = self.connections.iter().find(|it| it.id == id) {
                        connection.send(bytes);
                    }
                }
                Some(Transmit::Close(id)) => self.connections.retain(|it| it.id != id),
                Some(Transmit::Connect) => {
                    self.forget_attempt();
                    let (reach, inputs) = (self.reach.clone(), self.inputs.clone());
                    self.attempt = Some(tokio::spawn(connect(reach, inputs)).abort_handle());
                }
            }
        }
    }

    fn tell_more(&mut self, events: &mpsc::Sender<(usize, Event)>) {
        while !self.backlog.is_empty()
            && let Ok(permit) = events.try_reserve()
            && let Some(event) = self.backlog.pop_front()
        {
            permit.send((self.tag, event));
        }
    }

    fn connected(&mut self, side: Side, stream: TcpStream) {
        // Refused ones are closed by being dropped.
        if let Some(id) = self.session.connected(side, Instant::now()) {
            self.problem = None;
            self.connections.push(Connection::start(id, stream, self.inputs.clone()));
        }
    }

    fn take(&mut self, input: Input) {
        let now = Instant::now();
        match input {
            Input::Connected(stream) => {
                self.attempt = None;
                self.connected(Side::Outgoing, stream);
            }
            Input::NotConnected(error) => {
                let problem = self.reach.explain(&error);
                if self.problem.as_ref() != Some(&problem) {
                    tracing::warn!(neighbour = %self.reach.address, problem, "cannot connect");
                }
                (self.attempt, self.problem) = (None, Some(problem));
                self.session.connect_failed(now);
            }
            Input::Bytes(id, bytes) => self.session.handle_bytes(id, &bytes, now),
            Input::Closed(id) => {
                if self.connections.iter().any(|it| it.id == id) {
                    self.connections.retain(|it| it.id != id);
                    self.session.disconnected(id, now);
                }
            }
        }
    }

    fn obey(&mut self, order: Order) {
        let now = Instant::now();
        match order {
            Order::Announce(prefix, attributes) => {
                if let Err(withheld) = self.session.announce(prefix, 0, &attributes, now) {
                    tracing::debug!(?prefix, ?withheld, "a route stays here");
                }
            }
            Order::Withdraw(prefix) => {
                self.session.withdraw(prefix, 0, now);
            }
            Order::EndOfRib(family) => self.session.end_of_rib(family, now),
            Order::Stop(words) => {
                self.forget_attempt();
                self.session.stop(&words, now);
                self.is_stopped = true;
            }
        }
    }

    fn forget_attempt(&mut self) {
        if let Some(attempt) = self.attempt.take() {
            attempt.abort();
        }
    }

    fn note(&mut self, event: &Event) {
        let neighbour = self.reach.address;
        match event {
            Event::Up(_) => tracing::warn!(%neighbour, "the BGP session is up"),
            Event::Down(reason) => {
                tracing::warn!(%neighbour, %reason, "the BGP session is down");
                self.last_down = Some(reason.clone());
            }
            Event::FamilyDisabled(family) => {
                tracing::error!(%neighbour, %family, "a family cannot be read, and is ignored");
            }
            _ => {}
        }
    }

    fn tell(&mut self) {
        let before = self.status.borrow().clone();
        let now = Instant::now();
        let since = if before.state == self.session.state() { before.since } else { now };
        let (last_down, problem) = (self.last_down.clone(), self.problem.clone());
        let status = Status { last_down, problem, ..Status::of(&self.session, since) };
        self.status.send_replace(status);
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.forget_attempt();
    }
}

/// Batches of orders that wait: two, so that the next is made while one is taken.
const ORDERS: usize = 2;
/// A neighbour connects once; more at a time are its retries.
const INCOMING: usize = 2;
/// Pieces read from the neighbour that wait to be handled.
const INPUTS: usize = 4;
/// Where there is no timer: nothing depends on it.
const IDLE: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_bgp::policy::prefix::parse_prefix;
    use rhumb_bgp::wire::{AsPath, AsPathSegment, Origin, PathAttribute, Prefix};
    use rhumb_bgp::{Attributes, NextHop};
    use tokio::time::timeout;

    const NEAR: (u32, [u8; 4]) = (64500, [192, 0, 2, 1]);
    const FAR: (u32, [u8; 4]) = (64501, [192, 0, 2, 2]);
    const PATIENCE: Duration = Duration::from_secs(20);

    fn config(own: (u32, [u8; 4]), other: (u32, [u8; 4])) -> Config {
        let mut config = Config::new(own.0, own.1.into(), other.0);
        config.timers.connect_retry = Duration::from_millis(100);
        config.timers.idle_hold = Duration::from_millis(100);
        config.timers.idle_hold_max = Duration::from_millis(400);
        config.enforce_first_as = false;
        config
    }

    fn route(number: u32) -> (Prefix, Attributes) {
        let prefix = format!("10.{}.{}.0/24", number >> 8 & 255, number & 255);
        let path = AsPath { segments: vec![AsPathSegment::AsSequence(vec![64502, number + 1])] };
        let list = [PathAttribute::Origin(Origin::Igp), PathAttribute::AsPath(path)];
        let next_hop = NextHop::V4([192, 0, 2, 9].into());
        (parse_prefix(&prefix).unwrap(), Attributes::new(next_hop, &list).unwrap())
    }

    struct End {
        neighbour: Neighbour,
        events: mpsc::Receiver<(usize, Event)>,
        _listener: Option<Listener>,
    }

    impl End {
        async fn next(&mut self) -> Event {
            timeout(PATIENCE, self.events.recv()).await.unwrap().unwrap().1
        }

        /// Takes events until one is wanted.
        async fn until(&mut self, wanted: impl Fn(&Event) -> bool) {
            while !wanted(&self.next().await) {}
        }
    }

    /// One end listens, the other connects; with passwords if given.
    fn pair(near_secret: Option<&str>, far_secret: Option<&str>) -> (End, End) {
        let secret = |text: &str| TcpPassword::new(text.as_bytes().to_vec().into());
        let (near_secret, far_secret) = (near_secret.map(secret), far_secret.map(secret));
        let localhost: IpAddr = [127, 0, 0, 1].into();
        let unused = SocketAddr::new(localhost, 1);
        let mut passive = config(NEAR, FAR);
        passive.passive = true;
        let reach = Reach { address: unused, local: None, password: None };
        let (events, near_events) = mpsc::channel(1);
        let near = Neighbour::start(passive, reach, 1, 7, events).unwrap();
        let admitted = Admitted { address: localhost, password: near_secret, door: near.door() };
        let listener = Listener::start(SocketAddr::new(localhost, 0), vec![admitted]).unwrap();
        let reach =
            Reach { address: listener.address, local: Some(localhost), password: far_secret };
        let (events, far_events) = mpsc::channel(1);
        let far = Neighbour::start(config(FAR, NEAR), reach, 2, 8, events).unwrap();
        let near = End { neighbour: near, events: near_events, _listener: Some(listener) };
        (near, End { neighbour: far, events: far_events, _listener: None })
    }

    #[tokio::test]
    async fn routes_come_over_and_go_with_the_session() {
        let (mut near, mut far) = pair(None, None);
        let many: Vec<Order> = (0..3000)
            .map(|number| {
                let (prefix, attributes) = route(number);
                Order::Announce(prefix, attributes)
            })
            .collect();
        near.neighbour.order(many).await;
        near.until(|event| matches!(event, Event::Up(_))).await;
        // Nobody takes events of the far end: it reads no more
        // than its queues hold, and nothing is lost.
        let mut seen = 0;
        far.until(|event| matches!(event, Event::Up(_))).await;
        while seen < 3000 {
            if let Event::Announced { prefix, attributes, .. } = far.next().await {
                assert_eq!(route(seen), (prefix, attributes));
                seen += 1;
            }
        }
        assert_eq!(far.neighbour.status().routes[0].received, 3000);
        assert_eq!(far.neighbour.status().state, State::Established);

        near.neighbour.order(vec![Order::Withdraw(route(5).0)]).await;
        far.until(
            |event| matches!(event, Event::Withdrawn { prefix, .. } if *prefix == route(5).0),
        )
        .await;
        near.neighbour.order(vec![Order::Stop("going home".to_owned())]).await;
        let mut words = String::new();
        far.until(|event| match event {
            Event::Down(DownReason::Received(message)) => {
                assert!(DownReason::Received(message.clone()).to_string().contains("going home"));
                true
            }
            _ => false,
        })
        .await;
        for _ in 0..2999 {
            match far.next().await {
                Event::Withdrawn { prefix, .. } => words = format!("{prefix:?}"),
                other => panic!("{other:?}"),
            }
        }
        assert!(!words.is_empty());
    }

    #[tokio::test]
    async fn with_a_password_only_who_has_it_is_heard() {
        let (mut near, mut far) = pair(Some("sesame"), Some("sesame"));
        near.until(|event| matches!(event, Event::Up(_))).await;
        far.until(|event| matches!(event, Event::Up(_))).await;
        let (near, _far) = pair(Some("sesame"), Some("barley"));
        // What is signed wrongly is dropped by the kernel: no
        // connection, and no session, however long one waits.
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(near.neighbour.status().counters.established == 0);
    }

    #[tokio::test]
    async fn a_stranger_is_sent_away_and_counted() {
        let admitted =
            Admitted { address: [192, 0, 2, 77].into(), password: None, door: mpsc::channel(1).0 };
        let listener = Listener::start("127.0.0.1:0".parse().unwrap(), vec![admitted]).unwrap();
        let mut stream = TcpStream::connect(listener.address).await.unwrap();
        let mut bytes = [0; 9];
        let read = tokio::io::AsyncReadExt::read(&mut stream, &mut bytes);
        assert_eq!(timeout(PATIENCE, read).await.unwrap().unwrap(), 0);
        assert_eq!(listener.refused(), 1);
    }
}
