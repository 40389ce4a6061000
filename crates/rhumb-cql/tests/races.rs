//! Servers that write the same names at once: the newest statement is in force in the end, nothing
//! that was withdrawn comes back, and what is not in force is not called stored.

use std::time::Duration;

use rhumb_rib::Entry;
use rhumb_rib::store::Change;
use rhumb_wire::Certificate;
use scylla::client::session_builder::SessionBuilder;
use tokio::task::JoinSet;

use crate::cassandra::USER;
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
                            let after = Some(entry.clone());
                            let change = Change { name, before: None, after };
                            if server.commit(&[change]).await.unwrap().is_empty() {
                                acknowledged.push(certificate);
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
        other.commit(&[holder.becomes(withdrawn)]).await.unwrap();
        // The first server has read nothing since, and writes what it knows.
        let late = holder.after(Some(holder.after(None, &route)), &holder.locator(4));
        one.commit(&[holder.becomes(late)]).await.unwrap();
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
        let session = SessionBuilder::new().known_node(node).user(USER, USER);
        let session = session.build().await.unwrap();
        let mut bytes = Vec::new();
        holder.route(9).emit(&mut bytes);
        let rank = rhumb_rib::cells::rank_of(9);
        let write = format!(
            "UPDATE {KEYSPACE}.names USING TIMESTAMP {rank} AND TTL 1 SET route = ? WHERE name = ?"
        );
        session.query_unpaged(write, (bytes, &holder.name().0[..])).await.unwrap();
        tokio::time::sleep(Duration::from_millis(2500)).await;
        assert_eq!(server.entry(&holder.name()).await.unwrap(), None);
        // Nobody else's suffers by it.
        let other = Holder::new();
        let both = [holder.change(&holder.route(8)), other.change(&other.route(8))];
        assert_eq!(server.commit(&both).await.unwrap(), [holder.name()]);
        assert_eq!(server.counts().shadowed, 1);
        assert!(server.entry(&other.name()).await.unwrap().is_some());
        // What is newer than all that ever was is stored.
        assert_eq!(server.commit(&[holder.change(&holder.route(10))]).await.unwrap(), []);
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
        server.commit(&[holder.removed()]).await.unwrap();
        for said in [&route, &holder.route(4)] {
            assert_eq!(server.commit(&[holder.change(said)]).await.unwrap(), [holder.name()]);
        }
        // Somebody adds something while another one removes what it has seen.
        let fresh = holder.change(&holder.route(6));
        server.commit(&[fresh]).await.unwrap();
        let other = connect(cluster).await;
        let entry = other.entry(&holder.name()).await.unwrap();
        let moved = holder.after(entry, &holder.locator(7));
        let both: [Change; 1] = [holder.becomes(moved)];
        let removal: [Change; 1] = [holder.removed()];
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
            if !server.commit(&[holder.becomes(entry)]).await.unwrap().is_empty() {
                refused = Some(via);
                break;
            }
        }
        assert_eq!(refused, Some(65));
        let entry = server.entry(&holder.name()).await.unwrap().unwrap();
        let ways: Vec<u64> = entry.routes(now_s()).map(|it| it.sequence).collect();
        assert_eq!(ways, (57..=64).collect::<Vec<u64>>(), "the newest eight");
        let known = holder.after(None, &holder.way(1, 200));
        let again = server.commit(&[holder.becomes(known)]).await.unwrap();
        assert_eq!(again, [], "no further one");
    });
}
