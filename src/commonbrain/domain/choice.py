"""Reading a word from outside as a member of a closed set."""

import re
from enum import StrEnum
from typing import TypeVar

from commonbrain.domain.errors import Invalid

_Set = TypeVar("_Set", bound=StrEnum)


def one_of(choices: type[_Set], given: str) -> _Set:
    """Give the member of that name, or say which there are.

    Raises:
        Invalid: there is none of that name.

    """
    try:
        return choices(given.strip())
    except ValueError:
        raise Invalid(
            f"{given[:40]!r} is not a {_spoken(choices)}.",
            hint=f"Choose one of {', '.join(choices)}.",
        ) from None


def _spoken(choices: type[StrEnum]) -> str:
    """Give the name of a set as words: TaskStatus is a task status."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", choices.__name__).lower()
