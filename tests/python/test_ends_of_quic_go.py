"""A QUIC stack that is none of ours as an end of connections (section 9.2): quic-go, in `tests/quic-go`.

Its datagrams are carried by the Python client, over two real routers, to and from the real `serve` and `forward`.
"""

import os
import socket
import threading
import unittest
from dataclasses import replace

from network import PATIENCE_S, Network
from rhumb import certificates, rib
from rhumb.carrier import Carrier
from rhumb.identity import Identity
from rhumb.names import Name
from rhumb.node import Node

# Of QUIC: refused by who was asked; and a TLS alert is that much and its number.
CONNECTION_REFUSED = 0x2
CRYPTO_ERROR = 0x100
HANDSHAKE_FAILURE, ACCESS_DENIED, CERTIFICATE_REQUIRED, NO_PROTOCOL = 40, 49, 116, 120
OWN_PORT = 4000


def foreign_end():
    """The path of the foreign end; a test that has none skips itself."""
    path = os.environ.get("RHUMB_FOREIGN_END")
    if not path:
        raise unittest.SkipTest("RHUMB_FOREIGN_END does not name the foreign end")
    return path


class EndsOfQuicGo(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        foreign_end()
        cls.network = Network()
        cls.addClassCleanup(cls.network.end)
        cls.identity = Identity.generate(label="foreign")
        cls.identity.save(cls.network.path("foreign.key"))
        cls.tcp, cls.udp = tcp_echo(), udp_echo()
        for key in ("streams.key", "datagrams.key"):
            cls.network.keygen("node", key)
        # As if its link carried no more than any must, so that it sends halves, too.
        cls.streams = cls.serve("streams.key", cls.tcp, "--max-datagram", "1232")
        cls.datagrams = cls.serve("datagrams.key", cls.udp, "--udp")

    @classmethod
    def serve(cls, key, program, *options, port="9"):
        """The name whose port 9, of a node of ours with that key, leads to the program. The foreign end may use it."""
        serving = cls.network.start(
            "serve", port, "--to", f"127.0.0.1:{program}", "--allow", str(cls.identity.name), "--key", key,
            "--router", cls.network.far.text, *options,
        )
        return Name.from_text(serving.next_object()["name"])

    def carry(self, identity=None, served=None):
        """What carries for the foreign end, at the near router: as that identity, or for a name that it serves."""
        node = Node.join(self.network.near.address, identity or self.identity, self.network.near.name)
        self.addCleanup(node.close)
        if served is not None:
            node.answer_for(*served)
        carrier = Carrier(node, served and served[1].issuer)
        self.addCleanup(carrier.close)
        return carrier

    def start(self, carrier, *options, identity="foreign.key"):
        """The foreign end, by that carrier."""
        end = self.network.start_program(
            foreign_end(), "-identity", identity, "-carrier", carrier.address, *options
        )
        self.addCleanup(end.end)
        return end

    def connect(self, carrier, peer, *options, **identity):
        return self.start(carrier, "-connect", str(peer), *options, **identity)

    def forward(self, name, *options):
        """Brings port 9 of a name here, as somebody whom nobody knows. Where to, or what it says instead."""
        return self.network.start("forward", "127.0.0.1:0", f"{name}:9", "--router", self.network.far.text, *options)

    def test_it_connects_to_a_node_of_ours(self):
        carrier = self.carry()
        end = self.connect(carrier, self.streams, "-stream", "9")
        self.assertEqual(end.next_object(), {"stream": "good day"})
        self.assertEqual(end.next_object(), {"bytes": 200_000, "intact": True})
        self.assertEqual(end.next_object(), {"closed": 1})
        connected = end.next_object()
        self.assertEqual((connected["connected"], connected["server"]), (str(self.streams), str(self.streams)))
        self.assertEqual(connected["group"], "X25519MLKEM768")
        self.assertEqual(end.wait(), 0)
        self.assertGreater(min(carrier.halved, carrier.joined), 0, "first packets of QUIC are longer than PDUs")

        end = self.connect(carrier, self.datagrams, "-datagram", "9")
        self.assertEqual(end.next_object(), {"datagram": "WELL?", "from": 9, "to": OWN_PORT})
        self.assertEqual(end.next_object()["connected"], str(self.datagrams))
        self.assertEqual(end.wait(), 0)

    def test_a_node_of_ours_connects_to_it(self):
        carrier = self.carry()
        end = self.start(carrier, "-stream", "9", "-datagram", "9")
        self.assertEqual(end.next_object(), {"listening": str(self.identity.name)})
        ours = self.network.keygen("node", "forward.key")
        streams = self.forward(self.identity.name, "--key", "forward.key")
        local = address(streams.next_object()["local"])
        connected = end.next_object()
        self.assertEqual((connected["connected"], connected["group"]), (str(ours), "X25519MLKEM768"))
        content = os.urandom(200_000)
        self.assertEqual(sent_and_received(local, content), content)
        streams.end()

        datagrams = self.forward(self.identity.name, "--udp")
        local = address(datagrams.next_object()["local"])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as program:
            program.settimeout(PATIENCE_S)
            program.sendto(b"well?", local)
            self.assertEqual(program.recv(100), b"well?")

    def test_either_answers_for_a_name_by_its_owners_word(self):
        owner = Identity.generate()
        word = certificates.service(owner, self.identity.name, 600)
        carrier = self.carry(served=(owner.metadata, word))
        end = self.start(carrier, "-stream", "9", "-ad-cert", ad_cert(owner, word))
        self.assertEqual(end.next_object(), {"listening": str(owner.name)})
        ready = self.forward(owner.name).next_object()
        self.assertEqual(sent_and_received(address(ready["local"]), b"to a server"), b"to a server")

        capsule = self.network.keygen("capsule", "capsule.key")
        server = self.network.keygen("node", "server.key")
        certified = self.network.start("certify", "--server", str(server))
        self.assertEqual(certified.wait(), 0)
        served = self.serve("server.key", self.udp, "--udp", "--ad-cert", "capsule.adcert", port=f"{capsule}:9")
        self.assertEqual(served, capsule)
        carrier = self.carry()
        end = self.connect(carrier, capsule, "-datagram", "9")
        self.assertEqual(end.next_object()["datagram"], "WELL?")
        connected = end.next_object()
        self.assertEqual((connected["connected"], connected["server"]), (str(capsule), str(server)))

    def test_key_exchanges(self):
        carrier = self.carry()
        for group in ("X25519", "CurveP256"):
            end = self.connect(carrier, self.datagrams, "-datagram", "9", "-groups", group)
            self.assertEqual(end.next_object()["datagram"], "WELL?")
            self.assertEqual(end.next_object()["group"], group)
        end = self.connect(carrier, self.datagrams, "-datagram", "9", "-groups", "CurveP384")
        self.assertEqual(refusal(end), CRYPTO_ERROR + HANDSHAKE_FAILURE)

    def test_who_does_not_prove_the_name_is_refused(self):
        carrier = self.carry()
        other = Identity.generate()
        other.save(self.network.path("other.key"))
        replace(other, metadata=self.identity.metadata).save(self.network.path("borrowed.key"))
        word = certificates.service(other, Identity.generate().name, 600)
        cases = (
            # Another name, the metadata of this one with another key, and a word that is about another server.
            (("other.key",), ACCESS_DENIED),
            (("borrowed.key",), ACCESS_DENIED),
            (("other.key", "-ad-cert", ad_cert(other, word)), ACCESS_DENIED),
            (("foreign.key", "-named=false"), CERTIFICATE_REQUIRED),
            (("foreign.key", "-protocol", "rhumb-end/0"), NO_PROTOCOL),
        )
        for (identity, *options), alert in cases:
            with self.subTest(identity=identity, options=options):
                end = self.connect(carrier, self.datagrams, "-datagram", "9", *options, identity=identity)
                self.assertEqual(refusal(end), CRYPTO_ERROR + alert)
        # To whom nothing is offered is told so before any of that.
        carrier = self.carry(other)
        end = self.connect(carrier, self.datagrams, "-datagram", "9", identity="other.key")
        self.assertEqual(refusal(end), CONNECTION_REFUSED)

    def test_it_refuses_who_does_not_prove_the_name(self):
        carrier = self.carry()
        asked = Identity.generate().name
        carrier.redirected[asked] = self.datagrams
        end = self.connect(carrier, asked, "-datagram", "9")
        refused = end.next_object()
        self.assertEqual(refused["peer"], str(asked))
        self.assertEqual(refused["refused"], f"expected {asked}, found {self.datagrams}")
        self.assertFalse(end.next_object()["remote"], "it ended the handshake itself")

    def test_who_is_led_elsewhere_is_told(self):
        Identity.generate().save(self.network.path("another.key"))
        carrier = self.carry()
        self.start(carrier, "-stream", "9", identity="another.key").next_object()
        refused = self.forward(self.identity.name).next_line()
        self.assertIn("who answered is not the name that was asked for", refused)

        carrier = self.carry()
        end = self.start(carrier, "-stream", "9")
        end.next_object()
        # Its PDUs seem to come from somebody else.
        ours = self.network.keygen("node", "misled.key")
        carrier.redirected[Identity.generate().name] = ours
        # In TLS 1.3 who begins is done before the other end has looked: `rhumb forward` waits for that.
        refused = self.forward(self.identity.name, "--key", "misled.key").next_line()
        self.assertIn("does not accept this end's proof of its name", refused)
        self.assertIn(f"found {ours}", end.next_object()["refused"])


def ad_cert(owner, word):
    """What a certificate of TLS shows of an owner's word."""
    return (rib.encode_metadata([owner.metadata]) + certificates.encode_list([word])).hex()


def refusal(end):
    """By which code of QUIC the other side ended it."""
    said = end.next_object()
    assert said["remote"], said
    return said["code"]


def address(text):
    host, _, port = text.rpartition(":")
    return host, int(port)


def sent_and_received(local, content):
    """What a program gets back for what it says; nothing when the connection breaks."""
    received = b""
    with socket.create_connection(local, PATIENCE_S) as program:
        writing = threading.Thread(target=send_all, args=(program, content))
        writing.start()
        try:
            while part := program.recv(1 << 16):
                received += part
        except ConnectionError:
            received = b""
        writing.join(PATIENCE_S)
    return received


def send_all(program, content):
    try:
        program.sendall(content)
        program.shutdown(socket.SHUT_WR)
    except OSError:
        # Whoever reads is told.
        pass


def tcp_echo():
    """The port of a server that says to everybody what he said."""
    listener = socket.create_server(("127.0.0.1", 0))

    def echo(program):
        with program:
            while part := program.recv(1 << 16):
                program.sendall(part)

    def serve():
        while True:
            threading.Thread(target=echo, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return listener.getsockname()[1]


def udp_echo():
    """The same for datagrams, in capitals."""
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    opened.bind(("127.0.0.1", 0))

    def serve():
        while True:
            datagram, program = opened.recvfrom(1 << 16)
            opened.sendto(datagram.upper(), program)

    threading.Thread(target=serve, daemon=True).start()
    return opened.getsockname()[1]


if __name__ == "__main__":
    unittest.main()
