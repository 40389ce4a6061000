//! What the driver's errors mean to whoever runs a RIB.

use std::error::Error;

use rhumb_rib::RibError;
use scylla::errors::{DbError, ExecutionError, NewSessionError, PrepareError, RequestAttemptError};

use crate::CqlAddress;

/// What became of a request.
pub(crate) fn failed(error: ExecutionError) -> RibError {
    use ExecutionError as E;
    match &error {
        E::RequestTimeout(_) => RibError::StoreTooSlow { source: Box::new(error) },
        E::ConnectionPoolError(_) | E::EmptyPlan => {
            RibError::StoreWithoutQuorum { source: Box::new(error) }
        }
        E::LastAttemptError(attempt)
        | E::PrepareError(PrepareError::AllAttemptsFailed { first_attempt: attempt }) => {
            attempt_failed(attempt)(Box::new(error))
        }
        _ => RibError::StoreFailed { source: Box::new(error) },
    }
}

fn attempt_failed(attempt: &RequestAttemptError) -> fn(Box<dyn Error + Send + Sync>) -> RibError {
    use RequestAttemptError as A;
    match attempt {
        A::DbError(DbError::Unavailable { .. }, _) | A::BrokenConnectionError(_) => {
            |source| RibError::StoreWithoutQuorum { source }
        }
        A::DbError(DbError::ReadTimeout { .. } | DbError::WriteTimeout { .. }, _) => {
            |source| RibError::StoreTooSlow { source }
        }
        A::DbError(DbError::Overloaded | DbError::RateLimitReached { .. }, _)
        | A::UnableToAllocStreamId => |_| RibError::Overloaded,
        // A node that asks for passwords asks other nodes about users, and tells it so where they
        // do not answer.
        A::DbError(DbError::AuthenticationError | DbError::Unauthorized, text)
            if text.contains(NOT_ANSWERED) =>
        {
            |source| RibError::StoreTooSlow { source }
        }
        A::DbError(DbError::AuthenticationError | DbError::Unauthorized, _) => {
            |source| RibError::StoreRefusesUser { source }
        }
        _ => |source| RibError::StoreFailed { source },
    }
}

/// Why no session began.
pub(crate) fn not_connected(address: &CqlAddress, error: NewSessionError) -> RibError {
    let text = error.to_string();
    let source = Box::new(error);
    // The driver tells it in words alone: each node refuses on its own connection.
    if text.contains(NOT_ANSWERED) {
        RibError::StoreTooSlow { source }
    } else if text.contains("Authentication") || text.contains("authentication") {
        RibError::StoreRefusesUser { source }
    } else {
        RibError::StoreUnreachable { nodes: address.nodes().join(","), source }
    }
}

/// Anything else that should not be.
pub(crate) fn other(error: impl Error + Send + Sync + 'static) -> RibError {
    RibError::StoreFailed { source: Box::new(error) }
}

/// What nodes say first where others that know about users do not answer in time.
const NOT_ANSWERED: &str = "Unable to perform";

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> RequestAttemptError {
        RequestAttemptError::DbError(DbError::AuthenticationError, text.to_owned())
    }

    #[test]
    fn a_node_that_cannot_ask_about_a_user_has_not_refused_him() {
        let slow = "Unable to perform authentication: Operation timed out";
        let refused = "Provided username rhumb and/or password are incorrect";
        let of = |text| failed(ExecutionError::LastAttemptError(said(text)));
        assert!(matches!(of(slow), RibError::StoreTooSlow { .. }));
        assert!(matches!(of(refused), RibError::StoreRefusesUser { .. }));
    }
}
