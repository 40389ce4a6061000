//! How the link of every station is set up.

/// The link of every station: one whose runs can be repeated.
pub(crate) fn link_config() -> rhumb_link::Config {
    let mut config = rhumb_link::Config::default();
    config.repeatable_handshakes = true;
    config
}
