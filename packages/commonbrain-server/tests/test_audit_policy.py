"""What the audit lists of reads, and what the page shows of copies."""

import pytest
from commonbrain_server.tenants import admin_of

from commonbrain.client import Brain
from tests.asking import stored

FACT = "The nightly build runs on two cores"


@pytest.mark.requirement("DM-52")
def test_reads_are_audited_when_the_policy_requires_it(brain: Brain) -> None:
    fact = stored(brain, FACT, kind="fact")
    stored(brain, "The office opens at nine", kind="fact")
    brain.recall("On how many cores does the nightly build run?")
    brain.get(fact)
    assert not brain.audit(action="recall").lines
    assert not brain.audit(action="get").lines

    admin_of(brain).policy(are_reads_audited=True)
    bob = brain.acting_as(agent="bob", request_id="req-9")
    items = bob.recall("On how many cores does the nightly build run?").items
    bob.get(fact)

    assert {one.memory for one in brain.audit(action="recall").lines} == {one.id for one in items}
    [line] = brain.audit(action="get").lines
    assert (line.agent, line.memory, line.request_id) == ("bob", fact, "req-9")
    assert not brain.audit(action="recall", agent="ann").lines
