//! What is known of owners' lists, what is being asked, and for whom there is room: without clocks,
//! threads and RIBs.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use rhumb_wire::Name;
use tokio::sync::oneshot;

use super::{Answer, FRESH, NotFound};

/// Who knows what, and who waits.
#[derive(Default)]
pub(super) struct Desk {
    known: HashMap<Name, Known>,
    waiting: HashMap<Name, Vec<oneshot::Sender<Answer>>>,
    /// Those in the user's book, and others.
    questions: [VecDeque<Name>; 2],
    /// When the present second began, and how many others were asked for in it.
    others: Option<(Instant, usize)>,
    waiters: usize,
    /// Nobody asks any more.
    pub(super) has_ended: bool,
}

/// What became of a question.
pub(super) enum Step {
    Known(Answer),
    Waits(oneshot::Receiver<Answer>),
    Busy,
}

struct Known {
    answer: Answer,
    /// The highest sequence that was ever shown.
    newest: Option<u64>,
    asked: Instant,
    fresh_until: Instant,
    is_chosen: bool,
}

impl Desk {
    /// What is known of an owner's list, or who will say so.
    pub(super) fn ask(&mut self, owner: Name, is_chosen: bool, now: Instant) -> Step {
        if let Some(known) = self.known.get_mut(&owner) {
            known.asked = now;
            known.is_chosen |= is_chosen;
            if now < known.fresh_until {
                return Step::Known(known.answer.clone());
            }
        }
        if self.waiters >= MOST_WAITERS {
            return Step::Busy;
        }
        if !self.waiting.contains_key(&owner) {
            if !self.may_ask(is_chosen, now) {
                return Step::Busy;
            }
            self.questions[usize::from(!is_chosen)].push_back(owner);
        }
        let (tell, answer) = oneshot::channel();
        self.waiting.entry(owner).or_default().push(tell);
        self.waiters += 1;
        if !self.known.contains_key(&owner) {
            self.make_room(is_chosen);
            let answer = Err(NotFound::Busy);
            let known = Known { answer, newest: None, asked: now, fresh_until: now, is_chosen };
            self.known.insert(owner, known);
        }
        Step::Waits(answer)
    }

    /// Whether there is room for one more question.
    fn may_ask(&mut self, is_chosen: bool, now: Instant) -> bool {
        if is_chosen {
            return self.questions[0].len() < MOST_QUESTIONS;
        }
        let (since, count) =
            self.others.filter(|(since, _)| now < *since + SECOND).unwrap_or((now, 0));
        let may = count < OTHERS_A_SECOND && self.questions[1].len() < MOST_OTHERS_WAITING;
        self.others = Some((since, count + usize::from(may)));
        may
    }

    /// Forgets whom nobody has asked for longest, of the same kind, where there are too many.
    fn make_room(&mut self, is_chosen: bool) {
        let most = if is_chosen { MOST_CHOSEN } else { MOST_OTHERS };
        let of_kind = || self.known.iter().filter(|(_, it)| it.is_chosen == is_chosen);
        if of_kind().count() >= most
            && let Some((owner, _)) = of_kind().min_by_key(|(_, it)| it.asked)
        {
            let owner = *owner;
            self.known.remove(&owner);
        }
    }

    /// The next owner to ask for: those of the book first.
    pub(super) fn next(&mut self) -> Option<Name> {
        self.questions.iter_mut().find_map(VecDeque::pop_front)
    }

    /// What RIBs said. What is older than was ever shown counts as no answer.
    pub(super) fn answered(&mut self, owner: Name, answer: Answer, now: Instant) {
        let mut answer = answer;
        if let Some(known) = self.known.get_mut(&owner) {
            if let Ok(list) = &answer {
                match known.newest {
                    Some(newest) if list.sequence < newest => {
                        tracing::warn!("a RIB shows an older list of names than before");
                        answer = Err(NotFound::Older(owner));
                    }
                    _ => known.newest = Some(list.sequence),
                }
            }
            let is_certain = answer.as_ref().err().is_none_or(NotFound::is_certain);
            known.fresh_until = now + if is_certain { FRESH } else { TRY_AGAIN_AFTER };
            known.answer = answer.clone();
        }
        for waiter in self.waiting.remove(&owner).unwrap_or_default() {
            self.waiters -= 1;
            // Who has gone meanwhile does not want it.
            let _ = waiter.send(answer.clone());
        }
    }
}

const SECOND: Duration = Duration::from_secs(1);
/// A RIB that does not answer is left alone for so long.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Owners of the book that wait: a page can name all of them.
const MOST_QUESTIONS: usize = 64;
/// Others that wait, and that are asked for in a second: a page can name any number.
const MOST_OTHERS_WAITING: usize = 8;
const OTHERS_A_SECOND: usize = 16;
/// Owners of the book whose lists are kept: 4 MB of the longest.
const MOST_CHOSEN: usize = 2048;
/// Others.
const MOST_OTHERS: usize = 256;
/// Programs that wait for answers.
const MOST_WAITERS: usize = 1024;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use rhumb_trust::{Identity, Window, verify_names};
    use rhumb_wire::Role;

    use super::*;

    fn list(owner: &Identity, sequence: u64) -> Answer {
        let window = Window::starting(1000, 600);
        let published = owner.publish(BTreeMap::new(), sequence, window).unwrap();
        Ok(Arc::new(verify_names(published, owner.metadata(), 1000).unwrap()))
    }

    fn now() -> Instant {
        clock_now()
    }

    fn clock_now() -> Instant {
        crate::clock::now().instant
    }

    fn is_busy(step: &Step) -> bool {
        matches!(step, Step::Busy)
    }

    fn name(number: u32) -> Name {
        let mut name = Name([9; 32]);
        name.0[..4].copy_from_slice(&number.to_be_bytes());
        name
    }

    #[test]
    fn many_who_ask_for_one_owner_are_one_question() {
        let owner = Identity::generate(Role::Node, 0).unwrap();
        let (mut desk, start) = (Desk::default(), now());
        let mut waiting = Vec::new();
        for _ in 0..100 {
            match desk.ask(owner.name(), true, start) {
                Step::Waits(answer) => waiting.push(answer),
                _ => panic!("not asked"),
            }
        }
        assert_eq!((desk.next(), desk.next()), (Some(owner.name()), None));
        // Also while it is being asked.
        assert!(matches!(desk.ask(owner.name(), true, start), Step::Waits(_)));
        assert_eq!(desk.next(), None);
        let answer = list(&owner, 1);
        desk.answered(owner.name(), answer.clone(), start);
        for mut it in waiting {
            assert_eq!(it.try_recv().unwrap(), answer);
        }
        assert_eq!(desk.waiters, 0);
        let fresh = start + FRESH - Duration::from_nanos(1);
        assert!(matches!(desk.ask(owner.name(), true, fresh), Step::Known(it) if it == answer));
        assert!(matches!(desk.ask(owner.name(), true, start + FRESH), Step::Waits(_)));
    }

    #[test]
    fn an_older_list_is_no_answer_and_a_newer_one_is() {
        let owner = Identity::generate(Role::Node, 0).unwrap();
        let (mut desk, mut at) = (Desk::default(), now());
        let mut ask = |answer: Answer| {
            at += FRESH;
            let Step::Waits(mut waits) = desk.ask(owner.name(), true, at) else { panic!("known") };
            desk.answered(owner.name(), answer, at);
            waits.try_recv().unwrap()
        };
        assert!(ask(list(&owner, 5)).is_ok());
        assert_eq!(ask(list(&owner, 4)), Err(NotFound::Older(owner.name())));
        let silent = NotFound::Silent(String::new());
        assert_eq!(ask(Err(silent.clone())), Err(silent));
        assert_eq!(ask(list(&owner, 4)), Err(NotFound::Older(owner.name())));
        assert!(ask(list(&owner, 5)).is_ok());
        assert!(ask(list(&owner, 6)).is_ok());
        assert_eq!(ask(list(&owner, 5)), Err(NotFound::Older(owner.name())));
    }

    #[test]
    fn a_page_that_names_thousands_of_owners_takes_nothing_from_those_in_the_book() {
        let (mut desk, start) = (Desk::default(), now());
        let owner = Identity::generate(Role::Node, 0).unwrap();
        drop(desk.ask(owner.name(), true, start));
        desk.answered(owner.name(), list(&owner, 7), start);
        let mut asked = 0;
        for number in 0..100_000 {
            // A page that goes on for a hundred seconds.
            let at = start + Duration::from_millis(u64::from(number));
            let step = desk.ask(name(number), false, at);
            assert!(matches!(step, Step::Busy | Step::Waits(_)));
            if number % 10 == 0
                && let Some(other) = desk.next()
            {
                asked += 1;
                desk.answered(other, Err(NotFound::UnknownOwner(other)), at);
            }
        }
        assert!(asked <= 101 * OTHERS_A_SECOND, "{asked} questions in 100 s");
        assert!(desk.known.len() <= MOST_OTHERS + 1);
        // Whoever waits in the book's line goes first.
        let at = start + Duration::from_secs(200);
        for number in 0..8 {
            drop(desk.ask(name(200_000 + number), false, at));
        }
        assert!(!is_busy(&desk.ask(owner.name(), true, at)));
        assert_eq!(desk.next(), Some(owner.name()));
        desk.answered(owner.name(), list(&owner, 6), at);
        let Step::Known(answer) = desk.ask(owner.name(), true, at) else { panic!("asked") };
        assert_eq!(answer, Err(NotFound::Older(owner.name())), "what was seen is forgotten");
    }

    #[test]
    fn those_who_wait_are_bounded() {
        let (mut desk, start) = (Desk::default(), now());
        let waits: Vec<_> = (0..MOST_WAITERS).map(|_| desk.ask(name(1), true, start)).collect();
        assert!(waits.iter().all(|it| matches!(it, Step::Waits(_))));
        assert!(is_busy(&desk.ask(name(1), true, start)));
        desk.answered(name(1), Err(NotFound::NoRib), start);
        assert!(!is_busy(&desk.ask(name(2), true, start)));
        let chosen = (0..2 * MOST_CHOSEN as u32).map(|it| name(1_000_000 + it));
        for owner in chosen {
            drop(desk.ask(owner, true, start));
            desk.next();
            desk.answered(owner, Err(NotFound::UnknownOwner(owner)), start);
        }
        assert!(desk.known.len() <= MOST_CHOSEN + 1);
    }
}
