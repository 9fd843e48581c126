"""What becomes of each column of brain.db, whatever its ids look like."""

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from brain_db_samples import insert, make_brain_db
from fidelity import (
    CarriedOver,
    Fate,
    Left,
    Used,
    check_fidelity,
    import_interrupted,
    sqlite_columns,
)
from import_samples import by_ref, only, read

from commonbrain.client import Brain
from commonbrain.model.kinds import AtomDetail, EventDetail, MessageDetail, TaskDetail
from commonbrain.model.links import LinkType
from commonbrain.model.timestamps import parse_instant
from commonbrain.transfer.importer import (
    ImportItem,
    SourceReceipt,
    SourceRelation,
    SourceThread,
)

FORMS: Mapping[str, Mapping[str, str]] = {
    "own": {
        "msg": "syn_{:012x}",
        "stm": "stm_{:012x}",
        "atom": "atm_{:012x}",
        "thread": "thr_{:012x}",
    },
    "integers": {"msg": "{}", "stm": "{}", "atom": "{}", "thread": "{}"},
    "uuids": dict.fromkeys(("msg", "stm", "atom", "thread"), "6ba7b810-9dad-11d1-80b4-{:012x}"),
}
MESSAGES, ENTRIES, ATOMS, THREADS = 40, 20, 15, 10


def at(minute: int) -> str:
    return (datetime(2026, 2, 1, 18, tzinfo=UTC) + timedelta(minutes=minute)).isoformat()


def fill_talk(connection: sqlite3.Connection, id_of: Mapping[str, str]) -> None:
    """Fill the tables of messages: ten threads of four, of which the first five are closed."""
    for n in range(1, THREADS + 1):
        insert(
            connection,
            "threads",
            id=id_of["thread"].format(n),
            subject=f"Berth {n}",
            created_by="nova",
            created_at=at(n),
            last_message_at=at(n + 9),
            message_count=4,
            status="closed" if n <= 5 else "active",
            tags=f'["berth-{n}"]',
        )
    for n in range(1, MESSAGES + 1):
        id_, sender = id_of["msg"].format(n), ("nova", "helios")[n % 2]
        insert(
            connection,
            "messages",
            id=id_,
            thread_id=id_of["thread"].format(n % THREADS + 1),
            priority="action",
            parent_id=id_of["msg"].format(n - 1) if n > 1 else id_of["msg"].format(2),
            from_agent=sender,
            to_agent="helios" if sender == "nova" else "nova",
            subject=f"Berth {n}",
            body=f"The ferry number {n} has berth {n}.",
            created_at=at(n),
            updated_at=at(n + 1),
            metadata='{"lang": "en"}',
            expires_at="2036-01-01T00:00:00",
            task_status="complete",
            result=f"Result {n}.",
            context=f"Context {n}.",
        )
        reader = "helios" if sender == "nova" else "nova"
        receipt = {"message_id": id_, "agent_id": reader}
        insert(connection, "read_receipts", **receipt, read_at=at(n + 5))
        if n <= 20:
            answer = f"Berth {n} is noted." if n <= 10 else None
            insert(connection, "acks", **receipt, ack_body=answer, acked_at=at(n + 6))


def fill_knowledge(connection: sqlite3.Connection, id_of: Mapping[str, str]) -> None:
    for n in range(1, ENTRIES + 1):
        insert(
            connection,
            "stm",
            id=id_of["stm"].format(n),
            content=f"Quay {n} is {n} metres deep.",
            categories='["harbour"]',
            importance=1.5,
            access_count=n,
            created_at=at(n),
            updated_at=at(n),
            expires_at="2036-01-01T00:00:00",
            source="synapse:nova",
            source_message_id=id_of["msg"].format(n),
            confidence=0.8,
            last_accessed=at(n + 50),
        )
    vectors = dict.fromkeys(
        [f"{one}_embedding" for one in ("subject", "action", "outcome", "consequences")], b"\1"
    )
    for n in range(1, ATOMS + 1):
        insert(
            connection,
            "atoms",
            id=id_of["atom"].format(n),
            subject=f"crane {n}",
            action="stops",
            outcome=f"ship {n} waits",
            consequences=f"the quay {n} is full",
            confidence=0.7,
            source="helios",
            created_at=at(n),
            access_count=n,
            source_message_id=id_of["msg"].format(n),
            source_type="unknown",
            action_timestamp=at(n - 60),
            outcome_delay_seconds=60.0,
            consequence_delay_seconds=120.0,
            source_memory_id=id_of["stm"].format(n),
            **vectors,
        )
    for n in range(1, ATOMS):
        link = {
            "from_atom_id": id_of["atom"].format(n),
            "to_atom_id": id_of["atom"].format(n + 1),
            "strength": 0.6,
            "observation_count": 2,
            "last_observed": at(n),
            "created_at": at(n),
        }
        insert(connection, "causal_links", id=n, link_type="enables", **link)
        insert(connection, "atom_links", id=n, link_type="soothes", **link)


def fill_rest(connection: sqlite3.Connection) -> None:
    insert(
        connection,
        "embeddings",
        id="1",
        source_type="stm",
        source_id="1",
        content="x",
        embedding=b"\1",
        created_at=at(0),
    )
    insert(
        connection,
        "todos",
        id="1",
        title="Order the new ropes",
        description="Twelve of them.",
        status="done",
        priority="high",
        assigned_to="nova",
        tags='["ropes"]',
        due_at=at(90),
        template_id="1",
        created_at=at(1),
        updated_at=at(2),
        completed_at=at(3),
    )
    insert(
        connection,
        "todo_templates",
        id="1",
        name="t",
        title_pattern="p",
        description_pattern="d",
        example="e",
        created_at=at(0),
    )
    pin = {"id": "1", "label": "harbour", "content": "The harbour office is in Dock Road."}
    insert(connection, "working_memory", **pin, pinned_at=at(4), position=1)
    category = {"name": "ops", "description": "Running the quay", "keywords": '["crane"]'}
    insert(connection, "categories", **category, created_at=at(5))
    insert(connection, "session_states", id="1", start_time=at(0))


def make_database(database: Path, form: str) -> Path:
    """Make a brain.db of the sizes of a small team, with a value in each column."""
    with make_brain_db(database, has_integers=form == "integers") as connection:
        fill_talk(connection, FORMS[form])
        fill_knowledge(connection, FORMS[form])
        fill_rest(connection)
    return database


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def database(form: str, tmp_path: Path) -> Path:
    return make_database(tmp_path / "harbour.db", form)


@pytest.mark.requirement("MG-14")
def test_links_of_brain_db_are_read_by_the_meaning_of_their_columns(database: Path) -> None:
    """Integers are ids of the messages, the entries and the atoms alike."""
    pieces = read("brain-db", database)
    drafts = by_ref(pieces)
    relations = only(SourceRelation, pieces)
    ends = [end.partition("#")[2] for one in relations for end in (one.first, one.second)]
    assert set(ends) <= set(drafts)
    derived = [
        (one.first.partition("#")[2].split("/")[0], one.second.partition("#")[2].split("/")[0])
        for one in relations
        if one.type is LinkType.DERIVED_FROM
    ]
    assert {pair: derived.count(pair) for pair in derived} == {
        ("stm", "message"): ENTRIES,
        ("atom", "message"): ATOMS,
        ("atom", "stm"): ATOMS,
    }
    for one in relations:
        if one.type is LinkType.DERIVED_FROM:
            assert one.first.rpartition("/")[2][-2:] == one.second.rpartition("/")[2][-2:]


@pytest.mark.requirement("MG-07")
def test_import_of_brain_db_that_was_interrupted_is_continued_and_repeated(
    brain: Brain, database: Path
) -> None:
    report = import_interrupted(brain, "brain-db", database)
    assert (report.rejected, report.unreadable) == (0, 0)
    # 40 messages and 10 answers, 20 entries, 15 atoms, a task, a pin and a category.
    assert brain.status().memories == 88


@pytest.mark.requirement("MG-15", "MG-16")
def test_each_column_of_brain_db_comes_over_or_is_in_the_report(
    brain: Brain, database: Path, form: str
) -> None:
    pieces = read("brain-db", database)
    report = brain.import_("brain-db", database)
    fates = {**fates_of_talk(pieces, FORMS[form]), **fates_of_knowledge(pieces, FORMS[form])}
    check_fidelity(
        sqlite_columns(database), fates={**fates, **fates_of_rest(pieces)}, report=report
    )


def each(table: str, fates: Mapping[str, Fate]) -> Mapping[str, Fate]:
    return {f"{table}.{column}": fate for column, fate in fates.items()}


def fates_of_talk(pieces: Sequence[ImportItem], id_of: Mapping[str, str]) -> Mapping[str, Fate]:
    first, second = (f"message/{id_of['msg'].format(n)}" for n in (1, 2))
    drafts = by_ref(pieces)
    draft = drafts[second]
    detail, thread = draft.detail, draft.thread
    assert isinstance(detail, MessageDetail)
    assert thread is not None
    status = next(one for one in only(SourceThread, pieces) if one.key == thread.key)
    answers = next(
        one
        for one in only(SourceRelation, pieces)
        if one.first == draft.source_ref and one.type is LinkType.ABOUT
    )
    (seen,) = (one for one in only(SourceReceipt, pieces) if one.message == draft.source_ref)
    silent = [one for one in only(SourceReceipt, pieces) if one.acked_at and not one.answer]
    assert (len(only(SourceReceipt, pieces)), len(silent)) == (40, 10)
    assert sum(one.is_closed for one in only(SourceThread, pieces)) == 5
    body = "The ferry number 2 has berth 2."
    computed = Used("follows from the thread's messages")
    return {
        **each(
            "messages",
            {
                "id": CarriedOver(f"brain-db#{second}", draft.source_ref),
                "thread_id": CarriedOver(
                    f"brain-db#thread/{id_of['thread'].format(3)}", thread.key
                ),
                "parent_id": CarriedOver(f"brain-db#{first}", answers.second),
                "from_agent": CarriedOver("nova", detail.sender),
                "to_agent": CarriedOver(("helios",), detail.recipients),
                "priority": CarriedOver("action", detail.priority),
                "subject": CarriedOver("Berth 2", detail.subject),
                "body": CarriedOver(body, draft.body.split("\n")[0]),
                "created_at": CarriedOver((parse_instant(at(2)),) * 2, times_of(draft)),
                "updated_at": Left("updated_at of messages"),
                "metadata": Left("metadata of messages"),
                "expires_at": CarriedOver(parse_instant("2036-01-01T00:00:00"), draft.expires_at),
                "task_status": CarriedOver("[task] complete", draft.body.split("\n\n")[1]),
                "context": CarriedOver("[context] Context 2.", draft.body.split("\n\n")[2]),
                "result": CarriedOver("[result] Result 2.", draft.body.split("\n\n")[3]),
            },
        ),
        **each(
            "threads",
            {
                "id": CarriedOver(f"brain-db#thread/{id_of['thread'].format(3)}", status.key),
                "subject": CarriedOver("Berth 3", thread.subject),
                "status": CarriedOver("closed", "closed" if status.is_closed else "active"),
                "tags": CarriedOver(("berth-3",), status.tags),
                **dict.fromkeys(
                    ("created_by", "created_at", "last_message_at", "message_count"), computed
                ),
            },
        ),
        **each(
            "read_receipts",
            {
                "message_id": CarriedOver(f"brain-db#{second}", seen.message),
                "agent_id": CarriedOver("helios", seen.agent),
                "read_at": CarriedOver(parse_instant(at(7)), seen.read_at),
            },
        ),
        **each(
            "acks",
            {
                "message_id": CarriedOver(f"brain-db#{second}", seen.message),
                "agent_id": CarriedOver("helios", seen.agent),
                "ack_body": CarriedOver("Berth 2 is noted.", seen.answer),
                "acked_at": CarriedOver(parse_instant(at(8)), seen.acked_at),
            },
        ),
    }


def times_of(draft: object) -> tuple[object, object]:
    return getattr(draft, "occurred_at", None), getattr(draft, "believed_since", None)


def fates_of_knowledge(
    pieces: Sequence[ImportItem], id_of: Mapping[str, str]
) -> Mapping[str, Fate]:
    drafts = by_ref(pieces)
    entry, atom = drafts[f"stm/{id_of['stm'].format(3)}"], drafts[f"atom/{id_of['atom'].format(3)}"]
    assert isinstance(entry.detail, EventDetail)
    assert isinstance(atom.detail, AtomDetail)
    relations = only(SourceRelation, pieces)
    origin = next(one.second for one in relations if one.first == entry.source_ref)
    origins = {
        one.second
        for one in relations
        if (one.first, one.type) == (atom.source_ref, "derived_from")
    }
    named, other = (
        next(one for one in relations if (one.first, one.type) == (atom.source_ref, type_))
        for type_ in (LinkType.ENABLES, LinkType.RELATES_TO)
    )
    message = f"brain-db#message/{id_of['msg'].format(3)}"
    link = {
        "id": Used("names the ends, which are kept"),
        "from_atom_id": CarriedOver(atom.source_ref, named.first),
        "to_atom_id": CarriedOver(f"brain-db#atom/{id_of['atom'].format(4)}", named.second),
        "strength": CarriedOver(0.6, named.strength),
        "last_observed": CarriedOver(parse_instant(at(3)), named.at),
        "created_at": Used("is the time if no later one is there"),
    }
    vectors = ("subject", "action", "outcome", "consequences")
    return {
        **each(
            "stm",
            {
                "id": CarriedOver(f"brain-db#stm/{id_of['stm'].format(3)}", entry.source_ref),
                "content": CarriedOver("Quay 3 is 3 metres deep.", entry.body),
                "categories": CarriedOver(("harbour",), entry.tags),
                "importance": CarriedOver(0.5, entry.detail.importance),
                "access_count": CarriedOver(3, entry.access_count),
                "created_at": CarriedOver((parse_instant(at(3)),) * 2, times_of(entry)),
                "updated_at": Left("updated_at of stm"),
                "expires_at": CarriedOver(parse_instant("2036-01-01T00:00:00"), entry.expires_at),
                "source": CarriedOver("nova", entry.author),
                "source_message_id": CarriedOver(message, origin),
                "confidence": CarriedOver(0.8, entry.confidence),
                "last_accessed": CarriedOver(parse_instant(at(53)), entry.last_access_at),
            },
        ),
        **each(
            "atoms",
            {
                "id": CarriedOver(f"brain-db#atom/{id_of['atom'].format(3)}", atom.source_ref),
                "subject": CarriedOver("crane 3", atom.detail.subject),
                "action": CarriedOver("stops", atom.detail.action),
                "outcome": CarriedOver("ship 3 waits", atom.detail.outcome),
                "consequences": CarriedOver("the quay 3 is full", atom.detail.consequences),
                "confidence": CarriedOver(0.7, atom.confidence),
                "source": CarriedOver("helios", atom.author),
                "source_message_id": CarriedOver(
                    message, next(one for one in origins if "message" in one)
                ),
                "source_type": Used("names the table of source_message_id"),
                "created_at": CarriedOver(parse_instant(at(3)), atom.believed_since),
                "access_count": CarriedOver(3, atom.access_count),
                "action_timestamp": CarriedOver(parse_instant(at(-57)), atom.occurred_at),
                "outcome_delay_seconds": CarriedOver(60.0, atom.detail.outcome_delay_s),
                "consequence_delay_seconds": CarriedOver(120.0, atom.detail.consequence_delay_s),
                "source_memory_id": CarriedOver(
                    entry.source_ref, next(one for one in origins if "stm" in one)
                ),
                **{f"{one}_embedding": Left(f"{one}_embedding of atoms") for one in vectors},
            },
        ),
        **each("causal_links", {**link, "link_type": CarriedOver("enables", named.type)}),
        "causal_links.observation_count": Left("observation_count of causal_links"),
        **each("atom_links", {**link, "link_type": CarriedOver("soothes", other.reason)}),
        "atom_links.observation_count": Left("observation_count of atom_links"),
    }


def fates_of_rest(pieces: Sequence[ImportItem]) -> Mapping[str, Fate]:
    drafts = by_ref(pieces)
    task, category = drafts["todo/1"], drafts["category/ops"]
    pin = next(one for one in drafts.values() if one.pinned)
    assert isinstance(task.detail, TaskDetail)
    in_rows = {
        "embeddings": ("vectors", "id source_type source_id content embedding model created_at"),
        "todo_templates": (
            "templates of tasks",
            "id name title_pattern description_pattern default_priority default_tags example"
            " created_at",
        ),
        "session_states": ("states of sessions", "id start_time"),
    }
    return {
        **each(
            "todos",
            {
                "id": CarriedOver("brain-db#todo/1", task.source_ref),
                "title": CarriedOver("Order the new ropes", task.headline),
                "description": CarriedOver("Twelve of them.", task.body.split("\n\n")[1]),
                "status": CarriedOver("done", task.detail.status),
                "priority": CarriedOver("high", task.detail.priority),
                "assigned_to": CarriedOver("nova", task.detail.assignee),
                "tags": CarriedOver(("ropes",), task.tags),
                "due_at": CarriedOver(parse_instant(at(90)), task.detail.due_at),
                "created_at": CarriedOver((parse_instant(at(1)),) * 2, times_of(task)),
                **{
                    one: Left(f"{one} of todos")
                    for one in ("template_id", "updated_at", "completed_at")
                },
            },
        ),
        **each(
            "working_memory",
            {
                "id": Used("is made anew on each write"),
                "label": CarriedOver("harbour", pin.headline),
                "content": CarriedOver("The harbour office is in Dock Road.", pin.body),
                "pinned_at": CarriedOver((parse_instant(at(4)),) * 2, times_of(pin)),
                "position": Left("position of working_memory"),
            },
        ),
        **each(
            "categories",
            {
                "name": CarriedOver(("ops",), category.tags),
                "description": CarriedOver(
                    "Category ops: Running the quay", category.body.split("\n")[0]
                ),
                "keywords": CarriedOver("Keywords: crane", category.body.split("\n")[1]),
                "created_at": CarriedOver((parse_instant(at(5)),) * 2, times_of(category)),
            },
        ),
        **{
            f"{table}.{column}": Left(line)
            for table, (line, columns) in in_rows.items()
            for column in columns.split()
        },
    }
