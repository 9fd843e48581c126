"""Cited code in the text of a file: what stands there, and where it is after an edit.

Tokens are compared, so that spacing, line breaks, quotes and the commas and semicolons that
formatters add make no difference. A definition is found by its name: in Python by its syntax tree,
elsewhere by the form of its line, and ends with its block.
"""

import ast
import re
import sys
import warnings
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from hashlib import blake2b
from itertools import islice
from typing import Final
from zlib import crc32

from commonbrain.model.citations import LINES_MAX, CodePlace, Fingerprint
from commonbrain.model.values import dataclass
from commonbrain.text.patterns import lazy_pattern

_TOKEN: Final = lazy_pattern(
    r"\"(?:[^\"\\\n]|\\.){0,80}\"|'(?:[^'\\\n]|\\.){0,80}'|`(?:[^`\\\n]|\\.){0,80}`|\w+|[^\w\s]"
)
"""A longer text in quotes is read by its words: a quote without an end must not cost the rest."""
_FIRST: Final = lazy_pattern(r"\s*(\w+|[^\w\s])")
_FIRST_WORD: Final = lazy_pattern(r"\w")
_CLOSING: Final = frozenset(")]}")
_OPENING: Final = frozenset("([{")
_BAG_MAX: Final = 64
"""Different tokens that are noted; the size of a function of twenty lines."""
_BAG_BITS: Final = 0xFFFF
_SIMILAR_AT: Final = 0.6
"""Share of the tokens from which code that stands elsewhere is the same code, changed."""
_SIMILAR_IN_PLACE_AT: Final = 0.3
"""The same between lines that have not changed."""
DISTINCT_FROM: Final = 6
"""Tokens from which code is taken for the same wherever it is; `return None` is everywhere."""
_DEFINITIONS_MAX: Final = 20
"""Places that one name is looked for at as a definition."""
_LINES_READ_MAX: Final = 30_000
"""Lines of a file; more are made by a program."""
_STARTS_MAX: Final = 500
"""Lines that are compared as a possible beginning."""
_COMPARED_MAX: Final = 5_000
"""Lines that are compared with cited code in one file."""
_LINE_CHARS_MAX: Final = 1_000
"""Of a line that is compared; longer ones are made by a program."""
_KEYWORDS: Final = frozenset(
    "class const def enum fn func function interface let module record static struct trait type val"
    " var".split()
)
_NO_DECLARATION: Final = frozenset(
    "assert await case delete else go goto if in import new not or package raise return throw"
    " typeof use using while with yield".split()
)
_DECLARED: Final = lazy_pattern(r"[\w<>\[\],.?&:*@()$\"'=/~!|+ \t-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Lines of a file, from 1."""

    line: int
    lines: int


class SourceText:
    """The text of a file by lines; what is computed from it is computed once."""

    def __init__(self, text: str, *, is_python: bool) -> None:
        """Read a text."""
        self.text = text
        self.is_python = is_python

    @cached_property
    def lines(self) -> list[str]:
        """The first lines, without their ends."""
        return self.text.split("\n", _LINES_READ_MAX)[:_LINES_READ_MAX]

    @cached_property
    def heads(self) -> list[int | None]:
        """The hash of the first word or sign of each line; None for one without."""
        return [_head(line) for line in self.lines]

    @cached_property
    def marks(self) -> list[int | None]:
        """The hash of each line; None for one that has no word, such as a bracket."""
        return [_mark(line) for line in self.lines]

    @cached_property
    def starts(self) -> list[int]:
        """The offset of each line."""
        starts = [0]
        for line in self.lines:
            starts.append(starts[-1] + len(line) + 1)
        return starts

    def cut(self, region: Region) -> str:
        """Return the text of a region."""
        lines = self.lines[region.line - 1 : region.line - 1 + region.lines]
        return "\n".join(one[:_LINE_CHARS_MAX] for one in lines)

    def region_of(self, place: CodePlace) -> Region | None:
        """Return the lines of a place; None if the text does not have them."""
        if place.symbol is not None:
            return next(self.definitions(place.symbol), None)
        line = place.line or 0
        lines = (place.end or line) - line + 1
        return Region(line=line, lines=lines) if line + lines - 1 <= len(self.lines) else None

    def definitions(self, symbol: str) -> Iterator[Region]:
        """Find the definitions of a symbol, such as `charge` or `Cart.add`."""
        *outer, name = symbol.split(".")
        within = list(self._definitions(outer[-1])) if outer else []
        for region in self._definitions(name):
            # A method of Go or Rust stands outside of its type.
            if not within or any(_encloses(one, region) for one in within):
                yield region

    def _definitions(self, name: str) -> Iterator[Region]:
        if name not in self.text:
            return
        if self.is_python and not re.search(
            rf"(?:def|class)[ \t]+{re.escape(name)}\b|^[ \t]*{re.escape(name)}[ \t]*[:=]",
            self.text,
            re.MULTILINE,
        ):
            return
        if self.is_python and (tree := _parse(self.text)) is not None:
            yield from islice(_defined_in(tree, name), _DEFINITIONS_MAX)
            return
        yield from islice(self._declared(name), _DEFINITIONS_MAX)

    def _declared(self, name: str) -> Iterator[Region]:
        """Find definitions by the form of their line."""
        match = re.finditer(rf"(?<![\w$]){re.escape(name)}(?![\w$])", self.text)
        for occurrence in islice(match, _STARTS_MAX):
            line = bisect_right(self.starts, occurrence.start())
            if line > len(self.lines):
                return
            if self._is_definition(occurrence.start(), occurrence.end()):
                yield Region(line=line, lines=self._block(line))

    def _is_definition(self, start: int, end: int) -> bool:
        """Return whether a name is declared where it stands, by what is before and after it."""
        begin = self.text.rfind("\n", 0, start) + 1
        before = self.text[max(begin, start - 200) : start]
        words = re.findall(r"\w+", before)
        after = self.text[end : end + 400].lstrip(" \t")
        if words and words[-1] in _KEYWORDS:
            return True
        if not _DECLARED.fullmatch(before) or not _NO_DECLARATION.isdisjoint(words):
            return False
        if before.strip().startswith("func (") and after.startswith("("):
            return True
        if "(" in before or "=" in before:
            return False
        if after.startswith(("(", "<")):
            # A call ends with the line; a declaration goes on with its block.
            return before.strip()[-1:] != "." and "{" in after.split(";", 1)[0].split("\n\n", 1)[0]
        is_assigned = re.match(r"(?::[^=\n]{0,120})?=(?![=>])", after) is not None
        return is_assigned and (bool(words) or not before)

    def _block(self, line: int) -> int:
        """Return how many lines a definition takes, from its own one."""
        depth, has_block = 0, False
        own = _indent(self.lines[line - 1])
        for count, text in enumerate(islice(self.lines, line - 1, line - 1 + LINES_MAX), 1):
            for sign in _TOKEN.findall(_without_comment(text[:_LINE_CHARS_MAX])):
                has_block = has_block or (sign == "{" and depth == 0)
                depth += (sign in _OPENING) - (sign in _CLOSING)
                if depth == 0 and (sign == ";" or (has_block and sign == "}")):
                    return count
            if depth <= 0 and not self._goes_on(line + count, own=own):
                return count
        return LINES_MAX

    def _goes_on(self, line: int, *, own: int) -> bool:
        """Return whether a line continues a definition that is not in brackets."""
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        return bool(text.strip()) and (_indent(text) > own or text.lstrip().startswith("{"))

    def fingerprint(self, region: Region) -> Fingerprint | None:
        """Describe the code of a region; None if it has no word."""
        tokens = tokens_of(self.cut(region))
        head = next(filter(None, self.heads[region.line - 1 : region.line - 1 + region.lines]), 0)
        if not any(map(_is_word, tokens)):
            return None
        return Fingerprint(
            line=region.line,
            lines=region.lines,
            raw=_raw(self.cut(region)),
            digest=_digest(tokens),
            tokens=len(tokens),
            head=head,
            bag=_bag(tokens),
            before=self._neighbour(range(region.line - 2, -1, -1)),
            after=self._neighbour(range(region.line - 1 + region.lines, len(self.lines))),
        )

    def _neighbour(self, places: range) -> int | None:
        return next((mark for at in places if (mark := _mark(self.lines[at])) is not None), None)

    def has_at(self, seen: Fingerprint, line: int, *, lines: int | None = None) -> bool:
        """Return whether the code stands at a line, by default over any number of lines."""
        if lines is not None:
            if _raw(self.cut(Region(line=line, lines=lines))) == seen.raw:
                return True
            tokens = tokens_of(self.cut(Region(line=line, lines=lines)))
            return len(tokens) == seen.tokens and _digest(tokens) == seen.digest
        # More lines than code takes that was wrapped.
        part = self.cut(Region(line=line, lines=4 * seen.lines + 16))
        tokens, end = _scan(part, count=seen.tokens)
        # What follows on its last line would belong to it.
        rest = part[end:].split("\n", 1)[0].strip(" \t,;")
        return not rest and len(tokens) == seen.tokens and _digest(tokens) == seen.digest

    def find(self, seen: Fingerprint, *, distinct_from: int = DISTINCT_FROM) -> int | None:
        """Return the line at which the code stands unchanged; None if it does not.

        Code of fewer tokens than `distinct_from` counts only at its place, or next to a line
        that was next to it.
        """
        places = (at for at, head in enumerate(self.heads, 1) if head == seen.head)
        same = [at for at in islice(places, _starts_for(seen)) if self.has_at(seen, at)]
        if seen.tokens < distinct_from:
            same = [at for at in same if at == seen.line or self._agreement(seen, at)]
        return max(
            same,
            key=lambda at: (self._agreement(seen, at), -abs(at - seen.line)),
            default=None,
        )

    def _agreement(self, seen: Fingerprint, line: int) -> int:
        """Return how many of the neighbours are those of then."""
        before = self._neighbour(range(line - 2, -1, -1))
        after = self._neighbour(range(line - 1 + seen.lines, len(self.lines)))
        return (before == seen.before) + (after == seen.after)

    def find_changed(self, seen: Fingerprint) -> int | None:
        """Return the line at which the code stands in another form; None if it does not.

        Either something like it stands between the lines that were around it, or most of its
        tokens stand together elsewhere.
        """
        if (between := self._between(seen)) is not None:
            first, last = between
            part = tokens_of(self.cut(Region(line=first, lines=last - first)))
            if _coverage(seen, part) >= _SIMILAR_IN_PLACE_AT:
                return next(
                    (at for at in range(first, last) if self.marks[at - 1] is not None), None
                )
        return self.most_similar(
            seen, (at for at, head in enumerate(self.heads, 1) if head == seen.head)
        )

    def most_similar(self, seen: Fingerprint, places: Iterator[int]) -> int | None:
        """Return the first of some lines at which code like it begins."""
        for at in islice(places, _starts_for(seen)):
            part = tokens_of(self.cut(Region(line=at, lines=seen.lines)))
            if similarity(seen, part) >= _SIMILAR_AT:
                return at
        return None

    def _between(self, seen: Fingerprint) -> tuple[int, int] | None:
        """Return the lines between the two that were around the code, nearest to its place."""
        # Above the first line is the beginning of the file, below the last one its end.
        end = len(self.lines) + 1
        starts = [at for at, mark in enumerate(self.marks, 1) if mark == seen.before]
        starts = [0] if seen.before is None else starts
        pairs: list[tuple[int, int]] = []
        for before in starts[:_DEFINITIONS_MAX]:
            following = range(before + 1, min(before + 1 + LINES_MAX, end))
            after = next((at for at in following if self.marks[at - 1] == seen.after), None)
            if seen.after is None:
                after = end if end <= before + LINES_MAX else None
            if after is not None:
                pairs.append((before + 1, after))
        return min(pairs, key=lambda pair: abs(pair[0] - seen.line), default=None)


def _starts_for(seen: Fingerprint) -> int:
    """Return how many places may be compared with code of its size."""
    return min(_STARTS_MAX, max(1, _COMPARED_MAX // seen.lines))


def tokens_of(text: str) -> list[str]:
    """Return the tokens that formatters leave alone."""
    tokens, _ = _scan(text)
    return tokens[:-1] if tokens[-1:] == [","] else tokens


def _scan(text: str, *, count: int = sys.maxsize) -> tuple[list[str], int]:
    """Return the first tokens, and where the last of them ends."""
    tokens: list[str] = []
    end = 0
    for match in _TOKEN.finditer(text):
        part = match.group()
        if part == ";":
            continue
        if part in _CLOSING and tokens and tokens[-1] == ",":
            tokens.pop()
        if len(tokens) == count:
            break
        tokens.append(f'"{part[1:-1]}"' if part[0] == "'" and len(part) > 1 else part)
        end = match.end()
    return tokens, end


def similarity(seen: Fingerprint, tokens: Sequence[str]) -> float:
    """Return the share of tokens that code has in common with what was noted, 0..1."""
    ours, theirs = set(seen.bag), set(_bag(tokens))
    return len(ours & theirs) / max(1, len(ours | theirs))


def _coverage(seen: Fingerprint, tokens: Sequence[str]) -> float:
    ours = set(seen.bag)
    return len(ours.intersection(map(_short, tokens))) / max(1, len(ours))


def _bag(tokens: Sequence[str]) -> tuple[int, ...]:
    return tuple(islice(dict.fromkeys(map(_short, tokens)), _BAG_MAX))


def _short(token: str) -> int:
    return crc32(token.encode("utf-8", "replace")) & _BAG_BITS


def _raw(text: str) -> str:
    return blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest()


def _digest(tokens: Sequence[str]) -> str:
    return blake2b("\0".join(tokens).encode("utf-8", "replace"), digest_size=12).hexdigest()


def _head(line: str) -> int | None:
    match = _FIRST.match(line)
    return None if match is None else crc32(match[1].encode("utf-8", "replace"))


def _mark(line: str) -> int | None:
    """Return a hash of a line without its blanks, which costs less than to read its tokens."""
    if _FIRST_WORD.search(line) is None:
        return None
    return crc32("".join(line.split()).rstrip(",;").encode("utf-8", "replace"))


def _is_word(token: str) -> bool:
    return token[0].isalnum() or token[0] in "_\"'`"


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _without_comment(line: str) -> str:
    return line.split("//", 1)[0] if "://" not in line else line


def _encloses(outer: Region, inner: Region) -> bool:
    return outer.line <= inner.line and inner.line + inner.lines <= outer.line + outer.lines


_CITED: Final = "<cited code>"
# What a cited file does wrong is nothing to tell a user of the memory.
warnings.filterwarnings("ignore", category=SyntaxWarning, module=re.escape(_CITED))


def _parse(text: str) -> ast.Module | None:
    try:
        return ast.parse(text, _CITED)
    # The parser recurses, and refuses what it does not know.
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _defined_in(tree: ast.Module, name: str) -> Iterator[Region]:
    """Find functions, classes, and constants outside of functions."""
    outer = [tree, *(one for one in ast.walk(tree) if isinstance(one, ast.ClassDef))]
    lasting = {id(one) for scope in outer for one in scope.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and id(node) not in lasting:
            continue
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names = [node.name]
            case ast.Assign():
                names = [one.id for one in node.targets if isinstance(one, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=target)):
                names = [target]
            case _:
                continue
        if name in names:
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            yield Region(line=node.lineno, lines=min(lines, LINES_MAX))
