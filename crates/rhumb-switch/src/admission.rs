//! Who may carry for whom, who is at the other end of each session, and what that may cost us.
//!
//! Configured RIBs and upstreams are admitted, and whom the rules of access admit; the rest are
//! strangers, and pay from budgets by where they come from: see `joining` and `budgets`.

use std::time::{Duration, Instant};

use rhumb_directory::{Chance, Fill, Swept, Table};
use rhumb_link::{SessionId, SessionMap};
use rhumb_trust::{Access, Missing, Now, Standing, Treatment, Who};
use rhumb_wire::{Metadata, Name};

use crate::Switch;
use crate::budgets::{Budgets, Cost};
use crate::config::Config;
use crate::event::Event;
use crate::grants::{Acceptance, Grant};
use crate::group_removals::Charged;
use crate::joining::Joining;
use crate::limits::{Accounts, Bounds, Exhausted};
use crate::neighbour::Neighbour;
use crate::status::{RefusedStatus, Wanted};
use crate::tables::sweep_after;

/// What peers have proven to us and we to them, and how they are treated.
pub(crate) struct Admission {
    /// Who may carry for whom, by source and the session it comes in on.
    grants: Table<(Name, SessionId), Grant>,
    /// What next hops take without certificates, by source and the session it goes out on.
    acceptances: Table<(Name, SessionId), Acceptance>,
    neighbours: SessionMap<Neighbour>,
    /// Whoever is at the other end of a session that has ended.
    nobody: Neighbour,
    /// Who may join, and who was refused.
    joining: Joining,
    /// What members of trust domains have of what these leave them.
    accounts: Accounts,
    budgets: Budgets,
    /// Which entries the sweeps look at.
    chance: Chance,
    sweep_due: Instant,
    /// When to look next for memberships that have ended.
    memberships_due: Instant,
}

impl Admission {
    pub(crate) fn new(config: Config, secret: &[u8; 32], now: Instant) -> Self {
        Self {
            grants: Table::new(config.max_grants),
            acceptances: Table::new(config.max_grants),
            neighbours: SessionMap::default(),
            nobody: Neighbour::new(None, Standing::Stranger, now),
            joining: Joining::new(config),
            accounts: Accounts::default(),
            budgets: Budgets::new(now),
            chance: Chance::new(secret, OWN_TABLES),
            sweep_due: now + sweep_after(false),
            memberships_due: now,
        }
    }

    /// The proof in force that a session's peer may carry for a source.
    pub(crate) fn grant(
        &mut self,
        source: Name,
        from: SessionId,
        now: Instant,
    ) -> Option<&mut Grant> {
        self.grants.current(&(source, from), now)
    }

    /// The same, whether it is over or not.
    pub(crate) fn last_grant(&mut self, source: Name, from: SessionId) -> Option<&mut Grant> {
        self.grants.get(&(source, from))
    }

    pub(crate) fn enter_grant(&mut self, source: Name, from: SessionId, grant: Grant) {
        self.grants.insert((source, from), grant);
    }

    pub(crate) fn end_grant(&mut self, source: Name, from: SessionId) {
        self.grants.remove(&(source, from));
    }

    /// Each source, the session that carries for it, and the proof.
    pub(crate) fn grants(&self) -> impl Iterator<Item = (&(Name, SessionId), &Grant)> {
        self.grants.iter()
    }

    /// What a next hop was shown of a source, and what it said.
    pub(crate) fn acceptance(
        &mut self,
        source: Name,
        next: SessionId,
        now: Instant,
    ) -> Option<&mut Acceptance> {
        self.acceptances.current(&(source, next), now)
    }

    /// A next hop is shown the chain of a source.
    pub(crate) fn note_presented(&mut self, source: Name, next: SessionId, shown: Acceptance) {
        self.acceptances.insert((source, next), shown);
    }

    /// A next hop wants to be shown the chain of a source again.
    pub(crate) fn end_acceptance(&mut self, source: Name, next: SessionId) {
        self.acceptances.remove(&(source, next));
    }

    /// A flow of a source is in use: its proof, which is returned, and what its next hop said must
    /// not be pushed out by a flood.
    pub(crate) fn keep(
        &mut self,
        source: Name,
        from: SessionId,
        next: SessionId,
    ) -> Option<&mut Grant> {
        self.acceptances.get(&(source, next));
        self.grants.get(&(source, from))
    }

    /// How full the tables of grants and of acceptances are.
    pub(crate) fn fills(&self) -> (Fill, Fill) {
        (self.grants.fill(), self.acceptances.fill())
    }

    /// When to sweep again.
    pub(crate) fn sweep_due(&self) -> Instant {
        self.sweep_due
    }

    pub(crate) fn sweep_again_at(&mut self, due: Instant) {
        self.sweep_due = due;
    }

    /// Removes some of what has expired here and, by `others`, elsewhere.
    pub(crate) fn sweep(
        &mut self,
        now: Instant,
        others: impl FnOnce(&mut Chance) -> Swept,
    ) -> Swept {
        let mut swept = self.grants.sweep(&mut self.chance, now);
        swept += self.acceptances.sweep(&mut self.chance, now);
        swept += others(&mut self.chance);
        swept
    }

    /// Who is at the other end of a session, if it has done anything yet.
    pub(crate) fn known_neighbour(&self, session: SessionId) -> Option<&Neighbour> {
        self.neighbours.get(session)
    }

    /// A session has ended. Who was there; grants and acceptances of the session need no clearing,
    /// since a session id is never used again.
    pub(crate) fn leave(&mut self, session: SessionId, now: Instant) -> Option<Neighbour> {
        let neighbour = self.neighbours.remove(session)?;
        self.joining.discharge(&neighbour);
        let (bounds, names) = (neighbour.bounds.as_deref(), neighbour.attached.len());
        self.accounts.replace(bounds, None, names, now);
        Some(neighbour)
    }

    /// The trust domain of a session's peer leaves it so much from now on. Whether it was otherwise
    /// before.
    pub(crate) fn bind(
        &mut self,
        session: SessionId,
        bounds: Option<Box<Bounds>>,
        now: Instant,
    ) -> bool {
        let Some(neighbour) = self.neighbours.get_mut(session) else { return false };
        if neighbour.bounds == bounds {
            return false;
        }
        let names = neighbour.attached.len();
        self.accounts.replace(neighbour.bounds.as_deref(), bounds.as_deref(), names, now);
        neighbour.bounds = bounds;
        true
    }

    /// The account of a session on which there is no room for so many names more, but for those
    /// that count on it already because `elsewhere` has attached them.
    pub(crate) fn without_room(
        &self,
        session: SessionId,
        elsewhere: Option<SessionId>,
        more: usize,
    ) -> Option<Exhausted> {
        let bounds = |session| self.neighbours.get(session)?.bounds.as_deref();
        self.accounts.without_room(bounds(session)?, elsewhere.and_then(bounds), more)
    }

    /// As [`Accounts::may_look`].
    pub(crate) fn may_look(&mut self, account: &Name, now: Instant) -> bool {
        self.accounts.may_look(account, now)
    }

    /// Sessions whose names count on an account.
    pub(crate) fn sessions_on(&self, account: &Name) -> Vec<SessionId> {
        let counts = |neighbour: &Neighbour| {
            neighbour.bounds.as_ref().is_some_and(|bounds| bounds.count_on(account))
        };
        let sessions = self.neighbours.iter().filter(|(_, neighbour)| counts(neighbour));
        sessions.map(|(session, _)| session).collect()
    }

    /// Whether so many bytes of a session are within what its domain lets be carried.
    pub(crate) fn carry(
        &mut self,
        session: SessionId,
        len: usize,
        now: Instant,
    ) -> Result<(), Exhausted> {
        let neighbour = self.neighbours.get(session);
        match neighbour.and_then(|neighbour| neighbour.bounds.as_deref()) {
            Some(bounds) => self.accounts.carry(bounds, len, now),
            None => Ok(()),
        }
    }

    /// As [`Joining::note_limited`].
    pub(crate) fn note_limited(&mut self, name: &Name, wanted: Wanted, missing: Missing, now: Now) {
        self.joining.note_limited(name, wanted, missing, now);
    }

    /// The rules, and who was removed from which domain.
    pub(crate) fn access(&self) -> &Access {
        self.joining.access()
    }

    /// Whether somebody belongs to a domain.
    pub(crate) fn is_member(&self, who: &Who<'_>, domain: &Name) -> bool {
        self.joining.access().is_member(who, domain)
    }

    /// Who was refused by the rules lately, the last one first.
    pub(crate) fn refused(&self, now: Now) -> Vec<RefusedStatus> {
        self.joining.refused(now)
    }
}

// How peers are treated.
impl Switch {
    /// Changes who may join and with which standing. Sessions of those who are refused from now on
    /// end, and names that are refused from now on are attached no longer.
    pub fn set_access(&mut self, access: Access, now: Now) {
        let before: Vec<Name> = self.admission.access().domains().collect();
        self.admission.joining.set_access(access);
        let access = self.admission.access().clone();
        self.plane.link_mut().set_access(access, now);
        if self.admission.access().domains().any(|domain| !before.contains(&domain)) {
            self.directory.want_removals_anew(now.instant);
        }
        let sessions: Vec<SessionId> =
            self.plane.link().sessions().map(|(session, _)| session).collect();
        for session in sessions {
            self.treat_by_rules(session, now);
        }
        self.after_control(now);
    }

    /// Treats as strangers, or sends away, whose memberships have ended. Once a second, since it
    /// looks at all sessions.
    pub(crate) fn end_memberships(&mut self, now: Now) {
        if now.instant < self.admission.memberships_due {
            return;
        }
        self.admission.memberships_due = now.instant + Duration::from_secs(1);
        self.admission.accounts.sweep(now.instant);
        self.sweep_removals(now);
        let sessions = self.plane.link().sessions();
        let ended = sessions.filter(|(_, peer)| {
            peer.membership.as_ref().is_some_and(|it| it.has_ended(now.unix_s()))
        });
        let ended: Vec<SessionId> = ended.map(|(session, _)| session).collect();
        for session in ended {
            self.treat_by_rules(session, now);
        }
    }

    /// Treats the peer of a session as the rules have it now; one that they refuse is sent away.
    pub(crate) fn treat_by_rules(&mut self, session: SessionId, now: Now) {
        if self.standing_of(session, now) == Standing::Refused {
            self.note_refused(session, Wanted::Join, now);
            self.plane.link_mut().close(session, now.instant);
        }
        self.plane.link_mut().count_anew(session, now.instant);
        self.treat_anew(session, now);
        self.bound_anew(session, now);
        self.end_refused_names(session, now);
        self.demand_anew(session);
    }

    /// Who is at the other end of a session.
    #[inline]
    pub(crate) fn neighbour(&mut self, session: SessionId, now: Now) -> &mut Neighbour {
        if self.admission.neighbours.get(session).is_none() {
            self.meet(session, now);
        }
        let Admission { neighbours, nobody, .. } = &mut self.admission;
        neighbours.get_mut(session).unwrap_or(nobody)
    }

    #[cold]
    fn meet(&mut self, session: SessionId, now: Now) {
        let Some(peer) = self.plane.peer(session) else {
            self.admission.nobody = Neighbour::new(None, Standing::Stranger, now.instant);
            return;
        };
        let role = Some(peer.metadata.role);
        let neighbour = Neighbour::new(role, self.standing_of(session, now), now.instant);
        self.admission.neighbours.insert(session, neighbour);
        let bounds = self.bounds_of(session, now);
        self.admission.bind(session, bounds, now.instant);
    }

    /// How the peer of a session is treated.
    fn standing_of(&self, session: SessionId, now: Now) -> Standing {
        if self.peering.is_upstream(session) || self.directory.is_rib(session) {
            return Standing::Admitted;
        }
        let peer = self.plane.peer(session);
        peer.map_or(Standing::Stranger, |peer| {
            self.admission.joining.standing(&peer.who(now.unix_s()))
        })
    }

    /// How the peer of a session is treated, and why.
    pub(crate) fn treatment(&self, session: SessionId, now: Now) -> Treatment {
        let peer = self.plane.peer(session);
        let by_rules = peer.map(|peer| self.admission.joining.explain(&peer.who(now.unix_s())));
        match (self.standing_of(session, now), by_rules) {
            (standing, Some(by_rules)) if by_rules.standing == standing => by_rules,
            // RIBs and upstreams are admitted whatever rules say.
            (standing, _) => Treatment { standing, rule: None, missing: None },
        }
    }

    /// Looks again at how the peer of a session is treated: it has become a
    /// RIB or an upstream, rules have changed, or it shows another membership.
    pub(crate) fn treat_anew(&mut self, session: SessionId, now: Now) {
        let standing = self.standing_of(session, now);
        let role = self.plane.peer(session).map(|peer| peer.metadata.role);
        if let Some(neighbour) = self.admission.neighbours.get_mut(session) {
            neighbour.treat_as(role, standing);
        }
    }

    /// Whether there is room for one more name of a session among those of whoever it is.
    pub(crate) fn has_room_for_name(&mut self, session: SessionId, now: Now) -> bool {
        if self.neighbour(session, now).standing == Standing::Admitted {
            return true;
        }
        let source = self.source_of(session);
        let publications = self.directory.publications();
        source.is_some_and(|source| self.admission.joining.has_room(source, publications))
    }

    /// A session has attached so many names before, and other ones now.
    pub(crate) fn count_attached(&mut self, session: SessionId, before: usize, now: Now) {
        let source = self.source_of(session);
        let neighbour = self.neighbour(session, now);
        let is_stranger = neighbour.standing != Standing::Admitted;
        if before == 0 && neighbour.joined == 0 {
            neighbour.charged = source.filter(|_| is_stranger);
        }
        let (after, charged) = (neighbour.attached.len(), neighbour.charged);
        let Admission { neighbours, joining, accounts, .. } = &mut self.admission;
        if let Some(source) = charged {
            joining.count(source, before, after);
        }
        if let Some(bounds) = neighbours.get(session).and_then(|it| it.bounds.as_deref()) {
            accounts.count(bounds, before, after);
        }
    }

    /// A session has brought so many members of groups, which strangers have among their names.
    pub(crate) fn count_joined(&mut self, session: SessionId, joined: usize, now: Now) {
        if self.plane.peer(session).is_none() {
            return;
        }
        let source = self.source_of(session);
        let neighbour = self.neighbour(session, now);
        let before = std::mem::replace(&mut neighbour.joined, joined);
        let is_stranger = neighbour.standing != Standing::Admitted;
        if before == 0 && neighbour.attached.is_empty() {
            neighbour.charged = source.filter(|_| is_stranger);
        }
        if let Some(source) = neighbour.charged {
            self.admission.joining.count(source, before, joined);
        }
    }

    /// Among whose names a removal counts that a session brings.
    pub(crate) fn charged_for(&mut self, session: SessionId, now: Now) -> Charged {
        let source = self.source_of(session);
        source.filter(|_| self.neighbour(session, now).standing != Standing::Admitted)
    }

    pub(crate) fn charge_removal(&mut self, charged: Charged) {
        self.groups.removals += 1;
        if let Some(source) = charged {
            self.admission.joining.count(source, 0, 1);
        }
    }

    pub(crate) fn discharge_removals(&mut self, charged: Vec<Charged>) {
        self.groups.removals -= charged.len();
        for source in charged.into_iter().flatten() {
            self.admission.joining.count(source, 1, 0);
        }
    }

    /// Whether the rules of access refuse the peer of a session, which is noted then.
    pub(crate) fn is_refused(&mut self, session: SessionId, wanted: Wanted, now: Now) -> bool {
        let is_refused = self.neighbour(session, now).standing == Standing::Refused;
        if is_refused {
            self.note_refused(session, wanted, now);
        }
        is_refused
    }

    /// Whether the rules of access refuse a name that the peer of a session wants to be attached
    /// as, which is noted then.
    pub(crate) fn is_name_refused(
        &mut self,
        name: &Name,
        metadata: &Metadata,
        session: SessionId,
        now: Now,
    ) -> bool {
        // A name that is here itself has shown what it belongs to; of one that somebody answers for
        // nothing is known.
        let peer = self.plane.session_of(name).and_then(|session| self.plane.peer(session));
        let membership = peer.and_then(|peer| peer.membership.as_deref());
        let who = Who { name, metadata, membership, now_s: now.unix_s() };
        let server = self.plane.peer(session).filter(|peer| peer.name != *name);
        let joining = &mut self.admission.joining;
        let Some(server) = server else {
            let is_refused = joining.standing(&who) == Standing::Refused;
            if is_refused {
                joining.note_refused(&who, Wanted::Join, now);
            }
            return is_refused;
        };
        let by = server.who(now.unix_s());
        if joining.standing_of_served(&who, &by) != Standing::Refused {
            return false;
        }
        match joining.explain(&who).rule {
            Some(_) => joining.note_refused(&who, Wanted::Join, now),
            None => joining.note_not_served(name, server.name, now),
        }
        true
    }

    /// Names that the peer of a session answers for and that are refused from now on, by the rules
    /// or by what it shows, are attached on the session no longer.
    fn end_refused_names(&mut self, session: SessionId, now: Now) {
        // Of who is sent away nothing stays attached.
        let is_here = self.plane.peer(session).is_some();
        let known = self.admission.known_neighbour(session).filter(|_| is_here);
        let names = known.map(|neighbour| neighbour.attached.clone()).unwrap_or_default();
        if names.is_empty() {
            return;
        }
        for name in names {
            let metadata = self.metadata_of(&name);
            if metadata.is_some_and(|it| self.is_name_refused(&name, &it, session, now)) {
                self.routes.detach_all_but(&name, |attached| attached.session != session);
                self.plane.tell(Event::Left { name });
            }
        }
        self.forget_detached(session, now);
    }

    pub(crate) fn note_refused(&mut self, session: SessionId, wanted: Wanted, now: Now) {
        if let Some(peer) = self.plane.peer(session) {
            self.admission.joining.note_refused(&peer.who(now.unix_s()), wanted, now);
        }
    }
}

// What peers may cost us.
impl Switch {
    /// Whether a session may cause one more, which is counted: on its own account if it is
    /// admitted, on that of where it comes from otherwise.
    pub(crate) fn may_cost(&mut self, session: SessionId, cost: Cost, now: Now) -> bool {
        let Some(source) = self.source_of(session) else {
            // What it said before it ended counts nevertheless: it was verified.
            return cost == Cost::Publication;
        };
        let neighbour = self.neighbour(session, now);
        if neighbour.standing == Standing::Admitted {
            return neighbour.may_cost(cost, now.instant);
        }
        self.admission.budgets.take(source, cost, now.instant)
    }

    /// Whether NACKs are left for a session.
    pub(crate) fn has_nacks_left(&mut self, session: SessionId, now: Now) -> bool {
        let Some(source) = self.source_of(session) else { return false };
        let neighbour = self.neighbour(session, now);
        match neighbour.standing {
            Standing::Admitted => neighbour.has_nacks_left(),
            _ => self.admission.budgets.have_nacks_for(source, now.instant),
        }
    }
}

/// The purpose of the chances of a switch's own tables.
const OWN_TABLES: u64 = 2;
