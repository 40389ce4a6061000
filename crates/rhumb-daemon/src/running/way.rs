//! The way to a name as the running node has traced it, for a command that shows it: what a hop is
//! without the proof that this process has verified it, which does not go over a socket.

use std::time::Duration;

use data_encoding::HEXLOWER;
use rhumb_node::Hop;
use rhumb_wire::{Certificate, Name};
use serde::{Deserialize, Serialize};

/// One step of the way to a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Told", into = "Told")]
pub struct Step {
    /// The router there, or at last the destination itself; `None` when nobody answered.
    pub router: Option<Name>,
    /// What it calls itself.
    pub label: Option<String>,
    /// How long its answer took.
    pub rtt: Option<Duration>,
    /// The word of the one before that it may carry, as far as whoever traced has verified it.
    pub right: Option<Certificate>,
}

/// The same in a line of JSON.
#[derive(Debug, Serialize, Deserialize)]
struct Told {
    router: Option<String>,
    label: Option<String>,
    rtt_us: Option<f64>,
    /// In hex.
    right: Option<String>,
}

impl From<Hop> for Step {
    fn from(hop: Hop) -> Self {
        let right = hop.right.as_deref().cloned();
        Self { router: hop.router, label: hop.label, rtt: hop.rtt, right }
    }
}

impl From<Step> for Told {
    fn from(Step { router, label, rtt, right }: Step) -> Self {
        let encode = |certificate: Certificate| {
            let mut bytes = Vec::new();
            certificate.emit(&mut bytes);
            HEXLOWER.encode(&bytes)
        };
        Self {
            router: router.map(|name| name.to_string()),
            label,
            rtt_us: rtt.map(|rtt| rtt.as_secs_f64() * 1e6),
            right: right.map(encode),
        }
    }
}

impl TryFrom<Told> for Step {
    type Error = &'static str;

    fn try_from(Told { router, label, rtt_us, right }: Told) -> Result<Self, Self::Error> {
        let router = router.map(|name| name.parse().map_err(|_| "the name of a hop is none"));
        let rtt = rtt_us.map(|us| Duration::try_from_secs_f64(us / 1e6));
        let right = right.map(|hex| {
            let bytes = HEXLOWER.decode(hex.as_bytes()).ok();
            let parsed = bytes.and_then(|bytes| Certificate::parse(&bytes).ok());
            parsed.ok_or("the certificate of a hop is none")
        });
        Ok(Self {
            router: router.transpose()?,
            label,
            rtt: rtt.transpose().map_err(|_| "the round trip of a hop is none")?,
            right: right.transpose()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_wire::{Scope, Statement};

    #[test]
    fn a_way_is_the_same_behind_a_socket_and_nonsense_is_none() {
        let certificate = Certificate {
            sequence: 1,
            not_before_s: 2,
            not_after_s: 3,
            issuer: Name([9; 32]),
            statement: Statement::Route { via: Name([1; 32]), scope: Scope::Any },
            signature: [4; rhumb_wire::certificate::SIGNATURE_LEN],
        };
        let way = vec![
            Step { router: None, label: None, rtt: None, right: None },
            Step {
                router: Some(Name([1; 32])),
                label: Some("a \"b\"\n".to_owned()),
                rtt: Some(Duration::from_micros(1500)),
                right: Some(certificate),
            },
        ];
        let line = serde_json::to_string(&way).unwrap();
        assert!(!line.contains('\n'), "an answer is a line");
        assert_eq!(serde_json::from_str::<Vec<Step>>(&line).unwrap(), way);
        for wrong in [r#"{"router":"x"}"#, r#"{"rtt_us":-1}"#, r#"{"right":"00"}"#] {
            assert!(serde_json::from_str::<Step>(wrong).is_err(), "{wrong}");
        }
    }
}
