"""Turns of conversations, and a store that takes them by plain `remember` at their times."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from commonbrain.client import Brain
from commonbrain.config import Settings
from commonbrain.model.kinds import MessageDetail
from commonbrain.model.memory import Draft, Memory
from commonbrain.model.scope import Caller
from commonbrain.runtime.bootstrap import build_services
from commonbrain.testing.builders import FakeClock, SeededRandom
from commonbrain_evals.retrieval.corpora import Corpus

_STEP: Final = timedelta(seconds=1)
"""Between what has the same time, so that the order of the data is the order of the store."""
PROJECT: Final = "evaluation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one person said."""

    source: str
    session: str
    at: datetime
    speaker: str | None
    text: str

    @property
    def note(self) -> str:
        """The text as someone would note it, with the name of who said it."""
        return f"{self.speaker}: {self.text}" if self.speaker else self.text


def turns_of(corpus: Corpus) -> Iterator[Turn]:
    """Give the turns of a corpus in their order; what cannot be read is left out."""
    at = corpus.ends_at
    for draft in corpus.drafts():
        if isinstance(draft, Draft):
            source = draft.source_ref or ""
            thread = draft.thread.key if draft.thread else corpus.name
            detail = draft.detail
            # What has no time of its own was said when the turn before it was.
            at = draft.occurred_at or at
            yield Turn(
                source=source,
                session=corpus.session_of.get(source, thread),
                at=at,
                speaker=detail.sender if isinstance(detail, MessageDetail) else None,
                text=draft.body,
            )


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
