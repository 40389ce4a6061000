//! How a command fails: in one line that says what and what to do,
//! with an exit code that scripts can tell apart.
//!
//! Code 2 is for what the user can put right before trying again: a wrong option or file,
//! a missing key, a port in use, a RIB or router that does not answer at the start. Code
//! 1 is for work that began and did not succeed.

use std::fmt;
use std::process::ExitCode;

/// A command's failure. The cause carries its chain of reasons; it is printed as one line.
#[derive(Debug)]
pub struct Failure {
    kind: Kind,
    cause: anyhow::Error,
}

/// What a command returns.
pub type Outcome<T = ()> = Result<T, Failure>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Setup,
    Operation,
}

impl Failure {
    /// The user has to put something right first.
    pub fn setup(cause: impl Into<anyhow::Error>) -> Self {
        Self { kind: Kind::Setup, cause: cause.into() }
    }

    /// As [`Failure::setup`], from the text of the one line.
    pub fn setup_text(text: impl fmt::Display) -> Self {
        Self { kind: Kind::Setup, cause: anyhow::anyhow!("{text}") }
    }

    /// The work began and did not succeed.
    pub fn operation(cause: impl Into<anyhow::Error>) -> Self {
        Self { kind: Kind::Operation, cause: cause.into() }
    }

    /// As [`Failure::operation`], from the text of the one line.
    pub fn operation_text(text: impl fmt::Display) -> Self {
        Self { kind: Kind::Operation, cause: anyhow::anyhow!("{text}") }
    }

    /// What the process exits with.
    pub fn exit_code(&self) -> ExitCode {
        match self.kind {
            Kind::Setup => ExitCode::from(EXIT_SETUP),
            Kind::Operation => ExitCode::FAILURE,
        }
    }
}

impl fmt::Display for Failure {
    /// One line, whatever the causes say. Most errors show the
    /// reason that they hold, which is not said again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for reason in self.cause.chain().map(ToString::to_string) {
            if text.is_empty() {
                text = reason;
            } else if !text.contains(&reason) {
                text = format!("{text}: {reason}");
            }
        }
        let mut words = text.split_whitespace();
        f.write_str(words.next().unwrap_or("failed"))?;
        words.try_for_each(|word| write!(f, " {word}"))
    }
}

/// The same code that clap uses for options it refuses.
const EXIT_SETUP: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_of_several_lines_becomes_one() {
        let failure = Failure::setup(anyhow::anyhow!("first\n  second").context("third"));
        assert_eq!(failure.to_string(), "third: first second");
    }

    #[test]
    fn a_reason_that_its_error_shows_is_said_once() {
        let source = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        let error = rhumb_rib::RibError::StoreFile { path: "x.redb".into(), source };
        assert_eq!(Failure::setup(error).to_string(), "store x.redb: permission denied");
    }

    #[test]
    fn setup_and_operation_have_their_codes() {
        assert_eq!(Failure::setup_text("x").exit_code(), ExitCode::from(2));
        assert_eq!(Failure::operation_text("x").exit_code(), ExitCode::from(1));
    }
}
