"""Pieces of the DTLS clients, each by itself."""

import random
import unittest

from rhumb.dtls import records, records13
from rhumb.dtls.fragments import Message, Reassembler
from rhumb.dtls.keys13 import TLS_AES_128_GCM_SHA256, TrafficSecret
from rhumb.dtls.records import Record
from rhumb.dtls.records13 import RecordOpener, RecordSealer
from rhumb.errors import Malformed

SECRET = TrafficSecret(TLS_AES_128_GCM_SHA256, bytes(range(32)))


class Reassembly(unittest.TestCase):
    def test_any_order_with_repetitions(self):
        messages = [Message(11, n, random.Random(n).randbytes(n * 100)) for n in range(5)]
        for seed in range(20):
            chance = random.Random(seed)
            fragments = [f for message in messages for most in (37, 64) for f in message.fragments(most)]
            chance.shuffle(fragments)
            reassembler, complete = Reassembler(), []
            for fragment in fragments:
                reassembler.add(fragment)
                while (message := reassembler.next()) is not None:
                    complete.append(message)
            self.assertEqual(complete, messages)

    def test_nothing_is_complete_before_its_last_byte(self):
        reassembler = Reassembler()
        fragments = list(Message(11, 0, bytes(100)).fragments(30))
        self.assertEqual(len(fragments), 4)
        for fragment in fragments[:3]:
            reassembler.add(fragment)
            self.assertIsNone(reassembler.next())
        reassembler.add(fragments[3])
        self.assertIsNotNone(reassembler.next())

    def test_contradictions_and_lies_are_refused(self):
        reassembler = Reassembler()
        reassembler.add(next(Message(11, 0, bytes(100)).fragments(30)))
        for lie in (
            next(Message(12, 0, bytes(100)).fragments(30)),
            next(Message(11, 0, bytes(101)).fragments(30)),
            # It ends behind the message; it announces more than it has; it is too long for any message.
            bytes.fromhex("0b 000064 0000 000060 000005") + bytes(5),
            bytes.fromhex("0b 000064 0000 000000 000005") + bytes(4),
            bytes.fromhex("0b ffffff 0001 000000 000001") + bytes(1),
        ):
            with self.assertRaises(Malformed):
                reassembler.add(lie)


class Records(unittest.TestCase):
    def test_the_bytes_of_a_record(self):
        record = Record(records.HANDSHAKE, 0x0001_000000000002, b"abc")
        self.assertEqual(record.encode().hex(), "16" "fefd" "0001" "000000000002" "0003" "616263")
        self.assertEqual(list(records.split(record.encode() * 2)), [record] * 2)
        self.assertEqual(list(records.split(record.encode() + record.encode()[:-1])), [record])

    def test_sealed_records_of_1_3(self):
        sealer, opener = RecordSealer(SECRET, 2), RecordOpener(SECRET)
        first, second = sealer.seal(records.HANDSHAKE, b"one"), sealer.seal(records.APPLICATION_DATA, b"")
        plain = Record(records.HANDSHAKE, 0, b"abc").encode()
        self.assertEqual(list(records13.split(plain + first + second)), [plain, first, second])
        self.assertEqual((records13.is_sealed(plain), records13.is_sealed(first)), (False, True))
        self.assertEqual(records13.epoch_bits(first), 2)
        for position in range(len(first)):
            bent = bytearray(first)
            bent[position] ^= 1
            self.assertIsNone(opener.open(bytes(bent)))
        self.assertEqual(opener.open(second), (records.APPLICATION_DATA, b""))
        self.assertEqual(opener.open(first), (records.HANDSHAKE, b"one"))
        self.assertIsNone(opener.open(first))

    def test_numbers_beyond_what_a_header_shows(self):
        sealer, opener = RecordSealer(SECRET, 3), RecordOpener(SECRET)
        sealed = [sealer.seal(records.APPLICATION_DATA, b"") for _ in range(0x10002)]
        for number in (0, 0x7000, 0xF000, 0xFFFF, 0x10000, 0xFFFE, 0x10001):
            self.assertIsNotNone(opener.open(sealed[number]), number)


if __name__ == "__main__":
    unittest.main()
