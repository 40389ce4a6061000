//! Enough of MRT (RFC 6396) to read the archives of collectors:
//! tables (TABLE_DUMP_V2), and messages (BGP4MP).

use std::path::PathBuf;
use std::process::Command;

use rustbgpd_wire::attribute::decode_path_attributes;
use rustbgpd_wire::nlri::decode_nlri;
use rustbgpd_wire::{PathAttribute, Prefix};

/// A route of an archive.
pub(crate) struct Archived {
    pub(crate) prefix: Prefix,
    pub(crate) peer: u32,
    pub(crate) attributes: Vec<PathAttribute>,
}

/// The routes of an archive beside the repository, at most so many; `None`, and why on the
/// terminal, where it is not there.
pub(crate) fn routes(name: &str, most: usize) -> Option<Vec<Archived>> {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/bgp").join(name);
    if !path.exists() {
        println!("skipped: there is no {}", path.display());
        return None;
    }
    let program = if name.ends_with("bz2") { "bzip2" } else { "gzip" };
    let output = Command::new(program).arg("-dc").arg(&path).output();
    let Ok(output) = output.inspect_err(|error| println!("skipped: {program}: {error}")) else {
        return None;
    };
    assert!(output.status.success(), "{program} reads {name}");
    let mut routes = Vec::new();
    let mut peers = Vec::new();
    let mut rest = &output.stdout[..];
    while let Some((header, body)) = rest.split_first_chunk::<12>() {
        if routes.len() >= most {
            break;
        }
        let len = u32::from_be_bytes([header[8], header[9], header[10], header[11]]) as usize;
        let (record, after) = body.split_at(len);
        rest = after;
        let mut record = Reader(record);
        match (
            u16::from_be_bytes([header[4], header[5]]),
            u16::from_be_bytes([header[6], header[7]]),
        ) {
            (13, 1) => peers = record.peers(),
            (13, 2) => record.table_entries(&peers, &mut routes),
            (16, 1) => record.message(&mut routes),
            _ => {}
        }
    }
    Some(routes)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len);
        self.0 = rest;
        taken
    }

    fn number(&mut self, len: usize) -> u32 {
        self.take(len).iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
    }

    /// The ASes of the peer index table.
    fn peers(&mut self) -> Vec<u32> {
        self.take(4);
        let name = self.number(2) as usize;
        self.take(name);
        let peer = |reader: &mut Self| {
            let kind = reader.number(1);
            reader.take(4 + if kind & 1 == 1 { 16 } else { 4 });
            reader.number(if kind & 2 == 2 { 4 } else { 2 })
        };
        (0..self.number(2)).map(|_| peer(self)).collect()
    }

    fn table_entries(&mut self, peers: &[u32], routes: &mut Vec<Archived>) {
        self.take(4);
        let len = usize::from(self.0[0]).div_ceil(8);
        let [prefix] = decode_nlri(self.take(1 + len)).unwrap()[..] else { panic!("one prefix") };
        for _ in 0..self.number(2) {
            let peer = peers[self.number(2) as usize];
            self.take(4);
            let len = self.number(2) as usize;
            let attributes = decode_path_attributes(self.take(len), true, &[]).unwrap();
            routes.push(Archived { prefix: Prefix::V4(prefix), peer, attributes });
        }
    }

    /// An UPDATE between speakers of two-byte AS numbers.
    fn message(&mut self, routes: &mut Vec<Archived>) {
        let peer = self.number(2);
        self.take(4);
        let address = if self.number(2) == 1 { 4 } else { 16 };
        self.take(2 * address + 18);
        if self.number(1) != 2 {
            return;
        }
        let withdrawn = self.number(2) as usize;
        self.take(withdrawn);
        let len = self.number(2) as usize;
        let Ok(attributes) = decode_path_attributes(self.take(len), false, &[]) else { return };
        for prefix in decode_nlri(self.0).unwrap() {
            routes.push(Archived {
                prefix: Prefix::V4(prefix),
                peer,
                attributes: attributes.clone(),
            });
        }
    }
}
