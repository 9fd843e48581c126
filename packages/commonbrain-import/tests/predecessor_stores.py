"""Stores of predecessors in the size that a user has, with a value of its own in each column."""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, LiteralString, cast

import psycopg
from commonbrain_server.dev_servers import postgres_programs
from import_samples import SAMPLES
from psycopg import sql
from psycopg.types.json import Jsonb

Row = Mapping[str, object]
BEGUN: Final = datetime(2025, 1, 1, 9, tzinfo=UTC)
CHAINS: Final = 11
"""Each of three memories."""
REASONS: Final = ("new policy", "the vendor changed it")
AUTHORS: Final = ("claude", "cursor", "windsurf")
TOOLS: Final = ("ollama", "redis", "nginx", "grafana")
PINS: Final = (
    "Never run destructive SQL on prod.",
    "Always review migrations in pairs.",
    "Never commit secrets to the repository.",
    "Never restart the bot in trading hours.",
    "The production host is harbour-3.",
    "The architecture is a queue between two services.",
    "The release branch is called stable.",
    "Guardrail: no force-push to main.",
    "GUARDRAIL 2025-02-01 deploy by day. GUARDRAIL 2025-03-01 deploy by two people.",
)
THINGS: Final = ("crane", "tug", "lock", "silo", "ferry", "beacon", "quay", "dredger", "barge")
PROPERTIES: Final = (
    *("is inspected by Ana", "was built in Gdansk", "runs on diesel", "needs two operators"),
    *("stops at wind force seven", "is painted every spring", "reports to the port office"),
    *("has a spare winch", "is insured by Nordhaven", "works at night", "carries a radio"),
    *("moved to berth nine", "was sold to the city"),
)
"""With the things, 117 sentences."""
FULL: Final = 138
"""The memory of the first version that has all that one can have."""


def day(number: int) -> datetime:
    """Return the time of a day of the source, at another minute each."""
    return BEGUN + timedelta(days=number, minutes=number)


def first_version() -> Iterator[Row]:
    """Yield the memories of the first version in the order of their ids."""
    texts = [
        *(
            f"Service number {chain} listens on port {port}."
            for chain in range(CHAINS)
            for port in (4000 + chain, 5000 + chain, 6000 + chain)
        ),
        *(f"Shut {tool} down with SIGTERM and wait for its models." for tool in TOOLS),
        *PINS,
        *(f"The {thing} {what}." for thing in THINGS for what in PROPERTIES),
    ]
    for id_, content in enumerate(texts[:155], 1):
        chained = id_ <= 3 * CHAINS and id_ % 3 != 0
        tool = dict(enumerate(TOOLS, 3 * CHAINS + 1)).get(id_)
        trigger = {"name": f"{tool}-shutdown", "keywords": [tool], "projects": ["harbour"]}
        yield {
            "id": id_,
            "content": content,
            "embedding": "[1,2,3]",
            "metadata": Jsonb(
                {
                    "type": "decision" if id_ == FULL else "note",
                    "source": AUTHORS[id_ % 3],
                    "tags": [f"tag{id_}"],
                    "topics": [f"Topic{id_}"],
                    "people": ["Ana"] if id_ == FULL else [],
                    "action_items": ["call Ana"] if id_ == FULL else [],
                    "auto_captured": id_ == FULL,
                }
            ),
            "created_at": day(id_),
            "transaction_time": day(id_) + timedelta(hours=id_ == FULL),
            "valid_time": day(id_) - timedelta(hours=2),
            "updated_at": day(id_ + 1),
            "last_accessed": day(id_ + 2),
            "access_count": id_,
            "last_accessed_uptime": 1.5,
            "project": "harbour",
            "projects": ["harbour", "dock"] if id_ == FULL else [],
            "annotation": f"Checked with the port office, file {id_}." if id_ in _NOTED else "",
            "upvotes": 5 if id_ == FULL else 0,
            "downvotes": 2 if id_ == FULL else 0,
            "pinned": content in PINS,
            "superseded_by_id": id_ + 1 if chained else None,
            "superseded_at": day(id_) + timedelta(days=20) if chained else None,
            "superseded_reason": REASONS[id_ % 2] if chained else None,
            "skill_trigger": Jsonb(trigger) if tool else None,
        }


_NOTED: Final = range(FULL, FULL + 4)


def second_version() -> Iterator[tuple[str, Row]]:
    """Yield the rows of the second version with their tables."""
    for id_ in range(1, 14):
        chained, tool = id_ in {1, 2, 4}, "nginx" if id_ == 13 else None
        trigger = Jsonb({"name": "nginx-reload", "keywords": ["nginx"]}) if tool else None
        severity = "DEPRECATED" if chained else ("PATTERN", "BLOCKER")[id_ % 2]
        yield (
            "rules",
            {
                "id": id_,
                "headline": f"Rule {id_} of the harbour",
                "body": f"Never open the {THINGS[id_ % 9]} {id_} without a second person.",
                "severity": severity,
                "project": "harbour",
                "source": AUTHORS[id_ % 3],
                "supersedes": id_ - 1 if id_ in {2, 3, 5} else None,
                "superseded_by": id_ + 1 if chained else None,
                "supersede_reason": REASONS[id_ % 2] if id_ in {2, 3, 5} else None,
                "linked_incident_ids": [id_] if id_ > 8 else [],
                "skill_trigger": trigger,
                "created_at": day(id_),
            },
        )
        yield (
            "memory_index",
            _indexed("rule", id_, severity=severity, trigger=trigger) | {"active": not chained},
        )
    for id_ in range(1, 14):
        chained = id_ == 1
        yield (
            "facts",
            {
                "id": id_,
                "headline": f"Fact {id_} of the harbour",
                "body": f"The {THINGS[id_ % 9]} {id_} {PROPERTIES[id_ % 13]}.",
                "project": "harbour",
                "tags": [f"tag{id_}"],
                "ttl": day(4000 + id_),
                "confidence": 0.25 + id_ / 100,
                "access_count": id_,
                "last_accessed": day(id_ + 2),
                "source": AUTHORS[id_ % 3],
                "supersedes": 1 if id_ == 2 else None,
                "superseded_by": 2 if chained else None,
                "supersede_reason": REASONS[0] if chained else None,
                "created_at": day(id_),
            },
        )
        deleted = {
            "active": False,
            "forgotten_at": day(50),
            "forgotten_reason": "It was wrong.",
            "forgotten_by": "cursor",
        }
        yield "memory_index", _indexed("fact", id_) | (deleted if id_ == 13 else {})
    for id_ in range(1, 11):
        yield (
            "incidents",
            {
                "id": id_,
                "headline": f"Incident {id_} of the harbour",
                "body": f"The {THINGS[id_ % 9]} stood still for {id_ + 20} minutes.",
                "project": "harbour",
                "root_cause": f"Fuse {id_} had blown.",
                "resolution": f"Fuse {id_} was replaced.",
                "linked_rule_ids": [id_] if id_ > 5 else [],
                "occurred_at": day(id_) - timedelta(hours=3),
                "last_accessed": day(id_ + 3),
                "archived": id_ > 5,
                "source": AUTHORS[id_ % 3],
            },
        )
        yield "memory_index", _indexed("incident", id_)
        yield (
            "tasks",
            {
                "id": id_,
                "content": f"Grease the bearings of {THINGS[id_ % 9]} {id_}.",
                "project": "harbour",
                "priority": ("low", "high")[id_ % 2],
                "status": ("open", "blocked")[id_ % 2],
                "due_condition": "2027-01-09" if id_ % 2 else "after the next storm",
                "created_session": "session-5",
                "created_at": day(id_),
                "updated_at": day(id_ + 1),
            },
        )
        yield "memory_index", _indexed("task", id_)
    for id_ in range(1, 6):
        yield (
            "action_items",
            {
                "id": id_,
                "source_kind": "incident",
                "source_id": id_,
                "text": f"Order {id_ + 30} fuses.",
                "project": "harbour",
                "status": "not_relevant" if id_ == 2 else "pending",
                "kind": "rule" if id_ == 2 else "task",
                "ack_reason": "Ben has some." if id_ == 2 else None,
                "ack_source": "cursor" if id_ == 2 else None,
                "ack_at": day(60) if id_ == 2 else None,
                "created_at": day(id_),
            },
        )
    for id_ in range(1, 4):
        yield (
            "handoffs",
            {
                "id": id_,
                "session_id": 5,
                "source": AUTHORS[id_ % 3],
                "project": "harbour",
                "content": f"The report for week {id_} is half done; the sums are missing.",
                "created_at": day(id_),
            },
        )


def _indexed(
    kind: str, id_: int, *, severity: str | None = None, trigger: Jsonb | None = None
) -> dict[str, object]:
    """Return the row of the index for a memory."""
    return {
        "kind": kind,
        "memory_id": id_,
        "project": "harbour",
        "headline": f"{kind.title()} {id_} of the harbour",
        "severity": severity,
        "skill_trigger": trigger,
        "embedding": "[1,2,3]",
        "pinned": id_ == 6,
        "active": True,
        "annotation": f"See file {id_}." if kind == "incident" and id_ == 4 else None,
        "upvotes": 4 if id_ == 7 else 0,
        "downvotes": 1 if id_ == 7 else 0,
        "created_at": day(id_) + timedelta(hours=1),
    }


MADE: Final = {"v1": 155, "v2": 53}
"""The memories that come over."""


def fill_open_brain(url: str, version: str) -> None:
    """Make the tables of a version in an empty database, and fill them."""
    schema = (SAMPLES / "open-brain" / f"{version}.sql").read_text("utf-8")
    rows = (("memories", row) for row in first_version()) if version == "v1" else second_version()
    with closing(psycopg.connect(url)) as connection, connection:
        connection.execute(cast("LiteralString", schema.partition("INSERT INTO")[0]))
        if version == "v1":
            # Memories point at later ones.
            connection.execute(
                "ALTER TABLE memories DROP CONSTRAINT memories_superseded_by_id_fkey"
            )
        else:
            connection.execute("ALTER TABLE rules DROP CONSTRAINT rules_superseded_by_fkey")
            connection.execute("ALTER TABLE rules DROP CONSTRAINT rules_supersedes_fkey")
        for table, row in rows:
            statement = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
                sql.Identifier(table),
                sql.SQL(", ").join(map(sql.Identifier, row)),
                sql.SQL(", ").join(sql.Placeholder() * len(row)),
            )
            connection.execute(statement, list(row.values()))
        for table in _PROGRAM_TABLES[version]:
            connection.execute(cast("LiteralString", table))


_PROGRAM_TABLES: Final = {
    "v1": (
        "INSERT INTO memories_audit (operation, memory_id) SELECT 'INSERT', id FROM memories",
        "INSERT INTO active_sessions (source) VALUES ('claude'), ('cursor'), ('claude'), ('lem')",
        "INSERT INTO server_uptime VALUES (1, 9)",
    ),
    "v2": (
        "INSERT INTO v2_audit (operation) SELECT 'INSERT' FROM facts",
        "INSERT INTO active_sessions (id, source) VALUES (5, 'claude')",
        "INSERT INTO tool_events (tool_name) VALUES ('search_v2'), ('recall_v2')",
        "INSERT INTO maintenance_runs DEFAULT VALUES",
    ),
}


def dump_open_brain(url: str, file: Path) -> Path:
    """Dump a database as a user does."""
    program = postgres_programs() / "pg_dump"
    with file.open("wb") as out:
        subprocess.run([str(program), "--no-owner", f"--dbname={url}"], check=True, stdout=out)
    return file


AGENTS: Final = ("virgil", "charon", "darbs", "lem")
OPENBRAIN: Final = 54


def openbrain_id(number: int) -> str:
    return f"019c0000-0000-7000-8000-{number:012d}"


def openbrain_rows(count: int = OPENBRAIN) -> Iterator[Row]:
    """Yield the rows of OpenBrain: two chains of three, one deleted, one of each type."""
    kinds = ("decision", "observation", "convention", "research", "plan", "bug", "architecture")
    for number in range(1, count + 1):
        is_old = number in {1, 2, 4, 5}
        thing, what = THINGS[number % 9], PROPERTIES[number % 13]
        yield {
            "id": openbrain_id(number),
            "workspace_id": 7,
            "org": "core" if number == 20 else None,
            "agent_id": AGENTS[number % 4],
            "type": kinds[number % 7],
            "content": f"In plan {number}, the {thing} {what}.",
            "tags": f'["tag{number}"]',
            "project": "eaas",
            "confidence": round(0.3 + number % 70 / 100, 2),
            "source": "ingest:plans" if number == 20 else None,
            "supersedes_id": openbrain_id(number - 1) if number in {2, 3, 5, 6} else None,
            "expires_at": day(4000) if number == 20 else None,
            "indexed_at": day(number) + timedelta(minutes=5),
            "created_at": day(number),
            "updated_at": day(number) + timedelta(days=1),
            # A correction deletes what it corrects.
            "deleted_at": day(number) + timedelta(days=30) if is_old or number == 54 else None,
        }


def dump_openbrain(file: Path, *, count: int = OPENBRAIN) -> Path:
    """Write a dump as mariadb-dump does."""
    head, insert, _ = (
        (SAMPLES / "openbrain" / "dump.sql")
        .read_text("utf-8")
        .partition("INSERT INTO `brain_memories` VALUES\n")
    )
    rows = (f"({','.join(map(_literal, row.values()))})" for row in openbrain_rows(count))
    file.write_text(head + insert + ",\n".join(rows) + ";\n", "utf-8")
    return file


def _literal(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, datetime):
        return f"'{value:%Y-%m-%d %H:%M:%S}'"
    quoted = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("'", "\\'")
    return f"'{quoted}'" if isinstance(value, str) else quoted
