//! Questions under way: whom each was put to, and what came of it so far.
//!
//! 1. A question goes to the RIB that answers soonest; when that one takes
//!    longer than it mostly does, to the next as well.
//! 2. The first answer that is found good ends it.
//! 3. An answer that is refused counts as none: the next RIB is asked at once.
//! 4. An absence is believed when no other RIB says otherwise, while a hedge lasts.
//! 5. A round without an end is repeated a few times, each longer than the one before.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rhumb_wire::rib::RequestId;

use super::Question;

#[derive(Default)]
pub(super) struct Inquiries {
    by_question: HashMap<Question, Inquiry>,
}

pub(super) struct Inquiry {
    round: u32,
    round_ends_at: Instant,
    hedge_at: Instant,
    asked: Vec<Asked>,
    absence: Option<Absence>,
}

/// A RIB that was asked in this round.
struct Asked {
    replica: usize,
    at: Instant,
    stage: Stage,
}

/// How far one RIB's answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Asked(RequestId),
    /// Its answer is being verified.
    Answered,
    /// It says that the name is absent.
    Denied,
    /// It gave no answer that counts.
    Failed,
}

#[derive(Debug, Clone, Copy)]
struct Absence {
    until: Instant,
    believed_at: Instant,
}

/// What a question wants done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Ask one more RIB, if there is one.
    AskNext,
    /// Ask all RIBs that were not asked yet.
    AskAll,
    /// Begin a new round.
    AskAgain,
    /// It is over, and the name is absent until then.
    Absent(Instant),
    /// It is over without an answer.
    GiveUp,
    /// Wait.
    Nothing,
}

impl Inquiries {
    pub(super) fn len(&self) -> usize {
        self.by_question.len()
    }

    pub(super) fn contains(&self, question: &Question) -> bool {
        self.by_question.contains_key(question)
    }

    pub(super) fn open(&mut self, question: Question, now: Instant) {
        let inquiry = Inquiry {
            round: 0,
            round_ends_at: now + ROUND,
            hedge_at: now + ROUND,
            asked: Vec::new(),
            absence: None,
        };
        self.by_question.insert(question, inquiry);
    }

    pub(super) fn close(&mut self, question: &Question) {
        self.by_question.remove(question);
    }

    pub(super) fn due(&self, question: &Question) -> Option<Instant> {
        let inquiry = self.by_question.get(question)?;
        let due = inquiry.round_ends_at.min(inquiry.hedge_at);
        Some(inquiry.absence.map_or(due, |absence| absence.believed_at.min(due)))
    }

    /// The RIBs that were asked in this round.
    pub(super) fn asked(&self, question: &Question) -> Vec<usize> {
        let inquiry = self.by_question.get(question);
        inquiry.map_or(Vec::new(), |i| i.asked.iter().map(|it| it.replica).collect())
    }

    /// A RIB was asked; if it does not answer until `hedge_at`, another one is to be.
    pub(super) fn note_asked(
        &mut self,
        question: &Question,
        (replica, id): (usize, RequestId),
        at: Instant,
        hedge_at: Instant,
    ) {
        if let Some(inquiry) = self.by_question.get_mut(question) {
            inquiry.asked.push(Asked { replica, at, stage: Stage::Asked(id) });
            inquiry.hedge_at = hedge_at;
        }
    }

    /// When a RIB was asked, in this round.
    pub(super) fn asked_at(&self, question: &Question, replica: usize) -> Option<Instant> {
        let asked = &self.by_question.get(question)?.asked;
        asked.iter().find(|it| it.replica == replica).map(|it| it.at)
    }

    /// There is nobody else to ask in this round.
    pub(super) fn note_all_asked(&mut self, question: &Question) {
        if let Some(inquiry) = self.by_question.get_mut(question) {
            inquiry.hedge_at = inquiry.round_ends_at;
        }
    }

    /// A RIB answered request `id`. Whether anybody still waits for that answer.
    pub(super) fn note_answered(&mut self, question: &Question, id: RequestId) -> bool {
        let Some(inquiry) = self.by_question.get_mut(question) else { return false };
        let asked = inquiry.asked.iter_mut().find(|it| it.stage == Stage::Asked(id));
        asked.map(|it| it.stage = Stage::Answered).is_some()
    }

    /// A RIB's answer does not count, or none will come.
    pub(super) fn note_failed(&mut self, question: &Question, replica: usize) -> Step {
        let Some(inquiry) = self.by_question.get_mut(question) else { return Step::Nothing };
        inquiry.set(replica, Stage::Failed);
        Step::AskNext
    }

    /// A RIB says, and signs, that the name is absent until then.
    pub(super) fn note_denied(
        &mut self,
        question: &Question,
        replica: usize,
        until: Instant,
        believed_at: Instant,
    ) -> Step {
        let Some(inquiry) = self.by_question.get_mut(question) else { return Step::Nothing };
        inquiry.set(replica, Stage::Denied);
        let until = inquiry.absence.map_or(until, |before| before.until.max(until));
        let believed_at = inquiry.absence.map_or(believed_at, |before| before.believed_at);
        inquiry.absence = Some(Absence { until, believed_at });
        Step::AskAll
    }

    /// The RIBs that said that the name is absent.
    pub(super) fn deniers(&self, question: &Question) -> Vec<usize> {
        let inquiry = self.by_question.get(question);
        let asked = inquiry.map_or(&[][..], |inquiry| &inquiry.asked);
        asked.iter().filter(|it| it.stage == Stage::Denied).map(|it| it.replica).collect()
    }

    /// What is left when all that can be asked were: nothing to wait
    /// for but the end of the round, or an absence.
    pub(super) fn when_all_asked(&mut self, question: &Question) -> Step {
        let Some(inquiry) = self.by_question.get(question) else { return Step::Nothing };
        match inquiry.absence {
            Some(absence) if !inquiry.is_waiting() => Step::Absent(absence.until),
            _ => Step::Nothing,
        }
    }

    /// Whether any RIB's answer is still to come or being verified.
    pub(super) fn is_waiting(&self, question: &Question) -> bool {
        self.by_question.get(question).is_some_and(Inquiry::is_waiting)
    }

    /// Time has passed. Returns the RIBs that did not answer in this round, too, if it ended.
    pub(super) fn handle_timeout(
        &mut self,
        question: &Question,
        now: Instant,
    ) -> (Step, Vec<usize>) {
        let Some(inquiry) = self.by_question.get_mut(question) else {
            return (Step::Nothing, Vec::new());
        };
        if let Some(absence) = inquiry.absence.filter(|absence| absence.believed_at <= now) {
            return (Step::Absent(absence.until), Vec::new());
        }
        if inquiry.round_ends_at > now {
            return match inquiry.hedge_at <= now {
                true => (Step::AskNext, Vec::new()),
                false => (Step::Nothing, Vec::new()),
            };
        }
        let silent = |it: &Asked| matches!(it.stage, Stage::Asked(_)).then_some(it.replica);
        let silent = inquiry.asked.iter().filter_map(silent).collect();
        inquiry.round += 1;
        inquiry.asked.clear();
        inquiry.round_ends_at = now + ROUND * 2u32.pow(inquiry.round.min(3));
        inquiry.hedge_at = inquiry.round_ends_at;
        match inquiry.round < MAX_ROUNDS {
            true => (Step::AskAgain, silent),
            false => (Step::GiveUp, silent),
        }
    }

    /// The questions that wait for an answer of this RIB, which will not come.
    pub(super) fn asked_of(&self, replica: usize) -> Vec<Question> {
        let waits = |inquiry: &Inquiry| {
            inquiry
                .asked
                .iter()
                .any(|it| it.replica == replica && matches!(it.stage, Stage::Asked(_)))
        };
        let all = self.by_question.iter();
        let mut waiting: Vec<Question> =
            all.filter(|(_, i)| waits(i)).map(|(question, _)| *question).collect();
        // So that a world of one seed lives one life.
        waiting.sort_unstable();
        waiting
    }
}

impl Inquiry {
    fn set(&mut self, replica: usize, stage: Stage) {
        if let Some(asked) = self.asked.iter_mut().find(|asked| asked.replica == replica) {
            asked.stage = stage;
        }
    }

    fn is_waiting(&self) -> bool {
        self.asked.iter().any(|it| matches!(it.stage, Stage::Asked(_) | Stage::Answered))
    }
}

/// Ten times a busy local RIB's answer; doubled per round.
pub(super) const ROUND: Duration = Duration::from_millis(200);
/// Look-ups are given up after these; whoever still needs the answer causes a new one.
const MAX_ROUNDS: u32 = 4;
