//! Files that are not whole yet: in a hidden folder beside what has arrived, where a process that
//! begins anew finds them.
//!
//! 1. A part has the name of what it is: content, sender, and the name that it is for. So nobody
//!    goes on with, or learns of, what another one has sent.
//! 2. Beside it is a mark: how much of it is on the disk for good, and the SHA-256 of that. What
//!    the mark does not say does not count, and what it says is read and hashed again.
//! 3. A file that is whole gets its own name, a folder is made of its part, and that is no more.
//!
//! A folder that arrives file by file has in its mark which files are there, and begins with what
//! other parts of the same sender have of them ([`reuse`]).
//!
//! Parts that nobody went on with for a week go. Those of strangers are bounded, and are the first
//! to go when the disk is full. What somebody else has put in the place of a part is not followed.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest;
use data_encoding::HEXLOWER;
use rhumb_node::transfer::{Offered, WriteAt};
use rhumb_wire::folder::FileSpan;
use rhumb_wire::held::Held;
use rhumb_wire::transfer::{FileName, Kind};
use rustix::fs::OFlags;
use tempfile::{NamedTempFile, TempPath};

use super::folders;
use super::reuse::{self, Source};

/// The parts of a folder.
#[derive(Debug)]
pub(super) struct Parts {
    /// Where files are put that are whole.
    folder: PathBuf,
    /// Where parts are.
    hidden: PathBuf,
    /// What strangers can cause any number of times is said once: that parts have no place ..
    told_no_place: Once,
    /// .. and that there are too many files of one name.
    told_too_many: Once,
}

/// A file on its way in.
#[derive(Debug)]
pub(super) struct Part {
    /// Locked while this is.
    file: File,
    path: PathBuf,
    /// Of a part that may outlive this.
    mark: Option<Mark>,
    /// It has its own name, or nobody is to go on with it.
    is_over: bool,
    /// Of a folder that arrives file by file: what the names of parts begin with that the same
    /// sender has sent so for the same name.
    relatives: Option<String>,
    parts: Arc<Parts>,
}

/// What counts of a part.
#[derive(Debug)]
struct Mark {
    file: File,
    path: PathBuf,
    /// How much of the part does.
    length: u64,
}

/// A part that nobody writes to.
struct Idle {
    path: PathBuf,
    /// Nobody takes it meanwhile.
    _locked: File,
    bytes: u64,
    settled_at: SystemTime,
    is_strangers: bool,
}

impl Parts {
    /// Those of `folder`. What was left behind for too long goes.
    pub(super) fn of(folder: &Path) -> Arc<Self> {
        let parts = Self {
            folder: folder.to_owned(),
            hidden: folder.join(HIDDEN),
            told_no_place: Once::new(),
            told_too_many: Once::new(),
        };
        parts.tidy();
        Arc::new(parts)
    }

    /// The part of an offer: the one that there is, or a new one. One that is in use, or in whose
    /// place is something else, is left alone: then the new one ends with this process.
    pub(super) fn open(
        self: &Arc<Self>,
        offered: &Offered,
        is_strangers: bool,
    ) -> io::Result<Part> {
        self.tidy();
        let path = self.hidden.join(name_of(offered, is_strangers));
        let new = |file, path, mark| {
            let (relatives, parts) = (relatives_of(offered), Arc::clone(self));
            Part { file, path, mark, is_over: false, relatives, parts }
        };
        let opened = match offered.offer.kind {
            // It is read once, and nobody can send the rest of it again.
            Kind::Endless => self.make_hidden().map(|()| None),
            Kind::File | Kind::Folder | Kind::FileByFile => self.open_part(&path),
        };
        match opened {
            Ok(Some((file, mark))) => return Ok(new(file, path, Some(mark))),
            Ok(None) => {}
            Err(error) => self.told_no_place.call_once(|| {
                tracing::warn!(%error, "files will not go on after a restart of this receiver");
            }),
        }
        let suffix = if is_strangers { STRANGERS_PART } else { PART };
        let mut builder = tempfile::Builder::new();
        builder.prefix(".rhumb-").suffix(suffix).permissions(Permissions::from_mode(PRIVATE));
        let place = if self.is_private() { &self.hidden } else { &self.folder };
        let file = builder.tempfile_in(place)?;
        file.as_file().lock()?;
        let (file, path) = file.keep().map_err(|error| error.error)?;
        Ok(new(file, path, None))
    }

    /// The part at `path`; `None` if it is in use.
    fn open_part(&self, path: &Path) -> io::Result<Option<(File, Mark)>> {
        for _ in 0..ATTEMPTS {
            self.make_hidden()?;
            match open_part(path) {
                // Whoever had the last part in it has removed the folder.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => return other,
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    fn make_hidden(&self) -> io::Result<()> {
        match DirBuilder::new().mode(PRIVATE_FOLDER).create(&self.hidden) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        if self.is_private() {
            return Ok(());
        }
        let text = format!("{} is not this user's alone", self.hidden.display());
        Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
    }

    /// Whether the hidden folder is this user's alone.
    fn is_private(&self) -> bool {
        std::fs::symlink_metadata(&self.hidden).is_ok_and(|it| {
            let is_own = it.uid() == rustix::process::geteuid().as_raw();
            it.is_dir() && is_own && it.mode() & 0o777 == PRIVATE_FOLDER
        })
    }

    /// Removes the parts of strangers that nobody writes to: others need the disk.
    pub(super) fn give_up_strangers(&self) {
        for idle in self.idle().iter().filter(|it| it.is_strangers) {
            idle.remove();
        }
    }

    /// Removes the part of an offer.
    #[cfg(test)]
    pub(super) fn give_up(&self, offered: &Offered) {
        let path = self.hidden.join(name_of(offered, false));
        Idle::find(path).expect("nobody writes to it").remove();
    }

    /// Removes what is too old, and what is too much.
    fn tidy(&self) {
        let mut idle = self.idle();
        // Latest first: those are kept.
        idle.sort_by_key(|it| std::cmp::Reverse(it.settled_at));
        let (mut all, mut strangers, mut strangers_bytes) = (0, 0, 0_u64);
        for it in idle {
            all += 1;
            if it.is_strangers {
                strangers += 1;
                strangers_bytes = strangers_bytes.saturating_add(it.bytes);
            }
            let is_old = it.settled_at.elapsed().is_ok_and(|age| age >= KEPT_FOR);
            let is_too_much = all > MAX_PARTS
                || (it.is_strangers
                    && (strangers > STRANGERS_PARTS || strangers_bytes > STRANGERS_BYTES));
            if is_old || is_too_much {
                it.remove();
            }
        }
        // It goes only when nothing is in it.
        let _ = std::fs::remove_dir(&self.hidden);
    }

    /// Where something of this name may go, the first that is free.
    fn names(&self, name: &FileName) -> impl Iterator<Item = PathBuf> {
        let (folder, name) = (self.folder.clone(), name.clone());
        (0..MAX_NUMBER).map(move |number| match number {
            0 => folder.join(name.as_str()),
            number => folder.join(format!("{name}.{number}")),
        })
    }

    fn too_many(&self) -> io::Error {
        self.told_too_many.call_once(|| {
            let folder = self.folder.display();
            tracing::warn!("{folder} has {MAX_NUMBER} files of one name already; move some away");
        });
        io::ErrorKind::AlreadyExists.into()
    }

    /// Parts but for that at `own` whose names begin so, the latest first. Whoever writes to one
    /// meanwhile only adds to it.
    fn related(&self, own: &Path, relatives: &str) -> Vec<Source> {
        let entries = self.is_private().then(|| std::fs::read_dir(&self.hidden).ok()).flatten();
        let paths = entries.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
        let is_related = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            path != own
                && name.is_some_and(|name| name.starts_with(relatives) && name.ends_with(PART))
        };
        let mut marked: Vec<_> = paths
            .filter(is_related)
            .filter_map(|path| {
                let mark = options().write(false).open(mark_path(&path)).ok()?;
                Some((mark.metadata().ok()?.modified().ok()?, mark, path))
            })
            .collect();
        marked.sort_by_key(|(settled_at, ..)| std::cmp::Reverse(*settled_at));
        let source = |(_, mark, path): (SystemTime, File, PathBuf)| {
            let content = options().write(false).open(path).ok()?;
            if !is_own(&content.metadata().ok()?) || !is_own(&mark.metadata().ok()?) {
                return None;
            }
            Source::of(content, &read_up_to(&mark, LONGEST_MARK).ok()?)
        };
        marked.into_iter().take(RELATIVES).filter_map(source).collect()
    }

    fn idle(&self) -> Vec<Idle> {
        if !self.is_private() {
            return Vec::new();
        }
        let Ok(entries) = std::fs::read_dir(&self.hidden) else { return Vec::new() };
        let names = entries.filter_map(|entry| Some(entry.ok()?.path()));
        names.filter_map(Idle::find).collect()
    }
}

impl Part {
    /// How much of the file is there already, as far as its mark says.
    pub(super) fn there(&self) -> u64 {
        self.mark.as_ref().map_or(0, |mark| mark.length)
    }

    /// Gives what is whole its name, or the first of `name.1`, `name.2` and so on that is free.
    /// Others may read it from then on, as far as the umask lets them.
    pub(super) fn keep(&mut self, name: &FileName, kind: Kind) -> io::Result<PathBuf> {
        let kept = match kind {
            Kind::File | Kind::Endless => self.keep_file(name)?,
            Kind::Folder | Kind::FileByFile => self.keep_folder(name, kind)?,
        };
        self.is_over = true;
        File::open(&self.parts.folder)?.sync_all()?;
        Ok(kept)
    }

    fn keep_file(&mut self, name: &FileName) -> io::Result<PathBuf> {
        self.file.set_permissions(ordinary_permissions(&self.parts.folder)?)?;
        self.file.sync_all()?;
        let path = TempPath::try_from_path(self.path.clone())?;
        let mut file = NamedTempFile::from_parts(self.file.try_clone()?, path);
        for path in self.parts.names(name) {
            match file.persist_noclobber(&path) {
                Ok(_) => return Ok(path),
                Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                    file = error.file;
                }
                Err(error) => {
                    let _ = error.file.into_temp_path().keep();
                    return Err(error.error);
                }
            }
        }
        let _ = file.into_temp_path().keep();
        Err(self.parts.too_many())
    }

    fn keep_folder(&mut self, name: &FileName, kind: Kind) -> io::Result<PathBuf> {
        let whole = self.path.with_extension(STAGED).join(name.as_str());
        folders::unpack(&self.file, kind, &whole)?;
        for path in self.parts.names(name) {
            match folders::rename_to_new(&whole, &path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                other => return other.map(|()| path),
            }
        }
        Err(self.parts.too_many())
    }
}

impl Part {
    /// So much of the part counts from now on, as this mark says.
    fn settle_by(&mut self, length: u64, text: &[u8]) -> io::Result<()> {
        let Some(mark) = &mut self.mark else { return Ok(()) };
        self.file.sync_data()?;
        mark.file.write_all_at(text, 0)?;
        mark.file.sync_data()?;
        mark.length = length;
        Ok(())
    }
}

impl Drop for Part {
    /// What counts of it stays.
    fn drop(&mut self) {
        if self.is_over || self.there() == 0 {
            let _ = std::fs::remove_file(&self.path);
            let _ = self.mark.take().map(|mark| std::fs::remove_file(mark.path));
        }
        let _ = std::fs::remove_dir_all(self.path.with_extension(STAGED));
        let _ = self.file.unlock();
        self.parts.tidy();
    }
}

impl WriteAt for Part {
    fn write_all_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        FileExt::write_all_at(&self.file, bytes, offset)
    }

    fn recall(&mut self, see: &mut dyn FnMut(&[u8])) -> io::Result<u64> {
        let Some(mark) = self.mark.as_ref().filter(|_| self.relatives.is_none()) else {
            return Ok(0);
        };
        let Some((length, sha256)) = read_mark(&mark.file, &self.file)? else { return Ok(0) };
        let mut hash = digest::Context::new(&digest::SHA256);
        let (mut buffer, mut at) = (vec![0; READ_LEN], 0);
        while at < length {
            let len = (length - at).min(READ_LEN as u64) as usize;
            self.file.read_exact_at(&mut buffer[..len], at)?;
            hash.update(&buffer[..len]);
            see(&buffer[..len]);
            at += len as u64;
        }
        if hash.finish().as_ref() != sha256 {
            return Ok(0);
        }
        self.file.set_len(length)?;
        Ok(length)
    }

    fn settle(&mut self, length: u64, sha256: &[u8; 32]) -> io::Result<()> {
        let text = [&length.to_be_bytes()[..], sha256].concat();
        self.settle_by(length, &text)
    }

    fn recall_files(
        &mut self,
        files: &[FileSpan],
        see: &mut dyn FnMut(&[u8]),
    ) -> io::Result<Option<Held>> {
        let Some(relatives) = &self.relatives else { return Ok(None) };
        let own = match &self.mark {
            Some(mark) => {
                let text = read_up_to(&mark.file, LONGEST_MARK)?;
                Source::of(self.file.try_clone()?, &text)
            }
            None => None,
        };
        let others = self.parts.related(&self.path, relatives);
        reuse::gather(&self.file, own, others, files, see).map(Some)
    }

    fn settle_files(&mut self, length: u64, held: &Held, sha256: &[u8; 32]) -> io::Result<()> {
        self.settle_by(length, &reuse::mark(length, held, sha256))
    }

    fn clear(&mut self) -> io::Result<()> {
        if let Some(mark) = &mut self.mark {
            mark.file.set_len(0)?;
            mark.length = 0;
        }
        self.file.set_len(0)
    }
}

impl Idle {
    /// The part at `path`, unless it is none, or somebody writes to it.
    fn find(path: PathBuf) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let is_strangers = name.ends_with(STRANGERS_PART);
        if !name.ends_with(PART) {
            // A part is made before what is beside it, and goes before that.
            if !path.with_extension(PART_END).exists() {
                let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
            }
            return None;
        }
        let file = options().open(&path).ok()?;
        let metadata = file.metadata().ok()?;
        if !is_own(&metadata) || file.try_lock().is_err() {
            return None;
        }
        let settled_at = std::fs::symlink_metadata(mark_path(&path)).or(Ok(metadata.clone()));
        let settled_at = settled_at.and_then(|it: Metadata| it.modified()).ok()?;
        // What it takes of the disk, holes apart.
        let bytes = metadata.blocks().saturating_mul(512);
        Some(Self { path, _locked: file, bytes, settled_at, is_strangers })
    }

    fn remove(&self) {
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_file(mark_path(&self.path));
        let _ = std::fs::remove_dir_all(self.path.with_extension(STAGED));
    }
}

/// A part at `path` with its mark, locked. `None` if somebody writes to it.
fn open_part(path: &Path) -> io::Result<Option<(File, Mark)>> {
    let file = open_own(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(std::fs::TryLockError::WouldBlock) => return Ok(None),
        Err(std::fs::TryLockError::Error(error)) => return Err(error),
    }
    // It may have got its own name, or have been removed, before it was locked.
    let (opened, there) = (file.metadata()?, std::fs::symlink_metadata(path)?);
    if (opened.dev(), opened.ino()) != (there.dev(), there.ino()) {
        return Ok(None);
    }
    let mark = open_own(&mark_path(path))?;
    let length = read_mark(&mark, &file)?.map_or(0, |(length, _)| length);
    Ok(Some((file, Mark { file: mark, path: mark_path(path), length })))
}

/// A private file of this user at `path`. What is there otherwise goes: a link, not where it leads;
/// a file that has another name, too, not what is in it.
fn open_own(path: &Path) -> io::Result<File> {
    let opened = options().create(true).mode(PRIVATE).open(path);
    if let Ok(file) = opened
        && is_own(&file.metadata()?)
    {
        return Ok(file);
    }
    std::fs::remove_file(path)?;
    options().create_new(true).mode(PRIVATE).open(path)
}

/// To read and write, and follow no link, and wait for nobody at the other end of a pipe.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.read(true).write(true).custom_flags(flags.bits().cast_signed());
    options
}

fn is_own(metadata: &Metadata) -> bool {
    metadata.is_file()
        && metadata.uid() == rustix::process::geteuid().as_raw()
        && metadata.nlink() == 1
        && metadata.mode() & 0o777 == PRIVATE
}

/// How much of a part counts, and its SHA-256.
fn read_mark(mark: &File, part: &File) -> io::Result<Option<(u64, [u8; 32])>> {
    let mut text = [0; 40];
    match mark.read_exact_at(&mut text, 0) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let (length, sha256) = text.split_at(8);
    let length = length.try_into().map_or(0, u64::from_be_bytes);
    let is_there = 0 < length && length <= part.metadata()?.len();
    Ok(sha256.try_into().ok().filter(|_| is_there).map(|sha256| (length, sha256)))
}

fn mark_path(part: &Path) -> PathBuf {
    part.with_extension(MARK)
}

/// Says content, sender and the name that it is for, to whoever knows them.
fn name_of(offered: &Offered, is_strangers: bool) -> String {
    let Offered { from, to, offer, .. } = offered;
    let mut hash = digest::Context::new(&digest::SHA256);
    let (kind, length) = ([offer.kind as u8], offer.length.to_be_bytes());
    for part in [&b"rhumb part"[..], &from.0, &to.0, &kind, &length, &offer.sha256] {
        hash.update(part);
    }
    let key = HEXLOWER.encode(hash.finish().as_ref());
    let relatives = relatives_of(offered).unwrap_or_default();
    format!("{relatives}{key}{}", if is_strangers { STRANGERS_PART } else { PART })
}

/// What the names of a sender's folders begin with that arrive file by file.
fn relatives_of(Offered { from, to, offer, .. }: &Offered) -> Option<String> {
    if offer.kind != Kind::FileByFile {
        return None;
    }
    let key = digest::digest(&digest::SHA256, &[&b"rhumb folders"[..], &from.0, &to.0].concat());
    Some(format!("{}-", HEXLOWER.encode(&key.as_ref()[..16])))
}

/// All of a small file.
fn read_up_to(file: &File, most: usize) -> io::Result<Vec<u8>> {
    let len = file.metadata()?.len().min(most as u64) as usize;
    let mut text = vec![0; len];
    file.read_exact_at(&mut text, 0)?;
    Ok(text)
}

/// Those that a new file gets here.
fn ordinary_permissions(folder: &Path) -> io::Result<Permissions> {
    let probe = tempfile::Builder::new()
        .prefix(".rhumb-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)?;
    Ok(probe.as_file().metadata()?.permissions())
}

/// Of the folder of parts.
const HIDDEN: &str = ".rhumb-parts";
const PART: &str = ".part";
const PART_END: &str = "part";
const STRANGERS_PART: &str = ".stranger.part";
const MARK: &str = "mark";
/// Where a folder is put together.
const STAGED: &str = "folder";
const PRIVATE: u32 = 0o600;
const PRIVATE_FOLDER: u32 = 0o700;
/// To make that folder while others remove it.
const ATTEMPTS: u32 = 3;
/// A sender who is away over a weekend, or for some days, goes on.
const KEPT_FOR: Duration = Duration::from_hours(7 * 24);
/// Of everybody: enough for any use, and few enough to look through at each offer.
const MAX_PARTS: u32 = 1_000;
/// Of strangers, whose names cost nothing: as much as one file of theirs may have.
const STRANGERS_PARTS: u32 = 32;
const STRANGERS_BYTES: u64 = super::room::STRANGERS_MAX_SIZE;
/// Read at once.
const READ_LEN: usize = 64 << 10;
/// How many parts of a sender are looked at for files of a folder: each has a list.
const RELATIVES: usize = 4;
/// How long the mark of a folder of 65,536 files is, and some.
const LONGEST_MARK: usize = 16 << 10;
/// Beyond this somebody is filling the folder.
const MAX_NUMBER: u32 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_wire::Name;
    use rhumb_wire::transfer::Offer;

    fn offered(from: u8, content: u8) -> Offered {
        let name = FileName::new("file").unwrap();
        let offer = Offer { kind: Kind::File, length: 8, sha256: [content; 32], name };
        Offered::new(Name([from; 32]), Name([9; 32]), offer)
    }

    /// A part of which four bytes count, and nobody writes to.
    fn leave(parts: &Arc<Parts>, offered: &Offered, is_strangers: bool) {
        let mut part = parts.open(offered, is_strangers).unwrap();
        part.write_all_at(0, b"good").unwrap();
        let sha256 = digest::digest(&digest::SHA256, b"good").as_ref().try_into().unwrap();
        part.settle(4, &sha256).unwrap();
        part.write_all_at(4, b"bad").unwrap();
    }

    fn there(parts: &Arc<Parts>, offered: &Offered, is_strangers: bool) -> u64 {
        parts.open(offered, is_strangers).unwrap().there()
    }

    #[test]
    fn what_counts_is_found_again_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let parts = Parts::of(folder.path());
        leave(&parts, &offered(1, 1), false);
        for other in [offered(2, 1), offered(1, 2)] {
            assert_eq!(there(&parts, &other, false), 0);
        }
        assert_eq!(there(&parts, &offered(1, 1), true), 0, "it is no stranger's");
        let mut part = parts.open(&offered(1, 1), false).unwrap();
        let mut seen = Vec::new();
        assert_eq!(part.recall(&mut |bytes| seen.extend_from_slice(bytes)).unwrap(), 4);
        assert_eq!(seen, b"good");
        // Somebody else who sends the same meanwhile begins anew.
        assert_eq!(there(&parts, &offered(1, 1), false), 0);
        part.write_all_at(0, b"finished").unwrap();
        let name = FileName::new("name").unwrap();
        assert_eq!(part.keep(&name, Kind::File).unwrap(), folder.path().join("name"));
        drop(part);
        assert_eq!(std::fs::read(folder.path().join("name")).unwrap(), b"finished");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_name_that_is_taken_gets_a_number() {
        let folder = tempfile::tempdir().unwrap();
        let parts = Parts::of(folder.path());
        for (content, expected) in [(1, "file"), (2, "file.1"), (3, "file.2")] {
            let mut part = parts.open(&offered(1, content), false).unwrap();
            part.write_all_at(0, &[b'0' + content]).unwrap();
            let kept = part.keep(&FileName::new("file").unwrap(), Kind::File).unwrap();
            assert_eq!(kept, folder.path().join(expected));
        }
        assert_eq!(std::fs::read_to_string(folder.path().join("file")).unwrap(), "1");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[test]
    fn strangers_who_leave_parts_behind_push_out_each_other_and_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let parts = Parts::of(folder.path());
        leave(&parts, &offered(0, 0), false);
        for from in 1..=100 {
            leave(&parts, &offered(from, 1), true);
        }
        let count = || std::fs::read_dir(folder.path().join(HIDDEN)).unwrap().count();
        // Who is started by another test has our locks for a moment, and a part that is locked is
        // left until the next look.
        let is_bounded = || {
            parts.tidy();
            count() == 2 * (1 + STRANGERS_PARTS as usize)
        };
        let mut looks = (0..100).inspect(|_| std::thread::sleep(Duration::from_millis(10)));
        assert!(looks.any(|_| is_bounded()), "{} parts and their marks", count());
        assert_eq!(there(&parts, &offered(0, 0), false), 4);
        parts.give_up_strangers();
        assert_eq!(count(), 2);
        assert_eq!(there(&parts, &offered(0, 0), false), 4);
    }

    #[test]
    fn what_nobody_went_on_with_for_a_week_goes() {
        let folder = tempfile::tempdir().unwrap();
        let parts = Parts::of(folder.path());
        for (content, age) in [(1, KEPT_FOR), (2, KEPT_FOR - Duration::from_hours(1))] {
            leave(&parts, &offered(1, content), false);
            let path = folder.path().join(HIDDEN).join(name_of(&offered(1, content), false));
            let mark = File::options().write(true).open(mark_path(&path)).unwrap();
            mark.set_modified(SystemTime::now() - age).unwrap();
        }
        let parts = Parts::of(folder.path());
        assert_eq!(there(&parts, &offered(1, 1), false), 0);
        assert_eq!(there(&parts, &offered(1, 2), false), 4);
    }

    #[test]
    fn an_unfinished_file_of_which_nothing_counts_disappears() {
        let folder = tempfile::tempdir().unwrap();
        drop(Parts::of(folder.path()).open(&offered(1, 1), true).unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
