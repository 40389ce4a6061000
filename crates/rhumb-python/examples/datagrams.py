"""Datagrams: prints what arrives at port 9, and says how long it was; or sends one and waits.

datagrams.py ROUTER             prints its name first
datagrams.py ROUTER NAME TEXT   sends, and prints the answer
"""

import asyncio
import sys

import rhumb


async def receive(router: str) -> None:
    async with rhumb.join(router=router) as node:
        async with node.bind(9, allow=rhumb.EVERYBODY) as port:
            print(node.name, flush=True)
            async for message in port:
                print(f"{message.sender} sends {message.data.decode()}", flush=True)
                await port.reply(message, b"%d bytes" % len(message.data))


async def send(router: str, name: str, text: str) -> None:
    async with rhumb.join(router=router) as node:
        # Answers come to this port, and nobody else's datagrams do.
        async with node.bind(allow=[name]) as port:
            await port.send(name, 9, text.encode())
            answer = await asyncio.wait_for(port.receive(), 10)
            print(f"{name} answers {answer.data.decode()}")


if __name__ == "__main__":
    asyncio.run((send if len(sys.argv) > 2 else receive)(*sys.argv[1:]))
