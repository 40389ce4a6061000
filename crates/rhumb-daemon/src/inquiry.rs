//! Asking a RIB or a router something over one secure session, and waiting for the answer: for
//! tools that want to know, and are no nodes.

mod directory;
mod session;
mod telling;

pub use directory::{Directory, Found, SaidOfNames};
pub use session::{Received, Session, Way, Ways};
pub use telling::{Told, tell_removal};
