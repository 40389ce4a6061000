//! What every store does, in memory, in a file, in a cluster, and in one that speaks TLS.

use std::sync::Arc;

use rhumb_rib::store::{Embedded, Memory, Wanted};
use rhumb_rib::{Account, Footprint, Held, RibError};
use rhumb_trust::{Removal, Window};
use rhumb_wire::{Name, Role};

use crate::cassandra::Purpose;
use crate::world::{AnyStore, BY, Holder, connect, now_s, with_cluster, with_cluster_for};

async fn what_is_committed_is_found(store: &mut AnyStore) {
    let holders = [(); 3].map(|()| Holder::new());
    let mut entries = Vec::new();
    for holder in &holders {
        let mut entry = holder.after(None, &holder.route(5));
        entry = holder.after(Some(entry), &holder.locator(6));
        entries.push((holder.name(), entry));
    }
    let changes: Vec<_> =
        holders.iter().zip(&entries).map(|(it, (_, entry))| it.becomes(entry.clone())).collect();
    store.commit(&changes).await.expect("an answer");
    for (name, entry) in &entries {
        assert_eq!(store.entry(name).await.expect("an answer").as_ref(), Some(entry));
        assert_eq!(store.first_with(&name.beginning()).await.expect("an answer"), Some(*name));
    }
    let all = store.all().await.expect("an answer");
    assert!(entries.iter().all(|entry| all.contains(entry)), "{all:?}");
    assert_eq!(store.entry(&Name([5; 32])).await.expect("an answer"), None);
    assert_eq!(store.first_with(&[5; 15]).await.expect("an answer"), None);
}

async fn what_is_removed_is_gone_and_counts_no_more(store: &mut AnyStore) {
    let publisher = Name([8; 32]);
    let (first, second) = (Holder::new(), Holder::new());
    let mut changes = [first.change(&first.route(5)), second.change(&second.route(5))];
    for change in &mut changes {
        let holder = change.after.as_mut().expect("is there");
        let said = holder.route(now_s()).expect("is there").clone();
        let mut fresh = rhumb_rib::Entry::new(holder.metadata().clone(), publisher);
        fresh.admit(&said, publisher, now_s()).expect("is there");
        *holder = fresh;
    }
    store.commit(&changes).await.expect("an answer");
    let bytes = |at: usize| Footprint::of(changes[at].after.as_ref().expect("is there")).bytes();
    let account = Account::Publisher(publisher);
    store.count_anew().await;
    let both = Held { names: 2, bytes: bytes(0) + bytes(1) };
    assert_eq!(store.held(&account).await.expect("an answer"), both);
    store.commit(&[first.removed()]).await.expect("an answer");
    assert_eq!(store.entry(&first.name()).await.expect("an answer"), None);
    assert_eq!(store.first_with(&first.name().beginning()).await.expect("an answer"), None);
    store.count_anew().await;
    let one = Held { names: 1, bytes: bytes(1) };
    assert_eq!(store.held(&account).await.expect("an answer"), one);
    assert!(store.held(&Account::Admitted).await.expect("an answer").names >= 1);
    assert_eq!(store.held(&Account::Below(BY)).await.expect("an answer"), Held::default());
    // It may come back with something newer.
    store.commit(&[first.change(&first.route(6))]).await.expect("an answer");
    assert!(store.entry(&first.name()).await.expect("an answer").is_some());
}

async fn the_newest_entry_takes_the_place_of_the_one_before(store: &mut AnyStore) {
    let holder = Holder::new();
    let name = holder.name();
    let said = [holder.route(5), holder.route(6), holder.locator(7), holder.withdrawal(6)];
    let mut entry = None;
    for certificate in &said {
        let after = holder.after(entry, certificate);
        store.commit(&[holder.becomes(after.clone())]).await.expect("an answer");
        let found = store.entry(&name).await.expect("an answer").expect("is there");
        assert_eq!(
            found.routes(now_s()).collect::<Vec<_>>(),
            after.routes(now_s()).collect::<Vec<_>>()
        );
        assert_eq!(found.locator(now_s()), after.locator(now_s()));
        assert_eq!(found.withdrawal(now_s()), after.withdrawal(now_s()));
        entry = Some(found);
    }
    let mut entry = entry.expect("is there");
    assert_eq!((entry.route(now_s()), entry.locator(now_s())), (None, Some(&said[2])));
    // What was superseded is so after it was stored and read, too.
    for certificate in [&said[0], &said[1], &said[3], &holder.route(6), &holder.locator(7)] {
        let before = entry.clone();
        if entry.admit(certificate, BY, now_s()) != Ok(rhumb_rib::Admission::Known) {
            assert_eq!(entry, before, "{certificate:?}");
        }
    }
    let ways = [holder.way(3, 10), holder.way(2, 11), holder.way(3, 12)];
    for way in &ways {
        entry = holder.after(Some(entry), way);
        store.commit(&[holder.becomes(entry.clone())]).await.expect("an answer");
    }
    let found = store.entry(&name).await.expect("an answer").expect("is there");
    assert_eq!(found.routes(now_s()).collect::<Vec<_>>(), [&ways[1], &ways[2]]);
}

async fn removals_are_kept_by_who_said_them_of_whom(store: &mut AnyStore) {
    let domain = Holder::of(Role::Domain);
    let members = [Holder::new().name(), Holder::new().name()];
    let removal = |member, sequence| {
        let window = Window::starting(now_s(), 600);
        let removal = Removal::sign(&domain.0, None, member, sequence, window).expect("is there");
        ((domain.name(), member), Some(Arc::new(removal.verify(now_s()).expect("is there"))))
    };
    store
        .commit_removals(&[removal(members[0], 5), removal(members[1], 6)])
        .await
        .expect("an answer");
    store.commit_removals(&[removal(members[0], 7)]).await.expect("an answer");
    store.commit_removals(&[((domain.name(), members[1]), None)]).await.expect("an answer");
    let all = store.removals().await.expect("an answer").into_iter().flatten();
    let own: Vec<Removal> = all.filter(|it| it.issuer() == domain.name()).collect();
    let [left] = own.try_into().expect("is there");
    assert_eq!((left.removed(), left.certificate().sequence), (members[0], 7));
}

async fn all_names_are_listed_once_page_by_page_and_a_whole_one_is_found(store: &mut AnyStore) {
    let holders = [(); 5].map(|()| Holder::new());
    let changes = holders.each_ref().map(|it| it.change(&it.route(5)));
    store.commit(&changes).await.expect("an answer");
    let mut listed = Vec::new();
    let mut wanted = Wanted { limit: 2, ..Wanted::default() };
    loop {
        let page = store.page(&wanted).await.expect("an answer");
        assert!(page.names.len() <= 2, "{page:?}");
        listed.extend(page.names);
        match page.next {
            Some(next) => wanted.after = Some(next),
            None => break,
        }
    }
    for holder in &holders {
        let mine = listed.iter().filter(|(name, _)| *name == holder.name());
        let entries: Vec<_> = mine.map(|(_, entry)| entry.as_ref().expect("whole")).collect();
        assert_eq!(entries.len(), 1);
        assert_eq!(entries[0].route(now_s()).expect("is there").sequence, 5);
    }
    let name = holders[0].name();
    let begins =
        |text: &str| Wanted { beginning: text.parse().expect("one"), after: None, limit: 2 };
    let whole = store.page(&begins(&name.to_string())).await.expect("an answer");
    assert_eq!((whole.names.len(), whole.names[0].0, whole.next), (1, name, None));
    let nobody = store.page(&begins(&Name([5; 32]).to_string())).await.expect("an answer");
    assert_eq!((nobody.names.len(), nobody.next), (0, None));
    // Where names are in no order, that is said.
    let found = store.page(&begins(&name.to_string()[..20])).await;
    match store {
        AnyStore::Cluster(_) => assert!(matches!(found, Err(RibError::NotInOrder)), "{found:?}"),
        AnyStore::Blocking(_) => assert_eq!(found.expect("an answer"), whole),
    }
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
        mod secured {
            $(#[test] fn $test() {
                super::with_cluster_for(super::Purpose::Secured, async |cluster| {
                    let mut store = super::AnyStore::Cluster(super::connect(cluster).await);
                    super::$test(&mut store).await;
                });
            })*
        }
    };
}

for_every_store!(
    what_is_committed_is_found,
    what_is_removed_is_gone_and_counts_no_more,
    the_newest_entry_takes_the_place_of_the_one_before,
    removals_are_kept_by_who_said_them_of_whom,
    all_names_are_listed_once_page_by_page_and_a_whole_one_is_found
);

fn block_on(test: impl Future<Output = ()>) {
    tokio::runtime::Runtime::new().expect("a runtime").block_on(test);
}
