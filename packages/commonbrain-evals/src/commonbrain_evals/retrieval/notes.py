"""Turns of conversations, and a store that takes them by plain `remember` at their times."""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from commonbrain.client import Brain
from commonbrain.config import Settings
from commonbrain.ingestion.result import ItemResult, ItemStatus
from commonbrain.model import ids
from commonbrain.model.kinds import KINDS, DuplicatePolicy, MessageDetail
from commonbrain.model.memory import Draft, Memory, full_text
from commonbrain.model.scope import Caller
from commonbrain.runtime.bootstrap import build_services
from commonbrain.testing.builders import FakeClock, SeededRandom
from commonbrain.text.repetition import may_repeat
from commonbrain_evals.retrieval.corpora import Corpus

_STEP: Final = timedelta(seconds=1)
"""Between what has the same time, so that the order of the data is the order of the store."""
PROJECT: Final = "evaluation"
REPETITION: Final = "repetition"
"""The rule that only what adds nothing is refused; without it, similarity alone refuses."""


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
    without: frozenset[str] = frozenset()
    """May contain `REPETITION`."""

    def advance_to(self, at: datetime) -> None:
        """Move the clock to a time, or by one second if that has passed."""
        self.clock.move(max(at - self.clock.now(), _STEP))

    def remember(self, view: Brain, text: str, **more: Any) -> Sequence[ItemResult]:  # noqa: ANN401
        """Give a text to a view's plain `remember`; `more` goes to it as it is."""
        items = view.remember(text, **more).items
        if REPETITION not in self.without:
            return items
        return [self._refused_by_similarity(view, item) for item in items]

    def _refused_by_similarity(self, view: Brain, item: ItemResult) -> ItemResult:
        """Forget what resembles a memory, unless a number, name or negation of it is news.

        This was the rule before repetitions were read, except that the text was never stored.
        """
        id_, kind = item.id, item.kind
        if not (item.status.is_new and id_ and kind and item.similar) or item.conflicts:
            return item
        near = item.similar[0]
        known, own = (self._text(one) for one in (near.id, id_))
        is_alike = near.similarity >= self.brain.services.store.space.similar_threshold
        if KINDS[kind].on_duplicate is not DuplicatePolicy.REFUSE or not is_alike:
            return item
        if not may_repeat(own, known=known):
            return item
        view.forget(id_, reason="similar to another memory")
        return replace(item, status=ItemStatus.DUPLICATE, id=near.id, similar=(near,))

    def _text(self, shown: str) -> str:
        id_ = ids.parse(ids.MEMORY, shown)
        memory = self.memories([id_])[id_]
        return full_text(memory.headline, memory.body)

    def memories(self, ids_: Sequence[int]) -> Mapping[int, Memory]:
        """Read memories by id, whoever may see them."""
        with self.brain.services.store.snapshot(self.brain.caller.tenant) as tx:
            return tx.memories.get(ids_)


@contextmanager
def open_note_store(
    *, settings: Settings, start: datetime, seed: int = 0, without: Iterable[str] = ()
) -> Generator[NoteStore]:
    """Open an empty store at a time; it is gone afterwards."""
    with TemporaryDirectory(prefix="commonbrain-eval-") as folder:
        clock = FakeClock(start)
        services = build_services(
            settings, Path(folder) / "brain.db", clock=clock, random_source=SeededRandom(seed)
        )
        with Brain(services, Caller(agent="evaluation", project=PROJECT)) as brain:
            yield NoteStore(brain, clock, frozenset(without))
