//! Ports that this host's settings listen at: free, a daemon's of this host, or somebody else's.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rhumb_daemon::config::Listens;

use super::daemons::Running;
use super::findings::{Findings, Look};

/// Looks at each.
pub(super) fn look(listens: &[Listens], running: &Running, findings: &mut Findings) {
    for it in listens.iter().filter(|it| it.address.port() != 0) {
        look_at(it, running, findings);
    }
}

fn look_at(it: &Listens, running: &Running, findings: &mut Findings) {
    let Listens { what, address, is_tcp } = it;
    let kind = if *is_tcp { "TCP" } else { "UDP" };
    let port = Look::of("port", format_args!("{what}, {kind} {address}"));
    let error = match try_out(*address, *is_tcp) {
        Ok(()) => return findings.ok(&port, "free"),
        Err(error) => error,
    };
    if error.kind() != ErrorKind::AddrInUse {
        let advice = match error.kind() {
            ErrorKind::PermissionDenied => {
                "ports below 1024 are root's: start it as root with --run-as USER, or choose another"
            }
            ErrorKind::AddrNotAvailable => {
                "this host has not that address: give one that it has, or 0.0.0.0"
            }
            _ => "choose another address",
        };
        return findings.problem(&port, error, advice);
    }
    let holder = holder(address.port(), *is_tcp);
    match (running.at(address.port()), &holder) {
        (Some(role), _) => findings.ok(&port, format_args!("the {role} that runs here has it")),
        (None, Some(holder)) if holder.is_ours => {
            findings.ok(&port, format_args!("process {} has it, which is rhumb", holder.id));
        }
        (None, Some(Holder { id, command, .. })) => findings.problem(
            &port,
            format_args!("taken by another program: {command} (process {id})"),
            "end that, or choose another port in the settings",
        ),
        (None, None) => findings.warn(
            &port,
            "taken by a process of another user",
            &format!(
                "root sees which: ss -lpn 'sport = :{}'; if it is not rhumb, end it or choose another port",
                address.port()
            ),
        ),
    }
}

/// Whether it could be listened at now; nobody is listened to.
fn try_out(address: SocketAddr, is_tcp: bool) -> io::Result<()> {
    match is_tcp {
        true => TcpListener::bind(address).map(drop),
        false => UdpSocket::bind(address).map(drop),
    }
}

/// Who has a port.
struct Holder {
    id: u32,
    command: String,
    /// Whether it runs the program that this process runs.
    is_ours: bool,
}

/// Whoever has this port, of the processes that this user may look at.
fn holder(port: u16, is_tcp: bool) -> Option<Holder> {
    let tables: [&str; 2] = match is_tcp {
        true => ["/proc/net/tcp", "/proc/net/tcp6"],
        false => ["/proc/net/udp", "/proc/net/udp6"],
    };
    let texts = tables.iter().filter_map(|table| fs::read_to_string(table).ok());
    let inodes: Vec<String> = texts.flat_map(|text| sockets(&text, port, is_tcp)).collect();
    let id = processes().find(|id| holds(*id, &inodes))?;
    let command = fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
    let program = |path: &str| fs::metadata(path).ok().map(|it| (it.dev(), it.ino()));
    let is_same = program(&format!("/proc/{id}/exe")) == program("/proc/self/exe");
    let command = command.trim().to_owned();
    Some(Holder { id, is_ours: is_same || command == "rhumb", command })
}

/// The inodes of sockets at `port`, of a table of the kernel's; of TCP those that listen.
fn sockets(table: &str, port: u16, is_tcp: bool) -> Vec<String> {
    let of_line = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
        let its = u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok()?;
        (its == port && (!is_tcp || *state == LISTENS)).then(|| (*inode).to_owned())
    };
    table.lines().skip(1).filter_map(of_line).collect()
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn holds(process: u32, inodes: &[String]) -> bool {
    let folder = PathBuf::from(format!("/proc/{process}/fd"));
    let open = fs::read_dir(folder).into_iter().flatten().flatten();
    open.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|link: PathBuf| {
        let of = |inode: &String| link == Path::new(&format!("socket:[{inode}]"));
        inodes.iter().any(of)
    })
}

/// A socket of TCP that listens, in the kernel's tables.
const LISTENS: &str = "0A";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_a_port_is_found() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        for (address, is_tcp) in
            [(tcp.local_addr().unwrap(), true), (udp.local_addr().unwrap(), false)]
        {
            assert_eq!(try_out(address, is_tcp).unwrap_err().kind(), ErrorKind::AddrInUse);
            let holder = holder(address.port(), is_tcp).unwrap();
            assert_eq!((holder.id, holder.is_ours), (std::process::id(), true));
        }
    }

    #[test]
    fn a_line_of_the_kernels_table_gives_port_and_inode() {
        let table = "head\n 0: 0100007F:1D24 00000000:0000 0A 0:0 0:0 0 1000 0 4242 1\n \
                     1: 0100007F:1D24 0100007F:9999 01 0:0 0:0 0 1000 0 4343 1\n";
        assert_eq!(sockets(table, 0x1d24, true), ["4242"]);
        assert_eq!(sockets(table, 0x1d24, false), ["4242", "4343"]);
        assert!(sockets(table, 1, true).is_empty());
    }
}
