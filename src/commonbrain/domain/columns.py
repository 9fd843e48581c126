"""The columns that only one kind has, read from plain values such as doors are given."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, cast

from commonbrain.domain.choice import one_of
from commonbrain.domain.errors import Invalid
from commonbrain.domain.kinds import (
    Detail,
    MessageDetail,
    MessagePriority,
    RuleDetail,
    Severity,
    TaskPriority,
    TaskStatus,
)
from commonbrain.domain.skill import read_trigger
from commonbrain.domain.times import instant


def with_columns(detail: Detail, given: Mapping[str, object]) -> Detail:
    """Put plain values into a detail; the trigger of a skill is checked wherever it came from.

    Raises:
        Invalid: a value is of the wrong type or out of its bounds.

    """
    read: dict[str, Any] = {
        name: _READERS.get(name, _text)(name, value)
        for name, value in given.items()
        if value is not None
    }
    if "priority" in read:
        choices = MessagePriority if isinstance(detail, MessageDetail) else TaskPriority
        read["priority"] = one_of(choices, read["priority"])
    told = replace(detail, **read)
    if isinstance(told, RuleDetail) and told.skill is not None:
        return replace(told, skill=read_trigger(told.skill))
    return told


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise _wrong(name, "a text")
    return value


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise _wrong(name, "true or false")
    return value


def _whole(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(name, "a whole number")
    return value


def _number(name: str, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _wrong(name, "a number")
    return value


def _moment(name: str, value: object) -> datetime:
    if not isinstance(value, str | datetime):
        raise _wrong(name, "an ISO 8601 date or time")
    return instant(value)


def _trigger(name: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise _wrong(name, "an object with name and keywords")
    return cast("Mapping[str, object]", value)


def _names(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise _wrong(name, "a list of names")
    return tuple(_text(name, one) for one in cast("list[object]", value))


def _wrong(name: str, wanted: str) -> Invalid:
    return Invalid(f"{name[:40]} is not {wanted}.", hint=f"Give {wanted}.")


_READERS: Final[Mapping[str, Callable[[str, object], object]]] = {
    "severity": lambda name, value: one_of(Severity, _text(name, value).upper()),
    "skill": _trigger,
    "must_ack": _flag,
    "ttl_s": _whole,
    "status": lambda name, value: one_of(TaskStatus, _text(name, value)),
    "due_at": _moment,
    "lease_until": _moment,
    "started_at": _moment,
    "ended_at": _moment,
    "importance": _number,
    "recurrences": _whole,
    "outcome_delay_s": _number,
    "consequence_delay_s": _number,
    "thread_id": _whole,
    "parent_id": _whole,
    "recipients": _names,
}
"""How a column is read that is no plain text."""
