"""brain-db: the samples are what its own code wrote, see `make/make_brain_db.py`."""

import json
import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest
from import_samples import (
    IMPORTERS,
    SAMPLES,
    by_body,
    by_ref,
    kinds,
    load,
    omitted,
    only,
    read,
)

from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import AtomDetail, EventDetail, MessageDetail, TaskDetail
from commonbrain.model.limits import TEXT_BYTES_MAX
from commonbrain.model.links import LinkType
from commonbrain.model.memory import Draft
from commonbrain.transfer.importer import SourceReceipt, SourceRelation, Unreadable

BRAIN_DB = SAMPLES / "brain-db"
OLD_FILES = ("synapse.json", "stm.json", "working_memory.json", "categories.json")


def old_folder(folder: Path) -> Path:
    """Make the folder of the version before brain.db: four JSON files and two databases."""
    folder.mkdir(exist_ok=True)
    for name in OLD_FILES:
        shutil.copyfile(BRAIN_DB / name, folder / name)
    load(BRAIN_DB / "atoms.sql", folder / ".atoms.db")
    load(BRAIN_DB / "embeddings.sql", folder / ".embeddings.db")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder with all seven files."""
    made = old_folder(tmp_path / "memory")
    load(BRAIN_DB / "brain.sql", made / "brain.db")
    return made


@pytest.mark.requirement("MG-04")
def test_messages_entries_atoms_tasks_pins_and_categories_of_brain_db_are_imported(
    folder: Path,
) -> None:
    pieces = read("brain-db", folder / "brain.db")
    assert kinds(pieces) == {"message": 9, "event": 6, "task": 2, "atom": 2, "rule": 1, "fact": 2}
    assert [piece.progress for piece in pieces] == sorted(piece.progress for piece in pieces)
    assert only(Unreadable, pieces) == []


@pytest.mark.requirement("MG-04")
def test_messages_of_brain_db_have_thread_sender_time_and_priority(folder: Path) -> None:
    texts = by_body(read("brain-db", folder / "brain.db"))
    ask = texts["Deploy the ingest first, then the page."]
    done = texts["Done: ingest at 14:02, page at 14:10."]
    answer = texts["Will do, ingest goes first."]
    assert ask.thread == done.thread == answer.thread
    assert ask.thread is not None
    assert ask.thread.subject == "Deploy order"
    assert isinstance(ask.detail, MessageDetail)
    assert isinstance(answer.detail, MessageDetail)
    assert (ask.detail.sender, ask.detail.priority, ask.detail.recipients) == (
        "helios",
        "action",
        ("claude-code",),
    )
    assert (answer.detail.sender, answer.detail.recipients) == ("claude-code", ())
    assert ask.occurred_at == ask.believed_since is not None
    freeze = texts["No deploys on Friday."].detail
    assert isinstance(freeze, MessageDetail)
    assert freeze.recipients == ()


@pytest.mark.requirement("MG-04")
def test_delegated_task_of_brain_db_has_state_context_and_result(folder: Path) -> None:
    (task,) = (
        one for body, one in by_body(read("brain-db", folder)).items() if body.startswith("Renew")
    )
    assert task.body == (
        "Renew the certificate of the gateway.\n\n[task] complete\n\n"
        "[context] It ends in March.\n\n[result] Renewed until 2028."
    )
    assert task.expires_at is not None


@pytest.mark.requirement("MG-04")
def test_entries_atoms_tasks_and_pins_of_brain_db_have_their_columns(folder: Path) -> None:
    pieces = read("brain-db", folder / "brain.db")
    texts = by_body(pieces)
    entry = texts["The gateway needs a restart after a certificate change."]
    assert isinstance(entry.detail, EventDetail)
    assert entry.detail.importance == pytest.approx(2 / 3)
    assert (entry.author, entry.tags, entry.label) == ("nova", ("extracted",), "stm")
    (atom,) = (one for one in only_atoms(texts.values()) if one.subject == "the certificate")
    assert (atom.action, atom.outcome) == ("expires", "the gateway refuses clients")
    todo = texts["Write the runbook of the gateway\n\nWith the certificate steps."]
    assert isinstance(todo.detail, TaskDetail)
    assert (todo.detail.status, todo.detail.priority, todo.detail.assignee) == (
        "open",
        "high",
        "nova",
    )
    assert todo.detail.due_at is not None
    assert todo.tags == ("docs",)
    pinned = {
        piece.content.body
        for piece in pieces
        if isinstance(piece.content, Draft) and piece.content.pinned
    }
    assert pinned == {
        "Never restart the trading bot while the market is open.",
        "The gateway listens on port 8443.",
    }


def only_atoms(drafts: Iterable[Draft]) -> list[AtomDetail]:
    return [one.detail for one in drafts if isinstance(one.detail, AtomDetail)]


@pytest.mark.requirement("MG-04")
def test_derivations_and_causes_of_brain_db_become_relations(folder: Path) -> None:
    pieces = read("brain-db", folder / "brain.db")
    drafts = by_ref(pieces)
    relations = only(SourceRelation, pieces)
    bodies = {
        (drafts[one.first.partition("#")[2]].body[:20], one.type): drafts[
            one.second.partition("#")[2]
        ].body[:20]
        for one in relations
    }
    assert bodies == {
        ("The gateway needs a ", LinkType.DERIVED_FROM): "@insight The gateway",
        ("the certificate | ex", LinkType.DERIVED_FROM): "@insight The gateway",
        ("Where is the certifi", LinkType.ABOUT): "@insight The gateway",
        ("the certificate | ex", LinkType.ENABLES): "agents without tools",
    }
    assert next(one for one in relations if one.type is LinkType.ENABLES).strength == 0.6


@pytest.mark.requirement("MG-04", "MG-07")
def test_row_migrated_into_brain_db_is_stored_once(brain: Brain, folder: Path) -> None:
    """Messages, entries and pins are in the old files and in the database made from them."""
    report = brain.import_("brain-db", folder)
    alone = brain.import_("brain-db", folder / "brain.db")
    assert (report.rejected, report.unreadable, alone.stored) == (0, 0, 0)
    # 3 messages and an answer, 2 + 3 entries and 2 pins of the database are there twice or more.
    assert report.exists > 0
    assert report.read == report.stored + report.exists
    assert report.carried["pins"] == 2
    again = brain.import_("brain-db", folder)
    assert (again.stored, again.exists) == (0, again.read)


@pytest.mark.requirement("MG-04")
def test_older_files_of_the_folder_are_read_without_brain_db(tmp_path: Path) -> None:
    pieces = read("brain-db", old_folder(tmp_path / "old"))
    assert kinds(pieces) == {"message": 4, "event": 5, "atom": 2, "rule": 1, "fact": 1}
    (link,) = only(SourceRelation, pieces)
    assert (link.type, link.strength) == (LinkType.CAUSES, 0.7)
    read_, acked = only(SourceReceipt, pieces)
    assert (read_.message, read_.agent) == (acked.message, acked.agent)
    assert read_.read_at == acked.acked_at is not None
    assert acked.answer == "Will do, ingest goes first."
    assert omitted(pieces) == {
        "agents of the file": 2,
        "auto_expire_days of the file": 1,
        "capacity of the file": 1,
        "embedding_text of memories": 3,
        "observation_count of causal_links": 1,
        "sources that name no agent": 5,
        "version of the file": 1,
    }
    (category,) = (one for one in by_body(pieces).values() if one.label == "category")
    assert category.body == "Category ops: Running the servers\nKeywords: deploy, backup"


@pytest.mark.requirement("MG-04")
def test_each_file_of_brain_db_can_be_imported_alone(
    folder: Path, subtests: pytest.Subtests
) -> None:
    for name, count in [
        *(("synapse.json", 4), ("stm.json", 2), (".atoms.db", 2), (".embeddings.db", 3)),
        *(("working_memory.json", 1), ("categories.json", 1)),
    ]:
        with subtests.test(name=name, count=count):
            assert len(by_ref(read("brain-db", folder / name))) == count


@pytest.mark.requirement("MG-04")
def test_omitted_parts_of_brain_db_are_counted(folder: Path) -> None:
    counted = omitted(read("brain-db", folder / "brain.db"))
    assert counted == {
        "completed_at of todos": 1,
        "observation_count of causal_links": 1,
        "position of working_memory": 1,
        "sources that name no agent": 5,
        "templates of tasks": 5,
        "updated_at of messages": 1,
        "updated_at of todos": 2,
    }


def test_unknown_table_of_brain_db_is_counted_by_its_name(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "brain.db")) as connection, connection:
        connection.execute("CREATE TABLE dreams (id TEXT)")
        connection.execute("INSERT INTO dreams VALUES ('one')")
    assert omitted(read("brain-db", folder / "brain.db"))["rows of the table dreams"] == 1


def test_truncated_json_file_is_read_up_to_the_break_which_is_reported(folder: Path) -> None:
    torn = folder / "synapse.json"
    text = torn.read_text()
    torn.write_text(text[: text.index("No deploys")])
    pieces = read("brain-db", torn)
    assert len(by_ref(pieces)) == 3
    (unreadable,) = only(Unreadable, pieces)
    assert "From here on it cannot be read" in unreadable.reason


def test_foreign_file_in_the_folder_is_reported_and_the_others_are_read(folder: Path) -> None:
    (folder / "stm.json").write_text('{"notes": []}')
    (unreadable,) = only(Unreadable, read("brain-db", folder))
    assert (unreadable.where, "none of the lists" in unreadable.reason) == ("stm.json", True)


def test_foreign_source_is_refused_by_brain_db_with_the_next_step(tmp_path: Path) -> None:
    (tmp_path / "stm.json").write_text("{")
    for source in (tmp_path, tmp_path / "stm.json", tmp_path / "none", tmp_path / "none.json"):
        with pytest.raises(InvalidInputError) as refused:
            read("brain-db", source)
        assert "brain.db" in (refused.value.hint or "")


def test_long_entry_is_split_and_damaged_rows_are_reported(tmp_path: Path) -> None:
    long = "\n".join(f"{n} the crane moved the container to the north quay" for n in range(2000))
    items = [
        {"content": long, "timestamp": "2026-02-01T10:00:00", "importance": 1.0},
        {"content": "", "timestamp": "2026-02-01T10:00:00"},
        "no object",
        {"content": "The last entry is read.", "timestamp": "never", "importance": "high"},
    ]
    (tmp_path / "stm.json").write_text(json.dumps({"short_term_memory": items}))
    pieces = read("brain-db", tmp_path / "stm.json")
    bodies = [one.body for one in by_body(pieces).values()]
    assert "\n".join(bodies[:-1]) == long
    assert all(len(body.encode()) <= TEXT_BYTES_MAX for body in bodies)
    assert bodies[-1] == "The last entry is read."
    assert len(only(Unreadable, pieces)) == 2


def test_messages_of_brain_db_are_read_one_by_one(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "brain.db")) as connection, connection:
        connection.executemany(
            "INSERT INTO messages (id, thread_id, from_agent, body, created_at) "
            "VALUES (?, 'thr_1', 'nova', ?, '2026-02-01T10:00:00')",
            ((f"syn_{n}", f"Container {n} is on the quay. {'x' * 1000}") for n in range(1500)),
        )
    pieces = IMPORTERS["brain-db"].read(folder / "brain.db")
    first = list(islice(pieces, 3))
    assert first[-1].progress < 0.01
    assert len(by_ref(read("brain-db", folder / "brain.db"))) == 1520


def test_brain_db_is_found_in_the_workspace_of_openclaw(folder: Path, tmp_path: Path) -> None:
    workspace = tmp_path / ".openclaw" / "workspace"
    workspace.mkdir(parents=True)
    shutil.copytree(folder, workspace / "memory")
    (source,) = IMPORTERS["brain-db"].find(tmp_path)
    assert (source.path, source.count) == (workspace / "memory", 7)
    assert list(IMPORTERS["brain-db"].find(tmp_path / "elsewhere")) == []
