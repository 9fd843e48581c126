"""Self-evaluation: measure recall with questions from the store's own memories and recalls.

The questions are made without a language model. A known item is asked for by a few words of one
sentence, without about half of those in its headline, preferring words that other memories have
too. An absent item is asked for by words of different memories. Where recalls have feedback, the
queries of agents are used as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from hashlib import blake2b
from heapq import nsmallest
from importlib.metadata import version
from itertools import islice
from math import ceil
from statistics import fmean, median
from typing import TYPE_CHECKING, Final

from commonbrain.administration.embedding_spaces import (
    DRAWN_BITS,
    EmbeddingSpaces,
    find_embedder,
    interval,
    services_in_space,
)
from commonbrain.clock import Clock
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, NotFoundError, RejectedError
from commonbrain.model.limits import (
    EVALUATED_DEFAULT,
    EVALUATED_MAX,
    EVALUATED_MIN,
    EVALUATION_SCANNED_MAX,
    RECALL_TOKENS_MAX,
)
from commonbrain.model.memory import Memory, full_text
from commonbrain.model.model_card import ModelRole, ModelState
from commonbrain.model.query import FeedbackMark, Filter, RecallLogEntry, is_allowed
from commonbrain.model.recall_result import RecallResult, ResultStatus
from commonbrain.model.scope import Caller, Role
from commonbrain.observability.interface import SILENT
from commonbrain.retrieval.plan import search_terms
from commonbrain.retrieval.recall import Recall
from commonbrain.retrieval.write_behind import RecallLogPolicy, WriteBehindQueue
from commonbrain.security.guard import unshown
from commonbrain.services import Services
from commonbrain.storage.interface import EntryFilter
from commonbrain.storage.repositories.learning import StoredEvaluation
from commonbrain.text.segmentation import split_sentences
from commonbrain_evals.self_evaluation_figures import DEPTH, figure, gain

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

_WORDS: Final = 3
"""Words of a typical half-remembered query; with more, words alone find nearly everything."""
_LETTERS_MIN: Final = 3
_USUAL: Final = 10
"""A word in more than one of this many memories says little."""
Rank = Callable[[str], tuple[int, int]]
"""Sorts words by their usefulness in a query, best first."""
_ABSENT_WORDS: Final = 6
"""With fewer words, each is a large part of the query, and some memory has it."""
_GOOD: Final = frozenset({FeedbackMark.USED, FeedbackMark.USEFUL})


class QuestionKind(StrEnum):
    """Where a question comes from."""

    KNOWN = "known"
    """A memory, asked for by some of its words."""
    ASKED = "asked"
    """A recall with feedback: what was used or useful is the answer."""
    ABSENT = "absent"
    """Words of different memories: there is no answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreQuestion:
    """A question and its answers; none if it asks for something absent."""

    key: str
    sort: QuestionKind
    text: str
    gold: frozenset[int]


def hash_draw(seed: int, key: object) -> int:
    """Return a pseudorandom number that depends only on seed and key."""
    return int.from_bytes(blake2b(f"{seed}:{key}".encode(), digest_size=8).digest(), "big")


def known_items(memories: Sequence[Memory], *, seed: int, count: int) -> list[StoreQuestion]:
    """Make questions for memories from their own words; memories that are too short are skipped."""
    common, usual = _common(memories), max(2, len(memories) // _USUAL)

    def rank(word: str) -> tuple[int, int]:
        # Words in a few memories are best; a unique name finds its memory alone, common words
        # nothing.
        has = common[word]
        return (1 if has == 1 else 2 if has > usual else 0), hash_draw(seed, word)

    texts = ((memory, _query_for(memory, seed=seed, rank=rank)) for memory in memories)
    made = (
        StoreQuestion(
            key=f"k{memory.id}", sort=QuestionKind.KNOWN, text=text, gold=frozenset({memory.id})
        )
        for memory, text in texts
        if text is not None
    )
    return list(islice(made, count))


def _query_for(memory: Memory, *, seed: int, rank: Rank) -> str | None:
    """Make a query from the best words of the longest sentence, in order."""
    sentences = split_sentences(full_text(memory.headline, memory.body))
    words = max(map(_content_words, sentences), key=len, default=())
    headline = frozenset(_content_words(memory.headline))
    usable = [word for word in words if word not in headline or hash_draw(seed, word) % 2]
    if len(usable) < _WORDS:
        return None
    chosen = nsmallest(_WORDS, usable, key=rank)
    return " ".join(word for word in usable if word in chosen)


def _common(memories: Iterable[Memory]) -> Counter[str]:
    """Count the memories that contain each word."""
    return Counter(
        word
        for memory in memories
        for word in set(_content_words(full_text(memory.headline, memory.body)))
    )


def _content_words(text: str) -> tuple[str, ...]:
    return tuple(word for word in search_terms(text) if len(word) >= _LETTERS_MIN)


def unanswerable_questions(
    memories: Sequence[Memory], *, seed: int, count: int
) -> list[StoreQuestion]:
    """Make questions without an answer, from words that each occur in one other memory only."""
    common = _common(memories)
    contents = (_content_words(full_text(memory.headline, memory.body)) for memory in memories)
    lone = [
        min(own, key=lambda word: hash_draw(seed, word))
        for words in contents
        if (own := [word for word in words if common[word] == 1])
    ]
    mixed = sorted(lone, key=lambda word: hash_draw(seed, f"absent {word}"))
    starts = range(0, len(mixed) - _ABSENT_WORDS + 1, _ABSENT_WORDS)
    return [
        StoreQuestion(
            key=f"a{start}",
            sort=QuestionKind.ABSENT,
            text=" ".join(mixed[start : start + _ABSENT_WORDS]),
            gold=frozenset(),
        )
        for start in starts[:count]
    ]


def questions_from_recalls(
    entries: Iterable[RecallLogEntry], *, findable: Collection[int], count: int
) -> list[StoreQuestion]:
    """Return past queries with feedback, latest first, each once."""
    made: dict[str, StoreQuestion] = {}
    for entry in sorted(entries, key=lambda entry: -entry.id):
        good = {memory for memory, marks in entry.marks.items() if marks & _GOOD}
        gold = frozenset(good.intersection(findable))
        if entry.query and gold and len(made) < count:
            one = StoreQuestion(
                key=f"t{entry.id}", sort=QuestionKind.ASKED, text=entry.query, gold=gold
            )
            made.setdefault(entry.query, one)
    return list(made.values())


SELF: Final = "self"
"""The name of this evaluation."""
_PAGE: Final = 2000
_OVERSAMPLE: Final = 4
"""Memories read for each question, because some are unsuitable."""
_ABSENT_SHARE: Final = 5
"""One absent item for this many questions."""
_HELD_OUT: Final = 0.3
"""The latest share of recalls with feedback, which training has not used yet."""
_SHARES: Final = {"p50": 0.5, "p95": 0.95}


@dataclass(frozen=True, slots=True)
class _FrozenClock:
    """A clock that is stopped for the questions and measures durations as usual."""

    at: datetime
    running: Clock

    def now(self) -> datetime:
        return self.at

    def elapsed_ms(self) -> float:
        return self.running.elapsed_ms()


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedAnswer:
    """The result of one question, in a form that a job can store."""

    sort: QuestionKind
    ranks: tuple[int, ...]
    """Ranks of the answers among the first ten, from 1."""
    gold: int
    """The number of answers."""
    packed: float
    """The share of the answers shown with text in a result of default size."""
    is_found: bool
    """Whether recall returned the verdict `found`."""
    ms: float
    lacks: tuple[str, ...] = ()
    """Parts of recall that failed, so that the figures are for the rest."""

    def plain(self) -> list[object]:
        """Convert to JSON values."""
        return [
            self.sort, list(self.ranks), self.gold, self.packed, self.is_found, self.ms,
            list(self.lacks),
        ]  # fmt: skip

    @classmethod
    def read(cls, plain: Sequence[object]) -> RankedAnswer:
        """Convert from the result of `plain`."""
        sort, ranks, gold, packed, is_found, ms, lacks = plain
        return cls(
            sort=QuestionKind(str(sort)),
            ranks=tuple(ranks),  # type: ignore[arg-type]
            gold=int(gold),  # type: ignore[call-overload]
            packed=float(packed),  # type: ignore[arg-type]
            is_found=bool(is_found),
            ms=float(ms),  # type: ignore[arg-type]
            lacks=tuple(lacks),  # type: ignore[arg-type]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSet:
    """Questions to the store as of one time, and the recall that answers them."""

    at: datetime
    questions: tuple[StoreQuestion, ...]
    setup: Mapping[str, object]
    recall: Recall

    def ask(self, question: StoreQuestion) -> RankedAnswer:
        """Ask once for the ranks, and once as agents do, which is timed."""
        clock = self.recall.services.clock
        with unshown():
            began_ms = clock.elapsed_ms()
            served = self.recall(question.text, bump=False)
            took_ms = clock.elapsed_ms() - began_ms
            ranked = self.recall(
                question.text, max_items=DEPTH, max_tokens=RECALL_TOKENS_MAX, bump=False
            )
        gold = question.gold
        places = enumerate(_ids(ranked), 1)
        answered = gold.intersection(_ids(served, is_in_words=True))
        return RankedAnswer(
            sort=question.sort,
            ranks=tuple(place for place, id_ in places if id_ in gold),
            gold=len(gold),
            packed=len(answered) / len(gold) if gold else 0.0,
            is_found=served.verdict is ResultStatus.FOUND,
            ms=round(took_ms, 3),
            lacks=tuple(part.partition(":")[0] for part in served.degraded),
        )


def _ids(result: RecallResult, *, is_in_words: bool = False) -> list[int]:
    return [
        ids.parse(ids.MEMORY, item.id)
        for item in result.items
        if not is_in_words or item.body is not None or item.excerpt is not None
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedFigure:
    """One figure in two spaces, on the same questions."""

    serving: float
    other: float
    low: float
    """Lower end of the 95% interval of the difference, other minus serving."""
    high: float
    count: int
    """Number of questions."""

    @property
    def difference(self) -> float:
        """The gain of the other space, negative for a loss."""
        return self.other - self.serving

    @property
    def is_beyond_noise(self) -> bool:
        """Whether the interval of the difference excludes 0."""
        return not self.low <= 0 <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceComparison:
    """The serving space and another one, measured on the same questions of the store."""

    serving: str
    other: str
    missing: int
    """Memories without a vector in the other space, in all tenants."""
    figures: Mapping[str, PairedFigure]
    lacks: tuple[str, ...]
    """Parts of recall that failed in either space."""
    median_ms: tuple[float, float]
    """Time of a recall in each."""


@dataclass(frozen=True, slots=True)
class Evaluate:
    """Evaluates recall for one caller, with memories that the caller may see."""

    services: Services
    caller: Caller

    def __call__(
        self,
        *,
        questions: int = EVALUATED_DEFAULT,
        seed: int = 0,
        on_progress: Callable[[float], None] = lambda _: None,
    ) -> StoredEvaluation:
        """Measure recall on questions from this store's memories and recalls with feedback.

        Counts no accesses and writes no traces; only the result is stored.

        Args:
            questions: the largest number of questions of each kind.
            seed: the same seed asks the same questions of the same store.
            on_progress: called with the progress, 0..1.

        Raises:
            InvalidInputError: the number of questions is out of range.
            RejectedError: `too_little`, the store has too few memories.

        """
        exam = self.prepare(self.services.clock.now(), questions=questions, seed=seed)
        answers: list[RankedAnswer] = []
        for question in exam.questions:
            answers.append(exam.ask(question))
            on_progress(len(answers) / len(exam.questions))
        drawn_id = ids.make_id(exam.at, self.services.random_source.bits(ids.RANDOM_BITS))
        done = self.result(exam, answers, id_=drawn_id)
        with self.services.store.begin(self.caller.tenant) as tx:
            tx.evaluations.add(done)
        return done

    def compare(
        self,
        embedder: str,
        *,
        questions: int = EVALUATED_DEFAULT,
        seed: int = 0,
        on_progress: Callable[[float], None] = lambda _: None,
    ) -> SpaceComparison:
        """Ask the same questions in the serving space and in another one; stores nothing.

        Args:
            embedder: the other one, such as `onnx:FOLDER`, whose space is built.
            questions: the largest number of questions of each kind.
            seed: the same seed asks the same questions of the same store.
            on_progress: called with the progress, 0..1.

        Raises:
            InvalidInputError: the number of questions is out of range, or the embedder is unknown.
            NotFoundError: the other space is not built.
            RejectedError: `too_little`; or the caller is not an admin of the first tenant.
            UnavailableError: an embedder or the store does not answer.

        """
        services, spaces = self.services, EmbeddingSpaces(self.services, self.caller)()
        name = find_embedder(services, embedder).space.name
        missing = next((space.missing for space in spaces if space.name == name), None)
        if missing is None:
            raise NotFoundError(
                f"The store has no space {name}.",
                hint=f"`brain embeddings build {embedder}` computes its vectors.",
            )
        other = Evaluate(services_in_space(services, embedder), self.caller)
        exam = self.prepare(services.clock.now(), questions=questions, seed=seed)
        recalls = exam.recall, Recall(other._frozen_services(exam.at), self.caller)
        answers: tuple[list[RankedAnswer], list[RankedAnswer]] = ([], [])
        for number, question in enumerate(exam.questions, 1):
            for recall, own in zip(recalls, answers, strict=True):
                own.append(replace(exam, recall=recall).ask(question))
            on_progress(number / len(exam.questions))
        values, others = map(_values, answers)
        return SpaceComparison(
            serving=services.store.space.name,
            other=name,
            missing=missing,
            figures={
                each: _paired(values[each], others[each], draw=self._draw)
                for each in values
                if values[each]
            },
            lacks=tuple(sorted({part for own in answers for one in own for part in one.lacks})),
            median_ms=(_median_ms(answers[0]), _median_ms(answers[1])),
        )

    def _draw(self, count: int) -> int:
        return self.services.random_source.bits(DRAWN_BITS) % count

    def history(self, name: str = SELF, *, limit: int = 100) -> list[StoredEvaluation]:
        """List stored results of an evaluation, newest first."""
        with self.services.store.snapshot(self.caller.tenant) as tx:
            return tx.evaluations.listed(name, limit=limit)

    def prepare(self, at: datetime, *, questions: int, seed: int) -> EvaluationSet:
        """Make the questions as of one time; later memories change none of them.

        Raises:
            InvalidInputError: the number of questions is out of range.
            RejectedError: `too_little`.

        """
        if not EVALUATED_MIN <= questions <= EVALUATED_MAX:
            raise InvalidInputError(
                f"questions is {questions}; {EVALUATED_MIN} to {EVALUATED_MAX} are allowed."
            )
        with self.services.store.snapshot(self.caller.tenant) as tx:
            memories = self._sample(tx, at, seed=seed, count=_OVERSAMPLE * questions)
            known = known_items(memories, seed=seed, count=questions)
            if len(known) < EVALUATED_MIN:
                raise RejectedError(
                    f"Too few memories are suitable: {len(known)}; at least "
                    f"{EVALUATED_MIN} are needed.",
                    code="too_little",
                    hint="Try again when the store has more memories.",
                )
            again = self._past_questions(tx, at, count=questions)
            setup = self._setup(tx)
        few = max(EVALUATED_MIN, ceil(questions / _ABSENT_SHARE))
        nothing = unanswerable_questions(memories, seed=seed, count=few)
        return EvaluationSet(
            at=at,
            questions=(*known, *again, *nothing),
            setup={**setup, "questions": questions, "seed": seed},
            recall=Recall(self._frozen_services(at), self.caller),
        )

    def result(
        self, exam: EvaluationSet, answers: Sequence[RankedAnswer], *, id_: int
    ) -> StoredEvaluation:
        """Summarize the answers of all questions."""
        took = sorted(answer.ms for answer in answers)
        took_ms = {
            name: round(took[min(len(took) - 1, int(share * len(took)))], 1)
            for name, share in _SHARES.items()
        }
        return StoredEvaluation(
            id=id_,
            name=SELF,
            at=exam.at,
            agent=self.caller.agent,
            figures={name: figure(values) for name, values in _values(answers).items()},
            setup={
                **exam.setup,
                "lacks": sorted({part for answer in answers for part in answer.lacks}),
            },
            took_ms=took_ms,
        )

    def _frozen_services(self, at: datetime) -> Services:
        """Return the services with a stopped clock, which store no trace of reading."""
        services, clock = self.services, _FrozenClock(at, self.services.clock)
        journal = WriteBehindQueue(
            services.store, services.secret_scanner, clock=clock, ledger=RecallLogPolicy(share=0.0)
        )
        return replace(services, clock=clock, journal=journal, telemetry=SILENT)

    def _sample(self, tx: Transaction, at: datetime, *, seed: int, count: int) -> Sequence[Memory]:
        """Sample memories that the caller's recall can return, the same for the same seed."""
        drawn_ids = nsmallest(count, _all_ids(tx, at), key=lambda id_: hash_draw(seed, id_))
        memories = tx.memories.get(drawn_ids)
        return [
            memories[id_] for id_ in drawn_ids if id_ in memories and self._may(memories[id_], at)
        ]

    def _past_questions(self, tx: Transaction, at: datetime, *, count: int) -> list[StoreQuestion]:
        """Return the latest queries with feedback whose answers still exist."""
        # Only an admin may read the queries of others.
        is_admin = self.caller.role is Role.ADMIN
        criteria = EntryFilter(agent=None if is_admin else self.caller.agent, is_marked=True)
        before, enough = ids.make_id(at, -1), ceil(count / _HELD_OUT)
        entries = tx.recall_log.latest(criteria, before=before, limit=enough)
        late = entries[: ceil(len(entries) * _HELD_OUT)]
        gold = tx.memories.get(sorted({id_ for entry in late for id_ in entry.marks}))
        findable = [id_ for id_, memory in gold.items() if self._may(memory, at)]
        return questions_from_recalls(late, findable=findable, count=count)

    def _may(self, memory: Memory, at: datetime) -> bool:
        return is_allowed(memory, self.caller, criteria=Filter(), now=at)

    def _setup(self, tx: Transaction) -> dict[str, object]:
        """Describe the models that answer, to explain differences between results."""
        serving = tx.models.serving(ModelRole.RERANKER)
        active = [card.id for card in serving if card.state is ModelState.ACTIVE]
        ranker = ids.show(ids.MODEL, active[0]) if active else "fixed weights"
        if (model := self.services.reranker) is not None:
            ranker = f"{ranker}, then {model.name}"
        return {
            "version": version("commonbrain"),
            "space": self.services.store.space.name,
            "reranker": ranker,
            "memories": sum(tx.memories.counts().values()),
        }


def _all_ids(tx: Transaction, at: datetime) -> Iterator[int]:
    """Return the ids of memories up to a time, up to a limit."""
    last, after, seen = ids.make_id(at, -1), 0, 0
    while seen < EVALUATION_SCANNED_MAX:
        page = tx.memories.page(after=after, limit=_PAGE)
        if not page:
            return
        yield from (id_ for id_ in page if id_ <= last)
        after, seen = page[-1], seen + len(page)


def _values(answers: Sequence[RankedAnswer]) -> dict[str, list[float]]:
    """Return the values of every figure, one for each question."""
    made: dict[str, list[float]] = {}
    for sort, prefix in ((QuestionKind.KNOWN, ""), (QuestionKind.ASKED, "asked_")):
        those = [answer for answer in answers if answer.sort is sort]
        for name, values in _measures(those).items() if those else ():
            made[f"{prefix}{name}"] = values
    nothing = [
        float(not answer.is_found) for answer in answers if answer.sort is QuestionKind.ABSENT
    ]
    return {**made, "abstained": nothing}


def _paired(
    values: Sequence[float], others: Sequence[float], *, draw: Callable[[int], int]
) -> PairedFigure:
    """Compare one figure question by question, so that hard questions weigh on both alike."""
    gains = [other - value for value, other in zip(values, others, strict=True)]
    low, high = interval(gains, draw=draw)
    return PairedFigure(
        serving=fmean(values), other=fmean(others), low=low, high=high, count=len(gains)
    )


def _median_ms(answers: Sequence[RankedAnswer]) -> float:
    return round(median(answer.ms for answer in answers), 1)


def _measures(answers: Sequence[RankedAnswer]) -> dict[str, list[float]]:
    """Return every metric of every answer."""
    first = [min(answer.ranks, default=0) for answer in answers]
    return {
        **{f"hit_{depth}": [float(0 < rank <= depth) for rank in first] for depth in (1, 5, DEPTH)},
        "mrr": [1 / rank if rank else 0.0 for rank in first],
        "ndcg": [gain(answer.ranks, of=answer.gold) for answer in answers],
        "packed": [answer.packed for answer in answers],
    }
