//! Writes valid examples for the fuzz targets to start from:
//! `rhumb-fuzz-seeds FOLDER`, one folder below it per target.
//!
//! Invariant: every example parses; the program stops at one that
//! does not, so examples cannot go stale unseen.

#![forbid(unsafe_code)]

mod bgp;
mod exchange;
mod keys;
mod member;
mod mpc;
mod orders;
mod platypus;
mod policy;

use std::path::Path;

use rhumb_trust::{Identity, Membership, MembershipError, Removal, RemovalError, Window};
use rhumb_wire::accept::Accept;
use rhumb_wire::admission::{self, Admission, Welcome};
use rhumb_wire::certificate::{Locator, MAX_CHAIN, SIGNATURE_LEN};
use rhumb_wire::datagram::{
    Counter, Datagram, RecordHeader, RecordKind, SessionIndex, SessionParameters, TOKEN_LEN,
};
use rhumb_wire::discovery::{Discovery, Nonce};
use rhumb_wire::folder::{Entry, EntryKind, FileSpan, Listing};
use rhumb_wire::held::Held;
use rhumb_wire::nack::{Nack, Reason};
use rhumb_wire::payload::{PayloadHeader, PayloadKind};
use rhumb_wire::rib::{
    Refusal, RequestId, RibRequest, RibRequestBody, RibResponse, RibResponseBody,
};
use rhumb_wire::stream::{StreamFrame, StreamParameters};
use rhumb_wire::transfer::{FileName, Kind, Offer, TransferId, Unframer, emit_end};
use rhumb_wire::{
    Action, Certificate, Limits, Metadata, Name, Pdu, PduHeader, PublicKey, PublishedNames, Rights,
    Role, Scope, Statement,
};

fn main() -> std::io::Result<()> {
    let folder = std::env::args_os().nth(1).ok_or(std::io::ErrorKind::InvalidInput)?;
    let targets = [
        ("name", names()),
        ("metadata", metadata().iter().map(Metadata::emit).collect()),
        ("certificate", certificate_bytes()),
        ("chain", chains()),
        ("membership", memberships().expect("keys can be made")),
        ("removal", removals().expect("keys can be made")),
        ("pdu", pdus()),
        ("nack", small_messages()),
        ("admission", admissions()),
        ("platypus", platypus::examples()),
        ("policy_text", policy::texts()),
        ("rtr", policy::streams()),
        ("rib", rib_messages()),
        ("rib_requests", orders::series().expect("keys can be made")),
        ("tls_records", tls_records()),
        ("datagram", datagrams()),
        ("hello", hellos()),
        ("bgp", bgp::examples()),
        ("exchange_message", exchange::messages().expect("the parties agree")),
        ("key_message", keys::messages()),
        ("key_text", keys::texts()),
        ("member_route", member::routes()),
        ("mpc", mpc::messages().expect("the parties agree")),
        ("session", vec![session_parameters()]),
        ("stream", vec![stream()]),
        ("bundle", vec![bundle()]),
        ("transfer", offers()),
        ("folder", listings()),
        ("held", vec![held()]),
        ("frames", frames()),
    ];
    for (target, examples) in targets {
        let folder = Path::new(&folder).join(target);
        std::fs::create_dir_all(&folder)?;
        for (number, example) in examples.iter().enumerate() {
            std::fs::write(folder.join(format!("example-{number:02}")), example)?;
        }
    }
    Ok(())
}

/// What `emit` appends, once `parses` has accepted it.
fn example(emit: impl FnOnce(&mut Vec<u8>), parses: impl FnOnce(&[u8]) -> bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    emit(&mut bytes);
    assert!(parses(&bytes), "an example does not parse: {bytes:02x?}");
    bytes
}

fn names() -> Vec<Vec<u8>> {
    let names = [Name([0; 32]), Name([0xFF; 32]), Name(*b"0123456789abcdef0123456789abcdef")];
    let text = names.map(|name| {
        let parses = |bytes: &[u8]| std::str::from_utf8(bytes).is_ok_and(|t| t.parse() == Ok(name));
        example(|out| out.extend(name.to_string().bytes()), parses)
    });
    text.into_iter().collect()
}

fn metadata() -> Vec<Metadata> {
    let mut p256 = [7; 33];
    p256[0] = 2;
    let plain = Metadata::new(Role::Router, PublicKey::EcdsaP256(p256), 1_700_000_000);
    let described = Metadata::new(Role::Capsule, PublicKey::Ed25519([9; 32]), 0)
        .with_attribute("label", "a node")
        .and_then(|metadata| metadata.with_attribute("place", "Zürich"))
        .expect("the attributes are within their bounds");
    for metadata in [&plain, &described] {
        assert_eq!(Metadata::parse(&metadata.emit()).as_ref(), Ok(metadata));
    }
    vec![plain, described]
}

/// One of each statement.
fn certificates() -> Vec<Certificate> {
    let locator = |text: &str| {
        let address = text.parse().expect("an address");
        Statement::Locator(Locator::new(address).expect("one that can be sent to"))
    };
    let (via, other) = (Name([2; 32]), Name([3; 32]));
    let statements = [
        Statement::Route { via, scope: Scope::Any },
        Statement::Route { via, scope: Scope::Destination(other) },
        locator("192.0.2.1:7474"),
        locator("[2001:db8::1]:7474"),
        Statement::Withdrawal,
        Statement::Absence { subject: other },
        Statement::Member {
            member: via,
            rights: Rights::JOIN.and(Rights::ADMIT),
            limits: narrow(other),
        },
        Statement::Removal { member: via },
        Statement::Route { via, scope: Scope::Several },
        Statement::Service { server: via, several: true },
    ];
    let certificate = |statement| Certificate {
        sequence: 1_700_000_000_000,
        not_before_s: 1_700_000_000,
        not_after_s: 1_700_003_600,
        issuer: Name([1; 32]),
        statement,
        signature: [0x5A; SIGNATURE_LEN],
    };
    statements.into_iter().map(certificate).collect()
}

fn certificate_bytes() -> Vec<Vec<u8>> {
    let all = certificates();
    let alone = all.iter().map(|certificate| {
        example(|out| certificate.emit(out), |bytes| Certificate::parse(bytes).is_ok())
    });
    let list = example(
        |out| Certificate::emit_list(&all[..MAX_CHAIN], out),
        |bytes| Certificate::parse_list(bytes).is_ok(),
    );
    let published = published();
    let published =
        example(|out| published.emit(out), |bytes| PublishedNames::parse(bytes).is_ok());
    alone.chain([list, published]).collect()
}

/// Two names that an owner publishes.
fn published() -> PublishedNames {
    let name = |label: &str, byte| (label.parse().expect("a label"), Name([byte; 32]));
    PublishedNames {
        sequence: 5,
        not_before_s: 1000,
        not_after_s: 1600,
        owner: Name([1; 32]),
        names: [name("camera", 2), name("door-2", 3)].into(),
        signature: [7; SIGNATURE_LEN],
    }
}

/// A minute, and of each of three routes: issuer, kind, via, peer, signer,
/// first minute, and twice 0 for nothing altered.
fn chains() -> Vec<Vec<u8>> {
    let routes = [[0, 0, 1, 0, 0, 10, 0, 0], [1, 0, 2, 0, 1, 10, 0, 0], [2, 0, 3, 0, 2, 10, 0, 0]];
    vec![[&[10][..], routes.as_flattened()].concat()]
}

/// Something in each of the limits that a domain may set.
fn narrow(only_to: Name) -> Limits {
    Limits { names: 10, kbit_per_s: 1000, inside_only: true, only_to: Some(only_to) }
}

/// One by a domain, and one by a key that it admitted, within limits.
fn memberships() -> Result<Vec<Vec<u8>>, MembershipError> {
    let identity = |role| Identity::generate(role, 0).map_err(|_| MembershipError::Crypto);
    let (domain, working) = (identity(Role::Domain)?, identity(Role::Domain)?);
    let (window, member) = (Window::starting(1_700_000_000, 3600), Name([7; 32]));
    let own = Rights::JOIN.and(Rights::ADMIT);
    let own = Membership::sign(&domain, None, working.name(), own, 1, window)?;
    let (limits, by) = (narrow(Name([8; 32])), (&working, Some(&own)));
    let given = Membership::sign_within(limits, by, member, Rights::JOIN, 1, window)?;
    Ok(vec![own.emit(), given.emit()])
}

/// As memberships are given.
fn removals() -> Result<Vec<Vec<u8>>, RemovalError> {
    let identity = |role| Identity::generate(role, 0).map_err(|_| RemovalError::Crypto);
    let (domain, working) = (identity(Role::Domain)?, identity(Role::Domain)?);
    let (window, member) = (Window::starting(1_700_000_000, 3600), Name([7; 32]));
    let own = Membership::sign(&domain, None, working.name(), Rights::ADMIT, 1, window);
    let own = own.map_err(RemovalError::Authority)?;
    let by_domain = Removal::sign(&domain, None, member, 2, window)?;
    let by_working = Removal::sign(&working, Some(&own), member, 2, window)?;
    Ok(vec![by_domain.emit(), by_working.emit()])
}

fn pdus() -> Vec<Vec<u8>> {
    let all = certificates();
    let pdu = |action, data: &[u8], certificates: &[Certificate]| {
        let header = PduHeader::new(action, Name([1; 32]), Name([4; 32]));
        example(
            |out| header.emit(data, certificates, out).expect("it fits"),
            |bytes| Pdu::parse(bytes).is_ok_and(|pdu| pdu.certificates().is_ok()),
        )
    };
    vec![
        pdu(Action::Data, b"\x01\x00\x00\x07hello", &[]),
        pdu(Action::Data, b"\x02\x00\x00\x00file", &all[..2]),
        pdu(Action::Advertise, b"", &all[..1]),
        pdu(Action::Ping, &[0; 64], &[]),
    ]
}

fn small_messages() -> Vec<Vec<u8>> {
    let nacks = [
        Nack { reason: Reason::NotYet(250), reporter: Some(Name([5; 32])) },
        Nack { reason: Reason::TooBig(1200), reporter: None },
        Nack { reason: Reason::NotAuthorised, reporter: None },
    ];
    let accept = Accept { name: Name([1; 32]), until_s: 1_700_003_600, published: true };
    let payload = PayloadHeader { kind: PayloadKind::Datagram, port: 7 };
    let nacks =
        nacks.map(|nack| example(|out| nack.emit(out), |bytes| Nack::parse(bytes) == Ok(nack)));
    let others = [
        example(|out| accept.emit(out), |bytes| Accept::parse(bytes) == Ok(accept)),
        example(|out| out.extend(payload.emit()), |bytes| PayloadHeader::parse(bytes).is_ok()),
    ];
    nacks.into_iter().chain(others).collect()
}

fn admissions() -> Vec<Vec<u8>> {
    let label = |text: &str| text.parse().expect("it is a label");
    let welcome = Welcome {
        now_s: 1_700_000_000,
        network: label("home"),
        host: "203.0.113.5".to_owned(),
        label: label("alice"),
        router_port: 7460,
        rib_port: 7461,
        keeper_port: 7462,
        router: Name([1; 32]),
        rib: Name([2; 32]),
        membership: vec![3; 9],
        members: [(label("alice"), Name([4; 32])), (label("host"), Name([5; 32]))].into(),
    };
    let all = [
        Admission::Claim([1; 8]),
        Admission::Proof([2; 32]),
        Admission::Renew,
        Admission::Welcome(Box::new(welcome)),
        Admission::Refusal(admission::Refusal::OtherRole(Role::Router)),
    ];
    all.iter().map(Admission::emit).collect()
}

fn rib_messages() -> Vec<Vec<u8>> {
    let (metadata, certificates, name) = (metadata(), certificates(), Name([1; 32]));
    let is_absence = |it: &&Certificate| matches!(it.statement, Statement::Absence { .. });
    let absence = certificates.iter().find(is_absence);
    let absence = absence.cloned().expect("there is one of each statement");
    let requests = [
        RibRequestBody::LookUpRoute(name),
        RibRequestBody::LookUpMetadata(name),
        RibRequestBody::Publish {
            metadata: metadata.clone(),
            certificates: certificates[..3].to_vec(),
        },
        RibRequestBody::Acknowledge,
        RibRequestBody::LookUpWay { name, number: 3 },
        RibRequestBody::LookUpNames(name),
        RibRequestBody::PublishNames { metadata: metadata.clone(), published: published() },
    ];
    let certificates = certificates[..2].to_vec();
    let responses = [
        RibResponseBody::Changed {
            name,
            level: 2,
            metadata: metadata.clone(),
            certificates: certificates.clone(),
        },
        RibResponseBody::Names { metadata: metadata.clone(), published: published() },
        RibResponseBody::Found { name, level: 0, metadata, certificates },
        RibResponseBody::Absent(absence),
        RibResponseBody::Stored,
        RibResponseBody::Refused(Refusal::BadSignature),
    ];
    let id = RequestId(77);
    let requests = requests.map(|body| {
        let request = RibRequest { id, body };
        example(|out| request.emit(out), |bytes| RibRequest::parse(bytes).is_ok())
    });
    let responses = responses.map(|body| {
        let response = RibResponse { id, body };
        example(|out| response.emit(out), |bytes| RibResponse::parse(bytes).is_ok())
    });
    requests.into_iter().chain(responses).collect()
}

fn datagrams() -> Vec<Vec<u8>> {
    let parses = |bytes: &[u8]| Datagram::parse(bytes).is_ok();
    let client_hello = [&[22, 0xFE, 0xFD][..], &[0; 60]].concat();
    let token = [6; TOKEN_LEN];
    let record = |kind| {
        let index = SessionIndex::new(0x0ABC_DEF0).expect("it has 28 bits");
        let header = RecordHeader { kind, index, counter: Counter::new(1, 2) };
        example(|out| out.extend([&header.emit()[..], &[0; 100]].concat()), parses)
    };
    let discovery = |discovery: Discovery| {
        example(|out| discovery.emit(out), |bytes| Discovery::parse(bytes) == Ok(discovery))
    };
    vec![
        record(RecordKind::Pdu),
        record(RecordKind::Close),
        example(|out| Datagram::emit_initial(None, &client_hello, out), parses),
        example(|out| Datagram::emit_initial(Some(&token), &client_hello, out), parses),
        example(|out| Datagram::emit_retry(&[9; 8], &token, out), parses),
        client_hello,
        discovery(Discovery::Query(Nonce([7; 8]))),
        discovery(Discovery::Answer(Nonce([7; 8]))),
    ]
}

/// A foreign peer's second hello, of DTLS 1.2 and of 1.3.
fn hellos() -> Vec<Vec<u8>> {
    let sized = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat();
    let extension = |kind: u8, data: &[u8]| [&[0, kind][..], &sized(data)].concat();
    let versions = extension(43, &[2, 0xFE, 0xFC]);
    let share = extension(51, &[0, 5, 0, 23, 0, 1, 9]);
    let cookie = extension(44, &sized(&[8; 32]));
    let newer = [versions, share, cookie, extension(21, &[0; 9])].concat();
    [(vec![32; 33], extension(23, &[])), (vec![0], newer)]
        .map(|(cookie, extensions)| {
            let version_and_random = [&[0xFE, 0xFD][..], &[7; 32], &[0]].concat();
            let suites = [0, 2, 0x13, 0x01, 1, 0];
            let body = [&version_and_random, &cookie, &suites[..], &sized(&extensions)].concat();
            let len = [&[0][..], &(body.len() as u16).to_be_bytes()].concat();
            let header = [&[1][..], &len, &[0, 1, 0, 0, 0], &len].concat();
            let message = [header, body].concat();
            [&[22, 0xFE, 0xFD, 0, 0, 0, 0, 0, 0, 0, 1][..], &sized(&message)].concat()
        })
        .to_vec()
}

fn session_parameters() -> Vec<u8> {
    let index = SessionIndex::new(9).expect("it has 28 bits");
    let parameters = SessionParameters { index, max_datagram_len: 1452, lanes: 1 };
    example(
        |out| out.extend(parameters.emit()),
        |bytes| SessionParameters::parse(bytes) == Ok(parameters),
    )
}

/// Two PDUs and what says how long each is.
fn bundle() -> Vec<u8> {
    let mut out = Vec::new();
    [&[7; 100][..], &[8; 30]].iter().for_each(|pdu| rhumb_wire::bundle::push(&mut out, pdu));
    out
}

/// What an end sends over a stream: its parameters, a PDU, a keep-alive and a close.
fn stream() -> Vec<u8> {
    let parameters = StreamParameters { max_datagram_len: 1452 };
    let emit = |out: &mut Vec<u8>| {
        out.extend(parameters.emit());
        for frame in [StreamFrame::Pdu(&[7; 100]), StreamFrame::Pdu(&[]), StreamFrame::Close] {
            frame.emit(out);
        }
    };
    let len = StreamParameters::FRAME_LEN;
    example(emit, |bytes| {
        StreamParameters::split(bytes) == Ok(Some((parameters, len)))
            && matches!(StreamFrame::split(&bytes[len..], 100), Ok(Some((StreamFrame::Pdu(_), _))))
    })
}

fn frames() -> Vec<Vec<u8>> {
    let mut framed = vec![3, 0, 0, 0, 2];
    framed.extend(b"ab");
    emit_end(&[8; 32], &mut framed);
    vec![example(
        |out| out.extend(&framed),
        |bytes| {
            let mut unframer = Unframer::default();
            unframer.strip(&mut bytes[1..].to_vec()) == Ok(2) && unframer.end() == Some([8; 32])
        },
    )]
}

fn listings() -> Vec<Vec<u8>> {
    let listed = |sha256| {
        let file = EntryKind::File { length: 7, is_executable: true, sha256 };
        let entries = [("bin", EntryKind::Folder), ("bin/run", file)];
        let entries = entries.map(|(path, kind)| Entry { path: path.to_owned(), kind });
        let listing = Listing::new(entries.to_vec()).expect("a list");
        example(
            |out| out.extend(&listing.emit()[Listing::HEAD_LEN..]),
            |bytes| Listing::parse(bytes).is_ok(),
        )
    };
    [None, Some([8; 32])].map(listed).to_vec()
}

/// The number of files, and what is there of files of as many bytes as their number says.
fn held() -> Vec<u8> {
    let span = |length| FileSpan { at: 0, length, sha256: [0; 32] };
    let files: Vec<_> = (0..9).map(span).collect();
    let mut held = Held::nothing(&files);
    held.add_whole(8);
    held.begin_with(4, 3);
    let said = example(|out| held.emit(out), |bytes| Held::parse(bytes, &files).is_ok());
    [&[9][..], &said].concat()
}

fn offers() -> Vec<Vec<u8>> {
    let name = FileName::new("picture.png").expect("it names a file");
    let offer = Offer { kind: Kind::File, length: 1 << 20, sha256: [8; 32], name };
    let id = TransferId(0x0123_4567_89AB_CDEF);
    vec![example(|out| offer.emit(id, out), |bytes| Offer::parse(bytes).is_ok())]
}

/// What a peer does on a connection over TLS, one that is read and one between two of ours.
fn tls_records() -> Vec<Vec<u8>> {
    let [key, key_of_both, last] = [[4, 0], [0x84, 0], [5, 0]];
    let said =
        [&[0, 4][..], b"data", &[1, 5], b"pad\0\0", &key, &key_of_both, &[2, 2], b"on", &last];
    let read = [&[0, 9][..], &said.concat()].concat();
    vec![read, [&[1, 7][..], &[200; 90]].concat()]
}
