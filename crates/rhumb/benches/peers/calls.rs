//! What our router's packet I/O has done, by its own metrics.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Totals since its start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Calls {
    /// System calls to wait, to receive and to send.
    calls: f64,
    datagrams: f64,
    messages_sent: f64,
}

impl Calls {
    /// Asks for them; this thread is in the router's namespace.
    pub(crate) fn read(at: SocketAddr) -> Option<Self> {
        let mut stream = TcpStream::connect(at).ok()?;
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        let value = |name: &str| -> Option<f64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line?.trim().parse().ok()
        };
        let calls = ["wait", "receive", "send"]
            .map(|what| value(&format!("rhumb_io_{what}_calls_total")))
            .into_iter()
            .sum::<Option<f64>>()?;
        Some(Self {
            calls,
            datagrams: value("rhumb_io_sent_datagrams_total")?,
            messages_sent: value("rhumb_io_sent_messages_total")?,
        })
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            calls: self.calls - before.calls,
            datagrams: self.datagrams - before.datagrams,
            messages_sent: self.messages_sent - before.messages_sent,
        }
    }

    pub(crate) fn per_datagram(self) -> f64 {
        self.calls / self.datagrams.max(1.0)
    }

    pub(crate) fn datagrams_per_message(self) -> f64 {
        self.datagrams / self.messages_sent.max(1.0)
    }
}
