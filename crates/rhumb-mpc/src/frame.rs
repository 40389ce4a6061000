//! Messages on a stream of bytes, such as TLS over TCP: a length
//! of four bytes, little-endian, and the message.

use crate::{MAX_MESSAGE, MpcError};

/// Puts a message on a stream.
pub fn write_frame(message: &[u8], stream: &mut Vec<u8>) {
    stream.extend((message.len() as u32).to_le_bytes());
    stream.extend_from_slice(message);
}

/// Takes messages off a stream, of which pieces come in any size.
#[derive(Debug, Default)]
pub struct FrameReader {
    bytes: Vec<u8>,
    /// Bytes at the front that were given out.
    read: usize,
}

impl FrameReader {
    /// At the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds what came. Call [`FrameReader::next_message`] until it has nothing before adding more:
    /// what is buffered is bounded by one message and one piece then.
    pub fn push(&mut self, piece: &[u8]) {
        self.bytes.drain(..self.read);
        self.read = 0;
        self.bytes.extend_from_slice(piece);
    }

    /// The next message, once it is whole.
    ///
    /// # Errors
    ///
    /// [`MpcError::MessageTooLong`] above [`MAX_MESSAGE`], before
    /// anything of it is kept. The stream is lost then.
    pub fn next_message(&mut self) -> Result<Option<&[u8]>, MpcError> {
        let Some((len, rest)) = self.bytes[self.read..].split_first_chunk() else {
            return Ok(None);
        };
        let len = u32::from_le_bytes(*len) as usize;
        if len > MAX_MESSAGE {
            return Err(MpcError::MessageTooLong { len });
        }
        if rest.len() < len {
            return Ok(None);
        }
        let start = self.read + LENGTH_LEN;
        self.read = start + len;
        Ok(Some(&self.bytes[start..self.read]))
    }
}

const LENGTH_LEN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_whole_whatever_the_pieces() {
        let messages: [&[u8]; 4] = [b"one", b"", &[7; 1000], b"four"];
        let mut stream = Vec::new();
        messages.iter().for_each(|message| write_frame(message, &mut stream));
        for size in [1, 3, 5, 100, stream.len()] {
            let (mut reader, mut seen) = (FrameReader::new(), Vec::new());
            for piece in stream.chunks(size) {
                reader.push(piece);
                while let Some(message) = reader.next_message().unwrap() {
                    seen.push(message.to_vec());
                }
            }
            assert_eq!(seen, messages);
        }
    }

    #[test]
    fn a_message_above_the_bound_is_refused_from_its_length() {
        for (len, result) in [
            (MAX_MESSAGE, Ok(None)),
            (MAX_MESSAGE + 1, Err(MpcError::MessageTooLong { len: MAX_MESSAGE + 1 })),
        ] {
            let mut reader = FrameReader::new();
            reader.push(&(len as u32).to_le_bytes());
            assert_eq!(reader.next_message(), result);
        }
    }
}
