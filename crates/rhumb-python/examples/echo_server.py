"""Gives back what is written to port 7, line by line, to whoever asks.

echo_server.py ROUTER [KEY]
"""

import asyncio
import sys
from typing import Optional

import rhumb


async def echo(stream: rhumb.Stream) -> None:
    async for line in stream:
        stream.write(line)
        await stream.drain()


async def main(router: str, key: Optional[str] = None) -> None:
    async with rhumb.join(router=router, key=key) as node:
        async with node.serve(7, echo, allow=rhumb.EVERYBODY) as server:
            print(node.name, flush=True)
            await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
