"""Questions that a store's own memories and recalls give, with what answers each.

No language model makes them. A known item is asked for by a few words of one of its sentences,
without about half of those that its headline has, and rather by those that others have too; what
is not there by words that are each of another memory. Where recalls were marked, the questions
that agents really asked are the better half.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from heapq import nsmallest
from itertools import islice
from typing import Final

from commonbrain.domain.ledger import Entry, Mark
from commonbrain.domain.memory import Memory, full_text
from commonbrain.flows.recall.plan import search_terms

_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_WORDS: Final = 3
"""What somebody types who half remembers; with more, words alone find nearly all."""
_LETTERS_MIN: Final = 3
_ABSENT_WORDS: Final = 6
"""With fewer each is a large part of the question, and something stored has it."""
_GOOD: Final = frozenset({Mark.USED, Mark.USEFUL})


class Sort(StrEnum):
    """Where a question is from."""

    KNOWN = "known"
    """A memory, asked for by some of its words."""
    ASKED = "asked"
    """A recall that was marked: what was used or useful answers it."""
    ABSENT = "absent"
    """Words that belong to different memories: nothing answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question, and the memories that answer it; none where it is of what is not there."""

    key: str
    sort: Sort
    text: str
    gold: frozenset[int]


def drawn(seed: int, key: object) -> int:
    """Give a number that is any, and the same for the same seed and key."""
    return int.from_bytes(blake2b(f"{seed}:{key}".encode(), digest_size=8).digest(), "big")


def known_items(memories: Sequence[Memory], *, seed: int, count: int) -> list[Question]:
    """Ask for memories, each by words of its own; those too short to be asked for are left out."""
    common = _common(memories)
    texts = ((memory, _asking_for(memory, seed=seed, common=common)) for memory in memories)
    made = (
        Question(key=f"k{memory.id}", sort=Sort.KNOWN, text=text, gold=frozenset({memory.id}))
        for memory, text in texts
        if text is not None
    )
    return list(islice(made, count))


def _asking_for(memory: Memory, *, seed: int, common: Mapping[str, int]) -> str | None:
    """Ask by words of the longest sentence, those first that others have too: names find it all."""
    sentences = _SENTENCE.split(full_text(memory.headline, memory.body))
    words = max(map(_telling, sentences), key=len, default=())
    headline = frozenset(_telling(memory.headline))
    kept = [word for word in words if word not in headline or drawn(seed, word) % 2]
    if len(kept) < _WORDS:
        return None
    chosen = nsmallest(_WORDS, kept, key=lambda word: (common[word] == 1, drawn(seed, word)))
    return " ".join(word for word in kept if word in chosen)


def _common(memories: Iterable[Memory]) -> Counter[str]:
    """Count how many of these have each word."""
    return Counter(
        word for one in memories for word in set(_telling(full_text(one.headline, one.body)))
    )


def _telling(text: str) -> tuple[str, ...]:
    return tuple(word for word in search_terms(text) if len(word) >= _LETTERS_MIN)


def absent(memories: Sequence[Memory], *, seed: int, count: int) -> list[Question]:
    """Ask for what is not there: words that only one of these has, each of another one."""
    common = _common(memories)
    told = (_telling(full_text(one.headline, one.body)) for one in memories)
    lone = [
        min(own, key=lambda word: drawn(seed, word))
        for words in told
        if (own := [word for word in words if common[word] == 1])
    ]
    mixed = sorted(lone, key=lambda word: drawn(seed, f"absent {word}"))
    starts = range(0, len(mixed) - _ABSENT_WORDS + 1, _ABSENT_WORDS)
    return [
        Question(
            key=f"a{start}",
            sort=Sort.ABSENT,
            text=" ".join(mixed[start : start + _ABSENT_WORDS]),
            gold=frozenset(),
        )
        for start in starts[:count]
    ]


def asked(entries: Iterable[Entry], *, findable: Collection[int], count: int) -> list[Question]:
    """Ask again what was asked and marked: the latest, each question once."""
    made: dict[str, Question] = {}
    for entry in sorted(entries, key=lambda entry: -entry.id):
        good = {memory for memory, marks in entry.marks.items() if marks & _GOOD}
        gold = frozenset(good.intersection(findable))
        if entry.query and gold and len(made) < count:
            one = Question(key=f"t{entry.id}", sort=Sort.ASKED, text=entry.query, gold=gold)
            made.setdefault(entry.query, one)
    return list(made.values())
