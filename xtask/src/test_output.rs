//! Reads what `cargo test -- --show-output` prints.
//!
//! Invariant: a test that prints a line `skipped: REASON` and returns is counted as skipped, not as
//! passed: it could not run here, and the summary must say so.

use crate::report::Outcome;

/// Counts, names of failed tests, and reasons of skipped ones.
pub(crate) fn read(output: &str) -> Outcome {
    let mut outcome = Outcome::default();
    // The test whose output is being read, until it has been seen to skip itself.
    let mut current = None;
    let mut skipped = Vec::new();
    for line in output.lines() {
        if let Some(counts) = line.strip_prefix("test result: ") {
            outcome.passed += count_before(counts, " passed");
            current = None;
        } else if let Some(name) = header_name(line) {
            current = Some(name);
        } else if let Some(reason) = line.trim_start().strip_prefix("skipped: ") {
            skipped.extend(current.take().map(|name| (name, reason)));
        } else if let Some((name, result)) = test_line(line) {
            match result {
                "FAILED" => outcome.failures.push(format!("test {name}")),
                "ok" => {}
                _ => outcome.skips.extend(
                    result.strip_prefix("ignored").map(|why| format!("{name}: ignored{why}")),
                ),
            }
        }
    }
    // A test that failed did not skip itself, whatever it printed.
    skipped.retain(|(name, _)| !outcome.failures.contains(&format!("test {name}")));
    outcome.passed = outcome.passed.saturating_sub(skipped.len());
    outcome.skips.extend(skipped.iter().map(|(name, reason)| format!("{name}: {reason}")));
    outcome
}

/// `---- NAME stdout ----` opens the output of a test.
fn header_name(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

/// `test NAME ... RESULT`.
fn test_line(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("test ")?.split_once(" ... ")
}

fn count_before(counts: &str, unit: &str) -> usize {
    let end = counts.find(unit).unwrap_or(0);
    counts[..end].rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "
running 4 tests
test a::works ... ok
test a::needs_root ... ok
test a::slow ... ignored, takes an hour
test a::breaks ... FAILED

successes:

---- a::needs_root stdout ----
skipped: network namespaces need root
skipped: said twice

failures:

---- a::breaks stdout ----
skipped: this is printed by a test that failed
thread panicked

test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

running 2 tests
test src/lib.rs - b (line 3) ... ok
test src/lib.rs - b (line 9) - compile fail ... ok

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s
";

    #[test]
    fn passed_failed_and_skipped_are_told_apart() {
        let outcome = read(OUTPUT);
        assert_eq!(outcome.passed, 3);
        assert_eq!(outcome.failures, ["test a::breaks"]);
        assert_eq!(
            outcome.skips,
            ["a::slow: ignored, takes an hour", "a::needs_root: network namespaces need root",]
        );
    }

    #[test]
    fn no_output_counts_nothing() {
        assert_eq!(read(""), Outcome::default());
    }
}
