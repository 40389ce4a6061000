//! Domains beside this one: what each offers, which of its ways go first, and what it is told
//! (a path-vector table over names of domains; GDP paper, section 6.1; Gao and Rexford, 2001).
//!
//! 1. [`Neighbours::hear`] takes an offer when it verifies and rules let it in.
//! 2. [`Neighbours::ways`] ranks the ways to a domain: by preference, then cost, then length.
//! 3. [`Neighbours::told_to`] says what a neighbour is told: of each domain the first way alone, if
//!    the rules and the evidence let it go there.
//!
//! INVARIANT: all that is kept verified when it came, and is used only while it holds; a neighbour
//! fills no more than its own part; what is told to a neighbour leads neither through it nor back
//! here. No preference leaves.

mod evidence;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rhumb_trust::{Now, name_of};
use rhumb_wire::certificate::Locator;
use rhumb_wire::offer::Offered;
use rhumb_wire::{Certificate, Metadata, Name, Offer};

pub use self::evidence::NotTaken;
pub(crate) use self::evidence::bound_of;
use self::evidence::{MAX_PATH, Place, Word};
use self::rules::answer_len;
pub use self::rules::{DEFAULT_COST, Neighbour, Relation, Tell};

/// All neighbours of a domain, and what they offer.
#[derive(Debug)]
pub struct Neighbours {
    own: Name,
    around: Vec<Name>,
    max_domains: usize,
    list: Vec<Known>,
    changes: u64,
    not_taken: BTreeMap<NotTaken, u64>,
}

/// A neighbour, and what it offers.
#[derive(Debug)]
struct Known {
    rules: Neighbour,
    /// By domain; its own word stands under its own name.
    words: BTreeMap<Name, Word>,
    /// When it was last heard, if it ever was.
    heard_at: Option<Instant>,
}

/// A way to a domain by a neighbour.
#[derive(Debug, Clone)]
pub struct Way {
    /// By whom.
    pub neighbour: Name,
    /// Who that is.
    pub relation: Relation,
    /// How much it is liked.
    pub preference: u16,
    /// What it costs, to the neighbour included.
    pub cost: u32,
    /// Nothing was heard of the neighbour for a while.
    pub is_stale: bool,
    /// The domains on the way, from the one that it leads to to the neighbour.
    pub path: Vec<Name>,
    /// Exports from the domain to the neighbour.
    pub exports: Vec<Certificate>,
    /// The neighbour's borders, and where each is.
    pub ends: Vec<[Certificate; 2]>,
    /// Metadata of all issuers.
    pub metadata: Vec<Metadata>,
    /// RIBs that know the names of the domain.
    pub ribs: Vec<(Name, Locator)>,
}

/// What this domain says of itself.
#[derive(Debug, Clone, Default)]
pub struct Own {
    /// Its RIB, as it is reached from outside.
    pub ribs: Vec<(Name, Locator)>,
    /// Its own metadata first, then that of its borders.
    pub metadata: Vec<Metadata>,
    /// Its borders, and where each is.
    pub ends: Vec<[Certificate; 2]>,
}

impl Neighbours {
    /// The table of a domain that lies in those `around` it, of which no neighbour has said
    /// anything yet; each may offer so many domains.
    pub fn new(own: Name, around: &[Name], neighbours: &[Neighbour], max_domains: usize) -> Self {
        let providers = neighbours.iter().filter(|it| it.relation == Relation::Provider);
        let around: BTreeSet<Name> =
            around.iter().copied().chain(providers.map(|it| it.domain)).collect();
        let known = |rules: &Neighbour| Known {
            rules: rules.clone(),
            words: BTreeMap::new(),
            heard_at: None,
        };
        Self {
            own,
            around: around.into_iter().collect(),
            max_domains,
            list: neighbours.iter().map(known).collect(),
            changes: 0,
            not_taken: BTreeMap::new(),
        }
    }

    /// Goes by these rules from now on. What neighbours that stay have offered is judged anew when
    /// they offer it again; what others have offered is forgotten.
    pub fn set_rules(&mut self, neighbours: &[Neighbour], around: &[Name]) {
        let before = std::mem::take(&mut self.list);
        let (not_taken, changes) = (std::mem::take(&mut self.not_taken), self.changes + 1);
        *self = Self::new(self.own, around, neighbours, self.max_domains);
        (self.not_taken, self.changes) = (not_taken, changes);
        for old in before {
            if let Some(known) = self.list.iter_mut().find(|it| it.rules.domain == old.rules.domain)
            {
                (known.words, known.heard_at) = (old.words, old.heard_at);
                known.words.retain(|domain, _| !known.rules.refuse.contains(domain));
            }
        }
    }

    /// Takes what a neighbour offers about a domain, in place of what it offered before. Bounded by
    /// the signatures of one offer; what is known already costs none.
    ///
    /// # Errors
    /// Why it is not taken; what was offered before is forgotten all the same.
    pub fn hear(
        &mut self,
        from: Name,
        domain: Name,
        offer: &Offer,
        now: Now,
    ) -> Result<(), NotTaken> {
        let place = Place { own: self.own, around: &self.around };
        let Some(known) = self.list.iter_mut().find(|it| it.rules.domain == from) else {
            return Err(NotTaken::Rule);
        };
        known.heard_at = Some(now.instant);
        let holds = |word: &Word| word.offer == *offer && word.until_s >= now.unix_s();
        if known.words.get(&domain).is_some_and(holds) {
            return Ok(());
        }
        let is_full = known.words.len() >= self.max_domains && !known.words.contains_key(&domain);
        let heard = match known.rules.refuse.contains(&domain) {
            true => Err(NotTaken::Rule),
            false if is_full => Err(NotTaken::Full),
            false => place.verify(from, domain, offer, now.unix_s()),
        };
        let had = known.words.remove(&domain).is_some();
        let taken = heard.map(|word| _ = known.words.insert(domain, word));
        self.changes += u64::from(had || taken.is_ok());
        if let Err(why) = taken {
            *self.not_taken.entry(why).or_default() += 1;
        }
        taken
    }

    /// A neighbour offers a domain no longer.
    pub fn retract(&mut self, from: Name, domain: Name) {
        if let Some(known) = self.list.iter_mut().find(|it| it.rules.domain == from) {
            self.changes += u64::from(known.words.remove(&domain).is_some());
        }
    }

    /// A neighbour offers these domains and no others.
    pub fn retract_all_but(&mut self, from: Name, offered: &BTreeSet<Name>) {
        if let Some(known) = self.list.iter_mut().find(|it| it.rules.domain == from) {
            let before = known.words.len();
            known.words.retain(|domain, _| offered.contains(domain));
            self.changes += (before - known.words.len()) as u64;
        }
    }

    /// A neighbour is there, and what it offered stands.
    pub fn note_heard(&mut self, from: Name, now: Instant) {
        if let Some(known) = self.list.iter_mut().find(|it| it.rules.domain == from) {
            known.heard_at = Some(now);
        }
    }

    /// Whether a neighbour was heard lately.
    pub fn is_heard(&self, from: Name, now: Instant) -> bool {
        self.list.iter().any(|it| it.rules.domain == from && !it.is_stale(now))
    }

    /// All that are told to somebody or tell something.
    pub fn rules(&self) -> impl Iterator<Item = &Neighbour> {
        self.list.iter().map(|it| &it.rules)
    }

    /// Another one whenever an offer came or went.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// How many offers were not taken, by why.
    pub fn not_taken(&self) -> impl Iterator<Item = (&'static str, u64)> {
        NotTaken::ALL
            .iter()
            .map(|why| (why.as_str(), self.not_taken.get(why).copied().unwrap_or(0)))
    }

    /// How many domains a neighbour offers now.
    pub fn offered_by(&self, neighbour: Name) -> usize {
        let known = self.list.iter().find(|it| it.rules.domain == neighbour);
        known.map_or(0, |it| it.words.len())
    }

    /// The domains that neighbours offer, in the order of names.
    pub fn domains(&self) -> BTreeSet<Name> {
        self.list.iter().flat_map(|known| known.words.keys().copied()).collect()
    }

    /// The ways to a domain, the one to take first: who was heard lately goes before who was not,
    /// then by preference, cost, length, and the neighbour's name.
    pub fn ways(&self, domain: Name, now: Now) -> Vec<Way> {
        let mut ways: Vec<Way> =
            self.list.iter().filter_map(|known| known.way(domain, now)).collect();
        ways.sort_by_key(|way| {
            (way.is_stale, u16::MAX - way.preference, way.cost, way.exports.len(), way.neighbour)
        });
        ways
    }

    /// What a neighbour is told now: this domain, and others by their first ways alone.
    pub fn told_to(&self, to: Name, own: &Own, now: Now) -> Vec<Offered> {
        let Some(rules) = self.list.iter().map(|it| &it.rules).find(|it| it.domain == to) else {
            return Vec::new();
        };
        let others = self.domains().into_iter().filter_map(|domain| {
            let way = self.ways(domain, now).into_iter().next()?;
            Some((domain, self.onward(rules, domain, way, now)?))
        });
        let mut told: Vec<Offered> = match rules.tell {
            Tell::Nothing => return Vec::new(),
            _ => others.chain([(self.own, own.offer(rules))]).collect(),
        };
        told.retain(|(domain, _)| !rules.withhold.contains(domain));
        told.retain(|offered| answer_len(std::slice::from_ref(offered)) <= MAX_TOLD_LEN);
        told.sort_by_key(|(domain, _)| *domain);
        told
    }

    /// What a neighbour is told of a domain that is reached by another one, if it is: with the
    /// word of that one that this domain may carry for it.
    fn onward(&self, to: &Neighbour, domain: Name, way: Way, now: Now) -> Option<Offer> {
        let by = self.list.iter().find(|it| it.rules.domain == way.neighbour)?;
        let carriage = by.own_word(now)?.carriage.clone()?;
        let exports: Vec<Certificate> = way.exports.into_iter().chain([carriage]).collect();
        let leads_through = domain == to.domain || exports.iter().any(|it| it.issuer == to.domain);
        let is_bounded = exports.iter().any(|it| bound_of(it).is_some());
        // Who lies in this domain lies in those around it, too.
        let may_know = !is_bounded || to.relation == Relation::Customer;
        let may = to.tell.includes(by.rules.relation)
            && !way.is_stale
            && may_know
            && !leads_through
            && exports.len() <= MAX_PATH;
        let issuers: BTreeSet<Name> = exports.iter().map(|it| it.issuer).collect();
        let mut metadata = way.metadata;
        metadata.retain(|it| issuers.contains(&name_of(it)));
        may.then_some(Offer { cost: way.cost, ribs: way.ribs, metadata, certificates: exports })
    }

    /// By which certificates a domain is known as far as this one: those by which this domain may
    /// carry for it, with the metadata of their issuers. The first way's, if there are several.
    pub fn evidence(&self, domain: Name, now: Now) -> Option<(Vec<Metadata>, Vec<Certificate>)> {
        self.ways(domain, now).into_iter().find_map(|way| {
            let by = self.list.iter().find(|it| it.rules.domain == way.neighbour)?;
            let carriage = by.own_word(now)?.carriage.clone()?;
            Some((way.metadata, way.exports.into_iter().chain([carriage]).collect()))
        })
    }

    /// The metadata of somebody of whom an offer speaks.
    pub fn metadata_of(&self, name: &Name) -> Option<&Metadata> {
        let words = self.list.iter().flat_map(|known| known.words.values());
        words.flat_map(|word| &word.offer.metadata).find(|it| name_of(it) == *name)
    }
}

impl Known {
    /// What the neighbour says of itself, while it holds.
    fn own_word(&self, now: Now) -> Option<&Word> {
        self.words.get(&self.rules.domain).filter(|word| word.until_s >= now.unix_s())
    }

    fn is_stale(&self, now: Instant) -> bool {
        self.heard_at.is_none_or(|at| at + STALE_AFTER <= now)
    }

    fn way(&self, domain: Name, now: Now) -> Option<Way> {
        let gate = self.own_word(now)?;
        let word = self.words.get(&domain).filter(|word| word.until_s >= now.unix_s())?;
        if gate.ends.is_empty() {
            return None;
        }
        let mut metadata = word.offer.metadata.clone();
        metadata.extend(
            gate.offer.metadata.iter().filter(|it| !word.offer.metadata.contains(it)).cloned(),
        );
        let is_stale = self.is_stale(now.instant);
        Some(Way {
            neighbour: self.rules.domain,
            relation: self.rules.relation,
            preference: self.rules.preference,
            cost: word.offer.cost.saturating_add(self.rules.cost),
            is_stale,
            path: word.path().chain([self.rules.domain]).collect(),
            exports: word.exports.clone(),
            ends: gate.ends.clone(),
            metadata,
            ribs: word.offer.ribs.clone(),
        })
    }
}

impl Way {
    /// The certificates from the domain to the address of each of the neighbour's borders.
    pub fn chains(&self) -> impl Iterator<Item = Vec<Certificate>> {
        self.ends.iter().map(|end| self.exports.iter().chain(end).cloned().collect())
    }
}

impl Own {
    /// What a neighbour is told of this domain itself.
    fn offer(&self, to: &Neighbour) -> Offer {
        let ends = self.ends.iter().flatten();
        let certificates = to.carriage.iter().chain(ends).cloned().collect();
        let (ribs, metadata) = (self.ribs.clone(), self.metadata.clone());
        Offer { cost: 0, ribs, metadata, certificates }
    }
}

/// A RIB that restarts is back by then; ways by a neighbour that is away longer go last.
const STALE_AFTER: Duration = Duration::from_secs(10);
/// What fits an answer of a RIB, with what it is sealed in: by four domains in a row, about.
const MAX_TOLD_LEN: usize = 1300;
/// Domains of which one neighbour may tell: 100 kB when full. Where there are more, they nest.
pub const MAX_DOMAINS: usize = 64;
