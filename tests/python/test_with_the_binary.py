"""The Python client in one network with the real RIB, routers and nodes: what honest ends do with each other."""

import os
import subprocess
import sys
import time
import unittest
from dataclasses import replace

from network import PATIENCE_S, Network, command_environment, polled
from rhumb import certificates, groups, log, pdus, sealed
from rhumb.dtls.client13 import Client13
from rhumb.errors import Refused, SessionOver
from rhumb.identity import Identity
from rhumb.memberships import Membership
from rhumb.metadata import ROLE_DOMAIN
from rhumb.names import Name
from rhumb.node import Node, RibClient
from rhumb.payloads import Payload
from rhumb.session import Session


class WithTheBinary(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.network = Network()
        cls.addClassCleanup(cls.network.end)
        cls.network.keygen("node", "rust.key")
        cls.rust = cls.network.start("receive", "--key", "rust.key", "--router", cls.network.far.text)
        cls.rust_name = Name.from_text(cls.rust.next_object()["name"])

    def join(self, router=None, **options):
        """A Python node, on the near router unless another is given."""
        router = router or self.network.near
        node = Node.join(router.address, Identity.generate(label="python"), router.name, **options)
        self.addCleanup(node.close)
        return node

    def test_joining_is_accepted_and_published(self):
        node = self.join(lease_s=300)
        self.assertTrue(node.accepted.published)
        self.assertAlmostEqual(node.accepted.until_s, time.time() + 300, delta=10)
        attached = [entry["name"] for entry in self.network.near.status()["attached"]]
        self.assertIn(str(node.name), attached)

    def test_a_closed_router_takes_the_members_of_its_domain(self):
        domain = Identity.generate(role=ROLE_DOMAIN)
        closed = self.network.serve(
            "closed", "router", "--rib", self.network.rib.remote, "--strangers", "refused",
            "--admit-domain", str(domain.name),
        )
        plain = Identity.generate()
        said = certificates.member(domain, plain.name, certificates.JOIN, 600)
        shown = Membership((domain.metadata,), (said,)).encode()
        node = Node.join(closed.address, replace(plain, membership=shown), closed.name)
        self.addCleanup(node.close)
        self.assertLess(node.ping(self.rust_name), PATIENCE_S)
        # Without it, with that of another, and with one that nobody signed, which ends the session of before, too.
        forged = Membership((domain.metadata,), (replace(said, signature=bytes(64)),)).encode()
        for identity in (
            Identity.generate(), replace(Identity.generate(), membership=shown), replace(plain, membership=forged)
        ):
            with self.assertRaises((Refused, SessionOver)):
                Node.join(closed.address, identity, closed.name)

    def test_a_group_of_python_and_rust(self):
        network, owner = self.network, Identity.generate(role=ROLE_DOMAIN)
        both = certificates.JOIN | certificates.PUBLISH
        root, python, beside = self.join(network.far), self.join(), self.join()
        root.answer_for(owner.metadata, certificates.service(owner, root.name, 600))
        with polled(root):
            python.join_group(groups.BOTH, admitted(owner, python.name, both))
            beside.join_group(groups.RECEIVE, admitted(owner, beside.name, certificates.JOIN))
            for rights in (certificates.PUBLISH, both):
                # One that does not let it receive, and that of another one.
                other = self.join()
                name = other.name if rights == certificates.PUBLISH else python.name
                with self.assertRaises(Refused):
                    other.join_group(groups.RECEIVE, admitted(owner, name, rights))
            rust, file = network.keygen("node", "in-a-group.key"), network.path("news.group")
            with open(file, "w", encoding="ascii") as written:
                said = admitted(owner, rust, both).encode().hex()
                written.write(f"rhumb-membership 1\nmember {rust}\nmembership {said}\n")
            of_rust = (file, "--key", "in-a-group.key", "--router", network.far.text, "--port", "7")
            receiving = network.start("group", "receive", *of_rust)
            self.assertIn("receiving_from", receiving.next_object())

            python.send_text(owner.name, 7, "from python")
            self.assertEqual(receive_text(python, beside), (python.name, 7, b"from python"))
            heard = receiving.next_object()
            self.assertEqual((heard["from"], heard["text"]), (str(python.name), "from python"))
            self.assertIsNone(python.poll(0.1), "nobody is sent his own")
            receiving.end()

            network.start("group", "send", file, "from rust", *of_rust[1:])
            for node in (python, beside):
                pdu = node.poll(PATIENCE_S)
                self.assertEqual((pdu.source, pdu.destination), (rust, owner.name))
                self.assertEqual(Payload.parse(pdu.data).body, b"from rust")

            beside.leave_group(owner.name)
            python.send_text(owner.name, 7, "to whom it concerned")
            self.assertIsNone(python.poll(0.2))
            self.assertIsNone(beside.poll(0.2))

    def test_a_router_takes_exports_by_its_own_domain(self):
        domain, other = (Identity.generate(role=ROLE_DOMAIN) for _ in range(2))
        inside = self.network.serve("inside", "router", "--rib", self.network.rib.remote, "--domain", str(domain.name))
        node = Node.join(inside.address, Identity.generate(), inside.name)
        self.addCleanup(node.close)
        node.export(domain.name)
        node.export(domain.name, up_to=other.name)
        with self.assertRaises(Refused):
            node.export(other.name)
        # It stays where it is, and neighbours reach it.
        neighbour = Node.join(inside.address, Identity.generate(), inside.name)
        self.addCleanup(neighbour.close)
        with polled(node):
            self.assertLess(neighbour.ping(node.name), PATIENCE_S)

    def test_a_lease_is_renewed_at_half_its_life(self):
        node = self.join(lease_s=4)
        first = node.accepted.until_s
        wait(node, lambda: node.accepted.until_s > first and node.accepted.published or None)
        self.assertLess(time.time(), first)

    def test_python_pings_rust(self):
        node = self.join()
        for _ in range(3):
            self.assertLess(node.ping(self.rust_name), PATIENCE_S)

    def test_pings_that_share_a_datagram_are_answered_each(self):
        node = self.join()
        self.assertLess(node.ping(self.rust_name), PATIENCE_S)
        tags = range(1000, 1006)
        pings = [pdus.Pdu(pdus.PING, node.name, self.rust_name, b"together", tag, 64) for tag in tags]
        node.session.send_together([ping.encode() for ping in pings])
        answered = [node.pong(PATIENCE_S) for _ in tags]
        self.assertEqual([pong.tag for pong in answered], list(tags))
        self.assertGreater(node.session.bundled, 0, "the answers came together, too")

    def test_python_pings_the_router(self):
        self.assertLess(self.join().ping(self.network.near.name), PATIENCE_S)

    def test_a_session_follows_the_client_to_another_port(self):
        node = self.join()
        before = self.network.near.status()
        for _ in range(3):
            node.session.change_port()
            # Its answer goes to where the session was; the challenge and the next answer come here.
            node.send_pdu(pdus.Pdu(pdus.PING, node.name, self.rust_name, bytes(40), 1, 64))
            moved = before["counters"]["sessions_moved"] + 1
            wait(node, lambda: self.network.near.status()["counters"]["sessions_moved"] >= moved or None)
            self.assertLess(node.ping(self.rust_name), PATIENCE_S)
            before = self.network.near.status()

    def test_rust_pings_python(self):
        node = self.join()
        with polled(node):
            ping = self.network.start("ping", str(node.name), "--count", "3", "--router", self.network.far.text)
            self.assertEqual(ping.wait(), 0)

    def test_texts_cross_two_routers_with_port_and_source(self):
        near, far = self.join(), self.join(self.network.far)
        near.send_text(far.name, 7, "good day")
        self.assertEqual(receive_text(near, far), (near.name, 7, b"good day"))
        far.send_text(near.name, 8, "likewise")
        self.assertEqual(receive_text(far, near), (far.name, 8, b"likewise"))

    def test_a_name_that_left_is_unreachable(self):
        node, gone = self.join(), self.join(self.network.far)
        with polled(gone):
            node.ping(gone.name)
        gone.leave()
        with self.assertRaisesRegex(Refused, "unreachable"):
            node.ping(gone.name)

    def test_a_name_that_never_was_is_unreachable(self):
        with self.assertRaisesRegex(Refused, "unreachable"):
            self.join().ping(Identity.generate().name)

    def test_each_router_tells_when_the_ttl_ends(self):
        node = self.join()
        node.ping(self.rust_name)
        for ttl, reporter in ((1, self.network.near.name), (2, self.network.far.name)):
            ping = pdus.Pdu(pdus.PING, node.name, self.rust_name, bytes(40), ttl, ttl)
            node.send_pdu(ping)
            nack = wait(node, lambda: node.failure(ttl))
            self.assertEqual((nack.reason, nack.reporter), (pdus.TTL_EXCEEDED, reporter))

    def test_a_trace_shows_each_right_to_carry(self):
        node = self.join()
        node.ping(self.rust_name)
        previous = node.identity.metadata
        for ttl, reporter in ((1, self.network.near.name), (2, self.network.far.name)):
            node.send_pdu(pdus.Pdu(pdus.PING, node.name, self.rust_name, bytes(1000), ttl, ttl))
            nack = wait(node, lambda: node.failure(ttl))
            self.assertEqual((nack.reason, nack.reporter), (pdus.TTL_EXCEEDED, reporter))
            (right,) = node.evidence[ttl]
            self.assertEqual((right.type, right.subject), (certificates.ROUTE, reporter))
            right.verify(previous)
            previous = nack.metadata

    def test_labels_that_the_router_gives(self):
        node = self.join()
        flow = (node.name, self.rust_name)
        node.ping(self.rust_name)
        wait(node, lambda: node.labels.received.get(flow))
        # Until the way was known, it may have been told to wait.
        node.nacks.clear()
        node.ping(self.rust_name)
        self.assertEqual(node.nacks, [])
        # One that it never gave: it says so, and the ping goes again with its names.
        wrong = node.labels.received[flow] ^ 0x5555
        node.labels.received[flow] = wrong
        node.ping(self.rust_name)
        self.assertNotEqual(node.labels.received.get(flow), wrong)

    def test_labels_that_python_gives(self):
        node = self.join()
        ping = self.network.start("ping", str(node.name), "--count", "100", "--router", self.network.far.text)
        wait(node, lambda: node.labelled_count > 3 or None)
        # Whoever still uses them is told, goes back to names, and gets new ones.
        node.labels.forget_given()
        node.labelled_count = 0
        wait(node, lambda: node.labelled_count > 3 or None)
        with polled(node):
            self.assertEqual(ping.wait(), 0)

    def test_python_answers_for_a_name_whose_key_it_does_not_hold(self):
        node, owner = self.join(), Identity.generate()
        service = certificates.service(owner, node.name, 600)
        node.answer_for(owner.metadata, service)
        rib = RibClient.connect(self.network.rib.address, node.identity, self.network.rib.name)
        self.addCleanup(rib.close)
        self.assertEqual(rib.look_up(owner.name).path, (node.name, self.network.near.name))
        with polled(node):
            ping = self.network.start("ping", str(owner.name), "--count", "1", "--router", self.network.far.text)
            self.assertEqual(ping.wait(), 0)

    def test_the_rib_proves_what_it_answers(self):
        node = self.join()
        rib = RibClient.connect(self.network.rib.address, node.identity, self.network.rib.name)
        self.addCleanup(rib.close)
        chain = rib.look_up(node.name)
        self.assertEqual((chain.path, chain.address), ((self.network.near.name,), self.network.near.address))
        self.assertEqual(rib.look_up(self.rust_name).path, (self.network.far.name,))
        self.assertEqual(rib.look_up_metadata(node.name), node.identity.metadata)
        self.assertIsNone(rib.look_up(Identity.generate().name))

    def test_the_log_of_the_rib_says_what_it_answers(self):
        node = self.join()
        rib = RibClient.connect(self.network.rib.address, node.identity, self.network.rib.name)
        self.addCleanup(rib.close)
        (answered,) = rib.look_up_own(node.name)
        first, held = self.proven(rib, node.name)
        self.assertIn(log.fingerprint(answered), held)
        self.assertEqual(self.proven(rib, Identity.generate().name)[1], ())
        later, heads = self.join(), [first]
        while len(heads) < 3:
            head, held = self.proven(rib, later.name)
            self.assertGreaterEqual(head.epoch, heads[-1].epoch)
            if head.epoch > heads[-1].epoch:
                heads.append(head)
                later = self.join()
        self.assertTrue(rib.is_before(heads[0], heads[1]))
        self.assertTrue(rib.is_before(heads[0], heads[2]))
        self.assertTrue(rib.is_before(heads[1], heads[2]))
        with self.assertRaises(Refused):
            rib.is_before(heads[0], replace(heads[2], began_ms=heads[2].began_ms + 1))

    def proven(self, rib, name):
        """What the log says, once that waits for no other head."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            head, held = rib.prove(name)
            if held is not None:
                return head, held
            time.sleep(0.1)
        raise AssertionError("the next head is never made")

    def test_epochs_that_were_skipped(self):
        node = self.join()
        for _ in range(sealed.EPOCHS_AHEAD):
            node.session.sealer.next_epoch()
        node.ping(self.rust_name)

    def test_dtls_1_3_in_an_initial(self):
        node = self.join(is_native=True)
        node.ping(self.rust_name)

    def test_dtls_1_3_with_the_cookie_of_dtls(self):
        identity = Identity.generate()
        client = Client13(identity.key, identity.x509())
        node = Node(Session.connect(self.network.near.address, identity, client=client), identity)
        self.addCleanup(node.close)
        node.advertise()
        node.ping(self.rust_name)

    def test_the_command_line(self):
        self.assertIn(" ms\n", self.run_command("ping", str(self.rust_name), "--count", "1"))
        receiver = subprocess.Popen(
            self.command("receive-text", "--count", "1", "--port", "9"), env=command_environment(self.network.folder),
            text=True, stdout=subprocess.PIPE,
        )
        self.addCleanup(receiver.stdout.close)
        self.addCleanup(receiver.wait)
        self.addCleanup(receiver.kill)
        name = receiver.stdout.readline().strip()
        self.run_command("send-text", "--to", name, "--port", "9", "good day")
        self.assertIn("'good day'", receiver.stdout.readline())
        self.assertEqual(receiver.wait(PATIENCE_S), 0)

    def command(self, command, *arguments):
        return [sys.executable, "-m", "rhumb", command, "--router", self.network.near.text, *arguments]

    def run_command(self, *arguments):
        return subprocess.run(
            self.command(*arguments), env=command_environment(self.network.folder), text=True, check=True,
            timeout=PATIENCE_S, stdout=subprocess.PIPE,
        ).stdout


def admitted(owner, name, rights):
    """The word of a group's owner for one of its members."""
    said = certificates.member(owner, name, rights, 600)
    return Membership((owner.metadata,), (said,))


def receive_text(sender, receiver):
    """What arrives, while the sender resends what it is asked to."""
    pdu = wait(sender, lambda: receiver.poll(0.02))
    payload = Payload.parse(pdu.data)
    return pdu.source, payload.port, payload.body


def wait(node, happened):
    """What ``happened`` returns, once it is something. The node lives meanwhile."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        result = happened()
        if result is not None:
            return result
        node.poll(0.02)
    raise AssertionError("it did not happen in time")


if __name__ == "__main__":
    unittest.main()
