"""Read a text once for all recalls: its words, subject, questions and times."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Final

from commonbrain.model.memory import Memory, full_text
from commonbrain.model.reading import Reading
from commonbrain.model.timestamps import to_millis
from commonbrain.text.assertions import subject_of
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.time_expressions.mentions import mentions_in
from commonbrain.text.time_expressions.parser import names_time
from commonbrain.text.words import ARTICLES, read_words, stem

_CHARS_MAX: Final = 4000
"""Characters of a text and of its keywords whose words are read."""
_CACHED: Final = 256
"""Texts of one call, at most 100 and their parts: `prepare` reads them, the transaction stores."""
_WORD: Final = lazy_pattern(r"\w+")
_SENTENCE: Final = lazy_pattern(r"[^.!?]*[.!?]*")


def read_memory(memory: Memory) -> Reading:
    """Read the text of a memory, as it is stored with it."""
    return read_text(
        memory.headline,
        memory.body,
        keywords=memory.keywords,
        occurred_at=memory.occurred_at,
    )


def read_text(headline: str, body: str, *, keywords: str, occurred_at: datetime) -> Reading:
    """Read a text with its keywords; dates such as "next Friday" are read from `occurred_at`.

    Of text and keywords the first 4,000 characters each are searched for words, and the text for at
    most eight times.
    """
    read = read_undated(headline, body)
    named = _stems(keywords[:_CHARS_MAX])
    mentions = mentions_in(full_text(headline, body), occurred_at)
    return replace(
        read,
        words=_joined((*read.words.split(), *named)) if named else read.words,
        times=tuple((to_millis(one.span.since), to_millis(one.span.until)) for one in mentions),
    )


@lru_cache(maxsize=_CACHED)
def read_undated(headline: str, body: str) -> Reading:
    """Read what a text says by itself, without keywords and times."""
    text = full_text(headline, body)
    start = text[:_CHARS_MAX]
    code = (word.key for word in read_words(start) if word.is_content)
    return Reading(
        words=_joined((*_stems(start), *code)),
        subject_words=_joined(subject_of(body[:_CHARS_MAX])),
        question_share=_question_share(body),
        names_time=names_time(body),
    )


def _stems(text: str) -> Iterable[str]:
    words = set(_WORD.findall(text.lower())) - ARTICLES
    return map(stem, words)


def _joined(words: Iterable[str]) -> str:
    return " ".join(sorted(set(words)))


def _question_share(text: str) -> float:
    if "?" not in text:
        return 0.0
    parts = [part for part in _SENTENCE.findall(text) if part.strip()]
    return round(sum(part.endswith("?") for part in parts) / len(parts), 4)
