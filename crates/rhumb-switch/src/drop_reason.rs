//! Why a PDU was dropped by the switch. What the link
//! below drops is counted there, by its own reasons.

/// Why a PDU went no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[non_exhaustive]
#[repr(usize)]
pub enum DropReason {
    /// A datagram of no known type.
    ForeignDatagram,
    /// Bytes that are not a PDU, or not what its action carries.
    MalformedPdu,
    /// The TTL is used up.
    TtlExceeded,
    /// No certificate lets the sender carry for the source.
    NotAuthorised,
    /// A certificate chain did not verify.
    BadCertificate,
    /// A newer statement than one in a chain is in force.
    Superseded,
    /// A certificate in a chain has expired, by our clock.
    Expired,
    /// A certificate in a chain is not yet valid, by our clock.
    NotYetValid,
    /// The chain of an earlier PDU of the same source is being verified.
    VerificationPending,
    /// The metadata of an issuer are being fetched.
    MetadataPending,
    /// The route is being looked up, or its next hop is being connected to.
    RoutePending,
    /// The RIB says that there is no route.
    Unreachable,
    /// The PDU does not fit the next link.
    TooBig,
    /// The chain had to go ahead of the PDU, which did not fit together with it.
    ChainAhead,
    /// Too much work is waiting.
    Overloaded,
    /// A NACK or pong about no flow of ours, or not from its next hop.
    UnexpectedAnswer,
    /// Addressed to this router, which does not serve it.
    NotForUs,
    /// A label that we did not give, or gave to a flow that is forgotten.
    UnknownFlow,
    /// A RIB answer that nobody asked for, or from somebody else.
    UnexpectedRibAnswer,
    /// The next hop's session ended in that moment.
    NextHopGone,
    /// For another worker, to whom as much is on its way already.
    HandOverFull,
    /// More PDUs of no known flow came on its session than are looked into.
    TooManyMisses,
    /// From a foreign peer, for others, and without the capability that is demanded of it.
    Unstamped,
    /// Its capability was refused, for a reason that is counted beside these.
    CapabilityRefused,
    /// For a peer that demands a capability, of which none is in force.
    NoCapability,
    /// The rules of access refuse whoever sent it.
    AccessRefused,
    /// The route leads to an address that is not dialled because a route says so.
    LocatorRefused,
    /// A certificate lasts longer than any of its kind may.
    LastsTooLong,
    /// A chain that may not be known here: it is exported to domains only that we are not in.
    OutOfBounds,
    /// For outside of our domain, from a name that did not export itself by it.
    NotExported,
    /// The next router is outside of our domain, of which this router is no border.
    NextHopOutside,
    /// For a name that its sender's domain does not let it send to.
    OutOfReach,
    /// More than its sender's domain lets be carried for it, or for whoever admitted it.
    RateExceeded,
    /// A name more than its server's domain lets it have, or whoever admitted it.
    TooManyNames,
    /// Somebody who is no member of a group, or not with that right, wants to be a part of it.
    NotAMember,
    /// To a group, by nobody who was let send to it.
    NotASender,
    /// To a group, of which more copies would be made than its sender may cause.
    TooManyCopies,
}

impl DropReason {
    /// All reasons, in the order of their counters.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The label of the drop counter.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}
