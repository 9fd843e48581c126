"""A store of Brainstem as its specification has it: three tenants, a value in each column."""

import json
import sqlite3
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, LiteralString, cast

import psycopg
from commonbrain_server.dev_servers import postgres_programs

Row = Mapping[str, object]
BEGUN: Final = datetime(2026, 2, 1, 9, tzinfo=UTC)
SCHEMA: Final = """
CREATE TABLE tenants (id TEXT PRIMARY KEY, name TEXT, created_at TIMESTAMPTZ, policy_json JSON);
CREATE TABLE agents (
    id TEXT PRIMARY KEY, tenant_id TEXT REFERENCES tenants, role TEXT, created_at TIMESTAMPTZ
);
CREATE TABLE memory_items (
    id TEXT PRIMARY KEY, tenant_id TEXT REFERENCES tenants, agent_id TEXT REFERENCES agents,
    type TEXT, scope TEXT, text TEXT, json_payload JSON, trust_level TEXT,
    confidence DOUBLE PRECISION, salience DOUBLE PRECISION, source_ref TEXT, semantic_hash TEXT,
    created_at TIMESTAMPTZ, expires_at TIMESTAMPTZ, is_tombstoned BOOLEAN DEFAULT false,
    embedding TEXT
);
CREATE TABLE memory_edges (
    id TEXT PRIMARY KEY, tenant_id TEXT REFERENCES tenants,
    from_memory_id TEXT REFERENCES memory_items, to_memory_id TEXT REFERENCES memory_items,
    relation_type TEXT, weight DOUBLE PRECISION
);
CREATE TABLE memory_audit_log (
    id TEXT PRIMARY KEY, tenant_id TEXT REFERENCES tenants, actor_agent_id TEXT, action TEXT,
    memory_id TEXT, request_id TEXT, created_at TIMESTAMPTZ
);
CREATE TABLE model_registry (
    id TEXT PRIMARY KEY, tenant_id TEXT, model_kind TEXT, version TEXT, artifact_uri TEXT,
    status TEXT, metrics_json JSON, created_at TIMESTAMPTZ
);
"""
TENANTS: Final = {"t_123": 70, "t_77": 6, "t_9": 4}
"""With the number of their memories."""
CARRIED: Final = TENANTS["t_123"] - 2
"""Two of the largest tenant are deleted."""
RELATIONS: Final = ("depends_on", "supports", "contradicts", "mentions")
_TEXTS: Final = {
    "event": "The crane {n} was moved to berth {n} at noon.",
    "fact": "The depot {n} keeps its keys in box {n}.",
    "episode": "In week {n} the crew repaired pump {n} and ordered a gasket for it.",
    "policy": "Never start engine {n} without a second person.",
}
_TRUST: Final = ("trusted_tool", "user_claim", "untrusted_web")
_SCOPES: Final = ("team", "private", "global")


def memories() -> Iterator[Row]:
    """Yield the memories of all tenants, the oldest first."""
    owners = [tenant for tenant, count in TENANTS.items() for _ in range(count)]
    for n, tenant in enumerate(owners):
        type_ = tuple(_TEXTS)[n % 4]
        yield {
            "id": f"mem_{n:02}",
            "tenant_id": tenant,
            "agent_id": f"{tenant}_{('a_ops', 'a_planner')[n % 2]}",
            "type": type_,
            "scope": _SCOPES[n // 2 % 3],
            "text": _TEXTS[type_].format(n=n),
            "json_payload": {"ticket": f"OPS-{n}", "hours": [n, None]},
            "trust_level": _TRUST[n // 3 % 3],
            "confidence": 0.25 + n / 200,
            "salience": 0.35 + n / 200,
            "source_ref": f"trace_{n}",
            "semantic_hash": f"{n:016x}",
            "created_at": BEGUN + timedelta(hours=n),
            "expires_at": datetime(2041, 1, 1, tzinfo=UTC) + timedelta(days=n),
            "is_tombstoned": n in {20, 21},
            "embedding": "[1,2,3]",
        }


def edges() -> Iterator[Row]:
    """Yield ten links of the first tenant and one of another."""
    for n in range(11):
        other = 70 if n == 10 else 0
        yield {
            "id": f"edge_{n}",
            "tenant_id": "t_77" if other else "t_123",
            "from_memory_id": f"mem_{other or n // 4 * 2:02}",
            "to_memory_id": f"mem_{71 if other else 60 + n}",
            "relation_type": RELATIONS[n % 4],
            "weight": 0.05 + n / 20,
        }


def rows() -> Iterator[tuple[str, Row]]:
    """Yield the rows of all tables with their tables."""
    for tenant in TENANTS:
        policy = {"trust_min": 0.5}
        named = {"id": tenant, "name": f"Team {tenant}", "created_at": BEGUN, "policy_json": policy}
        yield "tenants", named
        for role, name in (("writer", "a_ops"), ("reader", "a_planner")):
            agent = {"id": f"{tenant}_{name}", "tenant_id": tenant, "role": role}
            yield "agents", agent | {"created_at": BEGUN}
    yield from (("memory_items", row) for row in memories())
    yield from (("memory_edges", row) for row in edges())
    for n, row in enumerate(memories()):
        logged = {"id": f"log_{n}", "action": "create", "request_id": f"req_{n}"}
        logged |= {"actor_agent_id": str(row["agent_id"]), "memory_id": str(row["id"])}
        yield "memory_audit_log", logged | {"tenant_id": row["tenant_id"], "created_at": BEGUN}
    for n, tenant in enumerate(("t_123", None, "t_9")):
        model = {"id": f"model_{n}", "model_kind": "reranker", "version": f"v{n}"}
        model |= {"artifact_uri": "s3://models/1", "status": "active"}
        more = {"tenant_id": tenant, "metrics_json": {"ndcg": 0.8}, "created_at": BEGUN}
        yield "model_registry", model | more


def fill_postgres(url: str) -> None:
    """Make the tables in an empty database."""
    with closing(psycopg.connect(url)) as connection, connection:
        connection.execute(cast("LiteralString", SCHEMA))
        for table, row in rows():
            marks = ", ".join(["%s"] * len(row))
            statement = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})"  # noqa: S608
            connection.execute(cast("LiteralString", statement), list(map(_plain, row.values())))


def dump_postgres(url: str, file: Path) -> Path:
    """Dump a database as an operator does."""
    program = postgres_programs() / "pg_dump"
    with file.open("wb") as out:
        subprocess.run([str(program), "--no-owner", f"--dbname={url}"], check=True, stdout=out)
    return file


def fill_sqlite(database: Path) -> Path:
    """Make the tables in a file of SQLite."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.executescript(SCHEMA)
        for table, row in rows():
            values = [
                value.isoformat() if isinstance(value, datetime) else _plain(value)
                for value in row.values()
            ]
            marks = ", ".join("?" * len(row))
            statement = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})"  # noqa: S608
            connection.execute(statement, values)
    return database


def _plain(value: object) -> object:
    return json.dumps(value) if isinstance(value, dict) else value
