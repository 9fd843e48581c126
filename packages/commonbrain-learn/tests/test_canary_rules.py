"""Which sessions a canary serves: always the same, as many as set, and others for each model."""

from datetime import UTC, datetime

import pytest
from commonbrain_learn.rollout import bucket_of, is_in_canary, serving_of
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model.model_card import ModelCard, ModelRole, ModelState
from commonbrain.model.scope import Caller

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
MODELS = st.integers(1, 2**63 - 1)
NAMES = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=20)


def card(
    id_: int = 1,
    state: ModelState = ModelState.CANARY,
    *,
    percent: float = 5.0,
    allow: tuple[str, ...] = (),
) -> ModelCard:
    return ModelCard(
        id=id_,
        role=ModelRole.RERANKER,
        state=state,
        digest="0" * 64,
        features=("fused",),
        told={},
        percent=percent,
        allow=allow,
        made_at=NOON,
        moved_at=NOON,
    )


@pytest.mark.requirement("JB-11")
@given(MODELS, NAMES, st.floats(0, 100), st.floats(0, 100))
def test_served_session_stays_served_when_the_share_grows(
    model: int, session: str, less: float, more: float
) -> None:
    less, more = sorted((less, more))
    caller = Caller(agent="bo", session=session)
    served = is_in_canary(card(model, percent=less), caller)
    assert served == is_in_canary(card(model, percent=less), caller)
    assert is_in_canary(card(model, percent=more), caller) or not served
    assert is_in_canary(card(model, percent=100), caller)
    assert not is_in_canary(card(model, percent=0), caller)


@pytest.mark.requirement("JB-11")
@given(MODELS, NAMES, st.sampled_from((5, 10, 50)))
def test_share_of_served_sessions_matches_the_setting(
    model: int, tenant: str, percent: int
) -> None:
    count = 2000
    places = [bucket_of(model, tenant=tenant, who=f"s{number}") for number in range(count)]
    served = sum(place < percent for place in places)
    # Six standard deviations of a binomial count: one run in five hundred million is further off.
    spread = 6 * (count * percent / 100 * (1 - percent / 100)) ** 0.5
    assert abs(served - count * percent / 100) <= spread


@given(MODELS, MODELS.map(lambda one: one // 2 * 2 + 1))
def test_models_choose_their_sessions_independently(one: int, other: int) -> None:
    if one == other:
        return
    names = [f"s{number}" for number in range(2000)]
    both = sum(
        bucket_of(one, tenant="t", who=who) < 50 and bucket_of(other, tenant="t", who=who) < 50
        for who in names
    )
    assert abs(both - 500) <= 6 * (2000 * 0.25 * 0.75) ** 0.5


def test_trial_agent_is_served_in_every_session() -> None:
    tried = card(percent=0, allow=("bo",))
    assert all(
        is_in_canary(tried, Caller(agent="bo", session=f"s{number}")) for number in range(20)
    )
    assert not is_in_canary(tried, Caller(agent="al", session="s1"))


def test_only_a_serving_model_serves(subtests: pytest.Subtests) -> None:
    for state in ModelState:
        with subtests.test(state=state):
            is_serving = state in {ModelState.CANARY, ModelState.ACTIVE}
            assert is_in_canary(card(1, state, percent=100), Caller(agent="bo")) is is_serving


def test_canary_is_chosen_before_the_active_model_for_allowed_agents() -> None:
    tried, active = card(1, percent=0, allow=("bo",)), card(2, ModelState.ACTIVE)
    assert serving_of([active, tried], Caller(agent="bo")) == tried
    assert serving_of([active, tried], Caller(agent="al")) == active
    assert serving_of([tried], Caller(agent="al")) is None
