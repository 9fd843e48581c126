"""The access audit of denied calls: what a line has, its order, and when it is there."""

import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count

import pytest
from calling import KETTLE, audited, refusal
from commonbrain_server.guard import guard_of
from commonbrain_server.security.denials import AccessDenials
from commonbrain_server.tenants import tenants_of
from hypothesis import example, given
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from commonbrain.client import Brain
from commonbrain.model.errors import RejectedError
from commonbrain.model.limits import REFUSALS_APART_MAX, REFUSALS_APART_S
from commonbrain.model.scope import LOCAL_TENANT, Role
from commonbrain.storage.interface import AccessEntry
from commonbrain.testing.builders import FakeClock, SeededRandom
from tests.guarded import a_guarded_brain

STEPS = st.lists(
    st.tuples(st.sampled_from("abcde"), st.sampled_from([0, 0, 0, 1, 59_000, 60_000, -5])),
    max_size=30,
)
"""Agents that are denied, and the milliseconds before."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brain]:
    """A brain whose tenants are used by one example each."""
    with a_guarded_brain(tmp_path_factory.mktemp("denials") / "brain.db") as brain:
        yield brain


NUMBERS = count()


def denial(clock: FakeClock, number: int, *, agent: str = "bob") -> AccessEntry:
    """Make the entry of a denial that its request id numbers."""
    now = clock.now()
    return AccessEntry(at=now, action="get", code="x", agent=agent, request_id=str(number))


def lines(brain: Brain, tenant: str = LOCAL_TENANT) -> list[AccessEntry]:
    """List the audit as it is now, newest first."""
    with brain.services.store.snapshot(tenant) as tx:
        return tx.credentials.audit_entries(limit=10_000)


def numbers(entries: list[AccessEntry]) -> list[int]:
    return [int(one.request_id or -1) for one in entries]


@given(steps=STEPS)
@example(steps=[("a", 0), ("a", 1), ("b", 0)])
def test_audit_lists_denials_newest_first_whenever_they_are_written(
    shared: Brain, steps: list[tuple[str, int]]
) -> None:
    clock, tenant = FakeClock(), f"tenant{next(NUMBERS)}"
    tenants_of(shared).make(tenant)
    made = len(lines(shared, tenant))
    denials = AccessDenials(store=shared.services.store, clock=clock)
    for number, (agent, passed_ms) in enumerate(steps):
        clock.move(timedelta(milliseconds=passed_ms))
        denials.note(tenant, denial(clock, number, agent=agent))
    denials.close()

    entries = lines(shared, tenant)[: -made or None]

    # The number of a line that counts several denials is that of the last of them.
    assert numbers(entries) == sorted(set(numbers(entries)), reverse=True)
    assert sum(one.count for one in entries) == len(steps)


def test_denials_that_wait_for_a_locked_store_are_listed_in_order(
    brain: Brain, clock: FakeClock
) -> None:
    with brain.services.store.begin(LOCAL_TENANT) as tx:
        for number in range(20):
            guard_of(brain.services).refusals.note(
                LOCAL_TENANT, denial(clock, number, agent=str(number))
            )
        clock.move(timedelta(milliseconds=1))
        tx.credentials.note(denial(clock, 20))

    assert numbers(audited(brain)) == [*range(20, -1, -1)]


def test_denials_of_processes_that_draw_the_same_ids_are_all_listed_in_order(
    brain: Brain, clock: FakeClock
) -> None:
    for process in range(2):
        denials = AccessDenials(
            store=brain.services.store, clock=clock, random_source=SeededRandom(7)
        )
        for number in range(10):
            agent = f"{process}-{number}"
            denials.note(LOCAL_TENANT, denial(clock, number, agent=agent))
        denials.close()

    entries = lines(brain)
    for process in "01":
        own = [one for one in entries if (one.agent or "").startswith(process)]
        assert numbers(own) == [*range(9, -1, -1)]


def test_denied_caller_finds_its_line_in_the_audit_at_once(
    brain: Brain, networked: Callable[..., Brain]
) -> None:
    for number in range(10):
        reader = networked(role=Role.READER, credential=f"0000000{number}")
        refusal(reader, "remember", text=KETTLE)
        assert [one.credential for one in lines(brain)][:1] == [f"0000000{number}"]


def test_denied_caller_does_not_wait_long_for_a_locked_store(
    brain: Brain, networked: Callable[..., Brain]
) -> None:
    reader = networked(role=Role.READER)
    with brain.services.store.begin(LOCAL_TENANT):
        error = refusal(reader, "remember", text=KETTLE)

    assert isinstance(error, RejectedError)
    assert [one.action for one in audited(brain)] == ["remember"]


@pytest.mark.requirement("ST-08")
def test_denial_leaves_who_what_when_and_why_but_no_content(
    brain: Brain, networked: Callable[..., Brain]
) -> None:
    reader = networked(role=Role.READER, request_id="req-7")
    refusal(reader, "remember", text=KETTLE)

    (line,) = audited(brain)

    assert line == AccessEntry(
        at=brain.services.clock.now(),
        action="remember",
        code="insufficient_role",
        agent="bob",
        credential="00000001",
        request_id="req-7",
    )


def test_secret_that_the_write_path_rejects_is_audited(
    brain: Brain, networked: Callable[..., Brain]
) -> None:
    writer = networked(trust_ceiling=brain.caller.trust_default)
    error = refusal(writer, "message", op="send", to=["ann"], text="key AKIA" + "IOSFODNN7REALKEY")

    (line,) = audited(brain)
    assert (line.action, line.code) == ("message", error.code)


@pytest.mark.requirement("ST-08")
def test_flood_of_denials_is_one_line_a_minute_with_a_count(
    brain: Brain, networked: Callable[..., Brain], clock: FakeClock
) -> None:
    reader = networked(role=Role.READER)
    for _ in range(500):
        refusal(reader, "remember", text=KETTLE)
    clock.move(timedelta(seconds=REFUSALS_APART_S))
    refusal(reader, "remember", text=KETTLE)
    refusal(reader, "remember", text=KETTLE)

    entries = audited(brain)

    # The count of the first minute is written before the next line.
    assert [line.count for line in entries] == [1, 1, 499, 1]


def test_kinds_of_denials_that_are_counted_at_once_are_bounded(
    brain: Brain, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    refusals = AccessDenials(store=brain.services.store, clock=clock)
    with caplog.at_level(logging.WARNING):
        for number in range(REFUSALS_APART_MAX + 50):
            entry = AccessEntry(at=clock.now(), action="get", code="x", agent=str(number))
            refusals.note("default", entry)
    refusals.close()

    with brain.services.store.snapshot("default") as tx:
        stored = len(tx.credentials.audit_entries(limit=10_000))
    assert stored <= REFUSALS_APART_MAX
    assert "too many kinds" in caplog.text


def test_denial_for_a_missing_tenant_is_dropped(brain: Brain, clock: FakeClock) -> None:
    guard_of(brain.services).refusals.note(
        "missing", AccessEntry(at=clock.now(), action="admit", code="x")
    )

    assert not audited(brain)


def test_access_audit_is_append_only(brain: Brain, clock: FakeClock) -> None:
    with brain.services.store.begin("default") as tx:
        tx.credentials.note(AccessEntry(at=clock.now(), action="admit", code="x"))
    for statement in ("DELETE FROM access_audit", "UPDATE access_audit SET code = 'y'"):
        with (
            pytest.raises(IntegrityError, match="append-only"),
            brain.services.store.begin("default") as tx,
        ):
            tx.work.connection.execute(text(statement))  # type: ignore[attr-defined]
