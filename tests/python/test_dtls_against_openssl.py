"""The DTLS part against a foreign stack: OpenSSL as the server, with a cookie exchange."""

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from rhumb.dtls.client12 import Client12
from rhumb.errors import HandshakeFailed
from rhumb.identity import Identity, identify
from rhumb.sealed import EXPORTED_LENGTH, EXPORTER_LABEL

PATIENCE_S = 10


@unittest.skipUnless(shutil.which("openssl"), "no openssl")
class HandshakeWithOpenSsl(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.server = Identity.generate()
        with open(self.path("server.key"), "wb") as file:
            file.write(self.server.key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ))
        with open(self.path("server.pem"), "wb") as file:
            certificate = x509.load_der_x509_certificate(self.server.x509())
            file.write(certificate.public_bytes(serialization.Encoding.PEM))

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def serve(self, *options):
        """Starts the server and returns it with its address."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind(("127.0.0.1", 0))
            address = probe.getsockname()
        output = open(self.path("output"), "w+b")
        self.addCleanup(output.close)
        command = [
            "openssl", "s_server", "-dtls1_2", "-listen", "-accept", f"{address[0]}:{address[1]}",
            "-key", self.path("server.key"), "-cert", self.path("server.pem"), "-Verify", "1",
            "-use_srtp", "SRTP_AEAD_AES_256_GCM",
            "-keymatexport", EXPORTER_LABEL.decode(), "-keymatexportlen", str(EXPORTED_LENGTH),
            *options,
        ]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT)
        self.addCleanup(end, process)
        return output, address

    def shake_hands(self, client, address, lose=lambda number: False):
        """Drives the client until it is complete. ``lose`` says which datagrams of the client never leave."""
        link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(link.close)
        link.connect(address)
        link.settimeout(0.3)
        client.start()
        deadline = time.monotonic() + PATIENCE_S
        sent = 0
        while not client.is_complete:
            self.assertLess(time.monotonic(), deadline, "no handshake in time")
            for datagram in client.outbox:
                if not lose(sent):
                    try:
                        link.send(datagram)
                    except ConnectionError:
                        pass  # The server is not up yet.
                sent += 1
            client.outbox.clear()
            try:
                client.receive(link.recv(65535))
            except (TimeoutError, socket.timeout, ConnectionError):
                client.retransmit()
        return link

    def check(self, *options, lose=lambda number: False):
        output, address = self.serve(*options)
        identity = Identity.generate()
        client = Client12(identity.key, identity.x509())
        link = self.shake_hands(client, address, lose)
        self.assertEqual(identify(client.peer_certificate), self.server.metadata)
        client.send(b"good day\n")
        link.send(client.outbox.pop())
        text = self.wait_for(output, "good day")
        exported = re.search(r"Keying material: ([0-9A-F]+)", text)
        self.assertEqual(client.export(EXPORTER_LABEL, EXPORTED_LENGTH).hex().upper(), exported[1])
        self.assertIn("SRTP Extension negotiated, profile=SRTP_AEAD_AES_256_GCM", text)

    def wait_for(self, output, words):
        deadline = time.monotonic() + PATIENCE_S
        while True:
            output.seek(0)
            text = output.read().decode(errors="replace")
            if words in text:
                return text
            self.assertLess(time.monotonic(), deadline, text)
            time.sleep(0.02)

    def test_aes_256(self):
        self.check("-cipher", "ECDHE-ECDSA-AES256-GCM-SHA384")

    def test_aes_128(self):
        self.check("-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256")

    def test_small_fragments(self):
        self.check("-mtu", "256")

    def test_every_third_datagram_is_lost(self):
        self.check(lose=lambda number: number % 3 == 0)

    def test_a_server_without_the_srtp_profile_is_refused(self):
        _, address = self.serve("-use_srtp", "SRTP_AES128_CM_SHA1_80")
        identity = Identity.generate()
        with self.assertRaisesRegex(HandshakeFailed, "SRTP"):
            self.shake_hands(Client12(identity.key, identity.x509()), address)


def end(process):
    process.stdin.close()
    process.terminate()
    process.wait(PATIENCE_S)


if __name__ == "__main__":
    unittest.main()
