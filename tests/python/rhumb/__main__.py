"""The command line: ``python3 -m rhumb COMMAND --help``."""

import sys
import time
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from typing import Any, Callable, Optional, Tuple

from .certificates import Address
from .errors import Malformed, RhumbError
from .identity import Identity
from .memberships import Membership
from .names import Name
from .node import DEFAULT_LEASE_S, Node, RibClient
from .payloads import DATAGRAM, Payload
from .pdus import Pdu

# A text has nobody who acknowledges it, so its sender stays for NACKs and resends until then.
_STAY_S = 0.5
_FOR_EVER_S = 10 * 365 * 86_400


def main() -> int:
    """Runs one command."""
    arguments = _parser().parse_args()
    try:
        arguments.run(arguments)
    except (RhumbError, OSError) as error:
        print(f"rhumb: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="rhumb", description="A small client of the Rhumb protocol.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    keygen = commands.add_parser("keygen", help="make a key and the name it speaks for")
    keygen.add_argument("--out", required=True, metavar="FILE")
    keygen.set_defaults(run=_keygen)

    ping = _node_command(commands, "ping", _ping, "measure the round trip to a name")
    ping.add_argument("name")
    ping.add_argument("--count", type=int, default=3)

    send_text = _node_command(commands, "send-text", _send_text, "send a text to a name, as one datagram")
    send_text.add_argument("--to", required=True, metavar="NAME")
    send_text.add_argument("--port", type=int, default=0)
    send_text.add_argument("text")

    receive_text = _node_command(commands, "receive-text", _receive_text, "print the texts that arrive")
    receive_text.add_argument("--port", type=int, default=0)
    receive_text.add_argument("--count", type=int, help="end after so many")

    look_up = commands.add_parser("look-up", help="ask a RIB for the way to a name")
    look_up.add_argument("--rib", required=True, metavar="[NAME@]ADDR")
    look_up.add_argument("name")
    look_up.set_defaults(run=_look_up)
    return parser


def _node_command(
    commands: Any, name: str, run: Callable[[Namespace], None], text: str
) -> ArgumentParser:
    command: ArgumentParser = commands.add_parser(name, help=text)
    command.add_argument("--router", required=True, metavar="[NAME@]ADDR")
    command.add_argument("--key", metavar="FILE", help="made by keygen [default: a fresh key for this run]")
    command.add_argument("--membership", metavar="FILE", help="what makes the key's name a member, by rhumb domain admit")
    command.add_argument("--lease-s", type=int, default=DEFAULT_LEASE_S)
    command.add_argument("--export", metavar="DOMAIN", help="the router's domain, by which we are known outside")
    command.add_argument("--native", action="store_true", help="DTLS 1.3 in an initial, which hides both names")
    command.set_defaults(run=run)
    return command


def _keygen(arguments: Namespace) -> None:
    identity = Identity.generate()
    identity.save(arguments.out)
    print(identity.name)


def _ping(arguments: Namespace) -> None:
    destination = Name.from_text(arguments.name)
    node = _join(arguments)
    for _ in range(arguments.count):
        print(f"{node.ping(destination) * 1000:.3f} ms", flush=True)
    node.leave()


def _send_text(arguments: Namespace) -> None:
    node = _join(arguments)
    tag = node.send_text(Name.from_text(arguments.to), arguments.port, arguments.text)
    until = time.monotonic() + _STAY_S
    while time.monotonic() < until:
        node.poll(until - time.monotonic())
    failure = node.failure(tag)
    node.leave()
    if failure is not None:
        raise RhumbError(str(failure))


def _receive_text(arguments: Namespace) -> None:
    node = _join(arguments)
    print(node.name, flush=True)
    count = 0
    while count != arguments.count:
        pdu = node.poll(_FOR_EVER_S)
        if pdu is not None and _print_text(pdu, arguments.port):
            count += 1
    node.leave()


def _print_text(pdu: Pdu, port: int) -> bool:
    try:
        payload = Payload.parse(pdu.data)
    except Malformed:
        return False
    if (payload.kind, payload.port) != (DATAGRAM, port):
        return False
    # What others send must not reach a terminal as it is.
    print(pdu.source, repr(payload.body.decode(errors="replace")), flush=True)
    return True


def _look_up(arguments: Namespace) -> None:
    expected, address = _remote(arguments.rib)
    rib = RibClient.connect(address, Identity.generate(), expected)
    chain = rib.look_up(Name.from_text(arguments.name))
    rib.close()
    if chain is None:
        raise RhumbError("the RIB knows no way")
    for via in chain.path:
        print(via)
    if chain.address is not None:
        print(f"{chain.address[0]} {chain.address[1]}")


def _join(arguments: Namespace) -> Node:
    router, address = _remote(arguments.router)
    identity = Identity.load(arguments.key) if arguments.key else Identity.generate()
    if arguments.membership:
        identity = replace(identity, membership=Membership.load(arguments.membership).encode())
    node = Node.join(address, identity, router, arguments.native, arguments.lease_s)
    if arguments.export:
        node.export(Name.from_text(arguments.export))
    return node


def _remote(text: str) -> Tuple[Optional[Name], Address]:
    name, separator, address = text.rpartition("@")
    host, _, port = address.rpartition(":")
    try:
        return Name.from_text(name) if separator else None, (host.strip("[]"), int(port))
    except ValueError as error:
        raise Malformed(f"not an address: {address}") from error


if __name__ == "__main__":
    sys.exit(main())
