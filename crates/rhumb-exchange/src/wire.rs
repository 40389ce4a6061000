//! A cursor over input bytes and its counterpart: the only way in which messages are read and
//! written. Numbers are little-endian.

use crate::ExchangeError;
use crate::message::{Mark, Tag};
use crate::roster::Lane;
use crate::route::RouteId;

pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], ExchangeError> {
        let (head, tail) = self.rest.split_at_checked(len).ok_or(TRUNCATED)?;
        self.rest = tail;
        Ok(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], ExchangeError> {
        let (head, tail) = self.rest.split_first_chunk::<N>().ok_or(TRUNCATED)?;
        self.rest = tail;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, ExchangeError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(crate) fn u16(&mut self) -> Result<u16, ExchangeError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, ExchangeError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, ExchangeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn u128(&mut self) -> Result<u128, ExchangeError> {
        Ok(u128::from_le_bytes(self.array()?))
    }

    /// Zero or one: other bytes have no meaning, so that each message has one spelling.
    pub(crate) fn flag(&mut self) -> Result<bool, ExchangeError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(ExchangeError::Malformed("a flag")),
        }
    }

    pub(crate) fn lane(&mut self) -> Result<Lane, ExchangeError> {
        Ok(Lane(self.u16()?))
    }

    pub(crate) fn id(&mut self) -> Result<RouteId, ExchangeError> {
        Ok(RouteId(self.array()?))
    }

    pub(crate) fn mark(&mut self) -> Result<Mark, ExchangeError> {
        Ok(Mark { incarnation: self.u64()?, number: self.u64()? })
    }

    pub(crate) fn tag(&mut self) -> Result<Tag, ExchangeError> {
        Ok(Tag { epoch: self.u64()?, position: self.u64()? })
    }

    /// A length of 2 bytes, and so many.
    pub(crate) fn short_bytes(&mut self) -> Result<&'a [u8], ExchangeError> {
        let len = self.u16()?;
        self.take(usize::from(len))
    }

    /// A count of 4 bytes, and so many items of at least `least` bytes: what could not be there is
    /// refused before room is made for it.
    pub(crate) fn list<T>(
        &mut self,
        least: usize,
        mut item: impl FnMut(&mut Self) -> Result<T, ExchangeError>,
    ) -> Result<Vec<T>, ExchangeError> {
        let count = self.u32()? as usize;
        if count > self.rest.len() / least {
            return Err(TRUNCATED);
        }
        (0..count).map(|_| item(self)).collect()
    }

    pub(crate) fn ids(&mut self) -> Result<Vec<RouteId>, ExchangeError> {
        self.list(16, Self::id)
    }

    pub(crate) fn words(&mut self) -> Result<Vec<u64>, ExchangeError> {
        self.list(8, Self::u64)
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub(crate) fn finish(self) -> Result<(), ExchangeError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(ExchangeError::Malformed("bytes after its end"))
        }
    }
}

/// Appends fields.
#[derive(Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes(&[value])
    }

    pub(crate) fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn u128(&mut self, value: u128) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn lane(&mut self, lane: Lane) -> &mut Self {
        self.u16(lane.0)
    }

    pub(crate) fn mark(&mut self, mark: Mark) -> &mut Self {
        self.u64(mark.incarnation).u64(mark.number)
    }

    pub(crate) fn tag(&mut self, tag: Tag) -> &mut Self {
        self.u64(tag.epoch).u64(tag.position)
    }

    pub(crate) fn short_bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.u16(bytes.len() as u16).bytes(bytes)
    }

    pub(crate) fn list<T>(
        &mut self,
        items: &[T],
        mut item: impl FnMut(&mut Self, &T),
    ) -> &mut Self {
        self.u32(items.len() as u32);
        items.iter().for_each(|value| item(self, value));
        self
    }

    pub(crate) fn ids(&mut self, ids: &[RouteId]) -> &mut Self {
        self.list(ids, |writer, id| {
            writer.bytes(&id.0);
        })
    }

    pub(crate) fn words(&mut self, words: &[u64]) -> &mut Self {
        self.list(words, |writer, word| {
            writer.u64(*word);
        })
    }
}

const TRUNCATED: ExchangeError = ExchangeError::Malformed("it ends too early");
