"""Reasons of earlier changes are erased with a memory: no byte of a store holds them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from commonbrain.client import Brain
from commonbrain.model import ids
from commonbrain.model.memory import Draft
from commonbrain.model.scope import LOCAL_TENANT
from tests.asking import stored
from tests.security.engines import both_engines

WHY = "It is not to be stored_id."
DEEP = "quokka"
"""In what is erased, and in all reasons that were given about it."""
OTHER = "numbat"
"""In a reason about another memory, which stays."""


def _catalogue(brain: Brain) -> Iterator[tuple[str, str]]:
    """Yield every row of every table that the engine has, its indexes' own tables included."""
    with brain.services.store.snapshot(LOCAL_TENANT) as tx:
        connection = tx.work.connection
        is_sqlite = connection.dialect.name == "sqlite"
        names = connection.exec_driver_sql(
            "SELECT name FROM sqlite_master WHERE type = 'table'"
            if is_sqlite
            else "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition "
            "AND relnamespace = current_schema()::regnamespace"
        )
        for name in names.scalars().all():
            for row in connection.execute(sa.text(f'SELECT * FROM "{name}"')):  # noqa: S608 our own
                yield name, repr(row)


def _holding(brain: Brain, path: Path, word: str) -> set[str]:
    """Name the tables, and the files of SQLite and of its log and backups, that hold a word."""
    brain.services.journal.flush()
    tables = {name for name, row in _catalogue(brain) if word in row}
    files = {
        one.name
        for one in path.parent.rglob("*")
        if one.is_file() and word.encode() in one.read_bytes()
    }
    return tables | files


def _changed_for_reasons(brain: Brain) -> tuple[str, str, str]:
    """Change a memory and its dependent, each with the word in its reason, and a third with none.

    Give the memory, its successor and its dependent.
    """
    old = stored(brain, f"The {DEEP} feeder opens at seven.", kind="fact")
    kettle = stored(brain, "The kettle is blue.", kind="fact")
    brain.revise.pin(old)
    brain.revise.annotate(old, f"The {DEEP} was asleep.")
    [cleaning] = brain.remember(
        [
            Draft(
                body="The feeder is cleaned.", kind="fact", depends_on=(ids.parse(ids.MEMORY, old),)
            )
        ]
    ).items
    text = "The feeder opens at eight in summer."
    new = brain.revise.supersede(old, text, reason=f"The {DEEP} wakes later.").id
    assert new is not None
    assert cleaning.id is not None
    brain.revise.review(cleaning.id, reason=f"The {DEEP} does not clean.")
    brain.forget(kettle, reason=f"The {OTHER} sold it.")
    return old, new, cleaning.id


@both_engines
@pytest.mark.requirement("LC-14")
def test_no_byte_contains_the_reason_of_a_change_to_an_erased_memory(
    owner: Brain, path: Path
) -> None:
    old, new, _ = _changed_for_reasons(owner)
    assert "audit" in _holding(owner, path, DEEP)

    done = owner.erase(old, reason=WHY, confirm=1)

    assert (done.receipt or {})["audit"] >= 1
    assert _holding(owner, path, DEEP) == set()
    assert "audit" in _holding(owner, path, OTHER), "a reason about another memory stays"
    lines = owner.audit(memory=old).lines
    assert [one.reason for one in lines if one.reason] == [WHY]
    assert "eight" in str(owner.get(new).body)


@both_engines
def test_audit_allows_to_erase_a_reason_and_nothing_else(owner: Brain) -> None:
    id_ = stored(owner, "The kettle is blue.", kind="fact")
    owner.forget(id_, reason="It was sold.")
    for change in ("reason = 'other'", "agent = 'bo'", "reason = NULL, agent = 'bo'"):
        with (
            pytest.raises(Exception, match=r"append-only|permission denied"),
            owner.services.store.begin(LOCAL_TENANT) as tx,
        ):
            tx.work.connection.exec_driver_sql(f"UPDATE audit SET {change}")  # noqa: S608
    assert [one.reason for one in owner.audit(action="forget").lines] == ["It was sold."]
