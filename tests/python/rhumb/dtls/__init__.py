"""A DTLS 1.2 client (RFC 6347), as much of it as section 4.3 needs.

* ``keys``      the PRF, the master secret and what is derived from it (RFC 5246, RFC 7627, RFC 5705)
* ``records``   records, and AES-GCM in them (RFC 6347 section 4.1, RFC 5288)
* ``fragments`` handshake messages in pieces (RFC 6347 section 4.2)
* ``messages``  the handshake messages themselves (RFC 5246, RFC 8422, RFC 5764)
* ``client``    the handshake, without I/O: datagrams go in and come out, and somebody else keeps the clock
"""
