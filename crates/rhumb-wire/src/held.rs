//! Which files of a folder a receiver has, as it says so once it has the list, and in which order
//! the others are sent.
//!
//! | size | field |
//! |---|---|
//! | 4 | number of the file that is sent first, counted from 0 |
//! | 8 | how many bytes of that are there |
//! | .. | a bit for each file, the highest first: 1 when all of it is there |
//!
//! Files that are missing follow in the order of the list, those before the first one at last. Both
//! ends count along, so that nothing more is said between files. A file of no bytes is there.

use crate::WireError;
use crate::folder::FileSpan;
use crate::reader::Reader;

/// Which files are there, and how much of the one that arrives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    is_whole: Vec<bool>,
    /// The file that arrives; 0 when all are there.
    first: usize,
    /// How much of it is there.
    there: u64,
}

/// What is missing of the file that arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing {
    /// The number of the file.
    pub number: usize,
    /// Where in the folder's content the rest begins.
    pub at: u64,
    /// How many bytes that is: at least one.
    pub left: u64,
}

impl Held {
    /// Nothing of these files, but for those that have no bytes.
    pub fn nothing(files: &[FileSpan]) -> Self {
        let is_whole = files.iter().map(|file| file.length == 0).collect();
        let mut held = Self { is_whole, first: 0, there: 0 };
        held.seek(0);
        held
    }

    /// How long the encoding for so many files is.
    pub fn encoded_len(files: usize) -> usize {
        HEAD_LEN + files.div_ceil(8)
    }

    /// Parses what a receiver says of these files.
    ///
    /// # Errors
    /// When `data` is not exactly one, or says what cannot be.
    pub fn parse(data: &[u8], files: &[FileSpan]) -> Result<Self, WireError> {
        let mut reader = Reader::new(data);
        let (first, there) = (reader.u32()? as usize, reader.u64()?);
        let bits = reader.take(files.len().div_ceil(8))?;
        reader.finish()?;
        let bit = |number: usize| bits[number / 8] & (0x80 >> (number % 8)) != 0;
        let is_whole: Vec<_> = (0..files.len()).map(bit).collect();
        let is_fit = match files.get(first) {
            Some(file) if !is_whole[first] => there < file.length,
            _ => first == 0 && there == 0 && is_whole.iter().all(|it| *it),
        };
        let has_empty = files.iter().zip(&is_whole).all(|(file, is)| *is || file.length > 0);
        let spare = (files.len()..8 * bits.len()).all(|number| !bit(number));
        match is_fit && has_empty && spare {
            true => Ok(Self { is_whole, first, there }),
            false => Err(WireError::NotCanonical("files that are there")),
        }
    }

    /// Appends the one encoding.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.first as u32).to_be_bytes());
        out.extend_from_slice(&self.there.to_be_bytes());
        let byte = |bits: &[bool]| {
            bits.iter().enumerate().fold(0, |byte, (at, bit)| byte | (u8::from(*bit) << (7 - at)))
        };
        out.extend(self.is_whole.chunks(8).map(byte));
    }

    /// How many bytes of these files are there.
    pub fn bytes(&self, files: &[FileSpan]) -> u64 {
        let whole = files.iter().zip(&self.is_whole).filter(|(_, is_whole)| **is_whole);
        whole.map(|(file, _)| file.length).sum::<u64>() + self.there
    }

    /// Whether all of a file is there.
    pub fn is_whole(&self, number: usize) -> bool {
        self.is_whole.get(number).is_some_and(|it| *it)
    }

    /// How much is there of the file that arrives.
    pub fn there(&self) -> u64 {
        self.there
    }

    /// What comes next; `None` when all is there.
    pub fn missing(&self, files: &[FileSpan]) -> Option<Missing> {
        let file = files.get(self.first).filter(|_| !self.is_whole(self.first))?;
        let (at, left) = (file.at + self.there, file.length - self.there);
        Some(Missing { number: self.first, at, left })
    }

    /// Where the next bytes are, and how many of them, up to `most`, follow each other there: the
    /// rest of a file, and files behind it that are missing as well.
    pub fn run(&self, files: &[FileSpan], most: u64) -> Option<(u64, u64)> {
        let Missing { number, at, left } = self.missing(files)?;
        let (mut until, most) = (at + left, at.saturating_add(most));
        for (next, file) in files.iter().enumerate().skip(number + 1) {
            if until >= most || (self.is_whole(next) && file.length > 0) {
                break;
            }
            until = file.at + file.length;
        }
        Some((at, until.min(most) - at))
    }

    /// So many bytes more are there of the file that arrives, or what is left of it.
    pub fn advance(&mut self, files: &[FileSpan], len: u64) {
        let Some(Missing { number, left, .. }) = self.missing(files) else { return };
        self.there += len.min(left);
        if len >= left {
            self.add_whole(number);
        }
    }

    /// All of a file is there.
    pub fn add_whole(&mut self, number: usize) {
        if let Some(is_whole) = self.is_whole.get_mut(number) {
            *is_whole = true;
        }
        if number == self.first {
            self.there = 0;
            self.seek(number);
        }
    }

    /// The file that arrives first, and how much of it is there: less than all.
    pub fn begin_with(&mut self, number: usize, there: u64) {
        if number < self.is_whole.len() && !self.is_whole(number) {
            (self.first, self.there) = (number, there);
        }
    }

    /// Goes to the next file that is missing, from `number` on and then from the beginning.
    fn seek(&mut self, number: usize) {
        let numbers = (number..self.is_whole.len()).chain(0..number);
        self.first = { numbers }.find(|it| !self.is_whole[*it]).unwrap_or(0);
    }
}

/// The file that is sent first, and how much of it is there.
const HEAD_LEN: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn files(lengths: &[u64]) -> Vec<FileSpan> {
        let mut at = 100;
        let span = |length: &u64| {
            at += length;
            FileSpan { at: at - length, length: *length, sha256: [0; 32] }
        };
        lengths.iter().map(span).collect()
    }

    #[test]
    fn what_is_missing_follows_from_the_first_on_and_then_from_the_beginning() {
        let files = files(&[5, 0, 7, 3, 2]);
        let mut held = Held::nothing(&files);
        assert_eq!((held.bytes(&files), held.run(&files, 99)), (0, Some((100, 17))));
        held.add_whole(3);
        held.begin_with(2, 4);
        assert_eq!(held.bytes(&files), 7);
        let mut order = Vec::new();
        while let Some((at, len)) = held.run(&files, 99) {
            order.push((at, len));
            let mut left = len;
            while let Some(missing) = held.missing(&files).filter(|_| left > 0) {
                let len = left.min(missing.left);
                held.advance(&files, len);
                left -= len;
            }
        }
        assert_eq!(order, [(109, 3), (115, 2), (100, 5)]);
        assert_eq!(held.bytes(&files), 17);
    }

    #[test]
    fn a_run_crosses_files_and_ends_where_it_is_told_to() {
        let files = files(&[5, 0, 7]);
        let mut held = Held::nothing(&files);
        assert_eq!(
            [1, 5, 6, 12].map(|most| held.run(&files, most)),
            [Some((100, 1)), Some((100, 5)), Some((100, 6)), Some((100, 12))]
        );
        held.add_whole(2);
        assert_eq!(held.run(&files, 12), Some((100, 5)));
        held.advance(&files, 5);
        assert_eq!((held.run(&files, 12), held.missing(&files)), (None, None));
        held.advance(&files, 5);
        assert_eq!(held.bytes(&files), 12, "there is no more than all");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let files = files(&[5, 0, 7]);
        let said = |first: u32, there: u64, bits: u8| {
            let data = [&first.to_be_bytes()[..], &there.to_be_bytes(), &[bits]].concat();
            Held::parse(&data, &files).is_ok()
        };
        assert!(said(0, 4, 0b0100_0000) && said(2, 6, 0b1100_0000) && said(0, 0, 0b1110_0000));
        assert!(!said(0, 5, 0b0100_0000), "as much as there is, and not whole");
        assert!(!said(0, 0, 0b1100_0000), "that is there");
        assert!(!said(0, 1, 0b1110_0000) && !said(2, 0, 0b1110_0000), "all are there");
        assert!(!said(3, 0, 0b0100_0000), "there is no such file");
        assert!(!said(0, 0, 0b0000_0000), "a file of no bytes cannot come");
        assert!(!said(0, 0, 0b0101_0000), "a bit of no file");
    }

    proptest! {
        #[test]
        fn all_arrives_once_whatever_is_there(
            lengths in prop::collection::vec((0_u64..9, any::<bool>()), 0..20),
            first in 0_usize..20,
            most in 1_u64..20,
        ) {
            let files = files(&lengths.iter().map(|it| it.0).collect::<Vec<_>>());
            let mut held = Held::nothing(&files);
            for (number, _) in lengths.iter().enumerate().filter(|(_, it)| it.1) {
                held.add_whole(number);
            }
            held.begin_with(first, lengths.get(first).map_or(0, |it| it.0 / 2));
            let mut data = Vec::new();
            held.emit(&mut data);
            prop_assert_eq!(data.len(), Held::encoded_len(files.len()));
            prop_assert_eq!(Held::parse(&data, &files), Ok(held.clone()));
            let all = files.iter().map(|file| file.length).sum::<u64>();
            let (mut bytes, mut seen) = (held.bytes(&files), std::collections::HashSet::new());
            while let Some((at, len)) = held.run(&files, most) {
                prop_assert!(len > 0 && len <= most);
                for byte in at..at + len {
                    prop_assert!(seen.insert(byte), "sent twice");
                    held.advance(&files, 1);
                }
                bytes += len;
                prop_assert_eq!(held.bytes(&files), bytes);
            }
            prop_assert_eq!(bytes, all);
        }

        #[test]
        fn any_bytes_are_refused_or_the_one_encoding(data in prop::collection::vec(any::<u8>(), 0..20)) {
            crate::fuzz::held(&data);
        }
    }
}
