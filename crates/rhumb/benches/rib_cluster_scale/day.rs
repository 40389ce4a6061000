//! Days in short: changes come more and less often, as a sine, through both RIBs; names are
//! renewed, move, leave and come back, while both RIBs are asked for them and for popular ones.
//!
//! What is said of a name is remembered here, and when it was acknowledged. A look-up is answered
//! rightly by the newest statement that was acknowledged before it was asked, or by a later one.
//! An older one is stale for as long as the newer had been acknowledged; what was never said, or is
//! older than [`LATEST`], is wrong. In the end both RIBs are asked for all that has changed.

use std::collections::HashMap;
use std::f64::consts::TAU;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rhumb_wire::rib::{RibRequestBody, RibResponseBody};
use rhumb_wire::{Name, Statement};

use crate::names::Names;
use crate::publishing::look_up;
use crate::report::Report;
use crate::servers::Ribs;
use crate::talk::{Answered, Talk};
use crate::unsigned::popular;

const LENGTH: Duration = Duration::from_secs(60);
const DAY_S: f64 = 20.0;
/// Of the rate that was seen to be stored, by day and night.
const MEAN: f64 = 0.25;
const SWING: f64 = 0.9;
/// Look-ups for each change.
const LOOK_UPS: usize = 2;
const WINDOW: usize = 128;
/// Names that change.
const WHO_CHANGE: usize = 500;
/// After so long an order that was not answered is told again.
const AGAIN: Duration = Duration::from_secs(5);
/// When all RIBs know at the latest, as docs/rib-cluster.md says.
const LATEST: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(120);

/// What a holder has said.
struct Said {
    sequence: u64,
    via: Option<Name>,
    order: RibRequestBody,
    stored: Option<Instant>,
}

enum About {
    Change(usize),
    Holder(usize),
    /// One that nobody changes here.
    Name,
}

#[derive(Default)]
struct Seen {
    changes: usize,
    left: usize,
    returned: usize,
    moved: usize,
    refused: usize,
    told_again: usize,
    look_ups: usize,
    unanswered: usize,
    stale_1_s: usize,
    longest_stale: Duration,
    wrong: usize,
}

struct Day<'a> {
    ribs: &'a mut Ribs,
    names: &'a Names,
    random: StdRng,
    said: HashMap<usize, Vec<Said>>,
    seen: Seen,
}

pub(crate) fn measure(ribs: &mut Ribs, names: &Names, stored_per_s: f64, report: &mut Report) {
    let (random, said, seen) = (StdRng::seed_from_u64(3), HashMap::new(), Seen::default());
    let mut day = Day { ribs, names, random, said, seen };
    let began = Instant::now();
    day.pass(stored_per_s * MEAN);
    let seconds = began.elapsed().as_secs_f64();
    let (late, lost) = day.look_at_all();
    let Day { said, seen, .. } = day;
    for (what, count) in [
        ("changes", seen.changes),
        ("moved", seen.moved),
        ("left", seen.left),
        ("returned", seen.returned),
        ("refused", seen.refused),
        ("told_again", seen.told_again),
        ("look_ups", seen.look_ups),
        ("look_ups_unanswered", seen.unanswered),
        ("look_ups_stale_for_more_than_1_s", seen.stale_1_s),
        ("names_changed", said.len()),
        ("not_at_once_in_the_end", late),
    ] {
        report.figure(&format!("day_{what}"), count as f64);
    }
    report.figure("day_changes_per_s", seen.changes as f64 / seconds);
    report.figure("day_longest_stale_s", seen.longest_stale.as_secs_f64());
    report.at_most("day_wrong_answers", seen.wrong as f64, 0.0);
    report.at_most("day_acknowledged_and_lost", lost as f64, 0.0);
}

impl Day<'_> {
    fn pass(&mut self, mean_per_s: f64) {
        let mut talks = [0, 1].map(|rib| Talk::new(self.ribs.connect(rib)));
        let (began, mut last, mut due) = (Instant::now(), Instant::now(), 0.0);
        while began.elapsed() < LENGTH {
            let phase = began.elapsed().as_secs_f64() / DAY_S * TAU;
            let rate = mean_per_s * (1.0 + SWING * phase.sin());
            due += rate * last.elapsed().as_secs_f64();
            last = Instant::now();
            while due >= 1.0 {
                due -= 1.0;
                self.next(&mut talks);
            }
            self.take(&mut talks, Duration::from_millis(1));
        }
        let ended = Instant::now();
        while talks.iter().any(|talk| talk.under_way() > 0) {
            assert!(ended.elapsed() < PATIENCE, "orders that are not stored");
            self.take(&mut talks, Duration::from_millis(5));
        }
    }

    /// A change, and look-ups beside it, of one of the RIBs each.
    fn next(&mut self, talks: &mut [Talk<About>; 2]) {
        let rib = self.random.random_range(0..2);
        if talks[rib].under_way() < WINDOW {
            self.change(&mut talks[rib]);
        }
        for turn in 0..LOOK_UPS {
            let rib = self.random.random_range(0..2);
            if talks[rib].under_way() >= WINDOW {
                continue;
            }
            match (turn, self.said.len()) {
                (0, 1..) => {
                    let changed = self.random.random_range(0..self.said.len());
                    let holder = *self.said.keys().nth(changed).expect("one of them");
                    talks[rib].ask(look_up(self.ribs, holder), About::Holder(holder));
                }
                _ => {
                    let rank = popular(&mut self.random, self.names.names.len());
                    let name = self.names.names[rank];
                    talks[rib].ask(RibRequestBody::LookUpRoute(name), About::Name);
                }
            }
        }
    }

    /// Has somebody say something that is not waiting for an answer yet.
    fn change(&mut self, talk: &mut Talk<About>) {
        // Of all ranks alike, and few enough to leave and come back several times.
        let of_them = self.random.random_range(0..WHO_CHANGE);
        let holder = of_them * (self.ribs.holders.len() - 1) / (WHO_CHANGE - 1);
        let said = self.said.entry(holder).or_default();
        if said.last().is_some_and(|it| it.stored.is_none()) {
            return;
        }
        let via = said.last().map(|it| it.via);
        let is_away = via == Some(None);
        let other = self.ribs.other.name();
        let order = match self.random.random_range(0..10) {
            0..=1 if !is_away => {
                self.seen.left += 1;
                self.ribs.leave(holder)
            }
            2..=4 if !is_away => {
                self.seen.moved += 1;
                let is_there = via == Some(Some(other));
                if is_there { self.ribs.order(holder) } else { self.ribs.move_away(holder) }
            }
            _ => {
                self.seen.returned += usize::from(is_away);
                let is_there = via == Some(Some(other));
                if is_there { self.ribs.move_away(holder) } else { self.ribs.order(holder) }
            }
        };
        let RibRequestBody::Publish { certificates, .. } = &order else { return };
        let (sequence, via) = (certificates[0].sequence, via_of(&certificates[0].statement));
        talk.ask(order.clone(), About::Change(holder));
        self.seen.changes += 1;
        let said = self.said.entry(holder).or_default();
        said.push(Said { sequence, via, order, stored: None });
    }

    fn take(&mut self, talks: &mut [Talk<About>; 2], within: Duration) {
        for talk in talks {
            for answered in talk.answers(within) {
                match answered.about {
                    About::Change(holder) => self.acknowledged(holder, answered, talk),
                    About::Holder(holder) => self.judge(holder, &answered),
                    About::Name => {
                        self.seen.look_ups += 1;
                        let is_found = matches!(answered.body, RibResponseBody::Found { .. });
                        // Holders are among the popular ones, and may be away.
                        let may_be = matches!(answered.body, RibResponseBody::Absent(_));
                        self.seen.unanswered += usize::from(!is_found && !may_be);
                    }
                }
            }
            for about in talk.given_up(AGAIN) {
                match about {
                    About::Change(holder) => self.tell_again(holder, talk),
                    _ => self.seen.unanswered += 1,
                }
            }
        }
    }

    fn tell_again(&mut self, holder: usize, talk: &mut Talk<About>) {
        self.seen.told_again += 1;
        let said = self.said.get(&holder).and_then(|said| said.last());
        talk.ask(said.expect("it was told").order.clone(), About::Change(holder));
    }

    fn acknowledged(&mut self, holder: usize, answered: Answered<About>, talk: &mut Talk<About>) {
        match answered.body {
            RibResponseBody::Stored => {
                let said = self.said.get_mut(&holder).and_then(|said| said.last_mut());
                said.expect("it was told").stored = Some(Instant::now());
            }
            RibResponseBody::Refused(_) => {
                self.seen.refused += 1;
                self.tell_again(holder, talk);
            }
            other => panic!("{other:?} of an order"),
        }
    }

    fn judge(&mut self, holder: usize, answered: &Answered<About>) {
        self.seen.look_ups += 1;
        match self.stale_for(holder, &answered.body, answered.asked) {
            None => self.seen.unanswered += 1,
            Some(stale) => {
                self.seen.longest_stale = self.seen.longest_stale.max(stale);
                self.seen.stale_1_s += usize::from(stale > Duration::from_secs(1));
                self.seen.wrong += usize::from(stale > LATEST);
            }
        }
    }

    /// For how long something newer than this answer had been acknowledged when it was asked for:
    /// for ever, if it was never said. `None` if it is no answer.
    fn stale_for(&self, holder: usize, body: &RibResponseBody, asked: Instant) -> Option<Duration> {
        let said = &self.said[&holder];
        let name = self.ribs.holders[holder].name();
        let at = match body {
            RibResponseBody::Found { certificates, .. } => {
                let own = certificates.iter().find(|it| it.issuer == name)?;
                match said.iter().rposition(|it| it.sequence == own.sequence) {
                    Some(at) if said[at].via == via_of(&own.statement) => at + 1,
                    Some(_) => return Some(Duration::MAX),
                    // Of before the day, or of nobody: all is newer.
                    None if own.sequence < said.first().map_or(0, |it| it.sequence) => 0,
                    None => return Some(Duration::MAX),
                }
            }
            RibResponseBody::Absent(_) => match said.iter().rposition(|it| it.via.is_none()) {
                Some(at) => at + 1,
                None => return Some(Duration::MAX),
            },
            _ => return None,
        };
        let newer = said[at..].iter().find_map(|it| it.stored);
        Some(newer.map_or(Duration::ZERO, |stored| asked.saturating_duration_since(stored)))
    }

    /// Asks both RIBs for all that has changed. Returns how many answers were not the newest at
    /// once, and how many never.
    fn look_at_all(&mut self) -> (usize, usize) {
        let ended = Instant::now();
        let mut late = 0;
        let mut lost = 0;
        for rib in 0..2 {
            let mut left: Vec<usize> = self.said.keys().copied().collect();
            let mut is_first = true;
            let mut talk = Talk::new(self.ribs.connect(rib));
            while !left.is_empty() && (is_first || ended.elapsed() < PATIENCE) {
                left = self.not_newest(&mut talk, left);
                late += if is_first { left.len() } else { 0 };
                is_first = false;
            }
            left.iter().for_each(|holder| self.tell_lost(rib, *holder));
            lost += left.len();
        }
        (late, lost)
    }

    /// What had been said of a name that is not answered as it was acknowledged.
    fn tell_lost(&self, rib: usize, holder: usize) {
        eprintln!("RIB {} of {}:", rib + 1, self.ribs.holders[holder].name());
        for Said { sequence, via, stored, .. } in &self.said[&holder] {
            let ago = stored.map(|stored| stored.elapsed());
            eprintln!("  {sequence}, a way: {}, acknowledged {ago:?} ago", via.is_some());
        }
    }

    /// Of which of these the newest is not what is answered.
    fn not_newest(&self, talk: &mut Talk<About>, names: Vec<usize>) -> Vec<usize> {
        let (mut unasked, mut left) = (names.into_iter(), Vec::new());
        while unasked.len() > 0 || talk.under_way() > 0 {
            while talk.under_way() < WINDOW
                && let Some(holder) = unasked.next()
            {
                talk.ask(look_up(self.ribs, holder), About::Holder(holder));
            }
            for answered in talk.answers(Duration::from_millis(5)) {
                let About::Holder(holder) = answered.about else { continue };
                let stale = self.stale_for(holder, &answered.body, answered.asked);
                if stale != Some(Duration::ZERO) {
                    left.push(holder);
                }
            }
            for about in talk.given_up(AGAIN) {
                if let About::Holder(holder) = about {
                    left.push(holder);
                }
            }
        }
        left
    }
}

fn via_of(statement: &Statement) -> Option<Name> {
    match statement {
        Statement::Route { via, .. } => Some(*via),
        _ => None,
    }
}
