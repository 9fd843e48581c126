"""Restoring, keeping both, and settling a conflict."""

from dataclasses import replace
from datetime import timedelta

import pytest

from commonbrain.client import Brain
from commonbrain.history.change_plan import ChangeStatus
from commonbrain.model.errors import RejectedError
from commonbrain.model.kinds import FactDetail, RuleDetail
from commonbrain.model.memory import State
from commonbrain.testing.builders import FakeClock
from tests.asking import FailingEmbedder, bodies, stored

TWO = "The nightly build runs on two cores"
FOUR = "The nightly build runs on four cores"
EIGHT = "The nightly build runs on eight cores"
NOON = "Deploys of the billing service happen at noon"


def corrected(brain: Brain, id_: str, text: str = FOUR) -> str:
    return brain.revise.supersede(id_, text, reason="upgrade").id or ""


@pytest.mark.requirement("LC-08")
def test_restoring_undoes_a_supersede_and_retires_the_corrector(
    brain: Brain, clock: FakeClock
) -> None:
    old = stored(brain, TWO, kind="fact")
    clock.move(timedelta(days=1))
    new = corrected(brain, old)
    clock.move(timedelta(days=1))
    done = brain.revise.restore(old, reason="it was two after all")
    assert (done.status, new in (done.hint or "")) == (ChangeStatus.DONE, True)
    assert f"{old} state: superseded -> active" in done.changed
    assert bodies(brain, "build") == [TWO]
    assert (brain.get(old).current_id, brain.get(new).state) == (old, State.FORGOTTEN)
    assert brain.revise.restore(old, reason="again").status is ChangeStatus.UNCHANGED
    assert bodies(brain, "build", as_of=clock.now() - timedelta(hours=36)) == [TWO]
    assert brain.doctor().is_sound


@pytest.mark.requirement("LC-19")
def test_restoring_the_middle_of_a_chain_is_refused_and_the_head_named(
    brain: Brain, subtests: pytest.Subtests
) -> None:
    first = stored(brain, TWO, kind="fact")
    head = corrected(brain, corrected(brain, first), EIGHT)
    for how in ("restore", "keep_both"):
        with subtests.test(how=how):
            with pytest.raises(RejectedError, match=head) as refusal:
                getattr(brain.revise, how)(first, reason="back")
            assert refusal.value.code == "mid_chain"
            assert bodies(brain, "build") == [EIGHT]


def test_restored_middle_of_a_chain_becomes_its_head_and_can_be_superseded_again(
    brain: Brain,
) -> None:
    first = stored(brain, TWO, kind="fact")
    second = corrected(brain, first)
    third = corrected(brain, second, EIGHT)
    brain.revise.restore(second, reason="eight was wrong")
    assert brain.get(first).current_id == second
    sixteen = corrected(brain, second, "The nightly build runs on sixteen cores")
    assert brain.get(first).current_id == sixteen
    assert brain.get(third).state is State.FORGOTTEN


def test_restored_memory_is_recalled_by_words_and_by_meaning(brain: Brain) -> None:
    id_ = stored(brain, TWO, kind="fact")
    brain.forget(id_, reason="wrong")
    assert brain.revise.restore(id_, reason="right").changed == (
        f"{id_} state: forgotten -> active",
    )
    [item] = brain.recall("nightly build cores").items
    assert {"words", "meaning"} & set(item.why) or item.why
    assert brain.status().embedding_pending == 0
    assert brain.doctor().is_sound


def test_memory_forgotten_while_superseded_is_restored_as_superseded(brain: Brain) -> None:
    old = stored(brain, TWO, kind="fact")
    new = corrected(brain, old)
    brain.forget(old, reason="tidy")
    done = brain.revise.restore(old, reason="untidy")
    assert "superseded again" in (done.hint or "")
    assert (brain.get(old).state, brain.get(old).current_id) == (State.SUPERSEDED, new)


def test_restored_memory_is_recalled_by_words_while_the_embedder_is_down(
    brain: Brain,
) -> None:
    embedder = FailingEmbedder()
    with_embedder = Brain(replace(brain.services, embedder=embedder), brain.caller)
    id_ = stored(with_embedder, TWO, kind="fact")
    with_embedder.forget(id_, reason="wrong")
    embedder.is_down = True
    done = with_embedder.revise.restore(id_, reason="right")
    assert "words only" in (done.hint or "")
    assert (bodies(with_embedder, "nightly"), with_embedder.status().embedding_pending) == (
        [TWO],
        1,
    )


def test_restored_expired_memory_has_no_expiry(brain: Brain, clock: FakeClock) -> None:
    id_ = stored(brain, TWO, kind="fact", expires_at=clock.now() + timedelta(days=1))
    clock.move(timedelta(days=2))
    assert bodies(brain, "build") == []
    with pytest.raises(RejectedError, match="expired"):
        brain.revise.pin(id_)
    brain.revise.restore(id_, reason="it still does")
    assert bodies(brain, "build") == [TWO]


def test_declaring_both_true_cuts_the_chain_and_both_are_recalled(brain: Brain) -> None:
    old = stored(brain, TWO, kind="fact")
    new = corrected(brain, old)
    done = brain.revise.keep_both(old, reason="one per branch")
    assert done.status is ChangeStatus.DONE
    assert set(bodies(brain, "nightly build")) == {TWO, FOUR}
    assert brain.get(new).superseded_count == 0
    with pytest.raises(RejectedError) as refusal:
        brain.revise.keep_both(old, reason="again")
    assert refusal.value.code == "not_superseded"


def test_two_conflicting_memories_can_be_declared_both_true(brain: Brain) -> None:
    one, other = stored(brain, TWO, kind="fact"), stored(brain, NOON, kind="fact")
    with pytest.raises(RejectedError, match="not in conflict"):
        brain.revise.keep_both(one, other=other, reason="both")
    brain.revise.link(other, one, type="conflicts_with")
    done = brain.revise.keep_both(one, other=other, reason="both")
    assert [line.split()[1:3] for line in done.changed] == [
        ["no", "longer"],
        ["relates_to", other],
    ]
    again = brain.revise.keep_both(one, other=other, reason="both")
    assert again.status is ChangeStatus.UNCHANGED


def test_winner_of_a_settled_conflict_supersedes_the_other_memory(brain: Brain) -> None:
    one, other = stored(brain, TWO, kind="fact"), stored(brain, NOON, kind="fact")
    brain.revise.link(one, other, type="conflicts_with")
    brain.revise.resolve(one, other=other, reason="measured")
    assert brain.get(other).current_id == one
    assert (brain.get(one).superseded_count, bodies(brain)) == (1, [TWO])
    third = stored(brain, "Zanzibar is where we build", kind="fact")
    with pytest.raises(RejectedError) as refusal:
        brain.revise.resolve(one, other=third, reason="too")
    assert refusal.value.code == "chain_taken"
    brain.revise.restore(other, reason="not so")
    assert brain.get(one).state is State.FORGOTTEN


@pytest.mark.requirement("WP-19", "WP-21")
def test_pin_passes_to_a_successor_and_its_trigger_on_request(brain: Brain) -> None:
    skill = {"name": "build", "keywords": ["build"], "projects": [], "always_on": False}
    old = stored(brain, TWO, kind="rule", detail=RuleDetail(skill=skill))
    brain.revise.pin(old)
    plain = corrected(brain, old)
    assert brain.get(plain).detail["skill"] is None
    assert brain.revise.pin(plain).status is ChangeStatus.UNCHANGED
    brain.revise.restore(old, reason="once more")
    query = brain.revise.supersede(old, EIGHT, reason="more", inherit_skill=True).id
    assert brain.get(query or "").detail["skill"] == skill
    assert brain.revise.pin(query or "").status is ChangeStatus.UNCHANGED


@pytest.mark.requirement("DM-04", "WP-08")
def test_superseded_rule_is_shown_as_deprecated_until_it_is_restored(
    brain: Brain,
) -> None:
    old = stored(brain, TWO, kind="rule", severity="BLOCKER")
    corrected(brain, old)
    assert brain.get(old).detail["severity"] == "DEPRECATED"
    brain.revise.restore(old, reason="after all")
    assert brain.get(old).detail["severity"] == "BLOCKER"


def test_successor_has_the_same_lifetime_or_the_same_expiry(brain: Brain, clock: FakeClock) -> None:
    end = clock.now() + timedelta(days=2)
    dated = stored(brain, NOON, kind="fact", expires_at=end)
    lasting = stored(brain, TWO, kind="fact", detail=FactDetail(ttl_s=86400))
    clock.move(timedelta(hours=12))
    corrected(brain, dated, "Deploys of the billing service happen at one")
    corrected(brain, lasting)
    clock.move(timedelta(hours=18))
    assert len(bodies(brain)) == 2
    clock.move(timedelta(hours=18))
    assert bodies(brain) == []
