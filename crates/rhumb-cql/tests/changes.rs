//! What one server changes is heard by the others, once they can, and whoever was away is told.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

use rhumb_cql::{Feed, Heard};
use rhumb_trust::{Removal, Window};
use rhumb_wire::{Name, Role};
use tokio::time::{sleep, timeout};

use crate::world::{Holder, connect, connect_with, with_cluster};

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

/// Others would have in memory what was there before, for as long as that lasts.
#[test]
fn what_takes_longer_to_be_written_than_others_look_for_it_is_told_again_when_it_is_there() {
    with_cluster(async |cluster| {
        // One name after the other, so the last is written by whoever goes on with the commit.
        let slow = connect_with(cluster, |options| options.most_requests = 1).await;
        let holders: Vec<Holder> = (0..NAMES).map(|_| Holder::new()).collect();
        let changes: Vec<_> = holders.iter().map(|it| it.change(&it.route(1))).collect();
        let last = holders[NAMES - 1].name();
        let mut feed = connect(cluster).await.feed().await.unwrap();
        let told: Arc<Mutex<Vec<Instant>>> = Arc::default();
        let hearing = tokio::spawn({
            let told = told.clone();
            async move {
                loop {
                    // What fails meanwhile is asked for again.
                    if let Ok(Heard::Names(names) | Heard::Again(names)) = feed.next().await
                        && names.contains(&last)
                    {
                        told.lock().unwrap().push(Instant::now());
                    }
                }
            }
        });
        let times_told = || told.lock().unwrap().len();
        let is_over = || match told.lock().unwrap()[..] {
            [first, .., last] => last.duration_since(first) >= LAST_LOOK,
            _ => false,
        };
        let (mut writing, began) = (pin!(slow.commit(&changes)), Instant::now());
        while times_told() == 0 {
            assert!(began.elapsed() < PATIENCE, "nobody is told of it");
            // A name at most each time.
            let written = polled(1, writing.as_mut()).await;
            assert!(written.is_none(), "{written:?} before anybody was told");
            sleep(PATIENCE / NAMES as u32).await;
        }
        // Nothing more is written meanwhile.
        while !is_over() {
            assert!(began.elapsed() < 3 * PATIENCE, "it is told {} times", times_told());
            sleep(Duration::from_millis(50)).await;
        }
        let before = times_told();
        assert_eq!(writing.await.unwrap(), []);
        let stored = Instant::now();
        while times_told() == before {
            assert!(stored.elapsed() < PATIENCE, "nobody is told that it is there");
            sleep(Duration::from_millis(50)).await;
        }
        hearing.abort();
    });
}

/// What comes of a future that is polled so often and then dropped, if anything does.
async fn polled<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let (mut future, mut left) = (pin!(future), polls);
    poll_fn(move |context| match left {
        0 => Poll::Ready(None),
        _ => {
            left -= 1;
            future.as_mut().poll(context).map(Some)
        }
    })
    .await
}

/// By an error of one of several servers' reads, or by whoever listens.
#[test]
fn nothing_is_lost_where_hearing_is_interrupted() {
    with_cluster(async |cluster| {
        let one = connect(cluster).await;
        let mut feed = connect(cluster).await.feed().await.unwrap();
        let mut others = Vec::new();
        for _ in 0..OTHERS {
            let other = connect(cluster).await;
            let holder = Holder::new();
            other.commit(&[holder.change(&holder.route(1))]).await.unwrap();
            others.push(other);
        }
        let (mut names, mut heard) = (Vec::new(), BTreeSet::new());
        for polls in 1..=MOST_POLLS {
            let holder = Holder::new();
            names.push(holder.name());
            one.commit(&[holder.change(&holder.route(1))]).await.unwrap();
            if let Some(Ok(Heard::Names(names))) = polled(polls, feed.next()).await {
                heard.extend(names);
            }
        }
        let began = Instant::now();
        while let Some(name) = names.iter().find(|name| !heard.contains(*name)) {
            assert!(began.elapsed() < PATIENCE, "{name} was never told");
            if let Ok(Heard::Names(names)) = feed.next().await {
                heard.extend(names);
            }
        }
    });
}

/// It may be there all the same, and then everybody has to look again.
#[test]
fn what_failed_is_told_to_all_and_to_whoever_wrote_it() {
    with_cluster(async |cluster| {
        let impatient = connect_with(cluster, |options| options.patience = SHORT_PATIENCE).await;
        let mut feeds =
            [impatient.feed().await.unwrap(), connect(cluster).await.feed().await.unwrap()];
        let holder = Holder::new();
        [1, 2].iter().for_each(|node| cluster.stop(*node));
        let written = impatient.commit(&[holder.change(&holder.route(1))]).await;
        [1, 2].iter().for_each(|node| cluster.go_on(*node));
        assert!(written.is_err(), "{written:?}");
        for (feed, whose) in feeds.iter_mut().zip(["its own", "another's"]) {
            let began = Instant::now();
            loop {
                assert!(began.elapsed() < 3 * PATIENCE, "{whose} is not told");
                // What fails meanwhile is asked for again.
                let heard = feed.next().await;
                if heard.is_ok_and(
                    |it| matches!(it, Heard::Names(names) if names.contains(&holder.name())),
                ) {
                    break;
                }
            }
        }
        cluster.settle();
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
/// Servers whose changes are read beside.
const OTHERS: usize = 8;
/// As often is a look at all of them polled, and more.
const MOST_POLLS: usize = 30;
/// Of a commit that is to fail.
const SHORT_PATIENCE: Duration = Duration::from_secs(2);
/// Enough that the last is not written before others hear of it.
const NAMES: usize = 400;
/// A change is told for the last time so long after it was first.
const LAST_LOOK: Duration = Duration::from_millis(9900);
