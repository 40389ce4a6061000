//! One value of a configuration file: where it stands, and what is wrong with it.

use std::ops::Range;

use serde::Deserialize;

/// What is wrong with a file, and in which line, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) line: usize,
    pub(crate) problem: String,
}

/// The line in which a span begins, counted from 1.
pub(crate) fn line_at(text: &str, span: Option<&Range<usize>>) -> usize {
    let start = span.map_or(0, |span| span.start).min(text.len());
    1 + text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count()
}

/// A number, or a word for one.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum RawWorkers {
    Count(u64),
    Word(String),
}

/// A name, or a list of them.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum RawNames {
    One(String),
    Several(Vec<String>),
}

impl RawNames {
    pub(crate) fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(name) => vec![name],
            Self::Several(names) => names,
        }
    }
}
