//! A live view of daemons in a terminal, for `rhumb top`: what is shown, by which keys, and how it
//! is drawn. Sockets, the terminal and the clock are the caller's.
//!
//! 1. Each answer of a daemon is a [`Look`], which [`Top::take`] adds to what is known of it; two
//!    of them make rates.
//! 2. A screen makes a [`Sheet`] of that: rows of cells, which are sorted, filtered, drawn, or
//!    printed as they are.
//! 3. Keys go to [`Top::press`], which says what the caller has to do.
//!
//! Invariant: whatever a daemon says is shown by [`text::shown`], so that nothing in it is obeyed
//! by a terminal: labels and reasons are strangers' words.

#![forbid(unsafe_code)]

mod amounts;
mod daemon;
mod draw;
mod keys;
mod load;
mod meanings;
mod names;
mod plain;
mod screens;
mod sheet;
mod tally;
pub mod text;
mod top;
mod view;

pub use daemon::{Look, Warning};
pub use draw::{LEAST_HEIGHT, LEAST_WIDTH};
pub use keys::{KEYS, Key};
pub use names::Labels;
pub use screens::Screen;
pub use sheet::Sheet;
pub use top::Top;
pub use view::{Asked, PACES_MS};
