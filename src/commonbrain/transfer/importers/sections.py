"""Markdown as sections of blocks, and texts of one memory each; no word is lost."""

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from statistics import median
from typing import TYPE_CHECKING, Final

from commonbrain.model.limits import TEXT_BYTES_MAX
from commonbrain.text.private_parts import without_private
from commonbrain.text.quotations import block_tokens
from commonbrain.text.search_words import count_words

if TYPE_CHECKING:
    from markdown_it.token import Token


_LEVEL_MAX: Final = 4
"""Deeper headings stay in the text of their section."""
_HEADING_CHARS_MAX: Final = 120
"""A longer one is a paragraph that happens to be underlined; it stays in the text."""
_LINE_ENDS: Final = re.compile(r"\r\n?")
_YAML_LINE: Final = re.compile(r"\s*$|\s|#|-\s|[\w.-]+\s*:")
_CLOSING: Final = re.compile(r"(?:^|\s)#+\s*$")
"""The characters that may close a heading."""
_NOT_IN_LINKS: Final = re.compile(r"[^\w\- ]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Adjacent lines of one kind; `items` are those of a list, each with its nested lines."""

    text: str
    items: tuple[str, ...] = ()
    is_bulleted: bool = False
    is_item: bool = False
    is_paragraph: bool = False


@dataclass(slots=True, kw_only=True)
class Section:
    """A heading, the headings above it, and the blocks up to the next heading."""

    path: tuple[str, ...]
    level: int
    slug: str
    """The heading as an anchor in Markdown links, unique in its file."""
    blocks: list[Block] = field(default_factory=list[Block])
    is_leaf: bool = True
    line_end: int = 0


def sections(text: str) -> Iterator[tuple[Section, float]]:
    """Return the sections of a file in order, each with its end as a share of the file, 0..1."""
    lines = _lines(text)
    outline = [Section(path=(), level=0, slug="")]
    taken: set[str] = set()
    for token, start, end in _top_level(lines):
        heading = _heading(token, lines[start:end])
        if token is None or heading is None:
            outline[-1].blocks += _blocks(token, lines[start:end])
        else:
            words, lines_taken = heading
            outline.append(_open_section(words, int(token.tag[1]), above=outline, taken=taken))
            outline[-1].blocks += _plain_text(lines[start + lines_taken : end])
        outline[-1].line_end = end
    for section in outline:
        yield section, section.line_end / len(lines)


def _lines(text: str) -> list[str]:
    """Split a text into the parser's lines, with front matter blanked."""
    lines = _LINE_ENDS.sub("\n", text).split("\n")
    past = front_matter_lines(lines)
    return [""] * past + lines[past:]


def front_matter_lines(lines: Sequence[str]) -> int:
    """Count the lines of a leading block between `---` that looks like YAML, fences included."""
    if lines[0].rstrip() != "---":
        return 0
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() in {"---", "..."}:
            return number + 1
        if not _YAML_LINE.match(line):
            return 0
    return 0


def _top_level(lines: Sequence[str]) -> Iterator[tuple["Token | None", int, int]]:
    """Return the tokens that open a top-level block, each with the lines up to the next one.

    Text before the first block that the parser reports belongs to a block without a token.
    """
    tokens_shown = [(one, one.map[0]) for one in block_tokens(lines) if one.level == 0 and one.map]
    blocks = (
        tokens_shown if tokens_shown and tokens_shown[0][1] == 0 else [(None, 0), *tokens_shown]
    )
    ends = [start for _, start in blocks[1:]] + [len(lines)]
    for (token, start), end in zip(blocks, ends, strict=True):
        yield token, start, end


def _heading(token: "Token | None", lines: Sequence[str]) -> tuple[str, int] | None:
    """Return the words and lines of a heading that begins a section."""
    if token is None or token.type != "heading_open" or int(token.tag[1]) > _LEVEL_MAX:
        return None
    is_underlined = token.markup in {"=", "-"}
    line_count = token.map[1] - token.map[0] if token.map else 1
    if is_underlined:
        marked = " ".join(lines[: line_count - 1])
    else:
        marked = _CLOSING.sub("", lines[0].strip().lstrip("#"))
    words = " ".join(marked.split())
    return (words, line_count) if words and len(words) <= _HEADING_CHARS_MAX else None


def _open_section(
    heading: str, level: int, *, above: Sequence[Section], taken: set[str]
) -> Section:
    """Open a section under the nearest previous one of a lower level."""
    parent = next(section for section in reversed(above) if section.level < level)
    parent.is_leaf = False
    slug = _slug(heading, taken)
    return Section(path=(*parent.path, heading), level=level, slug=slug)


def _slug(heading: str, slugs: set[str]) -> str:
    """Return the anchor of a heading, numbered from the second of the same text on."""
    plain = _NOT_IN_LINKS.sub("", heading.lower()).strip().replace(" ", "-") or "section"
    numbered = (f"{plain}-{number}" if number else plain for number in count())
    slug = next(one for one in numbered if one not in slugs)
    slugs.add(slug)
    return slug


def _blocks(token: "Token | None", lines: Sequence[str]) -> list[Block]:
    """Make a block of the lines that belong to this token."""
    plain = _plain_text(lines)
    if token is None or token.type not in {"bullet_list_open", "ordered_list_open"}:
        is_paragraph = token is not None and token.type == "paragraph_open"
        return [replace(block, is_paragraph=is_paragraph) for block in plain]
    is_bulleted = token.type == "bullet_list_open"
    items = tuple(_items(lines))
    return [replace(block, items=items, is_bulleted=is_bulleted) for block in plain]


def _items(lines: Sequence[str]) -> Iterator[str]:
    """Split a list into its items, each with the lines up to the next one."""
    starts = [
        t.map[0]
        for t in block_tokens(lines)
        if t.type == "list_item_open" and t.level == 1 and t.map
    ]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield textwrap.dedent("\n".join(lines[start:end])).strip("\n").rstrip()


def _plain_text(lines: Sequence[str]) -> list[Block]:
    text = "\n".join(lines).strip("\n").rstrip()
    return [Block(text=text)] if text.strip() else []


STATEMENT_CHARS_MIN: Final = 20
"""A shorter text is a term, not a statement."""
_WORDS_MAX: Final = 300
"""Leaves a hundred of the gate's 400 words for the headings."""
_LEAD_WORDS_MAX: Final = 40
_CUT_BYTES: Final = TEXT_BYTES_MAX - 2048
"""Leaves room for four headings of 120 characters, at four bytes each."""
_RUN_CHARS: Final = _CUT_BYTES // 4
"""A character takes at most four bytes, so this many always fit."""
_RUN: Final = re.compile(rf".{{1,{_RUN_CHARS}}}(?!\S)|.{{1,{_RUN_CHARS}}}")
"""As much of a line as fits, up to the end of a word if there is one."""
_EMPTY_TEXT: Final = re.compile(r"[\s\-*_]*")
"""Empty lines and horizontal rules."""
_BULLET: Final = re.compile(r"\A\s*[-*+](?:[ \t]+|(?=\n)|\Z)")
_CONTINUATION: Final = re.compile(
    r"\W*(?:this|that|these|those|it|its|they|he|she|then|so|also|but|and|or|however|otherwise"
    r"|instead|therefore|thus|hence|because|for example|e\.g\.|i\.e\.|in that case)\b",
    re.IGNORECASE,
)
"""Words that begin a paragraph which refers to the one before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """The text of one memory; `lead` is the paragraph that introduces its list."""

    words: str
    lead: str = ""


def split_blocks(blocks: Sequence[Block]) -> Iterator[Text]:
    """Split the blocks of a section, in order; only bullets and horizontal rules are dropped."""
    waiting: list[Block] = []
    for block in blocks:
        lengths = [len(_strip_bullet(item)) for item in block.items if block.is_bulleted]
        if not lengths or median(lengths) < STATEMENT_CHARS_MIN:
            waiting.append(block)
            continue
        lead = waiting.pop().text if waiting and _is_lead(waiting[-1]) else ""
        yield from _pack_blocks(waiting)
        waiting.clear()
        for item in block.items:
            yield from (Text(words=part, lead=lead) for part in split_text(_strip_bullet(item)))
    yield from _pack_blocks(waiting)


def _is_lead(block: Block) -> bool:
    is_plain = not block.items and not block.text.startswith(("```", "~~~"))
    return is_plain and block.text.endswith(":") and count_words(block.text) <= _LEAD_WORDS_MAX


def _strip_bullet(item: str) -> str:
    """Remove the bullet of an item, and the same indentation from its other lines."""
    first, _, rest = _BULLET.sub("", item).partition("\n")
    return f"{first}\n{textwrap.dedent(rest)}".strip()


def _pack_blocks(blocks: Sequence[Block]) -> Iterator[Text]:
    """Join each paragraph that stands alone with what belongs to it, as long as that is short."""
    pending: list[Block] = []
    for unit in _split_long_lists(blocks):
        size = sum(count_words(one.text) for one in (*pending, unit))
        if pending and (size > _WORDS_MAX or _begins_text(unit, after=pending[-1])):
            yield from _joined(pending)
            pending.clear()
        pending.append(unit)
    yield from _joined(pending)


def _begins_text(block: Block, *, after: Block) -> bool:
    """Return whether a paragraph needs no other: neither the one before it, nor that one it."""
    are_paragraphs = block.is_paragraph and after.is_paragraph
    return (
        are_paragraphs
        and not after.text.endswith(":")
        and min(len(block.text), len(after.text)) >= STATEMENT_CHARS_MIN
        and not _CONTINUATION.match(block.text)
    )


def _split_long_lists(blocks: Sequence[Block]) -> Iterator[Block]:
    """Replace a list that is too long for one memory by its items."""
    for block in blocks:
        if block.items and count_words(block.text) > _WORDS_MAX:
            yield from (Block(text=item, is_item=True) for item in block.items)
        else:
            yield block


def _joined(blocks: Iterable[Block]) -> Iterator[Text]:
    text, was_item = "", False
    for block in blocks:
        gap = "\n" if block.is_item and was_item else "\n\n"
        text = f"{text}{gap}{block.text}" if text else block.text
        was_item = block.is_item
    return (Text(words=part) for part in split_text(text))


def split_text(text: str) -> Iterator[str]:
    """Split a text too long for one memory between lines, and too long a line between words."""
    pending: list[str] = []
    size = 0
    lines = (
        part
        for line in without_private(text).split("\n")
        for part in (_RUN.findall(line) if len(line) > _RUN_CHARS else [line])
    )
    for line in lines:
        bytes_more = len(line.encode("utf-8", "replace")) + 1
        if pending and size + bytes_more > _CUT_BYTES:
            yield "\n".join(pending)
            pending, size = [], 0
        pending.append(line)
        size += bytes_more
    if not _EMPTY_TEXT.fullmatch("".join(pending)):
        yield "\n".join(pending)
