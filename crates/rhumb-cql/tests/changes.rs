//! What one server changes is heard by the others, once they can, and whoever was away is told.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rhumb_cql::{Feed, Heard};
use rhumb_trust::{Removal, Window};
use rhumb_wire::{Name, Role};
use tokio::time::timeout;

use crate::world::{Holder, connect, with_cluster};

/// All names heard until these have been.
async fn hear(feed: &mut Feed, awaited: &[Name]) -> BTreeSet<Name> {
    let mut heard = BTreeSet::new();
    while !awaited.iter().all(|name| heard.contains(name)) {
        match timeout(PATIENCE, feed.next()).await.expect("in time").expect("an answer") {
            Heard::Names(names) => heard.extend(names),
            Heard::Lost => panic!("nothing was missed"),
            _ => {}
        }
    }
    heard
}

#[test]
fn a_change_through_one_server_is_heard_by_all_others_and_not_by_itself() {
    with_cluster(async |cluster| {
        let (one, other) = (connect(cluster).await, connect(cluster).await);
        let mut feeds = [one.feed().await.unwrap(), other.feed().await.unwrap()];
        let holders: Vec<Holder> = (0..20).map(|_| Holder::new()).collect();
        let names: Vec<Name> = holders.iter().map(Holder::name).collect();
        // Some at once, some one by one.
        let changes: Vec<_> = holders.iter().map(|it| it.change(&it.route(1))).collect();
        one.commit(&changes[..10]).await.unwrap();
        for change in &changes[10..] {
            one.commit(std::slice::from_ref(change)).await.unwrap();
        }
        hear(&mut feeds[1], &names).await;
        // A server that begins now hears what is new from now on, if not somewhat more.
        let late = connect(cluster).await;
        let mut late = late.feed().await.unwrap();
        let more = Holder::new();
        other.commit(&[more.change(&more.route(1))]).await.unwrap();
        let heard = hear(&mut feeds[0], &[more.name()]).await;
        // Other tests have servers of the same store.
        assert!(names.iter().all(|own| !heard.contains(own)), "not what it said itself");
        hear(&mut late, &[more.name()]).await;
        // And what a server says that came later than the one which hears it.
        let newest = connect(cluster).await;
        newest.commit(&[more.change(&more.route(2))]).await.unwrap();
        hear(&mut feeds[0], &[more.name()]).await;
    });
}

#[test]
fn what_is_heard_is_read_as_it_is_now() {
    with_cluster(async |cluster| {
        let (one, other) = (connect(cluster).await, connect(cluster).await);
        let mut feed = other.feed().await.unwrap();
        let holder = Holder::new();
        for sequence in 1..=5 {
            one.commit(&[holder.change(&holder.route(sequence))]).await.unwrap();
            hear(&mut feed, &[holder.name()]).await;
            let entry = other.entry(&holder.name()).await.unwrap().unwrap();
            let route = entry.route(crate::world::now_s()).unwrap();
            assert!(route.sequence >= sequence, "{} heard, {sequence} said", route.sequence);
        }
    });
}

#[test]
fn removals_are_kept_told_and_end() {
    with_cluster(async |cluster| {
        let (one, other) = (connect(cluster).await, connect(cluster).await);
        let mut feed = other.feed().await.unwrap();
        let (domain, member) = (Holder::of(Role::Domain), Holder::new().name());
        let removal = |sequence| {
            let window = Window::starting(crate::world::now_s(), 600);
            let removal = Removal::sign(&domain.0, None, member, sequence, window).unwrap();
            Some(Arc::new(removal.verify(crate::world::now_s()).unwrap()))
        };
        let key = (domain.name(), member);
        one.commit_removals(&[(key, removal(5))]).await.unwrap();
        while timeout(PATIENCE, feed.next()).await.expect("in time").unwrap() != Heard::Removals {}
        let found = |all: Vec<Option<Removal>>| {
            let of_domain = all.into_iter().flatten().filter(|it| it.issuer() == key.0);
            of_domain.map(|it| it.certificate().sequence).collect::<Vec<u64>>()
        };
        assert_eq!(found(other.removals().await.unwrap()), [5]);
        other.commit_removals(&[(key, removal(7))]).await.unwrap();
        // An older one from a server that has not heard of it.
        one.commit_removals(&[(key, removal(6))]).await.unwrap();
        assert_eq!(found(one.removals().await.unwrap()), [7]);
        one.commit_removals(&[(key, None)]).await.unwrap();
        assert!(found(other.removals().await.unwrap()).is_empty());
    });
}

const PATIENCE: Duration = Duration::from_secs(20);
