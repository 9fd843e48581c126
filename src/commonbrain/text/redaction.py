"""What a screen found in a text, told without ever repeating it."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class OnSecret(StrEnum):
    """What becomes of a text that holds a secret."""

    REJECT = "reject"
    REDACT = "redact"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretMatch:
    """A stretch of a text that is a secret of some sort, or only looks like one."""

    sort: str
    """In words, such as "GitHub token"; never a part of the secret."""
    start: int
    end: int
    is_certain: bool = True
    """Whether it is kept out; what merely looks random is only warned of."""


def describe_place(text: str, position: int) -> str:
    """Say where a position of a text is, counted from one as editors do."""
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    return f"line {line}, column {column}"


def redacted(text: str, found: Iterable[SecretMatch]) -> str:
    """Put the sort in the place of every certain secret."""
    parts: list[str] = []
    done = 0
    for one in sorted(found, key=lambda one: one.start):
        if one.is_certain and one.end > done:
            parts += [text[done : max(one.start, done)], f"[redacted: {one.sort}]"]
            done = one.end
    return "".join([*parts, text[done:]])
