//! A worker that waits for datagrams can be woken from another thread.
#![cfg(target_os = "linux")]

use std::thread;
use std::time::{Duration, Instant};

use rhumb_io::udp::{Options, Ready};
use rhumb_io::{PacketIo, Wake};

use crate::sockets::{datagrams_of, loopback, receive_all, send_all};

#[test]
fn another_thread_ends_the_wait() {
    let mut socket = loopback(Options::default());
    let wake = Wake::new().expect("event descriptor");
    let remote = wake.clone();
    let waker = thread::spawn(move || {
        thread::sleep(Duration::from_millis(50));
        remote.wake();
    });
    let begin = Instant::now();
    let ready = socket.wait(Some(Duration::from_secs(10)), Some(&wake)).expect("wait");
    assert_eq!(ready, Ready { readable: false, woken: true });
    assert!(begin.elapsed() < Duration::from_secs(5), "woken, not timed out");
    waker.join().expect("the waker does not panic");
    let ready = socket.wait(Some(Duration::ZERO), Some(&wake)).expect("wait");
    assert_eq!(ready, Ready::default(), "a wake counts once");
}

#[test]
fn a_socket_works_in_another_thread_while_it_is_woken() {
    let (mut sender, mut receiver) = (loopback(Options::default()), loopback(Options::default()));
    let to = receiver.local_address();
    let wake = Wake::new().expect("event descriptor");
    let remote = wake.clone();
    let worker = thread::spawn(move || {
        let deadline = Instant::now() + Duration::from_secs(10);
        let mut seen = Ready::default();
        while !(seen.readable && seen.woken) {
            assert!(Instant::now() < deadline, "{seen:?}");
            let ready = receiver.wait(Some(Duration::from_secs(5)), Some(&remote)).expect("wait");
            seen =
                Ready { readable: seen.readable | ready.readable, woken: seen.woken | ready.woken };
        }
        receive_all(&mut receiver, 3).len()
    });
    send_all(&mut sender, to, &datagrams_of(&[10; 3]));
    wake.wake();
    assert_eq!(worker.join().expect("the worker does not panic"), 3);
}
