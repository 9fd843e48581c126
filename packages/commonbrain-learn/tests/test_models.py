"""Models move by the hands of admins and of guards, whole or not at all, and the audit tells."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from commonbrain_learn.model_registry import ModelView, TransitionOptions, models_of
from commonbrain_learn.rollout import bucket_of
from ranking_helpers import (
    ByFeature,
    Shop,
    audited,
    crashing,
    marked_used,
    on_trial,
    sessions_of,
    state_of,
    with_models,
)

from commonbrain.client import Brain
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, NotFoundError, RejectedError
from commonbrain.model.model_card import ModelRole, ModelState, model_name
from commonbrain.model.query import RecallTrace
from commonbrain.model.recall_result import ResultStatus
from commonbrain.model.scope import Caller, Role
from commonbrain.retrieval.write_behind import WriteBehindQueue
from commonbrain.testing.builders import FakeClock, a_brain
from tests.asking import stored
from tests.tenant_rows import add_tenant, set_policy

ASKED = "Where does the kettle stand?"
FORCED = TransitionOptions(reason="It was proved elsewhere.", is_forced=True)


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def brain(path: Path, clock: FakeClock, shop: Shop) -> Iterator[Brain]:
    with a_brain(path, clock=clock) as plain:
        for number in range(4):
            stored(plain, f"The kettle number {number} stands {'up ' * number}there.", kind="fact")
        yield with_models(plain, shop)


def only(models: tuple[ModelView, ...]) -> ModelView:
    [one] = models
    return one


@pytest.mark.requirement("EV-06", "DM-53")
def test_model_is_listed_and_its_card_shows_its_transitions(
    brain: Brain, shop: Shop, clock: FakeClock
) -> None:
    card = shop.card(brain, ByFeature())
    id_ = model_name(card)
    models_of(brain).canary(id_, percent=20, allow=["bo"])
    clock.move(timedelta(hours=1))
    models_of(brain).canary(id_, percent=40, move=TransitionOptions(reason="It goes well."))
    listed = only(models_of(brain)(ModelRole.RERANKER).models)
    assert (listed.id, listed.state, listed.percent) == (id_, ModelState.CANARY, 40)
    assert models_of(brain)(ModelRole.SALIENCE).models == ()
    card_view = only(models_of(brain).show(id_).models)
    assert card_view.told == {"ndcg@10": 0.5}
    assert card_view.features == ("fused",)
    assert [(move.to, move.why) for move in card_view.moves or ()] == [
        ("canary", "It goes well."),
        ("canary", "on trial with 20% of the sessions"),
    ]


def test_preview_of_a_model_transition_changes_nothing(brain: Brain, shop: Shop) -> None:
    card = shop.card(brain, ByFeature())
    preview = models_of(brain).canary(model_name(card), move=TransitionOptions(is_preview=True))
    assert preview.is_preview
    assert only(preview.models).state is ModelState.CANARY
    assert state_of(brain, card) is ModelState.CANDIDATE
    assert audited(brain) == {}


def test_unproven_model_is_promoted_only_by_force_with_a_reason(brain: Brain, shop: Shop) -> None:
    card = shop.card(brain, ByFeature())
    id_ = model_name(card)
    with pytest.raises(RejectedError, match="it was on no trial"):
        models_of(brain).promote(id_)
    models_of(brain).canary(id_)
    with pytest.raises(RejectedError, match="the model has 0 of 50 recalls") as error:
        models_of(brain).promote(id_)
    assert error.value.code == "model_unproven"
    with pytest.raises(InvalidInputError, match="needs a reason"):
        models_of(brain).promote(id_, move=TransitionOptions(is_forced=True))
    models_of(brain).promote(id_, move=FORCED)
    assert state_of(brain, card) is ModelState.ACTIVE
    assert "It was proved elsewhere." in audited(brain)["model_active"]


def test_model_judged_not_better_becomes_canary_only_by_force(brain: Brain, shop: Shop) -> None:
    card = shop.card(brain, ByFeature(), told={"outcome": "not_better"}, state=ModelState.RETIRED)
    with pytest.raises(RejectedError, match="judged not_better"):
        models_of(brain).canary(model_name(card))
    models_of(brain).canary(model_name(card), move=FORCED)
    assert state_of(brain, card) is ModelState.CANARY


@pytest.mark.requirement("EV-04")
def test_rollback_restores_the_model_that_served_before(
    brain: Brain, shop: Shop, clock: FakeClock
) -> None:
    weights = [item.id for item in brain.recall(ASKED).items]
    first, second = shop.card(brain, ByFeature(sign=-1)), shop.card(brain, ByFeature("recency"))
    models_of(brain).promote(model_name(first), move=FORCED)
    by_first = [item.id for item in brain.recall(ASKED).items]
    assert by_first != weights
    clock.move(timedelta(hours=1))
    models_of(brain).promote(model_name(second), move=FORCED)
    assert state_of(brain, first) is ModelState.RETIRED
    clock.move(timedelta(hours=1))

    moved = models_of(brain).roll_back(
        model_name(second), move=TransitionOptions(reason="Nobody likes it.")
    )

    assert {one.id: one.state for one in moved.models} == {
        model_name(second): ModelState.ROLLED_BACK,
        model_name(first): ModelState.ACTIVE,
    }
    # At once, in the process that did it.
    assert [item.id for item in brain.recall(ASKED).items] == by_first
    models_of(brain).roll_back(model_name(first))
    assert [item.id for item in brain.recall(ASKED).items] == weights
    with pytest.raises(RejectedError, match="rolled_back and cannot become canary"):
        models_of(brain).canary(model_name(first))


def test_failing_active_model_is_rolled_back_like_a_canary(
    brain: Brain, shop: Shop, clock: FakeClock
) -> None:
    card = shop.card(brain, crashing())
    models_of(brain).promote(model_name(card), move=FORCED)
    for _ in range(5):
        assert brain.recall(ASKED).items
        clock.move(timedelta(seconds=2))
    brain.services.journal.flush()
    assert state_of(brain, card) is ModelState.ROLLED_BACK


def test_only_one_model_can_be_canary(brain: Brain, shop: Shop) -> None:
    first, second = shop.card(brain, ByFeature()), shop.card(brain, ByFeature())
    models_of(brain).canary(model_name(first))
    with pytest.raises(RejectedError, match="is the canary already"):
        models_of(brain).canary(model_name(second))
    models_of(brain).retire(model_name(first))
    models_of(brain).canary(model_name(second))
    assert state_of(brain, second) is ModelState.CANARY


def test_only_an_admin_sees_models_and_changes_their_state(brain: Brain, shop: Shop) -> None:
    id_ = model_name(shop.card(brain, ByFeature()))
    writer = Brain(brain.services, replace(brain.caller, role=Role.WRITER))
    for call in (
        models_of(writer),
        lambda: models_of(writer).show(id_),
        models_of(writer).guards,
        lambda: models_of(writer).canary(id_),
        lambda: models_of(writer).roll_back(id_),
    ):
        with pytest.raises(RejectedError, match="models take an admin"):
            call()


@pytest.mark.requirement("JB-03", "ST-04")
def test_model_of_another_tenant_is_invisible_and_does_not_serve(brain: Brain, shop: Shop) -> None:
    card = shop.card(brain, crashing())
    models_of(brain).canary(model_name(card), percent=100)
    add_tenant(brain, "other")
    other = Brain(brain.services, replace(brain.caller, tenant="other"))
    stored(other, "The kettle stands there.", kind="fact")
    assert other.recall(ASKED).degraded == ()
    for call in (
        models_of(other).show,
        models_of(other).promote,
        models_of(other).roll_back,
    ):
        with pytest.raises(NotFoundError):
            call(model_name(card))
    assert models_of(other)().models == ()


def a_past_trace(brain: Brain, card_id: int | None, *, session: str, number: int) -> RecallTrace:
    """Make the trace of a recall of the last hours."""
    at = brain.services.clock.now() - timedelta(hours=2) + timedelta(seconds=number)
    return RecallTrace(
        id=ids.make_id(at, number),
        caller=Caller(agent="ann", session=session),
        asked_at=at,
        query="?",
        status=ResultStatus.FOUND,
        considered=(),
        packed=(5,),
        degraded=(),
        stages_ms={"retrieve": 5.0 + number % 3},
        ranker=card_id,
    )


@pytest.mark.parametrize("is_automatic", [False, True])
@pytest.mark.requirement("JB-03")
def test_successful_canary_is_promoted_automatically_where_the_policy_allows(
    brain: Brain,
    shop: Shop,
    clock: FakeClock,
    is_automatic: bool,  # noqa: FBT001
) -> None:
    set_policy(brain, is_promotion_automatic=is_automatic)
    card = on_trial(brain, shop, ByFeature(), percent=50)
    served, others = (sessions_of(card, count=20, served=yes) for yes in (True, False))
    clock.move(timedelta(hours=3))
    traces = [
        a_past_trace(
            brain,
            card.id if number % 2 else None,
            session=(served if number % 2 else others)[number // 2 % 20],
            number=number,
        )
        for number in range(410)
    ]
    yesterday = clock.now() - timedelta(days=1)
    brain.services.store.note_reads(
        brain.caller.tenant, traces=traces, accesses=(), retain_from=yesterday
    )
    helped = [trace.id for number, trace in enumerate(traces) if number // 40 % 4 < 3]
    marked_used(brain, helped, memory=5)
    guards = models_of(brain).guards().guards
    assert guards is not None
    assert guards[0].verdict == "promote", guards[0]
    brain.acting_as(session=served[0]).recall(ASKED)
    brain.services.journal.flush()

    assert state_of(brain, card) is (ModelState.ACTIVE if is_automatic else ModelState.CANARY)
    if not is_automatic:
        # By hand it takes no force now.
        models_of(brain).promote(model_name(card))
        assert state_of(brain, card) is ModelState.ACTIVE


@pytest.mark.requirement("EV-04")
def test_two_processes_of_a_store_roll_back_once_and_both_notice(
    path: Path, clock: FakeClock
) -> None:
    shop = Shop()
    with a_brain(path, clock=clock) as plain, a_brain(path, clock=clock) as second:
        stored(plain, "The kettle stands there.", kind="fact")
        one, other = with_models(plain, shop), with_models(second, shop)
        card = on_trial(one, shop, crashing())
        for _ in range(3):
            for brain in (one, other):
                assert brain.recall(ASKED).degraded
            clock.move(timedelta(seconds=2))
        with ThreadPoolExecutor(2) as threads:
            list(
                threads.map(WriteBehindQueue.flush, (one.services.journal, other.services.journal))
            )
        clock.move(timedelta(seconds=2))

        assert state_of(one, card) is ModelState.ROLLED_BACK
        assert [brain.recall(ASKED).degraded for brain in (one, other)] == [(), ()]
        with one.services.store.snapshot("default") as tx:
            moves = [line.action for line in tx.credentials.audit_entries(limit=50)]
        assert moves.count("model_rolled_back") == 1


def test_one_of_two_concurrent_canary_calls_succeeds(path: Path, clock: FakeClock) -> None:
    shop = Shop()
    with a_brain(path, clock=clock) as plain, a_brain(path, clock=clock) as process:
        one, other = with_models(plain, shop), with_models(process, shop)
        first, second = shop.card(one, ByFeature()), shop.card(one, ByFeature())

        def try_out(brain: Brain, id_: str) -> bool:
            try:
                models_of(brain).canary(id_)
            except RejectedError as error:
                return error.code not in {"canary_taken", "model_moved"}
            return True

        with ThreadPoolExecutor(2) as threads:
            done = list(threads.map(try_out, (one, other), (model_name(first), model_name(second))))
        assert sorted(done) == [False, True]


def test_session_served_by_a_canary_stays_on_the_canary(brain: Brain, shop: Shop) -> None:
    card = on_trial(brain, shop, ByFeature(sign=-1), percent=5)
    session = next(f"s{n}" for n in range(10_000) if place(brain, card.id, f"s{n}") < 5)
    served = brain.acting_as(session=session)
    first = [item.id for item in served.recall(ASKED).items]
    assert all([item.id for item in served.recall(ASKED).items] == first for _ in range(3))
    assert [item.id for item in brain.recall(ASKED).items] != first


def place(brain: Brain, model: int, session: str) -> float:
    return bucket_of(model, tenant=brain.caller.tenant, who=session)
