//! From a name outward: the statements that lead to it, each issued by whom the one before names.
//!
//! The trail ends at an address, or where nothing more is known: who asks may be one of the routers
//! in it. It is cut where it would not verify (a name twice, destinations that exclude each other,
//! an export behind a router)
//! and where it would not fit an answer, so what is returned is the longest beginning that is of
//! use. Where an issuer names several, each is a way of its own.

use std::cmp::Reverse;

use rhumb_wire::certificate::MAX_CHAIN;
use rhumb_wire::{Certificate, Metadata, Name, Scope, Statement};

use crate::gone::Gone;
use crate::store::{Cached, Store};
use crate::{Entry, RibError};

/// Statements from a name outward, and the metadata of their issuers as far as there was room.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trail {
    pub(crate) metadata: Vec<Metadata>,
    pub(crate) certificates: Vec<Certificate>,
}

impl Trail {
    /// Follows `name` outward through the entries of `store`, in an answer of at most
    /// `max_answer_len` bytes, by the way of this number where there are several: counted from 0
    /// around and around. What is exported by `domain`, the directory's own, is for those outside:
    /// here the name's own route leads to it, or nothing. A server that is `gone` is none of
    /// several.
    pub(crate) fn follow<S: Store>(
        store: &mut Cached<S>,
        (domain, gone): (Option<Name>, &Gone),
        (name, number): (Name, u8),
        max_answer_len: usize,
        now_s: u64,
    ) -> Result<Self, RibError> {
        let mut ways = Self::walk(store, (name, None), number, |entry, before| {
            if let Some(locator) = entry.locator(now_s) {
                return vec![locator];
            }
            let serves = before
                .last()
                .is_some_and(|it| matches!(it.statement, Statement::Service { several: true, .. }));
            let is_there = |route: &&Certificate| !serves || !gone.contains(route);
            let mut routes: Vec<_> = entry.routes(now_s).filter(is_there).collect();
            // The newest first: so whoever is told of a change sees what is new.
            routes.sort_by_key(|route| Reverse(route.sequence));
            if routes.is_empty() {
                let export = entry.export(now_s);
                routes.extend(export.filter(|it| it.statement.exports_by() != domain));
            }
            routes
        })?;
        let number = usize::from(number).checked_rem(ways.len());
        Ok(number.map_or(Self::default(), |it| ways.swap_remove(it).cut(max_answer_len)))
    }

    /// Follows the exports of `name` as far as `domain`: what may show of the way to it outside of
    /// that. Nothing if they do not come to it.
    pub(crate) fn exports<S: Store>(
        store: &mut Cached<S>,
        domain: Name,
        name: Name,
        max_answer_len: usize,
        now_s: u64,
    ) -> Result<Self, RibError> {
        Self::as_far_as(store, (domain, name), max_answer_len, |entry, _| {
            entry.export(now_s).into_iter().collect()
        })
    }

    /// The same of a name that a server answers for, too, which is exported: behind the word for
    /// it.
    pub(crate) fn outside<S: Store>(
        store: &mut Cached<S>,
        domain: Name,
        name: Name,
        max_answer_len: usize,
        now_s: u64,
    ) -> Result<Self, RibError> {
        Self::as_far_as(store, (domain, name), max_answer_len, |entry, before| {
            let export = entry.export(now_s);
            let is_service = |it: &&Certificate| matches!(it.statement, Statement::Service { .. });
            let services = entry.routes(now_s).filter(is_service);
            let services = services.filter(|_| before.is_empty() && export.is_none());
            services.chain(export).collect()
        })
    }

    /// The first way from a name that comes to `domain`.
    fn as_far_as<S: Store>(
        store: &mut Cached<S>,
        (domain, name): (Name, Name),
        max_answer_len: usize,
        choices: impl for<'a> Fn(&'a Entry, &[Certificate]) -> Vec<&'a Certificate>,
    ) -> Result<Self, RibError> {
        let trail = Self::walk(store, (name, Some(domain)), 0, choices)?.pop().unwrap_or_default();
        let trail = trail.cut(max_answer_len);
        let reaches = trail.certificates.last().and_then(|last| last.statement.exports_by());
        Ok(if reaches == Some(domain) { trail } else { Self::default() })
    }

    /// The ways from a name outward, no further than to a name where they end: those up to this
    /// number, or all there are. Where none leads anywhere, what there is of the first. Behind the
    /// statements so far, an entry goes on by its `choices`.
    fn walk<S: Store>(
        store: &mut Cached<S>,
        (name, end): (Name, Option<Name>),
        number: u8,
        choices: impl for<'a> Fn(&'a Entry, &[Certificate]) -> Vec<&'a Certificate>,
    ) -> Result<Vec<Self>, RibError> {
        let (mut ways, mut first): (Vec<Self>, Option<Self>) = (Vec::new(), None);
        let mut begun = vec![Begun { next: Some(name), ..Begun::default() }];
        let mut reads = 0;
        while let Some(at) = begun.pop()
            && ways.len() <= usize::from(number)
        {
            let next = at.next.filter(|next| Some(*next) != end);
            let may_go_on = at.trail.certificates.len() < MAX_CHAIN && reads < MAX_READS;
            let entry = match next.filter(|_| may_go_on) {
                Some(next) => store.entry(&next)?,
                None => None,
            };
            reads += 1;
            let metadata = entry.as_ref().map(|entry| entry.metadata());
            let mut onward =
                entry.as_ref().map_or(Vec::new(), |entry| choices(entry, &at.trail.certificates));
            onward.retain(|certificate| at.permits(certificate));
            match (onward.split_first(), metadata) {
                (Some((one, others)), Some(metadata)) => {
                    let others = others.iter().rev();
                    begun.extend(others.map(|it| at.clone().with(it, metadata)));
                    begun.push(at.with(one, metadata));
                }
                _ if at.trail.is_way() => ways.push(at.trail),
                _ => first = first.or(Some(at.trail)),
            }
        }
        // Of several, those that end nowhere are none while others end at an address.
        if number > 0 && ways.iter().any(Self::has_address) {
            ways.retain(Self::has_address);
        }
        if ways.is_empty() {
            ways.extend(first);
        }
        Ok(ways)
    }

    /// As much of it as fits an answer of so many bytes: certificates first.
    pub(crate) fn cut(mut self, max_answer_len: usize) -> Self {
        let mut room = max_answer_len.max(MIN_ANSWER_LEN) - FOUND_LEN;
        let mut fits = |len: usize| {
            let left = room.checked_sub(len);
            room = left.unwrap_or(0);
            left.is_some()
        };
        let fitting = self.certificates.iter().take_while(|it| fits(it.emitted_len())).count();
        self.certificates.truncate(fitting);
        let len_of = |metadata: &Metadata| METADATA_HEAD_LEN + metadata.emitted_len();
        let mut fitting = self.metadata.iter().take_while(|it| fits(len_of(it))).count();
        if self.certificates.is_empty() {
            // An answer about metadata is of no use without.
            fitting = fitting.max(1);
        }
        self.metadata.truncate(fitting);
        self
    }

    fn has_address(&self) -> bool {
        self.certificates.last().is_some_and(|it| matches!(it.statement, Statement::Locator(_)))
    }

    /// Whether the name is reached this way: that a server answers
    /// for it says nothing of where the server is.
    pub(crate) fn is_way(&self) -> bool {
        Self::leads(&self.certificates)
    }

    /// As [`Trail::is_way`], of certificates alone.
    pub(crate) fn leads(certificates: &[Certificate]) -> bool {
        match certificates {
            [] => false,
            [only] => !matches!(only.statement, Statement::Service { .. }),
            _ => true,
        }
    }
}

/// A way that is being followed.
#[derive(Clone, Default)]
struct Begun {
    trail: Trail,
    /// Whose word comes next.
    next: Option<Name>,
    /// The only name that traffic may be with.
    peer: Option<Name>,
    /// A router was named, behind which nothing is exported.
    is_inside: bool,
}

impl Begun {
    /// Whether this way would verify with one more certificate.
    fn permits(&self, certificate: &Certificate) -> bool {
        let Some(via) = certificate.statement.hands_on_to() else { return true };
        let before = &self.trail.certificates;
        let loops = via == certificate.issuer || before.iter().any(|it| it.issuer == via);
        let is_within = match certificate.statement.scope() {
            Scope::ByDomain { .. } | Scope::ByNeighbour { .. } => !self.is_inside,
            Scope::Destination(peer) => self.peer.is_none_or(|other| other == peer),
            Scope::Any | Scope::Several => true,
        };
        is_within && !loops
    }

    /// This way and one more certificate.
    fn with(mut self, certificate: &Certificate, issuer: &Metadata) -> Self {
        if let Scope::Destination(peer) = certificate.statement.scope() {
            self.peer = Some(peer);
        }
        let is_route = matches!(certificate.statement, Statement::Route { .. });
        self.is_inside |= is_route && certificate.statement.exports_by().is_none();
        self.next = certificate.statement.hands_on_to();
        self.trail.metadata.push(issuer.clone());
        self.trail.certificates.push(certificate.clone());
        self
    }
}

/// Entries read for one answer: as many as eight ways of eight. Who names several servers or
/// borders at each step could have us look at a million.
const MAX_READS: usize = 64;
/// Bytes of a found answer without its items: kind, identifier, level, name, two counts.
const FOUND_LEN: usize = 1 + 4 + 1 + Name::LEN + 1 + 1;
/// Bytes before each metadata: its length.
const METADATA_HEAD_LEN: usize = 2;
/// An answer of one certificate of any kind: with less, nothing could be answered at all.
const MIN_ANSWER_LEN: usize = FOUND_LEN + Certificate::MAX_LEN;

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_wire::rib::{RequestId, RibResponse, RibResponseBody};

    #[test]
    fn the_stated_length_of_an_empty_answer_is_right() {
        let body = RibResponseBody::Found {
            name: Name([0; 32]),
            level: 1,
            metadata: Vec::new(),
            certificates: Vec::new(),
        };
        let mut out = Vec::new();
        RibResponse { id: RequestId(0), body }.emit(&mut out);
        assert_eq!(out.len(), FOUND_LEN);
    }
}
