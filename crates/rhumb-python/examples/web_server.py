"""A page over HTTP, at port 80 of a name. A browser opens it by the proxy that `rhumb up` has, or
`rhumb proxy`: http://NAME.rhumb.internal/

web_server.py ROUTER [KEY]
"""

import asyncio
import sys
from typing import Optional

import rhumb


async def answer(stream: rhumb.Stream) -> None:
    request = await stream.readline()
    while (await stream.readline()).strip():
        pass  # what else the browser says
    page = f"<p>You are {stream.peer}, and asked for {request.split()[1].decode()}.</p>\n".encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(page)}\r\n"
    stream.write(head.encode() + b"Connection: close\r\n\r\n" + page)


async def main(router: str, key: Optional[str] = None) -> None:
    async with rhumb.join(router=router, key=key) as node:
        async with node.serve(80, answer, allow=rhumb.EVERYBODY) as server:
            print(node.name, flush=True)
            await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
