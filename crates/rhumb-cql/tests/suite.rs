//! What every store does, in memory, in a file, and in a cluster.

use rhumb_rib::store::{Embedded, Memory};
use rhumb_rib::{Account, Footprint, Held};
use rhumb_wire::Name;

use crate::world::{AnyStore, BY, Holder, connect, with_cluster};

async fn what_is_committed_is_found(store: &mut AnyStore) {
    let holders = [(); 3].map(|()| Holder::new());
    let mut entries = Vec::new();
    for holder in &holders {
        let mut entry = holder.after(None, &holder.route(5));
        entry = holder.after(Some(entry), &holder.locator(6));
        entries.push((holder.name(), entry));
    }
    let changes: Vec<_> =
        entries.iter().map(|(name, entry)| (*name, Some(entry.clone()))).collect();
    store.commit(&changes).await.unwrap();
    for (name, entry) in &entries {
        assert_eq!(store.entry(name).await.unwrap().as_ref(), Some(entry));
        assert_eq!(store.first_with(&name.beginning()).await.unwrap(), Some(*name));
    }
    let all = store.all().await.unwrap();
    assert!(entries.iter().all(|entry| all.contains(entry)), "{all:?}");
    assert_eq!(store.entry(&Name([5; 32])).await.unwrap(), None);
    assert_eq!(store.first_with(&[5; 15]).await.unwrap(), None);
}

async fn what_is_removed_is_gone_and_counts_no_more(store: &mut AnyStore) {
    let publisher = Name([8; 32]);
    let (first, second) = (Holder::new(), Holder::new());
    let mut changes = [first.change(&first.route(5)), second.change(&second.route(5))];
    for (_, entry) in &mut changes {
        let holder = entry.as_mut().unwrap();
        let said = holder.route(crate::world::now_s()).unwrap().clone();
        let mut fresh = rhumb_rib::Entry::new(holder.metadata().clone(), publisher);
        fresh.admit(&said, publisher, crate::world::now_s()).unwrap();
        *holder = fresh;
    }
    store.commit(&changes).await.unwrap();
    let bytes = |at: usize| Footprint::of(changes[at].1.as_ref().unwrap()).bytes();
    let account = Account::Publisher(publisher);
    store.count_anew().await;
    let both = Held { names: 2, bytes: bytes(0) + bytes(1) };
    assert_eq!(store.held(&account).await.unwrap(), both);
    store.commit(&[(first.name(), None)]).await.unwrap();
    assert_eq!(store.entry(&first.name()).await.unwrap(), None);
    assert_eq!(store.first_with(&first.name().beginning()).await.unwrap(), None);
    store.count_anew().await;
    let one = Held { names: 1, bytes: bytes(1) };
    assert_eq!(store.held(&account).await.unwrap(), one);
    assert!(store.held(&Account::Admitted).await.unwrap().names >= 1);
    assert_eq!(store.held(&Account::Below(BY)).await.unwrap(), Held::default());
    // It may come back with something newer.
    store.commit(&[first.change(&first.route(6))]).await.unwrap();
    assert!(store.entry(&first.name()).await.unwrap().is_some());
}

/// Every store, one after the other.
macro_rules! for_every_store {
    ($($test:ident),*) => {
        mod memory {
            $(#[test] fn $test() {
                let mut store = super::AnyStore::Blocking(Box::new(super::Memory::new()));
                super::block_on(super::$test(&mut store));
            })*
        }
        mod file {
            $(#[test] fn $test() {
                let folder = tempfile::tempdir().unwrap();
                let file = super::Embedded::open(&folder.path().join("rib")).unwrap();
                super::block_on(super::$test(&mut super::AnyStore::Blocking(Box::new(file))));
            })*
        }
        mod cluster {
            $(#[test] fn $test() {
                super::with_cluster(async |cluster| {
                    let mut store = super::AnyStore::Cluster(super::connect(cluster).await);
                    super::$test(&mut store).await;
                });
            })*
        }
    };
}

for_every_store!(what_is_committed_is_found, what_is_removed_is_gone_and_counts_no_more);

fn block_on(test: impl Future<Output = ()>) {
    tokio::runtime::Runtime::new().unwrap().block_on(test);
}
