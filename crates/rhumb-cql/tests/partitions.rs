//! Nodes that cannot reach each other while clients reach all of them: the side with more than half
//! of the nodes goes on, the other one acknowledges nothing, and afterwards nothing is lost and
//! nothing comes back.

use std::time::Duration;

use rhumb_cql::Cluster;
use rhumb_rib::RibError;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::statement::Consistency;
use tokio::time::sleep;

use crate::cassandra::{Cassandra, USER};
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
        // Of before, since a password is agreed upon by a quorum, too.
        let by_itself = session_with(cluster, ALONE).await;
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
        let stale = withdrawals_at(&by_itself, &gone).await;
        let published = load.end().await;
        cluster.join_again(ALONE);
        assert_eq!((hidden, stale), (vec![], 0), "the node was not cut off");
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

/// A session that asks this node alone, for what it has itself.
async fn session_with(cluster: &Cassandra, node: usize) -> Session {
    let address = cluster.address_of(&[node], KEYSPACE).nodes()[0].parse().expect("an address");
    let target = NodeIdentifier::NodeAddress(address);
    let profile = ExecutionProfile::builder()
        .load_balancing_policy(SingleTargetLoadBalancingPolicy::new(target, None))
        .consistency(Consistency::One)
        .build();
    let address = cluster.address(KEYSPACE);
    let session = SessionBuilder::new().known_nodes(address.nodes()).user(USER, USER);
    let session = session.default_execution_profile_handle(profile.into_handle());
    session.build().await.expect("a connection")
}

/// How many withdrawals of a name a node has.
async fn withdrawals_at(session: &Session, holder: &Holder) -> usize {
    let text = format!("SELECT withdrawal FROM {KEYSPACE}.names WHERE name = ?");
    // It refuses some of what is asked while it waits for the others.
    for _ in 0..30 {
        if let Ok(read) = session.query_unpaged(text.clone(), (&holder.name().0[..],)).await {
            let read = read.into_rows_result().expect("rows");
            let (withdrawal,) = read.single_row::<(Option<Vec<u8>>,)>().expect("its row");
            return usize::from(withdrawal.is_some());
        }
        sleep(Duration::from_millis(500)).await;
    }
    panic!("the node that was cut off answers nothing");
}
