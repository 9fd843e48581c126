"""Make the sample of Brainstem with its own code.

    git clone https://github.com/hookdump/Brainstem && cd Brainstem
    PYTHONPATH=src python .../tests/make/make_brainstem.py samples/brainstem/brainstem.sql

Made with Brainstem 0.3.0 (ab3ad66) and Python 3.11; needs pydantic. It is not part of the tests.
"""

# pyright: basic, reportMissingImports=false

import sqlite3
import sys
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from brainstem.graph import SQLiteGraphStore
from brainstem.models import MemoryType, RememberInputItem, RememberRequest, Scope, TrustLevel
from brainstem.store import SQLiteRepository

T, L = MemoryType, TrustLevel
ITEMS = [
    (
        "a_ops",
        Scope.TEAM,
        T.EVENT,
        "The user wants the migration done before April planning.",
        "trace_8742",
        L.TRUSTED_TOOL,
        None,
    ),
    (
        "a_ops",
        Scope.TEAM,
        T.FACT,
        "The staging database runs Postgres 16 in Frankfurt.",
        "trace_8743",
        L.USER_CLAIM,
        datetime(2031, 1, 1, tzinfo=UTC),
    ),
    (
        "a_ops",
        Scope.GLOBAL,
        T.POLICY,
        "Never deploy on a Friday after noon.",
        None,
        L.USER_CLAIM,
        None,
    ),
    (
        "a_planner",
        Scope.PRIVATE,
        T.EPISODE,
        "The March sprint moved three services to the new cluster; two tickets were left.",
        None,
        L.USER_CLAIM,
        None,
    ),
    (
        "a_planner",
        Scope.TEAM,
        T.FACT,
        "A blog says the cluster will be deprecated next year.",
        "https://blog.example/cluster",
        L.UNTRUSTED_WEB,
        None,
    ),
    ("a_planner", Scope.TEAM, T.FACT, "The staging database runs MySQL.", None, L.USER_CLAIM, None),
]


def main() -> None:
    with TemporaryDirectory() as folder:
        path = str(Path(folder) / "brainstem.db")
        store, graph = SQLiteRepository(path), SQLiteGraphStore(path)
        for number, (agent, scope, type_, text, ref, trust, expires) in enumerate(ITEMS):
            item = RememberInputItem(
                type=type_, text=text, source_ref=ref, trust_level=trust, expires_at=expires
            )
            made = store.remember(
                RememberRequest(
                    tenant_id="t_123",
                    agent_id=agent,
                    scope=scope,
                    items=[item],
                    idempotency_key=f"key-{number}",
                )
            )
            graph.project_memory("t_123", made.memory_ids[0], text)
        store.forget("t_123", "a_planner", made.memory_ids[0])
        store.close()
        with sqlite3.connect(path) as connection:
            Path(sys.argv[1]).write_text("\n".join(connection.iterdump()) + "\n", "utf-8")


if __name__ == "__main__":
    main()
