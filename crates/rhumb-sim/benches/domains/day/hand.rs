//! Somebody at the RIB of one domain, with a router's rights: who looks names up there, as routers
//! do, and publishes what their holders say.
//!
//! Each answer is held against the [`Ledger`]; changes that the RIB tells are acknowledged.

use std::collections::HashMap;
use std::time::Duration;

use rhumb_sim::{StationId, World};
use rhumb_wire::rib::{RequestId, RibRequest, RibRequestBody, RibResponse, RibResponseBody};
use rhumb_wire::{Action, Certificate, Name, PduHeader, Rights, Role, Statement};

use super::ledger::{Asked, Heard, Ledger, Place, Said, Verdict};
use crate::nest::Domain;

pub(crate) struct Hand {
    station: StationId,
    rib: StationId,
    /// Its domain, and the one that this lies in, if that has names.
    own: usize,
    around: Option<usize>,
    number: u32,
    asked: HashMap<u32, (Asked, Name)>,
    ordered: HashMap<u32, (Place, Duration)>,
}

/// What came of what was asked and ordered.
#[derive(Debug, Clone, Default)]
pub(crate) struct Account {
    pub(crate) look_ups: u64,
    /// Of these, for names of other domains.
    pub(crate) abroad: u64,
    pub(crate) found: u64,
    pub(crate) absent: u64,
    pub(crate) wrong: u64,
    /// Answers, to who asks from another domain, that had been right before.
    pub(crate) late: u64,
    /// The longest before that, of names of domains that were there, and of the one that was away.
    pub(crate) latest: Duration,
    pub(crate) latest_away: Duration,
    /// Look-ups without an answer.
    pub(crate) failed: u64,
    /// Of these, such as have to do with the domain that was away.
    pub(crate) failed_away: u64,
    pub(crate) stored: u64,
    /// Orders that were refused or not answered, but for those at the RIB that was away.
    pub(crate) not_stored: u64,
    /// Changes that RIBs told of.
    pub(crate) told: u64,
    /// The first of what was wrong or failed, in words.
    pub(crate) examples: Vec<String>,
}

impl Hand {
    pub(crate) fn new(
        world: &mut World,
        domain: &Domain,
        (own, around): (usize, Option<usize>),
    ) -> Self {
        let station = world.add_outsider_as(domain.member(Role::Router, Rights::PUBLISH));
        let (asked, ordered) = (HashMap::new(), HashMap::new());
        let hand = Self { station, rib: domain.rib, own, around, number: 0, asked, ordered };
        hand.connect(world);
        hand
    }

    /// Begins a session, also in place of one that the RIB has forgotten.
    pub(crate) fn connect(&self, world: &mut World) {
        let (address, name) = (world.address(self.rib), world.name(self.rib));
        world.with_outsider(self.station, |it, now| it.connect(address, Some(name), now));
    }

    pub(crate) fn look_up(
        &mut self,
        world: &mut World,
        ledger: &Ledger,
        (place, name): (Place, Name),
        account: &mut Account,
    ) {
        // As a router, it does not ask for what it is waiting for.
        if self.asked.values().any(|(_, waiting)| *waiting == name) {
            return;
        }
        account.look_ups += 1;
        account.abroad += u64::from(place.0 != self.own);
        let asked = ledger.ask(place, world.now());
        let id = self.send(world, RibRequestBody::LookUpRoute(name));
        self.asked.insert(id, (asked, name));
    }

    /// Publishes what was entered into the ledger as ordered.
    pub(crate) fn publish(&mut self, world: &mut World, place: Place, body: RibRequestBody) {
        let id = self.send(world, body);
        self.ordered.insert(id, (place, world.now()));
    }

    fn send(&mut self, world: &mut World, body: RibRequestBody) -> u32 {
        self.number += 1;
        let id = RequestId(self.number);
        self.say(world, &RibRequest { id, body });
        self.number
    }

    fn say(&self, world: &mut World, request: &RibRequest) {
        let mut data = Vec::new();
        request.emit(&mut data);
        let rib = world.name(self.rib);
        world.with_outsider(self.station, |outsider, now| {
            let Some(session) = outsider.session_with(&rib) else { return };
            let header = PduHeader::new(Action::RibRequest, outsider.name(), rib);
            outsider.send(session, header, &data, &[], now);
        });
    }

    /// Takes what has come, and gives up what does not.
    pub(crate) fn hear(
        &mut self,
        world: &mut World,
        ledger: &mut Ledger,
        away: Option<usize>,
        account: &mut Account,
    ) {
        let inbox = |outsider: &mut rhumb_sim::Outsider, _| std::mem::take(&mut outsider.inbox);
        let received = world.with_outsider(self.station, inbox).unwrap_or_default();
        let answers = received.iter().filter_map(|it| RibResponse::parse(&it.data).ok());
        for RibResponse { id, body } in answers {
            if matches!(body, RibResponseBody::Changed { .. }) {
                account.told += 1;
                self.say(world, &RibRequest { id, body: RibRequestBody::Acknowledge });
            } else if let Some((asked, name)) = self.asked.remove(&id.0) {
                self.judge(ledger, (&asked, name), &body, (away, account));
            } else if let Some((place, _)) = self.ordered.remove(&id.0) {
                if body == RibResponseBody::Stored {
                    account.stored += 1;
                    ledger.acknowledge(place, world.now());
                } else {
                    account.not_stored += 1;
                }
            }
        }
        self.give_up(world.now(), away, account);
    }

    fn judge(
        &self,
        ledger: &Ledger,
        (asked, name): (&Asked, Name),
        body: &RibResponseBody,
        (away, account): (Option<usize>, &mut Account),
    ) {
        let heard = match body {
            RibResponseBody::Absent(_) => {
                account.absent += 1;
                Heard::Absent
            }
            RibResponseBody::Found { certificates, .. } => {
                account.found += 1;
                let first = certificates.first().filter(|it| it.issuer == name);
                self.heard(asked.place.0, first)
            }
            _ => {
                account.failed += 1;
                return account.show(|| format!("hand {}: {asked:?}: {body:?}", self.own));
            }
        };
        match ledger.judge(asked, heard, asked.place.0 == self.own) {
            Verdict::Right => {}
            Verdict::Late(age) => {
                account.late += 1;
                let is_away = away == Some(asked.place.0);
                let latest = if is_away { &mut account.latest_away } else { &mut account.latest };
                *latest = age.max(*latest);
                if age > LATE {
                    let so = ledger.fate(asked.place);
                    account
                        .show(|| format!("hand {}: {asked:?}: {heard:?}, late: {so:?}", self.own));
                }
            }
            Verdict::Wrong => {
                account.wrong += 1;
                let so = ledger.fate(asked.place);
                account.show(|| format!("hand {}: {asked:?}: {heard:?}, but {so:?}", self.own));
            }
        }
    }

    /// What the first statement of an answer says: where the name is, to who is in its domain or
    /// further in, and to others that its domain knows it.
    fn heard(&self, domain: usize, first: Option<&Certificate>) -> Heard {
        let is_inside = [Some(self.own), self.around].contains(&Some(domain));
        match first.map(|it| (it.statement, it.sequence)) {
            Some((said, _)) if said.exports_by().is_some() && !is_inside => Heard::Exported,
            Some((said @ Statement::Route { via, .. }, sequence))
                if said.exports_by().is_none() && is_inside =>
            {
                Heard::Route(Said { sequence, via: Some(via) })
            }
            _ => Heard::Nonsense,
        }
    }

    fn give_up(&mut self, now: Duration, away: Option<usize>, account: &mut Account) {
        let is_over = |at: Duration| at + PATIENCE < now;
        let over: Vec<u32> =
            self.asked.iter().filter(|(_, it)| is_over(it.0.at)).map(|(id, _)| *id).collect();
        for (asked, _) in over.iter().filter_map(|id| self.asked.remove(id)) {
            let is_away = [self.own, asked.place.0].map(Some).contains(&away);
            account.failed += u64::from(!is_away);
            account.show(|| format!("hand {}: {asked:?}: no answer", self.own));
            account.failed_away += u64::from(is_away);
        }
        let before = self.ordered.len();
        self.ordered.retain(|_, (_, at)| !is_over(*at));
        if away != Some(self.own) {
            account.not_stored += (before - self.ordered.len()) as u64;
        }
    }
}

impl Account {
    fn show(&mut self, what: impl FnOnce() -> String) {
        if self.examples.len() < EXAMPLES {
            self.examples.push(what());
        }
    }
}

const EXAMPLES: usize = 8;
/// What is worth an example.
const LATE: Duration = Duration::from_secs(2);
/// Longer than a question put on to the domain around is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
