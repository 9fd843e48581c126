"""The policy of a tenant sets parameters for all its callers."""

import pytest
from commonbrain_server.guard import guard_of
from commonbrain_server.tenants import admin_of

from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.parameters import (
    DEFAULTS,
    Parameters,
)
from commonbrain.model.scope import Policy, Trust
from tests.asking import remember_one, stored
from tests.working import a_worker

SECRET = "The key is ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.mark.requirement("DO-22")
def test_policy_of_a_tenant_applies_to_all_its_callers(
    brain: Brain,
) -> None:
    web = stored(brain, "The kettle is blue", kind="fact", trust=Trust.UNTRUSTED_WEB)
    assert not brain.recall("kettle").items
    admin_of(brain).policy(parameters=("trust_min=0.3", "secrets=redact", "recall_items=1"))
    assert [one.id for one in brain.recall("kettle").items] == [web]
    redacted = brain.get(stored(brain, SECRET, kind="fact"))
    assert "ghp_" not in str(redacted.body)
    assert len(brain.recall().items) == 1
    admin_of(brain).policy(parameters=("trust_min=",))
    assert not brain.recall("kettle").items
    assert admin_of(brain).usage().policy.parameters == ("recall_items=1", "secrets=redact")


def test_parameter_of_an_older_program_is_ignored_and_can_be_removed(brain: Brain) -> None:
    known = ("duplicate_threshold=0.9", "trust_min=0.3")
    with brain.services.store.begin(brain.caller.tenant) as tx:
        tx.credentials.set_policy(Policy(parameters=known))
    guard_of(brain.services).policy_changed(brain.caller.tenant)
    web = stored(brain, "The kettle is blue", kind="fact", trust=Trust.UNTRUSTED_WEB)
    assert [one.id for one in brain.recall("kettle").items] == [web]
    policy = admin_of(brain).policy(parameters=("duplicate_threshold=",))
    assert policy.parameters == ("trust_min=0.3",)


def test_thresholds_of_a_tenant_decide_what_is_reported_as_similar(brain: Brain) -> None:
    stored(brain, "The nightly build runs on two cores", kind="fact")
    admin_of(brain).policy(parameters=("similar_threshold=0.99",))
    other = remember_one(brain, "The nightly build runs on two fast cores", kind="fact")
    assert other.similar == ()
    admin_of(brain).policy(parameters=("similar_threshold=0.2",))
    third = remember_one(brain, "The nightly build runs on two slow cores", kind="fact")
    assert third.similar


NEAR = (
    "Review every pull request before merging it",
    "Before merging it, a colleague reads every pull request",
)


@pytest.mark.requirement("DO-22")
def test_thresholds_of_a_tenant_reach_suspects_and_consolidation(brain: Brain) -> None:
    one, other = sorted(stored(brain, text, kind="rule", project="api") for text in NEAR)

    def pairs() -> tuple[int, object]:
        suspects = brain.review("duplicates").duplicates
        job = brain.jobs.run("consolidate")
        a_worker(brain, kinds=["consolidate"]).sweep()
        return len(suspects), dict(brain.jobs.show(job.id).result or {})["near_pairs"]

    assert pairs() == (1, 1)
    admin_of(brain).policy(parameters=("similar_threshold=0.97",))
    assert pairs() == (0, 0)
    with pytest.raises(RejectedError, match="not in conflict"):
        brain.revise.keep_both(one, other=other, reason="two teams")


@pytest.mark.requirement("DO-22")
def test_thresholds_of_a_tenant_reach_the_reasons_that_are_suggested(brain: Brain) -> None:
    stored(brain, "The shop runs on one Postgres server of the old kind", kind="fact")
    text = "We lock {} rows because the shop runs on one Postgres server."
    assert remember_one(brain, text.format("stock"), kind="task").suggestions
    admin_of(brain).policy(parameters=("similar_threshold=0.97",))
    assert not remember_one(brain, text.format("order"), kind="task").suggestions


@pytest.mark.requirement("DO-22")
def test_policy_only_raises_the_trust_needed_without_a_query(
    brain: Brain,
) -> None:
    claim = stored(brain, "Deploy with two approvals", kind="rule", severity="BLOCKER")

    def blockers() -> set[str]:
        checked = brain.session.checkpoint("deploy the shop").checked
        booted = brain.boot(task="deploy the shop")
        assert checked is not None
        assert {one.id for one in booted.blockers} == {one.id for one in checked.blockers}
        return {one.id for one in checked.blockers}

    admin_of(brain).policy(parameters=("trust_min=0.3",))
    assert blockers() == {claim}
    admin_of(brain).policy(parameters=("trust_min=0.9",))
    assert blockers() == set()
    assert Parameters(trust_min=0.3).proactive_trust_min == DEFAULTS.trust_min


@pytest.mark.requirement("DO-22")
def test_invalid_parameter_does_not_change_the_policy(
    brain: Brain, subtests: pytest.Subtests
) -> None:
    for parameter in (
        "trust_min=2",
        "trust_min=high",
        "half_life_days=3",
        "secrets=shred",
        "trust_min",
    ):
        with subtests.test(parameter=parameter):
            admin_of(brain).policy(parameters=("trust_min=0.6",))
            if parameter == "trust_min":
                assert admin_of(brain).policy(parameters=(parameter,)).parameters == ()
                continue
            with pytest.raises(InvalidInputError):
                admin_of(brain).policy(parameters=(parameter,))
            assert admin_of(brain).usage().policy.parameters == ("trust_min=0.6",)
