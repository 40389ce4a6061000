//! From a name outward: the statements that lead to it, each issued by whom the one before names.
//!
//! The trail ends at an address, or where nothing more is known: who asks may be one of the routers
//! in it. It is cut where it would not verify (a name twice, destinations that exclude each other,
//! an export behind a router)
//! and where it would not fit an answer, so what is returned is the longest beginning that is of
//! use. It takes at most [`MAX_CHAIN`] reads.

use rhumb_wire::certificate::MAX_CHAIN;
use rhumb_wire::{Certificate, Metadata, Name, Scope, Statement};

use crate::store::{Cached, Store};
use crate::{Entry, RibError};

/// Statements from a name outward, and the metadata of their issuers as far as there was room.
#[derive(Debug, Default)]
pub(crate) struct Trail {
    pub(crate) metadata: Vec<Metadata>,
    pub(crate) certificates: Vec<Certificate>,
}

impl Trail {
    /// Follows `name` outward through the entries of `store`, in an answer of at most
    /// `max_answer_len` bytes. What is exported by `domain`, the directory's own, is for those
    /// outside: here the name's own route leads to it, or nothing.
    pub(crate) fn follow<S: Store>(
        store: &mut Cached<S>,
        domain: Option<Name>,
        name: Name,
        max_answer_len: usize,
        now_s: u64,
    ) -> Result<Self, RibError> {
        let mut narrowest = Narrowest::default();
        Self::walk(store, name, max_answer_len, |entry, certificates| {
            if let Some(locator) = entry.locator(now_s) {
                return Some((locator, None));
            }
            let export = || {
                let export = entry.export(now_s);
                export.filter(|export| export.statement.exports_by() != domain)
            };
            let route = entry.route(now_s).or_else(export)?;
            let via = permitted(route, certificates, &mut narrowest)?;
            Some((route, Some(via)))
        })
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
        let mut narrowest = Narrowest::default();
        let trail = Self::walk(store, name, max_answer_len, |entry, certificates| {
            let export = entry.export(now_s)?;
            let via = permitted(export, certificates, &mut narrowest)?;
            Some((export, Some(via).filter(|via| *via != domain)))
        })?;
        let reaches = trail.certificates.last().and_then(|last| last.statement.exports_by());
        Ok(if reaches == Some(domain) { trail } else { Self::default() })
    }

    /// Walks from entry to entry: `step` says by which certificate, and who issues the next one.
    fn walk<S: Store>(
        store: &mut Cached<S>,
        name: Name,
        max_answer_len: usize,
        mut step: impl for<'a> FnMut(
            &'a Entry,
            &[Certificate],
        ) -> Option<(&'a Certificate, Option<Name>)>,
    ) -> Result<Self, RibError> {
        let mut certificates = Vec::new();
        let mut metadata = Vec::new();
        let mut next = Some(name);
        while let Some(at) = next
            && certificates.len() < MAX_CHAIN
            && let Some(entry) = store.entry(&at)?
        {
            let Some((certificate, via)) = step(&entry, &certificates) else { break };
            let certificate = certificate.clone();
            certificates.push(certificate);
            metadata.push(entry.metadata().clone());
            next = via;
        }
        Ok(Self { metadata, certificates }.cut(max_answer_len))
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
        let len_of = |metadata: &Metadata| METADATA_HEAD_LEN + metadata.emit().len();
        let mut fitting = self.metadata.iter().take_while(|it| fits(len_of(it))).count();
        if self.certificates.is_empty() {
            // An answer about metadata is of no use without.
            fitting = fitting.max(1);
        }
        self.metadata.truncate(fitting);
        self
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

/// Whom `route` hands on to, unless the trail would not verify with it.
fn permitted(
    route: &Certificate,
    before: &[Certificate],
    narrowest: &mut Narrowest,
) -> Option<Name> {
    let via = route.statement.hands_on_to()?;
    let loops = via == route.issuer || before.iter().any(|certificate| certificate.issuer == via);
    if loops {
        return None;
    }
    match route.statement.scope() {
        Scope::ByDomain { .. } if narrowest.is_inside => return None,
        Scope::Destination(peer) if narrowest.peer.is_some_and(|other| other != peer) => {
            return None;
        }
        Scope::Destination(peer) => narrowest.peer = Some(peer),
        Scope::Any | Scope::ByDomain { .. } => {}
    }
    let is_route = matches!(route.statement, Statement::Route { .. });
    narrowest.is_inside |= is_route && route.statement.exports_by().is_none();
    Some(via)
}

/// What the certificates of a trail leave to those behind them.
#[derive(Default)]
struct Narrowest {
    /// The only name that traffic may be with.
    peer: Option<Name>,
    /// A router was named, behind which nothing is exported.
    is_inside: bool,
}

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
