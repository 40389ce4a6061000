//! `cargo xtask bench`: finds a bench target by name in any crate and runs it.
//!
//! Benches are programs (`harness = false`) that print ratios measured in one run. Cargo passes
//! them `--bench`, which they ignore, and we pass `--json` on, and what a bench alone understands.

use std::path::Path;
use std::process::Command;

use crate::arguments::BenchOptions;
use crate::metadata::{self, Metadata};

pub(crate) fn run(root: &Path, options: &BenchOptions) -> bool {
    match try_run(root, options) {
        Ok(succeeded) => succeeded,
        Err(problem) => {
            eprintln!("{problem}");
            false
        }
    }
}

fn try_run(root: &Path, options: &BenchOptions) -> Result<bool, String> {
    let metadata = Metadata::load(root, &[metadata::host_triple()?])?;
    let Some(name) = &options.name else {
        for (package, bench) in benches(&metadata) {
            println!("{bench:<16}{package}");
        }
        return Ok(true);
    };
    let (target, part) = target(&metadata, name, options.part.as_deref());
    let package = package_of(&metadata, &target)?;
    let mut command = Command::new(metadata::cargo());
    command.current_dir(root).args(["bench", "--quiet", "-p", package, "--bench", &target, "--"]);
    command.args(part).args(&options.own);
    if options.json {
        command.arg("--json");
    }
    // Not through `process::run`: a bench measures, and
    // nothing should read its output along the way.
    let status = command.status().map_err(|error| format!("cargo bench: {error}"))?;
    Ok(status.success())
}

/// The target, and the part that it is told: where a
/// part is a target of its own, that one and none.
fn target<'a>(metadata: &Metadata, name: &str, part: Option<&'a str>) -> (String, Option<&'a str>) {
    let own = part.map(|part| format!("{name}-{part}"));
    match own.filter(|own| benches(metadata).any(|(_, bench)| bench == own)) {
        Some(own) => (own, None),
        None => (name.to_owned(), part),
    }
}

fn package_of<'a>(metadata: &'a Metadata, name: &str) -> Result<&'a str, String> {
    let owners: Vec<&str> =
        benches(metadata).filter(|(_, bench)| *bench == name).map(|(package, _)| package).collect();
    match owners[..] {
        [package] => Ok(package),
        [] => {
            let known: Vec<&str> = benches(metadata).map(|(_, bench)| bench).collect();
            Err(format!("no bench `{name}`; there are: {}", known.join(", ")))
        }
        _ => Err(format!("bench `{name}` is in several crates: {}", owners.join(", "))),
    }
}

fn benches(metadata: &Metadata) -> impl Iterator<Item = (&str, &str)> {
    metadata.members().flat_map(|member| {
        member.benches.iter().map(|bench| (member.name.as_str(), bench.as_str()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bench_is_found_by_name_and_an_unknown_one_is_refused() {
        let metadata = metadata::tests::example();
        assert_eq!(package_of(&metadata, "speed"), Ok("rhumb-b"));
        assert_eq!(target(&metadata, "speed", None), ("speed".to_owned(), None));
        assert_eq!(target(&metadata, "speed", Some("low")), ("speed".to_owned(), Some("low")));
        assert_eq!(target(&metadata, "speed", Some("high")), ("speed-high".to_owned(), None));
        assert_eq!(
            package_of(&metadata, "seped"),
            Err("no bench `seped`; there are: speed, speed-high".to_owned())
        );
    }
}
