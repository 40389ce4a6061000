//! What one issuer says, in a form to hand over: its metadata and a few certificates of its own,
//! which is all that is needed to verify them. In a file it is text, and public:
//!
//! ```text
//! <magic>
//! name <52 characters>
//! metadata <hex>
//! certificate <hex>
//! ...
//! ```
//!
//! INVARIANT: the certificates of [`Words`] are signed by the key of the metadata. What they say,
//! and whether they hold now, is for who reads them to judge.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use data_encoding::HEXLOWER;
use rhumb_wire::{Certificate, Metadata, Name};

use crate::StatementError;
use crate::verify::{check_signature, name_of};

/// Certificates of one issuer, with its metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Words {
    metadata: Arc<Metadata>,
    certificates: Vec<Certificate>,
}

/// What is wrong with the text of a file.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The first line that is wrong or missing, counted from 1.
    Line(usize),
    /// Something was not signed by whom it names.
    Statement(StatementError),
}

impl Words {
    /// Puts an issuer's metadata and its certificates together.
    pub(crate) fn new(
        metadata: Metadata,
        certificates: Vec<Certificate>,
    ) -> Result<Self, StatementError> {
        let issuer = name_of(&metadata);
        for certificate in &certificates {
            if certificate.issuer != issuer {
                return Err(StatementError::WrongMetadata);
            }
            check_signature(certificate, &metadata.key)?;
        }
        Ok(Self { metadata: Arc::new(metadata), certificates })
    }

    pub(crate) fn metadata(&self) -> &Arc<Metadata> {
        &self.metadata
    }

    pub(crate) fn certificates(&self) -> &[Certificate] {
        &self.certificates
    }

    /// The text of a file that begins with `magic`.
    pub(crate) fn to_text(&self, magic: &str) -> String {
        let (name, metadata) = (name_of(&self.metadata), HEXLOWER.encode(&self.metadata.emit()));
        let mut text = format!("{magic}\nname {name}\nmetadata {metadata}\n");
        for certificate in &self.certificates {
            let mut bytes = Vec::with_capacity(certificate.emitted_len());
            certificate.emit(&mut bytes);
            text.extend(["certificate ", &HEXLOWER.encode(&bytes), "\n"]);
        }
        text
    }

    /// Reads the text of a file that begins with `magic` and has 1 to `most` certificates.
    pub(crate) fn from_text(text: &str, magic: &str, most: usize) -> Result<Self, Fault> {
        let lines: Vec<&str> = text.lines().collect();
        if lines.first() != Some(&magic) {
            return Err(Fault::Line(1));
        }
        let field = |label: &str, line: usize| {
            let found =
                lines.get(line - 1).and_then(|it| it.strip_prefix(label)?.strip_prefix(' '));
            found.ok_or(Fault::Line(line))
        };
        let bytes = |label: &str, line: usize| {
            HEXLOWER.decode(field(label, line)?.as_bytes()).map_err(|_| Fault::Line(line))
        };
        let name = field("name", 2)?;
        let metadata = Metadata::parse(&bytes("metadata", 3)?).map_err(|_| Fault::Line(3))?;
        if name.parse() != Ok(name_of(&metadata)) {
            return Err(Fault::Line(2));
        }
        let last = lines.len().max(FIRST_CERTIFICATE);
        if last >= FIRST_CERTIFICATE + most {
            return Err(Fault::Line(FIRST_CERTIFICATE + most));
        }
        let certificate =
            |line| Certificate::parse(&bytes("certificate", line)?).map_err(|_| Fault::Line(line));
        let certificates: Vec<_> =
            (FIRST_CERTIFICATE..=last).map(certificate).collect::<Result<_, _>>()?;
        Self::new(metadata, certificates).map_err(Fault::Statement)
    }
}

/// The text of a file that begins with `magic`, names somebody and holds one encoding about him.
pub(crate) fn about_to_text(magic: &str, labels: [&str; 2], about: Name, bytes: &[u8]) -> String {
    let [named, held] = labels;
    format!("{magic}\n{named} {about}\n{held} {}\n", HEXLOWER.encode(bytes))
}

/// Reads the text that [`about_to_text`] makes: what stands for the name, and the encoding. The
/// first line that is wrong or missing otherwise.
pub(crate) fn about_from_text<'a>(
    text: &'a str,
    magic: &str,
    labels: [&str; 2],
) -> Result<(&'a str, Vec<u8>), usize> {
    let mut lines = text.lines();
    if lines.next() != Some(magic) {
        return Err(1);
    }
    let mut field = |label| lines.next().and_then(|it| it.strip_prefix(label)?.strip_prefix(' '));
    let [named, held] = labels;
    let about = field(named).ok_or(2usize)?;
    let bytes = field(held).and_then(|hex| HEXLOWER.decode(hex.as_bytes()).ok()).ok_or(3usize)?;
    if lines.next().is_some() {
        return Err(4);
    }
    Ok((about, bytes))
}

/// Writes a new file, durably.
pub(crate) fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Reads a file of at most `most` bytes; `None` when it is no text.
pub(crate) fn read(path: &Path, most: u64) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(String::from_utf8(bytes).ok())
}

/// The line of it, counted from 1.
const FIRST_CERTIFICATE: usize = 4;
/// Several times the largest file.
pub(crate) const MAX_FILE_LEN: u64 = 16 * 1024;
