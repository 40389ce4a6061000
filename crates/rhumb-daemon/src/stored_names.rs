//! The names that a RIB stores, as it lists them: how it is asked for a page, and what it tells.
//!
//! | query of `/names` | what it says |
//! |---|---|
//! | `begins` | how the names begin that are wanted; the whole of one finds it |
//! | `after` | the `next` of the page before |
//! | `limit` | how many at the most, up to 100 |

use rhumb_rib::store::{MOST_LISTED, Page};
use rhumb_rib::{Entry, RibError, Share};
use rhumb_trust::LABEL;
use rhumb_wire::{Certificate, Name, Scope, Statement};
use serde_json::{Value, json};

use crate::clock;
use crate::daemon::{ListNames, Refused};

pub use rhumb_rib::store::Wanted;

/// Answers questions by pages that `read` gives.
pub fn lister(
    read: impl Fn(&Wanted) -> Result<Page, RibError> + Send + Sync + 'static,
) -> ListNames {
    Box::new(move |query| {
        let wanted = wanted(query).map_err(|problem| ("400 Bad Request", problem))?;
        let page = read(&wanted).map_err(|error| refusal(&error))?;
        Ok(shown(&page, clock::now().unix_s()))
    })
}

fn refusal(error: &RibError) -> Refused {
    match error {
        RibError::NotInOrder => ("400 Bad Request", format!("{error}\n")),
        _ => ("503 Service Unavailable", format!("{error}\n")),
    }
}

/// Reads the query of a question.
///
/// # Errors
/// A sentence about what is wrong with it.
fn wanted(query: &str) -> Result<Wanted, String> {
    let mut wanted = Wanted { limit: MOST_LISTED, ..Wanted::default() };
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("begins", text)) => {
                wanted.beginning = text.parse().map_err(|problem| format!("{problem}\n"))?;
            }
            Some(("after", text)) => {
                let after = text.parse().map_err(|_| "`after` is a whole name\n".to_owned())?;
                wanted.after = Some(after);
            }
            Some(("limit", text)) => {
                let limit = text.parse().ok().filter(|limit| (1..=MOST_LISTED).contains(limit));
                wanted.limit = limit
                    .ok_or_else(|| format!("`limit` is a number from 1 to {MOST_LISTED}\n"))?;
            }
            _ => return Err("it is asked for by `begins`, `after` and `limit`\n".to_owned()),
        }
    }
    Ok(wanted)
}

/// How a daemon is asked for a page.
pub fn question_for(wanted: &Wanted) -> String {
    let mut path = format!("/names?limit={}", wanted.limit);
    if !wanted.beginning.is_of_all() {
        path += &format!("&begins={}", wanted.beginning.as_str());
    }
    if let Some(after) = wanted.after {
        path += &format!("&after={after}");
    }
    path
}

/// A page as whoever asks is told of it.
fn shown(page: &Page, now_s: u64) -> Value {
    let names = page.names.iter().map(|(name, entry)| match entry {
        Some(entry) => of_entry(*name, entry, now_s),
        None => json!({ "name": name, "is_damaged": true }),
    });
    json!({ "names": names.collect::<Vec<_>>(), "next": page.next })
}

fn of_entry(name: Name, entry: &Entry, now_s: u64) -> Value {
    let metadata = entry.metadata();
    let others = [entry.locator(now_s), entry.export(now_s), entry.withdrawal(now_s)];
    let in_force = entry.routes(now_s).chain(others.into_iter().flatten());
    let mut statements: Vec<Value> = in_force.map(|it| of_statement(it, now_s)).collect();
    if let Some(list) = entry.published().filter(|it| it.not_after_s >= now_s) {
        statements.push(json!({
            "kind": "names", "names": list.names.len(), "sequence": list.sequence,
            "ends_in_s": list.not_after_s - now_s,
        }));
    }
    json!({
        "name": name,
        "role": metadata.role.as_str(),
        "calls_itself": metadata.attributes().get(LABEL),
        "published_by": entry.publisher(),
        "of_a_stranger": matches!(entry.share(), Share::Stranger(_)),
        "remembered_for_s": entry.keep_until_s().saturating_sub(now_s),
        "statements": statements,
    })
}

/// A statement: its kind, whom or what it names, and until when.
fn of_statement(said: &Certificate, now_s: u64) -> Value {
    let mut told = json!({
        "sequence": said.sequence,
        "ends_in_s": said.not_after_s.saturating_sub(now_s),
    });
    let kind = match said.statement {
        Statement::Route { via, scope } => {
            told["via"] = json!(via);
            match scope {
                Scope::Any => "route",
                Scope::Several => "route, one of several",
                Scope::Destination(peer) => {
                    told["with"] = json!(peer);
                    "route for one peer"
                }
                Scope::ByDomain { up_to } | Scope::ByNeighbour { up_to } => {
                    told["up_to"] = json!(up_to);
                    "export"
                }
            }
        }
        Statement::Service { server, several } => {
            told["via"] = json!(server);
            if several { "service, one of several" } else { "service" }
        }
        Statement::Locator(locator) => {
            told["address"] = json!(locator.address());
            "locator"
        }
        Statement::Withdrawal => "withdrawal",
        Statement::Absence { .. } => "absence",
        Statement::Member { .. } => "membership",
        Statement::Removal { .. } => "removal",
    };
    told["kind"] = json!(kind);
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rhumb_wire::{Metadata, PublicKey, Role};

    proptest! {
        #[test]
        fn a_question_reads_as_it_was_written(
            begins in "[a-z2-7]{0,51}", after: Option<[u8; 32]>, limit in 1_usize..=MOST_LISTED,
        ) {
            let beginning = begins.parse().unwrap();
            let asked = Wanted { beginning, after: after.map(Name), limit };
            let path = question_for(&asked);
            prop_assert_eq!(wanted(path.strip_prefix("/names?").unwrap()), Ok(asked));
        }

        #[test]
        fn any_query_is_read_or_refused(query in "\\PC{0,80}") {
            let _ = wanted(&query);
        }
    }

    #[test]
    fn what_is_wrong_with_a_question_is_said() {
        assert_eq!(wanted("").unwrap().limit, MOST_LISTED);
        for (query, said) in [
            ("begins=1", "letters"),
            ("after=abc", "whole name"),
            ("limit=0", "1 to 100"),
            ("limit=101", "1 to 100"),
            ("limit=x", "1 to 100"),
            ("order=up", "`begins`"),
            ("begins", "`begins`"),
        ] {
            let problem = wanted(query).unwrap_err();
            assert!(problem.contains(said), "{query}: {problem}");
        }
    }

    #[test]
    fn what_is_over_is_not_shown_as_said() {
        let key = PublicKey::Ed25519([7; 32]);
        let (name, by) = (Name([1; 32]), Name([2; 32]));
        let mut entry = Entry::new(Metadata::new(Role::Node, key, 1), by);
        let statement = Statement::Route { via: by, scope: Scope::Any };
        let said = Certificate {
            sequence: 7,
            not_before_s: 100,
            not_after_s: 200,
            issuer: name,
            statement,
            signature: [0; 64],
        };
        entry.admit(&said, by, 150).unwrap();
        let of = |now_s| of_entry(name, &entry, now_s);
        let told = &of(150)["statements"][0];
        assert_eq!((&told["kind"], &told["via"]), (&json!("route"), &json!(by)));
        assert_eq!((&told["sequence"], &told["ends_in_s"]), (&json!(7), &json!(50)));
        // It is remembered for longer than it holds.
        assert_eq!(of(1000)["statements"], json!([]));
        assert!(of(1000)["remembered_for_s"].as_u64().unwrap() > 0);
        let page = Page { names: vec![(by, None)], next: Some(by) };
        let damaged = json!({"names": [{"name": by, "is_damaged": true}], "next": by});
        assert_eq!(shown(&page, 150), damaged);
    }
}
