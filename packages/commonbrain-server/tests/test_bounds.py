"""Rates, quotas, boot and roles: what a caller with a credential may do, and what is denied."""

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from calling import KETTLE, audited, call, refusal
from commonbrain_server.security.authentication import check_claims
from commonbrain_server.security.rate_limits import MovingWindowLimiter, make_rates

from commonbrain.api.errors import describe_error, to_transport_error
from commonbrain.client import Brain
from commonbrain.model.errors import LimitExceededError, RejectedError
from commonbrain.model.limits import USAGE_CACHE_S
from commonbrain.model.scope import Policy, Role
from commonbrain.testing.builders import FakeClock


def test_credential_calls_as_often_as_its_policy_allows(networked: Callable[..., Brain]) -> None:
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


def test_rate_of_a_tenant_is_shared_by_all_its_keys(
    networked: Callable[..., Brain],
) -> None:
    policy = Policy(tenant_calls_per_minute=3)
    for number in range(3):
        call(networked(policy, credential=str(number)), "status")

    assert refusal(networked(policy, credential="new"), "status").code == "rate_limited"
    call(networked(policy, tenant="acme"), "status")


def test_local_caller_has_no_rate_limit(brain: Brain) -> None:
    for _ in range(5):
        call(brain, "status")

    assert not audited(brain)


def test_process_counts_alone_while_redis_is_down_and_logs_that_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rates = replace(make_rates("redis://127.0.0.1:1/0"), retry_s=0.0)
    with caplog.at_level(logging.WARNING):
        taken = [rates.take("bob", per_minute=2) for _ in range(4)]

    assert [one is None for one in taken] == [True, True, False, False]
    assert sum("Redis does not answer" in line for line in caplog.messages) == 1


def test_reading_a_rate_counts_no_call() -> None:
    rates = MovingWindowLimiter()

    assert all(rates.wait("bob", per_minute=1) is None for _ in range(3))
    assert rates.take("bob", per_minute=1) is None
    assert rates.wait("bob", per_minute=1) is not None


@pytest.mark.requirement("ST-08")
def test_full_tenant_stores_no_more_but_can_forget_and_revise(
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
def test_all_memories_of_a_text_count_against_the_quota_and_none_is_left(
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


def test_forgotten_memory_is_restored_only_within_the_quota(
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
def test_rejected_and_duplicate_texts_use_no_quota(networked: Callable[..., Brain]) -> None:
    roomy = networked(Policy(memories_max=2))
    for _ in range(5):
        call(roomy, "remember", text="key AKIA" + "IOSFODNN7REALKEY", kind="fact")
        call(roomy, "remember", text=KETTLE, kind="fact")

    call(roomy, "remember", text="The lamp is broken.", kind="fact")


@pytest.mark.requirement("WP-38")
def test_tenant_that_requires_boot_answers_no_call_before(
    networked: Callable[..., Brain],
) -> None:
    policy = Policy(is_boot_required=True)
    nameless, new = networked(policy), networked(policy, session="s1")

    assert refusal(nameless, "recall", query="kettle").code == "boot_required"
    assert refusal(new, "recall", query="kettle").code == "boot_required"
    call(new, "boot")
    call(new, "recall", query="kettle")
    assert refusal(networked(policy, session="s2"), "status").code == "boot_required"


def test_scope_of_a_key_and_role_of_an_agent_are_denied_by_different_codes(
    networked: Callable[..., Brain],
) -> None:
    narrowed = networked(role=Role.READER, own=Role.WRITER)
    reader = networked(role=Role.READER)

    assert refusal(narrowed, "remember", text=KETTLE).code == "scope_denied"
    assert refusal(reader, "remember", text=KETTLE).code == "insufficient_role"
    assert refusal(networked(), "admin", op="keys").code == "insufficient_role"


@pytest.mark.requirement("ST-14")
def test_claim_of_another_tenant_or_agent_is_denied(networked: Callable[..., Brain]) -> None:
    caller = networked().caller
    check_claims(caller, tenant=None, agent=None)
    check_claims(caller, tenant=caller.tenant, agent=caller.agent)

    for what, claim in (
        ("tenant", {"tenant": "acme", "agent": None}),
        ("agent", {"tenant": None, "agent": "ann"}),
    ):
        with pytest.raises(RejectedError) as error:
            check_claims(caller, **claim)
        assert error.value.code == f"{what}_mismatch"
