//! How connections begin: by this end, or by others, who are judged first.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use quinn_proto::{ClientConfig, ConnectionHandle, Incoming, ServerConfig};
use rhumb_trust::{Now, Standing};
use rhumb_wire::Name;

use super::{ConnectionId, Ends, Event, token_key, transmit};
use crate::connection::{Connection, Origin, Phase};
use crate::credentials::{Shown, Verifier};
use crate::gate::{Answer, BEGINS_WITHIN};
use crate::pace::Pace;
use crate::packets::Waiting;
use crate::shares::Spent;
use crate::transport::{self, Share};
use crate::{DropReason, EndError};

impl Ends {
    /// A connection between two names that is there, or is being made by this end.
    pub(super) fn usable(&self, local: Name, peer: Name) -> Option<ConnectionId> {
        let between = self.by_names.get(&(local, peer))?;
        // One that exists goes before one that may come to be, the newest first.
        let open = between.iter().rev().find(|id| self.is_open(**id));
        open.or(between.last()).copied()
    }

    pub(super) fn begin(
        &mut self,
        local: Name,
        peer: Name,
        now: Now,
    ) -> Result<ConnectionId, EndError> {
        let shown = &self.shown.get(&local).ok_or(EndError::NotOurs(local))?.certificate;
        if self.shown.contains_key(&peer) {
            return Err(EndError::OwnName);
        }
        if self.connections.len() >= MAX_CONNECTIONS {
            return Err(EndError::TooMany);
        }
        let verifier = self.credentials.verifier(peer, now);
        let protocols = self.config.protocols();
        let tls = self.credentials.client(shown, Arc::clone(&verifier), protocols)?;
        let mut config = ClientConfig::new(Arc::new(tls));
        config.transport_config(transport::config(Share::Full, self.config.max_datagram_len));
        let remote = transmit::address_of(&peer);
        let (handle, quic) = self
            .endpoint
            .connect(now.instant, config, remote, NOBODY)
            .map_err(|_| EndError::Library)?;
        let id = self.insert(handle, quic, (local, peer), verifier, Origin::Ours, now);
        self.by_names.entry((local, peer)).or_default().push(id);
        self.settle(id, now);
        Ok(id)
    }

    /// Somebody wants to begin a connection.
    pub(super) fn judge(
        &mut self,
        incoming: Incoming,
        from: Name,
        to: Name,
        standing: Standing,
        now: Now,
    ) -> Result<(), DropReason> {
        let spoken = self.shown.get(&to).filter(|_| !self.shown.contains_key(&from));
        let Some(shown) = spoken.map(|it| Arc::clone(&it.certificate)) else {
            self.endpoint.ignore(incoming);
            return Err(DropReason::NotOffered);
        };
        self.scratch.clear();
        let is_refused = standing == Standing::Refused;
        let is_named = self.offers.choose(&from, |_| false);
        let may_show_more = self.looks_at_memberships();
        if is_refused || !(is_named || may_show_more || self.offers.are_open()) {
            let _ = self.endpoint.refuse(incoming, &mut self.scratch);
            self.answer(to, from);
            self.events.push_back(Event::Refused { peer: from, local: to, port: None });
            let reason =
                if is_refused { DropReason::SenderRefused } else { DropReason::NotOffered };
            return Err(reason);
        }
        let is_stranger =
            standing != Standing::Admitted && !is_named && !self.lately.has(&from, now.instant);
        if !self.gate.has_room(is_stranger) && !may_show_more {
            self.endpoint.ignore(incoming);
            return Err(DropReason::TooManyConnections);
        }
        match self.gate.answer(is_stranger, incoming.remote_address_validated(), now.instant) {
            Answer::Begin => self.take(incoming, (to, from), &shown, is_stranger, now),
            Answer::BeginInPlace => {
                self.give_way(is_stranger, now);
                self.take(incoming, (to, from), &shown, is_stranger, now)
            }
            Answer::Retry => {
                match self.endpoint.retry(incoming, &mut self.scratch) {
                    Ok(_) => self.answer(to, from),
                    Err(refused) => self.endpoint.ignore(refused.into_incoming()),
                }
                Ok(())
            }
            Answer::Drop(reason) => {
                self.endpoint.ignore(incoming);
                Err(reason)
            }
        }
    }

    /// Ends the handshake of a kind that has been under way for longest.
    fn give_way(&mut self, is_stranger: bool, now: Now) {
        let of_kind = self.connections.iter().filter_map(|(id, it)| match it.phase {
            Phase::Beginning { ends_at } if it.origin == Origin::Theirs { is_stranger } => {
                Some((ends_at, *id))
            }
            _ => None,
        });
        if let Some((_, id)) = of_kind.min() {
            self.drops.count(DropReason::GaveWay);
            self.give_up(id, EndError::TooMany, now);
        }
    }

    fn take(
        &mut self,
        incoming: Incoming,
        names: (Name, Name),
        shown: &Shown,
        is_stranger: bool,
        now: Now,
    ) -> Result<(), DropReason> {
        let (local, peer) = names;
        let verifier = self.credentials.verifier(peer, now);
        let share = Share::of(is_stranger);
        let Ok(config) = self.server_config(shown, Arc::clone(&verifier), share) else {
            self.endpoint.ignore(incoming);
            return Err(DropReason::NotBegun);
        };
        let accepted =
            self.endpoint.accept(incoming, now.instant, &mut self.scratch, Some(Arc::new(config)));
        match accepted {
            Ok((handle, quic)) => {
                let origin = Origin::Theirs { is_stranger };
                let id = self.insert(handle, quic, names, verifier, origin, now);
                self.gate.begun(is_stranger);
                self.settle(id, now);
                Ok(())
            }
            Err(error) => {
                if error.response.is_some() {
                    self.answer(local, peer);
                }
                Err(DropReason::NotBegun)
            }
        }
    }

    /// Takes first packets from now on. What is made of them is for [`Ends::judge`] to say.
    pub(super) fn begin_to_answer(&mut self) -> Result<(), EndError> {
        let shown = &self.shown.get(&self.name).ok_or(EndError::Library)?.certificate;
        // Only its keys for first packets and tokens are used: each connection has its own.
        let nobody = self.credentials.nobody();
        let config = self.server_config(shown, nobody, Share::Stranger)?;
        self.endpoint.set_server_config(Some(Arc::new(config)));
        Ok(())
    }

    fn server_config(
        &self,
        shown: &Shown,
        verifier: Arc<Verifier>,
        share: Share,
    ) -> Result<ServerConfig, EndError> {
        let tls = self.credentials.server(shown, verifier, self.config.protocols())?;
        let mut config = ServerConfig::new(Arc::new(tls), Arc::new(token_key(&self.token_key)));
        config
            .transport_config(transport::config(share, self.config.max_datagram_len))
            // The peer is a name, wherever it is.
            .migration(false)
            .max_incoming(1)
            .incoming_buffer_size(0)
            .incoming_buffer_size_total(0)
            .time_source(Arc::clone(&self.clock) as _);
        Ok(config)
    }

    fn insert(
        &mut self,
        handle: ConnectionHandle,
        quic: quinn_proto::Connection,
        (local, peer): (Name, Name),
        verifier: Arc<Verifier>,
        origin: Origin,
        now: Now,
    ) -> ConnectionId {
        let id = ConnectionId(self.next_id);
        self.next_id += 1;
        let within = match origin {
            Origin::Ours => self.config.connect_within,
            Origin::Theirs { .. } => BEGINS_WITHIN,
        };
        let ends_at = now.instant + within;
        self.by_handle.insert(handle, id);
        self.connections.insert(
            id,
            Connection {
                handle,
                quic,
                local,
                peer,
                verifier,
                origin,
                standing: Standing::Stranger,
                member_until_s: None,
                phase: Phase::Beginning { ends_at },
                timer: None,
                is_ready: false,
                unclaimed: HashMap::new(),
                heads: HashMap::new(),
                held: HashSet::new(),
                keepers: 0,
                used_at: now.instant,
                spent: Spent::default(),
                pace: Pace::default(),
                records: None,
                waiting: Waiting::default(),
                longest: 0,
            },
        );
        id
    }
}

/// What TLS calls who is called; it is not sent, and names are in the certificates.
const NOBODY: &str = "rhumb.invalid";
/// Those of this end, and those of others ([`crate::gate`]) with them: a bound for memory alone.
const MAX_CONNECTIONS: usize = 4096;
