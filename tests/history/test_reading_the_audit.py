"""The audit across memories: who changed what and when, by agent, action, request and time."""

from datetime import timedelta

import pytest

from commonbrain.api.dispatch import dispatch
from commonbrain.api.operation import Transport
from commonbrain.api.operations.remember import REMEMBER, RememberItem
from commonbrain.client import Brain
from commonbrain.history.audit import AuditEntryView, AuditPage
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.scope import Caller, Role
from commonbrain.storage.interface import AccessEntry
from commonbrain.testing.builders import FakeClock
from tests.asking import stored
from tests.tenant_rows import add_tenant

FACT = "The nightly build runs on two cores"


def shown(page: AuditPage) -> list[tuple[str | None, str, str | None]]:
    return [(one.agent, one.action, one.memory) for one in page.lines]


@pytest.mark.requirement("OB-15", "DM-52")
def test_admin_reads_the_audit_of_changes_across_memories(brain: Brain, clock: FakeClock) -> None:
    first = stored(brain, FACT, kind="fact")
    clock.move(timedelta(seconds=1))
    bob = brain.acting_as(agent="bob", session="s1", request_id="req-7")
    second = stored(bob, "The office opens at nine", kind="fact")
    clock.move(timedelta(seconds=1))
    bob.forget(first, reason="moved away")

    assert shown(brain.audit()) == [
        ("bob", "forget", first),
        ("bob", "create", second),
        ("ann", "create", first),
    ]
    assert shown(brain.audit(agent="ann")) == [("ann", "create", first)]
    assert shown(brain.audit(action="forget")) == [("bob", "forget", first)]
    assert shown(brain.audit(memory=second)) == [("bob", "create", second)]
    assert len(brain.audit(request_id="req-7").lines) == 2
    [line] = brain.audit(request_id="req-7", action="forget").lines
    assert (line.session, line.reason, line.request_id) == ("s1", "moved away", "req-7")
    assert FACT not in str(brain.audit())


@pytest.mark.requirement("OB-15")
def test_audit_can_be_limited_to_a_time(brain: Brain, clock: FakeClock) -> None:
    stored(brain, FACT, kind="fact")
    clock.move(timedelta(seconds=2 * 86_400))
    new = stored(brain, "The office opens at nine", kind="fact")
    assert shown(brain.audit(since="yesterday")) == [("ann", "create", new)]
    assert len(brain.audit(until="2 days ago").lines) == 1
    with pytest.raises(InvalidInputError):
        brain.audit(since="when pigs fly")


@pytest.mark.requirement("OB-14", "OB-15")
def test_pages_of_the_audit_contain_every_line_once(brain: Brain, clock: FakeClock) -> None:
    for number in range(7):
        stored(brain, f"Shelf {number} holds the parts of crate {number}", kind="event")
        clock.move(timedelta(seconds=1))
    with brain.services.store.begin(brain.caller.tenant) as tx:
        tx.credentials.note(
            AccessEntry.by(brain.caller, "policy", at=brain.services.clock.now(), subject=None)
        )
    total = len(brain.audit(limit=200).lines)
    lines_read: list[AuditEntryView] = []
    page = brain.audit(limit=3)
    while True:
        lines_read += page.lines
        assert page.more == total - len(lines_read)
        if page.next is None:
            break
        # What is written in between is on no later page.
        stored(brain, f"Late {len(lines_read)}: the gate was painted", kind="event")
        page = brain.audit(limit=3, cursor=page.next)
    assert (len(lines_read), lines_read[0].action) == (total, "policy")
    assert [one.at for one in lines_read] == sorted((one.at for one in lines_read), reverse=True)
    with pytest.raises(InvalidInputError, match="not a cursor of this list"):
        brain.audit(agent="ann", cursor=brain.audit(limit=3).next)
    with pytest.raises(RejectedError, match="limit is 0"):
        brain.audit(limit=0)


def test_only_an_admin_reads_the_audit(brain: Brain) -> None:
    writer = Brain(brain.services, Caller(agent="bob", role=Role.WRITER))
    with pytest.raises(RejectedError, match="admin") as refused:
        writer.audit()
    assert refused.value.code == "insufficient_role"


def test_audit_does_not_contain_lines_of_another_tenant(brain: Brain) -> None:
    stored(brain, FACT, kind="fact")
    add_tenant(brain, "acme")
    other = Brain(brain.services, Caller(tenant="acme", agent="ann"))
    assert not [one for one in other.audit().lines if one.memory]


def test_audit_query_since_year_one_is_accepted(brain: Brain) -> None:
    brain.remember("The wolf was fed", kind="event")
    assert brain.audit(since="0001-01-01").lines == brain.audit().lines


@pytest.mark.requirement("OB-15", "OB-18")
def test_each_call_outside_http_has_its_own_request_id(brain: Brain) -> None:
    for texts in ((FACT, "The office opens at nine"), ("The van is red", "Tea is at four")):
        request = REMEMBER.request(items=[RememberItem(text=text) for text in texts])
        dispatch(REMEMBER, brain, request=request, transport=Transport.CLI)
    lines = brain.audit(action="create").lines
    request_ids = [one.request_id for one in lines]
    assert None not in request_ids
    assert [request_ids.count(one) for one in dict.fromkeys(request_ids)] == [2, 2]
    assert len(brain.audit(request_id=request_ids[0]).lines) == 2
