//! What the bench asks of the machine: CPU time, a core of its own, and what the figures depend on.

#[path = "../../../rhumb-io/benches/machine/pin.rs"]
mod affinity;
#[path = "../../../rhumb-io/benches/machine/mod.rs"]
mod shared;
#[path = "../../../rhumb-io/benches/machine/thread_cpu.rs"]
mod thread_clock;

pub(crate) use affinity::{cores, pin_to};
use serde_json::{Map, Value};
pub(crate) use shared::{load_average, median};
pub(crate) use thread_clock::now as thread_cpu;

/// Where a thread runs. Two cores: one for the load, one for what is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Core {
    Load,
    Measured,
}

/// Keeps this thread on a core. With a single core, leaves it where it is.
pub(crate) fn pin(core: Core) {
    if cores() >= 2 {
        pin_to(usize::from(core == Core::Measured));
    }
}

/// What the figures depend on, whatever is measured.
pub(crate) fn conditions() -> Map<String, Value> {
    let own: [(&str, Value); 2] = [("cores", cores().into()), ("cipher", "AES-256-GCM".into())];
    let machine = shared::conditions().map(|(name, value)| (name, value.into()));
    machine.into_iter().chain(own).map(|(name, value)| (name.to_owned(), value)).collect()
}
