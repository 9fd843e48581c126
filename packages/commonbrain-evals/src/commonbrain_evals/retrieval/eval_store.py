"""Stores of evaluations: a corpus is imported or remembered turn by turn, then asked about."""

import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from commonbrain.client import Brain
from commonbrain.config import Settings
from commonbrain.ingestion.result import ItemResult, ItemStatus
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import KINDS, DuplicatePolicy, Kind, MessageDetail
from commonbrain.model.memory import Draft, Memory, full_text
from commonbrain.model.query import Candidate
from commonbrain.model.recall_result import render_item, shown_fields
from commonbrain.model.scope import Authority, Caller
from commonbrain.retrieval.packing import to_item
from commonbrain.runtime.bootstrap import build_services
from commonbrain.runtime.models import make_embedder
from commonbrain.services import Services
from commonbrain.testing.builders import FakeClock, SeededRandom
from commonbrain.text.repetition import may_repeat
from commonbrain.text.tokens import estimate
from commonbrain_evals.retrieval.corpora import Corpus, Form
from commonbrain_evals.retrieval.vectors import CachedEmbedder

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
    """Yield the turns of a corpus in their order; what cannot be read is left out."""
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
        """Return a text to a view's plain `remember`; `more` goes to it as it is."""
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
        known, own = (self.text(shown) for shown in (near.id, id_))
        is_alike = near.similarity >= self.brain.services.store.space.similar_threshold
        if KINDS[kind].on_duplicate is not DuplicatePolicy.REFUSE or not is_alike:
            return item
        if not may_repeat(own, known=known):
            return item
        view.forget(id_, reason="similar to another memory")
        return replace(item, status=ItemStatus.DUPLICATE, id=near.id, similar=(near,))

    def text(self, shown: str) -> str:
        """Return the text of a memory by its id as it is shown."""
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
        with Brain(
            services, Caller(agent="evaluation", project=PROJECT, authority=Authority.PERSON)
        ) as brain:
            yield NoteStore(brain, clock, frozenset(without))


_FORMAT: Final = "corpus"
_PAGE: Final = 1000


@dataclass(frozen=True, slots=True)
class FrozenClock:
    """Says one moment for the record, and measures like any other."""

    at: datetime

    def now(self) -> datetime:
        """Return that moment."""
        return self.at

    def elapsed_ms(self) -> float:
        """Measure."""
        return time.perf_counter() * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LastSession:
    """The last session of a store: its sources, and the tokens of all that was said in it."""

    sources: frozenset[str] = frozenset()
    tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalStore:
    """A filled store, with what baselines need to know of its memories."""

    brain: Brain
    stored: int
    """Pieces that became memories."""
    refused: int = 0
    """Pieces that did not."""
    seconds: float
    """How long it took to remember them."""
    memories: Mapping[int, Memory]
    session_of: Mapping[str, str]
    """The session that each source is of; what belongs to none is not in here."""
    source_of: Mapping[int, str]
    """Where each memory comes from, which is what questions name as evidence."""
    said_by: Mapping[str, str] = field(default_factory=dict[str, str])
    """By source that was refused as a repetition: the source whose memory it repeats."""
    costs: dict[int, int] = field(default_factory=dict[int, int])
    """Tokens of memories as they are shown to agents, once they were counted."""

    @property
    def services(self) -> Services:
        """The services of the store."""
        return self.brain.services

    def at(self, at: datetime) -> Brain:
        """Return the brain as it is at another moment."""
        return Brain(replace(self.services, clock=FrozenClock(at)), self.brain.caller)

    def source(self, memory_id: int) -> str:
        """Return where a memory comes from, which is what questions name as evidence."""
        return self.source_of.get(memory_id, "")

    def findable(self, gold: Mapping[str, int]) -> Mapping[str, int]:
        """Return gold without what repeats other gold; what repeats anything else stays missing."""
        return {source: of for source, of in gold.items() if self.said_by.get(source) not in gold}

    def sessions(self, sources: Iterable[str]) -> Sequence[str]:
        """Return the sessions of sources, each once, in their order."""
        sessions_known = (self.session_of.get(source) for source in sources)
        return list(dict.fromkeys(session for session in sessions_known if session is not None))

    def cost(self, memory_id: int) -> int:
        """Count the tokens of one memory as a recall shows it."""
        if memory_id not in self.costs:
            shown = to_item(Candidate(memory=self.memories[memory_id], features={}, score=0.0))
            self.costs[memory_id] = estimate(render_item(shown, shown_fields(shown))) + 1
        return self.costs[memory_id]

    def history_tokens(self) -> int:
        """Count everything that was said, each with who said it and nothing else."""
        return _spoken_tokens(self.memories.values())

    def last_session(self) -> LastSession:
        """Return the session of the latest memory, which an agent without memory might resume."""
        dated = [one for one in self.memories.values() if self._session(one) is not None]
        if not dated:
            return LastSession()
        name = self._session(max(dated, key=lambda one: (one.occurred_at, one.id)))
        memories = [one for one in dated if self._session(one) == name]
        return LastSession(
            sources=frozenset(self.source(memory.id) for memory in memories),
            tokens=_spoken_tokens(memories),
        )

    def _session(self, memory: Memory) -> str | None:
        return self.session_of.get(self.source(memory.id))


def _spoken_tokens(memories: Iterable[Memory]) -> int:
    return sum(
        estimate(f"{memory.speaker or ''}: {full_text(memory.headline, memory.body)}\n")
        for memory in memories
    )


@contextmanager
def open_eval_store(
    corpus: Corpus,
    *,
    settings: Settings,
    seed: int,
    form: Form = Form.MESSAGES,
    without: Iterable[str] = (),
) -> Generator[EvalStore]:
    """Fill a fresh store with a corpus in one form; it is gone afterwards.

    `without` may name parts of `remember` to leave out, where turns are given to it.
    """
    fill = _imported if corpus.live is None else _lived
    if form is not Form.MESSAGES:
        fill = partial(_remembered, form=form, without=without)
    with fill(corpus, settings=settings, seed=seed) as eval_store:
        yield eval_store


@contextmanager
def _imported(corpus: Corpus, *, settings: Settings, seed: int) -> Generator[EvalStore]:
    with TemporaryDirectory(prefix="commonbrain-eval-") as folder:
        path = Path(folder)
        clock, random_source = FrozenClock(corpus.ends_at), SeededRandom(seed)
        built = build_services(
            settings, path / "brain.db", clock=clock, random_source=random_source
        )
        # Baselines ask what recall is asked: it must not find their vectors ready.
        embedder = CachedEmbedder(make_embedder(settings))
        services = replace(built, embedder=embedder, importers=lambda: {_FORMAT: corpus})
        with Brain(services, Caller(agent="evaluation", authority=Authority.PERSON)) as brain:
            started = time.perf_counter()
            report = brain.import_(_FORMAT, path)
            seconds = time.perf_counter() - started
            memories = _read_all(brain)
            yield EvalStore(
                brain=brain,
                stored=report.stored,
                refused=report.read - report.stored,
                seconds=seconds,
                memories=memories,
                session_of=_sessions(memories.values()),
                source_of={id_: memory.source_ref or "" for id_, memory in memories.items()},
            )


@contextmanager
def _remembered(
    corpus: Corpus, *, settings: Settings, seed: int, form: Form, without: Iterable[str]
) -> Generator[EvalStore]:
    turns = list(turns_of(corpus))
    kind = Kind.EVENT if form is Form.EVENTS else None
    source_of: dict[int, str] = {}
    said_by: dict[str, str] = {}
    refused = 0
    start = turns[0].at
    with open_note_store(settings=settings, start=start, seed=seed, without=without) as store:
        started = time.perf_counter()
        for turn in turns:
            store.advance_to(turn.at)
            view = store.brain.acting_as(session=turn.session)
            items = store.remember(view, turn.note, kind=kind)
            refused += sum(not item.status.is_new for item in items)
            for item in items:
                if item.id is None:
                    continue
                id_ = ids.parse(ids.MEMORY, item.id)
                if item.status.is_new:
                    source_of[id_] = turn.source
                elif id_ in source_of:
                    said_by[turn.source] = source_of[id_]
        seconds = time.perf_counter() - started
        store.advance_to(corpus.ends_at)
        brain = _with_new_embedder(store.brain, settings)
        yield EvalStore(
            brain=brain,
            stored=len(source_of),
            refused=refused,
            seconds=seconds,
            memories=_read_all(brain),
            session_of={turn.source: turn.session for turn in turns},
            source_of=source_of,
            said_by=said_by,
        )


@contextmanager
def _lived(corpus: Corpus, *, settings: Settings, seed: int) -> Generator[EvalStore]:
    live, start = corpus.live, corpus.begins_at or corpus.ends_at
    if live is None:
        raise InvalidInputError(f"{corpus.name} is read, not lived through.")
    with open_note_store(settings=settings, start=start, seed=seed) as store:
        started = time.perf_counter()
        memory_of = live(store)
        seconds = time.perf_counter() - started
        store.advance_to(corpus.ends_at)
        yield EvalStore(
            brain=_with_new_embedder(store.brain, settings),
            stored=len(memory_of),
            seconds=seconds,
            memories=_read_all(store.brain),
            session_of={},
            source_of={id_: source for source, id_ in memory_of.items()},
        )


def _with_new_embedder(brain: Brain, settings: Settings) -> Brain:
    """Return a brain that finds the vector of no question ready, as after an import."""
    return Brain(replace(brain.services, embedder=make_embedder(settings)), brain.caller)


def _sessions(memories: Iterable[Memory]) -> Mapping[str, str]:
    """Name sessions by what the store calls their threads."""
    return {
        memory.source_ref or "": str(memory.detail.thread_id)
        for memory in memories
        if isinstance(memory.detail, MessageDetail) and memory.detail.thread_id is not None
    }


def _read_all(brain: Brain) -> Mapping[int, Memory]:
    """Read every memory of a store."""
    memories_found: dict[int, Memory] = {}
    with brain.services.store.snapshot(brain.caller.tenant) as tx:
        page = partial(tx.memories.page, limit=_PAGE)
        ids = page(after=0)
        while ids:
            memories_found.update(tx.memories.get(ids))
            ids = page(after=ids[-1])
    return memories_found
