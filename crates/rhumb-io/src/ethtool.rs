//! What the driver of a network device says of it, asked by ethtool's ioctl: receive queues, and
//! features.
//!
//! Invariant: the kernel writes no more than the words that it is given: a question whose answer
//! has no bound of its own gets room for the largest that can be.
//! Source: Linux `include/uapi/linux/ethtool.h`, netdevice(7).

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, BorrowedFd};

/// How many receive queues an interface has; 1 where its driver does not say. Any
/// socket in its network namespace will do to ask by.
pub(crate) fn receive_queues(any_socket: BorrowedFd<'_>, interface: &str) -> u32 {
    // struct ethtool_channels: command, four limits, then receive, send, other, combined.
    let mut words = [0; 9];
    words[0] = GET_CHANNELS;
    match ask(any_socket, interface, &mut words) {
        Ok(()) => words[5].saturating_add(words[8]).max(1),
        Err(_) => 1,
    }
}

/// Of the features with these names, which are there and on.
///
/// # Errors
/// When the device is not there, or the system does not say.
pub(crate) fn active_features<const N: usize>(
    any_socket: BorrowedFd<'_>,
    interface: &str,
    names: [&str; N],
) -> io::Result<[bool; N]> {
    // struct ethtool_sset_info: command, reserved, a mask of sets in two words, a count.
    let mut sets = [GET_SET_INFO, 0, 0, 0, 0];
    put_mask(&mut sets[2..4], 1 << FEATURES);
    ask(any_socket, interface, &mut sets)?;
    let count = sets[4].min(MAX_FEATURES) as usize;
    // struct ethtool_gstrings: command, set, length, then 32 bytes for each. Some
    // kernels write as many as there are, whatever the length says.
    let mut strings = vec![0_u32; 3 + MAX_FEATURES as usize * NAME_WORDS];
    strings[..3].copy_from_slice(&[GET_STRINGS, FEATURES, count as u32]);
    ask(any_socket, interface, &mut strings)?;
    // struct ethtool_gfeatures: command, length, then four words for each 32 features: available,
    // requested, active, never changed.
    let blocks = count.div_ceil(32);
    let mut states = vec![0_u32; 2 + 4 * blocks];
    states[..2].copy_from_slice(&[GET_FEATURES, blocks as u32]);
    ask(any_socket, interface, &mut states)?;
    let name_of = |number: usize| {
        let words = &strings[3 + number * NAME_WORDS..][..NAME_WORDS];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.split(|byte| *byte == 0).next().unwrap_or_default().to_vec()
    };
    let is_active = |number: usize| states[2 + 4 * (number / 32) + 2] >> (number % 32) & 1 == 1;
    let all: Vec<Vec<u8>> = (0..count).map(name_of).collect();
    Ok(names.map(|name| {
        let number = all.iter().position(|it| it == name.as_bytes());
        number.is_some_and(is_active)
    }))
}

/// Writes a mask of 64 bits over two words.
fn put_mask(words: &mut [u32], mask: u64) {
    for (word, bytes) in words.iter_mut().zip(mask.to_ne_bytes().as_chunks().0) {
        *word = u32::from_ne_bytes(*bytes);
    }
}

/// Asks what `words` begin with, and has the answer in them. The callers
/// give every command the room that its answer may take.
fn ask(any_socket: BorrowedFd<'_>, interface: &str, words: &mut [u32]) -> io::Result<()> {
    // SAFETY: an ifreq is integers and pointers, for which zero is a value.
    let mut request: libc::ifreq = unsafe { zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes().take(libc::IFNAMSIZ - 1)) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: the request is initialized and its name ends with a zero; its data points to what
    // this command reads and writes, which is as long as it says, or as it can become; both live
    // for the whole call.
    let result =
        unsafe { libc::ioctl(any_socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The kernel counts features in one or two words of 64 bits: far beyond that.
const MAX_FEATURES: u32 = 1024;
/// Words of a feature's name.
const NAME_WORDS: usize = 8;

const GET_STRINGS: u32 = 0x1B;
const GET_SET_INFO: u32 = 0x37;
const GET_FEATURES: u32 = 0x3A;
const GET_CHANNELS: u32 = 0x3C;
/// The set of names of features.
const FEATURES: u32 = 4;

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn loopback_has_the_features_that_every_one_has() {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).expect("a port");
        // `loopback` is one that no other device has, fixed; no device is called an elephant.
        let names = ["loopback", "tx-lockless", "elephant"];
        let found = active_features(socket.as_fd(), "lo", names).expect("every kernel tells");
        assert!(found[0] && !found[2], "{found:?}");
        assert_eq!(receive_queues(socket.as_fd(), "lo"), 1);
        let nobody = active_features(socket.as_fd(), "no such", names).expect_err("nothing there");
        assert_eq!(nobody.raw_os_error(), Some(libc::ENODEV));
    }
}
