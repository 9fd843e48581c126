"""Two jobs of one kind at once, given different things: what both would make is made once."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from commonbrain.client import Brain
from commonbrain.model.kinds import Kind
from commonbrain.model.memory import State
from commonbrain.runtime.models import ExtractiveReflector
from commonbrain.testing.builders import FakeClock
from commonbrain.text.summaries import Reflection, SourceText
from tests.reflecting import CHECKOUT, every, reflect, sources, store_events


class Wording(ExtractiveReflector):
    """Words the same differently each time, and calls something before its first answer."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self.meanwhile, self.calls = meanwhile, 0

    def reflect(self, sources: Sequence[SourceText], *, claims_max: int) -> Reflection:
        self.calls += 1
        number = self.calls
        if number == 1:
            self.meanwhile()
        reflection = super().reflect(sources, claims_max=claims_max)
        points = [replace(one, text=f"{one.text} Telling {number}.") for one in reflection.points]
        return replace(reflection, points=tuple(points))


@pytest.mark.requirement("JB-01")
def test_two_concurrent_reflections_make_one_episode_of_the_same_events(brain: Brain) -> None:
    store_events(brain, CHECKOUT)
    wording = Wording(lambda: reflect(other, window_hours=48))
    both = replace(brain.services, reflector=wording)
    other = Brain(both, brain.caller)

    first = reflect(Brain(both, brain.caller))

    assert wording.calls == 2
    [episode] = every(brain, Kind.EPISODE, State.ACTIVE)
    assert "Telling 2." in episode.body
    assert (first["episodes"], first["candidates"]) == (0, 0)
    assert reflect(other)["episodes"] == 0
    assert wording.calls == 2


def test_reflection_covers_the_rest_of_a_partly_reflected_episode(
    brain: Brain, clock: FakeClock
) -> None:
    before = [f"At noon again: {text}" for text in CHECKOUT[:3]]
    early = store_events(brain, before)
    clock.move(timedelta(hours=2))
    late_events = store_events(brain, CHECKOUT)
    wording = Wording(lambda: reflect(other, window_hours=1))
    both = replace(brain.services, reflector=wording)
    other = Brain(both, brain.caller)

    assert reflect(Brain(both, brain.caller))["episodes"] == 1

    assert wording.calls == 3, "all, those of the last hour, and what these left"
    those = [sources(brain, one) for one in every(brain, Kind.EPISODE, State.ACTIVE)]
    assert sorted(those, key=len) == [set(early), set(late_events)]
