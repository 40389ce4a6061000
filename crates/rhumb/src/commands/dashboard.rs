//! `rhumb dashboard`: a page that shows what the daemons of this host are doing.
//!
//! 1. What is wrong with the options is said before anything is opened.
//! 2. The address is opened and the token made, and the one line says where the page is.
//! 3. Daemons are asked, and browsers answered, until the process is told to end.
//!
//! A way is traced by `rhumb trace`, as a process of its own: it goes by the node that runs here,
//! as every command does, and what it takes ends with it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rhumb_daemon::admin::Admin;
use rhumb_daemon::cli::DashboardArguments;
use rhumb_daemon::config::ConfigFile;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::lifetime::Lifetime;
use rhumb_daemon::output::Form;
use rhumb_daemon::secret_file;
use rhumb_daemon::supervisor;
use rhumb_dashboard::gather::gather;
use rhumb_dashboard::{Board, Dashboard, Door, Token, Trace};
use rhumb_wire::Name;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::timeout;

/// Runs the command. `config` is where the configuration file is that was named.
pub(crate) fn run(
    arguments: &DashboardArguments,
    (file, config): (&ConfigFile, Option<&Path>),
    with_parent: bool,
    form: Form,
) -> Outcome {
    let given = given(arguments, file)?;
    let token = token(arguments)?;
    let listener = open(arguments.listen)?;
    let address = listener.local_addr().map_err(Failure::setup)?;
    // A token of a file is known to whoever has the file, and stays there.
    let shown = arguments.token_file.is_none().then(|| token.expose().to_owned());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .map_err(Failure::operation)?;
    let ended = runtime.block_on(async {
        let mut lifetime = Lifetime::begin(with_parent)?;
        let board = Arc::new(Board::default());
        let finds = !arguments.only;
        let gathering = gather(Arc::clone(&board), given, finds);
        let dashboard = Dashboard {
            board,
            door: Door::new(token),
            hosts: arguments.hosts.clone(),
            trace: Some(tracer(config)?),
        };
        supervisor::say_ready(form, &Ready { address, token: shown });
        tokio::select! {
            served = dashboard.serve(listener) => served.map_err(Failure::operation),
            () = gathering => Ok(()),
            never = supervisor::beat_on() => match never {},
            cause = lifetime.end() => {
                tracing::info!(cause, "stopping");
                Ok(())
            }
        }
    });
    // A file system that hangs holds up nobody.
    runtime.shutdown_background();
    ended
}

/// Those of the options, and the one that the file names, as `rhumb status` asks it.
fn given(arguments: &DashboardArguments, file: &ConfigFile) -> Outcome<Vec<Admin>> {
    let mut all = arguments.admins.clone();
    if !arguments.only {
        all.extend(file.any_admin()?);
    }
    all.retain(|admin| *admin != Admin::Usual);
    Ok(all.into_iter().map(Admin::asked).collect())
}

/// The token that was given, or a fresh one.
fn token(arguments: &DashboardArguments) -> Outcome<Token> {
    let listen = arguments.listen;
    match &arguments.token_file {
        Some(path) => {
            let maker = "(umask 077; head -c 24 /dev/urandom | base64 > FILE)";
            let text = secret_file::read(path, maker)?;
            let token = Token::parse(&text).map_err(|problem| {
                Failure::setup_text(format!("file {}: {problem}", path.display()))
            })?;
            if !listen.ip().is_loopback() {
                tracing::warn!(
                    "the dashboard is reached from afar, and what browsers say to it is not \
                     encrypted: have a TLS proxy or a tunnel in front"
                );
            }
            Ok(token)
        }
        None if !listen.ip().is_loopback() => Err(Failure::setup_text(format!(
            "{listen} is reached from afar, and the page goes there in plain text: listen on \
             127.0.0.1 behind a TLS proxy or a tunnel; or give --token-file FILE with a token of \
             your own, if what is in front of {listen} encrypts"
        ))),
        None => Token::random().map_err(Failure::operation),
    }
}

fn open(address: SocketAddr) -> Outcome<TcpListener> {
    TcpListener::bind(address).map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => Failure::setup_text(format!(
            "{address} is in use, perhaps by a dashboard that runs already; choose another with \
             --listen 127.0.0.1:PORT, or port 0 for any"
        )),
        _ => Failure::setup_text(format!("address {address}: {error}")),
    })
}

/// Traces by a process of this program, which has the same configuration file.
fn tracer(config: Option<&Path>) -> Outcome<Trace> {
    let program = std::env::current_exe().map_err(Failure::operation)?;
    let config = config.map(std::path::absolute).transpose().map_err(Failure::setup)?;
    Ok(Box::new(move |name| Box::pin(traced(program.clone(), config.clone(), name))))
}

async fn traced(program: PathBuf, config: Option<PathBuf>, name: Name) -> Result<Value, String> {
    let mut command = Command::new(program);
    command.args(["--json", "--with-parent"]);
    if let Some(config) = config {
        command.arg("--config").arg(config);
    }
    command.arg("trace").arg(name.to_string());
    // Its standard input closes with this process, and ends it.
    supervisor::not_for(&mut command);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let child = command.spawn().map_err(|error| format!("it cannot be traced: {error}"))?;
    let mut child = child;
    let _open = child.stdin.take();
    let done = timeout(TRACE_WITHIN, child.wait_with_output()).await;
    let output = match done {
        Ok(Ok(output)) => output,
        Ok(Err(error)) => return Err(format!("it cannot be traced: {error}")),
        Err(_) => return Err(format!("no way in {} s", TRACE_WITHIN.as_secs())),
    };
    // A way that does not reach the name is shown as far as it goes.
    if let Ok(way) = serde_json::from_slice::<Value>(&output.stdout) {
        return Ok(way);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = errors.lines().last().unwrap_or("it said nothing");
    Err(last.trim_start_matches("rhumb: ").to_owned())
}

/// The one line that says where the page is.
struct Ready {
    address: SocketAddr,
    /// Unless it is known already.
    token: Option<String>,
}

impl Ready {
    /// The token is behind the `#`, which browsers keep to themselves. The address is one that is
    /// taken: `localhost` may be two, and somebody else's page at the other one.
    fn url(&self) -> String {
        let mut at = self.address;
        match at.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => at.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(ip) if ip.is_unspecified() => at.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        match &self.token {
            Some(token) => format!("http://{at}/#token={token}"),
            None => format!("http://{at}/"),
        }
    }
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dashboard ready: {}", self.url())
    }
}

impl Serialize for Ready {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({ "ready": true, "role": "dashboard", "address": self.address, "url": self.url() })
            .serialize(serializer)
    }
}

/// One for what hangs in a look at the disk, in a manner of speaking.
const THREADS: usize = 2;
/// Eight hops that do not answer, and the search before.
const TRACE_WITHIN: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_said_to_be_where_nobody_else_can_be() {
        let url = |address: &str| Ready { address: address.parse().unwrap(), token: None }.url();
        assert_eq!(url("0.0.0.0:7485"), "http://127.0.0.1:7485/");
        assert_eq!(url("[::]:7485"), "http://[::1]:7485/");
        assert_eq!(url("192.0.2.1:7485"), "http://192.0.2.1:7485/");
    }
}
