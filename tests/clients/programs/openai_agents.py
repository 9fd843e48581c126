"""OpenAI's Agents SDK asks the server at SHARED_URL who it is."""

import asyncio
import os

from agents.mcp import MCPServerStreamableHttp


async def main() -> None:
    """Print what status tells."""
    headers = {"Authorization": f"Bearer {os.environ['COMMONBRAIN_KEY']}"}
    parameters = {"url": os.environ["SHARED_URL"], "headers": headers}
    async with MCPServerStreamableHttp(params=parameters) as server:
        print((await server.call_tool("status", {})).content[0].text)


asyncio.run(main())
