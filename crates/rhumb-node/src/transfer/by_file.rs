//! A folder that goes file by file: the list with a SHA-256 of each file first, then what of the
//! files the receiver has, then what it lacks. The offer's SHA-256 is that of the list, so that a
//! folder of which one file is another one has all others in common with what it was.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::digest;
use rhumb_wire::folder::{FileSpan, Listing};
use rhumb_wire::held::Held;
use rhumb_wire::transfer::{CancelReason, Kind, Offer};

use super::{ReadAt, TransferError, WriteAt, storage};

/// What is there of the folder's files.
#[derive(Clone)]
pub(super) struct Files {
    spans: Arc<Vec<FileSpan>>,
    /// Bytes of the list, and of its length in front.
    head_len: u64,
    held: Held,
    /// How many bytes of the files that is.
    bytes: u64,
    /// How much of the file that arrives was there before its sender came.
    recalled: u64,
}

/// A folder that is sent.
pub(super) struct Outgoing {
    /// The list with its length.
    pub(super) head: Vec<u8>,
    spans: Arc<Vec<FileSpan>>,
}

/// A folder as earlier versions take it: with a list that has no hashes.
struct Plain<R: ?Sized> {
    head: Vec<u8>,
    /// How long the list with them is.
    replaced: u64,
    source: Arc<Mutex<R>>,
}

/// How long a list is with its length, of which `head` is the beginning; `None` if it is too short
/// to say.
pub(super) fn head_len(head: &[u8], offer: &Offer) -> Result<Option<usize>, TransferError> {
    let Some(len) = head.first_chunk() else { return Ok(None) };
    let len = u32::from_be_bytes(*len) as usize;
    let whole = Listing::HEAD_LEN + len;
    match len <= Listing::MAX_LEN && whole as u64 <= offer.length {
        true => Ok(Some(whole)),
        false => Err(NONSENSE),
    }
}

impl Files {
    /// Those of a list with its length, if it is what was offered.
    pub(super) fn of(head: &[u8], offer: &Offer) -> io::Result<Self> {
        let nonsense = || io::Error::from(io::ErrorKind::InvalidData);
        if storage::sha256_of(&mut &*head, head.len() as u64)? != offer.sha256 {
            return Err(nonsense());
        }
        let listing = Listing::parse(&head[Listing::HEAD_LEN..]).map_err(|_| nonsense())?;
        let spans = listing.spans().filter(|_| listing.content_len() == offer.length);
        let spans = Arc::new(spans.ok_or_else(nonsense)?);
        let held = Held::nothing(&spans);
        Ok(Self { spans, head_len: head.len() as u64, held, bytes: 0, recalled: 0 })
    }

    /// Has the place look for what it has of them. Returns the hash so far of the file that
    /// arrives.
    pub(super) fn recall(
        &mut self,
        sink: &mut impl WriteAt,
        mut looked_at: impl FnMut(usize),
    ) -> io::Result<digest::Context> {
        let (mut hash, mut seen) = (digest::Context::new(&digest::SHA256), 0);
        let found = sink.recall_files(&self.spans, &mut |bytes| {
            hash.update(bytes);
            seen += bytes.len() as u64;
            looked_at(bytes.len());
        })?;
        if let Some(held) = found {
            // Of less than it says nothing counts.
            self.bytes = held.bytes(&self.spans);
            self.held = held;
            if self.held.there() != seen {
                self.forget();
            }
        }
        self.recalled = self.held.there();
        match self.recalled {
            0 => Ok(digest::Context::new(&digest::SHA256)),
            _ => Ok(hash),
        }
    }

    /// How much is there, with the list.
    pub(super) fn arrived(&self) -> u64 {
        self.head_len + self.bytes
    }

    /// How much of the files is.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What is said of it.
    pub(super) fn held(&self) -> &Held {
        &self.held
    }

    /// Whether some of the file that arrives was there before, and so may be what is wrong with it.
    pub(super) fn has_recalled(&self) -> bool {
        self.recalled > 0
    }

    /// What was there of the file that arrives is no good.
    pub(super) fn forget(&mut self) {
        self.begin_anew();
        self.recalled = 0;
    }

    /// Nothing is there of the file that arrives.
    fn begin_anew(&mut self) {
        if let Some(missing) = self.held.missing(&self.spans) {
            self.bytes -= self.held.there();
            self.held.begin_with(missing.number, 0);
        }
    }

    /// Writes what comes next. `false` when a file is another one than the list says.
    pub(super) fn write(
        &mut self,
        sink: &mut impl WriteAt,
        hash: &mut digest::Context,
        mut bytes: &[u8],
    ) -> io::Result<bool> {
        while !bytes.is_empty() {
            let run = self.held.run(&self.spans, bytes.len() as u64);
            let (at, len) = run.ok_or(io::ErrorKind::InvalidData)?;
            let (part, rest) = bytes.split_at(len as usize);
            sink.write_all_at(at, part)?;
            if !self.count(hash, part) {
                return Ok(false);
            }
            bytes = rest;
        }
        Ok(true)
    }

    /// Compares each file that is whole with what the list says.
    fn count(&mut self, hash: &mut digest::Context, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty()
            && let Some(missing) = self.held.missing(&self.spans)
        {
            let len = missing.left.min(bytes.len() as u64);
            let (part, rest) = bytes.split_at(len as usize);
            hash.update(part);
            if len == missing.left {
                let whole = std::mem::replace(hash, digest::Context::new(&digest::SHA256));
                if storage::finish(whole) != self.spans[missing.number].sha256 {
                    self.begin_anew();
                    return false;
                }
                self.recalled = 0;
            }
            self.held.advance(&self.spans, len);
            self.bytes += len;
            bytes = rest;
        }
        true
    }
}

impl Outgoing {
    /// Reads the list that the content of a folder begins with.
    pub(super) fn of(
        source: &mut (impl ReadAt + ?Sized),
        offer: &Offer,
    ) -> Result<Self, TransferError> {
        let unreadable = |error: io::Error| TransferError::Read(error.kind());
        let mut head = vec![0; Listing::HEAD_LEN];
        source.read_exact_at(0, &mut head).map_err(unreadable)?;
        let changed = TransferError::Read(io::ErrorKind::InvalidData);
        let len = head_len(&head, offer).ok().flatten().ok_or_else(|| changed.clone())?;
        head.resize(len, 0);
        source.read_exact_at(0, &mut head).map_err(unreadable)?;
        let listing = Listing::parse(&head[Listing::HEAD_LEN..]).map_err(|_| changed.clone())?;
        Ok(Self { head, spans: Arc::new(listing.spans().ok_or(changed)?) })
    }

    /// How long the receiver's word about the files is.
    pub(super) fn word_len(&self) -> usize {
        Held::encoded_len(self.spans.len())
    }

    /// How many of the bytes that are there are of the list.
    pub(super) fn head_len(&self) -> u64 {
        self.head.len() as u64
    }

    /// What is missing, if the receiver's word makes sense, and as much is there as it said.
    pub(super) fn rest(&self, word: &[u8], arrived: u64) -> Result<Files, TransferError> {
        let held = Held::parse(word, &self.spans).map_err(|_| NONSENSE)?;
        let (spans, head_len) = (Arc::clone(&self.spans), self.head_len());
        let bytes = held.bytes(&spans);
        let files = Files { spans, head_len, held, bytes, recalled: 0 };
        match files.arrived() == arrived {
            true => Ok(files),
            false => Err(NONSENSE),
        }
    }
}

impl Files {
    /// Where up to `most` bytes are that are sent next, and how many; they count as sent from then
    /// on.
    pub(super) fn next(&mut self, most: u64) -> Option<(u64, u64)> {
        let (at, len) = self.held.run(&self.spans, most)?;
        let mut rest = len;
        while rest > 0
            && let Some(missing) = self.held.missing(&self.spans)
        {
            let part = rest.min(missing.left);
            self.held.advance(&self.spans, part);
            rest -= part;
        }
        Some((at, len))
    }
}

/// What earlier versions take of a folder, with the offer of that. Reads all of it.
pub(super) fn plain<R: ReadAt + Send + ?Sized + 'static>(
    source: &Arc<Mutex<R>>,
    offer: &Offer,
) -> Result<(impl ReadAt + Send + use<R>, Offer), TransferError> {
    let unreadable = |error: io::Error| TransferError::Read(error.kind());
    let outgoing = Outgoing::of(&mut Shared(source), offer)?;
    let listing = Listing::parse(&outgoing.head[Listing::HEAD_LEN..]);
    let listing = listing.map_err(|_| TransferError::Read(io::ErrorKind::InvalidData))?;
    let listing = listing.without_hashes();
    let length = listing.content_len();
    let mut plain =
        Plain { head: listing.emit(), replaced: outgoing.head_len(), source: Arc::clone(source) };
    let sha256 = storage::sha256_of(&mut plain, length).map_err(unreadable)?;
    let name = offer.name.clone();
    Ok((plain, Offer { kind: Kind::Folder, length, sha256, name }))
}

/// A source that others read from as well.
struct Shared<'a, R: ?Sized>(&'a Arc<Mutex<R>>);

impl<R: ReadAt + ?Sized> ReadAt for Shared<'_, R> {
    fn read_exact_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut source = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        source.read_exact_at(offset, buffer)
    }
}

impl<R: ReadAt + ?Sized> ReadAt for Plain<R> {
    fn read_exact_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let left = (self.head.len() as u64).saturating_sub(offset).min(buffer.len() as u64);
        let (of_head, of_files) = buffer.split_at_mut(left as usize);
        if left > 0 {
            (&self.head[..]).read_exact_at(offset, of_head)?;
        }
        let within = (offset + left).saturating_sub(self.head.len() as u64);
        match of_files {
            [] => Ok(()),
            rest => Shared(&self.source).read_exact_at(self.replaced + within, rest),
        }
    }
}

const NONSENSE: TransferError = TransferError::EndedByPeer(CancelReason::Nonsense);
