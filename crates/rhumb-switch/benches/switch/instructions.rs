//! How many instructions a datagram costs: the same work twice under callgrind, once sealed only, once sealed and
//! forwarded. The difference is what forwarding takes.
//!
//! What is budgeted is what the switch takes over the bare loop: the cipher, whose instructions depend on the processor, is
//! in both and cancels out. `cargo xtask test` holds that against the budget.

use rhumb_wire::Batch;

use crate::member::Form;
use crate::memory::{BATCH_DATAGRAMS, Bare, Contestant, Scene};

/// The word that makes a process do one of the halves: `--instructions switch|bare labels|names PAYLOAD seal|forward`.
pub(crate) const HALF: &str = "--instructions";

/// Does one half.
pub(crate) fn work(words: &[String]) {
    let word = |at: usize| words.get(at).map(String::as_str).unwrap_or_default();
    let form = match word(1) {
        "labels" => Form::Labels,
        "names" => Form::Names,
        other => panic!("{HALF}: `{other}` is no form"),
    };
    let payload = word(2).parse().expect("a number of bytes");
    let forwards = match word(3) {
        "forward" => true,
        "seal" => false,
        other => panic!("{HALF}: `{other}` is no half"),
    };
    match word(0) {
        "switch" => {
            let mut scene = Scene::new(2);
            scene.form = form;
            repeat(&mut scene, payload, forwards);
        }
        "bare" => repeat(&mut Bare::new(form, ENTRIES, 1, 1), payload, forwards),
        other => panic!("{HALF}: `{other}` is no contestant"),
    }
}

fn repeat(contestant: &mut impl Contestant, payload: usize, forwards: bool) {
    let mut batch = Batch::new();
    for _ in 0..BATCHES {
        batch.clear();
        contestant.seal(&mut batch, payload);
        if forwards {
            contestant.forward(&mut batch);
            let forwarded = batch.slots().iter().filter(|slot| !slot.is_empty()).count();
            assert_eq!(forwarded, BATCH_DATAGRAMS);
        }
    }
}

/// So many that a handshake, which takes more or fewer instructions by chance, is less than one to a datagram.
const BATCHES: usize = 2000;
/// In the bare loop's table, of which one is asked for.
const ENTRIES: usize = 1024;
