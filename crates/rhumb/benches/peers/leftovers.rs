//! Files outside of a turn's folder that processes leave when they are killed, and an end by a
//! signal that leaves none. Processes and namespaces end with the bench by themselves.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use tokio::signal::unix::{SignalKind, signal};

static FILES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Has `files` removed with the rest.
pub(crate) fn expect(files: impl IntoIterator<Item = PathBuf>) {
    FILES.lock().unwrap_or_else(PoisonError::into_inner).extend(files);
}

/// Removes what is expected.
pub(crate) fn remove() {
    for file in FILES.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        // If it is gone, all the better.
        let _ = std::fs::remove_file(file);
    }
}

/// From now on Ctrl-C and SIGTERM end the bench after a removal.
///
/// # Errors
/// When the system lets no signals be caught.
pub(crate) fn remove_at_signals() -> Result<(), String> {
    let describe = |error: std::io::Error| format!("signals: {error}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(describe)?;
    let entered = runtime.enter();
    let mut interrupt = signal(SignalKind::interrupt()).map_err(describe)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(describe)?;
    drop(entered);
    let wait = move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        });
        remove();
        std::process::exit(BY_SIGNAL);
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(describe)?;
    Ok(())
}

/// As shells say that Ctrl-C ended a program.
const BY_SIGNAL: i32 = 130;
