"""A name whose key stays at home: its owner lets a server answer for it.

capsule.py ROUTER
"""

import asyncio
import sys

import rhumb


async def greet(stream: rhumb.Stream) -> None:
    stream.write(f"{stream.local} greets you\n".encode())


async def main(router: str) -> None:
    owner = rhumb.Identity.generate("capsule")  # at home; `save` keeps it in a file
    async with rhumb.join(router=router) as server, rhumb.join(router=router) as client:
        ad_cert = rhumb.AdCert.sign(owner, server.name, seconds=3600)
        async with await server.serve_name(ad_cert):
            async with server.serve(80, greet, allow=[client.name]):
                async with await client.connect(owner.name, 80) as stream:
                    print((await stream.readline()).decode(), end="")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
