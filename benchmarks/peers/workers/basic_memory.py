"""basic-memory's MCP server, called by a client in the same process."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from benchmarks.peers.workers.protocol import make_sqlite_loadable, serve

make_sqlite_loadable()

from benchmarks.peers.workers.embedding import DIMENSIONS, vector, vectors  # noqa: E402 see above


class _Provider:
    model_name = "minilm"
    dimensions = DIMENSIONS

    async def embed_query(self, text: str) -> list[float]:
        """Embed a question."""
        return vector(text)

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed parts of notes."""
        return vectors(texts)

    def runtime_log_attrs(self) -> dict[str, Any]:
        """Return nothing for its log."""
        return {}


class Notes:
    """A folder of notes, the server that indexes it, and the event loop of both."""

    def __init__(self, folder: Path) -> None:
        os.environ |= {
            "BASIC_MEMORY_CONFIG_DIR": str(folder / "config"),
            "BASIC_MEMORY_HOME": str(folder / "notes"),
            "BASIC_MEMORY_AUTO_UPDATE": "false",
            # The default, 0.55, belongs to its own model: MiniLM's cosines of questions and their
            # answers are lower.
            "BASIC_MEMORY_SEMANTIC_MIN_SIMILARITY": "0",
        }
        self._loop = asyncio.new_event_loop()
        self._opened = AsyncExitStack()
        self._loop.run_until_complete(self._open())

    async def _open(self) -> None:
        # They read the settings above when they are imported.
        from basic_memory.config import ConfigManager, init_mcp_logging  # noqa: PLC0415 see above
        from basic_memory.index.local_schedulers import drain_background_tasks  # noqa: PLC0415
        from basic_memory.index.note_content_materialization import (  # noqa: PLC0415
            drain_pending_materializations,
        )
        from basic_memory.mcp import tools  # noqa: F401, PLC0415 registers the tools
        from basic_memory.mcp.server import mcp  # noqa: PLC0415
        from basic_memory.repository import embedding_provider_factory as factory  # noqa: PLC0415
        from fastmcp import Client  # noqa: PLC0415

        # As its server starts; without it, it logs every step to stderr.
        init_mcp_logging()
        cache: Any = factory._EMBEDDING_PROVIDER_CACHE  # noqa: SLF001 it has no other seam
        cache[factory._provider_cache_key(ConfigManager().config)] = _Provider()  # noqa: SLF001 same
        self._drains = drain_pending_materializations, drain_background_tasks
        self._client = await self._opened.enter_async_context(Client(mcp))

    def write(self, reference: str, text: str) -> bool:
        """Write a note, and wait until its file is written and its vectors are stored."""
        return self._loop.run_until_complete(self._write(reference, text))

    async def _write(self, reference: str, text: str) -> bool:
        given = {"title": reference, "content": text, "directory": "notes"}
        written = await self._client.call_tool("write_note", {**given, "output_format": "json"})
        for drain in self._drains:
            await drain()
        return not written.is_error

    def search(self, question: str, limit: int) -> list[str]:
        """Search by words and meaning, the default."""
        query = {"query": question, "page_size": limit, "output_format": "json"}
        results = self._loop.run_until_complete(self._client.call_tool("search_notes", query))
        return [result["title"] for result in results.data["results"]]


if __name__ == "__main__":
    serve(Notes)
