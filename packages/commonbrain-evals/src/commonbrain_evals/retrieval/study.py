"""The recipes of the study behind this evaluation, computed as a plain script would.

The study tried what anyone could write in an evening on public data, and kept what improved recall
most. Its best recipes, one for each sort of data, are the floor that recall is compared with. Only
the parser of time expressions and the list of function words are those of recall.
"""

import math
import re
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from commonbrain.embeddings.interface import Embedder, Matrix
from commonbrain.model.kinds import MessageDetail
from commonbrain.model.memory import Memory
from commonbrain.model.revision import BeliefPeriod
from commonbrain.retrieval.plan import search_terms
from commonbrain.storage.interface import Progress, ignore_progress
from commonbrain.text.time_expressions.parser import parse_time_range


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What is blended, each list brought to 0..1 over the candidates, and what is added."""

    words: float = 0.5
    """The share of BM25 in the blend; the rest is the vectors'."""
    has_context: bool = False
    """Whether each text is also looked for with what was said around it, for half of the blend."""
    session: float = 0.0
    """For how well the words of its whole session match."""
    speaker: float = 0.0
    """For who said it being named in the question."""
    date: float = 0.0
    """For how near to the time that the question names it was said."""
    user: float = 0.0
    """For having been said by the user, not by the assistant."""
    is_of_user: bool = False
    """Whether nothing else may come."""


STUDY: Final = "study recipe"
DOCUMENTS: Final[Mapping[str, Recipe]] = {STUDY: Recipe()}
"""For texts that have nothing around them."""
TALKS: Final[Mapping[str, Recipe]] = {
    STUDY: Recipe(has_context=True, session=0.2, speaker=0.1, date=0.3)
}
"""For people who talk to each other."""
CHATS: Final[Mapping[str, Recipe]] = {
    STUDY: Recipe(words=0.4, user=0.2),
    f"{STUDY}, user": Recipe(words=0.4, is_of_user=True),
}
"""For a user and an assistant; the evidence is mostly the user's, which the second presupposes."""


_BEFORE: Final = 2
_AFTER: Final = 1
"""Neighbours in its session that a text is looked for with."""
_NEIGHBOUR_WORDS: Final = 60
"""Of each of them, and of the text itself."""
_EMBEDDED_AT_ONCE: Final = 32
_ROLES: Final = frozenset({"assistant", "system", "tool", "user"})
"""Speakers whose names belong to no person."""

Row = NDArray[np.float64]
"""One number a text."""
Places = NDArray[np.intp]


@dataclass(frozen=True, slots=True, weakref_slot=True)
class LexicalIndex:
    """Texts by their stemmed words."""

    connection: sqlite3.Connection
    texts: int

    @classmethod
    def of(cls, texts: Sequence[str]) -> "LexicalIndex":
        """Index texts in memory."""
        connection = sqlite3.connect(":memory:")
        connection.execute("CREATE VIRTUAL TABLE said USING fts5(text, tokenize='porter')")
        rows = enumerate(texts)
        connection.executemany("INSERT INTO said (rowid, text) VALUES (?, ?)", rows)
        index = cls(connection, len(texts))
        finalize(index, connection.close)
        return index

    def score_terms(self, terms: Sequence[str]) -> Row:
        """Score every text by BM25 (k1 1.2, b .75); 0 where it shares no word."""
        scores = np.zeros(self.texts)
        match = " OR ".join(f'"{term}"' for term in terms)
        query_terms = "SELECT rowid, -bm25(said) FROM said WHERE said MATCH ?"
        for place, score in self.connection.execute(query_terms, (match,)) if match else ():
            scores[place] = score
        return scores


@dataclass(frozen=True, slots=True, kw_only=True)
class TextView:
    """Texts in one shape: by their words, and by their vectors without the names of speakers."""

    words: LexicalIndex
    vectors: Matrix
    """One row a window."""
    starts: Places
    """The first window of each text."""

    def best_cosines(self, question: Matrix) -> Row:
        """Return the cosine of the best window of each text."""
        cosines = (self.vectors @ question).astype(np.float64)
        return np.maximum.reduceat(cosines, self.starts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shapes:
    """All texts of a store, in their order."""

    memories: Sequence[Memory]
    embedder: Embedder
    names: frozenset[str]
    """Of those who spoke."""
    views: Sequence[TextView]
    """Alone, and with what was said around each if that was wanted."""
    session_words: LexicalIndex
    session_of: Places

    def vector(self, question: str) -> Matrix:
        """Embed a question without the names of who spoke."""
        return self.embedder.query(_without(self.names, question))


def shapes(
    memories: Mapping[int, Memory],
    embedder: Embedder,
    *,
    has_context: bool,
    on_progress: Progress = ignore_progress,
) -> Shapes:
    """Index and embed all texts of a store, each distinct one once."""
    embedding_texts = [memories[id_] for id_ in sorted(memories)]
    names = frozenset(text.speaker for text in embedding_texts if text.speaker) - _ROLES
    text_said = [
        f"{text.speaker}: {text.text}" if text.speaker else text.text for text in embedding_texts
    ]
    bare = [_without(names, text.text) for text in embedding_texts]
    session_of = _sittings(embedding_texts)
    forms = [(text_said, bare)]
    if has_context:
        best_cosines = list(_neighbours(session_of))
        forms.append(
            (
                [_joined(text_said, of) for of in best_cosines],
                [_joined(bare, of) for of in best_cosines],
            )
        )
    every = {text for _, texts in forms for text in texts}
    made = _embedded(every, embedder, on_progress=on_progress)
    return Shapes(
        memories=embedding_texts,
        embedder=embedder,
        names=names,
        views=[_view(words, [made[text] for text in texts]) for words, texts in forms],
        session_words=LexicalIndex.of(_whole(text_said, session_of)),
        session_of=np.array(session_of, dtype=np.intp),
    )


def _view(words: Sequence[str], windows: Sequence[Matrix]) -> TextView:
    counts = [len(of) for of in windows]
    starts = np.cumsum([0, *counts[:-1]])
    return TextView(words=LexicalIndex.of(words), vectors=np.concatenate(windows), starts=starts)


def _embedded(
    texts: Collection[str], embedder: Embedder, *, on_progress: Progress
) -> Mapping[str, Matrix]:
    made: dict[str, Matrix] = {}
    waiting = sorted(texts)
    for start in range(0, len(waiting), _EMBEDDED_AT_ONCE):
        batch = waiting[start : start + _EMBEDDED_AT_ONCE]
        made.update(zip(batch, embedder.passages(batch), strict=True))
        on_progress(len(made) / len(waiting))
    return made


def _without(names: Collection[str], text: str) -> str:
    """Leave out names, unless there is nothing else."""
    each = sorted(map(re.escape, names), key=len, reverse=True)
    if not each:
        return text
    left = re.sub(rf"\b(?:{'|'.join(each)})\b(?:['’]s\b)?", " ", text, flags=re.IGNORECASE)  # noqa: RUF001 as typed
    return left if left.strip() else text


def _sittings(memories: Sequence[Memory]) -> list[int]:
    """Number the sessions; what belongs to none is one of its own."""
    numbers: dict[tuple[str, int], int] = {}
    return [numbers.setdefault(_session(memory), len(numbers)) for memory in memories]


def _session(memory: Memory) -> tuple[str, int]:
    detail = memory.detail
    if isinstance(detail, MessageDetail) and detail.thread_id is not None:
        return "thread", detail.thread_id
    return "memory", memory.id


def _neighbours(session_of: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield the places of each text and of its neighbours in its session, in their order."""
    places: defaultdict[int, list[int]] = defaultdict(list)
    for place, sitting in enumerate(session_of):
        places[sitting].append(place)
    passed: defaultdict[int, int] = defaultdict(int)
    for sitting in session_of:
        at = passed[sitting]
        yield places[sitting][max(at - _BEFORE, 0) : at + _AFTER + 1]
        passed[sitting] += 1


def _joined(texts: Sequence[str], places: Sequence[int]) -> str:
    """Join texts, each cut to its first words; one alone stays whole."""
    if len(places) == 1:
        return texts[places[0]]
    return "\n".join(" ".join(texts[at].split()[:_NEIGHBOUR_WORDS]) for at in places)


def _whole(texts: Sequence[str], session_of: Sequence[int]) -> Sequence[str]:
    sessions: defaultdict[int, list[str]] = defaultdict(list)
    for sitting, text in zip(session_of, texts, strict=True):
        sessions[sitting].append(text)
    return ["\n".join(sessions[sitting]) for sitting in range(len(sessions))]


_BROUGHT: Final = 100
"""Of each list, before they are blended."""
_USER: Final = "user"
_FADING: Final = timedelta(days=7)
"""How far from the time that a question names a text counts a third as near."""


def rank(shapes: Shapes, recipe: Recipe, *, text: str, now: datetime) -> Mapping[int, float]:
    """Blend what a recipe wants, over the best of each list, best first."""
    terms, vector = search_terms(text), shapes.vector(text)
    views = shapes.views if recipe.has_context else shapes.views[:1]
    lists = [
        (weight / len(views), row)
        for view in views
        for weight, row in (
            (recipe.words, view.words.score_terms(terms)),
            (1 - recipe.words, view.best_cosines(vector)),
        )
    ]
    user = np.array([memory.speaker == _USER for memory in shapes.memories])
    allowed = np.flatnonzero(user if recipe.is_of_user else np.ones_like(user))
    chosen = _best((row for _, row in lists), allowed)
    score = np.zeros(len(chosen))
    for weight, row in lists:
        score += weight * _normalized(row[chosen])
    if recipe.session:
        score += (
            recipe.session
            * _normalized(shapes.session_words.score_terms(terms))[shapes.session_of[chosen]]
        )
    if recipe.speaker:
        score += recipe.speaker * _is_speaker_named(shapes, text)[chosen]
    if recipe.user:
        score += recipe.user * user[chosen]
    if recipe.date:
        score += recipe.date * _temporal_nearness(shapes, text, now=now)[chosen]
    order = np.argsort(-score, kind="stable")
    return {shapes.memories[int(chosen[at])].id: float(score[at]) for at in order}


def _best(rows: Iterable[Row], allowed: Places) -> Places:
    """Return the places of the best of every list, in their order."""
    each = [allowed[np.argsort(-row[allowed], kind="stable")[:_BROUGHT]] for row in rows]
    return np.unique(np.concatenate(each))


def _normalized(row: Row) -> Row:
    """Bring numbers to 0..1."""
    if not len(row) or row.min() == row.max():
        return np.zeros_like(row)
    return (row - row.min()) / (row.max() - row.min())


def _is_speaker_named(shapes: Shapes, text: str) -> Row:
    query_words = text.casefold()
    speakers_named = {name for name in shapes.names if name.casefold() in query_words}
    return np.array(
        [memory.speaker in speakers_named for memory in shapes.memories], dtype=np.float64
    )


def _temporal_nearness(shapes: Shapes, text: str, *, now: datetime) -> Row:
    """Say how near to the time that a question names each was said: 1 within, less by the day."""
    time_span = parse_time_range(text, now)
    if time_span is None:
        return np.zeros(len(shapes.memories))
    return np.array([_near(memory.occurred_at, time_span[0]) for memory in shapes.memories])


def _near(at: datetime, span: BeliefPeriod) -> float:
    gap = max(span.since - at, at - span.until, timedelta())
    return math.exp(-(gap / _FADING))
