//! Connections over real sockets: what a program that uses the library sees. What routers on the
//! way may try is tested in `rhumb-end`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_node::{
    Admits, Config, DatagramError, EndError, Listener, Message, Node, NodeError, Port, Stream,
    StreamError, Wanted, stream_error,
};
use rhumb_trust::{Access, AdCert, Identity, Rule, Standing, Window};
use rhumb_wire::{Name, Role};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::relay::{Behaviour, PATIENCE, Relay};

const PORT: u16 = 7;

fn identity() -> Arc<Identity> {
    Arc::new(Identity::generate(Role::Node, 1).expect("a key"))
}

async fn join(relay: &Relay) -> Node {
    Node::join(identity(), Config::new(relay.address)).await.expect("the relay takes everybody")
}

/// Two nodes; the second lets the first open streams to [`PORT`].
async fn pair(behaviour: Behaviour) -> (Relay, Node, Node, Listener) {
    let relay = Relay::start(behaviour);
    let (a, b) = (join(&relay).await, join(&relay).await);
    let listener = b.listen(PORT, Admits::names([a.name()])).expect("a free port");
    (relay, a, b, listener)
}

async fn accept(listener: &mut Listener) -> Stream {
    timeout(PATIENCE, listener.accept()).await.expect("in time").expect("the node is there")
}

/// What reading a stream to its end comes to.
async fn read(stream: &mut Stream) -> Result<Vec<u8>, StreamError> {
    let mut bytes = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("in time");
    match read {
        Ok(_) => Ok(bytes),
        Err(error) => Err(stream_error(&error).expect("a stream's error").clone()),
    }
}

fn noise(len: usize) -> Vec<u8> {
    (0..len).map(|n| ((n * 2_654_435_761) >> 11) as u8).collect()
}

#[tokio::test]
async fn two_programs_talk_over_a_stream() {
    let (_relay, a, b, mut listener) = pair(Behaviour::default()).await;
    let mut asked = a.open(b.name(), PORT).await.expect("connected");
    asked.write_all(b"question").await.expect("written");
    asked.shutdown().await.expect("finished");
    let mut served = accept(&mut listener).await;
    assert_eq!((served.peer(), served.local(), served.port()), (a.name(), b.name(), PORT));
    assert_eq!(read(&mut served).await, Ok(b"question".to_vec()));
    served.write_all(b"answer").await.expect("written");
    served.deliver().await.expect("delivered");
    assert_eq!(read(&mut asked).await, Ok(b"answer".to_vec()));
    let connected = b.connections();
    assert_eq!(connected.len(), 1);
    assert_eq!((connected[0].peer, connected[0].is_ours), (a.name(), false));
}

#[tokio::test]
async fn an_established_peer_that_floods_with_streams_keeps_nobody_from_his() {
    let relay = Relay::start(Behaviour::default());
    let (a, b, flooder) = (join(&relay).await, join(&relay).await, join(&relay).await);
    let admits = Admits::names([a.name(), flooder.name()]);
    let mut listener = b.listen(PORT, admits).expect("a free port");
    let to = b.name();
    let flood = tokio::spawn(async move {
        // To a port that nobody has: they are refused as fast as they are opened.
        while let Ok(mut stream) = flooder.open(to, PORT + 1).await {
            let _ = stream.shutdown().await;
            tokio::task::yield_now().await;
        }
    });
    let sent = noise(200_000);
    let mut stream = timeout(PATIENCE, a.open(to, PORT)).await.expect("in time").expect("open");
    let copy = sent.clone();
    let writing = tokio::spawn(async move {
        stream.write_all(&copy).await.expect("written");
        stream.deliver().await.expect("delivered");
    });
    let mut served = accept(&mut listener).await;
    assert_eq!(read(&mut served).await, Ok(sent));
    timeout(PATIENCE, writing).await.expect("in time").expect("no panic");
    assert!(!flood.is_finished(), "the flood went on");
    flood.abort();
}

#[tokio::test]
async fn much_goes_both_ways_at_once_and_loss_is_made_good() {
    let behaviour = Behaviour { loses_one_in: 50, ..Behaviour::default() };
    let (_relay, a, b, mut listener) = pair(behaviour).await;
    let sent = noise(3_000_000);
    let copy = sent.clone();
    let echo = tokio::spawn(async move {
        let stream = accept(&mut listener).await;
        let (mut reader, mut writer) = tokio::io::split(stream);
        tokio::io::copy(&mut reader, &mut writer).await.expect("echoed");
        writer.shutdown().await.expect("finished");
        let mut stream = reader.unsplit(writer);
        stream.deliver().await.expect("delivered");
    });
    let stream = a.open(b.name(), PORT).await.expect("connected");
    let (mut reader, mut writer) = tokio::io::split(stream);
    let writing = tokio::spawn(async move {
        writer.write_all(&copy).await.expect("written");
        writer.shutdown().await.expect("finished");
    });
    let mut back = Vec::new();
    timeout(PATIENCE * 4, reader.read_to_end(&mut back)).await.expect("in time").expect("read");
    assert!(back == sent);
    writing.await.expect("no panic");
    echo.await.expect("no panic");
}

#[tokio::test]
async fn a_thousand_streams_at_once() {
    let (_relay, a, b, mut listener) = pair(Behaviour::default()).await;
    tokio::spawn(async move {
        while let Some(mut stream) = listener.accept().await {
            tokio::spawn(async move {
                let said = read(&mut stream).await.expect("read");
                stream.write_all(&said).await.expect("written");
                stream.deliver().await.expect("delivered");
            });
        }
    });
    let connection = a.connect(b.name()).await.expect("connected");
    let mut asking = Vec::new();
    for n in 0..1000u32 {
        let connection = connection.clone();
        asking.push(tokio::spawn(async move {
            let mut stream = connection.open(PORT).await.expect("opened");
            stream.write_all(&n.to_be_bytes()).await.expect("written");
            stream.shutdown().await.expect("finished");
            assert_eq!(read(&mut stream).await, Ok(n.to_be_bytes().to_vec()));
        }));
        // A listener holds so many that nobody has accepted.
        if n % 100 == 99 {
            for asked in asking.drain(..) {
                asked.await.expect("answered");
            }
        }
    }
}

#[tokio::test]
async fn who_does_not_read_holds_up_who_writes() {
    let (_relay, a, b, mut listener) = pair(Behaviour::default()).await;
    let mut stream = a.open(b.name(), PORT).await.expect("connected");
    let chunk = noise(1 << 20);
    let mut written = 0;
    let filling = async {
        loop {
            written += stream.write(&chunk).await.expect("written");
        }
    };
    assert!(timeout(Duration::from_secs(2), filling).await.is_err(), "it waits");
    assert!(written <= 8 << 20, "{written}");
    let mut served = accept(&mut listener).await;
    let mut half = vec![0; written / 2 + (1 << 20)];
    timeout(PATIENCE, served.read_exact(&mut half)).await.expect("in time").expect("read");
    let more = timeout(PATIENCE, stream.write(&chunk)).await.expect("there is room again");
    assert!(more.expect("written") > 0);
}

#[tokio::test]
async fn a_router_that_is_not_ready_costs_no_second() {
    let (_relay, a, b, mut listener) = pair(Behaviour { unready: 4, ..Behaviour::default() }).await;
    let begin = Instant::now();
    let mut stream = a.open(b.name(), PORT).await.expect("connected");
    stream.write_all(b"hello").await.expect("written");
    accept(&mut listener).await;
    // By QUIC's own timer it would be a second at least.
    assert!(begin.elapsed() < Duration::from_millis(900), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn the_narrowest_path_is_wide_enough_to_begin_on() {
    // What is left of 1232 bytes, which nobody knows before a router says so.
    let behaviour = Behaviour { longest: 1128, ..Behaviour::default() };
    let (_relay, a, b, mut listener) = pair(behaviour).await;
    let mut stream = a.open(b.name(), PORT).await.expect("connected");
    let said = noise(300_000);
    let (mut served, ()) = tokio::join!(accept(&mut listener), async {
        stream.write_all(&said).await.expect("written");
        stream.shutdown().await.expect("finished");
    });
    assert!(read(&mut served).await == Ok(said));
}

#[tokio::test]
async fn what_is_not_served_or_not_allowed_says_so() {
    let (relay, a, b, listener) = pair(Behaviour::default()).await;
    let mut refusals = b.refusals();
    let c = join(&relay).await;
    assert_eq!(c.connect(b.name()).await.unwrap_err(), EndError::Refused(b.name()));
    let refusal = timeout(PATIENCE, refusals.recv()).await.expect("in time").expect("told");
    assert_eq!((refusal.from, refusal.wanted), (c.name(), Wanted::Connection { port: None }));
    let _for_c = b.listen(9, Admits::names([c.name()])).expect("a free port");
    for (port, code) in [(8, 1), (9, 2)] {
        let mut stream = a.open(b.name(), port).await.expect("connected");
        assert_eq!(read(&mut stream).await, Err(StreamError::Ended { code }));
    }
    // A port has one listener, and is closed when that is gone.
    let taken = b.listen(PORT, Admits::Everybody);
    assert!(matches!(taken, Err(NodeError::PortInUse { port: PORT })));
    drop(listener);
    let mut stream = a.open(b.name(), PORT).await.expect("still connected");
    assert_eq!(read(&mut stream).await, Err(StreamError::Ended { code: 1 }));
    assert!(b.listen(PORT, Admits::Everybody).is_ok());
}

#[tokio::test]
async fn a_name_that_is_not_there_is_an_error_within_seconds() {
    let relay = Relay::start(Behaviour::default());
    let a = join(&relay).await;
    let (nobody, begin) = (Name([7; 32]), Instant::now());
    let error = a.connect(nobody).await.unwrap_err();
    assert_eq!(error, EndError::Unreachable(nobody));
    assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
    assert_eq!(a.connect(a.name()).await.unwrap_err(), EndError::OwnName);
}

#[tokio::test]
async fn whom_the_rules_of_the_node_refuse_is_told_so() {
    let (_relay, a, b, _listener) = pair(Behaviour::default()).await;
    let refused = Rule {
        name: Some(a.name()),
        domain: None,
        role: None,
        label: None,
        standing: Standing::Refused,
    };
    b.set_access(Access { rules: vec![refused], ..Access::default() });
    b.status().await.expect("the rules have been taken");
    let error = a.connect(b.name()).await.unwrap_err();
    assert_eq!(error, EndError::Refused(b.name()));
}

#[tokio::test]
async fn who_leaves_says_so_and_waits_for_nobody() {
    let (_relay, a, b, mut listener) = pair(Behaviour::default()).await;
    let mut stream = a.open(b.name(), PORT).await.expect("connected");
    stream.write_all(b"x").await.expect("written");
    let mut served = accept(&mut listener).await;
    // What was written before something that has arrived is there, too.
    let mut later = a.open(b.name(), PORT).await.expect("connected");
    later.write_all(b"x").await.expect("written");
    accept(&mut listener).await.read_exact(&mut [0]).await.expect("it has arrived");
    let (left, name) = (a.name(), b.name());
    a.leave().await;
    let mut first = [0];
    served.read_exact(&mut first).await.expect("what came before");
    let closed = EndError::ClosedByPeer { peer: left, code: 0 };
    assert_eq!(read(&mut served).await, Err(StreamError::Connection(closed)));
    // Its own handles know.
    assert_eq!(read(&mut stream).await, Err(StreamError::Connection(EndError::Closed)));
    assert!(stream.write_all(b"y").await.is_err());
    assert_eq!(stream.peer(), name);
    b.leave().await;
    assert!(listener.accept().await.is_none());
}

#[tokio::test]
async fn a_server_is_reached_by_the_name_that_it_serves() {
    let (_relay, a, b, mut listener) = pair(Behaviour::default()).await;
    let owner = Identity::generate(Role::Capsule, 1).expect("a key");
    let now_s = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970")
        .as_secs();
    let window = Window::starting(now_s, 600);
    let word = AdCert::sign(&owner, b.name(), 1, window).expect("signed");
    let service = b.serve(word).await.expect("served");
    let mut stream = a.open(owner.name(), PORT).await.expect("connected");
    stream.write_all(b"for the capsule").await.expect("written");
    stream.shutdown().await.expect("finished");
    let mut served = accept(&mut listener).await;
    assert_eq!(served.local(), owner.name());
    assert_eq!(read(&mut served).await, Ok(b"for the capsule".to_vec()));
    drop(service);
    assert!(matches!(
        read(&mut stream).await,
        Err(StreamError::Connection(EndError::ClosedByPeer { .. }) | StreamError::Ended { .. })
    ));
}

async fn receive(port: &mut Port) -> Message {
    timeout(PATIENCE, port.receive()).await.expect("in time").expect("the node is there")
}

#[tokio::test]
async fn datagrams_are_private_and_their_senders_proven() {
    let relay = Relay::start(Behaviour::default());
    let (a, b) = (join(&relay).await, join(&relay).await);
    let mut port = b.bind(PORT, Admits::names([a.name()])).expect("a free port");
    assert!(matches!(b.bind(PORT, Admits::Everybody), Err(NodeError::PortInUse { port: PORT })));
    a.send_to(b.name(), PORT, b"hello").await.expect("queued");
    let message = receive(&mut port).await;
    let body = b"hello".to_vec();
    let expected =
        Message { from: a.name(), as_member: false, from_port: None, to: b.name(), body };
    assert_eq!(message, expected);
    let unanswered = port.reply(&message, b"and hello to you").await;
    assert_eq!(unanswered, Err(DatagramError::NoAnswerTaken));
    let mut back = a.bind(0, Admits::Everybody).expect("a free port");
    let another = a.bind(0, Admits::Everybody).expect("a free port");
    assert_ne!(back.number(), another.number());
    back.send_to(b.name(), PORT, b"hello again").await.expect("queued");
    let message = receive(&mut port).await;
    assert_eq!(message.from_port, Some(back.number()));
    port.reply(&message, b"and hello to you").await.expect("queued");
    let answer = receive(&mut back).await;
    assert_eq!((answer.from_port, &answer.body[..]), (Some(PORT), &b"and hello to you"[..]));
    // As many as there is room for, and then as fast as they leave.
    for n in 0..500u32 {
        a.send_to(b.name(), PORT, &n.to_be_bytes()).await.expect("queued");
        if n % 50 == 49 {
            for _ in 0..50 {
                receive(&mut port).await;
            }
        }
    }
    // What is plain does not come where privacy was asked for, nor the other way round.
    a.send_plain(b.name(), PORT, b"in the open").await.expect("queued");
    let mut plain = b.bind_plain(9).await.expect("a free port");
    a.send_to(b.name(), 9, b"in private").await.expect("queued");
    a.send_to(b.name(), PORT, b"last").await.expect("queued");
    assert_eq!(receive(&mut port).await.body, b"last");
    assert!(timeout(Duration::from_millis(300), plain.receive()).await.is_err());
}

#[tokio::test]
async fn datagrams_that_cannot_go_are_errors() {
    let relay = Relay::start(Behaviour::default());
    let (a, b) = (join(&relay).await, join(&relay).await);
    let nobody = Name([7; 32]);
    let error = a.send_to(nobody, PORT, b"hello?").await.unwrap_err();
    assert_eq!(error, DatagramError::Connection(EndError::Unreachable(nobody)));
    let error = a.send_to(b.name(), PORT, b"hello?").await.unwrap_err();
    assert_eq!(error, DatagramError::Connection(EndError::Refused(b.name())));
    let port = b.bind(PORT, Admits::Everybody).expect("a free port");
    let connection = a.connect(b.name()).await.expect("connected");
    // The other end has looked, too, who it is: nothing is offered to it from now on.
    connection.settle().await.expect("let in");
    let max = connection.max_datagram_len().expect("it is there");
    assert!(max >= 1100, "{max}");
    let too_long = a.send_to(b.name(), PORT, &vec![0; 2000]).await;
    assert!(matches!(too_long, Err(DatagramError::TooBig { len: 2000, .. })));
    drop(port);
    let b_name = b.name();
    b.leave().await;
    let gone = async {
        loop {
            if let Err(error) = connection.send_datagram(PORT, b"x").await {
                break error;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let error = timeout(PATIENCE, gone).await.expect("it says so before it falls silent");
    let closed = EndError::ClosedByPeer { peer: b_name, code: 0 };
    assert_eq!(error, DatagramError::Connection(closed));
}
