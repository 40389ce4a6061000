//! Two programs that greet each other by name.
//!
//! With a router at 127.0.0.1:7460, in two terminals:
//!
//! ```sh
//! cargo run -p rhumb-node --example hello -- 127.0.0.1:7460        # prints its name, and answers
//! cargo run -p rhumb-node --example hello -- 127.0.0.1:7460 NAME      # greets that name
//! ```

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rhumb_node::{Admits, Config, Identity, Name, Node, Role};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let router: SocketAddr = words.next().ok_or("usage: hello ROUTER-ADDRESS [NAME]")?.parse()?;
    let friend: Option<Name> = words.next().map(|word| word.parse()).transpose()?;

    // A program that is to keep its name keeps its key: `save_key`, `load_key`.
    let now_s = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
    let identity = Arc::new(Identity::generate(Role::Node, now_s)?);
    let node = Node::join(identity, Config::new(router)).await?;
    let mut port = node.bind(PORT, Admits::Everybody)?;

    match friend {
        Some(friend) => {
            port.send_to(friend, PORT, b"hello").await?;
            let answer = tokio::time::timeout(PATIENCE, port.receive()).await?;
            let answer = answer.ok_or("the node has ended")?;
            println!("{} says: {}", answer.from, String::from_utf8_lossy(&answer.body));
        }
        None => {
            println!("{}", node.name());
            while let Some(message) = port.receive().await {
                println!("{} says: {}", message.from, String::from_utf8_lossy(&message.body));
                port.send_to(message.from, PORT, b"hello to you, too").await?;
            }
        }
    }
    node.leave().await;
    Ok(())
}

const PORT: u16 = 7;
const PATIENCE: Duration = Duration::from_secs(10);
