//! `rhumb capability revoke`: a signed update, and the wait until all waypoints have it.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rhumb_daemon::cli::{RevokeArguments, ServerArguments};
use rhumb_daemon::clock;
use rhumb_daemon::config::ConfigFile;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::key_fetch::random;
use rhumb_daemon::output::Form;
use rhumb_daemon::signer::load_signer;
use rhumb_keyserver::feed::ask_over_stream;
use rhumb_keyserver::operator::{Operator, OperatorError};
use rhumb_keyserver::revocation::{Action, Subject};
use rhumb_keyserver::server::HOLD_REACH_MS;
use serde_json::json;

use super::Report;

/// Runs the command.
pub(super) fn run(arguments: &RevokeArguments, file: &ConfigFile, form: Form) -> Outcome {
    let (address, zone) = target(&arguments.server, file)?;
    let key = load_signer(&arguments.server.key)?;
    let operator = Operator::new(&zone, key).map_err(Failure::setup)?;
    let mut server = Connection::open(operator, address)?;
    let action = if arguments.restore { Action::Restore } else { Action::Revoke };
    let subject = Subject { principal: arguments.principal, delegation: arguments.id };
    let started = Instant::now();
    let serial = send(&mut server, arguments.serial, action, subject)?;
    let what = match (action, arguments.id) {
        (Action::Revoke, None) => format!("principal {} revoked", arguments.principal),
        (Action::Revoke, Some(id)) => format!("{id} of principal {} revoked", arguments.principal),
        (Action::Restore, None) => format!("principal {} restored", arguments.principal),
        (Action::Restore, Some(id)) => {
            format!("{id} of principal {} restored", arguments.principal)
        }
    };
    form.say(&format!("{what}, serial {serial}"));
    let reach = server.ask(|operator, id, now_s| operator.everywhere(serial, id, now_s))?;
    let reach = server.operator.read_reach(&reach, clock::now().unix_s()).map_err(refused)?;
    let elapsed_ms = started.elapsed().as_millis() as u64;
    let missing = reach.missing.join(", ");
    let text = match reach.followers {
        0 => "no waypoint follows this key server".to_owned(),
        all if reach.reached == all => {
            format!("in force at all {all} waypoints after {elapsed_ms} ms")
        }
        all => format!(
            "in force at {} of {all} waypoints after {elapsed_ms} ms; missing: {missing}",
            reach.reached
        ),
    };
    form.print(&Report {
        text,
        object: json!({
            "serial": serial,
            "principal": arguments.principal.0,
            "id": arguments.id.map(rhumb_capability::DelegationId::as_u32),
            "restored": arguments.restore,
            "waypoints": reach.followers,
            "reached": reach.reached,
            "missing": reach.missing,
            "elapsed_ms": elapsed_ms,
        }),
    });
    if reach.reached == reach.followers {
        return Ok(());
    }
    Err(Failure::operation_text(format!(
        "the revocation is stored, and {missing} does not follow; see to that waypoint: it will take \
         it when it comes back"
    )))
}

/// Sends the update; where no serial is given, one that is newer than the last.
fn send(
    server: &mut Connection,
    wanted: Option<u32>,
    action: Action,
    subject: Subject,
) -> Outcome<u32> {
    for _ in 0..SERIAL_TRIES {
        let serial = match wanted {
            Some(serial) => serial,
            None => {
                let answer = server.ask(Operator::last_serial)?;
                let last = server.operator.read_serial(&answer, clock::now().unix_s());
                let next = last.map_err(refused)?.checked_add(1).ok_or_else(|| {
                    Failure::operation_text(
                        "the last serial there is has been used; start a new zone",
                    )
                })?;
                next.max(u32::try_from(clock::now().unix_s()).unwrap_or(next))
            }
        };
        let answer = server
            .ask(|operator, id, now_s| operator.update(serial, &[(action, subject)], id, now_s))?;
        match server.operator.read_update(&answer, clock::now().unix_s()) {
            Ok(()) => return Ok(serial),
            // Another operator was faster.
            Err(OperatorError::Stale) if wanted.is_none() => {}
            Err(error) => return Err(refused(error)),
        }
    }
    Err(Failure::operation_text("others revoke all the time; try again"))
}

/// The key server's address and the zone, from options or the file.
pub(super) fn target(
    arguments: &ServerArguments,
    file: &ConfigFile,
) -> Outcome<(SocketAddr, String)> {
    let zone = match &arguments.zone {
        Some(zone) => zone.clone(),
        None => file.zone()?.to_owned(),
    };
    let address = match arguments.server {
        Some(address) => Some(address),
        None => file.key_server_address()?,
    };
    let address = address.ok_or_else(|| {
        Failure::setup_text("no key server; give --server ADDR, the one it listens on")
    })?;
    Ok((address, zone))
}

/// One operator's connection.
struct Connection {
    operator: Operator,
    stream: TcpStream,
    address: SocketAddr,
}

impl Connection {
    fn open(operator: Operator, address: SocketAddr) -> Outcome<Self> {
        let opened = TcpStream::connect_timeout(&address, PATIENCE).and_then(|stream| {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE + Duration::from_millis(HOLD_REACH_MS)))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Ok(stream)
        });
        let stream = opened.map_err(|error| {
            Failure::setup_text(format!("key server {address}: {error}; does it run there?"))
        })?;
        Ok(Self { operator, stream, address })
    }

    fn ask(
        &mut self,
        question: impl FnOnce(&mut Operator, u16, u64) -> Vec<u8>,
    ) -> Outcome<Vec<u8>> {
        let message = question(&mut self.operator, random()? as u16, clock::now().unix_s());
        ask_over_stream(&mut self.stream, &message).map_err(|error| {
            Failure::operation_text(format!("key server {} does not answer: {error}", self.address))
        })
    }
}

fn refused(error: OperatorError) -> Failure {
    Failure::operation(error)
}

/// A key server answers within milliseconds, after its disk.
const PATIENCE: Duration = Duration::from_secs(5);
/// Two operators at the same moment are rare, three do not happen.
const SERIAL_TRIES: usize = 3;
