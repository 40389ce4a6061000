//! Between a member and a party.

use super::{BUCKETS, Mark, Tag};
use crate::route::RouteId;
use crate::wire::{Reader, Writer};
use crate::{ExchangeError, MAX_DESTINATION};

/// From a member to a party.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FromMember<'a> {
    /// A route, of which each party gets its half.
    Announce { mark: Mark, nonce: [u8; 16], destination: &'a [u8], half: Half<'a> },
    /// The member's route to a destination is no more.
    Withdraw { mark: Mark, destination: &'a [u8] },
    /// All of this incarnation that was there at its beginning has been said.
    End { mark: Mark },
    /// Sums of what the member holds, by bucket, at a [`ToMember::Joined`] of both parties.
    Holding { tag: Tag, sums: Vec<u64> },
    /// What it holds of a bucket.
    Ids { tag: Tag, bucket: u8, ids: Vec<RouteId> },
    /// Its share of a ranking.
    Ranking { round: Tag, share: &'a [u8] },
    /// It leaves, and its routes with it.
    Bye,
    /// What both parties sent before a [`ToMember::Milestone`] is put together.
    Passed { tag: Tag },
}

/// A party's half of an announcement.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Half<'a> {
    /// For party one: the seed of its shares, the lanes that they are for, and the sealed route.
    One { seed: [u8; 16], lanes: u16, sealed: &'a [u8] },
    /// For party two: the digest of the sealed route, and its
    /// shares of the policy and of each lane's key.
    Two { sealed: [u8; 32], policy: Vec<u64>, keys: Vec<u128> },
}

impl<'a> FromMember<'a> {
    pub(crate) fn emit(&self, shard: u16) -> Vec<u8> {
        let mut out = Writer::default();
        match self {
            Self::Announce { mark, nonce, destination, half } => {
                let kind = if matches!(half, Half::One { .. }) { 1 } else { 2 };
                out.u8(kind).u16(shard).mark(*mark).bytes(nonce).short_bytes(destination);
                match half {
                    Half::One { seed, lanes, sealed } => {
                        out.bytes(seed).u16(*lanes).short_bytes(sealed)
                    }
                    Half::Two { sealed, policy, keys } => {
                        out.bytes(sealed).words(policy).list(keys, |out, key| {
                            out.u128(*key);
                        })
                    }
                };
            }
            Self::Withdraw { mark, destination } => {
                out.u8(3).u16(shard).mark(*mark).short_bytes(destination);
            }
            Self::End { mark } => {
                out.u8(4).u16(shard).mark(*mark);
            }
            Self::Holding { tag, sums } => {
                out.u8(5).u16(shard).tag(*tag);
                sums.iter().for_each(|sum| {
                    out.u64(*sum);
                });
            }
            Self::Ids { tag, bucket, ids } => {
                out.u8(6).u16(shard).tag(*tag).u8(*bucket).ids(ids);
            }
            Self::Ranking { round, share } => {
                out.u8(7).u16(shard).tag(*round).short_bytes(share);
            }
            Self::Bye => {
                out.u8(8).u16(shard);
            }
            Self::Passed { tag } => {
                out.u8(9).u16(shard).tag(*tag);
            }
        }
        out.0
    }

    pub(crate) fn parse(bytes: &'a [u8]) -> Result<(u16, Self), ExchangeError> {
        let mut reader = Reader::new(bytes);
        let (kind, shard) = (reader.u8()?, reader.u16()?);
        let message = match kind {
            1 | 2 => {
                let (mark, nonce) = (reader.mark()?, reader.array()?);
                let destination = destination(&mut reader)?;
                let half = if kind == 1 {
                    let (seed, lanes) = (reader.array()?, reader.u16()?);
                    Half::One { seed, lanes, sealed: reader.short_bytes()? }
                } else {
                    let (sealed, policy) = (reader.array()?, reader.words()?);
                    Half::Two { sealed, policy, keys: reader.list(16, Reader::u128)? }
                };
                Self::Announce { mark, nonce, destination, half }
            }
            3 => Self::Withdraw { mark: reader.mark()?, destination: destination(&mut reader)? },
            4 => Self::End { mark: reader.mark()? },
            5 => {
                let tag = reader.tag()?;
                let sums = (0..BUCKETS).map(|_| reader.u64()).collect::<Result<_, _>>()?;
                Self::Holding { tag, sums }
            }
            6 => Self::Ids { tag: reader.tag()?, bucket: reader.u8()?, ids: reader.ids()? },
            7 => Self::Ranking { round: reader.tag()?, share: reader.short_bytes()? },
            8 => Self::Bye,
            9 => Self::Passed { tag: reader.tag()? },
            _ => return Err(ExchangeError::Malformed("its kind")),
        };
        reader.finish()?;
        Ok((shard, message))
    }
}

fn destination<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], ExchangeError> {
    let destination = reader.short_bytes()?;
    if destination.len() > MAX_DESTINATION {
        return Err(ExchangeError::Malformed("a destination"));
    }
    Ok(destination)
}

/// From a party to a member.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ToMember<'a> {
    /// All up to this mark is here: send what comes after. Zero for nothing.
    Resume { mark: Mark },
    /// From here on the member gets what this pair computes.
    Joined { tag: Tag },
    /// Party one: sealed routes with its shares of their keys.
    Offers { tag: Tag, offers: Vec<Offer<'a>> },
    /// Party two: its shares.
    Shares { tag: Tag, shares: Vec<(RouteId, u128)> },
    /// Party one: these are no more.
    Retract { tag: Tag, ids: Vec<RouteId> },
    /// Party one: say what you hold of these buckets.
    Wanted { tag: Tag, buckets: Vec<u8> },
    /// Party one: everything was sent.
    Synced { tag: Tag },
    /// A round begins: rank these.
    Ask { round: Tag, ids: Vec<RouteId> },
    /// A share of a round's result.
    Result { round: Tag, share: u128 },
    /// Party one: a round went on without this member.
    Missed { round: Tag },
    /// Party one: say when you are here.
    Milestone { tag: Tag },
    /// The route of this word is beyond the member's quota, and held nowhere.
    Refused { mark: Mark },
}

/// Party one's half of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offer<'a> {
    pub(crate) id: RouteId,
    /// The announcer's former route to the same destination.
    pub(crate) replaces: Option<RouteId>,
    pub(crate) share: u128,
    pub(crate) sealed: &'a [u8],
}

impl<'a> ToMember<'a> {
    pub(crate) fn emit(&self, shard: u16) -> Vec<u8> {
        let mut out = Writer::default();
        match self {
            Self::Resume { mark } => out.u8(1).u16(shard).mark(*mark),
            Self::Joined { tag } => out.u8(2).u16(shard).tag(*tag),
            Self::Offers { tag, offers } => {
                out.u8(3).u16(shard).tag(*tag).list(offers, |out, offer| {
                    out.bytes(&offer.id.0).u8(u8::from(offer.replaces.is_some()));
                    out.bytes(&offer.replaces.unwrap_or(NO_ID).0);
                    out.u128(offer.share).short_bytes(offer.sealed);
                })
            }
            Self::Shares { tag, shares } => {
                out.u8(4).u16(shard).tag(*tag).list(shares, |out, (id, share)| {
                    out.bytes(&id.0).u128(*share);
                })
            }
            Self::Retract { tag, ids } => out.u8(5).u16(shard).tag(*tag).ids(ids),
            Self::Wanted { tag, buckets } => out.u8(6).u16(shard).tag(*tag).short_bytes(buckets),
            Self::Synced { tag } => out.u8(7).u16(shard).tag(*tag),
            Self::Ask { round, ids } => out.u8(8).u16(shard).tag(*round).ids(ids),
            Self::Result { round, share } => out.u8(9).u16(shard).tag(*round).u128(*share),
            Self::Missed { round } => out.u8(10).u16(shard).tag(*round),
            Self::Milestone { tag } => out.u8(11).u16(shard).tag(*tag),
            Self::Refused { mark } => out.u8(12).u16(shard).mark(*mark),
        };
        out.0
    }

    pub(crate) fn parse(bytes: &'a [u8]) -> Result<(u16, Self), ExchangeError> {
        let mut reader = Reader::new(bytes);
        let (kind, shard) = (reader.u8()?, reader.u16()?);
        let message = match kind {
            1 => Self::Resume { mark: reader.mark()? },
            2 => Self::Joined { tag: reader.tag()? },
            3 => Self::Offers { tag: reader.tag()?, offers: reader.list(OFFER_LEN, offer)? },
            4 => {
                let tag = reader.tag()?;
                let shares = reader.list(32, |reader| Ok((reader.id()?, reader.u128()?)))?;
                Self::Shares { tag, shares }
            }
            5 => Self::Retract { tag: reader.tag()?, ids: reader.ids()? },
            6 => Self::Wanted { tag: reader.tag()?, buckets: reader.short_bytes()?.to_vec() },
            7 => Self::Synced { tag: reader.tag()? },
            8 => Self::Ask { round: reader.tag()?, ids: reader.ids()? },
            9 => Self::Result { round: reader.tag()?, share: reader.u128()? },
            10 => Self::Missed { round: reader.tag()? },
            11 => Self::Milestone { tag: reader.tag()? },
            12 => Self::Refused { mark: reader.mark()? },
            _ => return Err(ExchangeError::Malformed("its kind")),
        };
        reader.finish()?;
        Ok((shard, message))
    }
}

fn offer<'a>(reader: &mut Reader<'a>) -> Result<Offer<'a>, ExchangeError> {
    let (id, replaces_one, replaced) = (reader.id()?, reader.flag()?, reader.id()?);
    if !replaces_one && replaced != NO_ID {
        return Err(ExchangeError::Malformed("an offer that replaces nothing"));
    }
    let replaces = replaces_one.then_some(replaced);
    Ok(Offer { id, replaces, share: reader.u128()?, sealed: reader.short_bytes()? })
}

/// Of an offer without its route.
pub(crate) const OFFER_LEN: usize = 16 + 1 + 16 + 16 + 2;
const NO_ID: RouteId = RouteId([0; 16]);
