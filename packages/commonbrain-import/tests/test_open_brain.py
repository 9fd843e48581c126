"""Open Brain 1 and 2: tables made after its public schema, and their dumps by the real pg_dump."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import LiteralString, cast

import psycopg
import pytest
from import_samples import IMPORTERS, SAMPLES, by_ref, kinds, omitted, only, read

from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import IncidentDetail, RuleDetail, TaskDetail
from commonbrain.model.links import LinkType
from commonbrain.model.memory import Draft
from commonbrain.transfer.importer import (
    ImportItem,
    SourceAnnotation,
    SourceRelation,
    Unreadable,
    database_url,
    shown_source,
)
from tests.postgres import Server

OPEN_BRAIN = SAMPLES / "open-brain"


def relations(pieces: list[ImportItem]) -> list[tuple[str, str, str | None]]:
    return [
        (one.first.partition("#")[2], one.second.partition("#")[2], one.type)
        for one in only(SourceRelation, pieces)
    ]


@pytest.fixture
def first() -> list[ImportItem]:
    return read("open-brain", OPEN_BRAIN / "v1.dump.sql")


@pytest.fixture
def second() -> list[ImportItem]:
    return read("open-brain", OPEN_BRAIN / "v2.dump.sql")


@pytest.fixture(params=["v1", "v2"])
def live(request: pytest.FixtureRequest, postgres: Server) -> Iterator[tuple[str, str]]:
    """Give the URL of a server with a version's tables, and the version."""
    with postgres.database(is_empty=True) as database:
        statements = (OPEN_BRAIN / f"{request.param}.sql").read_text("utf-8")
        with closing(psycopg.connect(database.owner)) as connection, connection:
            connection.execute(cast("LiteralString", statements))
        yield database.owner, request.param


def test_live_database_is_read_the_same_as_its_dump(live: tuple[str, str]) -> None:
    url, version = live
    pieces = read("open-brain", url)
    dumped = read("open-brain", OPEN_BRAIN / f"{version}.dump.sql")
    assert by_ref(pieces) == by_ref(dumped)
    assert relations(pieces) == relations(dumped)
    assert omitted(pieces) == omitted(dumped)
    assert [piece.progress for piece in pieces] == sorted(piece.progress for piece in pieces)


def test_tables_of_a_second_schema_are_counted_as_omitted(postgres: Server) -> None:
    statements = (OPEN_BRAIN / "v1.sql").read_text("utf-8")
    with postgres.database(is_empty=True) as database:
        with closing(psycopg.connect(database.owner)) as connection, connection:
            connection.execute(cast("LiteralString", statements))
            connection.execute("CREATE SCHEMA old")
            connection.execute("CREATE TABLE old.memories AS SELECT id FROM public.memories")
        alone = read("open-brain", database.owner)
        mark = "&" if "?" in database.owner else "?"
        both = read("open-brain", f"{database.owner}{mark}options=-csearch_path%3Dpublic,old")
    assert by_ref(both) == by_ref(alone)
    assert set(omitted(both)) - set(omitted(alone)) == {"rows of the same tables in other schemas"}


def test_memories_of_the_first_version_have_their_metadata(first: list[ImportItem]) -> None:
    assert kinds(first) == {"fact": 4, "rule": 2, "task": 1}
    drafts = by_ref(first)
    decision = drafts["3"]
    assert (decision.kind, decision.label, decision.author) == ("fact", "decision", "cursor")
    assert (decision.project, decision.people) == ("harbour", ("Ana", "Ben"))
    assert decision.tags == ("project:dock", "project:north quay")
    assert decision.auto_captured
    assert decision.occurred_at is not None
    assert decision.occurred_at.isoformat() == "2026-01-08T09:00:00+00:00"
    assert drafts["1"].tags == ("boot", "Server")
    assert drafts["7"].body == "Tab\there, a backslash \\ and two\nlines: Grüße, 港."
    assert (drafts["7"].kind, drafts["7"].label) == ("fact", "recipe")
    assert drafts["6"].kind == "task"


def test_pins_and_votes_of_the_first_version_are_carried_over(first: list[ImportItem]) -> None:
    marks = {
        piece.content.source_ref: (piece.content.pinned, piece.content.rating)
        for piece in first
        if isinstance(piece.content, Draft) and (piece.content.pinned or piece.content.rating)
    }
    assert marks == {
        "open-brain#1": (False, -1),
        "open-brain#3": (False, 2),
        "open-brain#4": (True, 0),
        "open-brain#5": (True, 0),
    }


def test_pinned_guardrail_becomes_a_rule_and_one_with_triggers_a_skill(
    first: list[ImportItem],
) -> None:
    guardrail, skill = by_ref(first)["4"], by_ref(first)["5"]
    assert (guardrail.kind, guardrail.label, guardrail.severity) == ("rule", "note", "BLOCKER")
    assert guardrail.detail == RuleDetail(skill=None)
    assert isinstance(skill.detail, RuleDetail)
    assert skill.detail.skill is not None
    assert skill.detail.skill["name"] == "ollama-shutdown-graceful"


def test_corrections_of_the_first_version_have_their_reasons_and_times(
    first: list[ImportItem],
) -> None:
    moved, changed = only(SourceRelation, first)
    assert relations(first) == [("2", "1", None), ("3", "2", None)]
    assert (moved.reason, changed.reason) == ("It moved to systemd.", "It has a socket now.")
    # One has a time of its own, the other that of what corrects it.
    assert [one.at and one.at.isoformat() for one in (moved, changed)] == [
        "2026-01-05T11:00:00+00:00",
        "2026-01-09T10:00:00+00:00",
    ]


def test_annotation_of_the_first_version_is_an_annotation(first: list[ImportItem]) -> None:
    assert only(SourceAnnotation, first) == [
        SourceAnnotation(about="open-brain#3", text="The socket unit is in the infra repository.")
    ]


def test_memory_of_the_first_version_comes_with_its_author_and_its_times(
    first: list[ImportItem],
) -> None:
    decision, insight = by_ref(first)["3"], by_ref(first)["1"]
    times = (decision.occurred_at, decision.believed_since, insight.last_access_at)
    assert [one and one.isoformat() for one in times] == [
        "2026-01-08T09:00:00+00:00",
        "2026-01-09T10:00:00+00:00",
        "2026-01-20T10:00:00+00:00",
    ]
    assert (decision.author, insight.access_count) == ("cursor", 4)


def test_omitted_parts_of_the_first_version_are_counted(first: list[ImportItem]) -> None:
    assert omitted(first) == {
        "action items that the texts state": 1,
        "triggers that no skill has": 1,
        "vectors": 3,
        "audit entries": 2,
    }


def test_memories_of_the_second_version_have_the_fields_of_their_kind(
    second: list[ImportItem],
) -> None:
    # Two action items are tasks; the handoff is an episode.
    assert kinds(second) == {"rule": 3, "fact": 2, "incident": 1, "task": 4, "episode": 1}
    drafts = by_ref(second)
    rule = drafts["rule/2"]
    assert (rule.severity, rule.headline) == ("BLOCKER", "Deploy only from signed tags")
    assert isinstance(rule.detail, RuleDetail)
    assert rule.detail.skill is not None
    assert rule.detail.skill["always_on"] is True
    assert drafts["rule/1"].severity == "BLOCKER"
    fact = drafts["fact/2"]
    assert (fact.tags, fact.confidence) == (("tickets", "tools"), pytest.approx(0.9))
    assert fact.expires_at is not None
    incident = drafts["incident/1"]
    assert incident.detail == IncidentDetail(
        root_cause="The branch was force-pushed.", resolution="Rolled back within ten minutes."
    )
    rotate, describe = drafts["task/1"].detail, drafts["task/2"]
    assert isinstance(rotate, TaskDetail)
    assert (rotate.status, rotate.priority) == ("blocked", "high")
    assert rotate.due_at is not None
    assert describe.body.endswith("[due: after the next release]")
    assert drafts["handoff/1"].label == "handoff"


def test_action_items_of_the_second_version_require_no_acknowledgement(
    second: list[ImportItem],
) -> None:
    details = [by_ref(second)[f"action-item/{n}"].detail for n in (1, 2)]
    assert [one.status for one in details if isinstance(one, TaskDetail)] == ["open", "done"]
    assert not any(one.must_ack for one in details if isinstance(one, TaskDetail))
    assert by_ref(second)["action-item/1"].tags == ("rule",)
    answer = SourceAnnotation(
        about="open-brain-v2#action-item/2",
        text="already_done: Ana called them.",
        author="cursor",
        at=datetime(2026, 2, 3, 8, tzinfo=UTC),
    )
    assert answer in only(SourceAnnotation, second)


def test_corrections_of_the_second_version_have_the_time_of_the_newer_one(
    second: list[ImportItem],
) -> None:
    rule, fact = [one for one in only(SourceRelation, second) if one.type is None]
    assert (rule.reason, fact.reason) == ("Branches can be moved.", "switched tools")
    assert (rule.at, fact.at) == (
        datetime(2026, 2, 3, 9, tzinfo=UTC),
        datetime(2026, 2, 6, 9, tzinfo=UTC),
    )


def test_rule_that_was_withdrawn_is_counted_as_omitted(second: list[ImportItem]) -> None:
    assert "rule/4" not in by_ref(second)
    assert omitted(second) == {
        "archived marks": 1,
        "audit entries": 3,
        "deleted memories": 1,
        "severities that no rule has": 1,
        "times of the last change": 2,
        "withdrawn rules": 1,
    }


def test_values_that_a_later_version_adds_are_counted_as_omitted(tmp_path: Path) -> None:
    later = tmp_path / "later.sql"
    text = (OPEN_BRAIN / "v2.dump.sql").read_text("utf-8")
    text = text.replace(
        "v2.tasks (id, content, project, priority", "v2.tasks (id, content, project, mood"
    )
    later.write_text(text + "COPY v2.orders (id) FROM stdin;\n1\n\\.\n", "utf-8")
    counts = omitted(read("open-brain", later))
    assert counts["mood of tasks"] == 2
    assert counts["rows of the table orders"] == 1


def test_relations_of_the_second_version_are_carried_over(second: list[ImportItem]) -> None:
    assert relations(second) == [
        ("action-item/1", "incident/1", LinkType.ABOUT),
        ("action-item/2", "incident/1", LinkType.ABOUT),
        ("rule/2", "rule/1", None),
        ("fact/2", "fact/1", None),
        ("incident/1", "rule/2", LinkType.SUPPORTS),
    ]
    assert omitted(second)["deleted memories"] == 1
    assert "fact/3" not in by_ref(second)


@pytest.mark.parametrize(("version", "count"), [("v1", 7), ("v2", 11)])
def test_importing_from_open_brain_twice_stores_each_memory_once(
    brain: Brain, version: str, count: int
) -> None:
    dump = OPEN_BRAIN / f"{version}.dump.sql"
    first = brain.import_("open-brain", dump)
    assert (first.read, first.stored, first.rejected, first.unreadable) == (count, count, 0, 0)
    assert first.carried["supersessions"] == 2
    again = brain.import_("open-brain", dump)
    assert (again.stored, again.exists) == (0, count)


def test_corrected_memory_of_open_brain_is_not_recalled(brain: Brain) -> None:
    brain.import_("open-brain", OPEN_BRAIN / "v2.dump.sql")
    bodies = {item.body for item in brain.recall("Where are the tickets?").items}
    assert "Tickets are in Linear now." in bodies
    assert "Tickets are in Trello." not in bodies


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ana:s3cret%zz@127.0.0.1:1/brain",
        "host=127.0.0.1 port=1 password=open s3cret",
        "host=127.0.0.1 port=1 password='s3cret",
    ],
)
def test_malformed_address_is_refused_without_its_password(brain: Brain, url: str) -> None:
    with pytest.raises(InvalidInputError, match="malformed") as refused:
        brain.import_("open-brain", url)
    assert "s3cret" not in f"{refused.value} {refused.value.hint} {refused.value.__cause__}"


def test_password_of_a_database_is_in_neither_errors_nor_reports(
    brain: Brain, postgres: Server
) -> None:
    secret = "open sesame"  # noqa: S105 it is looked for in what is shown
    url = f"postgresql://ana:{secret.replace(' ', '%20')}@127.0.0.1:1/brain?sslpassword=hush"
    with pytest.raises(InvalidInputError) as refused:
        brain.import_("open-brain", url)
    message = f"{refused.value} {refused.value.hint} {refused.value.__cause__}"
    assert "sesame" not in message
    assert "hush" not in message
    assert "postgresql://ana@127.0.0.1:1/brain" in str(refused.value)
    with postgres.database(is_empty=True) as database:
        with closing(psycopg.connect(database.owner)) as connection, connection:
            statements = (OPEN_BRAIN / "v1.sql").read_text("utf-8")
            connection.execute(cast("LiteralString", statements))
        report = brain.import_("open-brain", database.owner, dry_run=True)
    password = database.owner.partition("@")[0].rpartition(":")[2]
    assert report.read == 7
    assert f":{password}@" not in report.source
    assert report.source.startswith("postgresql://")


def test_database_url_is_recovered_from_a_path() -> None:
    url = "postgresql://ana:pw@db.example:5433/open_brain_v2?sslmode=require"
    assert database_url(Path(url)) == database_url(url) == url
    assert database_url(Path("postgresql/notes.sql")) is None
    assert shown_source(Path("notes.sql")) == "notes.sql"
    assert shown_source("postgresql://[broken") == "postgresql://"


def test_database_cannot_be_uploaded_for_a_job(brain: Brain) -> None:
    with pytest.raises(InvalidInputError, match="cannot be uploaded"):
        brain.jobs.import_("open-brain", Path("postgresql://ana:pw@db.example/openbrain"))


def test_damaged_row_of_a_dump_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    torn = tmp_path / "torn.sql"
    text = (OPEN_BRAIN / "v1.dump.sql").read_text("utf-8")
    torn.write_text(text.replace("\ncrane", "").replace("4\tNever restart", "4"), "utf-8")
    pieces = read("open-brain", torn)
    assert [one.where for one in only(Unreadable, pieces)] == ["memories, row 2"]
    assert "7" in by_ref(pieces)


def test_foreign_source_is_refused_by_open_brain_with_the_next_step(tmp_path: Path) -> None:
    for name, content in {
        "empty.sql": b"",
        "custom.dump": b"PGDMP\x01",
        "other.sql": b"COPY public.orders (id) FROM stdin;\n1\n\\.\n",
    }.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InvalidInputError) as refused:
            read("open-brain", tmp_path / name)
        assert refused.value.hint
    with pytest.raises(InvalidInputError, match="no file"):
        read("open-brain", tmp_path / "none.sql")
    assert list(IMPORTERS["open-brain"].find(tmp_path)) == []
