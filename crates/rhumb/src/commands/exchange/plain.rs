//! Members that do not use the private service: a plain
//! route server beside it, at party one (RFC 7947).
//!
//! It learns what any route server learns: their routes, and by communities and
//! best paths their policies. A task drives one BGP session per client
//! (`daemon/bgp.rs`) and keeps one table (`rhumb_bgp::route_server`).
//!
//! A client with a proxy takes part in the private service by it: a `rhumb member` in its name, to
//! which this route server is the client's router. What the client announces goes there as it is,
//! and what the proxy has is for this client alone.
//!
//! Invariant: each client's orders are given in the order in which they follow from events, so that
//! it ends up with the best that there is.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rhumb_bgp::policy::{Member, MemberSet, Roster};
use rhumb_bgp::route_server::{Change, Table};
use rhumb_bgp::wire::BgpRole;
use rhumb_bgp::{Config, Event, Family, FamilyConfig, Order, Propagation, State};
use rhumb_daemon::config::{PlainClient, PlainSettings};
use rhumb_daemon::daemon::bgp::{Admitted, Listener, Neighbour, Reach, Status, TcpPassword};
use rhumb_daemon::failure::Outcome;
use rhumb_daemon::key;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// A plain route server that runs until dropped.
pub(super) struct Plain {
    clients: Arc<[Client]>,
    listener: Listener,
    task: AbortHandle,
}

struct Client {
    settings: PlainClient,
    neighbour: Neighbour,
    proxy: Option<Neighbour>,
}

impl Plain {
    /// Waits for the clients to connect. To be called in a runtime.
    pub(super) fn start(settings: &PlainSettings) -> Outcome<Self> {
        let (events, arriving) = mpsc::channel(EVENTS);
        let (mut clients, mut admitted) = (Vec::new(), Vec::new());
        for (number, client) in settings.clients.iter().enumerate() {
            let password = password(client)?;
            let address = SocketAddr::new(client.address, 0);
            let reach = Reach { address, local: None, password: password.clone() };
            let config = session_config(settings, client);
            let neighbour = Neighbour::start(config, reach, seed()?, number, events.clone())?;
            let proxy = client.proxy.map(|address| {
                let reach = Reach { address, local: None, password: None };
                let tag = settings.clients.len() + number;
                let config = proxy_config(settings, client);
                Neighbour::start(config, reach, seed()?, tag, events.clone())
            });
            let proxy = proxy.transpose()?;
            let door = neighbour.door();
            admitted.push(Admitted { address: client.address, password, door });
            clients.push(Client { settings: client.clone(), neighbour, proxy });
        }
        let listener = Listener::start(settings.listen, admitted)?;
        let clients: Arc<[Client]> = clients.into();
        let table = table(settings);
        let task = tokio::spawn(serve(Arc::clone(&clients), table, arriving)).abort_handle();
        Ok(Self { clients, listener, task })
    }

    /// For status.
    pub(super) fn status(&self) -> Value {
        let clients = self.clients.iter().map(|client| {
            let mut value = session_status(&client.neighbour.status());
            value["member"] = json!(client.settings.member);
            value["asn"] = json!(client.settings.asn);
            value["address"] = json!(client.settings.address);
            if let (Some(address), Some(proxy)) = (client.settings.proxy, &client.proxy) {
                value["proxy"] = session_status(&proxy.status());
                value["proxy"]["address"] = json!(address);
            }
            value
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
            for neighbour in std::iter::once(&client.neighbour).chain(&client.proxy) {
                neighbour.order(vec![Order::Stop("the route server ends".to_owned())]).await;
            }
        }
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn session_status(status: &Status) -> Value {
    json!({
        "state": format!("{:?}", status.state).to_lowercase(),
        "received": status.routes.iter().map(|family| family.received).sum::<usize>(),
        "sent": status.routes.iter().map(|family| family.sent).sum::<usize>(),
        "last_down": status.last_down.as_ref().map(ToString::to_string),
        "problem": status.problem,
    })
}

/// Whether clients' passwords can be read.
pub(super) fn check(settings: &PlainSettings) -> Outcome {
    settings.clients.iter().try_for_each(|client| password(client).map(drop))
}

/// The password that a client has, if there is to be one.
fn password(client: &PlainClient) -> Outcome<Option<TcpPassword>> {
    client.password.as_deref().map(|path| TcpPassword::read(path, "the client")).transpose()
}

fn seed() -> Outcome<u64> {
    Ok(u64::from_le_bytes(*key::fresh_secret()?.first_chunk().unwrap_or(&[0; 8])))
}

/// The table of these clients, at most as many as a configuration may have.
fn table(settings: &PlainSettings) -> Table {
    let roster = Roster::new(settings.clients.iter().map(|client| client.asn).collect());
    let roster = roster.expect("invariant: the configuration bounds the clients");
    let allowed = settings.clients.iter().map(|client| match &client.only {
        None => roster.all(),
        Some(asns) => {
            let listed = asns.iter().flat_map(|asn| roster.of_asn(*asn)).copied();
            roster.set(listed.collect::<Vec<Member>>())
        }
    });
    let allowed: Vec<MemberSet> = allowed.collect();
    Table::new(settings.asn, roster, allowed)
}

/// Of the session with a client.
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

/// Of the session with a client's proxy, as which the client is to be seen there: its number, and
/// its address for an identifier.
fn proxy_config(settings: &PlainSettings, client: &PlainClient) -> Config {
    let id = match client.address {
        IpAddr::V4(address) => address,
        IpAddr::V6(_) => settings.router_id,
    };
    let mut config = Config::new(client.asn, id, settings.asn);
    config.propagation = Propagation::Transparent;
    config.role = Some(BgpRole::RouteServerClient);
    // Paths begin with those who announce them.
    config.enforce_first_as = false;
    // The proxy has all when the client has said all.
    config.automatic_end_of_rib = false;
    config.timers.connect_retry = PROXY_RETRY;
    config
}

async fn serve(
    clients: Arc<[Client]>,
    mut table: Table,
    mut arriving: mpsc::Receiver<(usize, Event)>,
) {
    let mut events = Vec::new();
    // Families of which clients have said all.
    let mut ended = vec![Vec::new(); clients.len()];
    // Together, so that a table that comes in costs each client few batches of orders.
    while arriving.recv_many(&mut events, EVENTS).await > 0 {
        let mut orders = Orders::new(clients.len());
        for (tag, event) in events.drain(..) {
            let number = tag % clients.len();
            let client = Member(number as u16);
            if tag == number {
                orders.of_client(client, event, &mut table, &mut ended[number]);
            } else {
                orders.of_proxy(client, event, &mut table, &ended[number]);
            }
        }
        let Orders { clients: for_clients, proxies } = orders;
        let each = clients.iter().map(|client| Some(&client.neighbour)).zip(for_clients);
        let each = each.chain(clients.iter().map(|client| client.proxy.as_ref()).zip(proxies));
        for (neighbour, orders) in each {
            if let Some(neighbour) = neighbour
                && !orders.is_empty()
            {
                neighbour.order(orders).await;
            }
        }
    }
}

/// What follows from events, for each client and for each client's proxy.
struct Orders {
    clients: Vec<Vec<Order>>,
    proxies: Vec<Vec<Order>>,
}

impl Orders {
    fn new(count: usize) -> Self {
        let none = || (0..count).map(|_| Vec::new()).collect();
        Self { clients: none(), proxies: none() }
    }

    /// A client says something: other clients may be told, and its proxy.
    fn of_client(
        &mut self,
        client: Member,
        event: Event,
        table: &mut Table,
        ended: &mut Vec<Family>,
    ) {
        let for_proxy = &mut self.proxies[usize::from(client.0)];
        match event {
            Event::Up(negotiated) => table.identify(client, negotiated.remote_id),
            Event::Announced { prefix, attributes, .. } => {
                let changes = table.announce(client, prefix, &attributes);
                for_proxy.push(Order::Announce(prefix, attributes));
                self.add(changes);
            }
            Event::Withdrawn { prefix, .. } => {
                for_proxy.push(Order::Withdraw(prefix));
                self.add(table.withdraw(client, prefix));
            }
            Event::EndOfRib(family) => {
                for_proxy.push(Order::EndOfRib(family));
                if !ended.contains(&family) {
                    ended.push(family);
                }
            }
            _ => {}
        }
    }

    /// A client's proxy says something, which concerns this client alone.
    fn of_proxy(&mut self, client: Member, event: Event, table: &mut Table, ended: &[Family]) {
        match event {
            Event::Up(_) => {
                let ends = ended.iter().map(|family| Order::EndOfRib(*family));
                self.proxies[usize::from(client.0)].extend(ends);
            }
            Event::Announced { prefix, attributes, .. } => {
                self.add(table.offer(client, prefix, &attributes));
            }
            Event::Withdrawn { prefix, .. } => self.add(table.retract(client, prefix)),
            _ => {}
        }
    }

    fn add(&mut self, changes: Vec<Change>) {
        for Change { whose, prefix, best } in changes {
            self.clients[usize::from(whose.0)].push(match best {
                Some(attributes) => Order::Announce(prefix, attributes),
                None => Order::Withdraw(prefix),
            });
        }
    }
}

/// Events that wait, and that are handled together.
const EVENTS: usize = 1024;
/// A proxy is a process of the exchange's own on its own network: it may
/// be asked often, and is missed when it is away.
const PROXY_RETRY: Duration = Duration::from_secs(5);
