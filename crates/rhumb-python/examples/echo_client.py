"""Writes lines to port 7 of a name, and prints what comes back.

echo_client.py ROUTER NAME LINE..
"""

import asyncio
import sys

import rhumb


async def main(router: str, name: str, *lines: str) -> None:
    async with rhumb.join(router=router) as node:
        async with await node.connect(name, 7) as stream:
            for line in lines:
                stream.write(line.encode() + b"\n")
                print((await stream.readline()).decode().rstrip())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
