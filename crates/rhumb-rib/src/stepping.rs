//! An older word for a server in the place of a newer one whose server is not there, as stores keep
//! it that many servers write: the newer word stays, and beside it stands which one stands in for
//! it. It is over as soon as there is something newer than both, and when the newer word returns.

use rhumb_wire::Certificate;

/// Which newer word for a server the route of an entry stands in for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stepping {
    /// The rank of the cell that said so when the row was read.
    pub(crate) seen: i64,
    /// The sequence of the newer word.
    pub(crate) instead_of: Option<u64>,
    /// What became of it since: the value of the cell.
    pub(crate) change: Option<Vec<u8>>,
}

impl Stepping {
    /// An older word takes the place of the one of this sequence.
    pub(crate) fn step_in(&mut self, newest: Option<u64>, older: &Certificate) {
        self.instead_of = self.instead_of.or(newest);
        if let Some(instead_of) = self.instead_of {
            self.change = Some(emit_step(instead_of, older));
        }
    }

    /// A statement was taken as the route.
    pub(crate) fn follow(&mut self, route: &Certificate) {
        let Some(instead_of) = self.instead_of else { return };
        if route.sequence < instead_of {
            self.change = Some(emit_step(instead_of, route));
            return;
        }
        // What is newer ends it by itself.
        self.change = (route.sequence == instead_of).then(Vec::new);
        self.instead_of = None;
    }
}

/// Where an entry comes from is nothing that it says.
impl PartialEq for Stepping {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Stepping {}

/// The value of the cell.
fn emit_step(instead_of: u64, older: &Certificate) -> Vec<u8> {
    let mut out = instead_of.to_be_bytes().to_vec();
    older.emit(&mut out);
    out
}

/// Which sequence, and the bytes of the word that stands in; `None` when none does.
pub(crate) fn split_step(value: &[u8]) -> Option<(u64, &[u8])> {
    let (instead_of, older) = value.split_first_chunk()?;
    Some((u64::from_be_bytes(*instead_of), older))
}
