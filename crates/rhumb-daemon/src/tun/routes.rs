//! Networks behind hosts: this one says what lies behind it to names that are allowed and ask, and
//! asks others what lies behind them, again and again. What it takes of that is for
//! [`Sites`](rhumb_node::ip::sites::Sites) to say.

use std::time::Duration;

use ipnet::IpNet;
use rhumb_node::ip::{PORT, sites};
use rhumb_node::{Listener, Node};
use rhumb_wire::Name;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Shared;
use crate::failure::{Failure, Outcome};

/// Says what lies behind this host, for as long as the node is there.
pub(super) async fn say(mut listener: Listener, networks: Vec<IpNet>) {
    let said = sites::emit(&networks);
    let mut answers = JoinSet::new();
    while let Some(mut stream) = listener.accept().await {
        while answers.try_join_next().is_some() {}
        if answers.len() >= MOST_AT_ONCE {
            stream.reset(rhumb_node::BUSY);
            continue;
        }
        let said = said.clone();
        answers.spawn(timeout(PATIENCE, async move {
            // Who does not wait for it asks again.
            let _ = stream.write_all(&said).await;
            let _ = stream.deliver().await;
        }));
    }
}

/// Asks what lies behind a name, and again from time to time.
pub(super) async fn ask(node: Node, name: Name, shared: Shared) {
    let mut before = None;
    loop {
        let heard = timeout(PATIENCE, hear(&node, name)).await;
        let heard = heard.unwrap_or_else(|_| Err(Failure::operation_text("no answer in time")));
        let wait = match heard {
            Ok(networks) => {
                let refused = shared.lock().hear(name, networks.clone());
                if before.as_ref() != Some(&networks) {
                    tell(name, &networks, &refused);
                    before = Some(networks);
                }
                ASK_AGAIN_AFTER
            }
            Err(failure) => {
                tracing::info!(%name, %failure, "it does not say what lies behind it");
                TRY_AGAIN_AFTER
            }
        };
        tokio::time::sleep(wait).await;
    }
}

fn tell(name: Name, networks: &[IpNet], refused: &[IpNet]) {
    let listed =
        |networks: &[IpNet]| networks.iter().map(IpNet::to_string).collect::<Vec<_>>().join(" ");
    tracing::info!(%name, networks = listed(networks), "it says what lies behind it");
    if !refused.is_empty() {
        let networks = listed(refused);
        tracing::warn!(%name, networks, "it says that these lie behind it, and no --accept-route does");
    }
}

async fn hear(node: &Node, name: Name) -> Outcome<Vec<IpNet>> {
    let mut stream = node.open(name, PORT).await.map_err(Failure::operation)?;
    stream.shutdown().await.map_err(Failure::operation)?;
    let mut said = Vec::new();
    let longest = sites::LONGEST as u64 + 1;
    (&mut stream).take(longest).read_to_end(&mut said).await.map_err(Failure::operation)?;
    sites::parse(&said).ok_or_else(|| Failure::operation_text("what it says makes no sense"))
}

/// A network that is said to have moved is followed within this.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(60);
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(5);
/// As long as a connection may take to be made.
const PATIENCE: Duration = Duration::from_secs(12);
const MOST_AT_ONCE: usize = 64;
