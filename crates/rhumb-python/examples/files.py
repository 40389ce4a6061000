"""Receives files into a folder; or sends one.

files.py ROUTER FOLDER       prints its name, and each file that came
files.py ROUTER FILE NAME    sends it
"""

import asyncio
import sys

import rhumb


async def receive(router: str, folder: str) -> None:
    async with rhumb.join(router=router) as node:
        print(node.name, flush=True)
        while True:
            received = await node.receive_file(folder, allow=rhumb.EVERYBODY)
            print(f"{received.path.name} has {received.size} bytes", flush=True)


async def send(router: str, path: str, name: str) -> None:
    async with rhumb.join(router=router) as node:
        sent = await node.send_file(name, path)
        print(f"{sent} bytes are there")


if __name__ == "__main__":
    asyncio.run((send if len(sys.argv) > 3 else receive)(*sys.argv[1:]))
