//! What can be wrong with a collector, and with what it was told.

/// What is wrong with what the operator said of a collector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CollectorError {
    /// It is no address of a collector.
    #[error("give http://HOST:PORT or https://HOST:PORT, of a receiver of OTLP over HTTP")]
    Endpoint,
    /// A header is none, or is one that says how the request is to be read.
    #[error("line {line} is no header to be added; give lines like `Authorization: Bearer TOKEN`")]
    Header {
        /// Counted from 1.
        line: usize,
    },
    /// Whoever is on the way would read the headers.
    #[error("headers would travel in plain text to another host; give an https address")]
    PlainText,
    /// No certificate of whom to trust is there, or one is damaged.
    #[error(
        "there is no certificate of whom to trust, or one is damaged; name a file of them with `ca`"
    )]
    Anchors,
}

/// Why a collector has not taken what it was told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// It is not reached, does not prove who it is, or hung up.
    #[error("{0}")]
    Connection(std::io::Error),
    /// It was too slow.
    #[error("it does not answer in time")]
    Late,
    /// It does not want it.
    #[error("it refuses by HTTP status {code}")]
    Refused {
        /// Of HTTP.
        code: u16,
    },
    /// It is something else than a receiver of OTLP.
    #[error("{0}")]
    Answer(#[from] AnswerFault),
}

/// What is wrong with an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AnswerFault {
    /// It is not HTTP.
    #[error("its answer is not HTTP")]
    Malformed,
    /// It ended before its head did.
    #[error("it hung up before it had answered")]
    Short,
    /// Its head has no end.
    #[error("its answer has no end")]
    Long,
}
