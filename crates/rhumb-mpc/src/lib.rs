//! Two-party computation on bits, for two servers that are honest but curious
//! and do not collude. It knows no routing. The protocol, its assumptions and
//! its parameters are in `docs/exchange-mpc.md`.
//!
//! 1. A [`Circuit`] says what is computed, over wires with many lanes; finished it is a
//!    [`Program`], the same for both parties.
//! 2. Two [`Session`]s, one for each [`Party`], are joined by a channel that is ordered,
//!    authenticated and encrypted. What one gives by [`Session::poll_message`] goes to the other's
//!    [`Session::handle`]; [`FrameReader`] and [`write_frame`] put messages on a stream of bytes.
//! 3. While idle, [`Session::refill`] fills the pools of triples:
//!    the set-up phase, in which no input is known.
//! 4. [`Session::start`] begins a run with a party's [`Inputs`]; it takes as many round trips as
//!    the program is deep, and [`Session::take_outputs`] gives a party's shares of the results.
//!
//! Sans-IO: bytes and randomness are arguments, and time plays no part. No branch and no index
//! depends on a share, a key or an input.
//!
//! ```
//! use std::sync::Arc;
//! use rhumb_mpc::{Circuit, Inputs, Owner, Parameters, Party, Seed, Session, exchange};
//!
//! let mut circuit = Circuit::new();
//! let [left, right] = [Owner::One, Owner::Two].map(|owner| circuit.input(owner));
//! let both = circuit.and(left, right);
//! circuit.output(both);
//! let program = Arc::new(circuit.finish());
//!
//! // Seeds come from the system's generator, and are used once.
//! let mut one = Session::new(Party::One, Parameters::default(), Seed::new([1; 32]))?;
//! let mut two = Session::new(Party::Two, Parameters::default(), Seed::new([2; 32]))?;
//! exchange(&mut one, &mut two)?;
//! one.refill()?;
//! exchange(&mut one, &mut two)?;
//!
//! let mut inputs = Inputs::new(&program, Party::One, 4)?;
//! one.start(&program, inputs.set(left, &[0b0011]))?;
//! let mut inputs = Inputs::new(&program, Party::Two, 4)?;
//! two.start(&program, inputs.set(right, &[0b0101]))?;
//! exchange(&mut one, &mut two)?;
//! let shares = [one, two].map(|mut session| session.take_outputs().expect("done").bits()[0][0]);
//! assert_eq!(shares[0] ^ shares[1], 0b0001);
//! # Ok::<(), rhumb_mpc::MpcError>(())
//! ```

#![deny(unsafe_code)]

mod base_ot;
mod cipher;
mod circuit;
mod coins;
mod engine;
mod error;
mod extension;
mod frame;
#[cfg(any(fuzzing, test))]
pub mod fuzz;
mod gadgets;
mod memory;
mod message;
mod parameters;
mod program;
mod run;
mod session;
mod side_by_side;
mod together;
mod translation;
mod tree;
mod triples;
#[cfg(test)]
mod views;
mod wipe;

pub use circuit::{Bit, Circuit, OrderSlot, Owner, Vector};
pub use coins::Seed;
pub use error::MpcError;
pub use frame::{FrameReader, write_frame};
pub use memory::{Traffic, exchange};
pub use parameters::{FieldBits, Parameters, Party, Stock};
pub use program::{Cost, Inputs, Outputs, Program};
pub use session::Session;
pub use translation::MAX_ORDER;

/// Of the protocol. Parties of different versions do not begin a session.
pub const VERSION: u8 = 3;

/// Bytes of a message. A level of the paper's largest circuit over 768
/// lanes takes 0.2 MB; this leaves room for batches.
pub const MAX_MESSAGE: usize = 16 << 20;

/// Lanes of a run: beyond that a row no longer fits a
/// first-level cache, and several runs are as good.
pub const MAX_LANES: usize = 1 << 18;

/// Orders at a time. One of 64 wires takes 1.4 MB, one of 32 a quarter of that.
pub const MAX_ORDER_SLOTS: usize = 32;
