//! A party whole, on one thread: all its shards. Whoever has a thread per shard takes [`Shard`]s
//! instead, and finds whose a message is by [`shard_of`](crate::shard_of).

use std::sync::Arc;
use std::time::Instant;

use rhumb_mpc::{Party, Seed};

use crate::roster::Lane;
use crate::shard::{Output, Shard, Status};
use crate::{ExchangeError, ServerConfig, shard_of};

/// All shards of a party.
#[derive(Debug)]
pub struct Server {
    shards: Vec<Shard>,
}

impl Server {
    /// Holds nothing, and has no pair.
    ///
    /// # Errors
    ///
    /// As [`Shard::new`].
    pub fn new(party: Party, config: &Arc<ServerConfig>) -> Result<Self, ExchangeError> {
        config.check()?;
        let shards = 0..config.common.shards;
        let shards = shards.map(|number| Shard::new(party, number, Arc::clone(config)));
        Ok(Self { shards: shards.collect::<Result<_, _>>()? })
    }

    /// As [`Shard::member_joined`].
    pub fn member_joined(&mut self, lane: Lane, participates: bool, now: Instant) {
        self.shards.iter_mut().for_each(|shard| shard.member_joined(lane, participates, now));
    }

    /// As [`Shard::member_left`].
    pub fn member_left(&mut self, lane: Lane, now: Instant) {
        self.shards.iter_mut().for_each(|shard| shard.member_left(lane, now));
    }

    /// As [`Shard::member_message`].
    ///
    /// # Errors
    ///
    /// As there; [`ExchangeError::Malformed`] if there is no such shard.
    pub fn member_message(
        &mut self,
        lane: Lane,
        bytes: &[u8],
        now: Instant,
    ) -> Result<(), ExchangeError> {
        self.shard(bytes)?.member_message(lane, bytes, now)
    }

    /// As [`Shard::pair_begun`]; gives each shard a seed.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn pair_begun(
        &mut self,
        epoch: u64,
        mut seed: impl FnMut() -> Seed,
        now: Instant,
    ) -> Result<(), ExchangeError> {
        self.shards.iter_mut().try_for_each(|shard| shard.pair_begun(epoch, seed(), now))
    }

    /// As [`Shard::pair_ended`].
    pub fn pair_ended(&mut self, now: Instant) {
        self.shards.iter_mut().for_each(|shard| shard.pair_ended(now));
    }

    /// As [`Shard::peer_message`].
    ///
    /// # Errors
    ///
    /// [`ExchangeError::Malformed`] if there is no such shard.
    pub fn peer_message(&mut self, bytes: &[u8], now: Instant) -> Result<(), ExchangeError> {
        self.shard(bytes)?.peer_message(bytes, now);
        Ok(())
    }

    /// As [`Shard::set_preferences`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn set_preferences(&mut self, preferences: &[u8]) -> Result<(), ExchangeError> {
        self.shards.iter_mut().try_for_each(|shard| shard.set_preferences(preferences))
    }

    /// As [`Shard::set_roster`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn set_roster(
        &mut self,
        config: &Arc<ServerConfig>,
        now: Instant,
    ) -> Result<(), ExchangeError> {
        self.shards.iter_mut().try_for_each(|shard| shard.set_roster(Arc::clone(config), now))
    }

    /// As [`Shard::refill`].
    pub fn refill(&mut self) -> bool {
        let mut did = false;
        self.shards.iter_mut().for_each(|shard| did |= shard.refill());
        did
    }

    /// As [`Shard::poll_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.shards.iter().filter_map(Shard::poll_timeout).min()
    }

    /// As [`Shard::handle_timeout`].
    pub fn handle_timeout(&mut self, now: Instant) {
        self.shards.iter_mut().for_each(|shard| shard.handle_timeout(now));
    }

    /// As [`Shard::poll_output`].
    pub fn poll_output(&mut self) -> Option<Output> {
        self.shards.iter_mut().find_map(Shard::poll_output)
    }

    /// Of each shard.
    #[must_use]
    pub fn status(&self) -> Vec<Status> {
        self.shards.iter().map(Shard::status).collect()
    }

    fn shard(&mut self, bytes: &[u8]) -> Result<&mut Shard, ExchangeError> {
        let number = shard_of(bytes)?;
        let shard = self.shards.get_mut(usize::from(number));
        shard.ok_or(ExchangeError::Malformed("it is for a shard that is not there"))
    }
}
