//! Whether the nodes of a cluster agree what time it is: by their clocks it ends what is kept.

use std::time::{Duration, Instant};

use rhumb_rib::RibError;
use scylla::client::session::Session;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::statement::Consistency;
use scylla::statement::unprepared::Statement;
use scylla::value::CqlTimestamp;

/// What a node's clock said, and when it did by the clock of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Said {
    node: String,
    clock_ms: i64,
    asked: Instant,
    answered: Instant,
}

pub(crate) async fn check(session: &Session) -> Result<(), RibError> {
    let mut said = Vec::new();
    for node in session.get_cluster_state().get_nodes_info() {
        // Not `now()`: that is a UUID, and no node makes one that is below an earlier one, even
        // when its clock has been set back.
        let mut statement = Statement::new("SELECT currentTimestamp() FROM system.local");
        statement.set_consistency(Consistency::One);
        statement.set_request_timeout(Some(PATIENCE));
        let target = NodeIdentifier::Node(node.clone());
        let target = SingleTargetLoadBalancingPolicy::new(target, None);
        statement.set_load_balancing_policy(Some(target));
        let asked = Instant::now();
        // One that does not answer stores nothing either.
        let Ok(answer) = session.query_unpaged(statement, ()).await else { continue };
        let answered = Instant::now();
        let Ok(rows) = answer.into_rows_result() else { continue };
        let Ok((CqlTimestamp(clock_ms),)) = rows.single_row::<(CqlTimestamp,)>() else { continue };
        said.push(Said { node: node.address.to_string(), clock_ms, asked, answered });
    }
    compare(&said)
}

/// Compares each with each, giving them the time that the question was under way.
fn compare(said: &[Said]) -> Result<(), RibError> {
    let Some(first) = said.first() else { return Ok(()) };
    // How far ahead of the first one it is, at least and at most.
    let ahead = |it: &Said| {
        let ms = |later: Instant| later.duration_since(first.asked).as_millis() as i64;
        (it.clock_ms - ms(it.answered), it.clock_ms - ms(it.asked))
    };
    for one in said {
        for other in said {
            let apart_ms = ahead(one).0 - ahead(other).1;
            if apart_ms > MOST_APART_MS {
                return Err(RibError::ClocksApart {
                    ahead: one.node.clone(),
                    behind: other.node.clone(),
                    apart_ms: apart_ms.unsigned_abs(),
                });
            }
        }
    }
    Ok(())
}

/// What is kept is kept for a minute longer than it needs to be.
const MOST_APART_MS: i64 = 10_000;
const PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_far_apart_are_told_with_their_nodes_and_slow_answers_are_no_difference() {
        let began = Instant::now();
        let said = |node: &str, clock_ms: i64, asked_ms: u64, took_ms: u64| {
            let asked = began + Duration::from_millis(asked_ms);
            let answered = asked + Duration::from_millis(took_ms);
            Said { node: node.to_owned(), clock_ms, asked, answered }
        };
        let year = 1_800_000_000_000;
        let fine = said("a", year, 0, 5);
        assert!(compare(&[]).is_ok());
        // The second one was asked two minutes later.
        assert!(compare(&[fine.clone(), said("b", year + 120_000, 120_000, 5)]).is_ok());
        assert!(compare(&[fine.clone(), said("b", year + 12_000, 0, 2_500)]).is_ok());
        assert!(compare(&[fine.clone(), said("b", year + 10_000, 0, 0)]).is_ok());
        for (clock_ms, expected) in [(year + 10_001, ("b", "a")), (year - 10_006, ("a", "b"))] {
            match compare(&[fine.clone(), said("b", clock_ms, 0, 0)]) {
                Err(RibError::ClocksApart { ahead, behind, apart_ms }) => {
                    assert_eq!((ahead.as_str(), behind.as_str()), expected);
                    assert_eq!(apart_ms, 10_001);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
