//! Members that do not use the private service: a plain route server beside it, at party one (RFC 7947).
//!
//! It learns what any route server learns: their routes, and by communities and best paths their policies. A task drives one BGP session
//! per client (`daemon/bgp.rs`) and keeps one table (`plain/table.rs`).
//!
//! Invariant: each client's orders are given in the order in which they follow from events, so that it ends up with the best that there is.

use std::sync::Arc;

use rhumb_bgp::policy::Member;
use rhumb_bgp::wire::BgpRole;
use rhumb_bgp::{Config, Event, Family, FamilyConfig, Propagation, State};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::config::{PlainClient, PlainSettings};
use crate::daemon::bgp::{Admitted, Listener, Neighbour, Order, Reach, TcpPassword};
use crate::failure::{Failure, Outcome};
use crate::{key, secret_file};
use table::{Change, Table};

mod table;

/// A plain route server that runs until dropped.
pub(super) struct Plain {
    clients: Arc<[Client]>,
    listener: Listener,
    task: AbortHandle,
}

struct Client {
    settings: PlainClient,
    neighbour: Neighbour,
}

impl Plain {
    /// Waits for the clients to connect. To be called in a runtime.
    pub(super) fn start(settings: &PlainSettings) -> Outcome<Self> {
        let (events, arriving) = mpsc::channel(EVENTS);
        let (mut clients, mut admitted) = (Vec::new(), Vec::new());
        for (number, client) in settings.clients.iter().enumerate() {
            let password = client.password.as_deref().map(|path| {
                let text = secret_file::read(path, "put the secret that the client has into it")?;
                Ok::<_, Failure>(TcpPassword::new(text.trim_end().as_bytes().to_vec().into()))
            });
            let password = password.transpose()?;
            let seed = u64::from_le_bytes(*key::fresh_secret()?.first_chunk().unwrap_or(&[0; 8]));
            let address = std::net::SocketAddr::new(client.address, 0);
            let reach = Reach { address, local: None, password: password.clone() };
            let config = session_config(settings, client);
            let neighbour = Neighbour::start(config, reach, seed, number, events.clone())?;
            let door = neighbour.door();
            admitted.push(Admitted { address: client.address, password, door });
            clients.push(Client { settings: client.clone(), neighbour });
        }
        let listener = Listener::start(settings.listen, admitted)?;
        let clients: Arc<[Client]> = clients.into();
        let table = Table::new(settings.asn, &settings.clients);
        let task = tokio::spawn(serve(Arc::clone(&clients), table, arriving)).abort_handle();
        Ok(Self { clients, listener, task })
    }

    /// For status.
    pub(super) fn status(&self) -> Value {
        let clients = self.clients.iter().map(|client| {
            let status = client.neighbour.status();
            json!({
                "member": client.settings.member,
                "asn": client.settings.asn,
                "address": client.settings.address,
                "state": format!("{:?}", status.state).to_lowercase(),
                "received": status.routes.iter().map(|family| family.received).sum::<usize>(),
                "sent": status.routes.iter().map(|family| family.sent).sum::<usize>(),
                "last_down": status.last_down.map(|reason| reason.to_string()),
            })
        });
        json!({
            "address": self.listener.address,
            "refused": self.listener.refused(),
            "clients": clients.collect::<Vec<Value>>(),
        })
    }

    /// Clients whose sessions are up, and routes that they have announced.
    pub(super) fn totals(&self) -> (u64, u64) {
        let statuses = self.clients.iter().map(|client| client.neighbour.status());
        statuses.fold((0, 0), |(up, routes), status| {
            let received: usize = status.routes.iter().map(|family| family.received).sum();
            (up + u64::from(status.state == State::Established), routes + received as u64)
        })
    }

    /// Ends the sessions with a word for the clients' operators.
    pub(super) async fn stop(&self) {
        for client in &*self.clients {
            client.neighbour.order(vec![Order::Stop("the route server ends".to_owned())]).await;
        }
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn session_config(settings: &PlainSettings, client: &PlainClient) -> Config {
    let mut config = Config::new(settings.asn, settings.router_id, client.asn);
    config.passive = true;
    config.propagation = Propagation::Transparent;
    config.role = Some(BgpRole::RouteServer);
    for family in Family::ALL {
        let max_prefixes = Some(client.max_prefixes);
        config.set_family(family, Some(FamilyConfig { max_prefixes, ..FamilyConfig::default() }));
    }
    config
}

async fn serve(
    clients: Arc<[Client]>,
    mut table: Table,
    mut arriving: mpsc::Receiver<(usize, Event)>,
) {
    let mut events = Vec::new();
    // Together, so that a table that comes in costs each client few batches of orders.
    while arriving.recv_many(&mut events, EVENTS).await > 0 {
        let mut orders: Vec<Vec<Order>> = clients.iter().map(|_| Vec::new()).collect();
        for (number, event) in events.drain(..) {
            let client = Member(number as u16);
            let changes = match event {
                Event::Up(negotiated) => {
                    table.identify(client, negotiated.remote_id);
                    continue;
                }
                Event::Announced { prefix, attributes, .. } => {
                    table.announce(client, prefix, &attributes)
                }
                Event::Withdrawn { prefix, .. } => table.withdraw(client, prefix),
                _ => continue,
            };
            for Change { whose, prefix, best } in changes {
                orders[usize::from(whose.0)].push(match best {
                    Some(attributes) => Order::Announce(prefix, attributes),
                    None => Order::Withdraw(prefix),
                });
            }
        }
        for (client, orders) in clients.iter().zip(orders) {
            if !orders.is_empty() {
                client.neighbour.order(orders).await;
            }
        }
    }
}

/// Events that wait, and that are handled together.
const EVENTS: usize = 1024;
