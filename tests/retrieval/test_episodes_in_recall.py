"""Where recall shows an episode of a reflection, and where its sources instead."""

from datetime import timedelta
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.model.kinds import Kind
from commonbrain.retrieval.plan import RetrievalOverrides
from commonbrain.retrieval.recall import Recall
from commonbrain.testing.builders import FakeClock, a_brain
from tests.reflecting import CHECKOUT, reflect, store_events


def kinds_of(brain: Brain, query: str, **options: object) -> list[Kind]:
    return [item.kind for item in brain.recall(query, bump=False, **options).items]  # type: ignore[arg-type]


@pytest.mark.requirement("JB-01")
def test_episode_is_omitted_if_its_sources_are_recalled(path: Path) -> None:
    with a_brain(path) as brain:
        store_events(brain, CHECKOUT)
        reflect(brain)

        assert set(kinds_of(brain, "variables of the checkout service")) == {Kind.EVENT}

        overrides = RetrievalOverrides(without=frozenset({"sources_first"}))
        recalled = Recall(brain.services, brain.caller, overrides)(
            "variables of the checkout service"
        )
        assert Kind.EPISODE in {item.kind for item in recalled.items}


@pytest.mark.requirement("JB-01")
@pytest.mark.parametrize(
    ("query", "kinds"),
    [
        ("What was decided about the checkout service today?", ()),
        ("What happened today?", ()),
        ("errors of the checkout service", ("episode",)),
    ],
)
def test_episode_is_recalled_for_a_time_and_for_a_query_for_episodes(
    path: Path, query: str, kinds: tuple[str, ...]
) -> None:
    with a_brain(path) as brain:
        store_events(brain, CHECKOUT)
        reflect(brain)

        assert Kind.EPISODE in kinds_of(brain, query, kinds=kinds)


@pytest.mark.requirement("JB-01")
def test_episode_is_recalled_once_its_sources_have_expired(path: Path, clock: FakeClock) -> None:
    with a_brain(path, clock=clock) as brain:
        store_events(brain, CHECKOUT, expires_at=clock.now() + timedelta(days=2))
        reflect(brain)
        clock.move(timedelta(days=3))
        brain.jobs.run("maintain")

        assert set(kinds_of(brain, "variables of the checkout service")) == {Kind.EPISODE}
