//! The order of things: rounds, in each of which every contestant has its turn, so that whatever
//! else the machine does is shared by all.
//!
//! A turn: start; for each size a closed loop, then an open loop at half the rate it showed; for
//! the smallest size a ladder of rates; end.

use std::time::{Duration, Instant};

use crate::calls::Calls;
use crate::contestants::{Contestant, Ground, Standing};
use crate::load::{Pace, Slice, WINDOW};

/// What a contestant showed in one round.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    pub(crate) sizes: Vec<Sized>,
    /// Small messages a second that arrive, if they were measured:
    /// the most with less than [`TOLERATED_LOSS`].
    pub(crate) small_per_s: Option<f64>,
}

/// What it showed with messages of one size.
#[derive(Debug, Clone)]
pub(crate) struct Sized {
    pub(crate) payload: usize,
    pub(crate) gbps: f64,
    pub(crate) per_s: f64,
    /// Share of the messages that did not arrive.
    pub(crate) lost: f64,
    /// CPU seconds of the router's process for a gigabyte of
    /// payload; none when the router is the kernel.
    pub(crate) cpu_s_per_gb: Option<f64>,
    /// How much of the time that process was at work.
    pub(crate) busy: Option<f64>,
    /// System calls of that process for each datagram, if it tells.
    pub(crate) calls_per_datagram: Option<f64>,
    /// Datagrams that it sent as one message.
    pub(crate) datagrams_per_message: Option<f64>,
    /// As `cpu_s_per_gb`, at half of the rate.
    pub(crate) half_cpu_s_per_gb: Option<f64>,
    /// At half of the rate.
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
}

/// Sets a contestant up, measures it, and ends it.
///
/// # Errors
/// When it does not start or does not carry.
pub(crate) fn turn(contestant: &Contestant, ground: &Ground) -> Result<Turn, String> {
    ground.place.set_forwarding(contestant.needs_forwarding)?;
    let mut standing = (contestant.start)(ground)?;
    let outcome =
        standing.warm_up().and_then(|()| standing.measure(contestant.largest_payload, ground));
    // What a process said before it ended explains more than that nothing arrives.
    standing.check()?;
    outcome
}

impl Standing {
    /// Sends a little until it arrives: tunnels are made on demand.
    fn warm_up(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + TIME_TO_CARRY;
        while self.load.run(SMALL, Pace::Open(WARM_UP_PER_S), WARM_UP)?.arrived == 0 {
            self.check()?;
            if Instant::now() > deadline {
                return Err(format!("carries nothing after {TIME_TO_CARRY:?}"));
            }
        }
        self.load.run(SMALL, Pace::Closed(WINDOW), WARM_UP).map(drop)
    }

    fn measure(&mut self, largest_payload: usize, ground: &Ground) -> Result<Turn, String> {
        let (mut sizes, extent) = (Vec::new(), ground.extent);
        let is_wanted = |payload: usize| extent.payload.is_none_or(|only| only == payload as u64);
        let payloads = PAYLOADS.into_iter().filter(|payload| *payload <= largest_payload);
        for payload in payloads.filter(|payload| is_wanted(*payload)) {
            sizes.push(self.measure_size(payload, ground)?);
        }
        let small = sizes.iter().find(|size| size.payload == SMALL).map(|size| size.per_s);
        let small_per_s = small.map(|per_s| self.climb(per_s)).transpose()?;
        Ok(Turn { sizes, small_per_s })
    }

    fn measure_size(&mut self, payload: usize, ground: &Ground) -> Result<Sized, String> {
        let calls = |standing: &Self| {
            let metrics = standing.metrics?;
            ground.place.router.run(|| Calls::read(metrics)).ok()?
        };
        let calls_before = calls(self);
        let cpu = |standing: &Self| standing.router.as_ref().map(crate::process::Process::cpu);
        let before = cpu(self);
        let closed = self.load.run(payload, Pace::Closed(ground.extent.window), SLICE)?;
        let spent = cpu(self).zip(before).map(|(after, before)| after - before);
        if closed.arrived == 0 {
            return Err(format!("carries nothing of {payload} bytes"));
        }
        let calls = calls(self).zip(calls_before).map(|(after, before)| after.since(before));
        let before = cpu(self);
        let half = self.load.run(payload, Pace::Open(closed.per_s() / 2.0), SLICE)?;
        let spent_at_half = cpu(self).zip(before).map(|(after, before)| after - before);
        let s_per_gb = |spent: Duration, slice: &Slice| {
            spent.as_secs_f64() * 1e9 / (slice.arrived.max(1) as f64 * payload as f64)
        };
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        Ok(Sized {
            payload,
            gbps: closed.per_s() * payload as f64 * 8.0 / 1e9,
            per_s: closed.per_s(),
            lost: closed.lost(),
            cpu_s_per_gb: spent.map(|spent| s_per_gb(spent, &closed)),
            half_cpu_s_per_gb: spent_at_half.map(|spent| s_per_gb(spent, &half)),
            busy: spent.map(|spent| spent.as_secs_f64() / closed.wall.as_secs_f64()),
            calls_per_datagram: calls.map(Calls::per_datagram),
            datagrams_per_message: calls.map(Calls::datagrams_per_message),
            p50_us: us(half.p50),
            p99_us: us(half.p99),
        })
    }

    /// Offers small messages at rates around that of the closed loop. The highest that arrived with
    /// little lost; if all lost more, what arrived at most.
    fn climb(&mut self, closed_per_s: f64) -> Result<f64, String> {
        let mut steps: Vec<Slice> = Vec::new();
        for factor in LADDER {
            steps.push(self.load.run(SMALL, Pace::Open(closed_per_s * factor), STEP)?);
        }
        let best =
            |steps: &mut dyn Iterator<Item = &Slice>| steps.map(Slice::per_s).reduce(f64::max);
        let kept = best(&mut steps.iter().filter(|step| step.lost() < TOLERATED_LOSS));
        Ok(kept.or_else(|| best(&mut steps.iter())).unwrap_or(0.0))
    }

    /// # Errors
    /// When one of its processes has ended.
    fn check(&mut self) -> Result<(), String> {
        self.router.iter_mut().chain(&mut self.others).try_for_each(crate::process::Process::check)
    }
}

/// Bytes of a message. 1,766, the papers' size, does not fit the MTU.
pub(crate) const PAYLOADS: [usize; 3] = [SMALL, 1000, 1400];
const SMALL: usize = 64;
/// One closed or open loop.
pub(crate) const SLICE: Duration = Duration::from_millis(800);
/// One rate of the ladder.
const STEP: Duration = Duration::from_millis(300);
/// Of the closed loop's rate.
const LADDER: [f64; 5] = [0.5, 0.75, 1.0, 1.25, 1.5];
/// A rate is carried when less than this share is lost.
pub(crate) const TOLERATED_LOSS: f64 = 0.01;
const WARM_UP: Duration = Duration::from_millis(200);
const WARM_UP_PER_S: f64 = 100.0;
/// A relay is tried after direct ways were.
const TIME_TO_CARRY: Duration = Duration::from_secs(20);
