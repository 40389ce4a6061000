//! The command line of `rhumb dashboard`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use crate::admin::Admin;
use crate::remote::parse_address;

/// `rhumb dashboard`
#[derive(Debug, Args)]
pub struct DashboardArguments {
    /// Show the daemon at this socket or address, too; may be repeated. Those of another host come
    /// by a tunnel
    #[arg(long = "admin", value_name = "PATH|ADDR", value_parser = Admin::parse)]
    pub admins: Vec<Admin>,
    /// Show those of `--admin` alone, and seek no others
    #[arg(long, requires = "admins")]
    pub only: bool,
    /// Where browsers are answered. One that others reach needs a token of your own, and a TLS
    /// proxy or a tunnel in front: the page itself is served in plain text
    #[arg(long, value_name = "ADDR", default_value = LISTEN, value_parser = parse_address)]
    pub listen: SocketAddr,
    /// The token that lets browsers in: the one line of this file, of 20 characters or more, that
    /// its owner alone may read [default: a fresh one, printed at the start]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// A name that browsers may call the dashboard by, besides addresses and `localhost`: that of a
    /// proxy in front; may be repeated
    #[arg(long = "host", value_name = "NAME", value_parser = parse_host)]
    pub hosts: Vec<String>,
}

/// A name of a host as browsers say it.
fn parse_host(text: &str) -> Result<String, String> {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
    if text.is_empty() || text.len() > 253 || !text.bytes().all(is_fine) {
        return Err(format!("`{text}` is no name of a host; give one like board.example.org"));
    }
    Ok(text.to_ascii_lowercase())
}

/// Unassigned by IANA, and beside those of daemons.
const LISTEN: &str = "127.0.0.1:7485";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_no_port_and_no_path() {
        assert_eq!(parse_host("Board.example.org"), Ok("board.example.org".to_owned()));
        for bad in ["", "a:80", "http://a", "a/b", "a b", "*"] {
            assert!(parse_host(bad).is_err(), "{bad}");
        }
    }
}
