//! Signed answers that a name is not here, and the bound on making them.
//!
//! A signature costs a thousand times what the look-up does, so one is made per name and lifetime,
//! kept until it expires, and no more than so many in a second, for one and for all of a kind. What
//! is kept here is apart from the entries in use: random names cannot push those out. Nor need one
//! be taken back when its name appears: entries are looked at first.

use rhumb_trust::{Identity, TrustError, Window};
use rhumb_wire::{Certificate, Name, Statement};

use crate::generations::Generations;
use crate::share::Payer;
use crate::signatures::BudgetsWithin;

pub(crate) struct Absences {
    signed: Generations<Name, Certificate>,
    budgets: BudgetsWithin,
}

impl Absences {
    pub(crate) fn new(bound: usize) -> Self {
        Self { signed: Generations::new(bound), budgets: BudgetsWithin::new() }
    }

    /// The absence of `subject` that was signed lately, if it still has a second to hold.
    pub(crate) fn recent(&mut self, subject: &Name, now_s: u64) -> Option<&Certificate> {
        let certificate = self.signed.get_mut(subject)?;
        (certificate.not_before_s..certificate.not_after_s).contains(&now_s).then_some(certificate)
    }

    /// Whether another absence may be signed for `payer` in this second, of so
    /// many for it and so many for all of its kind.
    pub(crate) fn may_sign(
        &mut self,
        payer: Payer,
        per_asker: u32,
        per_kind: u32,
        now_s: u64,
    ) -> bool {
        self.budgets.take(payer, per_asker, per_kind, now_s)
    }

    /// Signs that `subject` is not here.
    pub(crate) fn sign(
        &mut self,
        identity: &Identity,
        subject: Name,
        now_s: u64,
    ) -> Result<Certificate, TrustError> {
        let window = Window::starting(now_s, ABSENCE_TTL_S);
        let sequence = now_s.saturating_mul(1000);
        let certificate = identity.certify(Statement::Absence { subject }, sequence, window)?;
        self.signed.insert(subject, certificate.clone());
        Ok(certificate)
    }
}

/// How long an absence holds. Short, because a name that appears is not found for so long by those
/// who asked before; long enough to keep a busy router from asking for every packet.
pub(crate) const ABSENCE_TTL_S: u64 = 2;
