//! What this domain's directory hands on to the domain around, and nothing else: exports that go
//! beyond this domain; the domain's own word for its border and that router's locator; names that
//! an exported server answers for; and the withdrawals of whatever was handed on.
//!
//! INVARIANT: no other statement leaves, so no name and no address of the inside shows but those.

use std::sync::Arc;

use rhumb_directory::{PublishOutcome, Slot, until};
use rhumb_trust::Now;
use rhumb_wire::rib::{Refusal, RequestId, RibResponseBody};
use rhumb_wire::{Certificate, Metadata, Name, Scope, Statement};

use super::Rib;
use crate::store::{Change, Store};
use crate::{DropReason, Entry, RibError};

impl<S: Store> Rib<S> {
    /// Notes which of these entries are to be looked at.
    pub(crate) fn note_to_pass<'a>(&mut self, entries: impl Iterator<Item = (Name, &'a Entry)>) {
        if self.config.parents.is_empty() {
            return;
        }
        let (Some(beyond), Some(domain)) = (&mut self.beyond, self.config.domain) else { return };
        for (name, entry) in entries {
            if name == domain {
                // Where a border is comes before that it is one: who hears of it asks at once.
                entry.vias().for_each(|border| beyond.upward.note(border));
            }
            if name == domain || entry.may_show() || beyond.upward.has_passed(name) {
                beyond.upward.note(name);
            }
        }
    }

    pub(crate) fn note_committed(&mut self, changes: &[Change]) {
        let entries = changes.iter().filter_map(|it| Some((it.name, it.after.as_ref()?)));
        self.note_to_pass(entries);
    }

    /// Hands on some of what is to be handed on.
    pub(crate) fn pass_up(&mut self, now: Now) {
        let Some(beyond) = &mut self.beyond else { return };
        let behind = beyond.directory.take_behind(now.instant);
        for (replica, name) in behind {
            for (metadata, certificate) in self.shown_beyond(name, now.unix_s()) {
                let end = until(certificate.not_after_s, now);
                if let Some(beyond) = &mut self.beyond {
                    let directory = &mut beyond.directory;
                    directory.publish_at(replica, metadata, vec![certificate], end, now.instant);
                }
            }
        }
        let Some(beyond) = &mut self.beyond else { return };
        if !beyond.upward.is_time(now.instant) {
            return;
        }
        for name in beyond.upward.take() {
            self.pass_up_name(name, now);
        }
        self.walk_on();
    }

    fn pass_up_name(&mut self, name: Name, now: Now) {
        let shown = self.shown_beyond(name, now.unix_s());
        if self.store.has_missed() {
            self.want_missed();
            if let Some(beyond) = &mut self.beyond {
                beyond.upward.postpone(name, now.instant);
            }
            return;
        }
        for (metadata, certificate) in shown {
            let Some(beyond) = &mut self.beyond else { return };
            if !beyond.directory.can_publish(&name) {
                return beyond.upward.postpone(name, now.instant);
            }
            if !beyond.upward.pass(&certificate) {
                continue;
            }
            if certificate.statement.exports_by().is_some() {
                beyond.upward.let_out(name);
            }
            self.counters.passed_up += 1;
            let end = until(certificate.not_after_s, now);
            beyond.directory.publish(metadata, vec![certificate], end, now.instant);
        }
    }

    /// Looks at a part of the store: what was there before this process was.
    fn walk_on(&mut self) {
        let Some(from) = self.beyond.as_ref().and_then(|it| it.upward.walk_from()) else { return };
        let reached = match self.store.entries_after(from, WALK) {
            Ok(entries) => {
                self.note_to_pass(entries.iter().map(|(name, entry)| (*name, entry)));
                entries.last().map(|(name, _)| *name).filter(|_| entries.len() == WALK)
            }
            Err(RibError::DamagedEntry { name }) => Some(name),
            Err(error) => {
                self.store_failed(error);
                from
            }
        };
        if let Some(beyond) = &mut self.beyond {
            beyond.upward.walked_to(reached);
        }
    }

    /// The statements of a name that are to be known outside.
    fn shown_beyond(&mut self, name: Name, now_s: u64) -> Vec<(Arc<Metadata>, Certificate)> {
        let Some(domain) = self.config.domain else { return Vec::new() };
        let entry = match self.store.entry(&name) {
            Ok(Some(entry)) => entry,
            Ok(None) => return Vec::new(),
            Err(error) => {
                self.store_failed(error);
                return Vec::new();
            }
        };
        let mut shown: Vec<&Certificate> = Vec::new();
        shown.extend(entry.export(now_s).filter(|export| shows_beyond(export, domain)));
        for route in entry.routes(now_s) {
            match route.statement {
                Statement::Service { server, .. } => match self.is_exported(server, now_s) {
                    true => shown.push(route),
                    false => {
                        if let Some(beyond) = &mut self.beyond {
                            beyond.upward.keep_in(server, name);
                        }
                    }
                },
                _ if name == domain => shown.push(route),
                _ => {}
            }
        }
        if let Some(locator) = entry.locator(now_s)
            && self.is_border(domain, name, now_s)
        {
            shown.push(locator);
        }
        let was_passed = self.beyond.as_ref().is_some_and(|it| it.upward.has_passed(name));
        shown.extend(entry.withdrawal(now_s).filter(|_| was_passed));
        let metadata = Arc::new(entry.metadata().clone());
        shown.into_iter().map(|certificate| (metadata.clone(), certificate.clone())).collect()
    }

    fn is_exported(&mut self, server: Name, now_s: u64) -> bool {
        let Some(domain) = self.config.domain else { return false };
        let entry = self.store.entry(&server).ok().flatten();
        let export = entry.as_ref().and_then(|entry| entry.export(now_s));
        export.is_some_and(|export| shows_beyond(export, domain))
    }

    /// Whether the domain's own word names this router.
    fn is_border(&mut self, domain: Name, router: Name, now_s: u64) -> bool {
        let entry = self.store.entry(&domain).ok().flatten();
        let names_it = |route: &Certificate| matches!(route.statement, Statement::Route { via, .. } if via == router);
        entry.is_some_and(|entry| entry.routes(now_s).any(names_it))
    }

    /// What became of something that was handed on.
    pub(crate) fn passed_up(
        &mut self,
        slot: Slot,
        request: (usize, RequestId),
        body: &RibResponseBody,
        now: Now,
    ) {
        let answer = match body {
            RibResponseBody::Stored => Ok(()),
            RibResponseBody::Refused(refusal) => Err(*refusal),
            RibResponseBody::Superseded(_) => Err(Refusal::Superseded),
            _ => return self.counters.count_drop(DropReason::UnexpectedAnswer),
        };
        let Some(beyond) = &mut self.beyond else { return };
        match beyond.directory.published(slot, request, answer, now.instant) {
            PublishOutcome::Published => beyond.directory.note_watched(slot.issuer),
            PublishOutcome::Refused(refusal) => {
                self.counters.passed_up_refused += 1;
                // What is newer there is newer tomorrow, too.
                if refusal != Refusal::Superseded {
                    beyond.upward.forget(&slot);
                }
            }
            PublishOutcome::GoesOn => {}
        }
    }
}

/// Whether an export is for those outside of the domain.
fn shows_beyond(export: &Certificate, domain: Name) -> bool {
    !matches!(
        export.statement,
        Statement::Route { scope: Scope::ByDomain { up_to: Some(last) }, .. } if last == domain
    )
}

/// Entries read at once: less than a millisecond.
const WALK: usize = 256;
