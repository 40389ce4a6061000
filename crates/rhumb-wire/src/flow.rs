//! FlowAccept: the answer of a hop to a flow in full form; from then on its PDUs may come with a label (paper, section 3.5).
//!
//! The header has the source and destination of the flow's PDUs, exchanged, as a NACK's has. The data:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | label |
//! | 4 | 8 | last second for which the label stands, since 1970 |
//!
//! The label means something on the session it was given on, and to its giver. A giver that knows it no more answers a
//! NACK of reason "unknown flow" in labelled form; the sender goes back to the full form. As a NACK, it is never sent
//! about a PDU with less data than its own.

use crate::WireError;
use crate::pdu::Label;
use crate::reader::Reader;

/// What a FlowAccept says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowAccept {
    /// What to put in place of the names.
    pub label: Label,
    /// The last second for which the label stands.
    pub until_s: u64,
}

impl FlowAccept {
    /// Bytes of data.
    pub const LEN: usize = 12;

    /// Parses the data of a FlowAccept.
    ///
    /// # Errors
    /// When `data` is not exactly one.
    pub fn parse(data: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(data);
        let label = Label(reader.u32()?);
        let until_s = reader.u64()?;
        reader.finish()?;
        Ok(Self { label, until_s })
    }

    /// The one encoding.
    pub fn emit(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[..4].copy_from_slice(&self.label.0.to_be_bytes());
        out[4..].copy_from_slice(&self.until_s.to_be_bytes());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_is_strict() {
        let accept = FlowAccept { label: Label(0xDEAD_BEEF), until_s: 1 << 40 };
        let data = accept.emit();
        assert_eq!(FlowAccept::parse(&data), Ok(accept));
        assert_eq!(FlowAccept::parse(&data[..11]), Err(WireError::Truncated));
        assert_eq!(
            FlowAccept::parse(&[data.as_slice(), &[0]].concat()),
            Err(WireError::TrailingBytes)
        );
    }
}
