"""What goes wrong. Each text says what happened and what to do; classes tell what can be done."""


class Error(Exception):
    """Anything that Rhumb could not do."""


class InvalidError(Error, ValueError):
    """Something that the program gave is not what it should be: correct the program."""


class KeyFileError(Error):
    """A file of a key, an AdCert or a membership is missing, damaged, or another one's."""


class UnreachableError(Error, ConnectionError):
    """Nobody answers, or there is no way: try again later, or look at the network."""


class RefusedError(Error, ConnectionError):
    """Somebody answers, and does not want this: ask whoever runs it."""


class TimedOutError(Error, TimeoutError):
    """It took longer than was allowed."""


class ClosedError(Error, ConnectionError):
    """It is over: join, connect or open anew."""


class TooBigError(Error, ValueError):
    """It is longer than one datagram carries."""


class BusyError(Error):
    """There is no room, or somebody has it: try again, slower, or take another."""
