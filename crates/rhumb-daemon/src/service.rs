//! What RIB and router have in common: one worker thread moves batches between its packet I/O and a
//! sans-IO service, while a control thread waits for signals and serves the admin endpoint.
//!
//! One turn of the worker:
//! 1. timers that are due, and whatever work does not come from the network;
//! 2. the service's own datagrams are sent;
//! 3. news of streams is brought to it, and what it wants of them done;
//! 4. wait for datagrams, frames, the next timer or a wake;
//! 5. receive a batch, hand it to the service, send what it made of it.
//!
//! Invariant: no public-key operation but those of handshakes (in a router: of its own),
//! and no writing of files, happens on the worker.

mod streams;

use std::time::{Duration, Instant};

use rhumb_io::{Backend, Counters, Device};
use rhumb_stream::{Carrier, OnStreams};
use rhumb_trust::Now;
use rhumb_wire::Batch;
use serde_json::{Value, json};

use crate::clock;
use crate::daemon::{Control, Metric, Reading, Snapshot};
use crate::failure::{Failure, Outcome};
use crate::supervisor::Heart;

/// A sans-IO service that a worker drives.
pub trait Service: OnStreams {
    /// Takes a batch of received datagrams and leaves in it what is to be sent.
    fn handle_batch(&mut self, batch: &mut Batch, now: Now);
    /// Work that is due by the clock, and whatever else does not
    /// come from the network. Called once a turn.
    fn advance(&mut self, now: Now);
    /// Appends the service's own datagrams, a bounded number; to be called until it appends none.
    fn poll_transmit(&mut self, out: &mut Batch);
    /// Tells all peers that the service stops.
    fn close_all(&mut self, now: Now);
    /// When [`Service::advance`] has to be called next.
    fn poll_timeout(&self) -> Option<Instant>;
    /// What sockets other than the one it is served on have done.
    fn other_sockets(&self) -> Counters {
        Counters::default()
    }
    /// What `status` and metrics show.
    fn snapshot(&mut self, now: Now) -> Snapshot;
}

/// Runs `service` until `until` says stop or a signal does. Returns whether it was `until`.
pub fn serve<S: Service>(
    io: &mut Carrier,
    service: &mut S,
    control: &Control,
    mut until: impl FnMut(&mut S, Now) -> bool,
) -> Outcome<bool> {
    let mut batch = Batch::new();
    let mut heart = Heart::new(Instant::now());
    let most_wait = heart.pause().map_or(MAX_WAIT, |pause| pause.min(MAX_WAIT));
    let mut on_xdp: Vec<String> =
        io.io().interfaces().into_iter().map(|(name, _)| name.to_owned()).collect();
    loop {
        tell_of_interfaces_gone(io.io(), &mut on_xdp);
        let now = clock::now();
        heart.beat(now.instant);
        service.advance(now);
        flush(io, service, &mut batch)?;
        if io.meet(service, now) {
            service.advance(now);
            flush(io, service, &mut batch)?;
        }
        if control.is_stopped() {
            service.close_all(now);
            flush(io, service, &mut batch)?;
            io.meet(service, now);
            return Ok(false);
        }
        if until(service, now) {
            return Ok(true);
        }
        control.answer(|| {
            let mut snapshot = service.snapshot(clock::now());
            let mut counters = io.counters();
            counters.add(&service.other_sockets());
            let devices = io.io().devices();
            snapshot.status["io"] = io_json(io.io(), &counters, &devices);
            snapshot.metrics.extend(io_metrics(io.io(), &counters, &devices));
            streams::report(&mut snapshot, &io.stream_counters());
            snapshot
        });
        let due = service
            .poll_timeout()
            .map_or(most_wait, |due| due.saturating_duration_since(Instant::now()).min(most_wait));
        io.wait(Some(due), Some(control.wake())).map_err(Failure::operation)?;
        receive(io, service, &mut batch)?;
    }
}

/// Says which interfaces of AF_XDP are gone since they were `known`.
fn tell_of_interfaces_gone(io: &Backend, known: &mut Vec<String>) {
    if known.is_empty() {
        return;
    }
    let there = io.interfaces();
    known.retain(|interface| {
        let is_there = there.iter().any(|(name, _)| name == interface);
        if !is_there {
            tracing::warn!(interface, "an interface of AF_XDP is gone, going on with sockets");
        }
        is_there
    });
}

/// Handles what waits in the socket, a bounded number of batches, so that timers are never starved.
fn receive<S: Service>(io: &mut Carrier, service: &mut S, batch: &mut Batch) -> Outcome {
    for _ in 0..MAX_BATCHES_A_TURN {
        if io.receive(batch).map_err(Failure::operation)? == 0 {
            break;
        }
        service.handle_batch(batch, clock::now());
        io.send(batch).map_err(Failure::operation)?;
        if io.is_drained() {
            break;
        }
    }
    Ok(())
}

/// Sends all datagrams of the service's own.
fn flush<S: Service>(io: &mut Carrier, service: &mut S, batch: &mut Batch) -> Outcome {
    loop {
        batch.clear();
        service.poll_transmit(batch);
        if batch.is_empty() {
            return Ok(());
        }
        io.send(batch).map_err(Failure::operation)?;
    }
}

fn io_json(io: &Backend, counters: &Counters, devices: &[Device]) -> Value {
    let interface = |(name, queues)| json!({ "name": name, "queues": queues });
    let device = |device: &Device| {
        let Device { name, cuts_runs, joins_runs } = device;
        json!({ "name": name, "cuts_runs": cuts_runs, "joins_runs": joins_runs })
    };
    json!({
        "backend": io.name(),
        "interfaces": io.interfaces().into_iter().map(interface).collect::<Vec<Value>>(),
        "devices": devices.iter().map(device).collect::<Vec<Value>>(),
        "received_datagrams": counters.received_datagrams,
        "sent_datagrams": counters.sent_datagrams,
        "received_bytes": counters.received_bytes,
        "sent_bytes": counters.sent_bytes,
        "xdp_received_datagrams": counters.xdp_received_datagrams,
        "xdp_sent_datagrams": counters.xdp_sent_datagrams,
    })
}

fn io_metrics(io: &Backend, counters: &Counters, devices: &[Device]) -> Vec<Reading> {
    let on_xdp = io.interfaces().into_iter().map(|(name, queues)| (label(name), queues));
    let cut = devices.iter().map(|it| (label(&it.name), u64::from(it.cuts_runs)));
    let join = devices.iter().map(|it| (label(&it.name), u64::from(it.joins_runs)));
    vec![
        BACKEND.by("kind", [(io.name(), 1)]),
        XDP_QUEUES.by("interface", on_xdp),
        CUTS_RUNS.by("device", cut),
        JOINS_RUNS.by("device", join),
        WAIT_CALLS.is(counters.wait_calls),
        RECEIVED_DATAGRAMS.is(counters.received_datagrams),
        RECEIVED_MESSAGES.is(counters.received_messages),
        RECEIVED_BYTES.is(counters.received_bytes),
        RECEIVE_CALLS.is(counters.receive_calls),
        SENT_DATAGRAMS.is(counters.sent_datagrams),
        SENT_MESSAGES.is(counters.sent_messages),
        SENT_BYTES.is(counters.sent_bytes),
        SEND_CALLS.is(counters.send_calls),
        XDP_RECEIVED.is(counters.xdp_received_datagrams),
        XDP_SENT.is(counters.xdp_sent_datagrams),
        IO_DROPPED.by_reason(counters.drops()),
    ]
}

/// The name of a device as a label: nearly everything may stand in one.
fn label(device: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || ".-_@".contains(it);
    device.chars().map(|it| if is_plain(it) { it } else { '_' }).collect()
}

/// With [`RECEIVE_CALLS`] and [`SEND_CALLS`], in terms of
/// [`RECEIVED_DATAGRAMS`]: system calls per datagram.
const WAIT_CALLS: Metric =
    Metric::counter("rhumb_io_wait_calls_total", "System calls made to wait for datagrams.");
/// [`RECEIVED_DATAGRAMS`] divided by it: datagrams per superpacket.
const RECEIVED_MESSAGES: Metric =
    Metric::counter("rhumb_io_received_messages_total", "Messages received.");
/// [`SENT_DATAGRAMS`] divided by it: datagrams per run, on which the cost
/// of sending depends more than on anything else.
const SENT_MESSAGES: Metric = Metric::counter("rhumb_io_sent_messages_total", "Messages sent.");
/// Divide by [`RECEIVE_CALLS`]: datagrams per system call, on which the cost of receiving depends.
const RECEIVED_DATAGRAMS: Metric =
    Metric::counter("rhumb_io_received_datagrams_total", "Datagrams received.");
/// Load by bytes; its rate is the incoming bandwidth.
const RECEIVED_BYTES: Metric =
    Metric::counter("rhumb_io_received_bytes_total", "Bytes of datagrams received.");
/// See [`RECEIVED_DATAGRAMS`].
const RECEIVE_CALLS: Metric =
    Metric::counter("rhumb_io_receive_calls_total", "System calls made to receive.");
/// Divide by [`SEND_CALLS`]: datagrams per system call, on which the cost of sending depends.
const SENT_DATAGRAMS: Metric = Metric::counter("rhumb_io_sent_datagrams_total", "Datagrams sent.");
/// Load by bytes; its rate is the outgoing bandwidth.
const SENT_BYTES: Metric = Metric::counter("rhumb_io_sent_bytes_total", "Bytes of datagrams sent.");
/// See [`SENT_DATAGRAMS`].
const SEND_CALLS: Metric =
    Metric::counter("rhumb_io_send_calls_total", "System calls made to send.");
/// Which kind runs; it becomes `socket` when the interfaces under AF_XDP are removed.
const BACKEND: Metric =
    Metric::gauge("rhumb_io_backend", "The backend of packet I/O that is in use.");
/// An interface that is not there goes by sockets: it was refused, or is gone.
const XDP_QUEUES: Metric = Metric::gauge(
    "rhumb_io_xdp_queues",
    "Receive queues that go past the kernel's network stack, by interface.",
);
/// 0 where the kernel cuts runs of segments, at this host's cost.
const CUTS_RUNS: Metric = Metric::gauge(
    "rhumb_io_device_cuts_runs",
    "Whether a network device cuts runs of UDP segments itself (tx-udp-segmentation).",
);
/// 0 where the kernel joins arriving datagrams, at this host's cost.
const JOINS_RUNS: Metric = Metric::gauge(
    "rhumb_io_device_joins_runs",
    "Whether a network device joins arriving packets itself (rx-gro-hw).",
);
/// Compare with [`RECEIVED_DATAGRAMS`]: the rest took the kernel's way.
const XDP_RECEIVED: Metric = Metric::counter(
    "rhumb_io_xdp_received_datagrams_total",
    "Datagrams received past the kernel's network stack.",
);
/// Compare with [`SENT_DATAGRAMS`]: the rest had no way
/// past the kernel, or was too large for a frame.
const XDP_SENT: Metric = Metric::counter(
    "rhumb_io_xdp_sent_datagrams_total",
    "Datagrams sent past the kernel's network stack.",
);
/// `receive_queue_full` grows when the worker is too slow, `send_busy` when the link is.
const IO_DROPPED: Metric = Metric::counter(
    "rhumb_io_dropped_datagrams_total",
    "Datagrams that packet I/O did not pass on, by reason.",
);

/// Bounds how late a change of the civil clock is noticed.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// With 64 datagrams a batch, a turn of the worker stays well below a millisecond.
const MAX_BATCHES_A_TURN: usize = 8;
