//! A network namespace of our own, and devices that carry datagrams fairly between two of them.
//!
//! Runs of segments (GSO) are cut in software before they enter a device, as for a device that
//! cannot, and put together again on arrival (NAPI GRO).
//!
//! Invariant: a namespace belongs to this process alone, and ends with it
//! and what it started inside, however they end.

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
    ip(&format!("address add {a}.{b}.{c}.{d}/24 dev {device}\nlink set {device} up\n"))?;
    // NAPI, and with it GRO, is for senders that do not leave TCP segments to the device.
    sys::set_feature(device, sys::TCP_SEGMENTATION, false)
        .and_then(|()| sys::set_feature(device, sys::GENERIC_RECEIVE_OFFLOAD, true))
        // Runs of UDP datagrams are cut before they reach the device; TCP's are by the above.
        .and_then(|()| sys::turn_off(device, sys::UDP_SEGMENTATION))
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
    /// The name of a feature.
    pub(super) const UDP_SEGMENTATION: &str = "tx-udp-segmentation";

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

    /// `struct ethtool_sset_info`, for one set.
    #[repr(C)]
    struct Sets {
        command: u32,
        reserved: u32,
        mask: u64,
        len: u32,
    }

    /// `struct ethtool_gstrings`, with room for the features of any kernel so far.
    #[repr(C)]
    struct Strings {
        command: u32,
        set: u32,
        len: u32,
        bytes: [u8; MOST_FEATURES * 32],
    }

    /// `struct ethtool_sfeatures`: for 32 features at a time,
    /// those that are meant and what they are to be.
    #[repr(C)]
    struct Features {
        command: u32,
        size: u32,
        blocks: [[u32; 2]; BLOCKS],
    }

    /// The set of strings that names features.
    const FEATURES: u32 = 4;
    /// Twice what a kernel has by now.
    const MOST_FEATURES: usize = BLOCKS * 32;
    const BLOCKS: usize = 4;

    /// Turns a feature of a device of this thread's namespace on or off.
    pub(super) fn set_feature(device: &str, command: u32, on: bool) -> io::Result<()> {
        let mut value = Value { command, data: u32::from(on) };
        self::command(device, (&raw mut value).cast())
    }

    /// Has the driver of a device of this thread's namespace do what
    /// `data`, a structure of its interface, says.
    fn command(device: &str, data: *mut libc::c_char) -> io::Result<()> {
        // Any socket will do to ask by.
        let socket = UdpSocket::bind(("0.0.0.0", 0))?;
        // SAFETY: an ifreq is integers, and a pointer, for which zero is a value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(device.bytes().take(libc::IFNAMSIZ - 1)) {
            *to = from.cast_signed() as libc::c_char;
        }
        request.ifr_ifru.ifru_data = data;
        // SAFETY: the request names a device, ends with a zero, and points to a
        // structure of the form that its command takes, with room for all that it says
        // it has room for; both are valid for the whole call.
        check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) })
    }

    /// Turns a feature off that has a name, and no command of its own.
    pub(super) fn turn_off(device: &str, name: &str) -> io::Result<()> {
        let mut sets = Sets { command: 0x37, reserved: 0, mask: 1 << FEATURES, len: 0 };
        command(device, (&raw mut sets).cast())?;
        let count = sets.len as usize;
        if count > MOST_FEATURES {
            return Err(io::Error::other(format!("{count} features")));
        }
        // No more is written than as many strings as it says.
        let mut names =
            Strings { command: 0x1B, set: FEATURES, len: sets.len, bytes: [0; MOST_FEATURES * 32] };
        command(device, (&raw mut names).cast())?;
        let is_wanted = |bytes: &[u8]| {
            bytes.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
        };
        let Some(bit) = names.bytes.chunks(32).take(count).position(is_wanted) else {
            return Err(io::Error::other(format!("no feature {name}")));
        };
        let mut features = Features { command: 0x3B, size: 0, blocks: [[0; 2]; BLOCKS] };
        features.size = count.div_ceil(32) as u32;
        features.blocks[bit / 32][0] = 1 << (bit % 32);
        command(device, (&raw mut features).cast())
    }

    fn check(result: libc::c_int) -> io::Result<()> {
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
