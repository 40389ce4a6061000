"""The client's side of a DTLS 1.3 handshake with certificates on both sides, without I/O.

Flow (RFC 9147 section 5.7):

1. ``start``: ClientHello
2. HelloRetryRequest comes, if the server wants a cookie: ClientHello again, with its cookie
3. ServerHello, EncryptedExtensions, CertificateRequest, Certificate, CertificateVerify, Finished come: Certificate,
   CertificateVerify, Finished
4. an ACK comes, or anything of the epoch after the handshake: complete

It is driven like the client of DTLS 1.2. It sends no ACKs: what follows a flight acknowledges it, and what is lost is
sent again when the server's timer runs out.
"""

import hmac
from typing import Callable, Dict, List, Optional

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ..errors import HandshakeFailed
from . import messages13 as messages
from . import records, records13
from .client import Client
from .flights import LONGEST_FRAGMENT, Outgoing, pack
from .fragments import Message
from .keys13 import ApplicationSecrets, CipherSuite, HandshakeSecrets
from .records import Record
from .records13 import APPLICATION_EPOCH, HANDSHAKE_EPOCH, RecordOpener, RecordSealer

_COMPLETE = -1


class Client13(Client):
    """One handshake."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: bytes):
        super().__init__(key, certificate, messages.SERVER_HELLO)
        self._next_plain_record = 0
        self._was_retried = False
        self._context = b""
        self._suite: Optional[CipherSuite] = None
        self._handshake: Optional[HandshakeSecrets] = None
        self._application: Optional[ApplicationSecrets] = None
        self._sealers: Dict[int, RecordSealer] = {}
        self._openers: Dict[int, RecordOpener] = {}

    def start(self) -> None:
        """Step 1."""
        self._send_hello(None)

    def receive(self, datagram: bytes) -> None:
        """Takes a datagram from the server."""
        for record in records13.split(datagram):
            if records13.is_sealed(record):
                self._take_sealed(record)
            else:
                # Anybody can forge these, but nothing besides hellos is taken from them.
                for plain in records.split(record):
                    if plain.type == records.HANDSHAKE and plain.epoch == 0 and self._handshake is None:
                        self._take_handshake(plain.payload)

    def retransmit(self) -> None:
        """Sends the last flight again."""
        self._transmit(self._flight)

    def send(self, data: bytes) -> None:
        """Sends application data, once."""
        self._transmit([Outgoing(records.APPLICATION_DATA, APPLICATION_EPOCH, data)])

    def export(self, label: bytes, length: int) -> bytes:
        """Keying material that both ends share."""
        if self._application is None or not self.is_complete:
            raise HandshakeFailed("the handshake is not complete")
        return self._application.export(label, length)

    def _take_sealed(self, record: bytes) -> None:
        epoch = records13.epoch_bits(record)
        opener = self._openers.get(epoch)
        opened = None if opener is None else opener.open(record)
        if opened is None:
            return
        type_, payload = opened
        if type_ == records.ALERT:
            raise HandshakeFailed(f"the server sent alert {payload[-1] if payload else '?'}")
        if type_ == records.HANDSHAKE and epoch == HANDSHAKE_EPOCH:
            self._take_handshake(payload)
        # Step 4: the server has our Finished, or it would neither acknowledge nor move on.
        elif self._expected == _COMPLETE and (type_ == records13.ACK or epoch == APPLICATION_EPOCH):
            self.is_complete = True
            self._flight = []
            if type_ == records.APPLICATION_DATA:
                self.received.append(payload)

    def _take_handshake(self, payload: bytes) -> None:
        self._reassembler.add(payload)
        while (message := self._reassembler.next()) is not None:
            self._take_message(message)

    def _take_message(self, message: Message) -> None:
        if message.type != self._expected:
            raise HandshakeFailed(f"the server sent message {message.type} instead of {self._expected}")
        before = self._transcript
        self._transcript += message.encode_for_transcript13()
        steps: Dict[int, Callable[[bytes, bytes], None]] = {
            messages.SERVER_HELLO: self._on_hello,
            messages.ENCRYPTED_EXTENSIONS: self._on_extensions,
            messages.CERTIFICATE_REQUEST: self._on_certificate_request,
            messages.CERTIFICATE: self._on_certificate,
            messages.CERTIFICATE_VERIFY: self._on_certificate_verify,
            messages.FINISHED: self._on_finished,
        }
        steps[message.type](message.body, before)

    # Steps 2 and 3

    def _on_hello(self, body: bytes, before: bytes) -> None:
        hello = messages.ServerHello.parse(body)
        if hello.is_retry_request:
            self._on_retry_request(hello, before)
            return
        try:
            point = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), hello.point)
        except ValueError as error:
            raise HandshakeFailed("the server's ephemeral key is not on the curve") from error
        shared = self._ephemeral.exchange(ec.ECDH(), point)
        self._suite = hello.suite
        self._handshake = HandshakeSecrets(hello.suite, shared, self._transcript)
        self._sealers[HANDSHAKE_EPOCH] = RecordSealer(self._handshake.client, HANDSHAKE_EPOCH)
        self._openers[HANDSHAKE_EPOCH] = RecordOpener(self._handshake.server)
        self._expected = messages.ENCRYPTED_EXTENSIONS

    def _on_retry_request(self, hello: messages.ServerHello, before: bytes) -> None:
        if self._was_retried:
            raise HandshakeFailed("the server asks for a third hello")
        self._was_retried = True
        # The first hello counts as its hash from here on (RFC 8446 section 4.4.1).
        first = hello.suite.hash(before)
        request = self._transcript[len(before):]
        self._transcript = Message(messages.MESSAGE_HASH, 0, first).encode_for_transcript13() + request
        self._send_hello(hello.cookie)

    def _on_extensions(self, body: bytes, before: bytes) -> None:
        messages.check_encrypted_extensions(body)
        self._expected = messages.CERTIFICATE_REQUEST

    def _on_certificate_request(self, body: bytes, before: bytes) -> None:
        self._context = messages.read_certificate_request(body)
        self._expected = messages.CERTIFICATE

    def _on_certificate(self, body: bytes, before: bytes) -> None:
        self.peer_certificate = messages.read_certificate(body)
        self._expected = messages.CERTIFICATE_VERIFY

    def _on_certificate_verify(self, body: bytes, before: bytes) -> None:
        signature = messages.read_certificate_verify(body)
        signed = messages.signed_content(b"server", self._hash(before))
        try:
            key = x509.load_der_x509_certificate(self.peer_certificate).public_key()
            if not isinstance(key, ec.EllipticCurvePublicKey):
                raise HandshakeFailed("the server's key is not for ECDSA")
            key.verify(signature, signed, ec.ECDSA(hashes.SHA256()))
        except (ValueError, InvalidSignature) as error:
            raise HandshakeFailed("the server did not prove its key") from error
        self._expected = messages.FINISHED

    def _on_finished(self, body: bytes, before: bytes) -> None:
        assert self._handshake is not None, "Finished is expected only after the hellos"
        if not hmac.compare_digest(body, self._handshake.server.verify_data(before)):
            raise HandshakeFailed("the server saw another handshake")
        self._application = self._handshake.application(self._transcript)
        self._sealers[APPLICATION_EPOCH] = RecordSealer(self._application.client, APPLICATION_EPOCH)
        self._openers[APPLICATION_EPOCH] = RecordOpener(self._application.server)
        self._flight = []
        self._write(messages.CERTIFICATE, messages.certificate(self._context, self._certificate))
        signed = messages.signed_content(b"client", self._hash(self._transcript))
        signature = self._key.sign(signed, ec.ECDSA(hashes.SHA256()))
        self._write(messages.CERTIFICATE_VERIFY, messages.certificate_verify(signature))
        self._write(messages.FINISHED, self._handshake.client.verify_data(self._transcript))
        self._expected = _COMPLETE
        self._transmit(self._flight)

    def _hash(self, transcript: bytes) -> bytes:
        assert self._suite is not None, "the suite is chosen with the hello"
        return self._suite.hash(transcript)

    def _send_hello(self, cookie: Optional[bytes]) -> None:
        point = self._ephemeral.public_key().public_bytes(
            serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
        )
        self._flight = []
        self._write(messages.CLIENT_HELLO, messages.client_hello(self._random, point, cookie), epoch=0)
        self._transmit(self._flight)

    def _write(self, type_: int, body: bytes, epoch: int = HANDSHAKE_EPOCH) -> None:
        message = Message(type_, self._next_message, body)
        self._next_message += 1
        self._transcript += message.encode_for_transcript13()
        for fragment in message.fragments(LONGEST_FRAGMENT):
            self._flight.append(Outgoing(records.HANDSHAKE, epoch, fragment))

    def _transmit(self, flight: List[Outgoing]) -> None:
        self.outbox += pack(self._record(outgoing) for outgoing in flight)

    def _record(self, outgoing: Outgoing) -> bytes:
        if outgoing.epoch:
            return self._sealers[outgoing.epoch].seal(outgoing.type, outgoing.payload)
        record = Record(outgoing.type, self._next_plain_record, outgoing.payload)
        self._next_plain_record += 1
        return record.encode()
