"""The vectors of docs/vectors/platypus: what the Rust crates stamp and seal, computed again from the documents alone."""

import ipaddress
import json
import unittest
from pathlib import Path

from rhumb import pdus, platypus
from rhumb.names import Name

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "vectors" / "platypus"
MAKERS = {"packets.json": ("stamped packet", platypus.stamp), "records.json": ("key record", platypus.seal_record)}


class Platypus(unittest.TestCase):
    maxDiff = None

    def test_every_vector_is_made_alike(self):
        for file, (form, make) in MAKERS.items():
            vectors = json.loads((FOLDER / file).read_text(encoding="utf-8"))
            self.assertEqual({vector["form"] for vector in vectors}, {form})
            for vector in vectors:
                with self.subTest(vector["name"]):
                    self.assertEqual(make(vector["fields"]).hex(), vector["hex"])

    def test_stamped_pdus_speak_of_the_pdu_that_follows(self):
        vectors = json.loads((FOLDER / "pdus.json").read_text(encoding="utf-8"))
        self.assertEqual({vector["form"] for vector in vectors}, {"stamped PDU"})
        for vector in vectors:
            with self.subTest(vector["name"]):
                fields = vector["fields"]
                self.assertEqual(platypus.stamp(fields).hex(), vector["hex"])
                names = {who: Name.from_text(text) for who, text in fields["names"].items()}
                half = {who: str(ipaddress.IPv6Address(name.octets[:16])) for who, name in names.items()}
                self.assertEqual((fields["source"], fields["destination"]), (half["source"], half["destination"]))
                self.assertEqual([one["waypoint"] for one in fields["capabilities"]], [half["router"]])
                self.assertEqual(fields["protocol"], 254)
                payload = bytes.fromhex(fields["payload"])
                if payload[4] & 2:
                    pdus.LabelledPdu.parse(payload)
                else:
                    pdu = pdus.Pdu.parse(payload)
                    self.assertEqual((pdu.source, pdu.destination), (names["source"], names["destination"]))

    def test_the_primitives_are_those_of_their_papers(self):
        key = bytes(range(16))
        self.assertEqual(
            platypus.siphash_2_4_128(key, b"").hex(), "a3817f04ba25a8e66df67214c7550293"
        )
        # RFC 8452, appendix A.
        h = bytes.fromhex("25629347589242761d31f826ba4b757b")
        x = bytes.fromhex("4f4f95668c83dfb6401762bb2d01a262d1a24ddd2721d006bbe45f20d3c9f362")
        self.assertEqual(platypus.polyval(h, x).hex(), "f7a3b47b846119fae5b7866cf5e5b77e")
        # FIPS 197, appendix C.1.
        block = bytes.fromhex("00112233445566778899aabbccddeeff")
        self.assertEqual(platypus.aes(key, block).hex(), "69c4e0d86a7b0430d8cdb78070b4c55a")


if __name__ == "__main__":
    unittest.main()
