//! Nodes that cannot reach each other while clients reach all of them: the side with more than half
//! of the nodes goes on, the other one acknowledges nothing, and afterwards nothing is lost and
//! nothing comes back.

use std::time::Duration;

use rhumb_cql::Cluster;
use rhumb_rib::RibError;
use tokio::time::sleep;

use crate::faults::Load;
use crate::world::{Holder, KEYSPACE, connect, connect_to, now_s, options, with_cluster};

/// A node that is alone on its side.
const ALONE: usize = 0;

#[test]
fn a_node_cut_off_from_the_others_costs_no_answer_and_learns_what_it_missed() {
    with_cluster(async |cluster| {
        let server = connect(cluster).await;
        let (gone, stays) = (Holder::new(), Holder::new());
        for holder in [&gone, &stays] {
            server.commit(&[holder.change(&holder.route(1))]).await.unwrap();
        }
        let load = Load::begin(cluster).await;
        sleep(Duration::from_secs(1)).await;
        if !cluster.cut_off(ALONE) {
            load.end().await;
            println!("skipped: no right to make network namespaces with rules");
            return;
        }
        // A withdrawal that it does not hear of, though clients reach it as before.
        let entry = server.entry(&gone.name()).await.unwrap();
        let withdrawn = gone.after(entry, &gone.withdrawal(2));
        let hidden = server.commit(&[gone.becomes(withdrawn)]).await.unwrap();
        sleep(Duration::from_secs(6)).await;
        let published = load.end().await;
        cluster.join_again(ALONE);
        assert_eq!(hidden, []);
        assert!(published.errors.is_empty(), "{:?}", published.errors);
        assert!(published.read_errors.is_empty(), "{:?}", published.read_errors);
        cluster.settle();
        // It and one other are enough again: what it had before does not come back.
        cluster.stop(2);
        let server = connect_to(&cluster.address_of(&[ALONE, 1], KEYSPACE)).await;
        published.check(&server).await;
        let entry = server.entry(&gone.name()).await.unwrap().unwrap();
        assert_eq!((entry.route(now_s()), entry.withdrawal(now_s()).is_some()), (None, true));
        let entry = server.entry(&stays.name()).await.unwrap().unwrap();
        assert!(entry.route(now_s()).is_some());
        cluster.go_on(2);
    });
}

#[test]
fn where_no_node_reaches_another_nothing_is_acknowledged() {
    with_cluster(async |cluster| {
        let mut options = options();
        // As a RIB has it, but for a machine with much else to do.
        options.patience = Duration::from_secs(6);
        let server = Cluster::connect(&cluster.address(KEYSPACE), options).await.unwrap();
        let holder = Holder::new();
        server.commit(&[holder.change(&holder.route(1))]).await.unwrap();
        if !(0..3).all(|node| cluster.cut_off(node)) {
            println!("skipped: no right to make network namespaces with rules");
            return;
        }
        let (written, read) = tokio::join!(
            async { server.commit(&[holder.change(&holder.route(2))]).await },
            async { server.entry(&holder.name()).await },
        );
        (0..3).for_each(|node| cluster.join_again(node));
        let is_told = |error: &RibError| {
            matches!(error, RibError::StoreTooSlow { .. } | RibError::StoreWithoutQuorum { .. })
        };
        assert!(written.as_ref().is_err_and(is_told), "{written:?}");
        assert!(read.as_ref().is_err_and(is_told), "{read:?}");
        cluster.settle();
        let server = connect(cluster).await;
        let entry = server.entry(&holder.name()).await.unwrap().unwrap();
        assert!([1, 2].contains(&entry.route(now_s()).unwrap().sequence));
        assert_eq!(server.commit(&[holder.change(&holder.route(3))]).await.unwrap(), []);
    });
}
