from collections.abc import Sequence

import pytest
from sqlalchemy import RowMapping, select

from commonbrain.client import Brain
from commonbrain.model import ids
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.storage.schema.memories import audit
from commonbrain.storage.store import Store
from commonbrain.testing.builders import FakeClock
from tests.asking import remember_one, stored

FACT = "The nightly build runs on two cores"


def audited(brain: Brain) -> Sequence[RowMapping]:
    """Read the audit in the order of its times."""
    store = brain.services.store
    assert isinstance(store, Store)
    with store.snapshot(LOCAL_TENANT) as tx:
        query = select(audit).order_by(audit.c.at)
        return tx.work.connection.execute(query).mappings().all()


@pytest.mark.requirement("WP-35", "LC-05", "DM-11")
def test_every_change_is_audited_with_agent_time_and_reason(brain: Brain, clock: FakeClock) -> None:
    start = clock.now()
    old = stored(brain, FACT, kind="fact")
    clock.move(start - start.replace(hour=8))
    bob = brain.acting_as(agent="bob", session="s1")
    new = bob.revise.supersede(old, "It runs on four cores", reason="upgrade").id or ""
    clock.move(start - start.replace(hour=8))
    bob.forget(new, reason="mistaken")
    lines = [
        (line["action"], ids.show("mem", line["memory_id"]), line["agent"], line["reason"])
        for line in audited(brain)
    ]
    assert lines[0] == ("create", old, "ann", None)
    assert sorted(lines[1:3]) == [
        ("create", new, "bob", None),
        ("supersede", old, "bob", "upgrade"),
    ]
    assert lines[3] == ("forget", new, "bob", "mistaken")


def test_audit_contains_no_memory_content(brain: Brain) -> None:
    stored(brain, FACT, kind="fact")
    assert FACT not in str([dict(line) for line in audited(brain)])


@pytest.mark.requirement("WP-07")
def test_refused_write_leaves_no_audit_line_and_accepted_write_one(brain: Brain) -> None:
    assert remember_one(brain, "42", kind="fact").code == "gate_headline"
    assert len(audited(brain)) == 0
    stored(brain, FACT, kind="fact")
    remember_one(brain, FACT, kind="fact")
    remember_one(brain, "The nightly build, it runs on two cores", kind="fact")
    assert [line["action"] for line in audited(brain)] == ["create"]
