//! What `rhumb waypoint` and a router at the border of a trust domain have in common: both verify
//! capabilities by master keys, keep accounts, and follow what is revoked.

pub mod books;
pub mod follow;
pub mod kept;
pub mod masters;
pub mod report;

use std::time::Duration;

/// How often what is due is looked for. Revocations wake who waits.
pub const TICK: Duration = Duration::from_millis(500);
/// People wait no longer than this for a typing error to show.
pub const FOLLOW_DEADLINE: Duration = Duration::from_secs(5);
