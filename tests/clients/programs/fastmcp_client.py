"""FastMCP's client asks the server at SHARED_URL who it is."""

import asyncio
import os

from fastmcp import Client


async def main() -> None:
    """Print what status tells."""
    async with Client(os.environ["SHARED_URL"], auth=os.environ["COMMONBRAIN_KEY"]) as client:
        print((await client.call_tool("status", {})).content[0].text)


asyncio.run(main())
