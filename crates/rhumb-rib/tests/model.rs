//! Whatever is published, withdrawn, committed, swept or restarted in whatever order, what is found
//! is what a few lines of arithmetic say.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rhumb_rib::Config;
use rhumb_rib::store::{Embedded, Memory};
use rhumb_trust::{CLOCK_SKEW_S, Window};
use rhumb_wire::certificate::Locator;
use rhumb_wire::rib::Refusal;
use rhumb_wire::{Certificate, Name, Scope, Statement};

use crate::world::{Directory, Holder, NOW_S};

#[derive(Debug, Clone)]
enum Step {
    /// One of the holders says something of a kind, with a sequence and a lifetime.
    Say { holder: usize, kind: usize, sequence: u64, lifetime_s: u64 },
    /// Something that was said before is published once more.
    Repeat { which: usize },
    /// Time passes.
    Wait { seconds: u64 },
    /// Everything is swept.
    Sweep,
    /// The process ends and another opens the store.
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..HOLDERS, 0..3usize, 1..8u64, 1..400u64).prop_map(
            |(holder, kind, sequence, lifetime_s)| Step::Say { holder, kind, sequence, lifetime_s },
        ),
        3 => (0..64usize).prop_map(|which| Step::Repeat { which }),
        2 => (1..200u64).prop_map(|seconds| Step::Wait { seconds }),
        1 => Just(Step::Sweep),
        1 => Just(Step::Restart),
    ]
}

/// What the directory is to know: per holder and kind the newest statement. Nothing is ever
/// forgotten here; the steps take less time than the directory remembers.
#[derive(Default)]
struct Model {
    newest: BTreeMap<(Name, usize), Certificate>,
}

impl Model {
    fn publish(&mut self, certificate: &Certificate, now_s: u64) -> Result<(), Refusal> {
        if now_s > certificate.not_after_s + CLOCK_SKEW_S {
            return Err(Refusal::Expired);
        }
        let (issuer, kind) = (certificate.issuer, kind_of(certificate));
        if self.newest.get(&(issuer, kind)) == Some(certificate) && !self.is_withdrawn(certificate)
        {
            return Ok(());
        }
        let newest = self.newest.get(&(issuer, kind)).map_or(0, |newest| newest.sequence);
        let withdrawn = self.newest.get(&(issuer, WITHDRAWAL)).map_or(0, |newest| newest.sequence);
        if certificate.sequence <= newest || certificate.sequence <= withdrawn {
            return Err(Refusal::Superseded);
        }
        self.newest.insert((issuer, kind), certificate.clone());
        Ok(())
    }

    fn is_withdrawn(&self, certificate: &Certificate) -> bool {
        kind_of(certificate) != WITHDRAWAL
            && self
                .newest
                .get(&(certificate.issuer, WITHDRAWAL))
                .is_some_and(|withdrawal| withdrawal.sequence >= certificate.sequence)
    }

    fn found(&self, name: Name, now_s: u64) -> Vec<Certificate> {
        let in_force = |kind| {
            self.newest
                .get(&(name, kind))
                .filter(|c| !self.is_withdrawn(c) && now_s <= c.not_after_s + CLOCK_SKEW_S)
        };
        in_force(LOCATOR).or_else(|| in_force(ROUTE)).into_iter().cloned().collect()
    }
}

fn kind_of(certificate: &Certificate) -> usize {
    match certificate.statement {
        Statement::Route { .. } => ROUTE,
        Statement::Locator(_) => LOCATOR,
        _ => WITHDRAWAL,
    }
}

fn statement(kind: usize) -> Statement {
    match kind {
        ROUTE => Statement::Route { via: Name([1; 32]), scope: Scope::Any },
        LOCATOR => {
            let address = "192.0.2.1:4000".parse().expect("an address");
            Statement::Locator(Locator::new(address).expect("usable"))
        }
        _ => Statement::Withdrawal,
    }
}

/// Runs the steps against a directory that `restart` opens again.
fn run<S: rhumb_rib::store::Store>(
    steps: &[Step],
    mut directory: Directory<S>,
    mut restart: impl FnMut(Directory<S>) -> Directory<S>,
) {
    let holders = Holder::line(HOLDERS);
    let mut model = Model::default();
    let mut said: Vec<(usize, Certificate)> = Vec::new();
    for step in steps {
        let publish = match step {
            Step::Say { holder, kind, sequence, lifetime_s } => {
                let window = Window::starting(directory.now_s, *lifetime_s);
                let certificate = holders[*holder].say(statement(*kind), *sequence, window);
                said.push((*holder, certificate));
                said.last()
            }
            Step::Repeat { which } => said.get(which % said.len().max(1)),
            Step::Wait { seconds } => {
                directory.now_s += seconds;
                None
            }
            Step::Sweep => {
                directory.sweep();
                None
            }
            Step::Restart => {
                let now_s = directory.now_s;
                directory = restart(directory);
                directory.now_s = now_s;
                None
            }
        };
        if let Some((holder, certificate)) = publish {
            let expected = model.publish(certificate, directory.now_s);
            let answer = directory.tell(&holders[*holder], certificate.clone());
            assert_eq!(answer, expected, "{step:?}");
        }
        for holder in &holders {
            let expected = model.found(holder.name(), directory.now_s);
            assert_eq!(directory.found(holder.name()), expected, "after {step:?}");
        }
    }
    assert!(directory.now_s < NOW_S + rhumb_rib::MAX_LIFETIME_S);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_directory_in_memory_is_as_the_model(steps in prop::collection::vec(step(), 1..60)) {
        run(&steps, Directory::new(), |directory| {
            Directory::over(directory.rib.into_store(), Config::default())
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn a_directory_in_a_file_is_as_the_model(steps in prop::collection::vec(step(), 1..40)) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rib");
        let open = || Directory::over(Embedded::open(&path).expect("a store"), Config::default());
        run(&steps, open(), |directory| {
            drop(directory);
            open()
        });
    }

    /// The bounds of two caches are two, so that nearly nothing is remembered outside of the store,
    /// or only by records of it: none, one or two, or all.
    #[test]
    fn a_directory_without_memory_is_as_the_model(
        steps in prop::collection::vec(step(), 1..60),
        cached_bytes in prop::sample::select(vec![0, 1000, 1 << 20]),
    ) {
        let mut config = Config::default();
        (config.cached_entries, config.cached_absences) = (0, 0);
        config.cached_bytes = cached_bytes;
        run(&steps, Directory::over(crate::usual(Memory::new()), config.clone()), |directory| {
            Directory::over(directory.rib.into_store(), config.clone())
        });
    }
}

const HOLDERS: usize = 3;
const ROUTE: usize = 0;
const LOCATOR: usize = 1;
const WITHDRAWAL: usize = 2;
