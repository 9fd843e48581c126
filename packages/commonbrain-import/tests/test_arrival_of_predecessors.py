"""The user of each predecessor arrives: the import is broken off, continued and repeated.

What an importer reads is then in the export of the store, field by field; that it reads each column
of its source or counts it is tested with the importer. Then come the questions of the day before.
"""

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from brainstem_store import fill_sqlite
from fidelity import Exported, Record, begin_import, read_export
from import_samples import only, read
from predecessor_stores import (
    PINS,
    day,
    dump_open_brain,
    dump_openbrain,
    fill_open_brain,
    openbrain_id,
    openbrain_rows,
)
from test_fidelity_brain_db import at, make_database
from typer.testing import CliRunner

import commonbrain
from commonbrain.cli.main import app
from commonbrain.client import Brain
from commonbrain.model.kinds import kind_and_label
from commonbrain.model.memory import Draft
from commonbrain.model.scope import Trust
from commonbrain.transfer.importer import (
    ImportItem,
    SourceAnnotation,
    SourceReceipt,
    SourceRelation,
    SourceThread,
)
from tests.postgres import Server
from tests.processes import AS_PERSON

Sources = Mapping[str, tuple[str, str]]
PREDECESSORS: Final = ("Open Brain v2", "OpenBrain", "Open Brain v1", "brain-db", "Brainstem")


@pytest.fixture(scope="module")
def sources(postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sources]:
    """Give format and place of a store of each predecessor, of more than one batch."""
    folder = tmp_path_factory.mktemp("predecessors")
    with postgres.database(is_empty=True) as one, postgres.database(is_empty=True) as two:
        fill_open_brain(one.owner, "v1")
        fill_open_brain(two.owner, "v2")
        yield {
            "Open Brain v2": ("open-brain", two.owner),
            "OpenBrain": ("openbrain", str(dump_openbrain(folder / "openbrain.sql", count=130))),
            "Open Brain v1": ("open-brain", str(dump_open_brain(one.owner, folder / "v1.sql"))),
            "brain-db": ("brain-db", str(make_database(folder / "brain.db", "own"))),
            "Brainstem": ("brainstem", f"{fill_sqlite(folder / 'brainstem.db')}#t_123"),
        }


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """A store after an import that was broken off, continued and repeated, and its reports."""

    store: Path
    begun: int
    continued: Mapping[str, Any]
    repeated: Mapping[str, Any]


def command(store: Path, *words: str) -> str:
    return CliRunner().invoke(app, ["--store", str(store), *words], catch_exceptions=False).stdout


@pytest.fixture(scope="module")
def arrivals(
    sources: Sources, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Arrival]]:
    folder, arrived = tmp_path_factory.mktemp("arrivals"), dict[str, Arrival]()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in AS_PERSON.items():
            patch.setenv(name, value)
        for predecessor, (format_, source) in sources.items():
            store = folder / f"{predecessor}.db"
            with commonbrain.open(store) as brain:
                begun = begin_import(brain, format_, source)
            continued, repeated = (
                json.loads(command(store, "import", format_, source, "--json")) for _ in range(2)
            )
            arrived[predecessor] = Arrival(
                store=store, begun=begun, continued=continued, repeated=repeated
            )
        yield arrived


@pytest.mark.requirement("MG-36")
@pytest.mark.parametrize("predecessor", PREDECESSORS)
def test_import_that_was_broken_off_is_whole_and_repeated_by_the_command(
    sources: Sources, arrivals: Mapping[str, Arrival], tmp_path: Path, predecessor: str
) -> None:
    one = arrivals[predecessor]
    continued, repeated = one.continued, one.repeated
    assert 0 < one.begun <= continued["exists"] <= continued["read"]
    assert continued["stored"] or continued["carried"], "it was whole already"
    assert (continued["rejected"], repeated["stored"], repeated["carried"]) == (0, 0, {})
    assert repeated["exists"] == continued["read"]
    command(one.store, "export", str(tmp_path / "store.jsonl"))
    pieces, store = read(*sources[predecessor]), read_export(tmp_path / "store.jsonl")
    assert [fault for draft in only(Draft, pieces) for fault in faults_of(draft, store)] == []
    check_records(pieces, store)


def faults_of(draft: Draft, store: Exported) -> Iterator[tuple[str | None, str, object, object]]:
    """Yield the fields in which a memory is not as its source has it."""
    ref = str(draft.source_ref)
    memory: Record = {**MISSING, **store.memory(ref)}
    is_web = draft.trust is Trust.UNTRUSTED_WEB
    given: dict[str, object] = {
        "body": draft.body,
        "kind": str(draft.kind),
        "label": draft.label,
        "project": draft.project,
        "agent": draft.author,
        "trust": draft.trust,
        "confidence": None if is_web else draft.confidence,
        "salience": None if is_web else draft.salience,
        "occurred_at": draft.occurred_at,
        "believed_since": draft.believed_since,
        "expires_at": draft.expires_at,
        "access_count": draft.access_count,
        "last_access_at": draft.last_access_at,
        "rating": draft.rating,
        "pinned": draft.pinned,
        "tags": sorted(draft.tags),
        "scope": draft.scope if draft.scope != "global" or not is_web else "team",
    }
    of_label = kind_and_label(str(draft.kind))
    if of_label is not None and draft.label is None:
        given |= {"kind": of_label[0], "label": of_label[1]}
    for name, value in given.items():
        there = sorted(memory[name]) if name == "tags" else memory[name]
        there = datetime.fromisoformat(str(there)) if isinstance(value, datetime) else there
        if value is not None and there != value:
            yield ref, name, value, there
    if draft.original_ref not in {None, memory["payload"]["imported"].get("source_ref")}:
        yield ref, "original_ref", draft.original_ref, memory["payload"]


MISSING: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("label", "project", "expires_at", "last_access_at", "believed_since")),
    **dict.fromkeys(("access_count", "rating"), 0),
    "pinned": False,
    "tags": [],
    "scope": "team",
}
"""What an export leaves out."""


def check_records(pieces: Sequence[ImportItem], store: Exported) -> None:
    """Check that links, corrections, notes, receipts and threads are as their source has them."""
    memories = {one["id"]: one for one in store.of("memory")}
    refs = {id_: one["source_ref"] for id_, one in memories.items()}
    known = {one.source_ref for one in only(Draft, pieces)}
    relations = [one for one in only(SourceRelation, pieces) if {one.first, one.second} <= known]
    assert {(one.first, one.second, str(one.type)) for one in relations if one.type} <= {
        (refs[one["from_id"]], refs[one["to_id"]], one["type"]) for one in store.of("link")
    }
    reasons = {
        (refs[one["memory_id"]], one["reason"].partition(": ")[2])
        for one in store.of("change")
        if one["action"] == "supersede"
    }
    for one in (one for one in relations if one.type is None):
        old = store.memory(one.second)
        assert refs[old["superseded_by"]] == one.first
        assert one.at in {None, datetime.fromisoformat(old["superseded_at"])}
        assert (one.second, one.reason or "") in reasons
    assert {(one.about, one.text) for one in only(SourceAnnotation, pieces)} == {
        (refs[one["memory_id"]], one["text"]) for one in store.of("annotation")
    }
    assert {(one.message, one.agent, one.answer) for one in only(SourceReceipt, pieces)} == {
        (refs[one["message_id"]], one["agent"], one.get("answer")) for one in store.of("receipt")
    }
    assert {(one.key, one.is_closed, one.tags) for one in only(SourceThread, pieces)} == {
        (one["key"], one.get("status") == "closed", tuple(one["tags"]))
        for one in store.of("thread")
    }


# The questions of the day before.


@contextmanager
def opened(arrivals: Mapping[str, Arrival], predecessor: str) -> Generator[Brain]:
    with commonbrain.open(arrivals[predecessor].store) as brain:
        yield brain


def answers(brain: Brain, question: str, **options: Any) -> list[str]:  # noqa: ANN401 of recall
    return [str(item.body) for item in brain.recall(question, **options).items]


def corrections(brain: Brain, place: str) -> list[tuple[str | None, datetime]]:
    """Return reason and time of each correction in the chain of a memory."""
    events = brain.get(place, views=["history"]).history or ()
    return [(one.reason, one.at) for one in events if one.action == "supersede"]


@pytest.mark.requirement("MG-26")
def test_user_of_open_brain_2_goes_on_with_rules_tasks_and_incidents(
    arrivals: Mapping[str, Arrival],
) -> None:
    with opened(arrivals, "Open Brain v2") as brain:
        booted = brain.boot(project="harbour", task="The ferry stands still")
        assert "Rule 6 of the harbour" in {one.headline for one in booted.patterns}
        assert {"Fact 6 of the harbour", "Incident 6 of the harbour"} <= {
            one.headline for one in booted.pinned
        }
        assert "is half done; the sums are missing" in str(booted.handoff)
        assert not booted.writes_blocked
        [incident] = brain.recall("Why did the ferry stand still?", kinds=["incident"]).items[:1]
        detail = brain.get(incident.id).detail
        assert (detail["root_cause"], detail["resolution"]) == (
            "Fuse 4 had blown.",
            "Fuse 4 was replaced.",
        )
        old = brain.get("open-brain-v2#rule/1")
        assert (old.state, old.detail["severity"]) == ("superseded", "DEPRECATED")
        assert old.current_id == brain.get("open-brain-v2#rule/3").id
        assert [(reason, at) for reason, at in corrections(brain, old.id)] == [
            ("imported from open-brain: new policy", day(2)),
            ("imported from open-brain: the vendor changed it", day(3)),
        ]
        where = "Where was the tug built?"
        assert "The tug 1 was built in Gdansk." not in answers(brain, where)
        then = answers(brain, where, as_of=day(1) + timedelta(hours=2))
        assert then[0] == "The tug 1 was built in Gdansk."
        assert brain.get(skill="nginx-reload").source_ref == "open-brain-v2#rule/13"


@pytest.mark.requirement("MG-26")
def test_user_of_openbrain_asks_by_agent_type_tag_and_former_id(
    arrivals: Mapping[str, Arrival],
) -> None:
    with opened(arrivals, "OpenBrain") as brain:
        rows = [row for row in openbrain_rows(130) if row["deleted_at"] is None]
        decisions = {
            row["content"] for row in rows if (row["agent_id"], row["type"]) == ("lem", "decision")
        }
        listed = brain.list(agent="lem", labels="decision").memories
        assert {brain.get(one.id).body for one in listed} == decisions != set()
        first = brain.recall("Which quay needs two operators in plan 42?").items[0]
        assert (first.body, first.tags) == ("In plan 42, the quay needs two operators.", ("tag42",))
        old = brain.get(f"openbrain#{openbrain_id(1)}")
        assert old.current_id == brain.get(f"openbrain#{openbrain_id(3)}").id
        assert [at for _, at in corrections(brain, old.id)] == [
            day(number) + timedelta(days=30) for number in (1, 2)
        ]
        assert old.body in answers(brain, "What is in plan 1?", as_of=day(20))
        assert old.body not in answers(brain, "What is in plan 1?")


@pytest.mark.requirement("MG-26")
def test_user_of_open_brain_1_boots_with_pins_and_knows_what_was_believed(
    arrivals: Mapping[str, Arrival],
) -> None:
    with opened(arrivals, "Open Brain v1") as brain:
        booted = brain.boot(project="harbour")
        entries = (*booted.blockers, *booted.patterns, *booted.pinned)
        assert {one.headline for one in entries} == set(PINS)
        port = "Which port does service number 4 listen on?"
        assert answers(brain, port)[0] == "Service number 4 listens on port 6004."
        then = answers(brain, port, as_of=day(13) + timedelta(hours=1))
        assert then[0] == "Service number 4 listens on port 4004."
        stale = brain.get("open-brain#13")
        assert (stale.body, stale.current_id) == (
            "Service number 4 listens on port 4004.",
            brain.get("open-brain#15").id,
        )
        assert corrections(brain, stale.id)[0] == (
            "imported from open-brain: the vendor changed it",
            day(13) + timedelta(days=20),
        )
        noted = brain.get("open-brain#138", views=["annotations", "policy"])
        assert [one.text for one in noted.annotations or ()] == [
            "Checked with the port office, file 138."
        ]
        assert (noted.agent, noted.rating, noted.policy and noted.policy.access_count) == (
            "claude",
            3,
            138,
        )
        assert brain.get(skill="redis-shutdown").source_ref == "open-brain#35"


@pytest.mark.requirement("MG-26")
def test_agents_of_brain_db_find_their_talk_what_it_taught_and_what_it_caused(
    arrivals: Mapping[str, Arrival],
) -> None:
    with opened(arrivals, "brain-db") as brain:
        nova = brain.acting_as(agent="nova")
        assert nova.message.inbox().messages == ()
        threads = {one.subject: str(one.status) for one in nova.message.threads(limit=50).threads}
        assert (threads["Berth 3"], threads["Berth 9"]) == ("closed", "open")
        [answer, *_] = answers(nova, "Which berth has the ferry number 7?")
        assert answer.startswith("The ferry number 7 has berth 7.")
        [entry, *_] = nova.recall("How deep is quay 7?", kinds=["event"]).items
        assert entry.body == "Quay 7 is 7 metres deep."
        assert entry.source is not None
        assert (entry.source.by, entry.source.to) == ("helios", "nova")
        cause = brain.get("brain-db#atom/atm_000000000007")
        assert "ship 8 waits" in str(brain.trace.effects(cause.id))
        before = datetime.fromisoformat(at(0))
        assert answers(nova, "How deep is quay 7?", as_of=before) == []


@pytest.mark.requirement("MG-26")
def test_agents_of_brainstem_recall_by_trust_scope_and_link(
    arrivals: Mapping[str, Arrival],
) -> None:
    with opened(arrivals, "Brainstem") as brain:
        planner = brain.acting_as(agent="t_123_a_planner")
        question = "Where does depot 1 keep its keys?"
        [first, *_] = planner.recall(question, kinds=["fact"]).items
        assert first.body == "The depot 1 keeps its keys in box 1."
        assert brain.get("brainstem#mem_01", views=["provenance"]).attachment == {
            "ticket": "OPS-1",
            "hours": [1, None],
        }
        web = "The depot 25 keeps its keys in box 25."
        about_web = "Where does depot 25 keep its keys?"
        assert web not in answers(planner, about_web)
        assert web in answers(planner, about_web, trust_min=0.1)
        links = brain.get("brainstem#mem_00", views=["links"]).links or ()
        assert {"depends_on", "supports"} <= {str(one.type) for one in links}
