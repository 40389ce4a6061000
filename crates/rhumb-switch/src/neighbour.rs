//! Who is at the other end of a session: how it is treated, and what it may cost us.

use std::time::{Duration, Instant};

use rhumb_link::Source;
use rhumb_trust::Standing;
use rhumb_wire::{Name, Role};

use crate::budgets::Cost;
use crate::limits::Bounds;
use crate::reach::{CREDIT_OF_A_HANDSHAKE, MAX_CREDIT};

/// What a session may cost us.
#[derive(Debug)]
pub(crate) struct Neighbour {
    /// Something of it was refused whose signatures are not what they should be.
    pub(crate) was_refused: bool,
    spent: Spent,
    /// Bytes that it sent and that nothing went to unproven addresses for.
    pub(crate) credit: u32,
    /// How it is treated.
    pub(crate) standing: Standing,
    /// How many times a node's share of misses and questions it has.
    shares: u32,
    /// Where the names that it attached are counted, if it is a stranger's.
    pub(crate) charged: Option<Source>,
    /// What its trust domain leaves it, if that is not everything.
    pub(crate) bounds: Option<Box<Bounds>>,
    /// Names that it attached.
    pub(crate) attached: Vec<Name>,
    /// Members of groups that it brought.
    pub(crate) joined: usize,
    /// Whether flows went to it, so that some may rest on its session.
    pub(crate) carries: bool,
    /// The number of the change with which its present handshake was
    /// made: labels that it gave before are over.
    pub(crate) renewed_as_of: u64,
}

/// What a session has cost in one window.
#[derive(Debug)]
struct Spent {
    since: Instant,
    /// NACKs sent to it.
    nacks: u32,
    /// PDUs of no known flow that came from it.
    misses: u32,
    /// Questions to RIBs that its PDUs caused.
    questions: u32,
    /// Copies of what it sent to groups.
    copies: u32,
    /// Bytes of NACKs of it that were passed on.
    relayed: u32,
}

impl Spent {
    fn nothing(since: Instant) -> Self {
        Self { since, nacks: 0, misses: 0, questions: 0, copies: 0, relayed: 0 }
    }
}

impl Neighbour {
    pub(crate) fn new(role: Option<Role>, standing: Standing, now: Instant) -> Self {
        let shares = shares_of(role, standing);
        Self {
            was_refused: false,
            credit: CREDIT_OF_A_HANDSHAKE,
            spent: Spent::nothing(now),
            standing,
            shares,
            charged: None,
            bounds: None,
            attached: Vec::new(),
            joined: 0,
            carries: false,
            renewed_as_of: 0,
        }
    }

    /// It is treated otherwise from now on.
    pub(crate) fn treat_as(&mut self, role: Option<Role>, standing: Standing) {
        (self.standing, self.shares) = (standing, shares_of(role, standing));
    }

    /// It sent so many bytes for which something may go to unproven addresses.
    pub(crate) fn note_sent(&mut self, len: usize) {
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        self.credit = self.credit.saturating_add(len).min(MAX_CREDIT);
    }

    /// What was spent in the window that `now` is in.
    fn spent_in_window(&mut self, now: Instant) -> &mut Spent {
        if now.saturating_duration_since(self.spent.since) >= SPENDING_WINDOW {
            self.spent = Spent::nothing(now);
        }
        &mut self.spent
    }

    /// Whether the share of somebody who is admitted leaves one more, which is taken.
    pub(crate) fn may_cost(&mut self, cost: Cost, now: Instant) -> bool {
        let shares = self.shares;
        let spent = self.spent_in_window(now);
        match cost {
            Cost::Nack => take(&mut spent.nacks, 1, MAX_NACKS),
            Cost::Miss => take(&mut spent.misses, 1, shares * MAX_MISSES),
            Cost::Question => take(&mut spent.questions, 1, shares * MAX_QUESTIONS),
            // As many as it attaches names.
            Cost::Publication => true,
            Cost::Copies(count) => take(&mut spent.copies, count, shares * MAX_COPIES),
            Cost::Relayed(len) => take(&mut spent.relayed, len, MAX_RELAYED),
        }
    }

    /// Whether NACKs are left for somebody who is admitted.
    pub(crate) fn has_nacks_left(&self) -> bool {
        self.spent.nacks < MAX_NACKS
    }
}

fn take(spent: &mut u32, amount: u32, most: u32) -> bool {
    let may = spent.saturating_add(amount) <= most;
    *spent += if may { amount } else { 0 };
    may
}

fn shares_of(role: Option<Role>, standing: Standing) -> u32 {
    match (role, standing) {
        (Some(Role::Router), Standing::Admitted) => SHARES_OF_A_ROUTER,
        _ => 1,
    }
}

/// In which what a session may spend is counted.
const SPENDING_WINDOW: Duration = Duration::from_millis(100);
/// A client's whole window may miss at once; a flood gets
/// 20,000 answers a second, which cost one core 2 %.
const MAX_NACKS: u32 = 2000;
/// Bytes of NACKs that a foreign peer may have passed on: of the usual length, 5,800 a second, in
/// which nobody hides more than some megabits.
const MAX_RELAYED: u32 = 1 << 16;
/// PDUs of no known flow that are looked into, as many as may be
/// answered: 20,000 a second, which cost one core 1 %.
const MAX_MISSES: u32 = 2000;
/// Questions to RIBs: 1,000 a second, which with their answers cost one core 1
/// %. A RIB that does not answer is given up after three seconds, so one
/// session's never are all that may be under way.
const MAX_QUESTIONS: u32 = 100;
/// Copies of what it sends to groups: half a core.
const MAX_COPIES: u32 = 50_000;
/// Many nodes begin their flows through a router, and one of them that floods is let through as far
/// as its own router lets it: four of them leave something for others.
const SHARES_OF_A_ROUTER: u32 = 5;
