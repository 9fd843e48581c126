"""A brain agrees with a plain model in memory, whatever is done in whatever order."""

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
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from commonbrain.client import Brain
from commonbrain.model.errors import CommonbrainError, RejectedError
from commonbrain.model.memory import State
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.testing.builders import FakeClock, SeededRandom, a_brain
from commonbrain.text.reading import read_memory

WHY = "because a test says so"


@dataclass(slots=True)
class Modelled:
    """A memory as the model knows it: its one word and its state."""

    id: str
    word: str
    state: State = State.ACTIVE
    by: "Modelled | None" = None
    is_erased: bool = False
    tags: set[str] = field(default_factory=set[str])

    def is_found_by(self, word: str) -> bool:
        return self.state is State.ACTIVE and word in {self.word, *self.tags}


class AnySequence(RuleBasedStateMachine):
    """One brain on a file and one model; every memory is a word that no other has."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.clock, self.random_source = FakeClock(), SeededRandom(1)
        self.files = (self.folder / f"{number}.db" for number in range(10_000))
        self.file = next(self.files)
        self.brain = self.opened(self.file)
        self.known: list[Modelled] = []
        self.words = (f"qx{number}zk" for number in range(10_000))

    def opened(self, file: Path) -> Brain:
        return a_brain(file, clock=self.clock, random_source=self.random_source)

    def teardown(self) -> None:
        for memory in self.known:
            self.check(memory)
        self.check_readings()
        diagnosis = self.brain.doctor()
        self.brain.close()
        shutil.rmtree(self.folder)
        assert diagnosis.is_sound, diagnosis.findings

    def one_of(self, data: st.DataObject, *states: State) -> Modelled | None:
        fitting = [
            memory for memory in self.known if memory.state in states and not memory.is_erased
        ]
        return data.draw(st.sampled_from(fitting)) if fitting else None

    def stored(self, word: str) -> Modelled:
        [outcome] = self.brain.remember(f"{word} {word}", kind="fact").items
        assert outcome.id is not None
        self.known.append(Modelled(id=outcome.id, word=word))
        return self.known[-1]

    @rule()
    def remember(self) -> None:
        self.stored(next(self.words))

    @rule(data=st.data())
    def remember_again(self, data: st.DataObject) -> None:
        memory = self.one_of(data, State.ACTIVE)
        if memory is not None:
            [outcome] = self.brain.remember(f"{memory.word} {memory.word}", kind="fact").items
            assert (outcome.status, outcome.id) == ("exists", memory.id)

    @rule(data=st.data())
    def supersede(self, data: st.DataObject) -> None:
        memory = self.one_of(data, State.ACTIVE)
        if memory is None:
            return
        word = next(self.words)
        outcome = self.brain.revise.supersede(memory.id, f"{word} {word}", reason=WHY)
        assert outcome.status == "stored"
        assert outcome.id is not None
        # What is not given is taken from the old one: here its tags.
        self.known.append(Modelled(id=outcome.id, word=word, tags=set(memory.tags)))
        memory.state, memory.by = State.SUPERSEDED, self.known[-1]

    @rule(data=st.data())
    def supersede_what_does_not_hold(self, data: st.DataObject) -> None:
        memory = self.one_of(data, State.SUPERSEDED, State.FORGOTTEN)
        if memory is not None:
            with pytest.raises(RejectedError):
                self.brain.revise.supersede(memory.id, f"{next(self.words)} again", reason=WHY)

    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        memory = self.one_of(data, State.ACTIVE)
        if memory is not None:
            self.brain.forget(memory.id, reason=WHY)
            memory.state = State.FORGOTTEN

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        memory = self.one_of(data, State.FORGOTTEN, State.SUPERSEDED)
        if memory is None:
            return
        if memory.by is None:
            self.brain.revise.restore(memory.id, reason=WHY)
            memory.state = State.ACTIVE
        elif memory.by.state is State.ACTIVE:
            self.brain.revise.restore(memory.id, reason=WHY)
            memory.state, memory.by.state, memory.by = State.ACTIVE, State.FORGOTTEN, None
        elif memory.by.state is State.SUPERSEDED:
            with pytest.raises(RejectedError):
                self.brain.revise.restore(memory.id, reason=WHY)

    @rule(data=st.data())
    def erase(self, data: st.DataObject) -> None:
        memory = self.one_of(data, State.ACTIVE, State.SUPERSEDED, State.FORGOTTEN)
        if memory is not None:
            self.brain.erase(memory.id, reason=WHY, confirm=1)
            memory.state, memory.is_erased = State.FORGOTTEN, True

    @rule(data=st.data())
    def retag(self, data: st.DataObject) -> None:
        memory = self.one_of(data, State.ACTIVE)
        if memory is not None:
            tag = f"tag{next(self.words)}"
            self.brain.revise.retag(memory.id, add=[tag])
            memory.tags.add(tag)

    @rule(hours=st.integers(-5, 50))
    def time_passes(self, hours: int) -> None:
        self.clock.move(timedelta(hours=hours))

    @rule()
    def repair(self) -> None:
        self.brain.repair()

    @rule(moves=st.booleans())
    def reopen(self, *, moves: bool) -> None:
        """Open the store again, or one that was made of its export."""
        if not moves or not self.known:
            self.brain.close()
            self.brain = self.opened(self.file)
            return
        file = next(self.files)
        exported = file.with_suffix(".jsonl")
        self.brain.export(exported)
        self.brain.close()
        self.file, self.brain = file, self.opened(file)
        self.brain.merge(exported)

    @invariant()
    def the_latest_agree_with_the_model(self) -> None:
        for memory in self.known[-2:]:
            self.check(memory)

    def check_readings(self) -> None:
        """Every text is stored with what it says, as if it were read now."""
        with self.brain.services.store.snapshot(LOCAL_TENANT) as tx:
            memories = tx.memories.get(tx.memories.page(after=0, limit=10_000)).values()
            assert tx.memories.unread(after=0, limit=1) == []
        assert all(one.reading == read_memory(one) for one in memories)

    def check(self, memory: Modelled) -> None:
        shown = self.brain.get(memory.id)
        assert shown.state == memory.state
        for word in (memory.word, *memory.tags):
            matches = {item.id for item in self.brain.recall(word).items if "words" in item.why}
            assert matches == {one.id for one in self.known if one.is_found_by(word)}
        if memory.is_erased:
            assert memory.word not in repr(shown)


AnySequence.TestCase.settings = settings(
    # An example opens some ten stores: it costs more than those of other laws.
    max_examples=settings().max_examples // 2,
    stateful_step_count=25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestAnySequence = AnySequence.TestCase


def steps(brain: Brain, number: int) -> list[Modelled]:
    """Write, forget and restore words of its own, as one of several threads."""
    drawn = random.Random(number)  # noqa: S311 it is meant to be foreseen
    known: list[Modelled] = []
    for step in range(15):
        word = f"w{number}x{step}"
        [outcome] = brain.remember(f"{word} {word}", kind="fact").items
        assert outcome.id is not None
        known.append(Modelled(id=outcome.id, word=word))
        memory = drawn.choice(known)
        brain.recall(memory.word)
        if memory.state is State.ACTIVE and drawn.random() < 0.3:
            brain.forget(memory.id, reason=WHY)
            memory.state = State.FORGOTTEN
        elif memory.state is State.FORGOTTEN:
            brain.revise.restore(memory.id, reason=WHY)
            memory.state = State.ACTIVE
    return known


def test_threads_leave_each_others_memories_alone(path: Path) -> None:
    with a_brain(path) as brain:
        with ThreadPoolExecutor(4) as pool:
            made = [pool.submit(steps, brain, number) for number in range(4)]
            known = [memory for mine in made for memory in mine.result()]

        assert len({one.id for one in known}) == 60
        for memory in known:
            items = brain.recall(memory.word).items
            matches = [item.id for item in items if "words" in item.why]
            assert matches == ([memory.id] if memory.state is State.ACTIVE else [])
        assert brain.doctor().is_sound


def test_refused_calls_change_nothing(path: Path) -> None:
    with a_brain(path) as brain:
        id_ = brain.remember("the kettle is on").items[0].id
        assert id_ is not None
        wrong = (
            lambda: brain.get("mem_0000000000000"),
            lambda: brain.forget("nonsense", reason=WHY),
            lambda: brain.forget(id_, reason=" "),
            lambda: brain.revise.supersede(id_, "the kettle is off", reason=""),
            lambda: brain.remember("x", scope="nobody"),
            lambda: brain.recall("x", max_items=0),
        )
        before = brain.status()
        for call in wrong:
            with pytest.raises(CommonbrainError):
                call()

        assert brain.status() == before
        assert brain.get(id_).state is State.ACTIVE
