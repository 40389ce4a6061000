//! OpenSSL as the foreign peer, over UDP on loopback, in both roles: names are proven, both ends
//! export the same keys, and records made from OpenSSL's export by an independent derivation open
//! on our side, and ours on theirs.
//!
//! Independent means: HKDF and AES by the `openssl`
//! command, GHASH written here from NIST SP 800-38D.

#![allow(clippy::unwrap_used)] // A test may.

use std::fs::{self, File};
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_link::{Config, Endpoint, Event, MIN_DATAGRAM_LEN, SessionId};
use rhumb_trust::Identity;
use rhumb_wire::datagram::{
    AEAD_TAG_LEN, Counter, Datagram, RECORD_OVERHEAD, RecordHeader, RecordKind, SessionIndex,
    SessionParameters,
};
use rhumb_wire::{Batch, Metadata, Name, PublicKey, Role};

#[test]
fn s_client_begins() {
    let Some(place) = place() else { return };
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let mut us = Us::new(socket);
    let connect = address.to_string();
    let mut openssl = place.spawn("s_client", &["-connect", &connect, "-nocommands"]);
    let from = us.run_until(|us| us.heard_from);
    openssl.say(&PARAMETERS);
    check_session(&mut us, &openssl, &place, from, false);
}

#[test]
fn s_server_answers() {
    let Some(place) = place() else { return };
    let port = free_port();
    let mut openssl = place.spawn("s_server", &["-port", &port.to_string(), "-Verify", "1"]);
    openssl.wait_for(b"ACCEPT");
    let mut us = Us::new(UdpSocket::bind("127.0.0.1:0").unwrap());
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    us.endpoint.connect(address, Some(place.name), clock());
    us.run_until(|_| openssl.output().windows(4).any(|w| w == b"RP\x01\x08").then_some(()));
    openssl.say(&PARAMETERS);
    check_session(&mut us, &openssl, &place, address, true);
}

/// What `OpenSSL` tells us, on its standard input: index 0x77, 1,452 bytes.
const PARAMETERS: [u8; 10] = [b'R', b'P', 1, 1, 0, 0, 0, THEIR_INDEX, 0x05, 0xAC];
const THEIR_INDEX: u8 = 0x77;

/// The session is there, and records cross it in both directions.
fn check_session(us: &mut Us, openssl: &OpenSsl, place: &Place, address: SocketAddr, client: bool) {
    let session = us.run_until(|us| us.established);
    let peer = us.endpoint.peer(session).unwrap().clone();
    assert_eq!((peer.name, peer.address, peer.initiator), (place.name, address, client));
    assert_eq!(peer.max_datagram_len, MIN_DATAGRAM_LEN, "it answers no probes");

    let output = openssl.output();
    let at = output.windows(4).position(|window| window == b"RP\x01\x08").expect("parameters");
    let ours = SessionParameters::parse(&output[at..at + SessionParameters::LEN]).unwrap();
    let export = openssl.exported_keys();
    assert_eq!(export.len(), 88);

    // What we sealed, opened with the keys that OpenSSL exported.
    let mut sealed = [0; RECORD_OVERHEAD + 5];
    sealed[RecordHeader::LEN..][..5].copy_from_slice(b"to it");
    us.endpoint.seal(session, &mut sealed, clock()).unwrap();
    let header = RecordHeader::parse(&sealed).unwrap();
    assert_eq!(header.index.as_u32(), u32::from(THEIR_INDEX));
    let keys = place.derive(&export, client, header.counter.epoch());
    let text = &sealed[RecordHeader::LEN..sealed.len() - AEAD_TAG_LEN];
    let nonce = keys.nonce(header.counter);
    assert_eq!(
        keys.tag(place, &nonce, &sealed[..RecordHeader::LEN], text),
        sealed[sealed.len() - 16..]
    );
    assert_eq!(keys.crypt(place, &nonce, text), b"to it");

    // What is sealed with those keys, opened by us: in this epoch, and in the next.
    for epoch in 0..2 {
        let keys = place.derive(&export, !client, epoch);
        let counter = Counter::new(epoch, 7 + u64::from(epoch));
        let index = SessionIndex::new(ours.index.as_u32()).unwrap();
        let clear = RecordHeader { kind: RecordKind::Pdu, index, counter }.emit();
        let nonce = keys.nonce(counter);
        let text = keys.crypt(place, &nonce, b"from it");
        let tag = keys.tag(place, &nonce, &clear, &text);
        let mut datagram = [&clear[..], &text, &tag].concat();
        let opened = us.endpoint.open(address, &mut datagram, clock()).unwrap();
        assert_eq!(opened.session, session);
        assert_eq!(&datagram[opened.plaintext], b"from it");
    }
}

/// Our endpoint on a real socket.
struct Us {
    endpoint: Endpoint,
    socket: UdpSocket,
    heard_from: Option<SocketAddr>,
    established: Option<SessionId>,
}

impl Us {
    fn new(socket: UdpSocket) -> Self {
        socket.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        let identity = Arc::new(Identity::generate(Role::Router, 1).unwrap());
        let endpoint = Endpoint::new(identity, Config::default(), [9; 32], clock()).unwrap();
        Self { endpoint, socket, heard_from: None, established: None }
    }

    /// Drives the endpoint until `done` gives something, for 20 s at most.
    fn run_until<T>(&mut self, mut done: impl FnMut(&Self) -> Option<T>) -> T {
        let deadline = clock() + Duration::from_secs(20);
        let mut buffer = [0; 2048];
        while clock() < deadline {
            let mut batch = Batch::new();
            self.endpoint.poll_transmit(&mut batch);
            for (to, bytes) in batch.iter() {
                // Records are checked here, and OpenSSL has no use for them.
                if !matches!(Datagram::parse(bytes), Ok(Datagram::Record(_))) {
                    self.socket.send_to(bytes, to).unwrap();
                }
            }
            while let Some(event) = self.endpoint.poll_event() {
                match event {
                    Event::Established { session, .. } => self.established = Some(session),
                    other => panic!("{other:?}"),
                }
            }
            if let Some(result) = done(self) {
                return result;
            }
            if let Ok((len, from)) = self.socket.recv_from(&mut buffer) {
                self.heard_from = Some(from);
                if let Ok(datagram) = Datagram::parse(&buffer[..len]) {
                    let _ = self.endpoint.handle_handshake(from, datagram, clock());
                }
            }
            self.endpoint.handle_timeout(clock());
        }
        panic!("nothing within 20 s; drops {:?}", self.endpoint.drops())
    }
}

/// A directory with a certificate that `OpenSSL` made.
struct Place {
    directory: tempfile::TempDir,
    name: Name,
}

/// `None`, with a line that says why, when there is no `openssl` command.
fn place() -> Option<Place> {
    if let Err(error) = Command::new("openssl").arg("version").output() {
        println!("skipped: OpenSSL as a foreign peer (no openssl command: {error})");
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = |file: &str| directory.path().join(file).to_str().unwrap().to_owned();
    let key = path("key.pem");
    run(&["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", &key], &[]);
    let public =
        run(&["ec", "-in", &key, "-pubout", "-conv_form", "compressed", "-outform", "DER"], &[]);
    let point = public[public.len() - 33..].try_into().unwrap();
    let metadata = Metadata::new(Role::Node, PublicKey::EcdsaP256(point), 1_700_000_000)
        .with_attribute("label", "openssl")
        .unwrap();
    let config = format!(
        "[req]\ndistinguished_name=dn\n[dn]\n[identity]\n2.25.74088145=DER:{}\n",
        hex(&metadata.emit())
    );
    fs::write(path("req.cnf"), config).unwrap();
    run(
        &[
            "req",
            "-new",
            "-x509",
            "-key",
            &key,
            "-days",
            "2",
            "-subj",
            "/CN=any",
            "-config",
            &path("req.cnf"),
            "-extensions",
            "identity",
            "-out",
            &path("cert.pem"),
        ],
        &[],
    );
    Some(Place { name: rhumb_trust::name_of(&metadata), directory })
}

impl Place {
    fn path(&self, file: &str) -> PathBuf {
        self.directory.path().join(file)
    }

    fn spawn(&self, command: &str, arguments: &[&str]) -> OpenSsl {
        let log = self.path("output");
        let mut child = Command::new("openssl")
            .arg(command)
            .args(arguments)
            .args(["-dtls1_2", "-use_srtp", "SRTP_AEAD_AES_256_GCM"])
            .args(["-keymatexport", "EXTRACTOR-dtls_srtp", "-keymatexportlen", "88"])
            .arg("-cert")
            .arg(self.path("cert.pem"))
            .arg("-key")
            .arg(self.path("key.pem"))
            .stdin(Stdio::piped())
            .stdout(File::create(&log).unwrap())
            .stderr(File::create(self.path("errors")).unwrap())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        OpenSsl { child, stdin, log }
    }

    /// The protocol's key schedule, by the `openssl` command.
    fn derive(&self, export: &[u8], client: bool, epoch: u16) -> RecordKeys {
        let (key, salt) = if client {
            (&export[..32], &export[64..76])
        } else {
            (&export[32..64], &export[76..])
        };
        let root = hkdf("EXTRACT_ONLY", &[key, salt].concat(), "salt", b"rhumb/1 root", 32);
        let mut secret = hkdf("EXPAND_ONLY", &root, "info", b"rhumb/1 lane\0\0", 32);
        for _ in 0..epoch {
            secret = hkdf("EXPAND_ONLY", &secret, "info", b"rhumb/1 next", 32);
        }
        RecordKeys {
            key: hkdf("EXPAND_ONLY", &secret, "info", b"rhumb/1 key", 32),
            salt: hkdf("EXPAND_ONLY", &secret, "info", b"rhumb/1 salt", 12),
        }
    }
}

struct RecordKeys {
    key: Vec<u8>,
    salt: Vec<u8>,
}

impl RecordKeys {
    fn nonce(&self, counter: Counter) -> Vec<u8> {
        let padded = [&[0; 4][..], &counter.as_u64().to_be_bytes()].concat();
        self.salt.iter().zip(padded).map(|(salt, count)| salt ^ count).collect()
    }

    /// AES-CTR from block 2 on: SP 800-38D, section 7.1.
    fn crypt(&self, place: &Place, nonce: &[u8], text: &[u8]) -> Vec<u8> {
        let first = [nonce, &[0, 0, 0, 2]].concat();
        self.cipher(place, &["-aes-256-ctr", "-iv", &hex(&first)], text)
    }

    fn tag(&self, place: &Place, nonce: &[u8], clear: &[u8], sealed: &[u8]) -> Vec<u8> {
        let block = |bytes: &[u8]| {
            u128::from_be_bytes(
                self.cipher(place, &["-aes-256-ecb", "-nopad"], bytes).try_into().unwrap(),
            )
        };
        let subkey = block(&[0; 16]);
        let mask = block(&[nonce, &[0, 0, 0, 1]].concat());
        let mut input = padded(clear);
        input.extend(padded(sealed));
        input.extend((clear.len() as u64 * 8).to_be_bytes());
        input.extend((sealed.len() as u64 * 8).to_be_bytes());
        let hash = input.chunks(16).fold(0, |hash, chunk| {
            multiply(hash ^ u128::from_be_bytes(chunk.try_into().unwrap()), subkey)
        });
        (hash ^ mask).to_be_bytes().to_vec()
    }

    fn cipher(&self, place: &Place, arguments: &[&str], text: &[u8]) -> Vec<u8> {
        let file = place.path("text");
        fs::write(&file, text).unwrap();
        run(&[&["enc", "-K", &hex(&self.key)], arguments].concat(), &[Path::new("-in"), &file])
    }
}

fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    out.resize(bytes.len().next_multiple_of(16), 0);
    out
}

/// Multiplication in GF(2^128): SP 800-38D, section 6.3.
fn multiply(x: u128, mut y: u128) -> u128 {
    let mut product = 0;
    for bit in (0..128).rev() {
        if x >> bit & 1 == 1 {
            product ^= y;
        }
        y = if y & 1 == 1 { y >> 1 ^ 0xE1 << 120 } else { y >> 1 };
    }
    product
}

fn hkdf(mode: &str, key: &[u8], option: &str, value: &[u8], len: usize) -> Vec<u8> {
    run(
        &[
            "kdf",
            "-binary",
            "-keylen",
            &len.to_string(),
            "-kdfopt",
            "digest:SHA256",
            "-kdfopt",
            &format!("mode:{mode}"),
            "-kdfopt",
            &format!("hexkey:{}", hex(key)),
            "-kdfopt",
            &format!("hex{option}:{}", hex(value)),
            "HKDF",
        ],
        &[],
    )
}

fn run(arguments: &[&str], more: &[&Path]) -> Vec<u8> {
    let output = Command::new("openssl").args(arguments).args(more).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "openssl {arguments:?}: {errors}");
    output.stdout
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An `openssl` process that ends with its value.
struct OpenSsl {
    child: Child,
    stdin: ChildStdin,
    log: PathBuf,
}

impl OpenSsl {
    fn say(&mut self, bytes: &[u8]) {
        self.stdin.write_all(bytes).unwrap();
        self.stdin.flush().unwrap();
    }

    fn output(&self) -> Vec<u8> {
        fs::read(&self.log).unwrap()
    }

    #[expect(clippy::disallowed_methods, reason = "waits for another process")]
    fn wait_for(&self, text: &[u8]) {
        for _ in 0..500 {
            if self.output().windows(text.len()).any(|window| window == text) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("openssl does not start: {}", String::from_utf8_lossy(&self.output()));
    }

    /// The line that `-keymatexport` prints.
    fn exported_keys(&self) -> Vec<u8> {
        let output = self.output();
        let text = String::from_utf8_lossy(&output);
        let (_, rest) = text.split_once("Keying material: ").expect("an export");
        let line = rest.lines().next().unwrap().trim();
        (0..line.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&line[at..at + 2], 16).unwrap())
            .collect()
    }
}

impl Drop for OpenSsl {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port nobody has now; `OpenSSL` cannot choose one and say which.
fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[expect(clippy::disallowed_methods, reason = "the peer is another process, in real time")]
fn clock() -> Instant {
    Instant::now()
}
