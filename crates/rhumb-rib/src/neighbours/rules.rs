//! What an operator says of a neighbour: who it is to this domain, which of its offers are taken,
//! how much they are liked, and what it is told. Nobody else is shown any of it.

use std::net::SocketAddr;

use rhumb_wire::rib::RibResponseBody;
use rhumb_wire::{Certificate, Name};

/// Who a neighbour is to this domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Relation {
    /// It lies in this domain: this one carries for it to and from everywhere.
    Customer,
    /// Each carries for itself and its customers.
    Peer,
    /// This domain lies in it.
    Provider,
}

/// Which domains a neighbour is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tell {
    /// None, this one included.
    Nothing,
    /// This one.
    Own,
    /// This one, and those that are reached by customers.
    Customers,
    /// All.
    All,
}

/// A domain beside this one, and what is to be done with what it offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbour {
    /// Its name.
    pub domain: Name,
    /// Who it is to this domain.
    pub relation: Relation,
    /// Of several ways to a domain those by the neighbour of the highest preference go first.
    pub preference: u16,
    /// What a way by it costs besides what it asks for itself. Of ways that are liked alike the
    /// cheapest goes first; who is told of it is told the sum.
    pub cost: u32,
    /// What it is told.
    pub tell: Tell,
    /// Of which domains it is told nothing, whatever it is told otherwise.
    pub withhold: Vec<Name>,
    /// Which domains are not taken from it.
    pub refuse: Vec<Name>,
    /// Its RIBs, which are asked what it offers, and may ask; none where it is told otherwise.
    pub ribs: Vec<(Name, SocketAddr)>,
    /// This domain's word that it may carry for it.
    pub carriage: Option<Certificate>,
}

impl Relation {
    /// What it is called in settings and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Customer => "customer",
            Self::Peer => "peer",
            Self::Provider => "provider",
        }
    }

    /// Who pays is liked best, who is to be paid is liked least (Gao and Rexford, 2001).
    pub fn preference(self) -> u16 {
        match self {
            Self::Customer => 300,
            Self::Peer => 200,
            Self::Provider => 100,
        }
    }

    /// Customers are told of everybody; others of who pays this domain.
    pub fn tell(self) -> Tell {
        match self {
            Self::Customer => Tell::All,
            Self::Peer | Self::Provider => Tell::Customers,
        }
    }
}

impl Tell {
    /// Whether a domain is told that is reached by such a neighbour.
    pub(crate) fn includes(self, by: Relation) -> bool {
        match self {
            Self::Nothing | Self::Own => false,
            Self::Customers => by == Relation::Customer,
            Self::All => true,
        }
    }

    /// What it is called in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Own => "own",
            Self::Customers => "customers",
            Self::All => "all",
        }
    }
}

impl Neighbour {
    /// A neighbour with the rules that go with its relation.
    pub fn new(domain: Name, relation: Relation) -> Self {
        Self {
            domain,
            relation,
            preference: relation.preference(),
            cost: DEFAULT_COST,
            tell: relation.tell(),
            withhold: Vec::new(),
            refuse: Vec::new(),
            ribs: Vec::new(),
            carriage: None,
        }
    }
}

/// The bytes that offers take in an answer, beside what it holds otherwise.
pub(crate) fn answer_len(offers: &[rhumb_wire::offer::Offered]) -> usize {
    let body = RibResponseBody::Domains { revision: 0, is_end: false, offered: offers.to_vec() };
    let mut out = Vec::new();
    rhumb_wire::rib::RibResponse { id: rhumb_wire::rib::RequestId(0), body }.emit(&mut out);
    out.len()
}

/// So that of ways that are liked alike the one by fewer domains goes first.
pub const DEFAULT_COST: u32 = 10;
