//! A router: whether it is reached, by UDP or else over TLS, whether it is the one that is
//! expected, and which datagrams get through. All of it under a key of the moment, so that whoever
//! has a session there keeps it.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_daemon::failure::Outcome;
use rhumb_daemon::inquiry::{Session, Way, Ways};
use rhumb_daemon::output::round_trip_text;
use rhumb_daemon::remote::Remote;
use rhumb_link::{DEFAULT_MAX_DATAGRAM_LEN, LinkError, Transport};
use rhumb_trust::Identity;
use rhumb_wire::datagram::RECORD_OVERHEAD;
use rhumb_wire::payload::PayloadHeader;
use rhumb_wire::{PduHeader, Role};

use super::findings::{Findings, Look};
use super::subjects::Subject;

/// Looks at the router and the way there. Whether it is the right one.
pub(super) fn look(
    subject: &Subject,
    remote: Remote,
    stranger: &Arc<Identity>,
    findings: &mut Findings,
) -> bool {
    let router = Look::of("router", &subject.of);
    let path = Look::of("path", &subject.of);
    let Some(mut session) = reach(&router, (remote, Role::Router), stranger, findings) else {
        findings.not_tried(&path, "the router is not reached");
        return false;
    };
    let is_right = session.is_right;
    match session.by.way(WAY_WITHIN) {
        Ok(way) if way.transport == Transport::Tls => {
            findings.not_tried(&path, "TCP finds out by itself what gets through");
        }
        Ok(way) => tell_way(&path, remote.address, way, findings),
        Err(failure) => findings.not_tried(&path, failure),
    }
    session.by.close();
    is_right
}

/// A session with somebody who may be another one than was expected.
pub(super) struct Reached {
    pub(super) by: Session,
    pub(super) is_right: bool,
}

/// Shakes hands, by UDP and else over TLS, and says what came of it.
pub(super) fn reach(
    looked: &Look,
    (remote, role): (Remote, Role),
    stranger: &Arc<Identity>,
    findings: &mut Findings,
) -> Option<Reached> {
    let address = remote.address;
    let (session, took) = match try_both(address, stranger) {
        Ok(Ok(reached)) => reached,
        Ok(Err(error)) => {
            not_reached(looked, (address, role), &error, findings);
            return None;
        }
        Err(failure) => {
            findings.not_tried(looked, failure);
            return None;
        }
    };
    let (peer, peer_role) = (session.peer(), session.peer_role());
    if let Some(expected) = remote.name.filter(|expected| *expected != peer) {
        findings.problem(
            looked,
            format_args!("at {address} is {peer}, and not {expected} as was expected"),
            "correct the name or the address; if neither has changed, somebody is in between, or runs another one there",
        );
        return Some(Reached { by: session, is_right: false });
    }
    if peer_role != Some(role) {
        let is = peer_role.map_or("gone", Role::as_str);
        findings.problem(
            looked,
            format_args!("at {address} is {peer}, a {is}, and no {}", role.as_str()),
            "give the address of the other: usual ports are 7460 of routers, and 7461 of RIBs",
        );
        return Some(Reached { by: session, is_right: false });
    }
    let took = round_trip_text(took);
    match session.transport() {
        Some(Transport::Tls) => findings.warn(
            looked,
            format_args!(
                "{peer} at {address}: UDP is blocked on the way, so links go over TLS on TCP, which works (handshake in {took})"
            ),
            &format!(
                "let UDP port {} through where you can: what is lost on the way holds up everything over TCP",
                address.port()
            ),
        ),
        _ => findings.ok(
            looked,
            format_args!("{peer} at {address}, by UDP: handshake in {took}"),
        ),
    }
    Some(Reached { by: session, is_right: true })
}

/// By UDP, which then is known to be blocked if TLS is what works. With the time of the handshake.
fn try_both(
    address: SocketAddr,
    stranger: &Arc<Identity>,
) -> Outcome<Result<(Session, Duration), LinkError>> {
    // Whoever is there is taken, and compared later: it has to be said who it is.
    let anybody = Remote { name: None, address };
    let mut last = LinkError::TimedOut;
    for (ways, patience) in [(Ways::Udp, UDP_WITHIN), (Ways::UdpAndTls, TLS_WITHIN)] {
        let since = Instant::now();
        match Session::reach(Arc::clone(stranger), anybody, ways, patience)? {
            Ok(session) => return Ok(Ok((session, since.elapsed()))),
            Err(error) => last = error,
        }
    }
    Ok(Err(last))
}

fn not_reached(
    looked: &Look,
    (address, role): (SocketAddr, Role),
    error: &LinkError,
    findings: &mut Findings,
) {
    let port = address.port();
    if !matches!(error, LinkError::TimedOut) {
        return findings.problem(
            looked,
            format_args!("{address} is reached, and no session comes of it: {error}"),
            "is it a router or RIB of Rhumb, and of this version? If so, what does its log say?",
        );
    }
    let tcp = match TcpStream::connect_timeout(&address, TCP_WITHIN) {
        Ok(_) => "something takes TCP there, and does not speak to us".to_owned(),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            "its host is there, and nothing takes TCP".to_owned()
        }
        Err(error) if error.kind() == ErrorKind::TimedOut => "nor does its host by TCP".to_owned(),
        Err(error) => format!("and by TCP: {error}"),
    };
    let what = match role {
        Role::Rib => "`rhumb rib`",
        _ => "`rhumb router`",
    };
    findings.problem(
        looked,
        format_args!("nobody answers at {address} by UDP or TLS; {tcp}"),
        &format!(
            "does {what} (or `rhumb network run`) run there, is this still its address, and do firewalls on the way let UDP and TCP port {port} through?"
        ),
    );
}

fn tell_way(path: &Look, address: SocketAddr, way: Way, findings: &mut Findings) {
    let largest = usize::from(way.max_datagram_len);
    let round_trip = way
        .round_trip
        .map_or_else(String::new, |it| format!(", round trip {}", round_trip_text(it)));
    let found = format!("datagrams of {largest} bytes get through{round_trip}");
    if largest >= UNCUT {
        return findings.ok(path, found);
    }
    let headers = if address.is_ipv4() { 28 } else { 48 };
    findings.warn(
        path,
        format_args!(
            "{found}, and no larger ones, of {DEFAULT_MAX_DATAGRAM_LEN}: each full packet of `rhumb tun` (1280 bytes) takes two"
        ),
        &format!(
            "nothing is lost, but it costs twice: some link, VPN or tunnel on the way takes {} bytes; raise its MTU to {} if you can",
            largest + headers,
            UNCUT + headers
        ),
    );
}

/// With one packet lost.
const UDP_WITHIN: Duration = Duration::from_secs(3);
/// TLS is dialled after two seconds, and at a second port when the first takes none.
const TLS_WITHIN: Duration = Duration::from_secs(6);
const TCP_WITHIN: Duration = Duration::from_secs(2);
/// Five sizes, each asked about three times.
const WAY_WITHIN: Duration = Duration::from_secs(8);
/// The least that a device takes in one piece: the packet of 1280 bytes that IPv6 demands, sealed
/// from end to end, and for the hop.
const UNCUT: usize = 1280 + 2 * RECORD_OVERHEAD + PduHeader::LEN + PayloadHeader::LEN;
