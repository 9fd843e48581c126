"""A fresh store that only lives through plain `remember`, at the times of a data set."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from commonbrain.client import Brain
from commonbrain.config import Settings
from commonbrain.model.memory import Memory
from commonbrain.model.scope import Caller
from commonbrain.runtime.bootstrap import build_services
from commonbrain.testing.builders import FakeClock, SeededRandom

_STEP: Final = timedelta(seconds=1)
"""Between what has the same time, so that the order of the data is the order of the store."""
PROJECT: Final = "evaluation"


@dataclass(frozen=True, slots=True)
class NoteStore:
    """An empty store whose clock its user moves."""

    brain: Brain
    clock: FakeClock

    def advance_to(self, at: datetime) -> None:
        """Move the clock to a time, or by one second if that has passed."""
        self.clock.move(max(at - self.clock.now(), _STEP))

    def memories(self, ids: Sequence[int]) -> Mapping[int, Memory]:
        """Read memories, whoever may see them."""
        with self.brain.services.store.snapshot(self.brain.caller.tenant) as tx:
            return tx.memories.get(ids)


@contextmanager
def open_note_store(*, settings: Settings, start: datetime, seed: int = 0) -> Generator[NoteStore]:
    """Open an empty store at a time; it is gone afterwards."""
    with TemporaryDirectory(prefix="commonbrain-eval-") as folder:
        clock = FakeClock(start)
        services = build_services(
            settings, Path(folder) / "brain.db", clock=clock, random_source=SeededRandom(seed)
        )
        with Brain(services, Caller(agent="evaluation", project=PROJECT)) as brain:
            yield NoteStore(brain, clock)
