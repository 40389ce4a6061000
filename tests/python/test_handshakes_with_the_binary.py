"""Handshakes with the real router: both versions, with and without an initial, over a bad network."""

import random
import socket
import unittest

from network import PATIENCE_S, Network
from rhumb.datagrams import Retry
from rhumb.dtls.client12 import Client12
from rhumb.dtls.client13 import Client13
from rhumb.identity import Identity
from rhumb.node import Node
from rhumb.session import Session


class Watched:
    """A client that keeps what it gets."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.seen = []

    def receive(self, datagram):
        self.seen.append(datagram)
        super().receive(datagram)


class Lossy:
    """A client that loses three of ten datagrams in each direction, once it has been answered."""

    seed = 0

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._chance = random.Random(self.seed)
        self._is_answered = False

    def receive(self, datagram):
        if self._arrives():
            super().receive(datagram)
            self.outbox = [datagram for datagram in self.outbox if self._arrives()]
        self._is_answered = True

    def retransmit(self):
        super().retransmit()
        self.outbox = [datagram for datagram in self.outbox if self._arrives()]

    def _arrives(self):
        return not self._is_answered or self._chance.random() >= 0.3


class Handshakes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.network = Network()
        cls.addClassCleanup(cls.network.end)

    def connect(self, *mixture, is_native=False):
        """A session by a client that is made of these classes."""
        identity = Identity.generate()
        client = type("Client", mixture, {})(identity.key, identity.x509())
        router = self.network.near
        session = Session.connect(router.address, identity, router.name, is_native, client)
        node = Node(session, identity)
        self.addCleanup(node.close)
        return node, client

    def assert_joins(self, node):
        node.advertise()
        self.assertLess(node.ping(self.network.near.name), PATIENCE_S)

    def test_dtls_1_2_shows_the_certificate_and_1_3_does_not(self):
        cases = ((Client12, False, True), (Client13, False, False), (Client13, True, False))
        for version, is_native, is_shown in cases:
            with self.subTest(version=version, is_native=is_native):
                node, client = self.connect(Watched, version, is_native=is_native)
                self.assert_joins(node)
                metadata = node.session.peer.encode()
                self.assertEqual(any(metadata in datagram for datagram in client.seen), is_shown)

    def test_a_foreign_hello_is_answered_with_a_cookie(self):
        for version, message in ((Client12, 3), (Client13, 2)):
            with self.subTest(version=version):
                identity = Identity.generate()
                client = version(identity.key, identity.x509())
                client.start()
                hello = client.outbox.pop()
                answer = self.ask(hello)
                self.assertEqual(answer[13], message)
                self.assertLessEqual(len(answer), len(hello))

    def test_an_initial_without_a_good_token_is_answered_with_a_retry(self):
        identity = Identity.generate()
        client = Client13(identity.key, identity.x509())
        client.start()
        hello = client.outbox.pop()
        for token in (b"", bytes(24)):
            answer = self.ask(b"\x90\0\0\1" + bytes([len(token)]) + token + hello)
            self.assertEqual(answer[:4], b"\xa0\0\0\1")
            self.assertTrue(Retry.parse(answer).answers(hello))
        good = b"\x90\0\0\1" + bytes([24]) + Retry.parse(answer).token
        # The token is for this hello from this address, and so this is from nobody.
        other = Client13(identity.key, identity.x509())
        other.start()
        self.assertEqual(self.ask(good + other.outbox.pop())[:4], b"\xa0\0\0\1")

    def test_lost_datagrams(self):
        for version, is_native in ((Client12, False), (Client13, False), (Client13, True)):
            for seed in range(5):
                with self.subTest(version=version, is_native=is_native, seed=seed):
                    lossy = type("Lossy", (Lossy,), {"seed": seed})
                    node, _ = self.connect(lossy, version, is_native=is_native)
                    self.assert_joins(node)

    def ask(self, datagram):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
            link.connect(self.network.near.address)
            link.settimeout(PATIENCE_S)
            link.send(datagram)
            return link.recv(65535)


if __name__ == "__main__":
    unittest.main()
