//! A node, and the names that it serves beside its own.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use rhumb_node::foreign::{
    self, Entrance, Fault, FaultKind, Here, check_nobody_is, check_role, find_router,
    identity_of_node, parse_admits, parse_name,
};
use rhumb_node::{Config, Passphrase, RouterChoice};

use crate::courier::Courier;
use crate::error::OrRaise;
use crate::intake::{Listener, Port};
use crate::key::{AdCert, Identity};
use crate::progress::Progress;
use crate::stream::Stream;

/// A name that is joined to a router.
#[pyclass(frozen, module = "rhumb._native")]
pub(crate) struct Node {
    node: Here<rhumb_node::Node>,
    #[pyo3(get)]
    name: String,
}

/// How to join, as Python says it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Options {
    router: Option<String>,
    /// Of this host: that of the label, or the only one.
    network: Option<Label>,
    roots: Vec<String>,
    only: Vec<String>,
    bind: Option<String>,
    timeout: f64,
    give_up_after: f64,
    require_published: bool,
    tls: bool,
}

/// `True`, or what the network is called here.
#[derive(FromPyObject)]
enum Label {
    Any(bool),
    Text(String),
}

/// Whose name a node has.
enum Owner {
    Known(Arc<rhumb_node::Identity>),
    Kept(Option<PathBuf>, Option<Passphrase>),
}

#[pymethods]
impl Node {
    /// Joins as `identity`, or as a key file says, or under a name of the moment.
    #[staticmethod]
    fn join(
        courier: &Bound<'_, Courier>,
        future: &Bound<'_, PyAny>,
        identity: Option<&Bound<'_, Identity>>,
        key: (Option<PathBuf>, Option<String>),
        options: Options,
    ) -> PyResult<u64> {
        let owner = match identity {
            Some(identity) => Owner::Known(Arc::clone(&identity.get().identity)),
            None => Owner::Kept(key.0, key.1.map(Passphrase::new)),
        };
        courier.get().send(future, async move {
            let entrance = options.entrance()?;
            let (owner, is_this_hosts) = match (owner, &entrance) {
                (Owner::Kept(None, passphrase), Some(entrance)) => {
                    (Owner::Kept(Some(entrance.key.clone()), passphrase), true)
                }
                (owner, _) => (owner, false),
            };
            let identity = owner.identity().await?;
            if is_this_hosts {
                let name = identity.name();
                let check = tokio::task::spawn_blocking(move || check_nobody_is(name));
                check.await.map_err(|error| Fault::new(FaultKind::System, error))??;
            }
            let config = options.config(entrance).await?;
            let node = rhumb_node::Node::join(identity, config).await?;
            let name = node.name().to_string();
            Ok::<_, Fault>(Self { node: Here::new(node), name })
        })
    }

    /// A port for datagrams.
    fn bind(&self, py: Python<'_>, port: u16, allow: Vec<String>) -> PyResult<Port> {
        let admits = parse_admits(allow.iter().map(String::as_str)).or_raise(py)?;
        let bound = self.node.value().or_raise(py)?.bind(port, admits);
        Ok(Port::new(bound.or_raise(py)?))
    }

    /// A port for streams.
    fn listen(&self, py: Python<'_>, port: u16, allow: Vec<String>) -> PyResult<Listener> {
        let admits = parse_admits(allow.iter().map(String::as_str)).or_raise(py)?;
        let listener = self.node.value().or_raise(py)?.listen(port, admits);
        Ok(Listener::new(listener.or_raise(py)?))
    }

    /// A stream to a port of a name.
    fn open(
        &self,
        courier: &Bound<'_, Courier>,
        future: &Bound<'_, PyAny>,
        peer: &str,
        port: u16,
    ) -> PyResult<u64> {
        let py = future.py();
        let (node, peer) =
            (self.node.value().or_raise(py)?.clone(), parse_name(peer).or_raise(py)?);
        courier.get().send(future, async move { node.open(peer, port).await.map(Stream::new) })
    }

    /// A datagram that nobody can answer.
    fn send(
        &self,
        courier: &Bound<'_, Courier>,
        future: &Bound<'_, PyAny>,
        to: &str,
        port: u16,
        body: PyBackedBytes,
    ) -> PyResult<u64> {
        let py = future.py();
        let (node, to) = (self.node.value().or_raise(py)?.clone(), parse_name(to).or_raise(py)?);
        let body = body.to_vec();
        courier.get().send(future, async move { node.send_to(to, port, &body).await })
    }

    /// The round trip to a name, in seconds.
    fn ping(
        &self,
        courier: &Bound<'_, Courier>,
        future: &Bound<'_, PyAny>,
        to: &str,
        timeout: f64,
    ) -> PyResult<u64> {
        let py = future.py();
        let (node, to) = (self.node.value().or_raise(py)?.clone(), parse_name(to).or_raise(py)?);
        let timeout = duration(timeout).or_raise(py)?;
        courier.get().send(future, async move {
            node.ping(to, timeout).await.map(|reply| reply.rtt.as_secs_f64())
        })
    }

    /// Answers for the owner of an AdCert.
    fn serve(
        &self,
        courier: &Bound<'_, Courier>,
        future: &Bound<'_, PyAny>,
        ad_cert: &Bound<'_, AdCert>,
    ) -> PyResult<u64> {
        let node = self.node.value().or_raise(future.py())?.clone();
        let ad_cert = ad_cert.get().ad_cert.clone();
        courier.get().send(future, async move {
            let service = node.serve(ad_cert).await?;
            let name = service.name().to_string();
            let service = Here::new(Arc::new(service));
            Ok::<_, Fault>(Service { service, name })
        })
    }

    /// Sends a file: how many bytes that were.
    fn send_file(
        &self,
        courier: &Bound<'_, Courier>,
        future: &Bound<'_, PyAny>,
        to: &str,
        path: PathBuf,
        progress: Option<&Bound<'_, Progress>>,
    ) -> PyResult<u64> {
        let py = future.py();
        let (node, to) = (self.node.value().or_raise(py)?.clone(), parse_name(to).or_raise(py)?);
        let note = Progress::noting(progress);
        courier.get().send(future, async move {
            foreign::send_file(&node, to, path, note).await.map(|report| report.bytes)
        })
    }

    /// Receives a file of up to `most` bytes into a folder: where it is, from whom, and for whom.
    fn receive_file(
        &self,
        courier: &Bound<'_, Courier>,
        future: &Bound<'_, PyAny>,
        folder: PathBuf,
        bounds: (Vec<String>, u64),
        progress: Option<&Bound<'_, Progress>>,
    ) -> PyResult<u64> {
        let py = future.py();
        let node = self.node.value().or_raise(py)?.clone();
        let (allow, most) = bounds;
        let admits = parse_admits(allow.iter().map(String::as_str)).or_raise(py)?;
        let note = Progress::noting(progress);
        courier.get().send(future, async move {
            let (path, report) = foreign::receive_file(&node, folder, admits, most, note).await?;
            let (from, to) = (report.from.to_string(), report.to.to_string());
            Ok::<_, Fault>((path, from, to, report.bytes))
        })
    }

    /// How it is, as JSON.
    fn status(&self, courier: &Bound<'_, Courier>, future: &Bound<'_, PyAny>) -> PyResult<u64> {
        let node = self.node.value().or_raise(future.py())?.clone();
        courier.get().send(future, async move {
            let status = node.status().await?;
            serde_json::to_string(&status).map_err(|error| Fault::new(FaultKind::System, error))
        })
    }

    /// Withdraws the name; says whether the router confirmed that.
    fn leave(&self, courier: &Bound<'_, Courier>, future: &Bound<'_, PyAny>) -> PyResult<u64> {
        let node = self.node.value().or_raise(future.py())?.clone();
        courier.get().send(future, async move { Ok::<_, Fault>(node.leave().await) })
    }

    fn __repr__(&self) -> String {
        format!("<rhumb.Node {}>", self.name)
    }
}

/// A name that a node answers for by its owner's AdCert, until this is dropped.
#[pyclass(frozen, module = "rhumb._native")]
pub(crate) struct Service {
    service: Here<Arc<rhumb_node::Service>>,
    #[pyo3(get)]
    name: String,
}

#[pymethods]
impl Service {
    /// Goes on by a newer AdCert of the same owner.
    fn renew(
        &self,
        courier: &Bound<'_, Courier>,
        future: &Bound<'_, PyAny>,
        ad_cert: &Bound<'_, AdCert>,
    ) -> PyResult<u64> {
        let service = Arc::clone(self.service.value().or_raise(future.py())?);
        let ad_cert = ad_cert.get().ad_cert.clone();
        courier.get().send(future, async move { service.renew(ad_cert).await })
    }
}

impl Owner {
    async fn identity(self) -> Result<Arc<rhumb_node::Identity>, Fault> {
        match self {
            Self::Known(identity) => {
                check_role(&identity)?;
                Ok(identity)
            }
            // Opening a sealed key takes a moment.
            Self::Kept(key, passphrase) => {
                let read = move || identity_of_node(key.as_deref(), passphrase.as_ref());
                let read = tokio::task::spawn_blocking(read).await;
                read.map_err(|error| Fault::new(FaultKind::System, error))?
            }
        }
    }
}

impl Options {
    /// By which network of this host, if by one.
    fn entrance(&self) -> Result<Option<Entrance>, Fault> {
        let label = match &self.network {
            None | Some(Label::Any(false)) => return Ok(None),
            Some(Label::Any(true)) => None,
            Some(Label::Text(label)) => Some(label.as_str()),
        };
        if self.router.is_some() || !self.roots.is_empty() || !self.only.is_empty() {
            return Err(Fault::invalid(
                "a network has its router; leave out `router`, or `network`",
            ));
        }
        Entrance::find(label).map(Some)
    }

    async fn config(self, entrance: Option<Entrance>) -> Result<Config, Fault> {
        let router = match (&self.router, entrance) {
            (_, Some(entrance)) => entrance.router().await?,
            (Some(_), None) if !self.roots.is_empty() || !self.only.is_empty() => {
                let text = "`router` is the one to join; leave it out, or `roots` and `only`";
                return Err(Fault::invalid(text));
            }
            (Some(router), None) => find_router(router).await?.into(),
            (None, None) => {
                let mut roots = Vec::new();
                for root in &self.roots {
                    roots.push(find_router(root).await?);
                }
                let only = self.only.iter().map(|name| parse_name(name));
                RouterChoice::Discovered { roots, only: only.collect::<Result<_, _>>()? }
            }
        };
        let mut config = Config::new(router);
        config.bind = self.bind.map(|text| parse_bind(&text)).transpose()?;
        config.join_timeout = duration(self.timeout)?;
        config.give_up_after = duration(self.give_up_after)?;
        config.require_published = self.require_published;
        config.publish_within = PUBLISH_WITHIN;
        config.tls = self.tls;
        Ok(config)
    }
}

fn parse_bind(text: &str) -> Result<SocketAddr, Fault> {
    let fault = || Fault::invalid(format!("`{text}` is no address of this host, like 192.0.2.1:0"));
    text.parse().map_err(|_| fault())
}

fn duration(seconds: f64) -> Result<Duration, Fault> {
    let fault = || Fault::invalid(format!("{seconds} s is no time to wait; give some seconds"));
    Duration::try_from_secs_f64(seconds).ok().filter(|it| *it <= LONGEST).ok_or_else(fault)
}

/// As commands wait for RIBs that do not have to answer.
const PUBLISH_WITHIN: Duration = Duration::from_secs(2);
/// Ten years: whoever waits for longer means for ever.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);
