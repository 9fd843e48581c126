"""A draft as it is offered: every free text in it, in one place, and the types it must have."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from datetime import datetime
from typing import Any, Final, cast

from commonbrain.domain.errors import Invalid
from commonbrain.domain.memory import Draft, ThreadRef

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    **dict.fromkeys(("kind", "headline", "label", "project", "scope", "trust"), (str,)),
    **dict.fromkeys(("source_ref", "distinct_because", "severity", "body"), (str,)),
    **dict.fromkeys(("occurred_at", "expires_at"), (datetime,)),
    **dict.fromkeys(("auto_captured", "finds_tasks", "finds_causes"), (bool,)),
    **dict.fromkeys(("tags", "people", "derived_from", "depends_on"), (tuple, list)),
    "confidence": (int, float),
    "source_message_id": (int,),
    "thread": (ThreadRef,),
    "columns": (Mapping,),
}
_MEMBERS: Final = {"tags": str, "people": str, "derived_from": int, "depends_on": int}

Change = Callable[[str, str], str]
"""Gives a text anew from the name of its place and the text."""


def check_types(draft: Draft) -> None:
    """Refuse what no annotation keeps a program from putting into a draft.

    Raises:
        Invalid: a field holds a value of another type; the value is not repeated.

    """
    for name, types in _TYPES.items():
        value: Any = getattr(draft, name)
        if value is None and name != "body":
            continue
        if not isinstance(value, types):
            raise _wrong(name, cast("type", type(value)))
        member = _MEMBERS.get(name)
        members = cast("list[object]", value) if member else []
        odd = [one for one in members if member and not isinstance(one, member)]
        if odd:
            raise _wrong(name, type(odd[0]))


def texts_of(draft: Draft) -> Iterator[tuple[str, str]]:
    """Give every free text that would be stored, with the name of its place.

    They are those that `with_texts` would change, in its order, without a draft made anew.
    """
    yield "body", draft.body
    yield from _told_in(draft.columns)
    if draft.thread is not None:
        yield "thread key", draft.thread.key
        yield "thread subject", draft.thread.subject
    if draft.detail is not None:
        yield from _told_in(_free(draft.detail))
    for name in _PLAIN:
        yield from _told(name, getattr(draft, name))


def with_texts(draft: Draft, change: Change) -> Draft:
    """Give a draft anew, every free text of it changed; names that become empty are left out."""
    return replace(
        draft,
        body=change("body", draft.body),
        columns=_mapped(draft.columns, change),
        thread=_thread(draft.thread, change),
        detail=_detail(draft.detail, change),
        **{name: _changed(name, getattr(draft, name), change=change) for name in _PLAIN},
    )


_PLAIN: Final = (
    *("headline", "label", "project", "source_ref", "distinct_because", "tags", "people"),
)


def _changed(name: str, value: Any, *, change: Change) -> Any:  # noqa: ANN401 fields hold anything
    match value:
        case str():
            return change(name, value) or None
        case tuple() | list():
            members = cast("list[object]", value)
            told = (_changed(name, one, change=change) for one in members)
            return tuple(one for one in told if one is not None)
        case Mapping():
            return _mapped(cast("Mapping[str, object]", value), change)
        case _:
            return value


def _told(name: str, value: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 fields hold anything
    match value:
        case str():
            yield name, value
        case tuple() | list():
            for one in cast("list[object]", value):
                yield from _told(name, one)
        case Mapping():
            yield from _told_in(cast("Mapping[str, object]", value))
        case _:
            pass


def _told_in(given: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name, value in given.items():
        yield from _told(name, value)


def _mapped(given: Mapping[str, object], change: Change) -> dict[str, object]:
    return {name: _changed(name, value, change=change) for name, value in given.items()}


def _thread(thread: ThreadRef | None, change: Change) -> ThreadRef | None:
    if thread is None:
        return None
    return ThreadRef(
        key=change("thread key", thread.key), subject=change("thread subject", thread.subject)
    )


def _detail(detail: Any, change: Change) -> Any:  # noqa: ANN401 one of eight, of any columns
    if detail is None:
        return None
    return replace(detail, **_mapped(_free(detail), change))


def _free(detail: Any) -> dict[str, object]:  # noqa: ANN401 one of eight, of any columns
    own = {one.name: getattr(detail, one.name) for one in fields(detail)}
    # Enumerations are texts, too, and are not free ones.
    return {name: value for name, value in own.items() if type(value) in {str, tuple, dict}}


def _wrong(name: str, given: type) -> Invalid:
    return Invalid(f"The {name} is a {given.__name__}.", hint="See Draft for the types.")
