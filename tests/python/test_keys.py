"""Key schedules, sealed datagrams and the replay window, against numbers from elsewhere and by hand."""

import hmac
import unittest

from rhumb import sealed
from rhumb.dtls import keys12
from rhumb.replay import WINDOW_LENGTH, ReplayWindow

EXPORTED = bytes(range(88))


def hkdf_expand(secret, info):
    """HKDF-Expand for up to 32 bytes, written down once more from RFC 5869."""
    return hmac.digest(secret, info + b"\1", "sha256")


class Prf(unittest.TestCase):
    def test_the_known_answer_for_sha_256(self):
        # From the TLS working group's list of test vectors for the PRF of TLS 1.2.
        output = keys12.ECDHE_ECDSA_WITH_AES_128_GCM_SHA256.prf(
            bytes.fromhex("9bbe436ba940f017b17652849a71db35"),
            b"test label",
            bytes.fromhex("a0ba9f936cda311827a6f796ffd5198c"),
            100,
        )
        self.assertEqual(output.hex(), (
            "e3f229ba727be17b8d122620557cd453c2aab21d07c3d495329b52d4e61edb5a6b301791e90d35c9c9a46b4e14baf9af"
            "0fa022f7077def17abfd3797c0564bab4fbc91666e9def9b97fce34f796789baa48082d122ee42c5a72e5a5110fff701"
            "87347b66"
        ))


class KeySchedule(unittest.TestCase):
    def test_every_step_is_the_one_of_section_4_2(self):
        from_client, from_server = sealed.roots(EXPORTED)
        self.assertEqual(from_client, hmac.digest(b"rhumb/1 root", EXPORTED[:32] + EXPORTED[64:76], "sha256"))
        self.assertEqual(from_server, hmac.digest(b"rhumb/1 root", EXPORTED[32:64] + EXPORTED[76:], "sha256"))
        first = sealed.EpochSecret.first(from_client)
        self.assertEqual(first.secret, hkdf_expand(from_client, b"rhumb/1 lane\0\0"))
        second = first.next()
        self.assertEqual((second.epoch, second.secret), (1, hkdf_expand(first.secret, b"rhumb/1 next")))

    def test_a_keep_alive_has_one_encoding(self):
        from_client, _ = sealed.roots(EXPORTED)
        sealer = sealed.Sealer(from_client, 0x123456)
        first = sealer.seal(sealed.TYPE_PDU, b"", 0.0)
        second = sealer.seal(sealed.TYPE_CLOSE, b"", 0.0)
        self.assertEqual(first.hex(), "801234560000000000000000" + FIRST_TAG)
        self.assertEqual(second.hex(), "b01234560000000000000001" + SECOND_TAG)


class Epochs(unittest.TestCase):
    def setUp(self):
        root, _ = sealed.roots(EXPORTED)
        self.sealer = sealed.Sealer(root, 7)
        self.opener = sealed.Opener(root, 7)

    def seal(self, seconds):
        return self.sealer.seal(sealed.TYPE_PDU, b"text", seconds)

    def epoch(self, datagram):
        return sealed.read_header(datagram)[2]

    def test_an_epoch_ends_after_its_time(self):
        self.assertEqual(self.epoch(self.seal(10)), 0)
        self.assertEqual(self.epoch(self.seal(129.9)), 0)
        moved = self.seal(130)
        self.assertEqual(self.epoch(moved), 1)
        self.assertEqual(self.opener.open(moved), (sealed.TYPE_PDU, b"text"))

    def test_four_epochs_ahead_open_and_five_do_not(self):
        ahead = [self.seal(120 * epoch) for epoch in range(6)]
        self.assertIsNone(self.opener.open(ahead[5]))
        self.assertIsNotNone(self.opener.open(ahead[4]))
        self.assertIsNotNone(self.opener.open(ahead[5]))

    def test_the_epoch_before_still_opens_and_older_ones_do_not(self):
        datagrams = [self.seal(120 * epoch) for epoch in range(4)]
        self.assertIsNotNone(self.opener.open(datagrams[3]))
        self.assertIsNotNone(self.opener.open(datagrams[2]))
        self.assertIsNone(self.opener.open(datagrams[1]))

    def test_a_forged_epoch_moves_nothing(self):
        datagram = self.seal(0)
        forged = datagram[:4] + b"\0\3" + datagram[6:]
        self.assertIsNone(self.opener.open(forged))
        self.assertIsNotNone(self.opener.open(datagram))

    def test_a_datagram_opens_once_and_only_whole(self):
        datagram = self.seal(0)
        for position in range(len(datagram)):
            bent = bytearray(datagram)
            bent[position] ^= 1
            self.assertIsNone(self.opener.open(bytes(bent)))
            self.assertIsNone(self.opener.open(datagram[:position]))
        self.assertIsNotNone(self.opener.open(datagram))
        self.assertIsNone(self.opener.open(datagram))


class Replay(unittest.TestCase):
    def test_the_window_from_both_sides(self):
        window = ReplayWindow()
        window.record(WINDOW_LENGTH)
        self.assertFalse(window.is_new(0))
        self.assertTrue(window.is_new(1))
        window.record(1)
        self.assertFalse(window.is_new(1))
        self.assertTrue(window.is_new(2))
        window.record(10 * WINDOW_LENGTH)
        self.assertFalse(window.is_new(10 * WINDOW_LENGTH))
        self.assertFalse(window.is_new(9 * WINDOW_LENGTH))
        self.assertTrue(window.is_new(9 * WINDOW_LENGTH + 1))


FIRST_TAG = "2bf325fce5414239156b7dc1f1963fcd"
SECOND_TAG = "e5d8cdcc695b3bf4bf534fe6a5e92e67"

if __name__ == "__main__":
    unittest.main()
