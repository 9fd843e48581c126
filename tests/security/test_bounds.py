"""Rates, quotas and what must come first; and what the audit keeps of those who were refused."""

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from commonbrain.api.dispatch import authorize, dispatch
from commonbrain.api.errors import describe_error, to_transport_error
from commonbrain.api.operations import load_operations
from commonbrain.client import Brain
from commonbrain.model.errors import CommonbrainError, LimitExceededError, RejectedError
from commonbrain.model.limits import REFUSALS_APART_MAX, REFUSALS_APART_S, USAGE_CACHE_S
from commonbrain.model.scope import NO_POLICY, Admission, Policy, Role, check_claims
from commonbrain.security.denials import AccessDenials
from commonbrain.security.rate_limits import MovingWindowLimiter, shared_rate_limiter
from commonbrain.storage.interface import AccessEntry
from commonbrain.testing.builders import FakeClock

KETTLE = "The kettle is in the blue cupboard."
BY_NAME = {one.name: one for one in load_operations()}
Call = Callable[..., Any]


@pytest.fixture
def networked(brain: Brain) -> Callable[..., Brain]:
    """See the brain as somebody who came by a credential."""

    def see(
        policy: Policy = NO_POLICY,
        *,
        credential: str = "00000001",
        role: Role = Role.WRITER,
        own: Role | None = None,
        **more: Any,  # noqa: ANN401 a caller's fields are of any sort
    ) -> Brain:
        admission = Admission(credential=credential, role=own or role, policy=policy)
        caller = replace(brain.caller, agent="bob", role=role, admission=admission, **more)
        return Brain(brain.services, caller)

    return see


def call(brain: Brain, name: str, **given: object) -> Any:  # noqa: ANN401 each reply its own
    authorize(brain.services, brain.caller)
    operation = BY_NAME[name]
    return dispatch(operation, brain, request=operation.request.model_validate(given))


def refusal(brain: Brain, name: str, **given: object) -> CommonbrainError:
    with pytest.raises(CommonbrainError) as told:
        call(brain, name, **given)
    return told.value


def audited(brain: Brain) -> list[AccessEntry]:
    """Let what is behind be written, and read the audit."""
    brain.services.refusals.close()
    with brain.services.store.snapshot("default") as tx:
        return tx.credentials.audit_entries(limit=10_000)


def test_a_credential_calls_as_often_as_its_policy_says(networked: Callable[..., Brain]) -> None:
    policy = Policy(key_calls_per_minute=3)
    one, other = networked(policy), networked(policy, credential="00000002")
    for _ in range(3):
        call(one, "status")

    error = refusal(one, "status")

    assert isinstance(error, LimitExceededError)
    assert error.code == "rate_limited"
    assert error.retry_after_s is not None
    assert 0 < error.retry_after_s <= 60
    assert to_transport_error(error).http_status == 429
    assert describe_error(error)["retry_after_s"] == error.retry_after_s
    call(other, "status")


def test_a_tenant_calls_as_often_as_its_policy_says_by_however_many_keys(
    networked: Callable[..., Brain],
) -> None:
    policy = Policy(tenant_calls_per_minute=3)
    for number in range(3):
        call(networked(policy, credential=str(number)), "status")

    assert refusal(networked(policy, credential="new"), "status").code == "rate_limited"
    call(networked(policy, tenant="acme"), "status")


def test_local_callers_call_as_they_like(brain: Brain) -> None:
    for _ in range(5):
        call(brain, "status")

    assert not audited(brain)


def test_while_redis_is_down_a_process_counts_by_itself_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rates = replace(shared_rate_limiter("redis://127.0.0.1:1/0"), retry_s=0.0)
    with caplog.at_level(logging.WARNING):
        taken = [rates.take("somebody", per_minute=2) for _ in range(4)]

    assert [one is None for one in taken] == [True, True, False, False]
    assert sum("Redis does not answer" in line for line in caplog.messages) == 1


def test_looking_at_a_rate_counts_nothing() -> None:
    rates = MovingWindowLimiter()

    assert all(rates.wait("somebody", per_minute=1) is None for _ in range(3))
    assert rates.take("somebody", per_minute=1) is None
    assert rates.wait("somebody", per_minute=1) is not None


@pytest.mark.requirement("ST-08")
def test_a_full_tenant_stores_no_more_and_can_forget_and_mend(
    networked: Callable[..., Brain], clock: FakeClock
) -> None:
    full = networked(Policy(memories_max=2))
    first = call(full, "remember", text=KETTLE, kind="fact").items[0].id
    call(full, "message", op="send", to=["ann"], text="The tap drips.")

    for name, given in (
        ("remember", {"text": "The lamp is broken.", "kind": "fact"}),
        ("message", {"op": "send", "to": ["ann"], "text": "The lamp is broken."}),
    ):
        error = refusal(full, name, **given)
        assert (error.code, to_transport_error(error).http_status) == ("quota_exceeded", 429)
    call(full, "message", op="inbox")
    call(full, "revise", op="supersede", id=first, text="It is in the red one.", reason="Moved.")
    newest = call(full, "recall", query="red one").items[0].id
    call(full, "forget", ids=[newest], reason="Gone.")
    clock.move(timedelta(seconds=USAGE_CACHE_S))
    call(full, "remember", text="The lamp is broken.", kind="fact")


@pytest.mark.requirement("ST-08")
def test_what_a_text_becomes_counts_and_what_does_not_fit_leaves_nothing(
    networked: Callable[..., Brain],
) -> None:
    rooms = "\n\n".join(f"Room {number} on floor {number} is painted green." for number in range(5))
    full = networked(Policy(memories_max=3))

    error = refusal(full, "remember", text=rooms)

    assert error.code == "quota_exceeded"
    assert not call(full, "recall").items
    for number in range(3):
        call(full, "remember", text=f"Lamp {number} hangs in room {number}.", kind="fact")
    assert "holds 3 memories and may hold 3" in refusal(full, "remember", text=KETTLE).message


def test_what_was_forgotten_comes_back_only_where_there_is_room(
    networked: Callable[..., Brain],
) -> None:
    full = networked(Policy(memories_max=1), own=Role.ADMIN)
    first = call(full, "remember", text=KETTLE, kind="fact").items[0].id
    full.forget(first, dry_run=False, reason="Moved out.")
    second = call(full, "remember", text="The lamp is broken.", kind="fact").items[0].id

    error = refusal(full, "revise", op="restore", id=first, reason="Moved back in.")

    assert error.code == "quota_exceeded"
    full.forget(second, dry_run=False, reason="Mended.")
    call(full, "revise", op="restore", id=first, reason="Moved back in.")
    assert full.get(first).state == "active"


@pytest.mark.requirement("ST-08")
def test_what_was_not_stored_takes_no_room(networked: Callable[..., Brain]) -> None:
    roomy = networked(Policy(memories_max=2))
    for _ in range(5):
        call(roomy, "remember", text="key AKIA" + "IOSFODNN7REALKEY", kind="fact")
        call(roomy, "remember", text=KETTLE, kind="fact")

    call(roomy, "remember", text="The lamp is broken.", kind="fact")


@pytest.mark.requirement("WP-38")
def test_a_tenant_that_demands_boot_answers_nothing_before_it(
    networked: Callable[..., Brain],
) -> None:
    policy = Policy(is_boot_required=True)
    nameless, new = networked(policy), networked(policy, session="s1")

    assert refusal(nameless, "recall", query="kettle").code == "boot_required"
    assert refusal(new, "recall", query="kettle").code == "boot_required"
    call(new, "boot")
    call(new, "recall", query="kettle")
    assert refusal(networked(policy, session="s2"), "status").code == "boot_required"


def test_what_a_key_narrows_is_told_from_what_the_role_lacks(
    networked: Callable[..., Brain],
) -> None:
    narrowed = networked(role=Role.READER, own=Role.WRITER)
    reader = networked(role=Role.READER)

    assert refusal(narrowed, "remember", text=KETTLE).code == "scope_denied"
    assert refusal(reader, "remember", text=KETTLE).code == "insufficient_role"
    assert refusal(networked(), "admin", op="keys").code == "insufficient_role"


@pytest.mark.requirement("ST-14")
def test_a_claim_to_be_somebody_else_is_refused(networked: Callable[..., Brain]) -> None:
    caller = networked().caller
    check_claims(caller, tenant=None, agent=None)
    check_claims(caller, tenant=caller.tenant, agent=caller.agent)

    for what, claim in (
        ("tenant", {"tenant": "acme", "agent": None}),
        ("agent", {"tenant": None, "agent": "ann"}),
    ):
        with pytest.raises(RejectedError) as told:
            check_claims(caller, **claim)
        assert told.value.code == f"{what}_mismatch"


@pytest.mark.requirement("ST-08")
def test_a_refusal_leaves_who_what_when_and_why_and_nothing_of_the_content(
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


def test_what_the_gate_refuses_inside_is_audited_too(
    brain: Brain, networked: Callable[..., Brain]
) -> None:
    writer = networked(trust_ceiling=brain.caller.trust_default)
    error = refusal(writer, "message", op="send", to=["ann"], text="key AKIA" + "IOSFODNN7REALKEY")

    (line,) = audited(brain)
    assert (line.action, line.code) == ("message", error.code)


@pytest.mark.requirement("ST-08")
def test_a_flood_of_refusals_is_a_line_a_minute_that_counts_them(
    brain: Brain, networked: Callable[..., Brain], clock: FakeClock
) -> None:
    reader = networked(role=Role.READER)
    for _ in range(500):
        refusal(reader, "remember", text=KETTLE)
    clock.move(timedelta(seconds=REFUSALS_APART_S))
    refusal(reader, "remember", text=KETTLE)
    refusal(reader, "remember", text=KETTLE)

    lines = audited(brain)

    assert sorted(line.count for line in lines) == [1, 1, 1, 499]
    assert sum(line.count for line in lines) == 502


def test_the_sorts_of_refusals_that_are_counted_at_once_are_bounded(
    brain: Brain, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    refusals = AccessDenials(store=brain.services.store, clock=clock)
    with caplog.at_level(logging.WARNING):
        for number in range(REFUSALS_APART_MAX + 50):
            entry = AccessEntry(at=clock.now(), action="get", code="x", agent=str(number))
            refusals.note("default", entry)
    refusals.close()

    with brain.services.store.snapshot("default") as tx:
        kept = len(tx.credentials.audit_entries(limit=10_000))
    assert kept <= REFUSALS_APART_MAX
    assert "too many kinds" in caplog.text


def test_a_tenant_that_is_not_there_has_no_audit_and_breaks_nothing(
    brain: Brain, clock: FakeClock
) -> None:
    brain.services.refusals.note("nobody", AccessEntry(at=clock.now(), action="admit", code="x"))

    assert not audited(brain)


def test_the_audit_of_access_is_never_changed(brain: Brain, clock: FakeClock) -> None:
    from sqlalchemy import text  # noqa: PLC0415
    from sqlalchemy.exc import IntegrityError  # noqa: PLC0415

    with brain.services.store.begin("default") as tx:
        tx.credentials.note(AccessEntry(at=clock.now(), action="admit", code="x"))
    for statement in ("DELETE FROM access_audit", "UPDATE access_audit SET code = 'y'"):
        with (
            pytest.raises(IntegrityError, match="append-only"),
            brain.services.store.begin("default") as tx,
        ):
            tx.work.connection.execute(text(statement))  # type: ignore[attr-defined]
