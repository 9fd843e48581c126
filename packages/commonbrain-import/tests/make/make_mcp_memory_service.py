"""Make the sample of mcp-memory-service with its own storage.

    pip install mcp-memory-service==12.4.0
    python make_mcp_memory_service.py samples/mcp-memory-service/sqlite_vec.sql

Without a model on disk it embeds with hashes, which is enough here: its virtual tables of vectors
and of full text are left out of the dump. It is not part of the tests.
"""

# pyright: basic, reportMissingImports=false

import asyncio
import os
import sqlite3
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

FOLDER = TemporaryDirectory()
os.environ |= {"MCP_MEMORY_BASE_DIR": FOLDER.name, "HF_HUB_OFFLINE": "1"}
os.environ |= {"MCP_MEMORY_USE_ONNX": "0", "MCP_SEMANTIC_DEDUP_ENABLED": "false"}

import sqlite_vec  # noqa: E402 it reads the environment
from mcp_memory_service.models.memory import Memory  # noqa: E402 it reads the environment
from mcp_memory_service.storage.graph import GraphStorage  # noqa: E402 it reads the environment
from mcp_memory_service.storage.sqlite_vec import SqliteVecMemoryStorage  # noqa: E402 it reads the environment
from mcp_memory_service.utils.hashing import generate_content_hash  # noqa: E402 it reads the environment

ITEMS = [
    ("The team decided to move the berth table to Postgres.", ["decision", "db"], "decision"),
    ("The deploy failed because the tide table had no row.", ["deploy"], "error"),
    ("The staging port is 8080.", ["ports", "staging"], "note"),
    ("Never restart the crane service at noon.", [], "pattern"),
    ("Buy a new rope for the pilot boat.", [], "task"),
    ("This one is deleted.", [], "note"),
]
START = 1_767_225_600.0


async def fill(path: str) -> None:
    storage = SqliteVecMemoryStorage(path)
    await storage.initialize()
    hashes = []
    for number, (text, tags, type_) in enumerate(ITEMS):
        at = START + 3600 * number
        memory = Memory(
            content=text,
            content_hash=generate_content_hash(text),
            tags=tags,
            memory_type=type_,
            metadata={"source": "test"} if number == 0 else {},
            created_at=at,
            updated_at=at,
        )
        stored, message = await storage.store(memory, store="harbour" if number == 3 else "default")
        assert stored, message
        hashes.append(memory.content_hash)
    await storage.update_memory_versioned(hashes[2], "The staging port is 9090.")
    await storage.delete(hashes[5])
    graph = GraphStorage(path)
    await graph.store_association(
        hashes[1],
        hashes[0],
        similarity=0.8,
        connection_types=["causal"],
        relationship_type="causes",
    )
    await graph.store_association(
        hashes[0],
        hashes[3],
        similarity=0.4,
        connection_types=["semantic"],
        relationship_type="related",
    )
    storage.conn.execute(
        "INSERT INTO beliefs (belief_hash, content, confidence, status, created_at, updated_at, "
        "derived_from) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            "b1",
            "Deploys fail when a table lacks rows.",
            0.6,
            "candidate",
            "2026-01-02T00:00:00Z",
            "2026-01-02T00:00:00Z",
            f'["{hashes[1]}"]',
        ),
    )
    storage.conn.commit()


def dump(path: str, target: Path) -> None:
    connection = sqlite3.connect(path)
    connection.enable_load_extension(True)  # noqa: FBT003 it takes no name
    sqlite_vec.load(connection)
    for name, sql in connection.execute("SELECT name, sql FROM sqlite_master").fetchall():
        if sql and (sql.startswith("CREATE VIRTUAL") or ("fts" in name and "TRIGGER" in sql)):
            kind = "TABLE" if sql.startswith("CREATE VIRTUAL") else "TRIGGER"
            connection.execute(f"DROP {kind} {name}")
    target.write_text("\n".join(connection.iterdump()) + "\n", "utf-8")


path = str(Path(FOLDER.name) / "sqlite_vec.db")
asyncio.run(fill(path))
dump(path, Path(sys.argv[1]))
