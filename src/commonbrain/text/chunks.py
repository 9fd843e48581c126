"""Raw text cut into passages that can each be one memory; nothing is lost and the order kept."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

CHUNK_WORDS_MAX: Final = 300
"""A longer paragraph says several things, and the gate takes statements of at most 400 words."""
CHUNK_WORDS_MIN: Final = 5
"""Fewer words are a heading or a greeting."""

_FENCE: Final = re.compile(r"[ \t]{0,3}(?:```|~~~)")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*")  # noqa: RUF001 full-width marks
_UNSPACED: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
"""Kana and Han, which put no space between words; two of them are about one word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One passage of a raw text; `is_slight` when it is too short to be a memory."""

    text: str
    is_slight: bool


def split(text: str) -> list[Chunk]:
    """Cut at blank lines; what is too long then at line ends, sentences and words."""
    return [
        Chunk(text=part, is_slight=count_words(part) < CHUNK_WORDS_MIN)
        for paragraph in _paragraphs(text)
        for part in _cut(paragraph)
    ]


def count_words(text: str) -> int:
    """Count words, about, where none are parted by spaces."""
    return len(text.split()) + len(_UNSPACED.findall(text)) // 2


def _paragraphs(text: str) -> Iterator[str]:
    """Give what stands between blank lines; a fenced block of code is not cut at its own."""
    lines: list[str] = []
    is_fenced = False
    for line in text.split("\n"):
        is_fenced ^= _FENCE.match(line) is not None
        if line.strip() or is_fenced:
            lines.append(line)
        elif lines:
            yield "\n".join(lines)
            lines = []
    if any(line.strip() for line in lines):
        yield "\n".join(lines)


def _cut(paragraph: str) -> Iterator[str]:
    if count_words(paragraph) <= CHUNK_WORDS_MAX:
        yield paragraph.strip("\n")
        return
    for line in paragraph.split("\n"):
        if count_words(line) <= CHUNK_WORDS_MAX:
            yield from [line.strip()] if line.strip() else []
        else:
            yield from _fill(piece for one in _SENTENCE_END.split(line) for piece in _short(one))


def _fill(pieces: Iterator[str]) -> Iterator[str]:
    """Join pieces again as long as they fit."""
    held: list[str] = []
    words = 0
    for piece in pieces:
        more = count_words(piece)
        if held and words + more > CHUNK_WORDS_MAX:
            yield " ".join(held)
            held, words = [], 0
        held.append(piece)
        words += more
    if held:
        yield " ".join(held)


def _short(sentence: str) -> Iterator[str]:
    """Give a sentence, or runs of its words where it goes on for too long."""
    words = sentence.split()
    for start in range(0, len(words), CHUNK_WORDS_MAX):
        yield " ".join(words[start : start + CHUNK_WORDS_MAX])
