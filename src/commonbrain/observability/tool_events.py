"""What every call of an operation leaves: who asked for what, how long it took, how it ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol, cast

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.ids import parse
from commonbrain.model.limits import EVENT_ARGS_CHARS_MAX, SLOW_CALL_MS
from commonbrain.model.query import FeedbackEvent

OK: Final = "ok"
"""How a call ended that did what was asked."""
REFUSED: Final = "refused"
"""How a call ended whose reply says that what was given did not get in."""
_CUT: Final = "..."
_PREFIX_CHARS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEvent:
    """One call; what was given is told by its sizes, so that an erase finds no word of it here."""

    id: int
    """Drawn where the call was made: the same event, told twice, is kept once."""
    tenant: str
    at: datetime
    session: str | None
    agent: str
    tool: str
    transport: str
    duration_ms: float
    outcome: str
    """`ok`, `refused`, or the code of the error."""
    args: str = ""

    @property
    def is_failed(self) -> bool:
        """Whether the call raised an error."""
        return self.outcome not in {OK, REFUSED}

    @property
    def is_slow(self) -> bool:
        """Whether it took longer than anybody should wait."""
        return self.duration_ms > SLOW_CALL_MS


def visible_parameters(
    given: Mapping[str, object], *, words: Mapping[str, frozenset[str]] | None = None
) -> str:
    """Say what a call was given, in 80 characters and without a word that somebody wrote.

    Args:
        given: the request's fields that were set.
        words: by field, the closed set of words it takes; other texts are told by their length.

    """
    known = words or {}
    parts = (f"{name}={_shape(one, known.get(name, frozenset()))}" for name, one in given.items())
    line = " ".join(parts)
    is_long = len(line) > EVENT_ARGS_CHARS_MAX
    return line[: EVENT_ARGS_CHARS_MAX - len(_CUT)] + _CUT if is_long else line


def _shape(value: object, words: frozenset[str]) -> str:
    match value:
        case bool() | int() | float() | None:
            return str(value).lower()
        case str() if value in words or _is_id(value):
            return value
        case str():
            return f"<{len(value)} characters>"
        case list() | tuple():
            each = cast("Sequence[object]", value)
            shapes = [_shape(one, words) for one in each]
            is_plain = shapes and not any(shape.startswith("<") for shape in shapes)
            return ",".join(shapes) if is_plain else f"<{len(each)}>"
        case _:
            return "<?>"


def _is_id(value: str) -> bool:
    prefix, _, _ = value.partition("_")
    try:
        parse(prefix.lower(), value)
    except InvalidInputError:
        return False
    return len(prefix) == _PREFIX_CHARS and prefix.isalpha()


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Events of one tenant to be kept, and the moment before which older ones are dropped."""

    events: Sequence[ToolEvent]
    keep_from: datetime
    uses: Sequence[FeedbackEvent] = ()
    """What was done with memories, to be marked on the recalls that showed them."""


class EarlyEvents(Protocol):
    """Where events wait that came before their session was known; several processes share it.

    Laws: an event waits a day at most, and at most a thousand do; what was handed over and written
    waits no longer; what could not be written waits on.
    """

    def keep(self, event: ToolEvent) -> None:
        """Let an event wait; one that cannot is lost, which no call fails for."""
        ...

    def hand_over(
        self, tenant: str, agent: str, *, write: Callable[[Sequence[ToolEvent]], None]
    ) -> int:
        """Give an agent's events to what writes them, and forget them then; count them.

        Raises:
            CommonbrainError: what the writing raises; all of them wait on.

        """
        ...


class NoEarlyEvents:
    """Keeps nothing: where nobody's session is ever unknown."""

    def keep(self, event: ToolEvent) -> None:
        """Let it go."""

    def hand_over(
        self,
        tenant: str,  # noqa: ARG002
        agent: str,  # noqa: ARG002
        *,
        write: Callable[[Sequence[ToolEvent]], None],  # noqa: ARG002
    ) -> int:
        """Give none."""
        return 0
