//! Asking a RIB, and believing nothing of its answer that does not verify.

use std::collections::HashMap;
use std::net::Ipv6Addr;
use std::time::Duration;

use crate::clock;
use crate::failure::{Failure, Outcome};
use rhumb_trust::{Chain, Verified, name_of, verify_chain, verify_statement};
use rhumb_wire::rib::{
    Refusal, RequestId, RibRequest, RibRequestBody, RibResponse, RibResponseBody,
};
use rhumb_wire::{Action, Metadata, Name, PublishedNames, Statement};

use super::session::Session;

/// A RIB, asked by whoever `source` is.
pub struct Directory<'a> {
    session: &'a mut Session,
    source: Name,
    last_id: u32,
}

/// What a RIB says of whose an address is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// This name's, which has it.
    Name(Name),
    /// Nobody's, as far as it knows.
    Nobody,
    /// It does not say.
    Refused(Refusal),
}

/// What a RIB says of what an owner publishes under its own name.
#[derive(Debug)]
pub enum SaidOfNames {
    /// This, unverified but for whose it says that it is, and the owner's metadata.
    List(Box<(PublishedNames, Metadata)>),
    /// Nothing; the owner is known.
    Nothing,
    /// It does not know the owner.
    UnknownOwner,
    /// It does not say.
    Refused(Refusal),
    /// It spoke of something else.
    Unfit,
}

impl<'a> Directory<'a> {
    /// Asks over `session`, whose own name is `source`.
    pub fn new(session: &'a mut Session, source: Name) -> Self {
        Self { session, source, last_id: 0 }
    }

    /// The verified chain that leads from `name` outward;
    /// `None` when the RIB proves that it knows none.
    pub fn look_up(&mut self, name: Name) -> Outcome<Option<Verified<Chain>>> {
        let mut keys = HashMap::new();
        let certificates = match self.request(RibRequestBody::LookUpRoute(name))? {
            RibResponseBody::Found { name: of, metadata, certificates, .. } if of == name => {
                keys.extend(metadata.iter().map(|metadata| (name_of(metadata), metadata.key)));
                certificates
            }
            RibResponseBody::Absent(absence) => {
                let rib = self.metadata(self.session.peer())?;
                let absence = verify_statement(&absence, &rib, clock::now().unix_s())
                    .map_err(Failure::operation)?;
                return match absence.statement {
                    Statement::Absence { subject } if subject == name => Ok(None),
                    _ => Err(unexpected()),
                };
            }
            RibResponseBody::Refused(refusal) => {
                return Err(Failure::setup_text(format!(
                    "the RIB refuses to answer: {refusal}; its operator admits this name, or gives it the right to publish"
                )));
            }
            _ => return Err(unexpected()),
        };
        for issuer in certificates.iter().map(|certificate| certificate.issuer) {
            if let std::collections::hash_map::Entry::Vacant(entry) = keys.entry(issuer) {
                entry.insert(self.metadata(issuer)?.key);
            }
        }
        let now_s = clock::now().unix_s();
        verify_chain(name, certificates, |issuer| keys.get(issuer).copied(), now_s)
            .map(Some)
            .map_err(Failure::operation)
    }

    /// The name of an IPv6 address.
    ///
    /// # Errors
    /// When no answer comes, or one that fits no question.
    pub fn look_up_address(&mut self, address: Ipv6Addr) -> Outcome<Found> {
        let [_, beginning @ ..] = address.octets();
        match self.request(RibRequestBody::LookUpAddress(beginning))? {
            RibResponseBody::Found { name, metadata, .. } => {
                let is_it =
                    name.address() == address && metadata.iter().any(|it| name_of(it) == name);
                if is_it { Ok(Found::Name(name)) } else { Err(unexpected()) }
            }
            // Whether it lies costs as much as that it withholds.
            RibResponseBody::Absent(_) => Ok(Found::Nobody),
            RibResponseBody::Refused(refusal) => Ok(Found::Refused(refusal)),
            _ => Err(unexpected()),
        }
    }

    /// The newest list of what `owner` publishes under its own name, in force or not.
    ///
    /// # Errors
    /// When no answer comes.
    pub fn look_up_names(&mut self, owner: Name) -> Outcome<SaidOfNames> {
        Ok(match self.request(RibRequestBody::LookUpNames(owner))? {
            RibResponseBody::Names { published, .. } if published.owner != owner => {
                SaidOfNames::Unfit
            }
            RibResponseBody::Names { metadata, published } => {
                let metadata = metadata.into_iter().find(|it| name_of(it) == owner);
                match metadata.map_or_else(|| self.metadata(owner), Ok) {
                    Ok(metadata) => SaidOfNames::List(Box::new((published, metadata))),
                    Err(_) => SaidOfNames::Unfit,
                }
            }
            RibResponseBody::Found { name, metadata, .. } => {
                match name == owner && metadata.iter().any(|it| name_of(it) == owner) {
                    true => SaidOfNames::Nothing,
                    false => SaidOfNames::Unfit,
                }
            }
            // Whether it lies costs as much as that it withholds.
            RibResponseBody::Absent(_) => SaidOfNames::UnknownOwner,
            RibResponseBody::Refused(refusal) => SaidOfNames::Refused(refusal),
            _ => SaidOfNames::Unfit,
        })
    }

    /// The metadata of `name`, checked against it.
    fn metadata(&mut self, name: Name) -> Outcome<Metadata> {
        match self.request(RibRequestBody::LookUpMetadata(name))? {
            RibResponseBody::Found { metadata, .. } => metadata
                .into_iter()
                .find(|metadata| name_of(metadata) == name)
                .ok_or_else(unexpected),
            _ => Err(unexpected()),
        }
    }

    /// One question, one answer.
    pub fn request(&mut self, body: RibRequestBody) -> Outcome<RibResponseBody> {
        self.last_id += 1;
        let request = RibRequest { id: RequestId(self.last_id), body };
        let mut data = Vec::new();
        request.emit(&mut data);
        let answer = self
            .session
            .ask(Action::RibRequest, self.source, &data, &[], PATIENCE)?
            .ok_or_else(|| Failure::operation_text("the RIB does not answer; try again"))?;
        let response = RibResponse::parse(&answer.data).map_err(Failure::operation)?;
        if answer.header.action != Action::RibResponse || response.id != request.id {
            return Err(unexpected());
        }
        Ok(response.body)
    }
}

fn unexpected() -> Failure {
    Failure::operation_text(
        "the RIB gave an answer that does not fit the question; do not trust it",
    )
}

/// A RIB answers within milliseconds; this is for lost datagrams.
const PATIENCE: Duration = Duration::from_secs(3);
