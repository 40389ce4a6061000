//! What daemons and commands of Rhumb are made of: arguments, settings, files, and the frame of
//! what runs for long.
//!
//! A command of the binary is left with its own work. Each of these is there because two commands
//! need it, or because it is a setting: [`config`] validates all of them together.

#![forbid(unsafe_code)]

pub mod ad_cert;
pub mod admin;
pub mod belonging;
pub mod cli;
pub mod clock;
pub mod config;
pub mod daemon;
pub mod exchange_links;
pub mod exchange_protocols;
pub mod failure;
pub mod inquiry;
pub mod key;
pub mod key_fetch;
pub mod lifetime;
pub mod membership;
pub mod names;
pub mod network;
pub mod node_status;
pub mod output;
pub mod ports;
pub mod privileges;
pub mod progress;
pub mod published;
pub mod remote;
pub mod removals;
pub mod resolver;
pub mod revocation_feed;
pub mod roster;
pub mod running;
pub mod secret_file;
pub mod service;
pub mod signer;
mod size;
pub mod status;
pub mod store;
pub mod stored_names;
pub mod supervisor;
#[cfg_attr(not(target_os = "linux"), path = "tun/elsewhere.rs")]
pub mod tun;
pub mod values;
pub mod warnings;
pub mod waypoint;
pub mod words;
