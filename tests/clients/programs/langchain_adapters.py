"""LangChain's adapters, on the first version of the SDK, ask the server who they are."""

import asyncio
import os

from langchain_mcp_adapters.client import MultiServerMCPClient


async def main() -> None:
    """Print what status tells."""
    server = {
        "transport": "streamable_http",
        "url": os.environ["SHARED_URL"],
        "headers": {"Authorization": f"Bearer {os.environ['COMMONBRAIN_KEY']}"},
    }
    tools = await MultiServerMCPClient({"commonbrain": server}).get_tools()
    [status] = [tool for tool in tools if tool.name == "status"]
    print(await status.ainvoke({}))


asyncio.run(main())
