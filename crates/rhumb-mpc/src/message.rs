//! What the parties say to each other: a version, a kind, the session, a number that counts up, and
//! the body. Numbers are little-endian. One message is one frame of the channel, which is ordered
//! and authenticated (TLS over TCP).

use std::collections::VecDeque;

use crate::parameters::{FieldBits, Parameters, Party};
use crate::triples::Kind;
use crate::{MAX_MESSAGE, MpcError, VERSION};

/// Names a session: a digest of what both said in their hellos.
pub(crate) type SessionId = [u8; 16];

/// Version, kind, session, number.
pub(crate) const HEADER_LEN: usize = 2 + 16 + 8;
/// Flips of an order: a bit for each of its transfers.
pub(crate) const FLIPS_LEN: usize = 2 * crate::MAX_ORDER * 6 / 8;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    pub(crate) session: SessionId,
    pub(crate) number: u64,
    pub(crate) body: Body<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body<'a> {
    Hello {
        party: Party,
        parameters: Parameters,
        nonce: [u8; 32],
    },
    /// Of the base transfers, in both roles.
    Base(&'a [u8]),
    /// Answers to the base transfers, and corrections of the trees.
    Trees(&'a [u8]),
    /// A party's part of a batch of triples.
    Triples {
        kind: Kind,
        batch: u64,
        corrections: &'a [u8],
    },
    /// What is opened in one level.
    Level {
        tag: LevelTag,
        opened: &'a [u8],
    },
    /// Party one has a new order.
    Order {
        slot: u8,
        size: u8,
        epoch: u64,
        flips: &'a [u8; FLIPS_LEN],
        corrections: &'a [u8],
    },
    /// Party two's trees for it.
    OrderTrees {
        slot: u8,
        epoch: u64,
        corrections: &'a [u8],
    },
}

/// Where in which computation something is opened. Both parties must be at the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LevelTag {
    pub(crate) run: u64,
    pub(crate) level: u32,
    pub(crate) lanes: u32,
    pub(crate) program: [u8; 32],
    /// Serial numbers of the run's first words of triples.
    pub(crate) bit_serial: u64,
    pub(crate) vector_serial: u64,
    /// Digest of the orders that the run uses, and of how far they are used.
    pub(crate) orders: [u8; 32],
}

impl LevelTag {
    /// Equal but for the level, or which part is not.
    pub(crate) fn check(&self, theirs: &Self) -> Result<(), MpcError> {
        let same = [
            ("the program", self.program == theirs.program),
            ("the number of the run", self.run == theirs.run),
            ("the number of lanes", self.lanes == theirs.lanes),
            ("the level", self.level == theirs.level),
            ("the serial number of bit triples", self.bit_serial == theirs.bit_serial),
            ("the serial number of vector triples", self.vector_serial == theirs.vector_serial),
            ("the orders", self.orders == theirs.orders),
        ];
        match same.iter().find(|(_, same)| !same) {
            Some((what, _)) => Err(MpcError::Desynchronised(what)),
            None => Ok(()),
        }
    }
}

impl<'a> Message<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, MpcError> {
        if bytes.len() > MAX_MESSAGE {
            return Err(MpcError::MessageTooLong { len: bytes.len() });
        }
        let mut reader = Reader(bytes);
        let [version] = reader.array("a header")?;
        if version != VERSION {
            return Err(MpcError::Version { theirs: version });
        }
        let [kind] = reader.array("a header")?;
        let session = reader.array("a header")?;
        let number = u64::from_le_bytes(reader.array("a header")?);
        Ok(Self { session, number, body: Body::parse(kind, reader)? })
    }

    /// Appends it.
    pub(crate) fn emit(&self, out: &mut Vec<u8>) {
        out.reserve(HEADER_LEN + 128 + self.body.tail().len());
        out.extend([VERSION, self.body.kind()]);
        out.extend(self.session);
        out.extend(self.number.to_le_bytes());
        self.body.emit(out);
    }
}

impl<'a> Body<'a> {
    fn parse(kind: u8, mut reader: Reader<'a>) -> Result<Self, MpcError> {
        Ok(match kind {
            HELLO => {
                let body = Self::Hello {
                    party: party(reader.array("a hello")?)?,
                    parameters: parameters(&mut reader)?,
                    nonce: reader.array("a hello")?,
                };
                if !reader.0.is_empty() {
                    return Err(MpcError::Malformed("a hello"));
                }
                body
            }
            BASE => Self::Base(reader.0),
            TREES => Self::Trees(reader.0),
            TRIPLES => {
                let kind = match reader.array("triples")? {
                    [1] => Kind::Bits,
                    [2] => Kind::Vectors,
                    _ => return Err(MpcError::Malformed("a kind of triples")),
                };
                let batch = u64::from_le_bytes(reader.array("triples")?);
                Self::Triples { kind, batch, corrections: reader.0 }
            }
            LEVEL => {
                let tag = LevelTag {
                    run: u64::from_le_bytes(reader.array("a level")?),
                    level: u32::from_le_bytes(reader.array("a level")?),
                    lanes: u32::from_le_bytes(reader.array("a level")?),
                    program: reader.array("a level")?,
                    bit_serial: u64::from_le_bytes(reader.array("a level")?),
                    vector_serial: u64::from_le_bytes(reader.array("a level")?),
                    orders: reader.array("a level")?,
                };
                Self::Level { tag, opened: reader.0 }
            }
            ORDER => {
                let [slot, size] = reader.array("an order")?;
                let epoch = u64::from_le_bytes(reader.array("an order")?);
                let flips = reader.array_ref("an order")?;
                Self::Order { slot, size, epoch, flips, corrections: reader.0 }
            }
            ORDER_TREES => {
                let [slot] = reader.array("trees of an order")?;
                let epoch = u64::from_le_bytes(reader.array("trees of an order")?);
                Self::OrderTrees { slot, epoch, corrections: reader.0 }
            }
            _ => return Err(MpcError::Malformed("the kind of a message")),
        })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        match self {
            Self::Hello { party, parameters, nonce } => {
                out.extend([*party as u8, parameters.field.bits() as u8]);
                out.extend(parameters.bit_words.to_le_bytes());
                out.extend(parameters.vector_words.to_le_bytes());
                out.extend(nonce);
            }
            Self::Base(_) | Self::Trees(_) => {}
            Self::Triples { kind, batch, .. } => {
                out.push(if *kind == Kind::Bits { 1 } else { 2 });
                out.extend(batch.to_le_bytes());
            }
            Self::Level { tag, .. } => {
                out.extend(tag.run.to_le_bytes());
                out.extend(tag.level.to_le_bytes());
                out.extend(tag.lanes.to_le_bytes());
                out.extend(tag.program);
                out.extend(tag.bit_serial.to_le_bytes());
                out.extend(tag.vector_serial.to_le_bytes());
                out.extend(tag.orders);
            }
            Self::Order { slot, size, epoch, flips, .. } => {
                out.extend([*slot, *size]);
                out.extend(epoch.to_le_bytes());
                out.extend(*flips);
            }
            Self::OrderTrees { slot, epoch, .. } => {
                out.push(*slot);
                out.extend(epoch.to_le_bytes());
            }
        }
        out.extend_from_slice(self.tail());
    }

    /// What ends the message, and has no length of its own.
    fn tail(&self) -> &'a [u8] {
        match self {
            Self::Hello { .. } => &[],
            Self::Base(tail)
            | Self::Trees(tail)
            | Self::Triples { corrections: tail, .. }
            | Self::Level { opened: tail, .. }
            | Self::Order { corrections: tail, .. }
            | Self::OrderTrees { corrections: tail, .. } => tail,
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Hello { .. } => HELLO,
            Self::Base(_) => BASE,
            Self::Trees(_) => TREES,
            Self::Triples { .. } => TRIPLES,
            Self::Level { .. } => LEVEL,
            Self::Order { .. } => ORDER,
            Self::OrderTrees { .. } => ORDER_TREES,
        }
    }

    /// What it is, for errors.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Hello { .. } => "a hello",
            Self::Base(_) => "a message of base transfers",
            Self::Trees(_) => "a message of trees",
            Self::Triples { .. } => "a part of triples",
            Self::Level { .. } => "a level",
            Self::Order { .. } => "an order",
            Self::OrderTrees { .. } => "a message of an order's trees",
        }
    }
}

fn party([byte]: [u8; 1]) -> Result<Party, MpcError> {
    match byte {
        1 => Ok(Party::One),
        2 => Ok(Party::Two),
        _ => Err(MpcError::Malformed("the party of a hello")),
    }
}

fn parameters(reader: &mut Reader<'_>) -> Result<Parameters, MpcError> {
    let field = match reader.array("a hello")? {
        [2] => FieldBits::Two,
        [4] => FieldBits::Four,
        _ => return Err(MpcError::Malformed("the field of a hello")),
    };
    let bit_words = u32::from_le_bytes(reader.array("a hello")?);
    let vector_words = u32::from_le_bytes(reader.array("a hello")?);
    Ok(Parameters { field, bit_words, vector_words })
}

/// Takes fields off the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self, of: &'static str) -> Result<[u8; N], MpcError> {
        self.array_ref(of).copied()
    }

    fn array_ref<const N: usize>(&mut self, of: &'static str) -> Result<&'a [u8; N], MpcError> {
        let (field, rest) = self.0.split_first_chunk().ok_or(MpcError::Malformed(of))?;
        self.0 = rest;
        Ok(field)
    }
}

const HELLO: u8 = 1;
const BASE: u8 = 2;
const TREES: u8 = 3;
const TRIPLES: u8 = 4;
const LEVEL: u8 = 5;
const ORDER: u8 = 6;
const ORDER_TREES: u8 = 7;

/// Numbers messages and puts them into the outbox.
pub(crate) struct Sender<'a> {
    pub(crate) outbox: &'a mut VecDeque<Vec<u8>>,
    pub(crate) spare: &'a mut Vec<Vec<u8>>,
    pub(crate) sent: &'a mut u64,
    pub(crate) id: SessionId,
}

impl Sender<'_> {
    pub(crate) fn send(&mut self, body: &Body<'_>) {
        let message = Message { session: self.id, number: *self.sent, body: *body };
        let mut bytes = self.spare.pop().unwrap_or_default();
        message.emit(&mut bytes);
        self.outbox.push_back(bytes);
        *self.sent += 1;
    }
}
