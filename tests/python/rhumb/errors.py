"""What can go wrong, by fault."""


class RhumbError(Exception):
    """Any failure that this package reports."""


class Malformed(RhumbError):
    """Bytes that are not what the specification allows."""


class Untrusted(RhumbError):
    """Well-formed, but what it claims does not hold: a signature, a hash, a window of time, an identity."""


class HandshakeFailed(RhumbError):
    """No session came to be."""


class SessionOver(RhumbError):
    """The session ended: the peer closed it or fell silent."""


class Refused(RhumbError):
    """Somebody answered no."""


class TimedOut(RhumbError):
    """No answer in time."""
