"""DTLS clients, as much of them as section 4.3 needs.

* ``fragments`` handshake messages in pieces (RFC 6347 section 4.2, RFC 9147 section 5.5)
* ``flights``   records that are sent together
* ``client``    what clients of both versions begin with

DTLS 1.2 (RFC 6347), which any stack speaks, and in which an observer learns the names of both ends:

* ``keys12``     the PRF, the master secret and what is derived from it (RFC 5246, RFC 7627, RFC 5705)
* ``records``    records, and AES-GCM in them (RFC 6347 section 4.1, RFC 5288)
* ``messages12`` the handshake messages (RFC 5246, RFC 8422, RFC 5764)
* ``client12``   the handshake

DTLS 1.3 (RFC 9147), which hides them, and which an *initial* must hold:

* ``keys13``, ``records13``, ``messages13``, ``client13``

The clients do no I/O: datagrams go in and come out, and somebody else keeps the clock.
"""
