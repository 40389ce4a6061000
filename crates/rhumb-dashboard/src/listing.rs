//! The names that a RIB stores, a page at a time, for a browser that looks through them.
//!
//! Invariant: whoever is inside asks RIBs on the board alone, for one page that has a bound, and is
//! told what they tell or why there is nothing.

use std::io;

use rhumb_daemon::admin::Admin;
use rhumb_daemon::stored_names::{Wanted, question_for};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::timeout;

use crate::gather::{ANSWER_WITHIN, answer_of};

/// What a browser asks for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    /// Where the RIB is asked, as on the board.
    pub(crate) place: String,
    #[serde(default)]
    begins: String,
    after: Option<String>,
}

impl Asked {
    /// The page that is meant; `None` if it names what is no name.
    pub(crate) fn wanted(&self) -> Option<Wanted> {
        Some(Wanted {
            beginning: self.begins.parse().ok()?,
            after: self.after.as_ref().map(|after| after.parse()).transpose().ok()?,
            limit: ON_A_PAGE,
        })
    }
}

/// Asks for a page; or says why there is none.
pub(crate) async fn page(admin: &Admin, wanted: &Wanted) -> Result<Value, String> {
    let answer = match timeout(ANSWER_WITHIN, answer_of(admin, &question_for(wanted))).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err("it answers its own user and root only".to_owned());
        }
        Ok(Err(error)) => return Err(format!("it cannot be asked: {error}")),
        Err(_) => return Err("it does not answer in time".to_owned()),
    };
    read(&answer)
}

/// The page in all that was answered, or the sentence in place of it.
fn read(answer: &[u8]) -> Result<Value, String> {
    let foreign = || "what answers there lists no names; it may be of another version".to_owned();
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").ok_or_else(foreign)?;
    let (head, body) = (&answer[..end], &answer[end + 4..]);
    if head.starts_with(b"HTTP/1.1 200 ") {
        let page = serde_json::from_slice::<Value>(body).ok();
        return page.filter(|page| page["names"].is_array()).ok_or_else(foreign);
    }
    let said = body.get(..MOST_PROBLEM_LEN).unwrap_or(body);
    let said = std::str::from_utf8(said).ok().and_then(|text| text.lines().next());
    // A line that says no more than its status is of who knows no such question.
    let says_why = |said: &&str| !said.is_empty() && !said.starts_with(char::is_numeric);
    Err(said.filter(says_why).map_or_else(foreign, str::to_owned))
}

/// A screen or two, and with eight ways each as many rows as the page shows.
const ON_A_PAGE: usize = 25;
/// A sentence.
const MOST_PROBLEM_LEN: usize = 400;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whatever_answers_is_a_page_or_a_sentence(bytes: Vec<u8>, status in 0_usize..3) {
            let head = ["", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 503 x\r\n\r\n"][status];
            match read(&[head.as_bytes(), &bytes[..]].concat()) {
                Ok(page) => prop_assert!(page["names"].is_array()),
                Err(problem) => prop_assert!(!problem.is_empty() && !problem.contains('\n')),
            }
        }
    }

    #[test]
    fn a_refusal_is_told_as_it_was_said() {
        let said = |text: &str| read(text.as_bytes()).unwrap_err();
        assert_eq!(said("HTTP/1.1 503 x\r\n\r\nthe store is busy\n"), "the store is busy");
        for foreign in ["", "HTTP/1.1 404 x\r\n\r\n404 Not Found\n", "HTTP/1.1 200 OK\r\n\r\n[]"] {
            assert!(said(foreign).contains("another version"), "{foreign}");
        }
        let page = read(b"HTTP/1.1 200 OK\r\n\r\n{\"names\":[],\"next\":null}\n").unwrap();
        assert_eq!(page["next"], Value::Null);
    }
}
