//! In memory, on one thread: [`Switch::handle_batch`](rhumb_switch::Switch::handle_batch)
//! against the bare loop.
//!
//! Batches of 64 datagrams are sealed by the members' own links, then handled; only the handling is
//! timed. Contestants take turns in slices; a slice's figure is that of its median batch, so a
//! batch during which the machine did something else does not count; ratios are of slices of the
//! same round, and the medians of all rounds are shown.

use std::time::Instant;

use rhumb_wire::Batch;

use crate::cipher_off::CipherOff;
use crate::machine::median;
use crate::member::Form;
use crate::scene::{BATCH_DATAGRAMS, Bare, Contestant, NAMES_A_SESSION, SESSIONS, Scene};

/// Bytes of a PDU's data.
pub(crate) const PAYLOADS: [usize; 6] = [64, 256, 1000, 1400, 1766, 8900];
pub(crate) const ROUNDS: usize = 25;
pub(crate) const BATCHES_A_SLICE: usize = 48;
/// Entries in the bare loop's table.
pub(crate) const ENTRIES: usize = 1 << 20;

/// One size in one form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) form: Form,
    pub(crate) payload: usize,
    /// A single flow, against the bare loop asking for one
    /// entry over and over: both stay in the cache.
    pub(crate) one: Pairing,
    /// The switch built without a cipher, with a single flow.
    pub(crate) cipher_off: Option<f64>,
    /// Flows drawn from about a thousand, between 32 sessions.
    pub(crate) thousand: f64,
    /// Flows drawn from about a million, between the same number of sessions.
    pub(crate) million_names: f64,
    /// That in terms of the time with a thousand flows.
    pub(crate) of_thousand: f64,
    /// Flows drawn from about a million, between 1,024 sessions, against the
    /// bare loop with as many sessions and entries.
    pub(crate) million: Pairing,
}

/// Nanoseconds per datagram, and the rate of the switch in terms of that of the bare loop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pairing {
    pub(crate) bare: f64,
    pub(crate) switch: f64,
    pub(crate) ratio: f64,
}

impl Pairing {
    fn new(bare: f64, switch: f64) -> Self {
        Self { bare, switch, ratio: bare / switch }
    }

    fn median(rounds: &[Round], pairing: fn(&Round) -> Pairing) -> Self {
        let middle = |figure: fn(&Pairing) -> f64| {
            median(rounds.iter().map(|round| figure(&pairing(round))))
        };
        Self {
            bare: middle(|pairing| pairing.bare),
            switch: middle(|pairing| pairing.switch),
            ratio: middle(|pairing| pairing.ratio),
        }
    }
}

struct Round {
    one: Pairing,
    cipher_off: Option<f64>,
    thousand: f64,
    million_names: f64,
    million: Pairing,
}

pub(crate) fn measure(cipher_off: &mut Option<CipherOff>, payloads: &[usize]) -> Vec<Row> {
    let mut scenes = Scenes {
        one: Scene::new(2),
        thousand: Scene::new(SESSIONS),
        million_names: Scene::with_names(SESSIONS, NAMES_A_SESSION),
        million: Scene::new(SESSIONS * NAMES_A_SESSION),
    };
    let mut rows = Vec::new();
    for form in [Form::Labels, Form::Names] {
        let mut bare = [Bare::new(form, ENTRIES, 1, 1), Bare::new(form, ENTRIES, ENTRIES, 1024)];
        for &payload in payloads {
            rows.push(scenes.measure(form, payload, &mut bare, cipher_off));
        }
    }
    rows
}

struct Scenes {
    one: Scene,
    thousand: Scene,
    million_names: Scene,
    million: Scene,
}

impl Scenes {
    fn measure(
        &mut self,
        form: Form,
        payload: usize,
        bare: &mut [Bare; 2],
        cipher_off: &mut Option<CipherOff>,
    ) -> Row {
        let Self { one, thousand, million_names, million } = self;
        for scene in [one, thousand, million_names, million] {
            scene.form = form;
            check(scene, payload);
        }
        bare.iter_mut().for_each(|bare| check(bare, payload));
        let [bare_one, bare_any] = bare;
        let mut round = || Round {
            one: Pairing::new(slice(bare_one, payload), slice(&mut self.one, payload)),
            cipher_off: cipher_off.as_mut().map(|build| build.memory_slice(form, payload)),
            thousand: slice(&mut self.thousand, payload),
            million_names: slice(&mut self.million_names, payload),
            million: Pairing::new(slice(bare_any, payload), slice(&mut self.million, payload)),
        };
        let rounds: Vec<Round> = (0..ROUNDS).map(|_| round()).collect();
        let measured_off: Vec<f64> = rounds.iter().filter_map(|round| round.cipher_off).collect();
        Row {
            form,
            payload,
            one: Pairing::median(&rounds, |round| round.one),
            cipher_off: (!measured_off.is_empty()).then(|| median(measured_off.into_iter())),
            thousand: median(rounds.iter().map(|round| round.thousand)),
            million_names: median(rounds.iter().map(|round| round.million_names)),
            of_thousand: median(rounds.iter().map(|round| round.million_names / round.thousand)),
            million: Pairing::median(&rounds, |round| round.million),
        }
    }
}

/// Nanoseconds per datagram of the median batch.
pub(crate) fn slice(contestant: &mut impl Contestant, payload: usize) -> f64 {
    let mut batch = Batch::new();
    let per_batch = (0..BATCHES_A_SLICE).map(|_| {
        batch.clear();
        contestant.seal(&mut batch, payload);
        let begin = Instant::now();
        contestant.forward(&mut batch);
        let took = begin.elapsed();
        let forwarded = batch.slots().iter().filter(|slot| !slot.is_empty()).count();
        assert_eq!((batch.len(), forwarded), (BATCH_DATAGRAMS, BATCH_DATAGRAMS));
        took.as_nanos() as f64 / BATCH_DATAGRAMS as f64
    });
    median(per_batch.collect::<Vec<_>>().into_iter())
}

/// Forwards one batch and has its receivers open it: what is measured does the work.
pub(crate) fn check(contestant: &mut impl Contestant, payload: usize) {
    let mut batch = Batch::new();
    contestant.seal(&mut batch, payload);
    contestant.forward(&mut batch);
    for slot in 0..batch.len() {
        let (peer, datagram) = batch.datagram_mut(slot);
        assert!(contestant.arrives(peer, datagram), "datagram {slot} of {payload} bytes");
    }
}
