//! What was found, a line for each look, as it comes.

use std::fmt;
use std::process::ExitCode;

use rhumb_daemon::names;
use rhumb_daemon::output::Form;
use serde::Serialize;

/// What was found so far.
pub(super) struct Findings {
    form: Form,
    problems: usize,
    warnings: usize,
}

/// How it stands with what was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    Warning,
    Problem,
    NotTried,
}

/// What was looked at: the look, and of what.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Look {
    check: &'static str,
    of: Option<String>,
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    look: &'a Look,
    state: State,
    found: String,
    #[serde(rename = "do")]
    advice: Option<&'a str>,
}

#[derive(Serialize)]
struct Sum {
    problems: usize,
    warnings: usize,
}

impl Look {
    /// A look at something that there is one of.
    pub(super) fn at(check: &'static str) -> Self {
        Self { check, of: None }
    }

    /// A look at what belongs to `of`.
    pub(super) fn of(check: &'static str, of: impl fmt::Display) -> Self {
        Self { check, of: Some(plain(&of)) }
    }
}

impl Findings {
    pub(super) fn new(form: Form) -> Self {
        Self { form, problems: 0, warnings: 0 }
    }

    pub(super) fn ok(&mut self, look: &Look, found: impl fmt::Display) {
        self.line(look, State::Ok, &found, None);
    }

    pub(super) fn warn(&mut self, look: &Look, found: impl fmt::Display, advice: &str) {
        self.warnings += 1;
        self.line(look, State::Warning, &found, Some(advice));
    }

    /// `advice` is empty where what was found says what to do.
    pub(super) fn problem(&mut self, look: &Look, found: impl fmt::Display, advice: &str) {
        self.problems += 1;
        self.line(look, State::Problem, &found, (!advice.is_empty()).then_some(advice));
    }

    pub(super) fn not_tried(&mut self, look: &Look, why: impl fmt::Display) {
        self.line(look, State::NotTried, &why, None);
    }

    /// The last line, and the exit code.
    pub(super) fn end(self) -> ExitCode {
        self.form.print(&Sum { problems: self.problems, warnings: self.warnings });
        if self.problems == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    fn line(&self, look: &Look, state: State, found: &impl fmt::Display, advice: Option<&str>) {
        let found = plain(found);
        self.form.print(&Line { look, state, found, advice });
    }
}

/// Some of what is found is the word of others: nothing of that reaches a terminal as it is.
fn plain(text: &impl fmt::Display) -> String {
    text.to_string().chars().map(|it| if it.is_control() { ' ' } else { it }).collect()
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Ok => "ok",
            State::Warning => "warning",
            State::Problem => "problem",
            State::NotTried => "not tried",
        };
        write!(f, "{state:9}  {}", self.look.check)?;
        if let Some(of) = &self.look.of {
            write!(f, " ({of})")?;
        }
        write!(f, ": {}", names::with_labels(&self.found))?;
        match self.advice {
            Some(advice) => write!(f, " -> {advice}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.problems, self.warnings) {
            (0, 0) => f.write_str("nothing is wrong"),
            (problems, warnings) => write!(f, "problems: {problems}, warnings: {warnings}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_was_looked_at_how_it_stands_and_what_to_do() {
        let look = Look::of("router", "home");
        let line = |state, advice| {
            Line { look: &look, state, found: "gone".to_owned(), advice }.to_string()
        };
        assert_eq!(line(State::Ok, None), "ok         router (home): gone");
        let problem = line(State::Problem, Some("start it"));
        assert_eq!(problem, "problem    router (home): gone -> start it");
        assert_eq!(Sum { problems: 0, warnings: 0 }.to_string(), "nothing is wrong");
        assert_eq!(Sum { problems: 1, warnings: 2 }.to_string(), "problems: 1, warnings: 2");
    }
}
