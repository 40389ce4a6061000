//! Streams, and who opens them.

use std::ffi::{c_char, c_int, c_void};

use rhumb_node::foreign::{BothWays, Fault, FaultKind, Here, parse_admits, parse_name};
use rhumb_node::{Listener, Name};
use tokio::sync::Mutex;

use crate::border::{
    NameText, RhumbError, bytes, call, give, held, name_text, place_for, put, quietly, space,
    take_back, text, wait,
};
use crate::node::Node;

/// What `rhumb_stream` is of.
pub struct Open {
    peer: Name,
    stream: BothWays,
}

/// `rhumb_stream`.
pub type Stream = Here<Open>;
/// `rhumb_listener`.
pub type Listening = Here<Mutex<Listener>>;

/// Takes streams that are opened to a port.
///
/// # Safety
/// As the header says: `node` was given and not given back, `allow` is a text, and `listener` a
/// place for a pointer; or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rhumb_listen(
    node: *const Node,
    port: u16,
    allow: *const c_char,
    listener: *mut *mut Listening,
    error: *mut RhumbError,
) -> c_int {
    let work = || {
        // SAFETY: it is a place for a pointer, or null, by this function's contract.
        let place = unsafe { place_for(listener, "listener")? };
        // SAFETY: both are good, or null, by this function's contract.
        let (node, allow) = unsafe { (held(node, "node")?, text(allow, "allow")?) };
        let listener = node.listen(port, parse_admits(allow.split_whitespace())?)?;
        *place = give(Mutex::new(listener));
        Ok(())
    };
    // SAFETY: the contract is the same.
    unsafe { call(error, work) }
}

/// The next stream.
///
/// # Safety
/// As the header says: `listener` was given and not given back, and `stream` is a place for a
/// pointer; or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rhumb_accept(
    listener: *const Listening,
    timeout_ms: u32,
    stream: *mut *mut Stream,
    error: *mut RhumbError,
) -> c_int {
    let work = || {
        // SAFETY: it is a place for a pointer, or null, by this function's contract.
        let place = unsafe { place_for(stream, "stream")? };
        // SAFETY: it was given and not given back, or is null, by this function's contract.
        let listener = unsafe { held(listener, "listener")? };
        let stream = wait(timeout_ms, async { Ok(listener.lock().await.accept().await) })?;
        *place = give(Open::new(stream.ok_or_else(ended)?));
        Ok(())
    };
    // SAFETY: the contract is the same.
    unsafe { call(error, work) }
}

/// Takes no more.
///
/// # Safety
/// As the header says: `listener` was given and not given back, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rhumb_listener_close(listener: *mut Listening) {
    // SAFETY: the contract is the same.
    quietly(|| drop(unsafe { take_back(listener) }));
}

/// Opens a stream.
///
/// # Safety
/// As the header says: `node` was given and not given back, `name` is a text, and `stream` a place
/// for a pointer; or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rhumb_connect(
    node: *const Node,
    name: *const c_char,
    port: u16,
    timeout_ms: u32,
    stream: *mut *mut Stream,
    error: *mut RhumbError,
) -> c_int {
    let work = || {
        // SAFETY: it is a place for a pointer, or null, by this function's contract.
        let place = unsafe { place_for(stream, "stream")? };
        // SAFETY: both are good, or null, by this function's contract.
        let (node, name) = unsafe { (held(node, "node")?, text(name, "name")?) };
        let name = parse_name(name)?;
        let opened = wait(timeout_ms, async { Ok(node.open(name, port).await?) })?;
        *place = give(Open::new(opened));
        Ok(())
    };
    // SAFETY: the contract is the same.
    unsafe { call(error, work) }
}

/// Who is at the other end.
///
/// # Safety
/// As the header says: `stream` was given and not given back, `name` has its size; or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rhumb_stream_peer(
    stream: *const Stream,
    name: *mut NameText,
    error: *mut RhumbError,
) -> c_int {
    let work = || {
        // SAFETY: it was given and not given back, or is null, by this function's contract.
        let open = unsafe { held(stream, "stream")? };
        // SAFETY: it has the size of a name, or is null, by this function's contract.
        unsafe { put(name, name_text(open.peer)) };
        Ok(())
    };
    // SAFETY: the contract is the same.
    unsafe { call(error, work) }
}

/// Reads.
///
/// # Safety
/// As the header says: `stream` was given and not given back, `data` has `size` bytes, and `length`
/// is a place for a number; or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rhumb_read(
    stream: *const Stream,
    data: *mut c_void,
    size: usize,
    length: *mut usize,
    timeout_ms: u32,
    error: *mut RhumbError,
) -> c_int {
    let work = || {
        if length.is_null() || size == 0 {
            return Err(Fault::invalid("there is no place for what is read, or for its length"));
        }
        // SAFETY: both are good, or null, by this function's contract.
        let (open, place) = unsafe { (held(stream, "stream")?, space(data, size)?) };
        let read = wait(timeout_ms, open.stream.read(place))?;
        // SAFETY: it is a place for a number, by this function's contract.
        unsafe { put(length, read) };
        Ok(())
    };
    // SAFETY: the contract is the same.
    unsafe { call(error, work) }
}

/// Writes.
///
/// # Safety
/// As the header says: `stream` was given and not given back, `data` has `length` bytes, and
/// `written` is a place for a number; or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rhumb_write(
    stream: *const Stream,
    data: *const c_void,
    length: usize,
    written: *mut usize,
    timeout_ms: u32,
    error: *mut RhumbError,
) -> c_int {
    let mut sum = 0;
    let work = || {
        // SAFETY: both are good, or null, by this function's contract.
        let (open, body) = unsafe { (held(stream, "stream")?, bytes(data, length)?) };
        wait(timeout_ms, async {
            while sum < body.len() {
                sum += open.stream.write(&body[sum..]).await?;
            }
            Ok(())
        })
    };
    // SAFETY: the contract is the same.
    let code = unsafe { call(error, work) };
    // SAFETY: it is a place for a number, or null, by this function's contract.
    unsafe { put(written, sum) };
    code
}

/// Says that nothing more is written.
///
/// # Safety
/// As the header says: `stream` was given and not given back, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rhumb_finish(
    stream: *const Stream,
    timeout_ms: u32,
    error: *mut RhumbError,
) -> c_int {
    let work = || {
        // SAFETY: it was given and not given back, or is null, by this function's contract.
        let open = unsafe { held(stream, "stream")? };
        match wait(timeout_ms, open.stream.finish())? {
            true => Ok(()),
            false => Err(Fault::new(FaultKind::Closed, "the other end has let the stream go")),
        }
    };
    // SAFETY: the contract is the same.
    unsafe { call(error, work) }
}

/// Ends it.
///
/// # Safety
/// As the header says: `stream` was given and not given back, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rhumb_stream_close(stream: *mut Stream) {
    // SAFETY: the contract is the same.
    quietly(|| drop(unsafe { take_back(stream) }));
}

impl Open {
    fn new(stream: rhumb_node::Stream) -> Self {
        Self { peer: stream.peer(), stream: BothWays::new(stream) }
    }
}

fn ended() -> Fault {
    Fault::new(FaultKind::Closed, "the node has left; join, and listen anew")
}
