"""What is compared, with the settings of each and the reasons for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

OURS: Final = "Commonbrain"
REFERENCE: Final = "langgraph SqliteStore"
"""The peer that ratios are taken to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One memory, and how it is installed and run."""

    name: str
    worker: str
    """A module of `benchmarks.peers.workers`."""
    settings: str
    """How it is set up, and why."""
    requirements: str | None = None
    """A file of `requirements/`; without one it needs the standard library alone."""
    python: str | None = None
    """The Python that it needs, where it does not run on the driver's."""
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    is_ours: bool = False
    """Whether the working tree is installed, at the versions of `uv.lock`."""
    imports: bool = False
    """Whether it reads the file of conversations instead of one text after the other."""


PEERS: Final = (
    Peer(
        name=OURS,
        worker="commonbrain",
        is_ours=True,
        settings=(
            "open(path), remember(text) and recall(question, max_items=10), all else by default:"
            " WAL with synchronous=FULL, one commit a text. It refuses repetitions, and an answer"
            " has at most 1,400 tokens, so that it may hold fewer than ten."
        ),
    ),
    Peer(
        name=f"{OURS}, import",
        worker="commonbrain",
        is_ours=True,
        imports=True,
        settings=(
            "the same turns by import_('conversations', file), as users bring chats: it also"
            " stores who spoke, the session and the time, which a plain text does not tell it."
        ),
    ),
    Peer(
        name=REFERENCE,
        worker="langgraph",
        requirements="langgraph",
        settings=(
            "from_conn_string with an index over the text, one put a text. It sets no pragma:"
            " SQLite's rollback journal with synchronous=FULL. Every search compares all vectors."
        ),
    ),
    Peer(
        name="mem0, faiss",
        worker="mem0",
        requirements="mem0",
        environment=MappingProxyType({"MEM0_TELEMETRY": "False"}),
        settings=(
            "infer=False, because no language model takes part. Its faiss store is a flat index by"
            " Euclidean distance, which ranks unit vectors as their cosine does; each add writes"
            " the whole index and all texts to disk, without fsync. No mem0ai[nlp], whose model is"
            " downloaded at run time: faiss has no keyword search to use it for."
        ),
    ),
    Peer(
        name="chromadb",
        worker="chroma",
        requirements="chromadb",
        settings=(
            "PersistentClient, one add a text into one collection with the default HNSW settings;"
            " a write is in its SQLite log before it returns."
        ),
    ),
    Peer(
        name="mcp-memory-service",
        worker="mcp_memory_service",
        requirements="mcp-memory-service",
        settings=(
            "the storage class SqliteVecMemoryStorage without the server around it, one store a"
            " text and retrieve by meaning, its tools' default. WAL with synchronous=NORMAL: the"
            " last writes are lost with the power. It refuses what resembles recent memories."
        ),
    ),
    Peer(
        name="basic-memory",
        worker="basic_memory",
        requirements="basic-memory",
        python=">=3.12",
        settings=(
            "the MCP tools write_note and search_notes called in the same process, without stdio."
            " A write ends when the Markdown file is written and the note can be found by words"
            " and vectors, which it does in the background. Search is hybrid, its default, without"
            " the least similarity, which belongs to its own model. Synchronous=NORMAL."
        ),
    ),
    Peer(
        name="plain FTS5",
        worker="full_text",
        settings=(
            "any of the question's words, ranked by BM25, with Porter stemming, the best of"
            " SQLite's tokenizers for English. WAL with synchronous=FULL, as ours. No embedder."
        ),
    ),
)
