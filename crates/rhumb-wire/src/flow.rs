//! FlowAccept: the answer of a hop to a flow in full form; from then on its
//! PDUs may come with a label (paper, section 3.5).
//!
//! The header has the source and destination of the flow's PDUs, exchanged, as a NACK's
//! has. The data are the label, 4 bytes. It means something on the session it was given
//! on, and to its giver. A giver that knows it no more answers a NACK of reason "unknown
//! flow" in labelled form, and the sender goes back to the full form. As a NACK, it is
//! never sent about a PDU with less data than its own.

use crate::WireError;
use crate::pdu::Label;
use crate::reader::Reader;

/// What a FlowAccept says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowAccept {
    /// What to put in place of the names.
    pub label: Label,
}

impl FlowAccept {
    /// Bytes of data.
    pub const LEN: usize = 4;

    /// Parses the data of a FlowAccept.
    ///
    /// # Errors
    /// When `data` is not exactly one.
    pub fn parse(data: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(data);
        let label = Label(reader.u32()?);
        reader.finish()?;
        Ok(Self { label })
    }

    /// The one encoding.
    pub fn emit(&self) -> [u8; Self::LEN] {
        self.label.0.to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_is_strict() {
        let accept = FlowAccept { label: Label(0xDEAD_BEEF) };
        let data = accept.emit();
        assert_eq!(FlowAccept::parse(&data), Ok(accept));
        assert_eq!(FlowAccept::parse(&data[..3]), Err(WireError::Truncated));
        assert_eq!(FlowAccept::parse(&[&data[..], &[0]].concat()), Err(WireError::TrailingBytes));
    }
}
