"""What memory systems in the field keep, imported whole.

The samples are made by the programs themselves, with the scripts in `make/`; `letta/agent.af` is
written after the schema in letta 0.16 (letta/schemas/agent_file.py), the vault by hand.
"""

import json
import pickle
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

import pytest
from import_samples import IMPORTERS

from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.limits import TAGS_MAX, TEXT_BYTES_MAX
from commonbrain.model.links import LinkType
from commonbrain.model.memory import Draft
from commonbrain.model.scope import Authority
from commonbrain.transfer.importer import Content, OmittedContent, SourceRelation, Unreadable

SAMPLES: Final = Path(__file__).parent / "samples"
THREE_THOUSAND: Final = 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A source in the samples folder, and what an import of it reports."""

    format: str
    source: str
    databases: Mapping[str, str] = field(default_factory=dict[str, str])
    """Where dumps go, by their names, below `source`; empty for the source itself."""
    read: int
    unreadable: int = 0
    kinds: Mapping[str, int]
    carried: Mapping[str, int]
    omitted: Mapping[str, int] = field(default_factory=dict[str, int])


SAMPLES_READ: Final = (
    Sample(
        format="mcp-memory",
        source="mcp-memory/memory.jsonl",
        read=8,
        kinds={"fact": 8},
        carried={"tags": 8, "links": 2},
        omitted={"relations of memories that are not in the store": 1},
    ),
    Sample(
        format="mem0",
        source="mem0",
        databases={
            "history.sql": "history.db",
            "storage.sql": "qdrant/collection/mem0/storage.sqlite",
        },
        read=5,
        kinds={"fact": 4, "rule": 1},
        carried={"dates": 5, "authors": 3, "tags": 3, "supersessions": 2},
        omitted={"deleted memories": 1, "values of metadata": 2, "vectors": 3},
    ),
    Sample(
        format="mem0",
        source="mem0/export.json",
        read=3,
        kinds={"fact": 2, "rule": 1},
        carried={"dates": 3, "authors": 3, "tags": 3},
        omitted={"values of metadata": 2},
    ),
    Sample(
        format="mcp-memory-service",
        source="mcp-memory-service",
        databases={"sqlite_vec.sql": ""},
        read=7,
        kinds={"fact": 4, "incident": 1, "rule": 1, "event": 1},
        # A global fact and a BLOCKER wait for a person.
        carried={"dates": 7, "tags": 4, "projects": 1, "links": 1, "supersessions": 1},
        omitted={
            "deleted memories": 1,
            "values of metadata": 2,
            "relations of memories that are not in the store": 2,
        },
    ),
    Sample(
        format="claude-mem",
        source="claude-mem",
        databases={"claude-mem.sql": ""},
        read=6,
        kinds={"incident": 1, "fact": 2, "episode": 1, "message": 2},
        carried={"dates": 6, "authors": 4, "projects": 6, "tags": 2, "threads": 2},
    ),
    Sample(
        format="obsidian",
        source="obsidian/vault",
        read=7,
        unreadable=1,
        kinds={"fact": 3, "rule": 3},
        carried={"dates": 4, "tags": 5, "links": 3},
        omitted={
            "embedded files": 1,
            "fields of front matter": 1,
            "links to notes that are not there": 1,
        },
    ),
    Sample(
        format="basic-memory",
        source="basic-memory",
        read=10,
        kinds={"fact": 8, "rule": 1, "task": 1},
        carried={"tags": 9, "links": 3},
        omitted={"links to notes that are not there": 1},
    ),
    Sample(
        format="letta",
        source="letta/agent.af",
        read=5,
        kinds={"message": 3, "fact": 2},
        carried={"dates": 4, "authors": 3, "threads": 3, "tags": 2},
        omitted={
            "empty memory blocks": 1,
            "messages of the system and of tools": 2,
            "system prompts": 1,
            "tool calls": 1,
            "tools": 1,
            "vectors": 1,
        },
    ),
    Sample(
        format="graphiti",
        source="graphiti/graph.json",
        read=6,
        kinds={"fact": 4, "message": 1, "event": 1},
        carried={
            "dates": 6,
            "projects": 6,
            "tags": 6,
            "threads": 1,
            "expiry dates": 2,
            "supersessions": 1,
            "links": 2,
        },
        omitted={"entities without a summary": 2, "vectors": 2},
    ),
)


def named(sample: Sample) -> str:
    return f"{sample.format}-{Path(sample.source).name}"


def restored(sample: Sample, folder: Path) -> Path:
    """Return the source, with its dumps restored in a folder."""
    for dump, place in sample.databases.items():
        path = folder / (place or "source.db")
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path)
        connection.executescript((SAMPLES / sample.source / dump).read_text("utf-8"))
        connection.close()
    if not sample.databases:
        return SAMPLES / sample.source
    return folder if all(sample.databases.values()) else folder / "source.db"


def contents(format_: str, source: Path) -> Iterator[Content]:
    return (piece.content for piece in IMPORTERS[format_].read(source))


def drafts(format_: str, source: Path) -> list[Draft]:
    return [one for one in contents(format_, source) if isinstance(one, Draft)]


@pytest.mark.requirement("MG-07", "MG-11")
@pytest.mark.parametrize("sample", SAMPLES_READ, ids=named)
def test_import_reports_the_counts_of_the_source_and_its_repetition_stores_nothing(
    sample: Sample, tmp_path: Path, brain: Brain
) -> None:
    source = restored(sample, tmp_path)
    dry = brain.import_(sample.format, source, dry_run=True)
    report = brain.import_(sample.format, source)
    assert (dry.read, report.read) == (sample.read, sample.read)
    assert report.stored + report.quarantined == sample.read - sample.unreadable
    assert report.unreadable == sample.unreadable
    assert report.kinds == sample.kinds
    assert report.carried == sample.carried
    assert report.omitted == sample.omitted
    again = brain.import_(sample.format, source)
    assert (again.stored, again.quarantined) == (0, 0)
    assert again.exists == sample.read - sample.unreadable


def test_observation_contains_the_name_of_its_entity() -> None:
    bodies = [one.body for one in drafts("mcp-memory", SAMPLES / "mcp-memory/memory.jsonl")]
    assert bodies[:2] == ["Ann lives in Bergen.", "Ann: Prefers long answers."]
    assert bodies[4:6] == ["Postgres is of type technology", "Ann works on harbour"]


def test_damaged_line_of_a_graph_is_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    source = tmp_path / "memory.jsonl"
    entity = {"type": "entity", "name": "Ann", "entityType": "person", "observations": ["Tall."]}
    source.write_text(json.dumps(entity) + '\n{"type": "entity", "na\n[]\n{"type": "x"}\n')
    read = list(contents("mcp-memory", source))
    assert [type(one) for one in read] == [Draft, Unreadable, Unreadable, Unreadable]
    assert [one.where for one in read if isinstance(one, Unreadable)] == [
        f"memory.jsonl, line {number}" for number in (2, 3, 4)
    ]


def test_half_of_a_surrogate_pair_in_a_graph_is_imported_as_a_question_mark(
    tmp_path: Path, brain: Brain
) -> None:
    source = tmp_path / "memory.jsonl"
    entity = {"type": "entity", "name": "Ann", "observations": ["Ann is \ud83d tall."]}
    source.write_text(json.dumps(entity))
    assert brain.import_("mcp-memory", source).stored == 1
    assert [one.body for one in brain.recall("Ann").items] == ["Ann is ? tall."]


def test_what_models_extracted_has_the_authority_of_a_model(tmp_path: Path, brain: Brain) -> None:
    brain.import_("mem0", restored(SAMPLES_READ[1], tmp_path))

    listed = brain.list(limit=100).memories
    assert {brain.get(one.id).authority for one in listed} == {Authority.MODEL}


def test_previous_values_of_mem0_are_not_recalled(tmp_path: Path, brain: Brain) -> None:
    brain.import_("mem0", restored(SAMPLES_READ[1], tmp_path))
    results = brain.recall("Which port does staging use?")
    assert [one.body for one in results.items if one.body and "port" in one.body] == [
        "The staging port is 9191."
    ]


def test_pickle_in_a_store_is_not_executed(tmp_path: Path) -> None:
    class Hostile:
        def __reduce__(self) -> tuple[object, ...]:
            return (Path.touch, (tmp_path / "ran",))

    source = tmp_path / "storage.sqlite"
    connection = sqlite3.connect(source)
    connection.execute("CREATE TABLE points (id TEXT PRIMARY KEY, point BLOB)")
    connection.execute("INSERT INTO points VALUES ('a', ?)", (pickle.dumps(Hostile()),))
    connection.execute("INSERT INTO points VALUES ('b', ?)", (b"no pickle",))
    connection.commit()
    connection.close()
    assert [type(one) for one in contents("mem0", source)] == [Unreadable, Unreadable]
    assert not (tmp_path / "ran").exists()


def test_beliefs_and_types_of_mcp_memory_service_are_carried_over(tmp_path: Path) -> None:
    source = restored(SAMPLES_READ[3], tmp_path)
    read = drafts("mcp-memory-service", source)
    assert [(one.kind, one.label) for one in read[:3]] == [
        ("fact", "decision"),
        ("incident", None),
        ("fact", "note"),
    ]
    assert (read[-1].label, read[-1].is_candidate, read[-1].confidence) == ("belief", True, 0.6)
    relations = [
        one for one in contents("mcp-memory-service", source) if isinstance(one, SourceRelation)
    ]
    assert [one.type for one in relations] == [
        LinkType.DERIVED_FROM,
        None,
        LinkType.CAUSES,
        LinkType.RELATES_TO,
    ]


def test_observation_of_claude_mem_is_imported_with_all_its_fields(tmp_path: Path) -> None:
    bug = drafts("claude-mem", restored(SAMPLES_READ[4], tmp_path))[0]
    assert (bug.kind, bug.headline) == ("incident", "Booking page crash on leap days")
    assert bug.body.splitlines()[-5:] == [
        "- The test now covers leap years",
        "",
        "Files read: src/booking.py",
        "",
        "Files modified: sql/tides.sql",
    ]


def test_bullets_of_basic_memory_become_observations_and_relations(tmp_path: Path) -> None:
    (tmp_path / "Harbour.md").write_text(
        "---\ntitle: Harbour\ntags: [port]\n---\n# Harbour\n\n"
        "The harbour service books berths for ships of all sizes.\n\n## Observations\n\n"
        "- [decision] Berths are locked by row #database (since March)\n"
        "- [ ] Ask the pilots about the crane\n- [00:12] a line of a transcript\n\n"
        "## Relations\n\n- depends_on [[Tide Tables]]\n- replaces [[Quay]] (after the outage)\n"
    )
    (tmp_path / "Tide Tables.md").write_text("Tides are computed, see [[Harbour#Rules|there]].\n")
    read = list(contents("basic-memory", tmp_path))
    decision = next(one for one in read if isinstance(one, Draft) and one.label == "decision")
    assert decision.body == "Harbour: Berths are locked by row #database (since March)"
    assert decision.tags == ("port", "database")
    bodies = " ".join(one.body for one in read if isinstance(one, Draft))
    assert "Harbour replaces Quay (after the outage)" in bodies
    assert "Ask the pilots about the crane" in bodies
    assert "a line of a transcript" in bodies
    harbour, tides = (
        next(one.source_ref or "" for one in read if isinstance(one, Draft) and text in one.body)
        for text in ("The harbour service", "Tides are computed")
    )
    assert [one for one in read if isinstance(one, SourceRelation)] == [
        SourceRelation(first=harbour, second=tides, type=LinkType.DEPENDS_ON),
        SourceRelation(first=tides, second=harbour, type=LinkType.RELATES_TO),
    ]
    assert read[-1] == OmittedContent(what="links to notes that are not there", count=1)


def test_references_of_observations_do_not_change_when_text_is_inserted_before(
    tmp_path: Path,
) -> None:
    note, bullet = tmp_path / "Harbour.md", "- [incident] The crane fell over in the storm\n"
    note.write_text(f"# Harbour\n\n{bullet}{bullet}")
    before = [one.source_ref for one in drafts("basic-memory", note)]
    note.write_text(f"# Harbour\n\n- [incident] The lock jammed at noon\n{bullet}{bullet}")
    after = [one.source_ref for one in drafts("basic-memory", note)]
    assert len(set(before)) == 2
    assert after[1:] == before


def test_embedded_files_on_their_own_line_are_not_text_of_a_note(tmp_path: Path) -> None:
    lines = [
        *("The harbour service books berths for ships of all sizes.", ""),
        *("# Rules", "", "![[crane.png|300]]", ""),
        *("# Plan", "", "- ![[berths.pdf#page=2]]", "- ![[Tide Tables]]"),
        *("- Look at the plan ![[map.svg]] each day", "", "```", "![[code.png]]", "```"),
    ]
    (tmp_path / "Harbour.md").write_text("\n".join(lines))
    (tmp_path / "Tide Tables.md").write_text("Tides are computed for each berth of the harbour.\n")
    read = list(contents("obsidian", tmp_path))
    assert [one.body for one in read if isinstance(one, Draft)] == [
        "The harbour service books berths for ships of all sizes.",
        "Plan:\nLook at the plan ![[map.svg]] each day",
        "Plan:\n```\n![[code.png]]\n```",
        "Tides are computed for each berth of the harbour.",
    ]
    assert not [one for one in read if isinstance(one, Unreadable)]
    assert [one.type for one in read if isinstance(one, SourceRelation)] == [LinkType.RELATES_TO]
    assert OmittedContent(what="embedded files", count=2) in read


def test_note_without_front_matter_has_no_fields(tmp_path: Path) -> None:
    text = "The harbour has these:\ntype: berth\nowner: Ada\nThat is all there is to say.\n"
    (tmp_path / "Harbour.md").write_text(text)
    (draft,) = contents("obsidian", tmp_path)
    assert isinstance(draft, Draft)
    assert (draft.label, draft.body) == (None, text.strip())


def test_edge_is_superseded_by_the_edge_that_begins_at_its_end() -> None:
    read = list(contents("graphiti", SAMPLES / "graphiti/graph.json"))
    replaced = [one for one in read if isinstance(one, SourceRelation) and one.type is None]
    assert replaced == [
        SourceRelation(first="graphiti#edge/r2", second="graphiti#edge/r1", type=None)
    ]


def test_answer_of_an_older_letta_agent_is_its_sent_message() -> None:
    messages = [one for one in drafts("letta", SAMPLES / "letta/agent.af") if one.thread]
    assert [one.body for one in messages] == [
        "Where does the Heron lie?",
        "The Heron lies at berth four.",
        "She sails on Friday.",
    ]


def test_oversized_text_is_split_into_parts_with_the_same_reference(tmp_path: Path) -> None:
    source = tmp_path / "export.json"
    text = "berth " * (TEXT_BYTES_MAX // 2)
    source.write_text(json.dumps([{"id": "m1", "memory": text}]))
    parts = drafts("mem0", source)
    assert [one.part for one in parts] == list(range(1, len(parts) + 1))
    assert {one.source_ref for one in parts} == {"mem0#m1"}
    assert sum(one.body.count("berth") for one in parts) == text.count("berth")


def test_large_graph_is_read_incrementally(tmp_path: Path) -> None:
    source = tmp_path / "memory.jsonl"
    with source.open("w") as stream:
        for number in range(THREE_THOUSAND):
            entity = {"type": "entity", "name": f"ship {number}", "observations": ["Red hull."]}
            stream.write(json.dumps(entity) + "\n")
        stream.write("{")
    first = list(islice(IMPORTERS["mcp-memory"].read(source), 3))
    assert first[-1].progress < 0.5
    assert len(drafts("mcp-memory", source)) == THREE_THOUSAND


def test_database_of_another_program_is_refused_with_its_name(tmp_path: Path) -> None:
    source = tmp_path / "other.db"
    connection = sqlite3.connect(source)
    connection.execute("CREATE TABLE songs (id INTEGER)")
    connection.commit()
    connection.close()
    for format_ in ("mem0", "mcp-memory-service", "claude-mem"):
        with pytest.raises(InvalidInputError, match=r"other\.db") as caught:
            next(contents(format_, source))
        assert caught.value.hint


def test_tags_beyond_the_limit_of_a_memory_are_counted(brain: Brain, tmp_path: Path) -> None:
    source = tmp_path / "export.json"
    tags = [f"tag-{number}" for number in range(TAGS_MAX + 7)]
    memory = {"id": "m1", "memory": "The crane lifts forty tons. " * 2_000, "categories": tags}
    source.write_text(json.dumps([memory]))
    report = brain.import_("mem0", source)
    assert (report.rejected, report.stored > 1) == (0, True)
    assert report.omitted["tags beyond the 50 that a memory has"] == 7
