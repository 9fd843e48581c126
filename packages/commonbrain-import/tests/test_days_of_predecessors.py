"""A day with a predecessor, the import, and the questions of that day again."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from predecessor_stores import (
    day,
    dump_open_brain,
    dump_openbrain,
    fill_open_brain,
    first_version,
    openbrain_rows,
)

from commonbrain.client import Brain
from tests.postgres import Server

Row = Mapping[str, object]


@pytest.fixture(scope="module")
def first_dump(postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with postgres.database(is_empty=True) as database:
        fill_open_brain(database.owner, "v1")
        yield dump_open_brain(database.owner, tmp_path_factory.mktemp("dump") / "v1.sql")


@pytest.fixture
def moved(brain: Brain, first_dump: Path) -> Brain:
    """The user of Open Brain has moved."""
    brain.import_("open-brain", first_dump)
    return brain


@pytest.mark.requirement("MG-26")
def test_open_brain_answers_with_what_holds_and_knows_what_was_believed(moved: Brain) -> None:
    question = "Which port does service number 4 listen on?"
    rows = {row["id"]: row for row in first_version()}
    old, middle, new = (str(rows[id_]["content"]) for id_ in (13, 14, 15))
    bodies = [item.body for item in moved.recall(question).items]
    assert bodies[0] == new
    assert not {old, middle} & set(bodies)
    # The second was written a day after the first, which was corrected 20 days later.
    then = moved.recall(question, as_of=day(13) + timedelta(hours=1))
    assert old in [item.body for item in then.items]


def test_open_brain_boots_with_its_pinned_rules(moved: Brain) -> None:
    booted = moved.boot(project="harbour")
    rules = {entry.headline for entry in (*booted.blockers, *booted.patterns)}
    pinned = {str(row["content"]) for row in first_version() if row["pinned"]}
    assert {one for one in pinned if one.startswith(("Never", "Always"))} <= rules


def test_open_brain_finds_a_skill_by_its_name_and_its_keyword(moved: Brain) -> None:
    skill = moved.get(skill="redis-shutdown")
    assert skill.body == "Shut redis down with SIGTERM and wait for its models."


@pytest.mark.requirement("MG-26")
def test_openbrain_lists_the_decisions_of_an_agent_and_what_holds(
    brain: Brain, tmp_path: Path
) -> None:
    brain.import_("openbrain", dump_openbrain(tmp_path / "dump.sql"))
    rows = [row for row in openbrain_rows() if row["deleted_at"] is None]
    decisions = {
        row["content"] for row in rows if (row["agent_id"], row["type"]) == ("charon", "decision")
    }
    listed = brain.list(agent="charon", labels="decision").memories
    assert {brain.get(one.id).body for one in listed} == decisions != set()
    bodies = {str(item.body) for item in brain.recall("What is in plan 1, 2 and 3?").items}
    assert "In plan 3, the silo needs two operators." in bodies
    assert not any(one.startswith(("In plan 1,", "In plan 2,")) for one in bodies)
