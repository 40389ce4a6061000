"""Rhumb for Python: join a network of names, be reached by name, send and receive by name.

    async with rhumb.join(key="me.key", router="ROUTER_NAME@192.0.2.1:7460") as node:
        async with await node.connect("NAME", 80) as stream:
            stream.write(b"hello")
            print(await stream.read())

What goes between two names is encrypted from one end to the other, and both names are proven.
"""

# Written so that any interpreter reads it as far as the words that say what is wrong.
import sys

if sys.version_info < (3, 9):
    raise ImportError(
        "rhumb needs Python 3.9 or later, and this is Python %d.%d (%s); run it by a later one"
        % (sys.version_info[0], sys.version_info[1], sys.executable)
    )

from rhumb._errors import (
    BusyError,
    ClosedError,
    Error,
    InvalidError,
    KeyFileError,
    RefusedError,
    TimedOutError,
    TooBigError,
    UnreachableError,
)
from rhumb._keys import AdCert, Identity
from rhumb._node import EVERYBODY, Node, ReceivedFile, Service, join
from rhumb._ports import Message, Port
from rhumb._native import __version__
from rhumb._server import Server
from rhumb._streams import Stream

__all__ = [
    "EVERYBODY",
    "AdCert",
    "BusyError",
    "ClosedError",
    "Error",
    "Identity",
    "InvalidError",
    "KeyFileError",
    "Message",
    "Node",
    "Port",
    "ReceivedFile",
    "RefusedError",
    "Server",
    "Service",
    "Stream",
    "TimedOutError",
    "TooBigError",
    "UnreachableError",
    "__version__",
    "join",
]
