"""Quotations: what a text only quotes, which nothing that captures takes for its author's words.

Quoted is what Markdown shows as a quotation, as code or in a table; what stands in quotation marks
or in an element; what follows "The README says:", to the end of its block; and what looks like
lines of a program, a log, a chat, a patch or an email.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from commonbrain.model.kinds import ALIASES, Kind
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.segmentation import GAP

if TYPE_CHECKING:
    from markdown_it.token import Token

Span: TypeAlias = tuple[int, int]
"""Start and end of a part of a text, in characters."""

_FILE_NAME: Final = r"[^\w\n]*+[\w./-]+\.[A-Za-z]\w{0,4}[^\w\n]*+"
"""A line that is nothing but the name of a file: what follows is of it."""
_SIGNS: Final = lazy_pattern(
    r"(?m)^[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*>|\||<[A-Za-z!]|```|~~~| {4}|\t|[:\uff1a][*_ ]*$"
    rf"|^{_FILE_NAME}$"
)
"""What a text has somewhere if Markdown shows a part of it as quoted, or a line introduces one."""
_QUOTING: Final = frozenset({"blockquote_open", "fence", "code_block", "table_open"})
_ROW: Final = lazy_pattern(r"\s*\|.*\|\s*")
_MARKERS: Final = lazy_pattern(r"[ \t]*(?:(?:>|[-*+]|\d{1,9}[.)])[ \t]+)*")
_CODE_INDENT: Final = 4
_PLACEHOLDER: Final = "X"
_INLINE: Final = lazy_pattern(
    r"`++[^`]++`++"
    r'|(?<![\w"])"(?=\S)[^"]*+(?:"|\Z)'
    r"|“[^”]*+(?:”|\Z)|„[^“”]*+(?:[“”]|\Z)|«[^»]*+(?:»|\Z)|»[^«»]*+«"
    r"|「[^」]*+(?:」|\Z)|『[^』]*+(?:』|\Z)"
    r"|(?<![\w'])'(?=[^\s'])(?:[^']|'(?=\w)){1,500}'(?!\w)"
    r"|‘(?:[^‘’]|’(?=\w)){1,500}’(?!\w)"  # noqa: RUF001 as typed
)
"""A span of code or in quotation marks; one without an end goes on to the end of its paragraph."""
_PARAGRAPH_END: Final = lazy_pattern(r"\n(?=[ \t]*(?:\n|(?:[-*+]|\d{1,9}[.)])[ \t]))")
_ELEMENT: Final = lazy_pattern(
    r"<!--|-->|<(?P<end>/?)(?!(?:summary|analysis)>)(?P<name>[A-Za-z][\w:-]{0,40})\b[^<>]{0,200}>"
)
"""The marks of comments, and of elements except those around a summary of a conversation."""
_OUTPUT: Final = lazy_pattern(
    r"(?:[$%\u276f\u279c]|[\w.-]+@[\w.-]+:\S*[$#%]|>>>|PS [A-Z]:\S*>) \S|# [a-z]+ [-/~.]+\w|@@ .*@@"
    r"|\[\^[^\]]+\]:|\S+(?: \S+)? {1,3}(?:\[?|\((?:\w+,? )?)\d{1,2}:\d\d(?: ?[AP]M)?[\])]?$"
    r"|[\w-]+: [|>][-+]?$"
)
"""A command, the head of a hunk, chat message or block, or a note: its paragraph is quoted."""
_RECORD: Final = lazy_pattern(
    r"\W{0,2}(?:\d{4}-\d\d-\d\d|\d{1,2}:\d\d\S* \S+:|[A-Z][a-z]{2} +\d{1,2} \d\d:)"
    r"|\^?[0-9a-f]{7,40} \(|\S+:\d+:|//|/\*|--[ ]@|;"
)
"""A line of a log, a chat, a blame or a search, or a comment of a program."""
_LABELLED: Final = lazy_pattern(r"<?(?P<label>[^\W\d_][\w-]*)>?: ")
_ADDRESS: Final = lazy_pattern(r"\S@\S+\.\w")
_FORWARDED: Final = lazy_pattern(r"-{3,} ?[^\W\d_].*-{3,}")
_DOCSTRING: Final = lazy_pattern(
    r"[ \t]*(?:\w+ = )?(?:\w{0,2}|\[|#\+begin)"
    r"(?P<mark>\"{3}|'{3}|:{3}|(?<=\[)(?:quote|code)\]|(?<=begin)_\w+)"
)
_TITLE: Final = lazy_pattern(_FILE_NAME)
_UNREAD: Final = lazy_pattern(r"[^\W\d_a-zA-Z\u00c0-\u024f]")
"""A letter of a script whose verbs of speech are not known."""
_HEADERS_MIN: Final = 3
_PROSE: Final = lazy_pattern(
    r"(?:[^\w/=<>&%;{}|\\\[:#$\u2026\u203a\u2190-\u21ff\u2500-\u259f\uff1e]|\[[ xX]\])*"
    r"(?:[^\W\d_].*(?:[,:)]|\b(?:so|and|then|but))"
    r"|(?=.*\w).*(?:[.!?]|[^\x00-\x7f\u203a\u2190-\u21ff\u2500-\u259f]))?"
)
"""What may be before a tag in its line: signs, a sentence, or the first clause of one."""
_SPEAKER: Final = lazy_pattern(r"\W*(?P<name>[^\W\d_][\w.-]*(?: [A-Z][\w.-]*)?)\W*:")
_NOTED: Final = frozenset({*ALIASES, *Kind})
"""What a text calls itself before a colon; another name there is that of a speaker."""
_MATERIAL: Final = (
    r"(?:(?i:read ?me|docs?|documentation|page|(?:web)?site|wiki|output|logs?|tickets?|issue"
    r"|comment|e?mail|manual|guide|article|post|file|excerpt|snippet|transcript)\b"
    r"|\w\.(?:md|txt|rst|html?|log)\b|`[^`]+`|https?://\S+)"
)
_SPEECH: Final = lazy_pattern(
    r"\b(?i:according to)\b|(?P<own>\b[Ii](?:'ve)? |\b[Ww]e(?:'ve)? )?"
    r"(?:\b(?:says|said|saying|states|stated|stating|reads|reading|writes|wrote|tells|told|telling"
    r"|claims|claimed|recommends|suggests|instructs|instructed|asks|asked|asking|replies|replied"
    r"|answers|answered|responds|responded|comments|commented|quotes|quoted|prints|printed|returned"
    r"|contains|contained|containing|warns|warned|demands|insists)\b"
    r"|\b(?:\w+s|they) (?:say|state|tell|read|recommend|suggest|instruct|ask|contain|warn)\b"
    r"|\b(?:sagt|schreibt|steht|lautet|empfiehlt|dit|écrit|indique|recommande|dice|pone|escribe|indica"
    r"|recomienda|contiene|contient|enthält|scrive|diz|escreve|zegt|schrijft|napisano|pisze)\b)"
)
"""A verb of what another says; of the author alone if "I" or "we" is before it."""
_POINTING: Final = lazy_pattern(
    rf"\b(?:found|find|saw|see|got|received|noticed|copied|pasted|shows|showed|has"
    rf"|had|lists|includes|goes)\b.*{_MATERIAL}|{_MATERIAL}.*\b(?:shows|showed|has|had|lists|includes"
    r"|goes)\b|\b(?i:output|excerpt|snippet|quotation|stdout|stderr|contents|transcript|verbatim)"
    r"(?: (?:of|from|in|for|by) .*)?$|\b(?i:logs? (?:of|from)) "
)
"""What introduces quoted material before a colon: "I found this in README.md", "Output of ls"."""


_SENTENCE_END: Final = lazy_pattern(r"[.!?][\"'”’)]*(?:\s|$)")  # noqa: RUF001 as typed
_CLAUSE_END: Final = lazy_pattern(r"[,;\u2013\u2014]")
_OWN: Final = lazy_pattern(r"\s*(?:(?:so|and|but|then) )?(?:I|we)\b")
"""How a last clause begins that is the author's own: "..., so I made it a rule:"."""
_ACCORDING: Final = "according to"
_LEAD_CHARS: Final = 300
_EMPHASIS: Final = "*_ \t"


def without_quotations(text: str) -> str:
    """Return the text without its quoted blocks; "[...]" follows the words that introduced one."""

    def omission(start: int, _: int) -> str:
        return f" {GAP}" if start and text[start - 1] != "\n" else ""

    return _replaced(text, _quoted_blocks(text), by=omission)


def without_quoted_words(text: str) -> str:
    """Return the text with a placeholder for what it quotes, to judge what its author says."""
    return _replaced(text, quoted_spans(text), by=lambda _start, _end: _PLACEHOLDER)


def quoted_spans(text: str) -> list[Span]:
    """Return the parts of a text that it quotes, in blocks or within sentences, in order."""
    blocks = _quoted_blocks(text)
    # Quoted blocks end a paragraph; every place stays where it is.
    plain = _replaced(text, blocks, by=lambda start, end: "\n".center(end - start)[: end - start])
    ends = [match.start() for match in _PARAGRAPH_END.finditer(plain)]
    inline = [
        match.span()
        for start, end in pairwise([0, *ends, len(plain)])
        for match in _INLINE.finditer(plain, start, end)
    ]
    return _merged([*blocks, *inline, *_elements(text)])


def is_quoted(text: str, at: int, *, spans: Sequence[Span]) -> bool:
    """Return whether a place is in a quoted part, in a cell, or after words that introduce one."""
    before = bisect_right(spans, (at, len(text)))
    if before and at < spans[before - 1][1]:
        return True
    lead = text[max(text.rfind("\n", 0, at) + 1, at - _LEAD_CHARS) : at].rstrip(_EMPHASIS)
    return lead.endswith("|") or _introduces(lead)


def begins_statement(text: str, at: int) -> bool:
    """Return whether a place begins a line, or is after words that its author may have written."""
    lead = text[max(text.rfind("\n", 0, at) + 1, at - _LEAD_CHARS) : at].rstrip(_EMPHASIS)
    speaker = _SPEAKER.fullmatch(lead)
    is_other = speaker is not None and speaker["name"].casefold() not in _NOTED
    return not is_other and _PROSE.fullmatch(lead[len(_markers(lead)) :]) is not None


def first_indent(text: str) -> str:
    """Return the blanks before the first word of a text if they make its line a line of code."""
    blanks = text[: len(text) - len(text.lstrip())].rpartition("\n")[2].expandtabs(_CODE_INDENT)
    return blanks if len(blanks) >= _CODE_INDENT else ""


def block_tokens(lines: Sequence[str]) -> Sequence[Token]:
    """Parse lines of Markdown; the parser is imported here, as most commands start without it."""
    parser: Any = import_module("markdown_it").MarkdownIt("commonmark")
    parser.core.ruler.disable(["inline"])
    # A carriage return would end a line of the parser alone.
    return parser.enable("table").parse("\n".join(lines).replace("\r", " "))


def _quoted_blocks(text: str) -> list[Span]:
    lines = text.split("\n")
    quoted, introduced = _read_blocks(lines) if _SIGNS.search(text) else (set[int](), [])
    plain = (_PLACEHOLDER if at in quoted else line for at, line in enumerate(lines))
    quoted |= _material([*plain])
    starts = [*accumulate((len(line) + 1 for line in lines), initial=0)]
    blocks = [(starts[at], starts[at + 1] - 1) for at in sorted(quoted)]
    after = [(starts[lead + 1] - 1, starts[end] - 1) for lead, end in introduced]
    elements = [one for one in _elements(text) if "\n" in text[slice(*one)]]
    return _merged([*blocks, *after, *elements])


def _read_blocks(lines: Sequence[str]) -> tuple[set[int], list[Span]]:
    """Return the numbers of quoted lines, and each line that introduces others, up to their end."""
    quoted: set[int] = set()
    introduced: list[Span] = []
    tokens = block_tokens(lines)
    for place, token in enumerate(tokens):
        if token.map is None:
            continue
        start, end = token.map
        if token.type in _QUOTING:
            is_lazy = token.type == "blockquote_open"
            quoted.update(
                at
                for at in range(start, end)
                if not (is_lazy and _replies(lines[at]) and ">" in _markers(lines[at - 1]))
            )
        elif token.type == "inline":
            quoted.update(start + at for at in _set_off(lines[start:end]))
            leads = (at for at in range(start, end) if _introduces_block(lines[at]))
            lead = next(leads, None)
            below = tokens[place + 2 : place + 3]
            if lead is not None and lead + 1 < end:
                introduced.append((lead, end))
            elif lead is not None and below and below[0].map and below[0].level == token.level - 1:
                introduced.append((lead, below[0].map[1]))
    return quoted, introduced


def _set_off(lines: Sequence[str]) -> Iterator[int]:
    """Yield the lines of a paragraph that look like rows of a table or, indented, like code."""
    column = len(_markers(lines[0]).expandtabs(_CODE_INDENT))
    was_code, before = False, ""
    for at, line in enumerate(one.expandtabs(_CODE_INDENT) for one in lines):
        words = line.lstrip()
        is_deep = at > 0 and len(line) - len(words) - column >= _CODE_INDENT
        is_below = before.rstrip(_EMPHASIS).endswith(":") and not _markers(words)
        was_code = is_deep and (was_code or is_below or words.startswith("@"))
        before = line
        if was_code or _ROW.fullmatch(line):
            yield at


def _material(lines: Sequence[str]) -> set[int]:
    """Return the numbers of lines that look like those of a program, a log, a chat or an email."""
    quoted = _docstrings(lines)
    ends = [at for at, line in enumerate(lines) if not line]
    for start, end in pairwise([-1, *ends, len(lines)]):
        place = range(start + 1, end)
        if _begins_email([lines[at] for at in place]):
            return quoted | {*range(start + 1, len(lines))}
        output = next((at for at in place if _OUTPUT.match(lines[at])), end)
        quoted.update(range(output, end))
        quoted.update(at for at in place if _RECORD.match(lines[at]))
        labels = {at: match["label"] for at in place if (match := _LABELLED.match(lines[at]))}
        quoted.update(labels if len({*labels.values()}) < len(labels) else ())
        headings = [at for at in place if lines[at].startswith("# ")]
        quoted.update(headings if len(headings) > 1 else ())
        patch = [at for at in place if lines[at].startswith(("+", "-"))]
        quoted.update(patch if len({lines[at][0] for at in patch}) > 1 else ())
    return quoted


def _begins_email(lines: Sequence[str]) -> bool:
    """Return whether a paragraph is the head of an email; its text goes on to the end."""
    headers = [line for line in lines if _LABELLED.match(line)]
    is_long = len(headers) >= _HEADERS_MIN or any(one.startswith("From: ") for one in headers)
    is_head = is_long and any(_ADDRESS.search(one) for one in headers)
    return is_head or any(_FORWARDED.fullmatch(line) for line in lines)


def _docstrings(lines: Sequence[str]) -> set[int]:
    """Return the lines of strings over several lines; one without an end goes on to the end."""
    quoted: set[int] = set()
    mark = ""
    for at, line in enumerate(lines):
        opening = "" if mark else (match["mark"] if (match := _DOCSTRING.match(line)) else "")
        if mark or opening:
            quoted.add(at)
        marks = line.count(mark or opening) if mark or opening else 0
        if marks % 2:
            mark = "" if mark else opening
    return quoted


def _replies(line: str) -> bool:
    """Return whether a line below a quotation is none, though it only continues it in Markdown."""
    markers = _markers(line)
    return ">" not in markers and line[len(markers) :].startswith("@")


def _markers(line: str) -> str:
    """Return the blanks and signs of lists and quotations that open a line."""
    match = _MARKERS.match(line)
    return match[0] if match else ""


def _introduces_block(line: str) -> bool:
    bare = line.rstrip(_EMPHASIS)[-_LEAD_CHARS:]
    if bare.endswith((":", "\uff1a")):
        return _UNREAD.search(bare) is not None or _introduces(bare)
    return _TITLE.fullmatch(bare) is not None


def _introduces(lead: str) -> bool:
    """Return whether words before a colon, or before a tag, say that another's words follow."""
    sentence = _SENTENCE_END.split(lead)[-1].strip(_EMPHASIS)
    has_colon = sentence.endswith(":")
    clause = _CLAUSE_END.split(sentence)[-1]
    is_whole = sentence.lower().startswith(_ACCORDING) or (has_colon and not _OWN.match(clause))
    words = (sentence if is_whole else clause).rstrip(":")
    is_speech = any(not match["own"] for match in _SPEECH.finditer(words))
    return is_speech or (has_colon and _POINTING.search(words) is not None)


def _elements(text: str) -> Iterator[Span]:
    """Yield the outermost elements that quote, in one pass; one without an end quotes nothing."""
    ends: defaultdict[str | None, list[int]] = defaultdict(list)
    openings: list[re.Match[str]] = []
    for tag in _ELEMENT.finditer(text):
        if tag["end"] or tag[0] == "-->":
            ends[tag["name"]].append(tag.end())
        else:
            openings.append(tag)
    done = 0
    for tag in openings:
        closings = ends[tag["name"]]
        closing = bisect_right(closings, tag.end())
        if tag.start() >= done and closing < len(closings):
            done = closings[closing]
            yield tag.start(), done


def _replaced(text: str, spans: Sequence[Span], *, by: Callable[[int, int], str]) -> str:
    parts: list[str] = []
    done = 0
    for start, end in spans:
        parts += (text[done:start], by(start, end))
        done = end
    return "".join([*parts, text[done:]])


def _merged(spans: Sequence[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged
