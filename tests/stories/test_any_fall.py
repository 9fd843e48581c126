"""Reviews agree with a plain model, in whatever order memories are forgotten and linked."""

import shutil
import tempfile
from pathlib import Path

from commonbrain_evals.cascade import InvalidationModel
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from commonbrain.model import ids
from commonbrain.model.kinds import Kind
from commonbrain.model.links import LinkType
from commonbrain.model.memory import State
from commonbrain.testing.builders import FakeClock, a_brain, a_memory

WHY = "because a test says so"
MEMORIES = 6
NUMBERS = st.integers(0, MEMORIES - 1)
TYPES = st.sampled_from([LinkType.DERIVED_FROM, LinkType.DEPENDS_ON])


def shown(number: int) -> str:
    return ids.show(ids.MEMORY, number + 1)


class AnyFall(RuleBasedStateMachine):
    """Five events and a rule, which are forgotten, restored, linked and unlinked."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.brain = a_brain(self.folder / "brain.db", clock=FakeClock())
        kinds = dict.fromkeys(range(MEMORIES), Kind.EVENT) | {MEMORIES - 1: Kind.RULE}
        self.rests: list[tuple[int, int, LinkType]] = []
        self.model = InvalidationModel(kinds, self.rests)
        with self.brain.services.store.begin(self.brain.caller.tenant) as tx:
            for number, kind in kinds.items():
                tx.memories.add(a_memory(number + 1, f"premise{number} holds", kind=kind))

    def teardown(self) -> None:
        self.brain.close()
        shutil.rmtree(self.folder)

    @rule(number=NUMBERS)
    def forget(self, number: int) -> None:
        self.brain.forget(shown(number), reason=WHY)
        self.model.invalidated[number] = "forgotten"

    @rule(number=NUMBERS)
    def restore(self, number: int) -> None:
        if number in self.model.invalidated:
            self.brain.revise.restore(shown(number), reason=WHY)
            del self.model.invalidated[number]

    @rule(one=NUMBERS, on=NUMBERS, type_=TYPES)
    def link(self, one: int, on: int, type_: LinkType) -> None:
        if one != on and not {one, on} & set(self.model.invalidated):
            self.brain.revise.link(shown(one), shown(on), type=type_)
            if (one, on, type_) not in self.rests:
                self.rests.append((one, on, type_))

    @rule(data=st.data())
    def unlink(self, data: st.DataObject) -> None:
        if self.rests:
            link = data.draw(st.sampled_from(self.rests))
            self.brain.revise.unlink(shown(link[0]), shown(link[1]), type=link[2])
            self.rests.remove(link)

    @invariant()
    def reviews_are_those_of_the_model(self) -> None:
        every = [number + 1 for number in range(MEMORIES)]
        with self.brain.services.store.snapshot(self.brain.caller.tenant) as tx:
            statuses, reviews = tx.graph.support_statuses(every), tx.reviews.of(every)
        marks = self.model.marks()
        archived = self.model.archived(marks)
        for number in range(MEMORIES):
            open_reviews = reviews.get(number + 1, [])
            causes = {one.cause_id - 1 for one in open_reviews if not one.is_of_itself}
            assert causes == marks.get(number, set())
            is_archived = statuses[number + 1].state is State.ARCHIVED
            assert is_archived == (number in archived)


TestAnyFall = AnyFall.TestCase
TestAnyFall.settings = settings(
    stateful_step_count=20,
    suppress_health_check=[HealthCheck.too_slow],
)
