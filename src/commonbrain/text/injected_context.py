"""What we put before agents, taken out of what is offered again: a memory must not feed on itself.

A hook's text stands in a marked block, which is taken out whole; what a tool answered is known by
its own lines.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final, cast

from commonbrain.model import ids
from commonbrain.model.escaping import inert
from commonbrain.model.recall_result import HEADING

_ID: Final = rf"{ids.MEMORY}_[0-9A-HJKMNP-TV-Z]{{13}}"
_ITEM: Final = re.compile(rf"\s*\[\d{{1,3}}\] {_ID}(?: \||\s*$)")
_OMISSION: Final = re.compile(r"\s*\d{1,9} more left out; narrow the query or raise max_tokens\.")
_JSON: Final = re.compile(
    rf'\{{\s*(?:"notice"\s*:\s*"{re.escape(HEADING)}"|"items"\s*:\s*\[\s*\{{\s*"id"\s*:\s*"{_ID}")'
)

_MARK: Final = "commonbrain-memory"
_OPENS: Final = f"<{_MARK}>"
_CLOSES: Final = f"</{_MARK}>"
_SPOOFED: Final = re.compile(rf"<(?=\s{{0,9}}/?\s{{0,9}}{_MARK})", re.IGNORECASE)
"""A stored text that would open or close a block, and so pass for ours or for what is not ours."""
_BLOCK: Final = re.compile(
    rf"^[ \t>]*{_OPENS}[ \t]*$.*?(?:^[ \t>]*{_CLOSES}[ \t]*(?:\n|\Z)|\Z)",
    re.MULTILINE | re.DOTALL,
)
"""The marks stand on lines of their own; a block that was cut off goes on to the end."""


def injected_block(text: str) -> str:
    """Mark a text as ours, for whoever reads it and for us when we are offered it again."""
    return f"{_OPENS}\n{_SPOOFED.sub('(', inert(text)).strip()}\n{_CLOSES}"


def without_injected_context(text: str) -> str:
    """Leave out marked blocks, and what a recall wrote, as text or as JSON; the rest stays."""
    if _OPENS in text:
        text = _BLOCK.sub("", text)
    if f"{ids.MEMORY}_" not in text:
        return text
    return "\n".join(_outside(_without_json(text)))


def _outside(text: str) -> Iterator[str]:
    """Give the lines outside of blocks: a heading, items, their quoted lines, a count."""
    is_inside = False
    for line in text.split("\n"):
        opens = HEADING in line or _ITEM.match(line) is not None
        is_quoted = is_inside and line.lstrip().startswith(">")
        is_inside = opens or is_quoted
        if not is_inside and not _OMISSION.fullmatch(line):
            yield line


def _without_json(text: str) -> str:
    parts: list[str] = []
    done = 0
    while match := _JSON.search(text, done):
        end = _end_of_answer(text, match.start())
        if end is None:
            # Cut off or altered: reading on from every later brace would take the square of it.
            break
        parts.append(text[done : match.start()])
        done = end
    return "".join([*parts, text[done:]])


def _end_of_answer(text: str, start: int) -> int | None:
    try:
        value, end = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    answer = cast("dict[str, Any]", value)
    return end if {"items", "verdict", "trace_id"} <= answer.keys() else None
