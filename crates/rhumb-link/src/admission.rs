//! How many half-open handshakes strangers may hold, of each kind and from one source.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use crate::dtls::Style;
use crate::{DropReason, Limits};

/// Counts half-open handshakes against their bounds.
pub(crate) struct Admission {
    limits: Limits,
    native: usize,
    foreign: usize,
    by_source: HashMap<Source, usize>,
}

/// A place taken among the half-open. Give it back with [`Admission::release`].
#[derive(Debug)]
#[must_use]
pub(crate) struct Ticket {
    style: Style,
    source: Source,
}

impl Admission {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, native: 0, foreign: 0, by_source: HashMap::new() }
    }

    pub(crate) fn half_open(&self) -> usize {
        self.native + self.foreign
    }

    pub(crate) fn admit(&mut self, style: Style, from: SocketAddr) -> Result<Ticket, DropReason> {
        let (count, limit) = match style {
            Style::Native => (&mut self.native, self.limits.half_open_native),
            Style::Foreign => (&mut self.foreign, self.limits.half_open_foreign),
        };
        if *count >= limit {
            return Err(DropReason::HalfOpenLimit);
        }
        let source = Source::of(from);
        let from_source = self.by_source.get(&source).copied().unwrap_or(0);
        if from_source >= self.limits.half_open_per_source {
            return Err(DropReason::SourceLimit);
        }
        *count += 1;
        self.by_source.insert(source, from_source + 1);
        Ok(Ticket { style, source })
    }

    // By value: a ticket is given back once.
    #[allow(clippy::needless_pass_by_value)]
    pub(crate) fn release(&mut self, ticket: Ticket) {
        match ticket.style {
            Style::Native => self.native -= 1,
            Style::Foreign => self.foreign -= 1,
        }
        if let Some(count) = self.by_source.get_mut(&ticket.source) {
            *count -= 1;
            if *count == 0 {
                self.by_source.remove(&ticket.source);
            }
        }
    }
}

/// What one host can send from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Source {
    V4([u8; 4]),
    /// A /64.
    V6([u8; 8]),
}

impl Source {
    fn of(address: SocketAddr) -> Self {
        match address.ip().to_canonical() {
            IpAddr::V4(ip) => Self::V4(ip.octets()),
            IpAddr::V6(ip) => {
                let [a, b, c, d, e, f, g, h, ..] = ip.octets();
                Self::V6([a, b, c, d, e, f, g, h])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits { half_open_native: 5, half_open_foreign: 3, half_open_per_source: 2, sessions: 1 }
    }

    fn host(n: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, n], 7))
    }

    #[test]
    fn every_bound_holds_from_both_sides_and_places_return() {
        let mut admission = Admission::new(limits());
        let mut tickets: Vec<_> =
            (0..3).map(|n| admission.admit(Style::Foreign, host(n)).unwrap()).collect();
        assert_eq!(
            admission.admit(Style::Foreign, host(9)).unwrap_err(),
            DropReason::HalfOpenLimit
        );
        tickets.push(admission.admit(Style::Native, host(0)).unwrap());
        assert_eq!(admission.admit(Style::Native, host(0)).unwrap_err(), DropReason::SourceLimit);
        assert_eq!(admission.half_open(), 4);
        tickets.drain(..).for_each(|ticket| admission.release(ticket));
        assert_eq!((admission.half_open(), admission.by_source.len()), (0, 0));
    }

    #[test]
    fn an_ipv6_host_is_its_64_and_a_mapped_address_is_ipv4() {
        let source = |text: &str| Source::of(text.parse().unwrap());
        assert_eq!(source("[2001:db8::1]:1"), source("[2001:db8::ffff:1]:2"));
        assert_ne!(source("[2001:db8::1]:1"), source("[2001:db8:0:1::1]:1"));
        assert_eq!(source("[::ffff:192.0.2.1]:1"), source("192.0.2.1:1"));
    }
}
