//! Servers that write the same names at once: the newest statement is in force in the end, nothing
//! that was withdrawn comes back, and what is not in force is not called stored.

use std::time::Duration;

use rhumb_rib::store::Change;
use rhumb_rib::{Entry, RibError};
use rhumb_wire::Certificate;
use scylla::client::session_builder::SessionBuilder;
use tokio::task::JoinSet;

use crate::world::{BY, Holder, KEYSPACE, connect, now_s, with_cluster};

/// What an entry says, in comparable form.
fn said(entry: &Entry) -> (Vec<Certificate>, [Option<Certificate>; 3]) {
    let now_s = now_s();
    let one = [entry.locator(now_s), entry.export(now_s), entry.withdrawal(now_s)];
    (entry.routes(now_s).cloned().collect(), one.map(Option::<&_>::cloned))
}

#[test]
fn three_servers_that_write_at_once_leave_what_one_would() {
    with_cluster(async |cluster| {
        let servers = [connect(cluster).await, connect(cluster).await, connect(cluster).await];
        let mut names = JoinSet::new();
        for number in 0..24u64 {
            let servers = servers.clone();
            names.spawn(async move {
                let holder = Holder::new();
                // Each server says something of everything, and none knows of the others.
                let mut writes = JoinSet::new();
                let mut all = Vec::new();
                for (at, server) in servers.iter().enumerate() {
                    let first = 10 * at as u64 + number % 7;
                    let said = [
                        holder.route(first + 1),
                        holder.way(2 + at as u8, first + 2 + number % 3),
                        holder.locator(first + 3),
                        holder.withdrawal(first + number % 4),
                    ];
                    all.extend(said.clone());
                    let (server, name) = (server.clone(), holder.name());
                    let mut entry = holder.entry();
                    writes.spawn(async move {
                        let mut acknowledged = Vec::new();
                        for certificate in said {
                            if entry.admit(&certificate, BY, now_s()).is_err() {
                                continue;
                            }
                            match server.commit(&[(name, Some(entry.clone()))]).await {
                                Ok(()) => acknowledged.push(certificate),
                                Err(error) => panic!("{error}"),
                            }
                        }
                        acknowledged
                    });
                }
                let acknowledged: Vec<Certificate> =
                    writes.join_all().await.into_iter().flatten().collect();
                let mut alone = holder.entry();
                for certificate in &acknowledged {
                    let _ = alone.admit(certificate, BY, now_s());
                }
                for server in &servers {
                    let entry = server.entry(&holder.name()).await.unwrap().unwrap();
                    assert_eq!(said(&entry), said(&alone), "{number}");
                }
            });
        }
        names.join_all().await;
    });
}

#[test]
fn an_old_write_that_comes_after_a_withdrawal_brings_nothing_back() {
    with_cluster(async |cluster| {
        let (one, other) = (connect(cluster).await, connect(cluster).await);
        let holder = Holder::new();
        let route = holder.route(5);
        one.commit(&[holder.change(&route)]).await.unwrap();
        let entry = other.entry(&holder.name()).await.unwrap();
        let withdrawn = holder.after(entry, &holder.withdrawal(6));
        other.commit(&[(holder.name(), Some(withdrawn))]).await.unwrap();
        // The first server has read nothing since, and writes what it knows.
        let late = holder.after(Some(holder.after(None, &route)), &holder.locator(4));
        one.commit(&[(holder.name(), Some(late))]).await.unwrap();
        for server in [&one, &other] {
            let entry = server.entry(&holder.name()).await.unwrap().unwrap();
            assert_eq!(said(&entry).0, []);
            assert_eq!(entry.locator(now_s()), None);
            assert!(entry.withdrawal(now_s()).is_some());
        }
    });
}

#[test]
fn what_is_hidden_by_something_newer_that_is_over_is_not_called_stored() {
    with_cluster(async |cluster| {
        let server = connect(cluster).await;
        let holder = Holder::new();
        // A newer route was there, and its time has passed.
        let node = cluster.address(KEYSPACE).nodes()[0].clone();
        let session = SessionBuilder::new().known_node(node).build().await.unwrap();
        let mut bytes = Vec::new();
        holder.route(9).emit(&mut bytes);
        let rank = rhumb_rib::cells::rank_of(9);
        let write = format!(
            "UPDATE {KEYSPACE}.names USING TIMESTAMP {rank} AND TTL 1 SET route = ? WHERE name = ?"
        );
        session.query_unpaged(write, (bytes, &holder.name().0[..])).await.unwrap();
        tokio::time::sleep(Duration::from_millis(2500)).await;
        assert_eq!(server.entry(&holder.name()).await.unwrap(), None);
        let refused = server.commit(&[holder.change(&holder.route(8))]).await;
        let Err(RibError::Shadowed { name }) = refused else { panic!("{refused:?}") };
        assert_eq!(name, holder.name());
        assert_eq!(server.counts().shadowed, 1);
        // What is newer than all that ever was is stored.
        server.commit(&[holder.change(&holder.route(10))]).await.unwrap();
        let entry = server.entry(&holder.name()).await.unwrap().unwrap();
        assert_eq!(entry.route(now_s()).unwrap().sequence, 10);
    });
}

#[test]
fn what_was_removed_comes_back_only_with_something_newer() {
    with_cluster(async |cluster| {
        let server = connect(cluster).await;
        let holder = Holder::new();
        let route = holder.route(5);
        server.commit(&[holder.change(&route)]).await.unwrap();
        server.commit(&[(holder.name(), None)]).await.unwrap();
        for said in [&route, &holder.route(4)] {
            let refused = server.commit(&[holder.change(said)]).await;
            assert!(matches!(refused, Err(RibError::Shadowed { .. })), "{refused:?}");
        }
        // Somebody adds something while another one removes what it has seen.
        let fresh = holder.change(&holder.route(6));
        server.commit(&[fresh]).await.unwrap();
        let other = connect(cluster).await;
        let entry = other.entry(&holder.name()).await.unwrap();
        let moved = holder.after(entry, &holder.locator(7));
        let both: [Change; 1] = [(holder.name(), Some(moved))];
        let removal: [Change; 1] = [(holder.name(), None)];
        let (added, removed) = tokio::join!(other.commit(&both), server.commit(&removal));
        added.unwrap();
        removed.unwrap();
        let entry = server.entry(&holder.name()).await.unwrap();
        if let Some(entry) = entry {
            assert_eq!(entry.locator(now_s()).map(|it| it.sequence), Some(7));
        }
    });
}

#[test]
fn ways_of_one_name_are_bounded_for_a_day() {
    with_cluster(async |cluster| {
        let server = connect(cluster).await;
        let holder = Holder::new();
        let mut refused = None;
        for via in 1..=100 {
            let said = holder.way(via, u64::from(via));
            // As if all the ones before were over.
            let entry = holder.after(None, &said);
            if let Err(error) = server.commit(&[(holder.name(), Some(entry))]).await {
                refused = Some((via, error));
                break;
            }
        }
        let (via, error) = refused.expect("a bound");
        assert!(matches!(error, RibError::TooManyWays { most: 64, .. }), "{error}");
        assert_eq!(via, 65);
        let entry = server.entry(&holder.name()).await.unwrap().unwrap();
        let ways: Vec<u64> = entry.routes(now_s()).map(|it| it.sequence).collect();
        assert_eq!(ways, (57..=64).collect::<Vec<u64>>(), "the newest eight");
        let known = holder.after(None, &holder.way(1, 200));
        server.commit(&[(holder.name(), Some(known))]).await.expect("no further one");
    });
}
