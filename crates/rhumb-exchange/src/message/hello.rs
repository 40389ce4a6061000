//! The first message on each connection, in both directions: who
//! speaks, and all that both sides must have alike.

use rhumb_mpc::{FieldBits, Party};

use crate::ExchangeError;
use crate::circuits::Form;
use crate::roster::Lane;
use crate::wire::{Reader, Writer};

/// A hello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Who says it.
    pub speaker: Speaker,
    /// Digest of its roster.
    pub roster: [u8; 32],
    /// Lanes of its roster.
    pub lanes: u16,
    /// Shards of each party.
    pub shards: u16,
    /// How the best route is found.
    pub form: Form,
}

/// Who says a hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// A member.
    Member {
        /// Its lane.
        lane: Lane,
        /// Whether it takes part in Select-Best.
        participates: bool,
    },
    /// A party.
    Party {
        /// Which.
        party: Party,
        /// Drawn for this connection.
        nonce: [u8; 32],
        /// Of its computations.
        engine: rhumb_mpc::Parameters,
    },
}

impl Hello {
    /// As bytes.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.bytes(MAGIC).u8(crate::VERSION);
        out.bytes(&self.roster).u16(self.lanes).u16(self.shards).u8(form_number(self.form));
        match &self.speaker {
            Speaker::Member { lane, participates } => {
                out.u8(0).lane(*lane).u8(u8::from(*participates));
            }
            Speaker::Party { party, nonce, engine } => {
                let field = match engine.field {
                    FieldBits::Two => 2,
                    FieldBits::Four => 4,
                };
                out.u8(*party as u8).bytes(nonce);
                out.u8(rhumb_mpc::VERSION).u8(field).u32(engine.bit_words).u32(engine.vector_words);
            }
        }
        out.0
    }

    /// Of bytes.
    ///
    /// # Errors
    ///
    /// [`ExchangeError::Version`] if the other side speaks another; [`ExchangeError::Malformed`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ExchangeError> {
        let mut reader = Reader::new(bytes);
        if reader.take(MAGIC.len())? != MAGIC {
            return Err(ExchangeError::Malformed("it is no hello of an exchange"));
        }
        let theirs = reader.u8()?;
        if theirs != crate::VERSION {
            return Err(ExchangeError::Version { theirs });
        }
        let (roster, lanes, shards) = (reader.array()?, reader.u16()?, reader.u16()?);
        let form = *FORMS
            .get(usize::from(reader.u8()?))
            .ok_or(ExchangeError::Malformed("the circuit of a hello"))?;
        let speaker = match reader.u8()? {
            0 => Speaker::Member { lane: reader.lane()?, participates: reader.flag()? },
            1 => party(Party::One, &mut reader)?,
            2 => party(Party::Two, &mut reader)?,
            _ => return Err(ExchangeError::Malformed("the speaker of a hello")),
        };
        reader.finish()?;
        Ok(Self { speaker, roster, lanes, shards, form })
    }
}

fn party(party: Party, reader: &mut Reader<'_>) -> Result<Speaker, ExchangeError> {
    let nonce = reader.array()?;
    if reader.u8()? != rhumb_mpc::VERSION {
        return Err(ExchangeError::Parameter("version of the computation"));
    }
    let field = match reader.u8()? {
        2 => FieldBits::Two,
        4 => FieldBits::Four,
        _ => return Err(ExchangeError::Malformed("the field of a hello")),
    };
    let (bit_words, vector_words) = (reader.u32()?, reader.u32()?);
    let engine = rhumb_mpc::Parameters { field, bit_words, vector_words };
    Ok(Speaker::Party { party, nonce, engine })
}

fn form_number(form: Form) -> u8 {
    FORMS.iter().position(|other| *other == form).expect("invariant: all forms are there") as u8
}

const FORMS: [Form; 3] = [Form::Paper, Form::Index, Form::TopClass];
const MAGIC: &[u8] = b"RHUMBX";
