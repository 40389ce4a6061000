//! `cargo xtask vectors`: has the tests that make the vectors of
//! `docs/vectors` write them instead of comparing.

use std::path::Path;
use std::process::Command;

use crate::metadata::cargo;

/// Writes all files; true when each test that writes one succeeded.
pub(crate) fn write(root: &Path) -> bool {
    WRITERS.iter().all(|arguments| {
        let mut command = Command::new(cargo());
        command.current_dir(root).args(["test", "--quiet"]).args(*arguments);
        match command.env("RHUMB_WRITE_VECTORS", "1").status() {
            Ok(status) => status.success(),
            Err(error) => {
                eprintln!("cargo test: {error}");
                false
            }
        }
    })
}

/// What cargo is told for each crate that makes vectors.
const WRITERS: [&[&str]; 6] = [
    &["-p", "rhumb-trust", "--test", "all", "vectors::"],
    &["-p", "rhumb-link", "--lib", "keys::vectors"],
    &["-p", "rhumb-node", "--lib", "runs::tests::vectors"],
    &["-p", "rhumb-capability", "--test", "all", "model::"],
    &["-p", "rhumb-keyserver", "--test", "all", "record_vectors::"],
    &["-p", "rhumb-switch", "--test", "all", "stamp_vectors::"],
];
