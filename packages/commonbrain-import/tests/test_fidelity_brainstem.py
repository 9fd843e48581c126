"""What comes over from Brainstem, column by column: from a server, from a dump, from SQLite."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from brainstem_store import (
    CARRIED,
    TENANTS,
    dump_postgres,
    edges,
    fill_postgres,
    fill_sqlite,
    memories,
)
from fidelity import (
    CarriedOver,
    Fate,
    Left,
    Used,
    check_fidelity,
    import_interrupted,
    sqlite_columns,
)
from import_samples import omitted, only, read

from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.memory import Draft
from commonbrain.model.scope import Role, Trust
from commonbrain.transfer.importer import SourceRelation, shown_source
from tests.postgres import Server

SOURCES = ("server", "dump", "sqlite")
_LINES = {
    "tenants": "names and policies of tenants, which brain tenant policy sets",
    "agents": "roles of agents, which brain agent set sets",
    "memory_audit_log": "audit entries",
    "model_registry": "versions of trained models, which brain train makes anew",
}


@pytest.fixture(scope="module")
def sources(
    postgres: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, str]]:
    """Give the same store as a server, a dump and a file of SQLite."""
    folder = tmp_path_factory.mktemp("brainstem")
    with postgres.database(is_empty=True) as database:
        fill_postgres(database.owner)
        yield {
            "server": database.owner,
            "dump": str(dump_postgres(database.owner, folder / "dump.sql")),
            "sqlite": str(fill_sqlite(folder / "brainstem.db")),
        }


Records = dict[str, list[dict[str, Any]]]


def exported(brain: Brain, file: Path) -> Records:
    """Return the records of a store by their sort."""
    brain.export(file)
    records: Records = {}
    for line in file.read_text("utf-8").splitlines():
        for sort, record in json.loads(line).items():
            records.setdefault(sort, []).append(record)
    return records


def fates(records: Records) -> dict[str, Fate]:
    """Say what became of each column, for all memories of the tenant that are not deleted."""
    given = [row for row in memories() if row["tenant_id"] == "t_123" and not row["is_tombstoned"]]
    by_ref = {one["source_ref"]: one for one in records["memory"]}
    stored = [by_ref[f"brainstem#{row['id']}"] for row in given]
    origins = [one["payload"]["imported"] for one in stored]

    def same(column: str, values: Iterable[object]) -> Fate:
        return CarriedOver([row[column] for row in given], list(values))

    # What comes from the web waits for a person if it is for everyone.
    scopes = [
        "team"
        if (row["scope"], row["trust_level"]) == ("global", "untrusted_web")
        else row["scope"]
        for row in given
    ]
    # So may it be less certain than it says, which is counted.
    certain = [
        min(float(str(row["confidence"])), 0.38 if row["trust_level"] == "untrusted_web" else 1)
        for row in given
    ]
    items = {
        "id": same("id", (one["source_ref"].partition("#")[2] for one in stored)),
        "tenant_id": Used("selects the memories"),
        "agent_id": same("agent_id", (one["agent"] for one in stored)),
        "type": same("type", (one.get("label") or one["kind"] for one in stored)),
        "scope": CarriedOver(scopes, [one.get("scope", "team") for one in stored]),
        "text": same("text", (one["body"] for one in stored)),
        "json_payload": same(
            "json_payload", (json.loads(one["payload"]["attachment"]) for one in stored)
        ),
        "trust_level": same("trust_level", (one["trust"] for one in stored)),
        "confidence": CarriedOver(certain, [one["confidence"] for one in stored]),
        # A text from the web does not say how important it is, which is counted.
        "salience": CarriedOver(
            [row["salience"] for row in given if row["trust_level"] != "untrusted_web"],
            [one["salience"] for one in stored if one["trust"] != "untrusted_web"],
        ),
        "source_ref": same("source_ref", (one["source_ref"] for one in origins)),
        "semantic_hash": Left("hashes of texts, which are computed anew"),
        "created_at": same("created_at", (parsed(one["believed_since"]) for one in stored)),
        "expires_at": same("expires_at", (parsed(one["expires_at"]) for one in stored)),
        "is_tombstoned": Left("deleted memories"),
        "embedding": Left("vectors, which are computed anew"),
    }
    refs = {one["id"]: one["source_ref"].partition("#")[2] for one in records["memory"]}
    links = [one for one in records["link"] if one["basis"] != "statements"]
    made = sorted((refs[one["from_id"]], refs[one["to_id"]], one) for one in links)
    ends = [one for one in edges() if one["tenant_id"] == "t_123"]
    ends = sorted(ends, key=lambda one: (str(one["from_memory_id"]), str(one["to_memory_id"])))
    types = {"contradicts": "conflicts_with", "mentions": "relates_to"}
    named = [types.get(str(one["relation_type"]), one["relation_type"]) for one in ends]
    links_fates = {
        "id": Used("a link is known by its ends"),
        "tenant_id": Used("selects the links"),
        "from_memory_id": CarriedOver(
            [one["from_memory_id"] for one in ends], [one[0] for one in made]
        ),
        "to_memory_id": CarriedOver(
            [one["to_memory_id"] for one in ends], [one[1] for one in made]
        ),
        "relation_type": CarriedOver(named, [one["type"] for *_, one in made]),
        "weight": CarriedOver(
            [one["weight"] for one in ends], [one.get("strength", 0.5) for *_, one in made]
        ),
    }
    tables = {"memory_items": items, "memory_edges": links_fates}
    return {
        f"{table}.{column}": fate
        for table, named in tables.items()
        for column, fate in named.items()
    }


def parsed(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.requirement("MG-18")
@pytest.mark.parametrize("sort", SOURCES)
def test_each_column_of_brainstem_comes_over_or_is_counted(
    brain: Brain, sources: Mapping[str, str], tmp_path: Path, sort: str
) -> None:
    columns = sqlite_columns(Path(sources["sqlite"]))
    report = import_interrupted(brain, "brainstem", f"{sources[sort]}#t_123")
    counted = {
        name: Left(_LINES[table]) for name in columns if (table := name.partition(".")[0]) in _LINES
    }
    records = exported(brain, tmp_path / "store.jsonl")
    check_fidelity(columns, fates=fates(records) | counted, report=report)
    assert len(records["memory"]) == CARRIED
    assert report.omitted["memories of other tenants"] == sum(TENANTS.values()) - TENANTS["t_123"]
    assert (report.omitted["audit entries"], report.rejected) == (TENANTS["t_123"], 0)
    assert report.omitted["confidence above what a text from the web has"] > 0
    assert report.omitted["salience of texts from the web, which is computed anew"] > 0
    # One of the tenant, and one of all tenants.
    assert report.omitted[_LINES["model_registry"]] == 2


def test_drafts_of_brainstem_have_the_time_of_recording_and_links_their_relation(
    sources: Mapping[str, str],
) -> None:
    for source in sources.values():
        pieces = read("brainstem", f"{source}#t_123")
        drafts = only(Draft, pieces)
        assert [one.believed_since for one in drafts] == [one.occurred_at for one in drafts]
        relations = only(SourceRelation, pieces)
        assert {(one.type, one.reason) for one in relations} == {
            ("depends_on", None),
            ("supports", None),
            ("conflicts_with", "contradicts"),
            ("relates_to", "mentions"),
        }


@pytest.mark.requirement("MG-19")
def test_trust_that_the_importer_may_not_claim_is_lowered_and_counted(
    brain: Brain, sources: Mapping[str, str], tmp_path: Path
) -> None:
    limited = replace(brain.caller, role=Role.WRITER, trust_ceiling=Trust.USER_CLAIM)
    report = Brain(brain.services, limited).import_("brainstem", f"{sources['sqlite']}#t_123")
    stored = exported(brain, tmp_path / "store.jsonl")["memory"]
    trusted = [row for row in memories() if row["trust_level"] == "trusted_tool"]
    own = [row for row in trusted if row["tenant_id"] == "t_123" and not row["is_tombstoned"]]
    lowered = "trust above user_claim, which this caller may not claim"
    assert (report.omitted[lowered], report.rejected) == (len(own), 0)
    assert {one["trust"] for one in stored} == {"user_claim", "untrusted_web"}
    assert "global" not in {one.get("scope") for one in stored}


def test_each_tenant_is_named_with_the_command_that_imports_it(
    sources: Mapping[str, str],
) -> None:
    for source in sources.values():
        with pytest.raises(InvalidInputError, match="3 tenants") as refused:
            read("brainstem", source)
        shown = shown_source(source)
        for tenant in TENANTS:
            line = f"brain --tenant {tenant} import brainstem '{shown}#{tenant}'"
            assert line in (refused.value.hint or "")


def test_payload_that_is_no_object_or_too_large_loses_no_memory(tmp_path: Path) -> None:
    database = fill_sqlite(tmp_path / "brainstem.db")
    payloads = ['["a", 1]', "plain text", "NaN", "{}", json.dumps({"log": "x" * 300_000})]
    with closing(sqlite3.connect(database)) as connection, connection:
        for number, payload in enumerate(payloads):
            values = (payload, f"mem_{70 + number}")
            connection.execute("UPDATE memory_items SET json_payload = ? WHERE id = ?", values)
    pieces = read("brainstem", f"{database}#t_77")
    assert [one.attachment for one in only(Draft, pieces)[:5]] == [
        {"json_payload": ["a", 1]},
        {"json_payload": "plain text"},
        None,
        None,
        None,
    ]
    assert omitted(pieces)["payloads of more than 262,144 bytes, or no JSON"] == 2
