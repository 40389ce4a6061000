//! Between the two parties of a pair. Party one orders what is done;
//! party two says what it has heard from members.

use super::Mark;
use crate::ExchangeError;
use crate::roster::Lane;
use crate::route::RouteId;
use crate::wire::{Reader, Writer};

/// One of a member's announcements.
pub(crate) type Item = (Lane, Mark);

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PairMessage<'a> {
    /// Of the computation.
    Engine(&'a [u8]),
    /// From two to one: heard from members.
    Have(Vec<Heard>),
    /// From two to one: what was held at the beginning has been said.
    HaveEnd,
    /// From two to one: a member is connected.
    Here { lane: Lane, participates: bool },
    /// From two to one: a member is not connected any more.
    Away { lane: Lane },
    /// From two to one: it has done [`Order::Leave`]; what it says of
    /// the lane from here on is heard after that.
    Left { lane: Lane },
    /// From two to one: whose rankings are here, once it waits no longer.
    Answered { round: u64, lanes: Vec<u64> },
    /// From two to one: it has handed out what this order says.
    Done { position: u64 },
    /// From one to two: the next thing that both do.
    Order { position: u64, order: Order },
}

/// What party two has heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) item: Item,
    pub(crate) what: HeardWhat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeardWhat {
    /// A route that no pair has exported yet, as far as party two knows. The id shows whether the
    /// member told both parties the same.
    Route(RouteId),
    /// A route that a former pair has exported.
    Exported(RouteId),
    /// No route: something else has this mark.
    Nothing,
    /// A route that party two did not take, beyond the lane's quota.
    Refused,
}

/// What both parties do, in the order of positions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Order {
    /// Hand these out to all.
    Export(Vec<Item>),
    /// These are current; members hold them from a former pair, or will be sent them.
    Adopt(Vec<Item>),
    /// These will never be current.
    Forget(Vec<Item>),
    /// These are current no more.
    Remove(Vec<RouteId>),
    /// A member gets what is computed from here on.
    Join { lane: Lane, participates: bool },
    /// It does not any more.
    Part(Lane),
    /// Nothing of what it said counts any more.
    Leave(Lane),
    /// Hand these out to one member.
    Replay { lane: Lane, ids: Vec<RouteId> },
    /// Ask these members for a ranking of these routes. The position names the round.
    Ask { ids: Vec<RouteId>, lanes: Vec<u64> },
    /// Compute the results of these rounds: one run.
    Select(Vec<Selection>),
    /// The engine's order in this slot will be one of these announcers, each at its place.
    Arrange { slot: u8, announcers: Vec<Lane> },
}

/// A round whose result is to be computed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Selection {
    pub(crate) round: u64,
    /// The members that count. Without any, the round is over.
    pub(crate) lanes: Vec<u64>,
    /// Of the engine's order, if the circuit takes one.
    pub(crate) slot: u8,
}

impl Selection {
    /// Whether there is anything to compute.
    pub(crate) fn counts(&self) -> bool {
        self.lanes.iter().any(|word| *word != 0)
    }
}

impl<'a> PairMessage<'a> {
    pub(crate) fn emit(&self, shard: u16) -> Vec<u8> {
        let mut out = Writer::default();
        match self {
            Self::Engine(message) => out.u8(1).u16(shard).bytes(message),
            Self::Have(heard) => out.u8(2).u16(shard).list(heard, |out, heard| {
                out.lane(heard.item.0).mark(heard.item.1);
                match heard.what {
                    HeardWhat::Route(id) => out.u8(0).bytes(&id.0),
                    HeardWhat::Exported(id) => out.u8(1).bytes(&id.0),
                    HeardWhat::Nothing => out.u8(2),
                    HeardWhat::Refused => out.u8(3),
                };
            }),
            Self::HaveEnd => out.u8(3).u16(shard),
            Self::Here { lane, participates } => {
                out.u8(4).u16(shard).lane(*lane).u8(u8::from(*participates))
            }
            Self::Away { lane } => out.u8(5).u16(shard).lane(*lane),
            Self::Left { lane } => out.u8(8).u16(shard).lane(*lane),
            Self::Answered { round, lanes } => out.u8(6).u16(shard).u64(*round).words(lanes),
            Self::Done { position } => out.u8(9).u16(shard).u64(*position),
            Self::Order { position, order } => {
                out.u8(7).u16(shard).u64(*position);
                order.emit(&mut out);
                &mut out
            }
        };
        out.0
    }

    pub(crate) fn parse(bytes: &'a [u8]) -> Result<(u16, Self), ExchangeError> {
        let mut reader = Reader::new(bytes);
        let (kind, shard) = (reader.u8()?, reader.u16()?);
        let message = match kind {
            1 => Self::Engine(reader.rest()),
            2 => Self::Have(reader.list(19, heard)?),
            3 => Self::HaveEnd,
            4 => Self::Here { lane: reader.lane()?, participates: reader.flag()? },
            5 => Self::Away { lane: reader.lane()? },
            6 => Self::Answered { round: reader.u64()?, lanes: reader.words()? },
            8 => Self::Left { lane: reader.lane()? },
            9 => Self::Done { position: reader.u64()? },
            7 => Self::Order { position: reader.u64()?, order: Order::parse(&mut reader)? },
            _ => return Err(ExchangeError::Malformed("its kind")),
        };
        reader.finish()?;
        Ok((shard, message))
    }
}

impl Order {
    fn emit(&self, out: &mut Writer) {
        match self {
            Self::Export(items) => emit_items(out.u8(1), items),
            Self::Adopt(items) => emit_items(out.u8(2), items),
            Self::Forget(items) => emit_items(out.u8(3), items),
            Self::Remove(ids) => out.u8(4).ids(ids),
            Self::Join { lane, participates } => out.u8(5).lane(*lane).u8(u8::from(*participates)),
            Self::Part(lane) => out.u8(6).lane(*lane),
            Self::Leave(lane) => out.u8(7).lane(*lane),
            Self::Replay { lane, ids } => out.u8(8).lane(*lane).ids(ids),
            Self::Ask { ids, lanes } => out.u8(9).ids(ids).words(lanes),
            Self::Select(selections) => out.u8(10).list(selections, |out, selection| {
                out.u64(selection.round).words(&selection.lanes).u8(selection.slot);
            }),
            Self::Arrange { slot, announcers } => {
                out.u8(11).u8(*slot).list(announcers, |out, lane| {
                    out.lane(*lane);
                })
            }
        };
    }

    fn parse(reader: &mut Reader<'_>) -> Result<Self, ExchangeError> {
        Ok(match reader.u8()? {
            1 => Self::Export(items(reader)?),
            2 => Self::Adopt(items(reader)?),
            3 => Self::Forget(items(reader)?),
            4 => Self::Remove(reader.ids()?),
            5 => Self::Join { lane: reader.lane()?, participates: reader.flag()? },
            6 => Self::Part(reader.lane()?),
            7 => Self::Leave(reader.lane()?),
            8 => Self::Replay { lane: reader.lane()?, ids: reader.ids()? },
            9 => Self::Ask { ids: reader.ids()?, lanes: reader.words()? },
            10 => Self::Select(reader.list(SELECTION_LEN, |reader| {
                let (round, lanes) = (reader.u64()?, reader.words()?);
                Ok(Selection { round, lanes, slot: reader.u8()? })
            })?),
            11 => {
                let slot = reader.u8()?;
                Self::Arrange { slot, announcers: reader.list(2, Reader::lane)? }
            }
            _ => return Err(ExchangeError::Malformed("an order")),
        })
    }
}

fn emit_items<'w>(out: &'w mut Writer, items: &[Item]) -> &'w mut Writer {
    out.list(items, |out, (lane, mark)| {
        out.lane(*lane).mark(*mark);
    })
}

fn items(reader: &mut Reader<'_>) -> Result<Vec<Item>, ExchangeError> {
    reader.list(18, |reader| Ok((reader.lane()?, reader.mark()?)))
}

fn heard(reader: &mut Reader<'_>) -> Result<Heard, ExchangeError> {
    let item = (reader.lane()?, reader.mark()?);
    let what = match reader.u8()? {
        0 => HeardWhat::Route(reader.id()?),
        1 => HeardWhat::Exported(reader.id()?),
        2 => HeardWhat::Nothing,
        3 => HeardWhat::Refused,
        _ => return Err(ExchangeError::Malformed("what was heard")),
    };
    Ok(Heard { item, what })
}

/// Of one without lanes.
const SELECTION_LEN: usize = 8 + 4 + 1;
