"""Invalidation on generated graphs, compared with a plain model of the whole expected state.

Each graph is drawn by a seed: chains, trees, diamonds, circles and webs of memories that rest on
each other. Premises fall (superseded, forgotten, contradicted, expired, pruned) and come back;
after each step every memory of the graph is compared with the model, bystanders too.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Final

from commonbrain.client import Brain
from commonbrain.invalidation.propagation import propagate
from commonbrain.model import ids
from commonbrain.model.kinds import Kind
from commonbrain.model.links import Link, LinkType
from commonbrain.model.memory import State
from commonbrain.model.revision import Action
from commonbrain.model.scope import Trust
from commonbrain.storage.change_log import ChangeContext, record_update
from commonbrain.testing.builders import NOON, FakeClock, a_brain, a_memory

GRAPHS: Final = 200
BIG: Final = 10_000
FAN: Final = 1_000
_RUNS: Final = 5
_REASON: Final = "the evaluation says so"
_KINDS: Final = (Kind.FACT, Kind.TASK, Kind.INCIDENT, Kind.EVENT, Kind.RULE)
_LIFETIMES: Final = timedelta(days=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class CascadeReport:
    """What came out, all graphs together; `failures` names graphs and steps that were not right."""

    graphs: int
    steps: int
    dependants: int
    """Reviews that the model expects, summed over all steps."""
    dependants_marked: int
    bystanders_marked: int
    rules_archived: int
    archived: int
    archived_wrongly: int
    """Archived against the model, or left active against it."""
    restores: int
    restores_exact: int
    big_nodes: int
    big_marked: int
    big_ms: float
    """The supersede at the root of the big graph, all transactions of it together."""
    fan_nodes: int
    fan_ms: float
    """The supersede of what so many rest on, half of them directly: the median of a few."""
    fan_process_ms: float
    """Of that, what this process computed: the rest it waited for a busy machine."""
    fan_restore_ms: float
    failures: tuple[str, ...] = ()


def evaluate(*, graphs: int = GRAPHS, big: int = BIG, seed: int = 0) -> CascadeReport:
    """Draw graphs, let premises fall and come back, and compare all of it with the model."""
    tally: Counter[str] = Counter()
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(graphs):
            path = Path(folder) / f"{number}.db"
            trial = _Trial.of(path, random_source=_random_source(seed + number), tally=tally)
            trial.run()
            failures += [
                f"graph {seed + number}, {failure_name}" for failure_name in trial.failures
            ]
        marked, took_ms = _time_large_graph(
            Path(folder) / "big.db", count=big, random_source=_random_source(seed)
        )
        fan_ms, process_ms, restored_ms = _time_fan(Path(folder) / "fan.db", count=min(big, FAN))
    return CascadeReport(
        graphs=graphs,
        big_nodes=big,
        big_marked=marked,
        big_ms=round(took_ms, 1),
        fan_nodes=min(big, FAN),
        fan_ms=round(fan_ms, 1),
        fan_process_ms=round(process_ms, 1),
        fan_restore_ms=round(restored_ms, 1),
        failures=tuple(failures),
        **{name: tally[name] for name in _REPORT_COUNTERS},
    )


def render_cascade(report: CascadeReport) -> list[str]:
    """Say what came out, in a few lines."""
    marked = report.dependants_marked / max(report.dependants, 1)
    exact = report.restores_exact / max(report.restores, 1)
    lines = [
        f"{report.graphs} graphs, {report.steps} steps compared with a plain model",
        f"dependants marked     {marked:.1%} of {report.dependants}",
        f"bystanders marked     {report.bystanders_marked}",
        f"archived              {report.archived}, of them wrongly {report.archived_wrongly}",
        f"rules archived        {report.rules_archived}",
        f"restored exactly      {exact:.1%} of {report.restores}",
        f"{report.big_nodes:,} nodes: {report.big_marked:,} marked in {report.big_ms:,.0f} ms",
        f"{report.fan_nodes:,} resting on one: superseded in {report.fan_ms:,.0f} ms (p50; "
        f"process {report.fan_process_ms:,.0f}), "
        f"restored in {report.fan_restore_ms:,.0f}",
    ]
    return [*lines, *(f"not right: {failure}" for failure in report.failures[:20])]


_REPORT_COUNTERS: Final = (
    "steps",
    "dependants",
    "dependants_marked",
    "bystanders_marked",
    "rules_archived",
    "archived",
    "archived_wrongly",
    "restores",
    "restores_exact",
)


@dataclass(slots=True)
class _Trial:
    """One graph in a store of its own."""

    brain: Brain
    clock: FakeClock
    random_source: random.Random
    model: InvalidationModel
    tally: Counter[str]
    failures: list[str] = field(default_factory=list[str])

    @classmethod
    def of(cls, path: Path, *, random_source: random.Random, tally: Counter[str]) -> _Trial:
        """Draw a graph and store it."""
        clock = FakeClock()
        brain = a_brain(path, clock=clock)
        count = random_source.randint(6, 40)
        dependencies = SHAPES[random_source.choice(sorted(SHAPES))](count, random_source)
        kinds = {number: random_source.choice(_KINDS) for number in range(count)}
        _store(brain, kinds, dependencies=dependencies)
        return cls(brain, clock, random_source, InvalidationModel(kinds, dependencies), tally)

    def run(self) -> None:
        """Let two premises fall and come back in any order, then compare with the beginning."""
        with self.brain:
            before = self._read_states()
            first, second = self.random_source.sample(sorted(self.model.kinds), 2)
            self._deny_from_below(first)
            self._check("a less trusted contradiction", expects=before)
            invalidate = (self._supersede, self._forget, self._expire, self._prune)
            restores: list[tuple[int, Callable[[], None]]] = []
            for support in (first, second):
                # A rule is changed by a revision alone.
                is_rule = self.model.kinds[support] is Kind.RULE
                either = invalidate if is_rule else (*invalidate, self._contradict)
                invalidate_one = self.random_source.choice(either)
                restores.append((support, invalidate_one(support)))
                self._check(f"{self.model.invalidated[support]} {support}")
            self.random_source.shuffle(restores)
            for support, restore in restores:
                restore()
                del self.model.invalidated[support]
                self._check(f"{support} is back")
            self.tally["restores"] += 1
            self.tally["restores_exact"] += self._read_states() == before

    def _check(self, step: str, *, expects: object = None) -> None:
        """Compare every memory of the graph with the model."""
        states = self._read_states()
        marks = self.model.marks()
        archived = self.model.archived(marks)
        self.tally["steps"] += 1
        self.tally["dependants"] += sum(len(causes) for causes in marks.values())
        is_right = expects is None or states == expects
        for number, (state, causes) in states.items():
            expected_causes = marks.get(number, set())
            self.tally["dependants_marked"] += len(causes & expected_causes)
            self.tally["bystanders_marked"] += len(causes - expected_causes)
            is_archived = state is State.ARCHIVED
            self.tally["archived"] += is_archived
            self.tally["rules_archived"] += is_archived and self.model.kinds[number] is Kind.RULE
            self.tally["archived_wrongly"] += is_archived != (number in archived)
            is_right &= causes == expected_causes and is_archived == (number in archived)
        if not is_right:
            self.failures.append(step)

    def _read_states(self) -> dict[int, tuple[State, set[int]]]:
        """Read the state of each memory, and the causes of its open reviews."""
        all_ids = [number + 1 for number in self.model.kinds]
        with self.brain.services.store.snapshot(self.brain.caller.tenant) as tx:
            support_statuses, reviews = tx.graph.support_statuses(all_ids), tx.reviews.of(all_ids)
        return {
            id_ - 1: (
                support_statuses[id_].state,
                {
                    one.cause_id - 1
                    for one in reviews.get(id_, ())
                    if one.is_open and not one.is_of_itself
                },
            )
            for id_ in all_ids
        }

    def _supersede(self, support: int) -> Callable[[], None]:
        new_value = f"revised{support}"
        self.brain.revise.supersede(
            _show_id(support), f"{new_value} {new_value} now", reason=_REASON
        )
        self.model.invalidated[support] = "superseded"
        return lambda: self._restore(support)

    def _forget(self, support: int) -> Callable[[], None]:
        self.brain.forget(_show_id(support), reason=_REASON)
        self.model.invalidated[support] = "forgotten"
        return lambda: self._restore(support)

    def _contradict(self, support: int) -> Callable[[], None]:
        [denial] = self.brain.remember(f"denied{support} is so", kind="fact").items
        against = denial.id or ""
        conflict = LinkType.CONFLICTS_WITH
        self.brain.revise.link(against, _show_id(support), type=conflict)
        self.model.invalidated[support] = "contradicted"

        def withdraw() -> None:
            self.brain.revise.unlink(against, _show_id(support), type=conflict)

        return withdraw

    def _expire(self, support: int) -> Callable[[], None]:
        """Let a premise end by its time, which a later write of anybody finds."""
        with self.brain.services.store.begin(self.brain.caller.tenant) as tx:
            ended = tx.memories.get([support + 1])[support + 1]
            at = self.clock.now() + _LIFETIMES
            tx.memories.update(ended, replace(ended, expires_at=at))
            tx.reviews.touch([support + 1], at=self.clock.now())
        self.brain.remember(f"meanwhile{support} something", kind="event")
        self.clock.move(_LIFETIMES)
        self.brain.remember(f"afterwards{support} something", kind="event")
        self.model.invalidated[support] = "expired"
        return lambda: self._restore(support)

    def _prune(self, support: int) -> Callable[[], None]:
        """Let retention take a premise, whatever its age."""
        caller = self.brain.caller
        change_context = ChangeContext(
            action=Action.PRUNE, caller=caller, at=self.clock.now(), reason=_REASON
        )
        with self.brain.services.store.begin(caller.tenant) as tx:
            old = tx.memories.get([support + 1])[support + 1]
            record_update(
                tx, old, after=replace(old, state=State.FORGOTTEN), change_context=change_context
            )
            propagate(tx, change_context)
        self.model.invalidated[support] = "pruned"
        return lambda: self._restore(support)

    def _deny_from_below(self, support: int) -> None:
        """Contradict a premise from less trust than it has, which unseats nothing."""
        low = self.brain.acting_as(agent="web", trust_ceiling=Trust.UNTRUSTED_WEB)
        [denial] = low.remember(f"rumour{support} denies it", kind="fact").items
        low.revise.link(denial.id or "", _show_id(support), type=LinkType.CONFLICTS_WITH)

    def _restore(self, support: int) -> None:
        self.brain.revise.restore(_show_id(support), reason=_REASON)


def _show_id(number: int) -> str:
    return ids.show(ids.MEMORY, number + 1)


def _store(brain: Brain, kinds: Mapping[int, Kind], *, dependencies: Dependencies) -> None:
    """Store a graph as it is, without asking whether anybody would have written it."""
    with brain.services.store.begin(brain.caller.tenant) as tx:
        for number, kind in kinds.items():
            tx.memories.add(a_memory(number + 1, f"premise{number} holds", kind=kind))
        for one, on, type_ in dependencies:
            link = Link(
                from_id=one + 1,
                to_id=on + 1,
                type=type_,
                agent="ann",
                trust=Trust.USER_CLAIM,
                created_at=NOON,
                observed_at=NOON,
            )
            tx.links.replace(link)


def _time_large_graph(path: Path, *, count: int, random_source: random.Random) -> tuple[int, float]:
    """Supersede the root of a large web in which everything rests on it; count what is marked."""
    dependencies = [
        (one, on, LinkType.DERIVED_FROM)
        for one in range(1, count)
        for on in {random_source.randrange(one), random_source.randrange(one)}
    ]
    # Links back make circles of all lengths.
    dependencies += [
        (
            random_source.randrange(1, count // 2),
            random_source.randrange(count // 2, count),
            LinkType.DEPENDS_ON,
        )
        for _ in range(count // 10)
    ]
    with a_brain(path, clock=FakeClock()) as brain:
        _store(brain, dict.fromkeys(range(count), Kind.EVENT), dependencies=dependencies)
        started = time.perf_counter()
        brain.revise.supersede(_show_id(0), "revised revised now", reason=_REASON)
        took_ms = (time.perf_counter() - started) * 1000
        with brain.services.store.snapshot(brain.caller.tenant) as tx:
            return sum(one.is_open for one in tx.reviews.by(1)), took_ms


def _time_fan(path: Path, *, count: int) -> tuple[float, float, float]:
    """Time the supersede of what so many rest on, half of them directly, and its restore."""
    dependencies = [
        (one, 0 if one % 2 else one - 1, LinkType.DERIVED_FROM) for one in range(1, count + 1)
    ]
    timed: list[tuple[float, float, float]] = []
    with a_brain(path, clock=FakeClock()) as brain:
        _store(brain, dict.fromkeys(range(count + 1), Kind.EVENT), dependencies=dependencies)
        for run in range(_RUNS):
            started, worked = time.perf_counter(), time.process_time()
            brain.revise.supersede(_show_id(0), f"revised{run} revised now", reason=_REASON)
            between, worked = time.perf_counter(), time.process_time() - worked
            brain.revise.restore(_show_id(0), reason=_REASON)
            timed.append((between - started, worked, time.perf_counter() - between))
    superseded, process, restored = zip(*timed, strict=True)
    return (
        statistics.median(superseded) * 1000,
        statistics.median(process) * 1000,
        statistics.median(restored) * 1000,
    )


def _random_source(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 a graph is no secret, and has to come again


_BOTH: Final = (LinkType.DERIVED_FROM, LinkType.DEPENDS_ON)
_WEAK: Final = frozenset({"expired", "pruned"})
"""Ways to fall that unseat only what depends on it."""


@dataclass(slots=True)
class InvalidationModel:
    """The plain truth: memories by number, what each rests on, and how each fell."""

    kinds: Mapping[int, Kind]
    dependencies: Sequence[tuple[int, int, LinkType]]
    invalidated: dict[int, str] = field(default_factory=dict[int, str])

    def marks(self) -> dict[int, set[int]]:
        """Say of each memory on which fallen ones it rests, step by step."""
        reached: dict[int, set[int]] = {}
        for cause, how in self.invalidated.items():
            types = {LinkType.DEPENDS_ON} if how in _WEAK else set(_BOTH)
            shaken, edge = {cause}, {cause}
            while edge:
                edge = {
                    one for one, on, type_ in self.dependencies if on in edge and type_ in types
                }
                edge -= shaken
                shaken |= edge
            for one in shaken - {cause}:
                reached.setdefault(one, set()).add(cause)
        return reached

    def archived(self, marks: Mapping[int, set[int]]) -> set[int]:
        """Say who rests on nothing that holds: whoever cannot be built up from what does."""
        lost = {
            memory_number
            for memory_number, how in self.invalidated.items()
            if how in {"superseded", "forgotten"}
        }
        faded = {memory_number for memory_number, how in self.invalidated.items() if how in _WEAK}
        doubtful = (
            {memory_number for memory_number in marks if self.kinds[memory_number] is not Kind.RULE}
            - lost
            - faded
        )
        built = set(self.kinds) - doubtful - lost - faded
        while True:
            more = {
                memory_number
                for memory_number, on, type_ in self.dependencies
                if memory_number in doubtful
                and (on in built or (on in faded and type_ is _BOTH[0]))
            } - built
            if not more:
                return doubtful - built
            built |= more


Dependencies = list[tuple[int, int, LinkType]]


def _chain(count: int, random_source: random.Random) -> Dependencies:
    return [(one, one - 1, random_source.choice(_BOTH)) for one in range(1, count)]


def _tree(count: int, random_source: random.Random) -> Dependencies:
    return [
        (one, random_source.randrange(one), random_source.choice(_BOTH)) for one in range(1, count)
    ]


def _diamonds(count: int, random_source: random.Random) -> Dependencies:
    """Let each rest on both of the pair below it: paths that part and meet again."""
    return [
        (one, below, random_source.choice(_BOTH))
        for one in range(1, count)
        for below in {max(one - 2, 0), max(one - 1 - one % 2, 0)}
        if below != one
    ]


def _circle(count: int, random_source: random.Random) -> Dependencies:
    closing = [(random_source.randrange(count // 2), count - 1, random_source.choice(_BOTH))]
    return [*_chain(count, random_source), *closing]


def _web(count: int, random_source: random.Random) -> Dependencies:
    pairs = {(one, random_source.randrange(count)) for one in range(count) for _ in range(2)}
    return [(one, on, random_source.choice(_BOTH)) for one, on in sorted(pairs) if one != on]


SHAPES: Final = {
    "chain": _chain,
    "tree": _tree,
    "diamonds": _diamonds,
    "circle": _circle,
    "web": _web,
}
