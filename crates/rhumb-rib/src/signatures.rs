//! How much public-key work may be done in a second, for whom; what
//! waits for it; and what need not be done again.
//!
//! Orders to publish and absences have budgets of their own, so that a flood of look-ups for names
//! that are not there stops no publication. Each who was admitted has one, and all strangers of a
//! source share one. What waits to be verified is taken in turns by the same division, three of the
//! admitted for one of strangers where both wait.

use crate::allowance::Allowance;
use crate::fair::FairQueue;
use crate::generations::Generations;
use crate::share::Payer;
use rhumb_wire::{Certificate, Name};

/// Budgets of one kind of work.
pub(crate) struct Budgets(Generations<Payer, Allowance>);

impl Budgets {
    pub(crate) fn new() -> Self {
        Self(Generations::new(PAYERS))
    }

    /// Whether `payer` may have so much more done in this second.
    pub(crate) fn take(&mut self, payer: Payer, amount: u32, per_s: u32, now_s: u64) -> bool {
        self.0.value_or_insert(&payer, Allowance::default).take(amount, per_s, now_s)
    }
}

/// Budgets of one kind of work, and of all together who were admitted, and all strangers.
pub(crate) struct BudgetsWithin {
    each: Budgets,
    of_admitted: Allowance,
    of_strangers: Allowance,
}

impl BudgetsWithin {
    pub(crate) fn new() -> Self {
        let (of_admitted, of_strangers) = (Allowance::default(), Allowance::default());
        Self { each: Budgets::new(), of_admitted, of_strangers }
    }

    /// Whether `payer` may have one more done in this second, of so many for it and so many for all
    /// of its kind.
    pub(crate) fn take(
        &mut self,
        payer: Payer,
        each_per_s: u32,
        all_per_s: u32,
        now_s: u64,
    ) -> bool {
        let of_kind = match payer {
            Payer::Admitted(_) => &mut self.of_admitted,
            Payer::Stranger(_) => &mut self.of_strangers,
        };
        self.each.take(payer, 1, each_per_s, now_s) && of_kind.take(1, all_per_s, now_s)
    }
}

/// Orders, whose signatures are to be checked.
pub(crate) struct Waiting<T> {
    admitted: FairQueue<T>,
    strangers: FairQueue<T>,
    /// Admitted ones taken since one of a stranger was.
    in_a_row: u32,
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self { admitted: FairQueue::default(), strangers: FairQueue::default(), in_a_row: 0 }
    }
}

impl<T> Waiting<T> {
    pub(crate) fn len(&self) -> usize {
        self.admitted.len() + self.strangers.len()
    }

    /// Whether another order of `payer` has room: strangers have half of `bound`, and a source no
    /// more than what is left of it.
    pub(crate) fn has_room(&self, payer: &Payer, all_waiting: usize, bound: usize) -> bool {
        match payer {
            Payer::Admitted(_) => all_waiting < bound && self.admitted.len_of(payer) <= bound / 2,
            Payer::Stranger(_) => {
                let left = (bound / 2).saturating_sub(all_waiting);
                left > 0 && self.strangers.len_of(payer) <= left
            }
        }
    }

    pub(crate) fn push(&mut self, payer: Payer, asker: Name, order: T) {
        match payer {
            Payer::Admitted(_) => self.admitted.push(payer, asker, order),
            Payer::Stranger(_) => self.strangers.push(payer, asker, order),
        }
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        let (first, second) = match self.in_a_row < ADMITTED_IN_A_ROW {
            true => (&mut self.admitted, &mut self.strangers),
            false => (&mut self.strangers, &mut self.admitted),
        };
        let (payer, order) = first.pop().or_else(|| second.pop())?;
        self.in_a_row = match payer {
            Payer::Admitted(_) => self.in_a_row.saturating_add(1),
            Payer::Stranger(_) => 0,
        };
        Some(order)
    }
}

/// Orders that were refused for a signature, which will not become good:
/// byte by byte the same ones are refused at once.
pub(crate) struct Forgeries(Generations<Box<[u8]>, ()>);

impl Forgeries {
    pub(crate) fn new() -> Self {
        Self(Generations::new(FORGERIES))
    }

    pub(crate) fn note(&mut self, statements: Box<[u8]>) {
        self.0.insert(statements, ());
    }

    pub(crate) fn contains(&mut self, statements: &[u8]) -> bool {
        self.0.get_mut(&statements.into()).is_some()
    }
}

/// What certificates are noted as: no list of them begins as published names do.
pub(crate) fn bytes_of(certificates: &[Certificate]) -> Box<[u8]> {
    let mut bytes = Vec::new();
    Certificate::emit_list(certificates, &mut bytes);
    bytes.into()
}

/// Payers whose budgets are kept. One that was forgotten has a fresh budget, but for that as many
/// others must have asked in the same second, each from an address of its own.
const PAYERS: usize = 1 << 14;
const ADMITTED_IN_A_ROW: u32 = 3;
/// About 1 MB, with most orders of one statement.
const FORGERIES: usize = 1 << 12;
