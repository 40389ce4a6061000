//! How many instructions a datagram costs, counted by callgrind,
//! which is told to collect in [`counted`] alone.
//!
//! What is budgeted is what the switch takes over the bare loop: the cipher,
//! whose instructions depend on the processor, is in both and cancels out. That is aws-lc's, since
//! the bare loop has no other.
//! `cargo xtask test` holds that against the budget.
//!
//! Switch, members and bare loop are those of the switch's bench. This is a package of its own
//! since the bench needs RIB, node and sockets as well, which take long to build for release.
//!
//! `rhumb-switch-instructions switch|bare labels|names PAYLOAD`, and `own` to count with our own
//! cipher.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "members of a bench own their clocks")]

#[path = "../../benches/switch/bare.rs"]
#[allow(dead_code, reason = "for the bench of the switch")]
mod bare;
#[path = "../../benches/switch/chance.rs"]
mod chance;
#[path = "../../benches/switch/member.rs"]
#[allow(dead_code, reason = "for the bench of the switch")]
mod member;
#[path = "../../benches/switch/scene.rs"]
#[allow(dead_code, reason = "for the bench of the switch")]
mod scene;

use member::Form;
use rhumb_wire::Batch;
use scene::{BATCH_DATAGRAMS, Bare, Contestant, Scene};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |at: usize| words.get(at).map(String::as_str).unwrap_or_default();
    let form = match word(1) {
        "labels" => Form::Labels,
        "names" => Form::Names,
        other => panic!("`{other}` is no form"),
    };
    let payload = word(2).parse().expect("a number of bytes");
    if word(3) != "own" {
        rhumb_link::use_cipher(rhumb_link::CipherChoice::Library);
    }
    match word(0) {
        "switch" => {
            let mut scene = Scene::new(2);
            scene.form = form;
            repeat(&mut scene, payload);
        }
        "bare" => repeat(&mut Bare::new(form, ENTRIES, 1, 1), payload),
        other => panic!("`{other}` is no contestant"),
    }
}

fn repeat(contestant: &mut dyn Contestant, payload: usize) {
    let mut batch = Batch::new();
    for _ in 0..BATCHES {
        batch.clear();
        contestant.seal(&mut batch, payload);
        counted(contestant, &mut batch);
        let forwarded = batch.slots().iter().filter(|slot| !slot.is_empty()).count();
        assert_eq!(forwarded, BATCH_DATAGRAMS);
    }
}

/// A function of its own, with a name that callgrind finds.
#[inline(never)]
fn counted(contestant: &mut dyn Contestant, batch: &mut Batch) {
    contestant.forward(batch);
}

/// So many that what a table does once does not count.
const BATCHES: usize = 1000;
/// In the bare loop's table, of which one is asked for.
const ENTRIES: usize = 1024;
