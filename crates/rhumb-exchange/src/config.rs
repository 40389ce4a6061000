//! What a party is started with, and what both sides of a connection must have alike.

use std::sync::Arc;
use std::time::Duration;

use rhumb_mpc::Party;

use crate::coins::short_digest;
use crate::message::hello::{Hello, Speaker};
use crate::route::Destination;
use crate::{ExchangeError, Form, Lane, MAX_LANES, Quota, Roster};

/// What all parties and members must have alike.
#[derive(Debug, Clone)]
pub struct Common {
    /// Who takes part.
    pub roster: Arc<Roster>,
    /// Shards of each party: destinations are divided among them by hash. 1 to [`MAX_SHARDS`].
    pub shards: u16,
    /// How the best route is found.
    pub form: Form,
}

impl Common {
    /// One shard, the default circuit.
    #[must_use]
    pub fn new(roster: Arc<Roster>) -> Self {
        Self { roster, shards: 1, form: Form::TopClass }
    }

    /// Checks it.
    ///
    /// # Errors
    ///
    /// [`ExchangeError::OutOfRange`].
    pub fn check(&self) -> Result<(), ExchangeError> {
        let (what, least, most) = ("the number of shards", 1, MAX_SHARDS);
        if (least..=most).contains(&usize::from(self.shards)) {
            return Ok(());
        }
        Err(ExchangeError::OutOfRange { what, least, most })
    }

    /// Whose shard a destination is.
    #[must_use]
    pub fn shard_of(&self, destination: &Destination) -> u16 {
        let digest = short_digest(b"rhumb-exchange shard", &[destination.as_bytes()]);
        (digest % u64::from(self.shards)) as u16
    }

    /// What both sides of a connection say first.
    #[must_use]
    pub fn hello(&self, speaker: Speaker) -> Hello {
        let (roster, lanes) = (self.roster.digest(), self.roster.lanes() as u16);
        Hello { speaker, roster, lanes, shards: self.shards, form: self.form }
    }

    /// Whether the other side was started alike. Between a member and a party one roster may extend
    /// the other: whoever has the longer sees whether it does.
    ///
    /// # Errors
    ///
    /// [`ExchangeError::Roster`], [`ExchangeError::Parameter`].
    pub fn check_alike(&self, theirs: &Hello) -> Result<(), ExchangeError> {
        let lanes = usize::from(theirs.lanes);
        let is_longer = (self.roster.lanes() + 1..=MAX_LANES).contains(&lanes);
        if !is_longer && self.roster.digest_of(lanes) != Some(theirs.roster) {
            return Err(ExchangeError::Roster);
        }
        if theirs.shards != self.shards {
            return Err(ExchangeError::Parameter("number of shards"));
        }
        if theirs.form != self.form {
            return Err(ExchangeError::Parameter("circuit for the best route"));
        }
        Ok(())
    }
}

/// What a party is started with.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// What all have alike.
    pub common: Common,
    /// Of the computations of each shard; must be the peer's.
    pub engine: rhumb_mpc::Parameters,
    /// Routes that are handed out under one order at most: 1 to [`MAX_BATCH`].
    pub batch: usize,
    /// How long members have to rank.
    pub ranking: Duration,
    /// How long a lane's routes stay after its connection to either party ended.
    pub stale: Duration,
    /// How long after a pair has begun members' tables are
    /// waited for before members are told what is gone.
    pub settle: Duration,
    /// Party one: how long it takes until everything was chosen anew, or longer if that is much.
    pub pass: Duration,
}

impl ServerConfig {
    /// With the defaults of this module's constants.
    #[must_use]
    pub fn new(common: Common) -> Self {
        Self {
            common,
            engine: rhumb_mpc::Parameters::default(),
            batch: BATCH,
            ranking: RANKING,
            stale: STALE,
            settle: SETTLE,
            pass: PASS,
        }
    }

    /// Checks it.
    ///
    /// # Errors
    ///
    /// [`ExchangeError::OutOfRange`].
    pub fn check(&self) -> Result<(), ExchangeError> {
        self.common.check()?;
        if self.pass.is_zero() {
            let what = "the time of a pass";
            return Err(ExchangeError::OutOfRange { what, least: 1, most: usize::MAX });
        }
        if !(1..=MAX_BATCH).contains(&self.batch) {
            let what = "the number of routes of a run";
            return Err(ExchangeError::OutOfRange { what, least: 1, most: MAX_BATCH });
        }
        // What does not fit a pool, with a batch that is made when one
        // word is missing, could at some time not run.
        let (words, places) = (self.common.roster.words(), crate::circuits::MAX_ROUTES);
        let (bits, vectors) = match self.common.form {
            Form::Paper => (35 * places, places),
            Form::Index => (31 * places, 0),
            Form::TopClass => (4 * places, 0),
        };
        let needed = [bits, vectors].map(|count| (count * words) as u64);
        let [bits, vectors] = rhumb_mpc::Parameters::least_for(needed);
        let pools = [
            ("words of vector triples in a pool", self.engine.vector_words, vectors),
            ("words of bit triples in a pool", self.engine.bit_words, bits),
        ];
        for (what, words, least) in pools {
            if u64::from(words) < least {
                let (least, most) = (least as usize, u32::MAX as usize);
                return Err(ExchangeError::OutOfRange { what, least, most });
            }
        }
        Ok(())
    }

    /// What a shard of a party lets a lane have. Party two has no sealed routes, and counts its
    /// shares, of as many lanes as the roster has and a word more.
    pub(crate) fn quota(&self, party: Party, lane: Lane) -> Quota {
        let quota = self.common.roster.quota(lane).in_shard(self.common.shards);
        match party {
            Party::One => quota,
            Party::Two => {
                let share = 16 * (self.common.roster.lanes() as u64 + 64);
                Quota { bytes: u64::from(quota.routes) * share, ..quota }
            }
        }
    }

    /// A party's hello for a connection to a member or to the other
    /// party. The nonce is drawn for the connection.
    #[must_use]
    pub fn hello(&self, party: Party, nonce: [u8; 32]) -> Hello {
        self.common.hello(Speaker::Party { party, nonce, engine: self.engine })
    }

    /// Judges a member's hello; `lane` is whose key it has connected with.
    /// Gives whether it takes part in Select-Best.
    ///
    /// # Errors
    ///
    /// What differs.
    pub fn check_member(&self, theirs: &Hello, lane: Lane) -> Result<bool, ExchangeError> {
        self.common.check_alike(theirs)?;
        match theirs.speaker {
            Speaker::Member { lane: says, .. } if says != lane => {
                Err(ExchangeError::Lane { says, is: lane })
            }
            Speaker::Member { participates, .. } => Ok(participates),
            Speaker::Party { .. } => {
                Err(ExchangeError::Speaker("is a party, and should be a member"))
            }
        }
    }

    /// Judges the other party's hello, with what this one has said. Gives the epoch of the pair.
    ///
    /// # Errors
    ///
    /// What differs.
    pub fn check_party(&self, mine: &Hello, theirs: &Hello) -> Result<u64, ExchangeError> {
        self.common.check_alike(theirs)?;
        if theirs.roster != mine.roster {
            return Err(ExchangeError::Roster);
        }
        let (
            Speaker::Party { party, nonce, .. },
            Speaker::Party { party: other, nonce: other_nonce, engine },
        ) = (mine.speaker, theirs.speaker)
        else {
            return Err(ExchangeError::Speaker("is a member, and should be a party"));
        };
        if other == party {
            return Err(ExchangeError::Speaker("is the same party as this one"));
        }
        if engine.field != self.engine.field {
            return Err(ExchangeError::Parameter("field of the computation"));
        }
        if engine.bit_words != self.engine.bit_words
            || engine.vector_words != self.engine.vector_words
        {
            return Err(ExchangeError::Parameter("size of the pools of triples"));
        }
        let mut nonces = [nonce, other_nonce];
        if party == Party::Two {
            nonces.reverse();
        }
        Ok(short_digest(b"rhumb-exchange epoch", &[&nonces[0], &nonces[1]]))
    }
}

/// A shard is a thread; no machine has more for this.
pub const MAX_SHARDS: usize = 256;

/// Routes under one order by default. One order is under way at a time: this is a table of 3,200
/// routes a second at a round trip of 20 ms.
pub const BATCH: usize = 64;
/// More would make what waits for members' connections grow in leaps: at
/// 1,000 members and 250 bytes these are 64 MB.
pub const MAX_BATCH: usize = 256;

/// Routes that a member keeps for a shard itself, whatever its quota
/// is: a full table of the Internet has a million.
pub const MAX_ROUTES_PER_LANE: usize = 1 << 21;

/// Ranking takes a proxy microseconds; a member that takes
/// longer than this goes without the exchange's help.
pub const RANKING: Duration = Duration::from_secs(1);
/// Long enough for a proxy or a server to start again, below BGP's usual hold time of 90 s.
pub const STALE: Duration = Duration::from_secs(30);
/// As long: who is not back by then has lost its routes anyway.
pub const SETTLE: Duration = Duration::from_secs(30);

/// Load is of minutes: what was a moment's is over then, and what stays
/// is acted on in twice or three times as long.
pub const PASS: Duration = Duration::from_secs(120);

/// Routes that one order replays to a member.
pub const REPLAY_LANES: usize = 4096;
/// Bytes of routes that a shard replays to a member before it has put together what
/// came earlier: what waits for a member that reads slowly stays within it, and at a
/// round trip of 20 ms it is no bound on 400 Mbit/s.
pub const REPLAY_AHEAD: usize = 1 << 20;
