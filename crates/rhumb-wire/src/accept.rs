//! Accept: the answer of a hop to an advertised name; from then
//! on PDUs of that source need no certificates.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 32 | the name that was advertised |
//! | 32 | 8 | accepted until, seconds since 1970 |
//! | 40 | 1 | 1 when the name is also published in the RIB, otherwise 0 |

use crate::reader::Reader;
use crate::{Name, WireError};

/// What an Accept says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accept {
    /// The name that was advertised.
    pub name: Name,
    /// The last second in which its PDUs are carried without a new advertisement.
    pub until_s: u64,
    /// Whether the RIB holds the route durably.
    pub published: bool,
}

impl Accept {
    /// Bytes of data.
    pub const LEN: usize = 41;

    /// Parses the data of an Accept.
    ///
    /// # Errors
    /// When `data` is not exactly one Accept.
    pub fn parse(data: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(data);
        let name = reader.name()?;
        let until_s = reader.u64()?;
        let published = match reader.u8()? {
            0 => false,
            1 => true,
            _ => return Err(WireError::NotCanonical("published")),
        };
        reader.finish()?;
        Ok(Self { name, until_s, published })
    }

    /// Appends the one encoding of this Accept.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.name.0);
        out.extend_from_slice(&self.until_s.to_be_bytes());
        out.push(u8::from(self.published));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_is_strict() {
        let accept = Accept { name: Name([3; 32]), until_s: 77, published: true };
        let mut data = Vec::new();
        accept.emit(&mut data);
        assert_eq!(data.len(), Accept::LEN);
        assert_eq!(Accept::parse(&data), Ok(accept));
        data[40] = 2;
        assert_eq!(Accept::parse(&data), Err(WireError::NotCanonical("published")));
        assert_eq!(Accept::parse(&data[..40]), Err(WireError::Truncated));
    }
}
