//! The runtime of programs that have none: one thread for all nodes of a process, beside those that
//! nodes have themselves. Its work is short: it wakes, and hands over.

use std::sync::{Mutex, PoisonError};

use tokio::runtime::{Builder, Handle};

use super::{Fault, FaultKind, Here};

/// That of this process, once something was begun. It is there until the process ends.
static RUNTIME: Mutex<Option<Here<Handle>>> = Mutex::new(None);

/// The runtime of this process. After a fork the child has another one.
///
/// # Errors
/// When the system refuses a thread.
pub fn runtime() -> Result<Handle, Fault> {
    let mut kept = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(Ok(handle)) = kept.as_ref().map(Here::value) {
        return Ok(handle.clone());
    }
    let refused = |error: std::io::Error| {
        Fault::new(FaultKind::System, format!("the system refuses a thread: {error}"))
    };
    let made = Builder::new_current_thread()
        .max_blocking_threads(MOST_BLOCKING)
        .thread_name("rhumb-foreign")
        .enable_all()
        .build()
        .map_err(refused)?;
    let handle = made.handle().clone();
    std::thread::Builder::new()
        .name("rhumb-foreign".to_owned())
        .spawn(move || made.block_on(std::future::pending::<()>()))
        .map_err(refused)?;
    *kept = Some(Here::new(handle.clone()));
    Ok(handle)
}

/// Threads that open sealed keys and look up hosts.
const MOST_BLOCKING: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_one_and_works_without_those_who_ask() {
        let (one, other) = (runtime().unwrap(), runtime().unwrap());
        assert_eq!(one.id(), other.id());
        let (done, told) = std::sync::mpsc::channel();
        one.spawn(async move {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            let _ = done.send(7);
        });
        assert_eq!(told.recv(), Ok(7));
        assert_eq!(other.block_on(async { 8 }), 8);
    }
}
