//! A network namespace of our own, and devices that carry datagrams fairly between two of them.
//!
//! Runs of segments (GSO) are cut in software before they enter a device, as for a device that cannot, and put together again
//! on arrival (NAPI GRO).
//!
//! Invariant: a namespace belongs to this process alone, and ends with it and what it started inside, however they end.

use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Command, Stdio};

/// A network namespace, which lives as long as this, or a socket inside of it.
pub(crate) struct Namespace(OwnedFd);

impl Namespace {
    /// As many fresh ones as are asked for. This thread stays where it is.
    pub(crate) fn fresh<const N: usize>() -> Result<[Self; N], String> {
        let home = Self::current()?;
        let mut made = Vec::with_capacity(N);
        let mut add = || {
            sys::unshare_network().map_err(|error| format!("a network namespace: {error}"))?;
            made.push(Self::current()?);
            Ok(())
        };
        let outcome: Result<(), String> = (0..N).try_for_each(|_| add());
        home.enter()?;
        outcome?;
        Ok(made.try_into().unwrap_or_else(|_| unreachable!("invariant: as many as asked for")))
    }

    pub(crate) fn current() -> Result<Self, String> {
        let file = std::fs::File::open("/proc/thread-self/ns/net");
        file.map(|file| Self(file.into())).map_err(|error| format!("namespaces: {error}"))
    }

    pub(crate) fn enter(&self) -> Result<(), String> {
        sys::enter_network(&self.0).map_err(|error| format!("entering a namespace: {error}"))
    }

    /// Does something with this thread, and whatever it starts, inside.
    pub(crate) fn run<T>(&self, act: impl FnOnce() -> T) -> Result<T, String> {
        let home = Self::current()?;
        self.enter()?;
        let result = act();
        home.enter()?;
        Ok(result)
    }

    /// Where other processes find it.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}

/// Has `ip` do what `script` says, line by line.
pub(crate) fn ip(script: &str) -> Result<(), String> {
    let unavailable = |error| format!("the `ip` command: {error}");
    let mut child = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(unavailable)?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(script.as_bytes()).map_err(unavailable)?;
    }
    let output = child.wait_with_output().map_err(unavailable)?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("ip: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// Gives a veth device of this thread's namespace an address, and sets it up for the fair case.
pub(crate) fn set_up_veth(device: &str, [a, b, c, d]: [u8; 4]) -> Result<(), String> {
    // A device that takes single segments only has runs cut before they reach it.
    ip(&format!(
        "link set {device} gso_max_segs 1\naddress add {a}.{b}.{c}.{d}/24 dev {device}\nlink set {device} up\n"
    ))?;
    // NAPI, and with it GRO, is for senders that do not leave TCP segments to the device.
    sys::set_feature(device, sys::TCP_SEGMENTATION, false)
        .and_then(|()| sys::set_feature(device, sys::GENERIC_RECEIVE_OFFLOAD, true))
        .map_err(|error| format!("offloads of a veth device: {error}"))
}

/// System calls. Source: setns(2), unshare(2), netdevice(7), Linux `include/uapi/linux/ethtool.h`.
#[allow(unsafe_code)]
mod sys {
    use std::io;
    use std::net::UdpSocket;
    use std::os::fd::{AsRawFd, OwnedFd};

    /// Commands that set one feature of a device.
    pub(super) const TCP_SEGMENTATION: u32 = 0x1F;
    pub(super) const GENERIC_RECEIVE_OFFLOAD: u32 = 0x2C;

    /// Moves this thread into a fresh network namespace.
    pub(super) fn unshare_network() -> io::Result<()> {
        // SAFETY: no memory is involved.
        check(unsafe { libc::unshare(libc::CLONE_NEWNET) })
    }

    pub(super) fn enter_network(namespace: &OwnedFd) -> io::Result<()> {
        // SAFETY: no memory is involved; the descriptor is open.
        check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) })
    }

    /// `struct ethtool_value`.
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }

    /// Turns a feature of a device of this thread's namespace on or off.
    pub(super) fn set_feature(device: &str, command: u32, on: bool) -> io::Result<()> {
        // Any socket will do to ask by.
        let socket = UdpSocket::bind(("0.0.0.0", 0))?;
        let mut value = Value { command, data: u32::from(on) };
        // SAFETY: an ifreq is integers, and a pointer, for which zero is a value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(device.bytes().take(libc::IFNAMSIZ - 1)) {
            *to = from.cast_signed() as libc::c_char;
        }
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        // SAFETY: the request names a device, ends with a zero, and points to a value of the form that these commands
        // take; both are valid for the whole call.
        check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) })
    }

    fn check(result: libc::c_int) -> io::Result<()> {
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
