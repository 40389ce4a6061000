"""Fetches a page from port 80 of a name.

web_client.py ROUTER NAME [PATH]
"""

import asyncio
import sys

import rhumb


async def main(router: str, name: str, path: str = "/") -> None:
    async with rhumb.join(router=router) as node:
        async with await node.connect(name, 80) as stream:
            stream.write(f"GET {path} HTTP/1.1\r\nHost: {name}.rhumb.internal\r\n\r\n".encode())
            head = await stream.readuntil(b"\r\n\r\n")
            print(head.split(b"\r\n")[0].decode())
            print((await stream.read()).decode(), end="")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
