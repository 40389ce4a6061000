//! OpenSSL as the other end: a TLS stack that is not ours, under a certificate of ours, which says
//! over the stream whatever a test has it say.

#![allow(clippy::unwrap_used, unreachable_pub)] // Tests may.

use std::fs::{self, File};
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};

use rhumb_trust::{Identity, x509};

/// An `openssl s_client` that ends with its value.
pub struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    directory: tempfile::TempDir,
}

impl Client {
    /// Dials `address`, with further arguments; shows the certificate of `identity`, if any.
    pub fn dial(address: SocketAddr, identity: Option<&Identity>, arguments: &[&str]) -> Self {
        Self::start(&["-quiet", "-nocommands"], address, identity, arguments)
    }

    /// Likewise, but what begins with a letter is for itself: `K` and `k` to take its next key, and
    /// to ask for ours or not.
    pub fn dial_to_command(address: SocketAddr, identity: &Identity, arguments: &[&str]) -> Self {
        Self::start(&["-brief"], address, Some(identity), arguments)
    }

    fn start(
        flags: &[&str],
        address: SocketAddr,
        identity: Option<&Identity>,
        arguments: &[&str],
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |file: &str| -> PathBuf { directory.path().join(file) };
        let mut command = Command::new("openssl");
        command.arg("s_client").args(flags).args(["-connect", &address.to_string()]);
        if let Some(identity) = identity {
            fs::write(path("certificate"), x509::make(identity).unwrap()).unwrap();
            fs::write(path("key"), identity.pkcs8_der()).unwrap();
            command.arg("-cert").arg(path("certificate")).args(["-certform", "DER"]);
            command.arg("-key").arg(path("key")).args(["-keyform", "DER"]);
        }
        let mut child = command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(File::create(path("output")).unwrap())
            .stderr(File::create(path("errors")).unwrap())
            .spawn()
            .expect("openssl is there");
        let stdin = child.stdin.take();
        Self { child, stdin, directory }
    }

    pub fn say(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        // If it has ended, the test will see.
        let _ = stdin.write_all(bytes).and_then(|()| stdin.flush());
    }

    /// What it has heard.
    pub fn output(&self) -> Vec<u8> {
        fs::read(self.directory.path().join("output")).unwrap()
    }

    pub fn errors(&self) -> String {
        let errors = fs::read(self.directory.path().join("errors")).unwrap();
        String::from_utf8_lossy(&errors).into_owned()
    }

    /// Whether it has ended.
    pub fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub const USUAL: [&str; 3] = ["-tls1_3", "-alpn", "rhumb/1"];
