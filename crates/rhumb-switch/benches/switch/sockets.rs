//! On sockets: the switch between two ends, with the cipher
//! and without, beside forwarders that do less.
//!
//! They take turns in slices. PDUs travel with labels, as those of a known flow do, once more with
//! names; the bare forwarders have datagrams of the size that labels make. Everything shown is the
//! median over the rounds; a ratio is of slices of the same round. CPU time is that of the
//! forwarding thread: what arrives for it, the kernel handles on the load's core; what it sends,
//! the kernel cuts, carries and puts together on its own.

use rhumb_wire::datagram::RECORD_OVERHEAD;

use crate::cipher_off::CipherOff;
use crate::load::{Rig, Slice, Store};
use crate::machine::{self, Core, median};
use crate::member::Form;
use crate::path::{self, Path};

/// Bytes of a PDU's data.
pub(crate) const PAYLOADS: [usize; 4] = [64, 1000, 1400, 1766];
pub(crate) const ROUNDS: usize = 15;

/// What one forwarder did with one size.
pub(crate) struct Row {
    pub(crate) forwarder: &'static str,
    pub(crate) payload: usize,
    /// Payload that arrived.
    pub(crate) gbps: f64,
    /// Datagrams that arrived, in millions a second.
    pub(crate) mpps: f64,
    /// CPU seconds of the forwarding thread for a gigabyte of payload.
    pub(crate) cpu_s_per_gb: f64,
    /// Payload for each second of the forwarding thread's CPU
    /// time: what a core takes that does nothing else.
    pub(crate) gbps_per_core: f64,
    /// How much of the time the forwarding thread was at work. Below 1, the load was the slower.
    pub(crate) busy: f64,
    /// Datagrams that did not arrive, of all rounds.
    pub(crate) lost: usize,
}

/// All rows, and for each size how the switch compares with the
/// forwarder that opens and seals, by CPU time.
pub(crate) struct Results {
    pub(crate) rows: Vec<Row>,
    pub(crate) of_bare: Vec<(usize, f64)>,
    /// How many PDUs the switch forwards in bundles for each by itself, of the smallest size.
    pub(crate) bundled_to_single: Option<f64>,
}

pub(crate) const SWITCH: &str = "switch";
/// Fifteen PDUs or so share a datagram that an Ethernet frame has room for, on both sides.
const BUNDLED: &str = "switch, in bundles";
const WITH_NAMES: &str = "switch, with names";
pub(crate) const CIPHER_OFF: &str = "switch, cipher off";
const RESEAL: &str = "bare, open and seal";
const REDIRECT: &str = "bare, address only";

/// Payloads of these sizes, `rounds` slices of each kind.
pub(crate) fn measure(
    path: &Path,
    cipher_off: &mut Option<CipherOff>,
    payloads: &[usize],
    rounds: usize,
) -> Results {
    machine::pin(Core::Load);
    let mut rigs = [
        (SWITCH, Rig::switching(path)),
        (RESEAL, Rig::resealing(path)),
        (REDIRECT, Rig::redirecting(path)),
    ];
    let mut bundling = Rig::bundling(path);
    let mut store = Store::new();
    let mut results = Results { rows: Vec::new(), of_bare: Vec::new(), bundled_to_single: None };
    for &payload in payloads {
        for (name, rig) in &mut rigs {
            let Slice { arrived, lost, .. } = rig.slice(payload, &mut store, true);
            assert!(arrived > lost, "{name}: of {payload} bytes, {arrived} came as they should");
        }
        let is_small = payload == PAYLOADS[0];
        if is_small {
            let Slice { arrived, lost, .. } = bundling.slice(payload, &mut store, true);
            assert!(arrived > lost, "{BUNDLED}: {arrived} came as they should");
        }
        let mut slices: [Vec<Slice>; 6] = Default::default();
        for _ in 0..rounds {
            for ((_, rig), slices) in rigs.iter_mut().zip(&mut slices) {
                slices.push(rig.slice(payload, &mut store, false));
            }
            if Form::Names.header_len() + RECORD_OVERHEAD + payload <= path::LARGEST_DATAGRAM {
                rigs[0].1.set_form(Form::Names);
                slices[3].push(rigs[0].1.slice(payload, &mut store, false));
                rigs[0].1.set_form(Form::Labels);
            }
            slices[4].extend(cipher_off.as_mut().map(|build| build.udp_slice(payload)));
            slices[5].extend(is_small.then(|| bundling.slice(payload, &mut store, false)));
        }
        let names = [SWITCH, RESEAL, REDIRECT, WITH_NAMES, CIPHER_OFF, BUNDLED];
        let measured = names.iter().zip(&slices).filter(|(_, slices)| !slices.is_empty());
        results.rows.extend(measured.map(|(name, slices)| Row::of(name, payload, slices)));
        let of_bare = |(switch, bare): (&Slice, &Slice)| {
            bare.cpu_ns_per_datagram() / switch.cpu_ns_per_datagram()
        };
        results.of_bare.push((payload, median(slices[0].iter().zip(&slices[1]).map(of_bare))));
        if is_small {
            let of_single = slices[5].iter().zip(&slices[0]).map(of_bare);
            results.bundled_to_single = Some(median(of_single));
        }
    }
    results
}

impl Row {
    fn of(forwarder: &'static str, payload: usize, slices: &[Slice]) -> Self {
        let middle = |figure: fn(&Slice) -> f64| median(slices.iter().map(figure));
        let datagrams_per_s = middle(Slice::datagrams_per_s);
        let cpu_ns = middle(Slice::cpu_ns_per_datagram);
        let bits = payload as f64 * 8.0;
        Self {
            forwarder,
            payload,
            gbps: datagrams_per_s * bits / 1e9,
            mpps: datagrams_per_s / 1e6,
            // Nanoseconds per byte are seconds per gigabyte,
            // bits per nanosecond gigabits per second.
            cpu_s_per_gb: cpu_ns / payload as f64,
            gbps_per_core: bits / cpu_ns,
            busy: middle(Slice::busy),
            lost: slices.iter().map(|slice| slice.lost).sum(),
        }
    }
}
