"""A section cut into texts that each say one thing and fit a memory.

- A bulleted list of three or more statements gives one piece per bullet, since such a list is how
  people keep memories in a file; a paragraph before it that ends in a colon is said with each.
- Everything else stays together up to 300 words, and is cut between blocks beyond that, and between
  the items of a list that alone is longer. A paragraph or code block is never cut below 16 KiB.
- An ordered list is a procedure and a list of short terms an enumeration: both stay whole.
"""

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from commonbrain.domain.limits import TEXT_BYTES_MAX
from commonbrain.importers.sections import Block

STATEMENT_CHARS_MIN: Final = 20
"""Shorter than this is a term, not a statement."""
_STATEMENTS_MIN: Final = 3
_WORDS_MAX: Final = 300
"""Leaves a hundred of the gate's 400 words for the headings."""
_LEAD_WORDS_MAX: Final = 40
_CUT_BYTES: Final = TEXT_BYTES_MAX - 2048
"""Leaves room for four headings of 120 characters, at four bytes each."""
_RUN_CHARS: Final = _CUT_BYTES // 4
"""A character takes four bytes at most, so that so many always fit."""
_RUN: Final = re.compile(rf".{{1,{_RUN_CHARS}}}(?!\S)|.{{1,{_RUN_CHARS}}}")
"""As much of a line as fits, up to the end of a word if there is one."""
_NOTHING_SAID: Final = re.compile(r"[\s\-*_]*")
"""Empty lines, and rules drawn across the page."""
_BULLET: Final = re.compile(r"\s*[-*+][ \t]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """What becomes one memory; `lead` is the paragraph that introduces the list it is from."""

    words: str
    lead: str = ""


def pieces(blocks: Sequence[Block]) -> Iterator[Text]:
    """Cut the blocks of a section, in order; nothing is left out but bullets and drawn lines."""
    waiting: list[Block] = []
    for block in blocks:
        if not _is_statements(block):
            waiting.append(block)
            continue
        lead = waiting.pop().text if waiting and _is_lead(waiting[-1]) else ""
        yield from _packed(waiting)
        waiting.clear()
        for item in block.items:
            yield from (Text(words=part, lead=lead) for part in cut(_unmarked(item)))
    yield from _packed(waiting)


def _is_statements(block: Block) -> bool:
    if not block.is_bulleted or len(block.items) < _STATEMENTS_MIN:
        return False
    return median(len(_unmarked(item)) for item in block.items) >= STATEMENT_CHARS_MIN


def _is_lead(block: Block) -> bool:
    is_plain = not block.items and not block.text.startswith(("```", "~~~"))
    return is_plain and block.text.endswith(":") and _words(block.text) <= _LEAD_WORDS_MAX


def _unmarked(item: str) -> str:
    """Take the bullet off an item, and as much indentation off the lines that belong to it."""
    first, _, rest = _BULLET.sub("", item, count=1).partition("\n")
    return f"{first}\n{textwrap.dedent(rest)}".strip()


def _packed(blocks: Sequence[Block]) -> Iterator[Text]:
    """Join neighbours as long as they are short enough together."""
    held: list[Block] = []
    for unit in _units(blocks):
        if held and sum(_words(one.text) for one in held) + _words(unit.text) > _WORDS_MAX:
            yield from map(_text, cut(_joined(held)))
            held.clear()
        held.append(unit)
    yield from map(_text, cut(_joined(held)))


def _units(blocks: Sequence[Block]) -> Iterator[Block]:
    """Give the blocks, with the items in place of a list that is too long to keep whole."""
    for block in blocks:
        if block.items and _words(block.text) > _WORDS_MAX:
            yield from (Block(text=item, is_item=True) for item in block.items)
        else:
            yield block


def _joined(blocks: Iterable[Block]) -> str:
    text, was_item = "", False
    for block in blocks:
        gap = "\n" if block.is_item and was_item else "\n\n"
        text = f"{text}{gap}{block.text}" if text else block.text
        was_item = block.is_item
    return text


def _text(words: str) -> Text:
    return Text(words=words)


def cut(text: str) -> Iterator[str]:
    """Cut a text that no memory can hold between its lines, and a line that long between words."""
    held: list[str] = []
    size = 0
    for line in _short_lines(text):
        bytes_more = len(line.encode("utf-8", "replace")) + 1
        if held and size + bytes_more > _CUT_BYTES:
            yield "\n".join(held)
            held, size = [], 0
        held.append(line)
        size += bytes_more
    if not _NOTHING_SAID.fullmatch("".join(held)):
        yield "\n".join(held)


def _short_lines(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        yield from _RUN.findall(line) if len(line) > _RUN_CHARS else [line]


def _words(text: str) -> int:
    return len(text.split())
