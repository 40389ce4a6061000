//! A labelled flow at the router's full rate.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use rhumb_io::PacketIo;
use rhumb_io::udp::{Options, UdpSocket};
use rhumb_wire::Batch;

use crate::ground::Daemon;
use crate::load::{Datagrams, Ends, Load, Pace, Slice, WINDOW};
use crate::member::{self, Form, Member};

/// Two members of a router, one of which sends to the other.
pub(crate) struct FullRate {
    load: Datagrams,
}

impl FullRate {
    pub(crate) fn through(router: &Daemon) -> Self {
        let socket = |number| {
            let at = SocketAddr::from((Ipv4Addr::new(127, 10, 0, number), 0));
            UdpSocket::bind(at, Options::default()).unwrap()
        };
        let (mut from, mut to) = (socket(1), socket(2));
        let now = member::now();
        let join = |socket: &mut UdpSocket| {
            let at = socket.local_address();
            let mut member = Box::new(Member::new(at, router.name, router.address, now));
            exchange_until(&mut member, socket, Member::is_joined);
            member
        };
        let (mut source, mut sink) = (join(&mut from), join(&mut to));
        let destination = sink.name();
        let mut first = Batch::new();
        source.push_data(&mut first, router.address, (destination, Form::Names), &[0; 16], now);
        from.send(&first).unwrap();
        exchange_until(&mut sink, &mut to, Member::has_given_labels);
        exchange_until(&mut source, &mut from, |member| member.has_label_to(&destination));
        let ends = Ends::Members { source, sink };
        let mut flow = Self { load: Datagrams::new(from.into(), to.into(), router.address, ends) };
        flow.run(Duration::from_millis(300));
        flow
    }

    /// Messages that arrive with labels, for so long.
    pub(crate) fn run(&mut self, time: Duration) -> Slice {
        self.load.run(PAYLOAD, Pace::Closed(WINDOW), time).unwrap()
    }
}

/// Lets a member send and receive over its socket until it has come so far.
pub(crate) fn exchange_until(
    member: &mut Member,
    socket: &mut UdpSocket,
    done: impl Fn(&Member) -> bool,
) {
    let begun = Instant::now();
    let mut batch = Batch::new();
    while !done(member) {
        assert!(begun.elapsed() < Duration::from_secs(20), "a member waits for its router");
        batch.clear();
        member.transmit(&mut batch, member::now());
        socket.send(&batch).unwrap();
        socket.wait(Some(Duration::from_millis(20)), None).unwrap();
        let received = socket.receive(&mut batch).unwrap();
        for slot in 0..received {
            let datagram = batch.datagram_mut(slot).1;
            member.handle(datagram, member::now());
        }
    }
    // What it says to the last of them.
    batch.clear();
    member.transmit(&mut batch, member::now());
    socket.send(&batch).unwrap();
}

/// Bytes of a message.
pub(crate) const PAYLOAD: usize = 1000;
