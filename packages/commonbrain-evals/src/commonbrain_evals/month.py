"""A month of ten agents on one store, with a clock that is moved, next to a plain model of it.

They remember, recall, rate, supersede, forget and write to each other, each with habits of its
own, and maintenance runs every night. What the model computes by the formulas alone is compared
with what the store returns of every memory.
"""

from __future__ import annotations

import math
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from commonbrain.client import Brain
from commonbrain.jobs.worker import Worker
from commonbrain.model import ids
from commonbrain.model.kinds import KINDS, Kind
from commonbrain.model.limits import DORMANT_BELOW
from commonbrain.model.memory import (
    CURRENT_STATES,
    Memory,
    State,
    is_dormant,
    strength,
)
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.storage.interface import Progress, ignore_progress
from commonbrain.storage.job_queue import MAINTAIN
from commonbrain.testing.builders import FakeClock, a_brain

DAYS: Final = 30
ACTIONS_PER_DAY: Final = 8
"""Calls of each agent in a day."""
_DAY: Final = timedelta(days=1)
_REASON: Final = "the evaluation says so"
_SUBJECTS: Final = ("valve", "pump", "gate", "kettle", "lamp", "crane", "meter", "door", "engine")
_STATES: Final = ("red", "stuck", "new", "loose", "loud", "shut", "wet", "warm", "bent")
_KINDS: Final = (Kind.FACT, Kind.FACT, Kind.EVENT, Kind.RULE, Kind.TASK, Kind.INCIDENT)
_DAYS_LIVED: Final = 5
"""How long a memory with an expiry holds."""
_REACTIVATED_STATES: Final = 3
"""How many of what a recall shows best are accessed, as the documents tell it."""
_TOLERANCE: Final = 1e-9

HABITS: Final[Mapping[str, Mapping[str, int]]] = {
    "ann": {"remember": 6, "recall": 3},
    "bo": {"recall": 8, "remember": 1},
    "cy": {"remember": 4, "rate": 4, "recall": 3},
    "dee": {"remember": 3, "supersede": 4, "recall": 2},
    "eve": {"remember": 4, "forget": 2, "recall": 2},
    "fay": {"message": 6, "recall": 2},
    "gus": {"brief": 5, "recall": 3},
    "hal": {"remember": 2, "recall": 2, "rate": 1, "message": 1},
    "ivy": {"recall": 1, "rate": 5, "remember": 2},
    "jo": {"remember": 2, "supersede": 1, "forget": 1, "recall": 6, "brief": 1},
}
"""How often each agent does what, next to what else it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthReport:
    """What came out; `wrong` names what the store and the model do not agree on."""

    days: int
    agents: int
    acts: Mapping[str, int]
    memories: Mapping[str, int]
    """By state, at the end."""
    dormant: int
    reactivated: int
    """Memories that slept and were used again."""
    maintenance_counts: Mapping[str, int]
    """What upkeep counted, all nights together."""
    checks: int
    mismatches: tuple[str, ...]
    bytes_by_ten_days: tuple[int, ...]
    """The size of the file after each ten days."""
    recall_ms_by_ten_days: tuple[float, ...]
    """The 95th percentile of each ten days."""


@dataclass(slots=True, kw_only=True)
class _ExpectedMemory:
    """What the model knows of one memory."""

    recorded_at: datetime
    text: str
    accesses: int = 0
    accessed_at: datetime | None = None
    rating: int = 0
    state: State = State.ACTIVE
    expires_at: datetime | None = None
    slept: bool = False
    is_message: bool = False
    """Messages are private to those who have them."""

    def is_open(self, now: datetime) -> bool:
        """Return whether anybody may change it: it holds, and is not a private message."""
        is_over = self.expires_at is not None and self.expires_at <= now
        return self.state in CURRENT_STATES and not is_over and not self.is_message

    def touched_at(self) -> datetime:
        """Return from when its age runs."""
        return max(self.recorded_at, self.accessed_at or self.recorded_at)


def evaluate(
    *,
    days: int = DAYS,
    acts: int = ACTIONS_PER_DAY,
    seed: int = 0,
    on_progress: Progress = ignore_progress,
) -> MonthReport:
    """Simulate a month; a thousand actions take at most a few seconds."""
    with tempfile.TemporaryDirectory() as folder:
        path, clock = Path(folder) / "month.db", FakeClock()
        random_source = random.Random(seed)  # noqa: S311 it is meant to be foreseen
        with a_brain(path, clock=clock) as brain:
            month = _Month(brain=brain, clock=clock, random_source=random_source, path=path)
            for day in range(days):
                month.run_day(acts)
                month.run_night()
                on_progress((day + 1) / days)
            return month.report(days)


def render_month(report: MonthReport) -> Iterator[str]:
    """Say in lines what came out."""
    acts = ", ".join(f"{count} {name}" for name, count in report.acts.items())
    yield f"{report.agents} agents, {report.days} days: {acts}"
    states = ", ".join(f"{count} {state}" for state, count in report.memories.items())
    yield f"memories: {states}; {report.dormant} sleep, {report.reactivated} woke up"
    yield "upkeep: " + ", ".join(
        f"{name} {count}" for name, count in report.maintenance_counts.items()
    )
    yield "after each ten days: " + ", ".join(
        f"{size / 1e6:.1f} MB, recall p95 {ms:.0f} ms"
        for size, ms in zip(report.bytes_by_ten_days, report.recall_ms_by_ten_days, strict=False)
    )
    yield f"{report.checks:,} checks against the model, {len(report.mismatches)} wrong"
    yield from report.mismatches


@dataclass(slots=True, kw_only=True)
class _Month:
    brain: Brain
    clock: FakeClock
    random_source: random.Random
    path: Path
    expected: dict[str, _ExpectedMemory] = field(default_factory=dict[str, _ExpectedMemory])
    acts: Counter[str] = field(default_factory=Counter[str])
    maintenance_counts: Counter[str] = field(default_factory=Counter[str])
    mismatches: list[str] = field(default_factory=list[str])
    recall_ms: list[list[float]] = field(default_factory=lambda: [[]])
    sizes: list[int] = field(default_factory=list[int])
    checks: int = 0
    reactivated: int = 0
    remembered_count: int = 0
    nights: int = 0

    def run_day(self, acts: int) -> None:
        """Let every agent make so many calls, in turn."""
        for _ in range(acts):
            for agent, habits in HABITS.items():
                [act] = self.random_source.choices(list(habits), list(habits.values()))
                self._actions()[act](self.brain.acting_as(agent=agent))
                self.acts[act] += 1
                self.clock.move(_DAY / (2 * acts * len(HABITS)))

    def run_night(self) -> None:
        """Move the clock half a day, run maintenance, and compare the store with the model."""
        self.clock.move(_DAY / 2)
        self.brain.services.journal.flush()
        worker = Worker(services=self.brain.services, name="night", kinds=(MAINTAIN,))
        worker.schedule()
        worker.sweep()
        [done, *_] = self.brain.jobs(kind=MAINTAIN).jobs
        self.maintenance_counts.update(
            {name: int(str(count)) for name, count in (done.result or {}).items()}
        )
        self._check()
        self.nights += 1
        if self.nights % 10 == 0:
            self.sizes.append(self.path.stat().st_size)
            self.recall_ms.append([])

    def report(self, days: int) -> MonthReport:
        """Tell what came out."""
        return MonthReport(
            days=days,
            agents=len(HABITS),
            acts=dict(sorted(self.acts.items())),
            memories=dict(self.brain.status().by_state),
            dormant=sum(one.slept for one in self.expected.values()),
            reactivated=self.reactivated,
            maintenance_counts=dict(+self.maintenance_counts),
            checks=self.checks,
            mismatches=tuple(self.mismatches),
            bytes_by_ten_days=tuple(self.sizes),
            recall_ms_by_ten_days=tuple(
                round(statistics.quantiles(times, n=20)[-1], 2)
                for times in self.recall_ms
                if len(times) > 1
            ),
        )

    def _actions(self) -> Mapping[str, Callable[[Brain], None]]:
        return {
            "remember": self._remember,
            "brief": lambda brain: self._remember(brain, lives=_DAYS_LIVED * _DAY),
            "recall": self._recall,
            "rate": self._rate,
            "supersede": self._supersede,
            "forget": self._forget,
            "message": self._message,
        }

    def _text(self) -> str:
        self.remembered_count += 1
        thing, state = self.random_source.choice(_SUBJECTS), self.random_source.choice(_STATES)
        # Names of its own keep one from being taken for another.
        number = self.remembered_count
        return f"{thing}{number} at bay{number * 7} is {state}{number * 3}"

    def _remember(self, brain: Brain, *, lives: timedelta | None = None) -> None:
        text, now = self._text(), self.clock.now()
        expires_at = None if lives is None else now + lives
        kind = self.random_source.choice(_KINDS)
        fields = {} if expires_at is None else {"expires_at": expires_at}
        [outcome] = brain.remember(text, kind=kind, **fields).items  # type: ignore[arg-type]
        if outcome.status == "stored" and outcome.id is not None:
            expected = _ExpectedMemory(recorded_at=now, text=text, expires_at=expires_at)
            self.expected[outcome.id] = expected

    def _recall(self, brain: Brain) -> None:
        target_id = self._choose_memory()
        text = self.expected[target_id].text if target_id else "nothing was told yet"
        started = time.perf_counter()
        result = brain.recall(text, max_items=5)
        self.recall_ms[-1].append((time.perf_counter() - started) * 1000)
        # What is named by its id alone was not shown in words.
        shown_ids = [item.id for item in result.items if item.headline is not None]
        for place, id_ in enumerate(shown_ids):
            expected = self.expected.get(id_)
            if expected is None:
                continue
            if expected.state not in CURRENT_STATES:
                self.mismatches.append(f"{id_} was {expected.state} and is recalled")
            if place < _REACTIVATED_STATES:
                expected.accesses += 1
                expected.accessed_at = self.clock.now()

    def _rate(self, brain: Brain) -> None:
        one = self._choose_memory()
        if one is not None:
            vote = self.random_source.choice(("up", "down"))
            brain.revise.rate(one, vote)  # type: ignore[arg-type]
            self.expected[one].rating += 1 if vote == "up" else -1

    def _supersede(self, brain: Brain) -> None:
        one = self._choose_memory()
        if one is not None:
            text = self._text()
            made = brain.revise.supersede(one, text, reason=_REASON)
            if made.status == "stored" and made.id is not None:
                was = self.expected[one]
                was.state = State.SUPERSEDED
                new = _ExpectedMemory(
                    recorded_at=self.clock.now(), text=text, expires_at=was.expires_at
                )
                self.expected[made.id] = new

    def _forget(self, brain: Brain) -> None:
        one = self._choose_memory()
        if one is not None:
            brain.forget(one, reason=_REASON)
            self.expected[one].state = State.FORGOTTEN

    def _message(self, brain: Brain) -> None:
        now = self.clock.now()
        text = self._text()
        sent = brain.message.send(
            self.random_source.choice([one for one in HABITS if one != brain.caller.agent]), text
        )
        self.expected[sent.id] = _ExpectedMemory(recorded_at=now, text=text, is_message=True)

    def _choose_memory(self) -> str | None:
        """Choose of what holds, mostly of what is young."""
        now = self.clock.now()
        holding = [id_ for id_, one in self.expected.items() if one.is_open(now)]
        if not holding:
            return None
        return holding[-1 - int(len(holding) * self.random_source.random() ** 3)]

    def _check(self) -> None:
        """Compare every memory of the store with the model."""
        now = self.clock.now()
        by_id = {ids.parse(ids.MEMORY, id_): id_ for id_ in self.expected}
        with self.brain.services.store.snapshot(LOCAL_TENANT) as tx:
            rows = tx.memories.get(list(by_id))
        for number, id_ in by_id.items():
            expected, row = self.expected[id_], rows[number]
            if expected.expires_at is not None and expected.expires_at <= now:
                expected.state = (
                    State.EXPIRED if expected.state in CURRENT_STATES else expected.state
                )
            self.checks += 1
            difference = _describe_difference(expected, row, now=now)
            if difference:
                self.mismatches.append(f"{id_} on {now:%m-%d}: {difference}")
            sleeps = is_dormant(row, now)
            self.reactivated += expected.slept and not sleeps and row.state in CURRENT_STATES
            expected.slept = sleeps


def _describe_difference(expected: _ExpectedMemory, row: Memory, *, now: datetime) -> str | None:
    """Say in what a row is not as the model reckons; None when it is."""
    if row.state is not expected.state:
        return f"is {row.state}, should be {expected.state}"
    if (row.access_count, row.rating) != (expected.accesses, expected.rating):
        return f"has {row.access_count} accesses, should have {expected.accesses}"
    reckoned = _expected_strength(expected, row, now=now)
    if abs(strength(row, now) - reckoned) > _TOLERANCE:
        return f"is {strength(row, now):.3f} strong, should be {reckoned:.3f}"
    rests = KINDS[row.kind].archived_after
    is_asleep = reckoned < DORMANT_BELOW or (rests and now - expected.touched_at() >= rests)
    should_sleep = bool(is_asleep) and expected.state in CURRENT_STATES
    return None if is_dormant(row, now) is should_sleep else f"should sleep: {should_sleep}"


def _expected_strength(expected: _ExpectedMemory, row: Memory, *, now: datetime) -> float:
    """Reckon the strength by the formula as the documents tell it."""
    policy = KINDS[row.kind]
    if policy.half_life is None:
        return 1.0
    used = min(1 + math.log2(1 + expected.accesses), 5.0)
    liked = 2.0 ** max(-1.0, min(expected.rating / 3, 1.0))
    kind_weight = 2.0 ** max(-1.0, min(row.salience - policy.salience, 1.0))
    return 2.0 ** -((now - expected.touched_at()) / (policy.half_life * used * liked * kind_weight))
