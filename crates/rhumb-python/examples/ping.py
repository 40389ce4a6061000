"""The round trip to a name, a few times.

ping.py ROUTER NAME
"""

import asyncio
import sys

import rhumb


async def main(router: str, name: str) -> None:
    async with rhumb.join(router=router) as node:
        await node.ping(name)  # finds the way
        for _ in range(3):
            print(f"{name} answers after {await node.ping(name) * 1000:.3f} ms")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
