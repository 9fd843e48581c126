"""Reading a word from outside as a member of a closed set."""

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
            f"{given[:40]!r} is not a {choices.__name__.lower()}.",
            hint=f"Choose one of {', '.join(choices)}.",
        ) from None
