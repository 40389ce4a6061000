//! Where the bytes of a file come from and go to. Each call blocks for as long as the storage
//! takes; a transfer has it done where that holds up nobody, one part at a time.

use std::fs::File;
use std::io;

use aws_lc_rs::digest;
use rhumb_wire::folder::FileSpan;
use rhumb_wire::held::Held;
use rhumb_wire::transfer::FileName;

/// Bytes that can be read at an offset.
pub trait ReadAt {
    /// Fills `buffer` with the bytes from `offset` on.
    ///
    /// # Errors
    /// When not all of them can be had.
    fn read_exact_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
}

/// Where the bytes of a file go: written at an offset, from the start and without a gap, or, of a
/// folder that arrives file by file, from where each of its files begins.
///
/// What outlives the process goes on where it was: such a place implements [`WriteAt::recall`] and
/// what follows it.
pub trait WriteAt {
    /// Writes all of `bytes` from `offset` on.
    ///
    /// # Errors
    /// When not all of them are written.
    fn write_all_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Hands `see` all that is there from an earlier process, in order and from the start, and says
    /// how much that is; 0 when it is no good. It is read anew, however it was checked before.
    ///
    /// # Errors
    /// When it cannot be read.
    fn recall(&mut self, see: &mut dyn FnMut(&[u8])) -> io::Result<u64> {
        let _ = see;
        Ok(0)
    }

    /// Sees to it that the first `length` bytes, of this SHA-256, are there after a crash of the
    /// machine, and that [`WriteAt::recall`] finds them. Called about each second, and when a
    /// transfer breaks.
    ///
    /// # Errors
    /// When that cannot be.
    fn settle(&mut self, length: u64, sha256: &[u8; 32]) -> io::Result<()> {
        let _ = (length, sha256);
        Ok(())
    }

    /// As [`WriteAt::recall`], of a folder that arrives file by file and whose list was written:
    /// which of these files are there, each looked at anew and put where it is to be, from an
    /// earlier process or out of what else the same sender has sent for the same name. Hands `see`
    /// what is there of the file that is not whole.
    ///
    /// # Errors
    /// When it cannot be read or written.
    fn recall_files(
        &mut self,
        files: &[FileSpan],
        see: &mut dyn FnMut(&[u8]),
    ) -> io::Result<Option<Held>> {
        let _ = (files, see);
        Ok(None)
    }

    /// As [`WriteAt::settle`], of a folder that arrives file by file: `length` counts its list and
    /// what `held` says, and `sha256` is that of what is there of the file that arrives.
    ///
    /// # Errors
    /// When that cannot be.
    fn settle_files(&mut self, length: u64, held: &Held, sha256: &[u8; 32]) -> io::Result<()> {
        let _ = (length, held, sha256);
        Ok(())
    }

    /// Throws away all that is there: it is not the file.
    ///
    /// # Errors
    /// When that cannot be.
    fn clear(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// All is there, and is what was offered under this name: the sender is told so after this.
    ///
    /// # Errors
    /// When the file cannot be kept.
    fn finish(&mut self, name: &FileName) -> io::Result<()> {
        let _ = name;
        Ok(())
    }
}

/// The SHA-256 of the first `length` bytes, as an offer needs it. Reads them all.
///
/// # Errors
/// When they cannot be read.
pub fn sha256_of(source: &mut impl ReadAt, length: u64) -> io::Result<[u8; 32]> {
    let mut context = digest::Context::new(&digest::SHA256);
    let mut buffer = vec![0; REREAD_LEN];
    let mut offset = 0;
    while offset < length {
        let len = (length - offset).min(REREAD_LEN as u64);
        let bytes = &mut buffer[..len as usize];
        source.read_exact_at(offset, bytes)?;
        context.update(bytes);
        offset += len;
    }
    Ok(finish(context))
}

pub(super) fn finish(context: digest::Context) -> [u8; 32] {
    context.finish().as_ref().try_into().expect("invariant: SHA-256 has 32 bytes")
}

impl ReadAt for File {
    fn read_exact_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        read_exact_at(self, offset, buffer)
    }
}

impl WriteAt for File {
    fn write_all_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        write_all_at(self, offset, bytes)
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

#[cfg(unix)]
fn write_all_at(file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

/// Windows reads a part at an offset, and moves the file's own place by it, which nobody goes by.
#[cfg(windows)]
fn read_exact_at(file: &File, mut offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
    while !buffer.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, buffer, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => {
                buffer = &mut buffer[len..];
                offset += len as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(windows)]
fn write_all_at(file: &File, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_write(file, bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(len) => {
                bytes = &bytes[len..];
                offset += len as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl<T: ReadAt + ?Sized> ReadAt for Box<T> {
    fn read_exact_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        (**self).read_exact_at(offset, buffer)
    }
}

impl<T: WriteAt + ?Sized> WriteAt for Box<T> {
    fn write_all_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        (**self).write_all_at(offset, bytes)
    }

    fn recall(&mut self, see: &mut dyn FnMut(&[u8])) -> io::Result<u64> {
        (**self).recall(see)
    }

    fn settle(&mut self, length: u64, sha256: &[u8; 32]) -> io::Result<()> {
        (**self).settle(length, sha256)
    }

    fn recall_files(
        &mut self,
        files: &[FileSpan],
        see: &mut dyn FnMut(&[u8]),
    ) -> io::Result<Option<Held>> {
        (**self).recall_files(files, see)
    }

    fn settle_files(&mut self, length: u64, held: &Held, sha256: &[u8; 32]) -> io::Result<()> {
        (**self).settle_files(length, held, sha256)
    }

    fn clear(&mut self) -> io::Result<()> {
        (**self).clear()
    }

    fn finish(&mut self, name: &FileName) -> io::Result<()> {
        (**self).finish(name)
    }
}

impl ReadAt for &[u8] {
    fn read_exact_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let bytes = usize::try_from(offset)
            .ok()
            .and_then(|start| self.get(start..start.checked_add(buffer.len())?))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }
}

impl ReadAt for Vec<u8> {
    fn read_exact_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.as_slice().read_exact_at(offset, buffer)
    }
}

impl WriteAt for Vec<u8> {
    fn write_all_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let end = start.checked_add(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        if self.len() < end {
            self.resize(end, 0);
        }
        self[start..end].copy_from_slice(bytes);
        Ok(())
    }
}

/// Bytes read in one call when a file is hashed: enough to make the call's own cost vanish, small
/// enough for the second-level cache.
pub(super) const REREAD_LEN: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_behaves_like_a_file() {
        let mut memory = Vec::new();
        memory.write_all_at(3, b"def").unwrap();
        memory.write_all_at(0, b"abc").unwrap();
        assert_eq!(memory, b"abcdef");
        let mut buffer = [0; 2];
        memory.read_exact_at(4, &mut buffer).unwrap();
        assert_eq!(&buffer, b"ef");
        for beyond in [5, u64::MAX] {
            let error = memory.read_exact_at(beyond, &mut buffer).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn hashes_across_buffers() {
        let bytes = vec![7; REREAD_LEN * 2 + 1];
        for length in [0, 1, REREAD_LEN, REREAD_LEN + 1, bytes.len()] {
            let expected = digest::digest(&digest::SHA256, &bytes[..length]);
            assert_eq!(sha256_of(&mut &bytes[..], length as u64).unwrap(), expected.as_ref());
        }
        assert!(sha256_of(&mut &bytes[..], bytes.len() as u64 + 1).is_err());
    }
}
