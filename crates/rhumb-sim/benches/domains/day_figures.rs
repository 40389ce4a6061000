//! Figures of a [`Day`] in the life of a hundred domains, a thousand routers and a million names.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::day::{Day, Seen, Size};
use crate::figures::Figures;

pub(crate) fn measure(figures: &mut Figures) {
    let size = size_wanted();
    let began = Instant::now();
    let seen = Day::new(size).pass();
    figures.condition(
        "day",
        json!({
            "domains": seen.domains,
            "routers": seen.routers,
            "names": seen.names,
            "day_s": size.day.as_secs(),
            "zipf_exponent": 1,
            "rates": "a sine over the day: a fifth of the mean at midnight, nine fifths at noon",
            "away": "one innermost domain, its RIB, border and routers, from noon for an eighth of the day",
            "took_s": began.elapsed().as_secs(),
        }),
    );
    answers(figures, &seen);
    messages(figures, &seen);
    questions(figures, &seen);
}

fn answers(figures: &mut Figures, seen: &Seen) {
    let it = &seen.account;
    figures.add("day_look_ups", "look-ups by hands at RIBs", it.look_ups as f64, "");
    figures.add("day_abroad", "of these, of names of other domains", it.abroad as f64, "");
    figures.add("day_found", "answers that found something", it.found as f64, "");
    figures.add("day_absent", "answers of absence", it.absent as f64, "");
    let what = "names that moved, were taken back or came again";
    figures.add("day_changes", what, it.stored as f64, "");
    figures.add("day_told", "changes that RIBs told to who had asked", it.told as f64, "");
    let none = (0.0, "none");
    let what = "answers that said what was not so";
    figures.hold("day_wrong_answers", what, (it.wrong as f64, "answers"), none);
    let what = "answers about names of other domains that were so shortly before";
    figures.add("day_late_answers", what, it.late as f64, "answers");
    let bound = (3.0, "what an absence is remembered for, and a second");
    figures.hold("day_latest_s", "how long before, at most", (seconds(it.latest), "s"), bound);
    let what = "the same of names of the domain that was away, which told nobody what came last";
    figures.add("day_latest_away_s", what, seconds(it.latest_away), "s");
    it.examples.iter().for_each(|example| eprintln!("{example}"));
    let what = "look-ups that failed and have nothing to do with the domain that was away";
    figures.hold("day_failed_elsewhere", what, (it.failed as f64, "look-ups"), none);
    let what = "look-ups of its names, or under way at its RIB, that failed";
    figures.add("day_failed_away", what, it.failed_away as f64, "look-ups");
    let what = "orders that no RIB stored, but for its own";
    figures.hold("day_not_stored", what, (it.not_stored as f64, "orders"), none);
}

fn messages(figures: &mut Figures, seen: &Seen) {
    figures.add("day_messages", "messages from node to node", seen.messages as f64, "");
    figures.add("day_moves", "nodes that moved to another router", seen.moves as f64, "");
    let what = "messages that did not arrive, though nobody had moved and nothing was away";
    let none = (0.0, "none; one that arrives elsewhere ends the run");
    figures.hold("day_missing", what, (seen.missing as f64, "messages"), none);
    let after = |what: Option<Duration>| what.map_or(f64::INFINITY, seconds);
    let what = "after the domain is back, until its RIB answers";
    let bound = (2.0, "a handshake");
    figures.hold("day_answers_after_s", what, (after(seen.answers_after), "s"), bound);
    let what = "until messages from the other side of the world have come to each of its nodes";
    let bound = (30.0, "nodes ask for their router every few seconds");
    figures.hold("day_found_after_s", what, (after(seen.found_after), "s"), bound);
}

fn questions(figures: &mut Figures, seen: &Seen) {
    for (level, (mean, most)) in ["top", "around", "innermost"].into_iter().zip(seen.questions) {
        let what = "questions to a RIB of this level a second, mean of the day";
        figures.add(&format!("day_questions_{level}"), what, mean, "/s");
        let what = "the same in the hour that had most";
        figures.add(&format!("day_questions_{level}_most"), what, most, "/s");
    }
    let climbs = seen.climbs as f64;
    figures.add("day_climbs", "questions that RIBs handed on", climbs, "questions");
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

/// With fewer names by `RHUMB_BENCH_NAMES`, for who works at this.
fn size_wanted() -> Size {
    let names = std::env::var("RHUMB_BENCH_NAMES").ok().and_then(|text| text.parse().ok());
    Size { names: names.unwrap_or(Size::FULL.names), ..Size::FULL }
}
