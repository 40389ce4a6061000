"""An independent client of the Rhumb protocol, written from docs/spec.md and the RFCs that it names.

It shares no code with the Rust implementation, so that the two find each other's mistakes and the mistakes of the
specification. It is meant to be read: modules are small, do one thing, and name the section they implement.

From the bottom up:

* ``errors``, ``reader``   what can go wrong; strict reading of bytes
* ``names``, ``metadata``  section 1
* ``certificates``         section 2
* ``chains``               section 3
* ``sealed``, ``replay``   sections 4.1 and 4.2: sealed datagrams and their keys
* ``datagrams``            sections 4.3 and 10: initial, retry, discovery
* ``identity``             section 4.3: how a name is shown in the handshake
* ``dtls``                 section 4.3: the handshake, as DTLS 1.2 (RFC 6347) or 1.3 (RFC 9147)
* ``session``              sections 4.3 and 4.4: one secure session over a UDP socket
* ``pdus``                 sections 5 to 7: PDUs, NACKs, Accepts
* ``rib``                  section 8
* ``payloads``             section 9
* ``labels``               section 6: labels in place of names
* ``node``                 section 6: join a router, send, receive, ping
* ``transfers``            files: how their streams begin

It needs Python 3.9 or later and the package ``cryptography``. Keys live in ordinary Python objects, which cannot be
wiped; an implementation for daily use must do better.
"""
