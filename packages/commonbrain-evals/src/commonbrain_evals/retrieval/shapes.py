"""A store's texts in the shapes that the study's recipes look for, each indexed and embedded."""

import re
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from commonbrain.embeddings.interface import Embedder, Matrix
from commonbrain.model.kinds import MessageDetail
from commonbrain.model.memory import Memory
from commonbrain.storage.interface import Progress, ignore_progress

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
        """Give the cosine of the best window of each text."""
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
    names = frozenset(one.speaker for one in embedding_texts if one.speaker) - _ROLES
    text_said = [
        f"{one.speaker}: {one.text}" if one.speaker else one.text for one in embedding_texts
    ]
    bare = [_without(names, one.text) for one in embedding_texts]
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
    return [numbers.setdefault(_session(one), len(numbers)) for one in memories]


def _session(memory: Memory) -> tuple[str, int]:
    detail = memory.detail
    if isinstance(detail, MessageDetail) and detail.thread_id is not None:
        return "thread", detail.thread_id
    return "memory", memory.id


def _neighbours(session_of: Sequence[int]) -> Iterator[Sequence[int]]:
    """Give the places of each text and of its neighbours in its session, in their order."""
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
