from concurrent.futures import ThreadPoolExecutor

import pytest

from commonbrain.client import Brain
from commonbrain.ingestion.result import ItemStatus
from commonbrain.model.errors import (
    CommonbrainError,
    InvalidInputError,
    NotFoundError,
    RejectedError,
)
from commonbrain.model.kinds import Kind, RuleDetail, Severity
from commonbrain.model.memory import State
from commonbrain.testing.builders import FakeClock
from tests.asking import bodies, remember_one, stored

TWO = "The nightly build runs on two cores"
FOUR = "The nightly build runs on four cores"


def superseded(brain: Brain, id_: str, text: str = FOUR) -> str:
    """Supersede a memory by a text that must get in, and give the new id."""
    outcome = brain.revise.supersede(id_, text, reason="upgrade")
    assert outcome.status is ItemStatus.STORED
    assert outcome.id is not None
    return outcome.id


@pytest.mark.requirement("RT-10", "LC-07")
def test_superseded_memory_stays_readable_with_a_banner_that_names_its_successor(
    brain: Brain,
) -> None:
    old = stored(brain, TWO, kind="fact")
    new = superseded(brain, old)
    memory = brain.get(old)
    assert (memory.state, memory.body, memory.current_id) == (State.SUPERSEDED, TWO, new)
    assert memory.banner == f"Superseded: {new} holds now: {FOUR}"
    assert (brain.get(new).banner, brain.get(new).superseded_count) == (None, 1)


def test_superseded_memory_names_the_head_of_its_chain(brain: Brain) -> None:
    first = stored(brain, TWO, kind="fact")
    head = superseded(brain, superseded(brain, first), "The build is gone")
    assert brain.get(first).current_id == head
    assert brain.get(head).superseded_count == 2
    assert [item.superseded_count for item in brain.recall("build").items] == [2]


def test_omitted_fields_are_taken_from_the_old_memory(brain: Brain) -> None:
    old = stored(
        brain,
        TWO,
        kind="convention",
        severity="BLOCKER",
        project="api",
        tags=["ci"],
        source_ref="ci.yml",
        headline="Cores",
    )
    new = brain.get(superseded(brain, old))
    assert (new.kind, new.label, new.project) == (Kind.RULE, "convention", "api")
    assert (new.tags, new.source_ref, new.headline) == (("ci",), "ci.yml", FOUR)
    assert new.detail["severity"] == Severity.BLOCKER


def test_given_fields_replace_the_old_values(brain: Brain) -> None:
    old = stored(brain, TWO, kind="rule", severity="BLOCKER", tags=["ci"])
    outcome = brain.revise.supersede(
        old, FOUR, reason="softer", severity="PATTERN", tags=["build"], headline="Cores"
    )
    new = brain.get(outcome.id or "")
    assert (new.tags, new.headline, new.detail["severity"]) == (("build",), "Cores", "PATTERN")


def test_successor_does_not_inherit_a_trigger_by_default(brain: Brain) -> None:
    skill = {"name": "build", "keywords": ["build"]}
    old = stored(brain, TWO, kind="rule", detail=RuleDetail(skill=skill, must_ack=True))
    detail = brain.get(superseded(brain, old)).detail
    assert (detail["skill"], detail["must_ack"]) == (None, True)


@pytest.mark.requirement("WP-18")
def test_supersede_needs_a_reason(brain: Brain, subtests: pytest.Subtests) -> None:
    old = stored(brain, TWO, kind="fact")
    for reason in ("", "  ", "x" * 1001):
        with subtests.test(reason=reason):
            with pytest.raises(InvalidInputError, match="reason"):
                brain.revise.supersede(old, FOUR, reason=reason)
            assert bodies(brain, "build") == [TWO]


@pytest.mark.requirement("WP-18", "WP-01")
def test_refused_successor_leaves_the_old_memory_active(brain: Brain) -> None:
    old = stored(brain, TWO, kind="fact")
    other = stored(brain, "Deploys of the billing service happen at noon", kind="fact")
    rejected = brain.revise.supersede(old, "word " * 401, reason="longer")
    duplicate = brain.revise.supersede(
        old, "Deploys of the billing service do happen at noon", reason="mixed up"
    )
    assert (rejected.status, rejected.code) == (ItemStatus.REJECTED, "gate_atomicity")
    assert (duplicate.status, duplicate.id) == (ItemStatus.DUPLICATE, other)
    assert brain.get(old).state is State.ACTIVE


@pytest.mark.requirement("WP-17")
def test_memory_being_superseded_is_no_duplicate_of_its_successor(brain: Brain) -> None:
    old = stored(brain, TWO, kind="fact")
    again = superseded(brain, old, "The nightly build, it runs on two cores")
    assert superseded(brain, again, "the nightly build, it runs on two cores")


def test_text_equal_to_a_successor_exists_already(brain: Brain) -> None:
    superseded(brain, stored(brain, TWO, kind="fact"))
    assert remember_one(brain, FOUR, kind="fact").status is ItemStatus.EXISTS
    stored(brain, TWO, kind="fact", distinct_because="believed again")


def test_only_the_head_of_a_chain_can_be_superseded(brain: Brain) -> None:
    old = stored(brain, TWO, kind="fact")
    new = superseded(brain, old)
    with pytest.raises(RejectedError, match=new) as refusal:
        brain.revise.supersede(old, "Another text", reason="late")
    assert refusal.value.code == "already_superseded"


def test_only_one_of_many_concurrent_supersedes_succeeds(brain: Brain) -> None:
    old = stored(brain, TWO, kind="fact")

    def attempt(n: int) -> str:
        try:
            text = f"Comet {n} is what builds x{n}"
            return brain.acting_as(agent=f"{n}").revise.supersede(old, text, reason="race").status
        except CommonbrainError as error:
            return error.code

    with ThreadPoolExecutor(8) as pool:
        reply = sorted(pool.map(attempt, range(12)))
    assert reply == ["already_superseded"] * 11 + ["stored"]
    assert len(brain.recall().items) == 1


def test_hidden_memory_cannot_be_superseded(brain: Brain) -> None:
    secret = stored(brain.acting_as(agent="bob"), TWO, kind="fact", scope="private")
    for id_ in (secret, "mem_0000000000001"):
        with pytest.raises(NotFoundError):
            brain.revise.supersede(id_, FOUR, reason="curious")


def test_shared_memory_cannot_be_superseded_by_a_private_one(brain: Brain) -> None:
    shared = stored(brain, TWO, kind="fact")
    bob = brain.acting_as(agent="bob")
    with pytest.raises(RejectedError) as refusal:
        bob.revise.supersede(shared, "Bob knows better", reason="mine", scope="private")
    assert refusal.value.code == "scope_denied"
    assert brain.get(shared).banner is None


def test_own_private_memory_can_be_shared_by_its_successor(brain: Brain) -> None:
    private = stored(brain, TWO, kind="fact", scope="private")
    outcome = brain.revise.supersede(private, FOUR, reason="for all", scope="team")
    bob = brain.acting_as(agent="bob")
    assert bodies(bob, "build") == [FOUR]
    assert bob.get(outcome.id or "").superseded_count == 1
    with pytest.raises(NotFoundError):
        bob.get(private)


def test_forgotten_memory_cannot_be_superseded(brain: Brain, clock: FakeClock) -> None:
    old = stored(brain, TWO, kind="fact", occurred_at=clock.now())
    brain.forget(old, reason="wrong")
    with pytest.raises(RejectedError, match="is forgotten"):
        brain.revise.supersede(old, FOUR, reason="x")
