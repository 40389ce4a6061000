//! The commands, one module each.

pub(crate) mod capability;
pub(crate) mod certify;
pub(crate) mod demo;
pub(crate) mod domain;
pub(crate) mod exchange;
pub(crate) mod forward;
pub(crate) mod group;
pub(crate) mod inspect;
pub(crate) mod keygen;
pub(crate) mod keyserver;
pub(crate) mod member;
pub(crate) mod name;
pub(crate) mod ping;
pub(crate) mod proxy;
pub(crate) mod receive;
pub(crate) mod rib;
pub(crate) mod router;
pub(crate) mod send;
pub(crate) mod serve;
#[cfg(target_os = "linux")]
pub(crate) mod stamp;
pub(crate) mod status;
pub(crate) mod trace;
pub(crate) mod up;
pub(crate) mod waypoint;
pub(crate) mod why;
