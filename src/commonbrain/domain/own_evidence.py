"""What recall gave, taken out of what is offered again: a memory must not feed on itself."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final, cast

from commonbrain.domain import ids
from commonbrain.domain.recollection import HEADING

_ID: Final = rf"{ids.MEMORY}_[0-9A-HJKMNP-TV-Z]{{13}}"
_ITEM: Final = re.compile(rf"\s*\[\d{{1,3}}\] {_ID}(?: \||\s*$)")
_OMISSION: Final = re.compile(r"\s*\d{1,9} more left out; narrow the query or raise max_tokens\.")
_JSON: Final = re.compile(
    rf'\{{\s*(?:"notice"\s*:\s*"{re.escape(HEADING)}"|"items"\s*:\s*\[\s*\{{\s*"id"\s*:\s*"{_ID}")'
)


def without_own_evidence(text: str) -> str:
    """Leave out blocks that a recall wrote, as text or as JSON; the rest stays as it is."""
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
