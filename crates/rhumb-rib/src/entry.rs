//! All that a RIB knows of one name, and which of its holder's statements is in force.
//!
//! An entry has one register per kind of statement: route, locator, export, withdrawal. A register
//! holds the statement of the highest sequence; a withdrawal also covers every other one of its own
//! or a lower sequence. Routes that are each one of several are kept beside each other, one for
//! each that they name, until a later route is to be the only one. So the order in which statements
//! arrive does not matter: whichever way they come, the same ones are in force in the end.
//!
//! INVARIANT: the highest sequence of each register is remembered after its statement has
//! expired, and until every statement with a lower sequence has expired too, so that nothing
//! older can come back. A statement may last [`max_lifetime_s`]; so an older one, whose window
//! began no later, is refused as expired once that time and the allowance for clocks have passed
//! since the newer one was admitted ([`Entry::keep_until_s`]). What the name publishes under its
//! own is kept whole for as long, so that whoever asks learns that it has expired. A holder who
//! dates windows ahead of their sequence gives up this protection for them.

use std::sync::Arc;

use rhumb_trust::{CLOCK_SKEW_S, MAX_NAMES_LIFETIME_S, StatementError, check_window};
use rhumb_wire::certificate::SIGNATURE_LEN;
use rhumb_wire::rib::{MAX_WAYS, Refusal};
use rhumb_wire::{Certificate, Metadata, Name, PublishedNames, Role, Scope, Statement};

use crate::Share;
use crate::limits::Givers;
use crate::stepping::Stepping;

/// All that is known of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub(crate) metadata: Metadata,
    pub(crate) publisher: Name,
    pub(crate) share: Share,
    pub(crate) givers: Givers,
    pub(crate) keep_until_s: u64,
    pub(crate) route: Register,
    /// Routes that are each one of several, by whom they name, later than the one in `route`.
    pub(crate) several: Vec<Certificate>,
    /// The highest sequence among them that there ever was: a route that is to be the only one is
    /// later.
    pub(crate) several_to: Option<u64>,
    pub(crate) locator: Register,
    pub(crate) withdrawal: Register,
    /// By which domain the name is known outside of it.
    pub(crate) export: Register,
    /// What names are called under this one: the newest list, also when it has expired.
    pub(crate) published: Option<Box<PublishedNames>>,
    /// Which newer word for a server the route stands in for, for stores that several servers
    /// write.
    pub(crate) stepping: Stepping,
}

/// The newest statement of one kind by one issuer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Register {
    /// There never was one.
    #[default]
    Empty,
    /// The statement no longer holds; its sequence is remembered.
    Floor(u64),
    /// The statement. An entry is small without it, and copies of an entry share it.
    Holds(Arc<Certificate>),
}

/// What an entry says at one time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Standing {
    routes: Vec<Statement>,
    locator: Option<Statement>,
    export: Option<Statement>,
    withdrawn_to: Option<u64>,
}

/// What admitting a statement did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It is newer and now in its register.
    Stored,
    /// The very same statement was there already.
    Known,
}

impl Entry {
    /// An entry without statements, by `publisher`, which
    /// becomes worth storing with the first admission.
    pub fn new(metadata: Metadata, publisher: Name) -> Self {
        Self {
            metadata,
            publisher,
            share: Share::Admitted,
            givers: Givers::default(),
            keep_until_s: 0,
            route: Register::Empty,
            several: Vec::new(),
            several_to: None,
            locator: Register::Empty,
            withdrawal: Register::Empty,
            export: Register::Empty,
            published: None,
            stepping: Stepping::default(),
        }
    }

    /// Something of what an answer is made of, for who has that come near.
    pub(crate) fn touched(&self) -> u64 {
        let ends = |it: &Certificate| {
            it.sequence ^ u64::from(it.issuer.0[0]) ^ u64::from(it.signature[SIGNATURE_LEN - 1])
        };
        let held = [&self.route, &self.locator].map(|it| it.held().map_or(0, ends));
        held[0] ^ held[1] ^ self.keep_until_s ^ self.metadata.created_s
    }

    /// What the name is the hash of.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Whose session last changed this entry: whose quota it counts against.
    pub fn publisher(&self) -> Name {
        self.publisher
    }

    /// On whose share it counts.
    pub fn share(&self) -> Share {
        self.share
    }

    /// The second after which nothing of this entry need be remembered.
    pub fn keep_until_s(&self) -> u64 {
        self.keep_until_s
    }

    /// The route in force, if any: the first one of several.
    pub fn route(&self, now_s: u64) -> Option<&Certificate> {
        self.routes(now_s).next()
    }

    /// The routes in force: one, or several that stand beside each other.
    pub fn routes(&self, now_s: u64) -> impl Iterator<Item = &Certificate> {
        let holds = move |it: &&Certificate| check_window(it, now_s).is_ok();
        self.held_routes().filter(holds)
    }

    fn held_routes(&self) -> impl Iterator<Item = &Certificate> {
        self.route.held().into_iter().chain(&self.several)
    }

    /// All statements of the holder's that are kept, in an order that is always the same.
    pub(crate) fn statements(&self) -> impl Iterator<Item = &Certificate> {
        let others = [&self.locator, &self.export, &self.withdrawal];
        self.held_routes().chain(others.into_iter().filter_map(Register::held))
    }

    /// The locator in force, if any.
    pub fn locator(&self, now_s: u64) -> Option<&Certificate> {
        self.locator.in_force(now_s)
    }

    /// The export in force, if any.
    pub fn export(&self, now_s: u64) -> Option<&Certificate> {
        self.export.in_force(now_s)
    }

    /// The newest list of what names are called under this one, in force or not.
    pub fn published(&self) -> Option<&PublishedNames> {
        self.published.as_deref()
    }

    /// Whether any of it is of a kind that may be known outside of its domain.
    pub(crate) fn may_show(&self) -> bool {
        let is_service = |held: &Certificate| matches!(held.statement, Statement::Service { .. });
        self.held_routes().any(is_service)
            || matches!(self.export, Register::Holds(_))
            || matches!(self.locator, Register::Holds(_))
    }

    /// Whether nothing of it is a way or a name to anybody: it was withdrawn.
    pub(crate) fn says_nothing(&self) -> bool {
        let Self { route, several, locator, export, .. } = self;
        let said = [route, locator, export];
        let publishes = self.published.as_ref().is_some_and(|it| !it.names.is_empty());
        several.is_empty()
            && !publishes
            && !said.into_iter().any(|register| register.held().is_some())
    }

    /// The routers that the newest routes name.
    pub(crate) fn vias(&self) -> impl Iterator<Item = Name> {
        self.held_routes().filter_map(|held| held.statement.hands_on_to())
    }

    /// What the entry tells whoever asks, but for how long it holds: renewals change nothing of it.
    pub(crate) fn standing(&self, now_s: u64) -> Standing {
        let said = |register: &Register| register.in_force(now_s).map(|held| held.statement);
        Standing {
            routes: self.routes(now_s).map(|held| held.statement).collect(),
            locator: said(&self.locator),
            export: said(&self.export),
            withdrawn_to: self.withdrawal(now_s).map(|withdrawal| withdrawal.sequence),
        }
    }

    /// The withdrawal in force, if any.
    pub fn withdrawal(&self, now_s: u64) -> Option<&Certificate> {
        self.withdrawal.in_force(now_s)
    }

    /// Takes a statement of somebody who was admitted, as [`Entry::admit_for`] does.
    ///
    /// # Errors
    /// As there.
    pub fn admit(
        &mut self,
        certificate: &Certificate,
        publisher: Name,
        now_s: u64,
    ) -> Result<Admission, Refusal> {
        self.admit_for(Share::Admitted, certificate, publisher, now_s)
    }

    /// Takes a statement into its register. The caller has verified it, or does so before storing
    /// the entry. How long its sequence is remembered depends on who brings it; on whose share the
    /// entry counts is for the caller to say.
    ///
    /// # Errors
    /// [`Refusal::Superseded`] when a statement as new or newer is
    /// there; [`Refusal::NotPublishable`] when this kind of statement
    /// has no register. The entry is then as before.
    pub fn admit_for(
        &mut self,
        share: Share,
        certificate: &Certificate,
        publisher: Name,
        now_s: u64,
    ) -> Result<Admission, Refusal> {
        let covered_to = self.withdrawal.sequence();
        if certificate.statement.is_one_of_several() {
            let admission = self.admit_one_of_several(certificate, now_s)?;
            if admission == Admission::Stored {
                self.remember(share, certificate, publisher, now_s);
            }
            return Ok(admission);
        }
        let is_way = certificate.statement.is_way();
        let register = match certificate.statement {
            Statement::Route { scope: Scope::ByDomain { .. }, .. } => &mut self.export,
            // A name is found through one of them at a time: the newer one.
            Statement::Route { .. } | Statement::Service { .. } => &mut self.route,
            Statement::Locator(_) => &mut self.locator,
            Statement::Withdrawal => &mut self.withdrawal,
            Statement::Absence { .. } | Statement::Member { .. } | Statement::Removal { .. } => {
                return Err(Refusal::NotPublishable);
            }
        };
        if register.held() == Some(certificate) {
            return Ok(Admission::Known);
        }
        // Of a withdrawal, this compares with itself.
        let newest = register.sequence().max(covered_to);
        if newest.is_some_and(|newest| newest >= certificate.sequence) {
            return Err(Refusal::Superseded);
        }
        *register = Register::from(certificate.clone());
        if is_way {
            self.stepping.follow(certificate);
            // What is one of several and came later stands without it; what came before, no more.
            self.several.retain(|held| held.sequence > certificate.sequence);
            if self.several_to.is_some_and(|to| to > certificate.sequence) {
                self.route.forget();
            }
        }
        if certificate.statement == Statement::Withdrawal {
            self.route.withdraw(certificate.sequence);
            self.several.retain(|held| held.sequence > certificate.sequence);
            self.locator.withdraw(certificate.sequence);
            self.export.withdraw(certificate.sequence);
        }
        self.remember(share, certificate, publisher, now_s);
        Ok(Admission::Stored)
    }

    /// Takes a route that is one of several: in place of an earlier one to the same name, and of
    /// one that was to be the only one.
    fn admit_one_of_several(
        &mut self,
        certificate: &Certificate,
        now_s: u64,
    ) -> Result<Admission, Refusal> {
        if self.several.contains(certificate) {
            return Ok(Admission::Known);
        }
        let via = |it: &Certificate| it.statement.hands_on_to();
        let before = self.several.iter().position(|held| via(held) == via(certificate));
        let newest = before.map(|at| self.several[at].sequence);
        let newest = newest.max(self.route.sequence()).max(self.withdrawal.sequence());
        if newest.is_some_and(|newest| newest >= certificate.sequence) {
            return Err(Refusal::Superseded);
        }
        if before.is_none() {
            self.several.retain(|held| !has_expired(held, now_s));
            if self.several.len() >= usize::from(MAX_WAYS) {
                return Err(Refusal::QuotaExceeded);
            }
        }
        self.several.retain(|held| via(held) != via(certificate));
        let at = self.several.partition_point(|held| via(held) < via(certificate));
        self.several.insert(at, certificate.clone());
        self.several_to = self.several_to.max(Some(certificate.sequence));
        self.route.forget();
        Ok(Admission::Stored)
    }

    /// Takes a list of what names are called under this one, in place of an older one. As of other
    /// statements, the caller verifies it.
    ///
    /// # Errors
    /// [`Refusal::Superseded`] when one as new or newer is there. The entry is then as before.
    pub fn admit_names(
        &mut self,
        published: &PublishedNames,
        publisher: Name,
        now_s: u64,
    ) -> Result<Admission, Refusal> {
        match self.published.as_deref() {
            Some(held) if held == published => return Ok(Admission::Known),
            Some(held) if held.sequence >= published.sequence => return Err(Refusal::Superseded),
            _ => {}
        }
        self.publisher = publisher;
        let began_s = published.not_before_s.max(now_s);
        let until_s = began_s.saturating_add(MAX_NAMES_LIFETIME_S + CLOCK_SKEW_S);
        self.keep_until_s = self.keep_until_s.max(until_s);
        self.published = Some(Box::new(published.clone()));
        Ok(Admission::Stored)
    }

    /// Notes who brought a statement, and for how long it is remembered.
    fn remember(&mut self, share: Share, certificate: &Certificate, publisher: Name, now_s: u64) {
        self.publisher = publisher;
        let began_s = certificate.not_before_s.max(now_s);
        let longest_s = match (self.metadata.role, share) {
            (Role::Capsule, _) => MAX_SERVICE_LIFETIME_S,
            (Role::Domain, Share::Admitted) => MAX_DELEGATION_LIFETIME_S,
            (_, Share::Admitted) => MAX_LIFETIME_S,
            (_, Share::Stranger(_)) => MAX_STRANGERS_LIFETIME_S,
        };
        let keep_until_s = began_s.saturating_add(longest_s + CLOCK_SKEW_S);
        self.keep_until_s = self.keep_until_s.max(keep_until_s);
    }

    /// The other server that a newer word of the holder names than this one
    /// for a server, which has not been withdrawn.
    pub(crate) fn newer_server(&self, older: &Certificate) -> Option<Name> {
        let Register::Holds(held) = &self.route else { return None };
        let is_withdrawn = self.withdrawal.sequence().is_some_and(|to| to >= older.sequence);
        match (held.statement, older.statement) {
            (Statement::Service { server, .. }, Statement::Service { server: other, .. }) => {
                let is_newer = held.sequence > older.sequence && server != other;
                (is_newer && !is_withdrawn).then_some(server)
            }
            _ => None,
        }
    }

    /// An older word for a server takes the place of a newer one, whose server is not there.
    pub(crate) fn step_in(&mut self, older: &Certificate, publisher: Name) -> Admission {
        self.stepping.step_in(self.route.sequence(), older);
        self.route = Register::from(older.clone());
        self.publisher = publisher;
        Admission::Stored
    }

    /// The statement by which another one is superseded,
    /// unless all that is left of it is its sequence.
    pub(crate) fn newer_than(&self, certificate: &Certificate) -> Option<&Certificate> {
        let statement = certificate.statement;
        let register = match statement {
            Statement::Route { scope: Scope::ByDomain { .. }, .. } => &self.export,
            Statement::Route { .. } | Statement::Service { .. } => &self.route,
            Statement::Locator(_) => &self.locator,
            _ => &self.withdrawal,
        };
        let is_way = statement.is_way();
        let is_beside = |held: &&Certificate| {
            let differs = held.statement.hands_on_to() != statement.hands_on_to();
            !is_way || statement.is_one_of_several() && differs
        };
        let several = self.several.iter().filter(|held| !is_beside(held));
        let held = [register, &self.withdrawal].into_iter().filter_map(Register::held);
        held.chain(several)
            .filter(|held| held.sequence >= certificate.sequence && *held != certificate)
            .max_by_key(|held| held.sequence)
    }

    /// Whether nothing of this entry need be remembered any more.
    pub(crate) fn is_past(&self, now_s: u64) -> bool {
        now_s > self.keep_until_s
    }

    /// Takes out the statements that have expired, and remembers
    /// their sequences; `false` when there are none.
    pub(crate) fn trim(&mut self, now_s: u64) -> bool {
        let before = self.several.len();
        self.several.retain(|held| !has_expired(held, now_s));
        let mut trimmed = self.several.len() < before;
        let Self { route, locator, withdrawal, export, .. } = self;
        for register in [route, locator, withdrawal, export] {
            if register.has_expired(now_s) {
                register.forget();
                trimmed = true;
            }
        }
        trimmed
    }
}

impl From<Certificate> for Register {
    fn from(certificate: Certificate) -> Self {
        Self::Holds(Arc::new(certificate))
    }
}

impl Register {
    pub(crate) fn sequence(&self) -> Option<u64> {
        match self {
            Self::Empty => None,
            Self::Floor(sequence) => Some(*sequence),
            Self::Holds(certificate) => Some(certificate.sequence),
        }
    }

    pub(crate) fn held(&self) -> Option<&Certificate> {
        match self {
            Self::Holds(certificate) => Some(certificate),
            _ => None,
        }
    }

    fn in_force(&self, now_s: u64) -> Option<&Certificate> {
        self.held().filter(|held| check_window(held, now_s).is_ok())
    }

    fn has_expired(&self, now_s: u64) -> bool {
        self.held().is_some_and(|held| has_expired(held, now_s))
    }

    /// Drops the statement, keeps its sequence.
    pub(crate) fn forget(&mut self) {
        if let Some(sequence) = self.sequence() {
            *self = Self::Floor(sequence);
        }
    }

    pub(crate) fn withdraw(&mut self, up_to: u64) {
        if self.sequence().is_some_and(|sequence| sequence <= up_to) {
            self.forget();
        }
    }
}

pub(crate) fn has_expired(certificate: &Certificate, now_s: u64) -> bool {
    matches!(check_window(certificate, now_s), Err(StatementError::Expired { .. }))
}

pub use rhumb_trust::{MAX_DELEGATION_LIFETIME_S, MAX_LIFETIME_S, MAX_SERVICE_LIFETIME_S};

/// The longest that a stranger's statement may last, one hour, so
/// that what strangers fill is soon free again.
pub const MAX_STRANGERS_LIFETIME_S: u64 = 60 * 60;

/// The longest that a published statement of an issuer of this role may last. Sequences are
/// remembered for as long after their admission: an older statement then fails its window.
pub fn max_lifetime_s(statement: &Statement, issuer: Role, share: Share) -> u64 {
    match (statement, issuer, share) {
        (Statement::Service { .. }, Role::Capsule | Role::Domain, _) => MAX_SERVICE_LIFETIME_S,
        (Statement::Route { .. }, Role::Domain, Share::Admitted) => MAX_DELEGATION_LIFETIME_S,
        (_, _, Share::Admitted) => MAX_LIFETIME_S,
        (_, _, Share::Stranger(_)) => MAX_STRANGERS_LIFETIME_S,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_trust::{Identity, Window};
    use rhumb_wire::certificate::Locator;

    const NOW_S: u64 = 1_000_000;

    struct Holder(Identity);

    impl Holder {
        fn new() -> Self {
            Self::of(Role::Node)
        }

        fn of(role: Role) -> Self {
            Self(Identity::generate(role, 0).unwrap())
        }

        fn entry(&self) -> Entry {
            Entry::new((**self.0.metadata()).clone(), Name([9; 32]))
        }

        fn say(&self, statement: Statement, sequence: u64) -> Certificate {
            self.0.certify(statement, sequence, Window::starting(NOW_S, 600)).unwrap()
        }

        fn route(&self, sequence: u64) -> Certificate {
            self.say(Statement::Route { via: Name([1; 32]), scope: Scope::Any }, sequence)
        }

        fn locator(&self, sequence: u64) -> Certificate {
            let locator = Locator::new("192.0.2.1:4000".parse().unwrap()).unwrap();
            self.say(Statement::Locator(locator), sequence)
        }

        fn withdrawal(&self, sequence: u64) -> Certificate {
            self.say(Statement::Withdrawal, sequence)
        }
    }

    fn admit(entry: &mut Entry, certificate: &Certificate) -> Result<Admission, Refusal> {
        entry.admit(certificate, Name([9; 32]), NOW_S)
    }

    #[test]
    fn the_order_of_arrival_does_not_matter() {
        let holder = Holder::new();
        let said = [holder.route(1), holder.locator(2), holder.withdrawal(2), holder.route(3)];
        let mut ends = Vec::new();
        for a in 0..4 {
            for b in (0..4).filter(|b| *b != a) {
                for c in (0..4).filter(|c| ![a, b].contains(c)) {
                    let d = 6 - a - b - c;
                    let mut entry = holder.entry();
                    for index in [a, b, c, d] {
                        let _ = admit(&mut entry, &said[index]);
                    }
                    ends.push((entry.route(NOW_S).cloned(), entry.locator(NOW_S).cloned()));
                }
            }
        }
        assert_eq!(ends.len(), 24);
        assert!(ends.iter().all(|end| *end == (Some(said[3].clone()), None)), "{ends:?}");
    }

    #[test]
    fn the_same_again_is_known_and_another_of_its_sequence_is_refused() {
        let holder = Holder::new();
        let mut entry = holder.entry();
        let route = holder.route(5);
        assert_eq!(admit(&mut entry, &route), Ok(Admission::Stored));
        assert_eq!(admit(&mut entry, &route), Ok(Admission::Known));
        // Signed again, so not the same bytes.
        assert_eq!(admit(&mut entry, &holder.route(5)), Err(Refusal::Superseded));
        assert_eq!(admit(&mut entry, &holder.route(4)), Err(Refusal::Superseded));
        assert_eq!(admit(&mut entry, &holder.route(6)), Ok(Admission::Stored));
    }

    #[test]
    fn a_withdrawal_covers_its_own_sequence_and_below() {
        let holder = Holder::new();
        let mut entry = holder.entry();
        let (route, locator) = (holder.route(5), holder.locator(6));
        for certificate in [&route, &locator, &holder.withdrawal(5)] {
            assert_eq!(admit(&mut entry, certificate), Ok(Admission::Stored));
        }
        assert_eq!((entry.route(NOW_S), entry.locator(NOW_S)), (None, Some(&locator)));
        assert_eq!(admit(&mut entry, &route), Err(Refusal::Superseded));
        assert_eq!(admit(&mut entry, &holder.withdrawal(4)), Err(Refusal::Superseded));
        assert_eq!(admit(&mut entry, &holder.route(6)), Ok(Admission::Stored));
    }

    #[test]
    fn an_export_stands_beside_a_route_and_a_withdrawal_covers_both() {
        let holder = Holder::new();
        let mut entry = holder.entry();
        let export = |via, sequence| {
            let scope = Scope::ByDomain { up_to: None };
            holder.say(Statement::Route { via: Name([via; 32]), scope }, sequence)
        };
        let (route, first, second) = (holder.route(5), export(7, 3), export(8, 4));
        for certificate in [&route, &first, &second] {
            assert_eq!(admit(&mut entry, certificate), Ok(Admission::Stored));
        }
        assert_eq!((entry.route(NOW_S), entry.export(NOW_S)), (Some(&route), Some(&second)));
        assert_eq!(admit(&mut entry, &first), Err(Refusal::Superseded));
        assert_eq!(entry.newer_than(&first), Some(&second));
        assert_eq!(admit(&mut entry, &holder.withdrawal(5)), Ok(Admission::Stored));
        assert_eq!((entry.route(NOW_S), entry.export(NOW_S)), (None, None));
        assert_eq!(admit(&mut entry, &export(8, 5)), Err(Refusal::Superseded));
        assert_eq!(admit(&mut entry, &export(8, 6)), Ok(Admission::Stored));
        assert!(entry.trim(NOW_S + 600 + CLOCK_SKEW_S + 1));
        assert_eq!(entry.export, Register::Floor(6));
    }

    #[test]
    fn what_is_superseded_is_shown_by_what() {
        let holder = Holder::new();
        let mut entry = holder.entry();
        let (route, withdrawal) = (holder.route(5), holder.withdrawal(7));
        admit(&mut entry, &route).unwrap();
        assert_eq!(entry.newer_than(&holder.route(5)), Some(&route));
        assert_eq!(entry.newer_than(&holder.route(6)), None);
        assert_eq!(entry.newer_than(&route), None, "the very same is known");
        assert_eq!(entry.newer_than(&holder.locator(1)), None);
        admit(&mut entry, &withdrawal).unwrap();
        assert_eq!(entry.newer_than(&holder.route(6)), Some(&withdrawal));
        assert_eq!(entry.newer_than(&holder.locator(1)), Some(&withdrawal));
        // When it has expired only its sequence is left.
        assert!(entry.trim(NOW_S + 600 + CLOCK_SKEW_S + 1));
        assert_eq!(entry.newer_than(&holder.route(6)), None);
    }

    #[test]
    fn an_absence_has_no_register() {
        let holder = Holder::new();
        let absence = holder.say(Statement::Absence { subject: Name([2; 32]) }, 1);
        assert_eq!(admit(&mut holder.entry(), &absence), Err(Refusal::NotPublishable));
    }

    #[test]
    fn what_has_expired_is_trimmed_and_its_sequence_remembered() {
        let holder = Holder::new();
        let mut entry = holder.entry();
        admit(&mut entry, &holder.route(5)).unwrap();
        let last_s = NOW_S + 600 + CLOCK_SKEW_S;
        assert!(entry.route(last_s).is_some());
        assert!(!entry.trim(last_s));
        assert!(entry.route(last_s + 1).is_none());
        assert!(entry.trim(last_s + 1));
        assert!(!entry.trim(last_s + 1));
        assert_eq!(entry.route, Register::Floor(5));
        assert_eq!(admit(&mut entry, &holder.route(5)), Err(Refusal::Superseded));
        let remembered_s = MAX_LIFETIME_S + CLOCK_SKEW_S;
        assert!(!entry.is_past(NOW_S + remembered_s));
        assert!(entry.is_past(NOW_S + remembered_s + 1));
    }

    #[test]
    fn whatever_is_older_has_expired_when_its_floor_is_forgotten() {
        let holder = Holder::new();
        let mut entry = holder.entry();
        admit(&mut entry, &holder.withdrawal(2)).unwrap();
        // The longest statement that began no later than the withdrawal was admitted.
        let window = Window::starting(NOW_S, MAX_LIFETIME_S);
        let old = holder.0.certify(Statement::Withdrawal, 1, window).unwrap();
        let forgotten_s = entry.keep_until_s() + 1;
        assert!(check_window(&old, forgotten_s - 1).is_ok());
        assert!(check_window(&old, forgotten_s).is_err());
    }

    #[test]
    fn a_capsules_older_word_for_a_server_never_comes_back() {
        let owner = Holder::of(Role::Capsule);
        let mut entry = owner.entry();
        let service = |server| Statement::Service { server: Name([server; 32]), several: false };
        let long = max_lifetime_s(&service(1), Role::Capsule, Share::Admitted);
        let old = owner.0.certify(service(1), 1, Window::starting(NOW_S, long)).unwrap();
        // The newer one is over long before the older one.
        admit(&mut entry, &owner.say(service(2), 2)).unwrap();
        let forgotten_s = entry.keep_until_s() + 1;
        assert!(check_window(&old, forgotten_s - 1).is_ok());
        assert!(check_window(&old, forgotten_s).is_err());
        let admitted = Share::Admitted;
        assert_eq!(max_lifetime_s(&service(1), Role::Node, admitted), MAX_LIFETIME_S);
        assert_eq!(max_lifetime_s(&Statement::Withdrawal, Role::Capsule, admitted), MAX_LIFETIME_S);
    }

    #[test]
    fn a_domains_older_word_for_its_border_never_comes_back() {
        let domain = Holder::of(Role::Domain);
        let mut entry = domain.entry();
        let route = Statement::Route { via: Name([1; 32]), scope: Scope::Any };
        let long = max_lifetime_s(&route, Role::Domain, Share::Admitted);
        assert_eq!(long, MAX_DELEGATION_LIFETIME_S);
        let old = domain.0.certify(route, 1, Window::starting(NOW_S, long)).unwrap();
        admit(&mut entry, &domain.route(2)).unwrap();
        let forgotten_s = entry.keep_until_s() + 1;
        assert!(check_window(&old, forgotten_s - 1).is_ok());
        assert!(check_window(&old, forgotten_s).is_err());
        let share = Share::Stranger(rhumb_link::Source::V4([192, 0, 2, 1]));
        assert_eq!(max_lifetime_s(&route, Role::Domain, share), MAX_STRANGERS_LIFETIME_S);
    }

    #[test]
    fn a_strangers_sequence_is_remembered_while_an_older_one_of_a_stranger_could_come_back() {
        let holder = Holder::new();
        let share = Share::Stranger(rhumb_link::Source::V4([192, 0, 2, 1]));
        let longest_s = max_lifetime_s(&Statement::Withdrawal, Role::Node, share);
        let mut entry = holder.entry();
        entry.admit_for(share, &holder.route(2), Name([9; 32]), NOW_S).unwrap();
        let old = Window::starting(NOW_S, longest_s);
        let old = holder.0.certify(Statement::Withdrawal, 1, old).unwrap();
        let forgotten_s = entry.keep_until_s() + 1;
        assert_eq!(forgotten_s, NOW_S + MAX_STRANGERS_LIFETIME_S + CLOCK_SKEW_S + 1);
        assert!(check_window(&old, forgotten_s - 1).is_ok());
        assert!(check_window(&old, forgotten_s).is_err());
        // What an admitted one brought before is remembered for as long as it was to be.
        let mut entry = holder.entry();
        admit(&mut entry, &holder.route(1)).unwrap();
        let until_s = entry.keep_until_s();
        entry.admit_for(share, &holder.route(2), Name([9; 32]), NOW_S + 1).unwrap();
        assert_eq!(entry.keep_until_s(), until_s);
    }
}
