//! What trust domains leave their members: how many names, how much is carried, and to whom they
//! send (spec 3.1).
//!
//! Names and bytes count on accounts: the member's, and that of each who handed the domain's word
//! down to it and has a limit himself. So keys and sessions that somebody makes below a limit of
//! his get him no more of it.
//!
//! INVARIANT: an account outlives its sessions for as long as what it had carried is not forgiven;
//! so no handshake gives anybody back what he used up.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use foldhash::quality::RandomState;
use rhumb_wire::{Limits, Name};

/// What a session may have, by the membership that it shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// The domain that says so.
    pub(crate) domain: Name,
    /// Whose limits hold for it, and which: those that bound names or rate.
    pub(crate) shares: Vec<(Name, Limits)>,
    /// It sends to this name only.
    pub(crate) only_to: Option<Name>,
    /// It sends only to what was found no further out than so many domains, less one; `None` for
    /// everywhere, 0 for nowhere.
    pub(crate) levels: Option<u8>,
}

impl Bounds {
    /// Whether what it sends counts against a rate.
    pub(crate) fn are_metered(&self) -> bool {
        self.shares.iter().any(|(_, limits)| limits.kbit_per_s > 0)
    }

    /// Whether it may send to a name, wherever that is.
    pub(crate) fn let_send_to(&self, name: &Name) -> bool {
        self.only_to.is_none_or(|only| only == *name)
    }

    /// Whether it may send to a name that was found so many domains further out.
    pub(crate) fn reach(&self, level: u8) -> bool {
        self.levels.is_none_or(|levels| level < levels)
    }

    /// Whether names of it count on somebody's account.
    pub(crate) fn count_on(&self, account: &Name) -> bool {
        self.shares.iter().any(|(name, _)| name == account)
    }
}

/// What members have, by the name that it counts on.
#[derive(Debug, Default)]
pub(crate) struct Accounts(HashMap<Name, Account, RandomState>);

#[derive(Debug)]
struct Account {
    /// That count on it.
    sessions: u32,
    /// Attached by them.
    names: usize,
    /// What was carried and is not forgiven yet, in thousandths of bits: a kbit/s forgives one in
    /// each microsecond.
    carried: u64,
    as_of: Instant,
    /// The rate by which it was forgiven last.
    kbit_per_s: u32,
    /// When names that are not attached any more were last looked for.
    looked_at: Option<Instant>,
}

/// An account on which there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exhausted {
    /// Whose.
    pub(crate) giver: Name,
    /// What it may have.
    pub(crate) limits: Limits,
    /// When there will be room for what was carried.
    pub(crate) retry_ms: u16,
}

impl Accounts {
    /// A session that has attached so many names shows other bounds from now on.
    pub(crate) fn replace(
        &mut self,
        before: Option<&Bounds>,
        after: Option<&Bounds>,
        names: usize,
        now: Instant,
    ) {
        for (name, limits) in after.iter().flat_map(|bounds| &bounds.shares) {
            let account = self.0.entry(*name).or_insert_with(|| Account::new(limits, now));
            account.sessions += 1;
            account.names += names;
        }
        for (name, _) in before.iter().flat_map(|bounds| &bounds.shares) {
            if let Some(account) = self.0.get_mut(name) {
                account.sessions = account.sessions.saturating_sub(1);
                account.names = account.names.saturating_sub(names);
            }
        }
    }

    /// A session has attached so many names before, and other ones now.
    pub(crate) fn count(&mut self, bounds: &Bounds, before: usize, after: usize) {
        for (name, _) in &bounds.shares {
            if let Some(account) = self.0.get_mut(name) {
                account.names = (account.names + after).saturating_sub(before);
            }
        }
    }

    /// The first account on which there is no room for `more` names, but for those on which
    /// `elsewhere` counts already.
    pub(crate) fn without_room(
        &self,
        bounds: &Bounds,
        elsewhere: Option<&Bounds>,
        more: usize,
    ) -> Option<Exhausted> {
        let is_full = |(name, limits): &&(Name, Limits)| {
            let held = self.0.get(name).map_or(0, |account| account.names);
            let moves = elsewhere.is_some_and(|bounds| bounds.count_on(name));
            limits.names > 0 && !moves && held + more > limits.names as usize
        };
        let full = bounds.shares.iter().find(is_full);
        full.map(|(giver, limits)| Exhausted { giver: *giver, limits: *limits, retry_ms: 0 })
    }

    /// Whether it is time to look whether names that count on an account are still attached.
    pub(crate) fn may_look(&mut self, account: &Name, now: Instant) -> bool {
        let Some(account) = self.0.get_mut(account) else { return false };
        let may = account.looked_at.is_none_or(|at| now >= at + LOOK_AGAIN_AFTER);
        if may {
            account.looked_at = Some(now);
        }
        may
    }

    /// Whether so many bytes are within all rates that hold for a session, which are counted then.
    pub(crate) fn carry(
        &mut self,
        bounds: &Bounds,
        len: usize,
        now: Instant,
    ) -> Result<(), Exhausted> {
        let milli_bits = len as u64 * 8000;
        let metered = || bounds.shares.iter().filter(|(_, limits)| limits.kbit_per_s > 0);
        for (name, limits) in metered() {
            let Some(account) = self.0.get_mut(name) else { continue };
            account.forgive(limits.kbit_per_s, now);
            let over = (account.carried + milli_bits).saturating_sub(burst(limits.kbit_per_s));
            if over > 0 {
                let ms = over.div_ceil(1000 * u64::from(limits.kbit_per_s));
                let retry_ms = u16::try_from(ms).unwrap_or(u16::MAX).min(MAX_RETRY_MS);
                return Err(Exhausted { giver: *name, limits: *limits, retry_ms });
            }
        }
        for (name, _) in metered() {
            if let Some(account) = self.0.get_mut(name) {
                account.carried += milli_bits;
            }
        }
        Ok(())
    }

    /// Forgets accounts that no session counts on and that nothing is to be remembered of.
    pub(crate) fn sweep(&mut self, now: Instant) {
        self.0.retain(|_, account| {
            account.forgive(account.kbit_per_s, now);
            account.sessions > 0 || account.carried > 0
        });
        // Names cost nothing: whoever makes domains and members of them is not to fill our memory.
        if self.0.len() > MAX_ACCOUNTS {
            self.0.retain(|_, account| account.sessions > 0);
        }
    }
}

impl Account {
    fn new(limits: &Limits, now: Instant) -> Self {
        let kbit_per_s = limits.kbit_per_s;
        Self { sessions: 0, names: 0, carried: 0, as_of: now, kbit_per_s, looked_at: None }
    }

    fn forgive(&mut self, kbit_per_s: u32, now: Instant) {
        let elapsed = now.saturating_duration_since(self.as_of).as_micros();
        let elapsed_us = u64::try_from(elapsed).unwrap_or(u64::MAX);
        self.carried = self.carried.saturating_sub(elapsed_us.saturating_mul(kbit_per_s.into()));
        self.as_of += Duration::from_micros(elapsed_us);
        self.kbit_per_s = kbit_per_s;
    }
}

/// The most that may be carried at once, in thousandths of bits: what comes in an eighth of a
/// second, and any datagram that there may be.
fn burst(kbit_per_s: u32) -> u64 {
    (u64::from(kbit_per_s) * 125_000).max(MIN_BURST)
}

/// 16 KiB.
const MIN_BURST: u64 = (16 << 10) * 8000;
/// By the slowest rates it would be long.
const MAX_RETRY_MS: u16 = 1000;
/// It looks at all sessions.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Of some hundred bytes each.
const MAX_ACCOUNTS: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    const GIVER: Name = Name([1; 32]);

    #[expect(clippy::disallowed_methods, reason = "a test's clock begins somewhere")]
    fn start() -> Instant {
        Instant::now()
    }

    /// A member whose giver may have this, and which itself may.
    fn bounds(member: u8, of_giver: (u32, u32), own: (u32, u32)) -> Bounds {
        let share =
            |name, (names, kbit_per_s)| (name, Limits { names, kbit_per_s, ..Limits::NONE });
        let shares = vec![share(GIVER, of_giver), share(Name([member; 32]), own)];
        Bounds { domain: Name([0; 32]), shares, only_to: None, levels: None }
    }

    #[test]
    fn names_count_on_the_member_and_on_its_giver() {
        let (now, mut accounts) = (start(), Accounts::default());
        let [one, other] = [2, 3].map(|member| bounds(member, (5, 0), (3, 0)));
        accounts.replace(None, Some(&one), 0, now);
        accounts.replace(None, Some(&other), 0, now);
        accounts.count(&one, 0, 3);
        let full = accounts.without_room(&one, None, 1).unwrap();
        assert_eq!((full.giver, full.limits.names), (Name([2; 32]), 3));
        assert_eq!(accounts.without_room(&other, None, 2), None);
        accounts.count(&other, 0, 2);
        assert_eq!(accounts.without_room(&other, None, 1).unwrap().giver, GIVER);
        // A name that comes from the other one needs room on its own account alone.
        assert_eq!(accounts.without_room(&other, Some(&one), 1), None);
        // The session ends, and another one begins: the giver's others stay counted.
        accounts.replace(Some(&one), None, 3, now);
        assert_eq!(accounts.without_room(&other, None, 1), None);
        accounts.replace(None, Some(&one), 3, now);
        assert_eq!(accounts.without_room(&one, None, 0), None);
        assert!(accounts.without_room(&one, None, 1).is_some());
    }

    /// Bytes that go within `ms`, in datagrams of 1000.
    fn carried(accounts: &mut Accounts, bounds: &Bounds, from: Instant, ms: u64) -> usize {
        let moments = (0..ms * 20).map(|step| from + Duration::from_micros(step * 50));
        moments.filter(|at| accounts.carry(bounds, 1000, *at).is_ok()).count() * 1000
    }

    #[test]
    fn a_rate_is_had_together_and_no_session_begins_it_anew() {
        let (now, mut accounts) = (start(), Accounts::default());
        // 1 MB a second together, 500 kB each.
        let [one, other] = [2, 3].map(|member| bounds(member, (0, 8000), (0, 4000)));
        accounts.replace(None, Some(&one), 0, now);
        accounts.replace(None, Some(&other), 0, now);
        let alone = carried(&mut accounts, &one, now, 1000);
        assert!((540_000..=564_000).contains(&alone), "{alone}: half a second's and a burst");
        let end = now + Duration::from_secs(1);
        while accounts.carry(&one, 100, end).is_ok() {}
        let exhausted = accounts.carry(&one, 1000, end).unwrap_err();
        assert_eq!((exhausted.giver, exhausted.retry_ms), (Name([2; 32]), 2));
        // Neither does a new session give it a burst, nor one that shows more for a moment.
        accounts.replace(Some(&one), None, 0, now);
        accounts.sweep(now + Duration::from_secs(1));
        let again = now + Duration::from_secs(1);
        accounts.replace(None, Some(&one), 0, again);
        assert!(accounts.carry(&one, 1000, again).is_err());
        let later = now + Duration::from_secs(10);
        let mut together = 0;
        for ms in 0..1000 {
            let at = later + Duration::from_millis(ms);
            together +=
                [&one, &other].map(|it| carried(&mut accounts, it, at, 1)).iter().sum::<usize>();
        }
        assert!((1_000_000..=1_130_000).contains(&together), "{together}");
        accounts.replace(Some(&one), None, 0, later);
        accounts.replace(Some(&other), None, 0, later);
        accounts.sweep(later + Duration::from_secs(60));
        assert!(accounts.0.is_empty(), "what is forgiven is forgotten");
    }

    #[test]
    fn a_reach_is_a_name_and_a_number_of_domains() {
        let everywhere = bounds(2, (0, 0), (0, 0));
        assert!(!everywhere.are_metered() && everywhere.reach(200));
        let inside = Bounds { levels: Some(1), ..everywhere.clone() };
        assert!(inside.reach(0) && !inside.reach(1));
        assert!(!Bounds { levels: Some(0), ..inside }.reach(0), "nothing here is inside");
        let one = Bounds { only_to: Some(GIVER), ..everywhere };
        assert!(one.let_send_to(&GIVER) && !one.let_send_to(&Name([9; 32])));
    }
}
