"""An agent of Pydantic AI, whose model calls one tool, asks the server at SHARED_URL who it is."""

import asyncio
import os

from fastmcp.client.transports import StreamableHttpTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.test import TestModel


async def main() -> None:
    """Print what the model was shown."""
    headers = {"Authorization": f"Bearer {os.environ['COMMONBRAIN_KEY']}"}
    transport = StreamableHttpTransport(os.environ["SHARED_URL"], headers=headers)
    agent = Agent(TestModel(call_tools=["status"]), toolsets=[MCPToolset(transport)])
    print((await agent.run("Who am I?")).output)


asyncio.run(main())
