"""Atomizing what is stored: page by page, and each memory by itself."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest
from commonbrain_causes.atomize import atomizer_of
from commonbrain_causes.extractors import PatternExtractor

from commonbrain.client import Brain
from commonbrain.embeddings.interface import Extractor
from commonbrain.model.atoms import Atom
from commonbrain.model.errors import InvalidInputError, NotFoundError, UnavailableError
from commonbrain.model.kinds import Kind
from commonbrain.model.scope import Role
from commonbrain.testing.builders import FakeClock
from tests.asking import stored

POOL = "The pool of the shop was too small, causing every order to wait."
PROXY = "The certificate of the proxy expired, causing every request to fail."
FAN = "The fan of the node died, leading to a sudden shutdown."


@dataclass(frozen=True)
class Stubborn:
    """Finds by patterns, but does not answer for some texts."""

    name = "stubborn"
    refused: Sequence[str]
    asked: list[str] = field(default_factory=list[str])

    def atoms(self, text: str) -> Sequence[Atom]:
        self.asked.append(text)
        if text in self.refused:
            raise UnavailableError("No answer.", code="extractor_down", hint="Later.")
        return PatternExtractor().atoms(text)


@dataclass(frozen=True)
class Forgetful:
    """Finds by patterns; meanwhile a memory is forgotten."""

    name = "forgetful"
    brain: Brain
    id: str

    def atoms(self, text: str) -> Sequence[Atom]:
        self.brain.forget(self.id, reason="wrong")
        return PatternExtractor().atoms(text)


def with_extractor(brain: Brain, extractor: Extractor) -> Brain:
    return Brain(replace(brain.services, extractor=lambda: extractor), brain.caller)


def incidents(brain: Brain, *texts: str) -> list[str]:
    return [stored(brain, text, kind="incident") for text in texts]


@pytest.mark.parametrize("apart", [timedelta(0), timedelta(minutes=1)])
def test_paged_calls_atomize_every_memory_once(
    brain: Brain, clock: FakeClock, apart: timedelta
) -> None:
    for number in range(7):
        stored(brain, f"The disk of node{number} filled up, causing it to stop.", kind="incident")
        clock.move(apart)
    pages = [atomizer_of(brain)(limit=3)]
    while pages[-1].next:
        pages.append(atomizer_of(brain)(limit=3, before=pages[-1].next))
    assert [(one.read, one.stored, one.known) for one in pages] == [(3, 3, 0), (3, 3, 0), (1, 1, 0)]
    with pytest.raises(NotFoundError):
        atomizer_of(brain)(before="mem_0000000000000")


def test_writer_makes_an_atom_of_the_team_from_a_global_memory(brain: Brain) -> None:
    stored(brain, POOL, kind="incident", scope="global")
    incidents(brain, PROXY)
    writer = Brain(brain.services, replace(brain.caller, role=Role.WRITER))
    done = atomizer_of(writer)()
    assert (done.read, done.stored, done.rejected) == (2, 2, 0)
    assert {brain.get(str(one.id)).scope for one in done.items} == {"team"}


def test_source_forgotten_during_atomizing_does_not_stop_the_others(brain: Brain) -> None:
    removed, _ = incidents(brain, POOL, PROXY)
    extractor = Forgetful(brain, removed)
    done = atomizer_of(with_extractor(brain, extractor))()
    assert (done.read, done.stored, done.rejected) == (1, 1, 1)
    [reply] = [one.reason for one in done.items if one.code == "not_found"]
    assert removed in str(reply)


def test_extractor_failure_on_one_text_does_not_stop_the_others(brain: Brain) -> None:
    incidents(brain, POOL, PROXY, FAN)
    extractor = Stubborn([PROXY])
    stubborn = with_extractor(brain, extractor)
    done = atomizer_of(stubborn)()
    assert (done.read, done.stored, done.rejected) == (2, 2, 1)
    assert [one.hint for one in done.items if one.code == "extractor_down"] == ["Later."]


def test_atomizing_gives_up_after_three_unanswered_extractor_calls(brain: Brain) -> None:
    texts = [f"{POOL} Number {number}." for number in range(9)]
    for text in texts:
        stored(brain, text, kind="incident", distinct_because="again")
    extractor = Stubborn(texts)
    with pytest.raises(UnavailableError, match="No answer"):
        atomizer_of(with_extractor(brain, extractor))()
    assert len(extractor.asked) == 3


def test_atomizing_stopped_by_a_failing_extractor_returns_where_to_continue(
    brain: Brain, clock: FakeClock
) -> None:
    texts = [f"{POOL} Number {number}." for number in range(5)]
    for text in texts:
        stored(brain, text, kind="incident", distinct_because="again")
        clock.move(timedelta(minutes=1))
    down = with_extractor(brain, Stubborn(texts[:-1]))
    done = atomizer_of(down)()
    assert (done.read, done.rejected) == (1, 3)
    assert atomizer_of(brain)(before=done.next).read == 4


def test_atomizing_of_future_kinds_such_as_tasks_is_refused_with_the_reason(brain: Brain) -> None:
    task = stored(brain, "Fix the disk because it is full and breaks the build", kind="task")
    done = atomizer_of(brain)(task)
    assert (done.read, done.rejected) == (0, 1)
    assert "not done yet" in str(done.items[0].reason)
    with pytest.raises(InvalidInputError, match="not done yet"):
        atomizer_of(brain)(kinds=[Kind.TASK])
