//! Ports for datagrams.

use std::ffi::{CStr, c_char, c_int, c_void};

use rhumb_node::foreign::{Fault, FaultKind, Here, parse_admits, parse_name};
use rhumb_node::{Message, PortSender};
use tokio::sync::Mutex;

use crate::border::{
    NameText, RhumbError, bytes, call, give, held, name_text, place_for, put, quietly, space,
    take_back, text, wait,
};
use crate::node::Node;

/// What `rhumb_port` is of.
pub struct Bound {
    number: u16,
    sender: PortSender,
    arrivals: Mutex<Arrivals>,
}

/// Where datagrams arrive, for one who asks at a time.
struct Arrivals {
    port: rhumb_node::Port,
    /// One that did not fit where it was to be put.
    kept: Option<Message>,
}

/// `rhumb_port`.
pub type Port = Here<Bound>;

/// `rhumb_message`.
#[repr(C)]
pub struct MessageHead {
    from: NameText,
    to: NameText,
    from_port: u16,
    length: usize,
}

/// Begins to receive on a port.
///
/// # Safety
/// As the header says: `node` was given and not given back, `allow` is a text, and `bound` a place
/// for a pointer; or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rhumb_bind(
    node: *const Node,
    port: u16,
    allow: *const c_char,
    bound: *mut *mut Port,
    error: *mut RhumbError,
) -> c_int {
    let work = || {
        // SAFETY: it is a place for a pointer, or null, by this function's contract.
        let place = unsafe { place_for(bound, "bound")? };
        // SAFETY: both are good, or null, by this function's contract.
        let (node, allow) = unsafe { (held(node, "node")?, text(allow, "allow")?) };
        let port = node.bind(port, parse_admits(allow.split_whitespace())?)?;
        let (number, sender) = (port.number(), port.sender());
        let arrivals = Mutex::new(Arrivals { port, kept: None });
        *place = give(Bound { number, sender, arrivals });
        Ok(())
    };
    // SAFETY: the contract is the same.
    unsafe { call(error, work) }
}

/// The port's number.
///
/// # Safety
/// As the header says: `port` was given and not given back, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rhumb_port_number(port: *const Port) -> u16 {
    // SAFETY: the contract is the same.
    unsafe { held(port, "port") }.map_or(0, |bound| bound.number)
}

/// Sends a datagram.
///
/// # Safety
/// As the header says: `port` was given and not given back, `to` is a text, `data` has `length`
/// bytes; or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rhumb_port_send(
    port: *const Port,
    to: *const c_char,
    to_port: u16,
    data: *const c_void,
    length: usize,
    timeout_ms: u32,
    error: *mut RhumbError,
) -> c_int {
    let work = || {
        // SAFETY: all are good, or null, by this function's contract.
        let (bound, to, body) =
            unsafe { (held(port, "port")?, text(to, "to")?, bytes(data, length)?) };
        let to = parse_name(to)?;
        wait(timeout_ms, async { Ok(bound.sender.send_to(to, to_port, body).await?) })
    };
    // SAFETY: the contract is the same.
    unsafe { call(error, work) }
}

/// The next datagram.
///
/// # Safety
/// As the header says: `port` was given and not given back, `data` has `size` bytes, `message` is a
/// place for one; or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rhumb_port_receive(
    port: *const Port,
    data: *mut c_void,
    size: usize,
    message: *mut MessageHead,
    timeout_ms: u32,
    error: *mut RhumbError,
) -> c_int {
    let work = || {
        // SAFETY: both are good, or null, by this function's contract.
        let (bound, place) = unsafe { (held(port, "port")?, space(data, size)?) };
        let (head, body) = wait(timeout_ms, bound.receive(size))?;
        // SAFETY: it is a place for one, or null, by this function's contract.
        unsafe { put(message, head) };
        let Ok(body) = body else {
            let text = "the datagram is longer than the place for it; take it by a larger one";
            return Err(Fault::new(FaultKind::TooBig, text));
        };
        place[..body.len()].copy_from_slice(&body);
        Ok(())
    };
    // SAFETY: the contract is the same.
    unsafe { call(error, work) }
}

/// Answers a datagram.
///
/// # Safety
/// As the header says: `port` was given and not given back, `message` is one that was received,
/// `data` has `length` bytes; or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rhumb_port_reply(
    port: *const Port,
    message: *const MessageHead,
    data: *const c_void,
    length: usize,
    timeout_ms: u32,
    error: *mut RhumbError,
) -> c_int {
    let work = || {
        // SAFETY: all are good, or null, by this function's contract.
        let (bound, head, answer) =
            unsafe { (held(port, "port")?, message.as_ref(), bytes(data, length)?) };
        let head = head.ok_or_else(|| Fault::invalid("message is NULL; give one"))?;
        let message = head.message()?;
        wait(timeout_ms, async { Ok(bound.sender.reply(&message, answer).await?) })
    };
    // SAFETY: the contract is the same.
    unsafe { call(error, work) }
}

/// Receives no more.
///
/// # Safety
/// As the header says: `port` was given and not given back, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rhumb_port_close(port: *mut Port) {
    // SAFETY: the contract is the same.
    quietly(|| drop(unsafe { take_back(port) }));
}

impl Bound {
    /// The next datagram's head, and its body if that fits; otherwise it stays the next one.
    async fn receive(&self, size: usize) -> Result<(MessageHead, Result<Vec<u8>, ()>), Fault> {
        let mut arrivals = self.arrivals.lock().await;
        let message = match arrivals.kept.take() {
            Some(message) => message,
            None => arrivals.port.receive().await.ok_or_else(ended)?,
        };
        let head = MessageHead::of(&message);
        if message.body.len() > size {
            arrivals.kept = Some(message);
            return Ok((head, Err(())));
        }
        Ok((head, Ok(message.body)))
    }
}

impl MessageHead {
    fn of(message: &Message) -> Self {
        Self {
            from: name_text(message.from),
            to: name_text(message.to),
            from_port: message.from_port.unwrap_or(0),
            length: message.body.len(),
        }
    }

    /// As much of it as an answer needs.
    fn message(&self) -> Result<Message, Fault> {
        let name = |text: &NameText| {
            let bytes = text.map(|it| it.to_ne_bytes()[0]);
            let text = CStr::from_bytes_until_nul(&bytes).ok().and_then(|it| it.to_str().ok());
            parse_name(text.unwrap_or("what is in the message"))
        };
        Ok(Message {
            from: name(&self.from)?,
            as_member: false,
            from_port: Some(self.from_port).filter(|port| *port != 0),
            to: name(&self.to)?,
            body: Vec::new(),
        })
    }
}

fn ended() -> Fault {
    Fault::new(FaultKind::Closed, "the node has left; join, and bind the port anew")
}
