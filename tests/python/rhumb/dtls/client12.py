"""The client's side of a DTLS 1.2 handshake with certificates on both sides, without I/O.

Flow (RFC 6347 figure 1):

1. ``start``: ClientHello
2. HelloVerifyRequest comes: ClientHello again, with its cookie
3. ServerHello, Certificate, ServerKeyExchange, CertificateRequest, ServerHelloDone come: Certificate,
   ClientKeyExchange, CertificateVerify, ChangeCipherSpec, Finished
4. ChangeCipherSpec, Finished come: complete

Whoever drives it sends what is in ``outbox``, hands every datagram to ``receive``, and calls ``retransmit`` when
nothing has come for a while. What cannot be from the server, or came before, is dropped without a word; a server that
breaks the rules ends the handshake with an exception.
"""

import hmac
from typing import Callable, Dict, List, Optional

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ..errors import HandshakeFailed, Malformed
from . import messages12 as messages
from . import records
from .client import Client
from .flights import LONGEST_FRAGMENT, Outgoing, pack
from .fragments import Message
from .keys12 import MasterSecret
from .records import Record, RecordOpener, RecordSealer


class Client12(Client):
    """One handshake."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: bytes):
        super().__init__(key, certificate, messages.HELLO_VERIFY_REQUEST)
        self._next_record = {0: 0, 1: 0}
        self._hello: Optional[messages.ServerHello] = None
        self._server_point = b""
        self._master: Optional[MasterSecret] = None
        self._sealer: Optional[RecordSealer] = None
        self._opener: Optional[RecordOpener] = None

    def start(self) -> None:
        """Step 1."""
        self._send_hello(b"")

    def receive(self, datagram: bytes) -> None:
        """Takes a datagram from the server."""
        for record in records.split(datagram):
            if record.epoch == 0 and record.type == records.HANDSHAKE:
                self._take_handshake(record.payload)
            elif record.epoch == 1 and self._opener is not None:
                payload = self._opener.open(record)
                if payload is not None:
                    self._take_opened(record.type, payload)
            # A ChangeCipherSpec says nothing that the epoch does not, and anybody can forge an alert of epoch 0.

    def retransmit(self) -> None:
        """Sends the last flight again."""
        self._transmit(self._flight)

    def send(self, data: bytes) -> None:
        """Sends application data, once."""
        self._transmit([Outgoing(records.APPLICATION_DATA, 1, data)])

    def export(self, label: bytes, length: int) -> bytes:
        """Keying material that both ends share."""
        if self._master is None or not self.is_complete:
            raise HandshakeFailed("the handshake is not complete")
        return self._master.export(label, length)

    def _take_opened(self, type_: int, payload: bytes) -> None:
        if type_ == records.HANDSHAKE:
            self._take_handshake(payload)
        elif type_ == records.APPLICATION_DATA:
            self.received.append(payload)
        elif type_ == records.ALERT:
            raise HandshakeFailed(f"the server sent alert {payload[-1] if payload else '?'}")

    def _take_handshake(self, payload: bytes) -> None:
        # What comes later is the server's last flight once more, or a wish to renegotiate, which it has to do without.
        if self.is_complete:
            return
        self._reassembler.add(payload)
        while (message := self._reassembler.next()) is not None:
            self._take_message(message)

    def _take_message(self, message: Message) -> None:
        expected = self._expected
        # The cookie exchange is the server's to ask for.
        if expected == messages.HELLO_VERIFY_REQUEST and message.type == messages.SERVER_HELLO:
            expected = messages.SERVER_HELLO
        if message.type != expected:
            raise HandshakeFailed(f"the server sent message {message.type} instead of {expected}")
        before = self._transcript
        self._transcript += message.encode()
        steps: Dict[int, Callable[[Message, bytes], None]] = {
            messages.HELLO_VERIFY_REQUEST: self._on_verify_request,
            messages.SERVER_HELLO: self._on_hello,
            messages.CERTIFICATE: self._on_certificate,
            messages.SERVER_KEY_EXCHANGE: self._on_key_exchange,
            messages.CERTIFICATE_REQUEST: self._on_certificate_request,
            messages.SERVER_HELLO_DONE: self._on_hello_done,
            messages.FINISHED: self._on_finished,
        }
        steps[message.type](message, before)

    # Step 2

    def _on_verify_request(self, message: Message, before: bytes) -> None:
        # Neither the first ClientHello nor this message counts in the transcript.
        self._transcript = b""
        self._expected = messages.SERVER_HELLO
        self._send_hello(messages.read_cookie(message.body))

    # Step 3

    def _on_hello(self, message: Message, before: bytes) -> None:
        self._hello = messages.ServerHello.parse(message.body)
        self._expected = messages.CERTIFICATE

    def _on_certificate(self, message: Message, before: bytes) -> None:
        self.peer_certificate = messages.read_certificate(message.body)
        self._expected = messages.SERVER_KEY_EXCHANGE

    def _on_key_exchange(self, message: Message, before: bytes) -> None:
        exchange = messages.ServerKeyExchange.parse(message.body)
        signed = self._random + self._server_hello().random + exchange.parameters
        try:
            key = x509.load_der_x509_certificate(self.peer_certificate).public_key()
            if not isinstance(key, ec.EllipticCurvePublicKey):
                raise HandshakeFailed("the server's key is not for ECDSA")
            key.verify(exchange.signature, signed, ec.ECDSA(hashes.SHA256()))
        except (ValueError, InvalidSignature) as error:
            raise HandshakeFailed("the server did not prove its key") from error
        self._server_point = exchange.point
        self._expected = messages.CERTIFICATE_REQUEST

    def _on_certificate_request(self, message: Message, before: bytes) -> None:
        messages.check_certificate_request(message.body)
        self._expected = messages.SERVER_HELLO_DONE

    def _on_hello_done(self, message: Message, before: bytes) -> None:
        if message.body:
            raise Malformed("ServerHelloDone: not empty")
        self._flight = []
        self._write(messages.CERTIFICATE, messages.certificate(self._certificate))
        public = self._ephemeral.public_key().public_bytes(
            serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
        )
        self._write(messages.CLIENT_KEY_EXCHANGE, messages.client_key_exchange(public))
        self._master = self._agree()
        signature = self._key.sign(self._transcript, ec.ECDSA(hashes.SHA256()))
        self._write(messages.CERTIFICATE_VERIFY, messages.certificate_verify(signature))
        self._flight.append(Outgoing(records.CHANGE_CIPHER_SPEC, 0, b"\1"))
        verify_data = self._master.verify_data(b"client finished", self._transcript)
        self._write(messages.FINISHED, verify_data, epoch=1)
        self._expected = messages.FINISHED
        self._transmit(self._flight)

    def _agree(self) -> MasterSecret:
        hello = self._server_hello()
        try:
            point = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), self._server_point)
        except ValueError as error:
            raise HandshakeFailed("the server's ephemeral key is not on the curve") from error
        shared = self._ephemeral.exchange(ec.ECDH(), point)
        master = MasterSecret.extended(hello.suite, shared, self._transcript, self._random, hello.random)
        block = master.key_block()
        self._sealer = RecordSealer(block.client_key, block.client_nonce)
        self._opener = RecordOpener(block.server_key, block.server_nonce)
        return master

    # Step 4

    def _on_finished(self, message: Message, before: bytes) -> None:
        assert self._master is not None, "Finished is expected only after the keys were agreed"
        expected = self._master.verify_data(b"server finished", before)
        if not hmac.compare_digest(message.body, expected):
            raise HandshakeFailed("the server saw another handshake")
        self._expected = -1
        self._flight = []
        self.is_complete = True

    def _server_hello(self) -> messages.ServerHello:
        assert self._hello is not None, "everything else is expected only after ServerHello"
        return self._hello

    def _send_hello(self, cookie: bytes) -> None:
        self._flight = []
        self._write(messages.CLIENT_HELLO, messages.client_hello(self._random, cookie))
        self._transmit(self._flight)

    def _write(self, type_: int, body: bytes, epoch: int = 0) -> None:
        message = Message(type_, self._next_message, body)
        self._next_message += 1
        self._transcript += message.encode()
        for fragment in message.fragments(LONGEST_FRAGMENT):
            self._flight.append(Outgoing(records.HANDSHAKE, epoch, fragment))

    def _transmit(self, flight: List[Outgoing]) -> None:
        self.outbox += pack(self._record(outgoing).encode() for outgoing in flight)

    def _record(self, outgoing: Outgoing) -> Record:
        counter = outgoing.epoch << 48 | self._next_record[outgoing.epoch]
        self._next_record[outgoing.epoch] += 1
        record = Record(outgoing.type, counter, outgoing.payload)
        if outgoing.epoch == 0:
            return record
        assert self._sealer is not None, "epoch 1 begins with the keys"
        return self._sealer.seal(record)
