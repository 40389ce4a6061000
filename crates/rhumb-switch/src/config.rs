//! What a switch is told at its start. Every bound and time has a named default with its reason.

use std::net::SocketAddr;

use rhumb_directory::Remote;
use rhumb_trust::Access;

use crate::{Domain, Network};

/// What a switch is told at its start.
#[derive(Debug, Clone)]
pub struct Config {
    /// The RIBs, nearest first.
    pub ribs: Vec<Remote>,
    /// The routers through which this one is reached, if it is not reached directly; the preferred
    /// one first. One is in use, and the next one takes its place when it is lost.
    pub upstreams: Vec<Remote>,
    /// The address at which others reach this router, published in the RIB.
    pub locator: Option<SocketAddr>,
    /// Seconds for which this router's own statements hold; renewed at half-life.
    pub lease_s: u64,
    /// Most flows in the table.
    pub max_flows: usize,
    /// Most names whose traffic is let in, most acceptances by next
    /// hops, and most names whose metadata are kept.
    pub max_grants: usize,
    /// Most routes cached, and most names attached; absences
    /// have a table of the same size of their own.
    pub max_routes: usize,
    /// Most names whose statements are kept until all RIBs have
    /// them; who brings one more is told to come back.
    pub max_publications: usize,
    /// One in so many answers of RIBs is put to another RIB as well, and RIBs are held to what they
    /// said; 0: neither.
    pub check_rib_answers: u32,
    /// What routes may lead to though it is no public address, besides
    /// addresses of the kind that this router's own is of.
    pub locators: Vec<Network>,
    /// Who may join, and with which standing; RIBs and upstream are admitted whatever is said here.
    pub access: Access,
    /// The trust domain that it belongs to, if any.
    pub domain: Option<Domain>,
    /// The secure links below. Other routers are watched whatever is said there.
    pub link: rhumb_link::Config,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            ribs: Vec::new(),
            upstreams: Vec::new(),
            locator: None,
            lease_s: DEFAULT_LEASE_S,
            max_flows: DEFAULT_MAX_FLOWS,
            max_grants: DEFAULT_MAX_GRANTS,
            max_routes: DEFAULT_MAX_ROUTES,
            max_publications: DEFAULT_MAX_PUBLICATIONS,
            check_rib_answers: DEFAULT_CHECK_RIB_ANSWERS,
            locators: Vec::new(),
            access: Access::default(),
            domain: None,
            link: rhumb_link::Config::default(),
        }
    }
}

/// Look-ups cost RIBs 1.6 % more, and one that serves something old is found by the 64th at latest
/// that is looked at, on average.
pub const DEFAULT_CHECK_RIB_ANSWERS: u32 = 64;
/// The paper's ten minutes (section 3.6).
pub const DEFAULT_LEASE_S: u64 = 600;
/// 156 bytes each and up to 49 for the indexes: about 210 MB when full;
/// while lists grow they may hold twice their part.
pub const DEFAULT_MAX_FLOWS: usize = 1 << 20;
/// A grant holds its chain, about 600 bytes: 160 MB when full.
pub const DEFAULT_MAX_GRANTS: usize = 1 << 18;
/// A route holds its chain, as a grant does.
pub const DEFAULT_MAX_ROUTES: usize = 1 << 18;
/// A publication holds a statement, and metadata that others mostly hold, too: 500 bytes, 32 MB
/// when full. It is gone when all RIBs have answered, within milliseconds; so these are the names
/// that can join while a RIB is away.
pub const DEFAULT_MAX_PUBLICATIONS: usize = 1 << 16;
