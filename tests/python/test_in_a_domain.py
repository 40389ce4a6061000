"""The Python client as a member of a trust domain that lies in another one (sections 3.1, 3.2 and 15).

The domains, their RIBs and routers are those of the real binary, and so are the words that admit the client.
"""

import subprocess
import sys
import unittest
from dataclasses import replace

from network import PATIENCE_S, Place, command_environment, eventually, polled
from rhumb import groups
from rhumb.errors import Refused, SessionOver
from rhumb.identity import Identity
from rhumb.memberships import Membership
from rhumb.names import Name
from rhumb.node import Node, RibClient
from rhumb.payloads import Payload


class Domains(Place):
    """`world`, which takes anybody, and `sea` in it: a border, and a router inside, which takes members alone."""

    def __init__(self):
        super().__init__()
        try:
            self._start()
        except BaseException:
            self.end()
            raise

    def _start(self):
        self.world, self.sea = (self.keygen("domain", f"{label}.key") for label in ("world", "sea"))
        # Of strangers it keeps nothing for as long as a border is one.
        self.world_rib = self.serve(
            "world-rib", "rib", "--domain", str(self.world), "--store", "world.redb", "--admit-domain", str(self.world)
        )
        of_world = ("--rib", self.world_rib.remote, "--domain", str(self.world))
        self.world_router = self.serve("world-router", "router", *of_world)

        self.admit(self.sea, "world.key", "join,carry,publish,admit", "sea.membership")
        members = ("--admit-domain", str(self.sea), "--strangers", "refused")
        self._member("rib", "sea-rib", "publish")
        self.rib = self.serve(
            "sea-rib", "rib", "--domain", str(self.sea), "--store", "sea.redb", "--parent", self.world_rib.remote,
            *members,
        )
        border, self.inside = (self._member("router", label, "carry,publish") for label in ("border", "inside"))
        self.run("domain", "delegate", "--key", "sea.key", "--to", str(border), "--parent", str(self.world),
                 "--out", "sea.border")
        around = ("--rib", self.rib.remote, "--around", str(self.world))
        self.border = self.serve("border", "router", "--border", "sea.border", *around)
        self.router = self.serve("inside", "router", "--domain", str(self.sea), *around, *members)

    def _member(self, role, label, rights):
        name = self.keygen(role, f"{label}.key")
        self.admit(name, "sea.key", rights, f"{label}.membership")
        return name

    def admit(self, name, key, rights, out, *options):
        """The word of a key's holder for a name, in a file."""
        self.run("domain", "admit", str(name), "--key", key, "--rights", rights, "--out", out, *options)
        return Membership.load(self.path(out))

    def member(self, label, rights="join,publish"):
        """An identity of Python's that belongs to the sea."""
        plain = Identity.generate(label=label)
        membership = self.admit(plain.name, "sea.key", rights, f"{label}.membership")
        return replace(plain, membership=membership.encode())


class InADomain(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.domains = Domains()
        cls.addClassCleanup(cls.domains.end)
        cls.domains.keygen("node", "outside.key")
        outside = cls.domains.start("receive", "--key", "outside.key", "--router", cls.domains.world_router.text)
        cls.outside = Name.from_text(outside.next_object()["name"])

    def join(self, identity, router=None):
        """A Python node, on the interior router unless another is given."""
        router = router or self.domains.router
        node = Node.join(router.address, identity, router.name)
        self.addCleanup(node.close)
        return node

    def test_a_member_joins_and_is_reached_from_outside_once_it_says_so(self):
        member = self.domains.member("alice")
        with self.assertRaises((Refused, SessionOver)):
            self.join(replace(member, membership=None))
        node = self.join(member)
        stranger = self.join(Identity.generate(), self.domains.world_router)
        for known_inside_alone in (lambda: stranger.ping(node.name), lambda: node.ping(self.outside)):
            with self.assertRaisesRegex(Refused, "unreachable"):
                known_inside_alone()
        node.export(self.domains.sea)
        with polled(node):
            at = ("--router", self.domains.world_router.text)
            self.assertEqual(self.domains.start("ping", str(node.name), "--count", "3", *at).wait(), 0)
        self.assertLess(eventually(lambda: node.ping(self.outside)), PATIENCE_S)

    def test_the_command_line_shows_a_membership(self):
        member = self.domains.member("carol")
        member.save(self.domains.path("carol.key"))
        router = self.domains.router
        ping = [sys.executable, "-m", "rhumb", "ping", "--router", router.remote, "--count", "1", str(self.outside)]
        shown = [f"--{what}={self.domains.path(f'carol.{what}')}" for what in ("key", "membership")]
        output = subprocess.run(
            [*ping, *shown, f"--export={self.domains.sea}"], env=command_environment(self.domains.folder), text=True,
            check=True, timeout=PATIENCE_S, stdout=subprocess.PIPE,
        ).stdout
        self.assertIn(" ms\n", output)

    def test_each_rib_proves_its_part_of_the_way(self):
        domains, member = self.domains, self.domains.member("bob")
        node = self.join(member)
        node.export(domains.sea)
        inner = RibClient.connect(domains.rib.address, member, domains.rib.name)
        self.addCleanup(inner.close)
        self.assertEqual(inner.look_up(node.name).path, (domains.router.name,))
        outer = RibClient.connect(domains.world_rib.address, Identity.generate(), domains.world_rib.name)
        self.addCleanup(outer.close)
        seen = eventually(lambda: outer.look_up(node.name))
        self.assertEqual(seen.path[:1], (domains.sea,))
        self.assertNotIn(domains.router.name, seen.path, "the inside is nobody's outside")

    def test_members_receive_from_a_group_outside(self):
        domains = self.domains
        domains.run("domain", "create", "--out", "news.key", "--working", "desk.key")
        root, sender = (domains.keygen("node", f"{label}.key") for label in ("root", "sender"))
        domains.run("certify", "--key", "news.key", "--server", str(root), "--out", "news.adcert")
        domains.admit(root, "desk.key", "join", "root.news")
        domains.admit(sender, "desk.key", "publish", "sender.news")
        at = ("--router", domains.world_router.text)
        receiving = domains.start("group", "receive", "root.news", "--key", "root.key", "--serve", "news.adcert", *at)
        self.assertIn("receiving_from", receiving.next_object())

        # One whom the group knows, and who is known outside; and one whom the group knows as one of the sea's.
        known, hidden = self.join(domains.member("known")), self.join(domains.member("hidden", "join"))
        known.export(domains.sea)
        known.join_group(groups.RECEIVE, domains.admit(known.name, "desk.key", "join", "known.news"))
        domains.admit(domains.sea, "desk.key", "join,admit", "sea.news")
        handed_on = domains.admit(hidden.name, "sea.key", "join", "hidden.news", "--as", "sea.news")
        self.assertEqual([issuer.name() for issuer in handed_on.issuers][-1], domains.sea)
        hidden.join_group(groups.RECEIVE, handed_on)

        sent = domains.start("group", "send", "sender.news", "to all at sea", "--key", "sender.key", *at)
        self.assertEqual(sent.wait(), 0)
        for node in (known, hidden):
            pdu = node.poll(PATIENCE_S)
            self.assertEqual((pdu.source, pdu.destination), (sender, handed_on.domain))
            self.assertEqual(Payload.parse(pdu.data).body, b"to all at sea")


if __name__ == "__main__":
    unittest.main()
