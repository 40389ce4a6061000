//! What a daemon stores, name by name, for whoever may have a copy of it: pages of a bounded size,
//! one question at a time, answered beside the thread that moves datagrams.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Answers the query of a question by a page of what is stored now. It may wait, and is called on a
/// thread of its own.
pub type ListNames = Box<dyn Fn(&str) -> Result<Value, Refused> + Send + Sync>;

/// A status line and the sentence that refuses a question.
pub type Refused = (&'static str, String);

/// What there is to list, when it is known.
pub(super) struct Listing {
    list: OnceLock<Arc<ListNames>>,
    turn: Arc<Semaphore>,
}

impl Default for Listing {
    fn default() -> Self {
        Self { list: OnceLock::new(), turn: Arc::new(Semaphore::new(1)) }
    }
}

impl std::fmt::Debug for Listing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listing").field("is_offered", &self.list.get().is_some()).finish()
    }
}

impl Listing {
    /// Pages are read so from now on.
    pub(super) fn offer(&self, list: ListNames) {
        // Said once, when a daemon starts.
        let _ = self.list.set(Arc::new(list));
    }

    /// The answer to a query, within [`PAGE_WITHIN`].
    pub(super) async fn page(&self, query: String) -> Result<Value, Refused> {
        let busy = || ("503 Service Unavailable", BUSY.to_owned());
        let list = self.list.get().ok_or(("404 Not Found", NOTHING.to_owned()))?.clone();
        let turn = Arc::clone(&self.turn).acquire_owned();
        let read = async {
            let Ok(turn) = turn.await else { return Err(busy()) };
            // The turn ends with the reading, also where nobody waits for it any more.
            let read = move || {
                let _turn = turn;
                list(&query)
            };
            spawn_blocking(read).await.map_err(|_| busy())?
        };
        timeout(PAGE_WITHIN, read).await.map_err(|_| busy())?
    }
}

const NOTHING: &str = "no names are stored here; ask a RIB\n";
const BUSY: &str = "the store is busy; try again in a while\n";
/// Less than whoever asks waits for an answer.
const PAGE_WITHIN: Duration = Duration::from_millis(1500);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_store_that_hangs_holds_up_one_thread_and_says_so() {
        let (listing, (go, held)) = (Listing::default(), std::sync::mpsc::channel::<()>());
        assert_eq!(listing.page(String::new()).await.unwrap_err().0, "404 Not Found");
        let held = std::sync::Mutex::new(held);
        listing.offer(Box::new(move |_| {
            let _ = held.lock().unwrap().recv();
            Ok(Value::Null)
        }));
        for _ in 0..2 {
            let refused = listing.page(String::new()).await.unwrap_err();
            assert_eq!(refused, ("503 Service Unavailable", BUSY.to_owned()));
        }
        // The reading that hung ends; nobody else began one meanwhile.
        drop(go);
        let page = listing.page(String::new()).await.unwrap();
        assert_eq!(page, Value::Null);
    }
}
