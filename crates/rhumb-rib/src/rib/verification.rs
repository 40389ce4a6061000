//! Signatures to be checked by whoever has the time: of orders, of names, of removals, and those of
//! what the domain around has said. The last take turns with the others, so that neither waits for
//! a flood of the other. Heads of the log are made here, too: one in a second goes before the rest.

use rhumb_wire::Name;
use rhumb_wire::rib::Refusal;

use super::Rib;
use super::publish::Unverified;
use super::published::UnverifiedNames;
use super::remove::{CheckedRemoval, UnverifiedRemoval};
use crate::beyond::Told;
use crate::log::{Made, Making};
use crate::share::Payer;
use crate::store::Store;

/// Signatures to be checked, on any thread.
#[derive(Debug)]
pub struct Verification(Task);

#[derive(Debug)]
pub(crate) enum Task {
    Order(Box<Unverified>),
    Names(Box<UnverifiedNames>),
    Removal(Box<UnverifiedRemoval>),
    Told(Box<Told>),
    Head(Box<Making>),
}

/// What became of a [`Verification`].
#[derive(Debug)]
pub struct Verdict(Checked);

#[derive(Debug)]
pub(super) enum Checked {
    Order(Box<Unverified>, Result<(), Refusal>),
    Names(Box<UnverifiedNames>, Result<(), Refusal>),
    Removal(Box<CheckedRemoval>),
    Told(Box<Told>, bool),
    Head(Box<Made>),
}

impl Verification {
    /// Does the work: 60 µs for each certificate, or for some ten names that changed.
    pub fn run(self) -> Verdict {
        Verdict(match self.0 {
            Task::Order(order) => {
                let result = order.check();
                Checked::Order(order, result)
            }
            Task::Names(names) => {
                let result = names.check();
                Checked::Names(names, result)
            }
            Task::Removal(removal) => Checked::Removal(Box::new(removal.check())),
            Task::Told(told) => {
                let holds = told.holds();
                Checked::Told(told, holds)
            }
            Task::Head(making) => Checked::Head(Box::new(making.run())),
        })
    }
}

impl<S: Store> Rib<S> {
    pub(crate) fn push_order(&mut self, payer: Payer, asker: Name, order: Unverified) {
        self.verifications.push(payer, asker, Task::Order(Box::new(order)));
    }

    pub(crate) fn push_names(&mut self, payer: Payer, asker: Name, names: UnverifiedNames) {
        self.verifications.push(payer, asker, Task::Names(Box::new(names)));
    }

    pub(crate) fn push_removal(&mut self, payer: Payer, asker: Name, removal: UnverifiedRemoval) {
        self.verifications.push(payer, asker, Task::Removal(Box::new(removal)));
    }

    /// The next signatures to be checked.
    pub fn poll_verification(&mut self) -> Option<Verification> {
        if let Some(head) = self.logged.as_mut().and_then(|logged| logged.take_next()) {
            return Some(Verification(head));
        }
        self.told_is_next = !self.told_is_next;
        if self.told_is_next
            && let Some(told) = self.next_told()
        {
            return Some(told);
        }
        match self.verifications.pop() {
            Some(task) => {
                self.verifications_under_way += 1;
                Some(Verification(task))
            }
            None => self.next_told(),
        }
    }

    fn next_told(&mut self) -> Option<Verification> {
        let told = self.beyond.as_mut()?.unverified.pop_front()?;
        Some(Verification(Task::Told(Box::new(told))))
    }

    /// Takes back what became of a verification: an order is staged or refused, what the domain
    /// around said is believed or not when [`Rib::advance`] is called next.
    pub fn handle_verified(&mut self, verdict: Verdict) {
        if !matches!(verdict.0, Checked::Told(..) | Checked::Head(_)) {
            self.verifications_under_way = self.verifications_under_way.saturating_sub(1);
        }
        self.take_checked(verdict.0);
    }

    pub(super) fn take_checked(&mut self, checked: Checked) {
        match checked {
            Checked::Order(order, result) => {
                if let Some(order) = self.order_verified(order, result) {
                    let by = order.order().by();
                    self.park_verdict(by, Checked::Order(order, result));
                }
            }
            Checked::Names(names, result) => {
                if let Some(names) = self.names_verified(names, result) {
                    let by = names.order().by();
                    self.park_verdict(by, Checked::Names(names, result));
                }
            }
            Checked::Removal(removal) => self.removal_verified(*removal),
            Checked::Head(made) => self.head_made(*made),
            Checked::Told(told, holds) => {
                if let Some(beyond) = &mut self.beyond {
                    beyond.verified.push_back((*told, holds));
                }
            }
        }
    }
}
