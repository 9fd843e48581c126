"""What one call goes through: modules, functions and calls of this program, and SQL statements."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Engine, event

import commonbrain
from benchmarks.corpus import drafts, questions
from benchmarks.large_stores import Filling

if TYPE_CHECKING:
    from commonbrain.client import Brain

_SOURCE: Final = str(Path(commonbrain.__file__).parent)
_STORED: Final = 400
_CALLS: Final = 20


@dataclass(slots=True)
class Visits:
    """What one call went through in its thread."""

    called: Counter[CodeType] = field(default_factory=Counter["CodeType"])
    statements: int = 0
    """Statements that it sent to the store; what is written behind it is not counted."""

    @property
    def modules(self) -> int:
        """Files of this program that it entered."""
        return len({code.co_filename for code in self.called})

    @property
    def functions(self) -> int:
        """Functions of this program that it called, comprehensions included."""
        return len(self.called)

    @property
    def calls(self) -> int:
        """Calls of these functions."""
        return self.called.total()


@contextmanager
def _traced(statements: list[str]) -> Generator[None]:
    """Note the statements of every connection to SQLite that is made meanwhile."""

    def note(statement: str) -> None:
        # Statements that full text runs itself begin as comments.
        if not statement.startswith("--"):
            statements.append(statement)

    def listen(connection: Any, _record: object) -> None:  # noqa: ANN401 a driver's own
        connection.set_trace_callback(note)

    event.listen(Engine, "connect", listen)
    try:
        yield
    finally:
        event.remove(Engine, "connect", listen)


def visits_of(act: Callable[[], object], statements: list[str]) -> Visits:
    """Count what a call goes through."""
    visits = Visits()

    def enter(frame: FrameType, what: str, _of: object) -> None:
        if what == "call" and frame.f_code.co_filename.startswith(_SOURCE):
            visits.called[frame.f_code] += 1

    statements.clear()
    sys.setprofile(enter)
    try:
        act()
    finally:
        sys.setprofile(None)
    visits.statements = len(statements)
    return visits


@dataclass(frozen=True, slots=True, kw_only=True)
class CallVisits:
    """The medians of some calls, and the most statements that one of them took."""

    modules: int
    functions: int
    calls: int
    statements: int
    statements_max: int

    @classmethod
    def of(cls, each: list[Visits]) -> CallVisits:
        """Summarize some calls."""
        return cls(
            modules=round(median(one.modules for one in each)),
            functions=round(median(one.functions for one in each)),
            calls=round(median(one.calls for one in each)),
            statements=round(median(one.statements for one in each)),
            statements_max=max(one.statements for one in each),
        )


def count_visits() -> tuple[CallVisits, CallVisits]:
    """Count what warm recalls and warm remembers among 400 short notes go through."""
    statements: list[str] = []
    with (
        _traced(statements),
        tempfile.TemporaryDirectory() as folder,
        commonbrain.open(Path(folder) / "b.db") as brain,
    ):
        Filling.of(brain)(0, until=_STORED)
        recalls = [partial(brain.recall, question) for question in questions(_CALLS, of=_STORED)]
        remembers = [
            partial(_remember, brain, body)
            for body in (one.body for one in drafts(2 * _CALLS, seed=_STORED))
        ]
        return _counted(recalls, brain, statements), _counted(remembers, brain, statements)


def _counted(
    calls: Sequence[Callable[[], object]], brain: Brain, statements: list[str]
) -> CallVisits:
    """Count calls after one that warms up; what was queued is written before each."""
    counted: list[Visits] = []
    for call in calls:
        counted.append(visits_of(call, statements))
        brain.services.journal.flush()
    return CallVisits.of(counted[1:])


def _remember(brain: Brain, body: str) -> object:
    return brain.remember(body)
