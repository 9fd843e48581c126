"""Whatever is done in whatever order, a brain says what a plain model in memory says."""

import random
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from commonbrain.client import Brain
from commonbrain.model.errors import CommonbrainError, RejectedError
from commonbrain.model.memory import State
from commonbrain.testing.builders import FakeClock, SeededRandom, a_brain

WHY = "because a test says so"


@dataclass(slots=True)
class Told:
    """A memory as the model knows it: its one word, and what became of it."""

    id: str
    word: str
    state: State = State.ACTIVE
    by: "Told | None" = None
    is_erased: bool = False
    tags: set[str] = field(default_factory=set[str])

    def is_found_by(self, word: str) -> bool:
        return self.state is State.ACTIVE and word in {self.word, *self.tags}


class AnySequence(RuleBasedStateMachine):
    """One brain on a file beside one model; every memory is a word that no other has."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.clock, self.random_source = FakeClock(), SeededRandom(1)
        self.files = (self.folder / f"{number}.db" for number in range(10_000))
        self.file = next(self.files)
        self.brain = self.opened(self.file)
        self.known: list[Told] = []
        self.words = (f"qx{number}zk" for number in range(10_000))

    def opened(self, file: Path) -> Brain:
        return a_brain(file, clock=self.clock, random_source=self.random_source)

    def teardown(self) -> None:
        for told in self.known:
            self.check(told)
        diagnosis = self.brain.doctor()
        self.brain.close()
        shutil.rmtree(self.folder)
        assert diagnosis.is_sound, diagnosis.findings

    def one_of(self, data: st.DataObject, *states: State) -> Told | None:
        fitting = [told for told in self.known if told.state in states and not told.is_erased]
        return data.draw(st.sampled_from(fitting)) if fitting else None

    def stored(self, word: str) -> Told:
        [outcome] = self.brain.remember(f"{word} {word}", kind="fact").items
        assert outcome.id is not None
        self.known.append(Told(id=outcome.id, word=word))
        return self.known[-1]

    @rule()
    def remember(self) -> None:
        self.stored(next(self.words))

    @rule(data=st.data())
    def remember_again(self, data: st.DataObject) -> None:
        told = self.one_of(data, State.ACTIVE)
        if told is not None:
            [outcome] = self.brain.remember(f"{told.word} {told.word}", kind="fact").items
            assert (outcome.status, outcome.id) == ("exists", told.id)

    @rule(data=st.data())
    def supersede(self, data: st.DataObject) -> None:
        told = self.one_of(data, State.ACTIVE)
        if told is None:
            return
        word = next(self.words)
        outcome = self.brain.revise.supersede(told.id, f"{word} {word}", reason=WHY)
        assert outcome.status == "stored"
        assert outcome.id is not None
        # What is not given is taken from the old one: here its tags.
        self.known.append(Told(id=outcome.id, word=word, tags=set(told.tags)))
        told.state, told.by = State.SUPERSEDED, self.known[-1]

    @rule(data=st.data())
    def supersede_what_does_not_hold(self, data: st.DataObject) -> None:
        told = self.one_of(data, State.SUPERSEDED, State.FORGOTTEN)
        if told is not None:
            with pytest.raises(RejectedError):
                self.brain.revise.supersede(told.id, f"{next(self.words)} again", reason=WHY)

    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        told = self.one_of(data, State.ACTIVE)
        if told is not None:
            self.brain.forget(told.id, reason=WHY)
            told.state = State.FORGOTTEN

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        told = self.one_of(data, State.FORGOTTEN, State.SUPERSEDED)
        if told is None:
            return
        if told.by is None:
            self.brain.revise.restore(told.id, reason=WHY)
            told.state = State.ACTIVE
        elif told.by.state is State.ACTIVE:
            self.brain.revise.restore(told.id, reason=WHY)
            told.state, told.by.state, told.by = State.ACTIVE, State.FORGOTTEN, None
        elif told.by.state is State.SUPERSEDED:
            with pytest.raises(RejectedError):
                self.brain.revise.restore(told.id, reason=WHY)

    @rule(data=st.data())
    def erase(self, data: st.DataObject) -> None:
        told = self.one_of(data, State.ACTIVE, State.SUPERSEDED, State.FORGOTTEN)
        if told is not None:
            self.brain.erase(told.id, reason=WHY, confirm=1)
            told.state, told.is_erased = State.FORGOTTEN, True

    @rule(data=st.data())
    def retag(self, data: st.DataObject) -> None:
        told = self.one_of(data, State.ACTIVE)
        if told is not None:
            tag = f"tag{next(self.words)}"
            self.brain.revise.retag(told.id, add=[tag])
            told.tags.add(tag)

    @rule(hours=st.integers(-5, 50))
    def time_passes(self, hours: int) -> None:
        self.clock.move(timedelta(hours=hours))

    @rule()
    def reopen(self) -> None:
        self.brain.close()
        self.brain = self.opened(self.file)

    @rule()
    def repair(self) -> None:
        self.brain.repair()

    @precondition(lambda self: bool(self.known))
    @rule()
    def move_to_another_store(self) -> None:
        file = next(self.files)
        exported = file.with_suffix(".jsonl")
        self.brain.export(exported)
        self.brain.close()
        self.file, self.brain = file, self.opened(file)
        self.brain.merge(exported)

    @invariant()
    def the_latest_are_as_told(self) -> None:
        for told in self.known[-2:]:
            self.check(told)

    def check(self, told: Told) -> None:
        shown = self.brain.get(told.id)
        assert shown.state == told.state
        for word in (told.word, *told.tags):
            found = {item.id for item in self.brain.recall(word).items if "words" in item.why}
            assert found == {one.id for one in self.known if one.is_found_by(word)}
        if told.is_erased:
            assert told.word not in repr(shown)


AnySequence.TestCase.settings = settings(
    max_examples=15,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestAnySequence = AnySequence.TestCase


def steps(brain: Brain, number: int) -> list[Told]:
    """What one of several threads does: it writes, corrects and forgets words of its own."""
    drawn = random.Random(number)  # noqa: S311 it is meant to be foreseen
    known: list[Told] = []
    for step in range(30):
        word = f"w{number}x{step}"
        [outcome] = brain.remember(f"{word} {word}", kind="fact").items
        assert outcome.id is not None
        known.append(Told(id=outcome.id, word=word))
        told = drawn.choice(known)
        brain.recall(told.word)
        if told.state is State.ACTIVE and drawn.random() < 0.3:
            brain.forget(told.id, reason=WHY)
            told.state = State.FORGOTTEN
        elif told.state is State.FORGOTTEN:
            brain.revise.restore(told.id, reason=WHY)
            told.state = State.ACTIVE
    return known


def test_threads_do_not_disturb_each_others_memories(path: Path) -> None:
    with a_brain(path) as brain:
        with ThreadPoolExecutor(4) as pool:
            made = [pool.submit(steps, brain, number) for number in range(4)]
            known = [told for mine in made for told in mine.result()]

        assert len({told.id for told in known}) == 120
        for told in known:
            items = brain.recall(told.word).items
            found = [item.id for item in items if "words" in item.why]
            assert found == ([told.id] if told.state is State.ACTIVE else [])
        assert brain.doctor().is_sound


def test_an_error_leaves_everything_as_it_was(path: Path) -> None:
    with a_brain(path) as brain:
        kept = brain.remember("the kettle is on").items[0].id
        assert kept is not None
        wrong = (
            lambda: brain.get("mem_0000000000000"),
            lambda: brain.forget("nonsense", reason=WHY),
            lambda: brain.forget(kept, reason=" "),
            lambda: brain.revise.supersede(kept, "the kettle is off", reason=""),
            lambda: brain.remember("x", scope="nobody"),
            lambda: brain.recall("x", max_items=0),
        )
        before = brain.status()
        for call in wrong:
            with pytest.raises(CommonbrainError):
                call()

        assert brain.status() == before
        assert brain.get(kept).state is State.ACTIVE
