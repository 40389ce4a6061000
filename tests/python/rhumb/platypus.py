"""Platypus, from docs/platypus.md and docs/keyserver.md alone: keys, bindings, stamped packets, key records. The model that the Rust crate is held to.

Run as a program with a seed, it prints stamped packets as JSON, for the Rust verifier to take:
`python3 -m rhumb.platypus SEED COUNT NOW_US WINDOW`.
"""

import base64
import hashlib
import ipaddress
import json
import random
import sys

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV

HEADER_AES, HEADER_SIP, PACKET_POLYVAL = 1, 2, 3
CAVEAT_CHAIN, BIT_CHAIN, XOR = 1, 2, 3
WHOLE_PACKET = 4
MASK64 = (1 << 64) - 1


def xor(left, right):
    return bytes(a ^ b for a, b in zip(left, right))


def padded(octets):
    return octets + bytes(-len(octets) % 16)


def aes(key, block):
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return encryptor.update(block) + encryptor.finalize()


def cbc_mac(key, message):
    state = bytes(16)
    message = padded(message)
    for at in range(0, len(message), 16):
        state = aes(key, xor(state, message[at : at + 16]))
    return state


def siphash_2_4_128(key, message):
    """Aumasson and Bernstein, with the output of 128 bits of their reference code."""

    def rotate(x, bits):
        return (x << bits | x >> (64 - bits)) & MASK64

    def rounds(count):
        nonlocal v0, v1, v2, v3
        for _ in range(count):
            v0 = (v0 + v1) & MASK64
            v1 = rotate(v1, 13) ^ v0
            v0 = rotate(v0, 32)
            v2 = (v2 + v3) & MASK64
            v3 = rotate(v3, 16) ^ v2
            v0 = (v0 + v3) & MASK64
            v3 = rotate(v3, 21) ^ v0
            v2 = (v2 + v1) & MASK64
            v1 = rotate(v1, 17) ^ v2
            v2 = rotate(v2, 32)

    k0, k1 = (int.from_bytes(key[at : at + 8], "little") for at in (0, 8))
    v0, v1 = k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D ^ 0xEE
    v2, v3 = k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573
    whole = len(message) // 8 * 8
    words = [int.from_bytes(message[at : at + 8], "little") for at in range(0, whole, 8)]
    words.append(int.from_bytes(message[whole:], "little") | (len(message) & 0xFF) << 56)
    for word in words:
        v3 ^= word
        rounds(2)
        v0 ^= word
    v2 ^= 0xEE
    rounds(4)
    first = v0 ^ v1 ^ v2 ^ v3
    v1 ^= 0xDD
    rounds(4)
    return first.to_bytes(8, "little") + (v0 ^ v1 ^ v2 ^ v3).to_bytes(8, "little")


def polyval(key, message):
    """RFC 8452, section 3: dot(a, b) = a * b * x^-128 in the field of x^128 + x^127 + x^126 + x^121 + 1."""
    modulus = 1 << 128 | 1 << 127 | 1 << 126 | 1 << 121 | 1
    h = int.from_bytes(key, "little")
    state = 0
    for at in range(0, len(message), 16):
        state ^= int.from_bytes(message[at : at + 16], "little")
        product = 0
        for bit in range(128):
            if h >> bit & 1:
                product ^= state << bit
        for _ in range(128):
            if product & 1:
                product ^= modulus
            product >>= 1
        state = product
    return state.to_bytes(16, "little")


def prf(suite, key, octets):
    octets = bytes([len(octets)]) + octets
    return siphash_2_4_128(key, octets) if suite == HEADER_SIP else cbc_mac(key, octets)


def short_hash(octets):
    return hashlib.sha256(octets).digest()[:16]


class Delegation:
    def __init__(self, prefix, identifier):
        self.network = ipaddress.ip_network(prefix)
        self.identifier = identifier.to_bytes(3, "big")

    def encode(self):
        return self.network.network_address.packed + bytes([self.network.prefixlen]) + self.identifier

    def bits(self):
        number = int.from_bytes(self.network.network_address.packed, "big")
        width = self.network.max_prefixlen
        return [number >> (width - at) & 1 for at in range(1, self.network.prefixlen + 1)]


class Capability:
    """What fields of a vector say, with what follows from them."""

    def __init__(self, fields, suite):
        self.suite = suite
        self.waypoint = ipaddress.ip_address(fields["waypoint"])
        self.principal = fields["principal"].to_bytes(4, "big")
        self.window = fields["window"]
        self.epoch = fields["epoch"]
        self.scheme = fields["scheme"]
        self.delegations = [Delegation(*delegation) for delegation in fields["delegations"]]
        self.master = bytes.fromhex(fields["master"])

    def encode(self, binding=bytes(8)):
        start = self.waypoint.packed + self.principal + bytes([self.window & 0xFF, self.epoch])
        start += bytes([self.scheme << 4 | len(self.delegations), 0])
        return start + b"".join(delegation.encode() for delegation in self.delegations) + binding

    def secret(self):
        k = prf(self.suite, self.master, b"K" + bytes([self.suite, self.epoch]))
        window = self.window.to_bytes(4, "big")
        return prf(
            self.suite, k, b"S" + bytes([self.scheme, 0]) + self.waypoint.packed + self.principal + window
        )

    def binding_key(self):
        secret = self.secret()
        if self.scheme == CAVEAT_CHAIN:
            for level, delegation in enumerate(self.delegations, 1):
                secret = prf(self.suite, secret, b"D" + bytes([level]) + delegation.encode())
            return prf(self.suite, secret, b"M")
        if not self.delegations:
            return secret
        (delegation,) = self.delegations
        if self.scheme == BIT_CHAIN:
            state = xor(secret, short_hash(delegation.identifier))
            for bit in delegation.bits():
                state = prf(self.suite, state, bytes([bit]))
            return state
        state, key = secret, xor(short_hash(secret), short_hash(delegation.identifier))
        for number, bit in enumerate(delegation.bits(), 1):
            key = xor(key, prf(self.suite, state, bytes([bit, number])))
            state = prf(self.suite, state, bytes([number]))
        return key

    def binding(self, index, masked, payload):
        message = len(masked).to_bytes(2, "big") + bytes([index]) + b"B" + masked
        key = self.binding_key()
        if self.suite == HEADER_AES:
            return cbc_mac(key, message)[:8]
        if self.suite == HEADER_SIP:
            return siphash_2_4_128(key, message)[:8]
        lengths = b"".join((8 * len(part)).to_bytes(8, "big") for part in (message, payload))
        hashed = polyval(prf(self.suite, key, b"H"), padded(message) + padded(payload) + lengths)
        return aes(key, hashed)[:8]


def stamp(fields):
    """The Platypus header and the payload."""
    suite = fields["suite"]
    source, destination = (ipaddress.ip_address(fields[which]) for which in ("source", "destination"))
    capabilities = [Capability(each, suite) for each in fields["capabilities"]]
    payload = bytes.fromhex(fields["payload"])
    flags = (1 if source.version == 6 else 0) | (2 if fields["do_not_fragment"] else 0)

    def header(bindings):
        carried = b"".join(c.encode(binding) for c, binding in zip(capabilities, bindings))
        fixed_len = 16 + 2 * len(source.packed)
        fixed = bytes([1 << 4 | flags, suite, len(capabilities), 0]) + source.packed + destination.packed
        fixed += bytes([fields["protocol"], (fixed_len + len(carried)) // 4])
        fixed += len(payload).to_bytes(2, "big") + bytes.fromhex(fields["id"])
        assert len(fixed) == fixed_len
        return fixed + carried

    masked = header([bytes(8)] * len(capabilities))
    return header([c.binding(index, masked, payload) for index, c in enumerate(capabilities)]) + payload


# The standard library has this alphabet from Python 3.10 on.
EXTENDED_HEX = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", "0123456789abcdefghijklmnopqrstuv")


def seal_record(fields):
    """What answers the question for a key, sealed for its principal: docs/keyserver.md, "A key"."""
    capability = Capability(fields, fields["suite"])
    question = capability.waypoint.packed + capability.principal + b"\x00" + capability.window.to_bytes(4, "big")
    label = base64.b32encode(question).decode().rstrip("=").translate(EXTENDED_HEX)
    name = f"{label}.{fields['zone']}"
    assert name == fields["query name"], name
    record = bytes([1 << 4 | capability.suite, capability.scheme, capability.epoch])
    record += fields["not_after"].to_bytes(4, "big") + capability.secret()
    return AESGCMSIV(bytes.fromhex(fields["key"])).encrypt(bytes(12), record, name.encode())


def random_fields(rng, now_us, window):
    """Any packet that a waypoint with the masters below takes."""
    is_v6 = rng.random() < 0.5
    suite = rng.choice((HEADER_AES, HEADER_SIP, PACKET_POLYVAL))
    address = (lambda n: str(ipaddress.IPv6Address(0x20010DB8 << 96 | n))) if is_v6 else (
        lambda n: str(ipaddress.IPv4Address(10 << 24 | n))
    )
    destination = address(rng.getrandbits(24))
    capabilities = []
    for number in range(rng.randint(1, 4)):
        scheme = CAVEAT_CHAIN if is_v6 else rng.choice((CAVEAT_CHAIN, CAVEAT_CHAIN, BIT_CHAIN, XOR))
        levels = rng.randint(0, 3 if scheme == CAVEAT_CHAIN else 1)
        lengths = sorted(rng.randint(0, 31 if not is_v6 else 128) for _ in range(levels))
        prefixes = [str(ipaddress.ip_network(f"{destination}/{len}", strict=False)) for len in lengths]
        capabilities.append({
            "waypoint": address(1 << 24 | number),
            "principal": rng.getrandbits(32),
            "window": window,
            "epoch": number,
            "scheme": scheme,
            "delegations": [[prefix, rng.getrandbits(24)] for prefix in prefixes],
            "master": rng.randbytes(16).hex(),
        })
    return {
        "suite": suite,
        "source": address(rng.getrandbits(24)),
        "destination": destination,
        "protocol": rng.choice((6, 17, 58, 253)),
        "do_not_fragment": not is_v6 and rng.random() < 0.5,
        "id": ((now_us % (1 << 44)) << 20 | rng.getrandbits(20)).to_bytes(8, "big").hex(),
        "payload": rng.randbytes(rng.choice((0, 1, 15, 16, 17, 100))).hex(),
        "capabilities": capabilities,
    }


def main():
    rng, count = random.Random(int(sys.argv[1])), int(sys.argv[2])
    now_us, window = int(sys.argv[3]), int(sys.argv[4])
    packets = []
    for _ in range(count):
        fields = random_fields(rng, now_us, window)
        packets.append({"fields": fields, "hex": stamp(fields).hex()})
    json.dump(packets, sys.stdout)


if __name__ == "__main__":
    main()
