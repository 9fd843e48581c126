"""Reads arguments as models send them, and lists those that a tool shows to a model.

Few clients check what a model wrote against the schema of the tool.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from enum import Enum, auto
from functools import cache
from types import NoneType
from typing import Any, Final, Literal, cast, get_args, get_origin

from pydantic import BaseModel

from commonbrain.model.errors import InvalidInputError

DETAILS: Final = "details"
"""The argument of a tool that holds those which its schema only names."""
_OTHER_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "limit": ("max_items",),
    "max_items": ("limit",),
    "content": ("text",),
    "body": ("text",),
    "q": ("query", "text"),
    "query": ("text",),
    "text": ("query",),
}
"""Arguments that another tool, or another memory, calls by this name; the first match counts."""
_WITHOUT_COMMAS: Final = frozenset({"id", "ids", "kinds", "states", "views"})
"""Lists whose values contain no commas, so that a text with commas means several."""
_LISTED_MAX: Final = 6
"""Arguments that an error lists; agents pay for every token."""


def read_arguments(
    request: type[BaseModel],
    given: Mapping[str, object],
    *,
    accepted: Collection[str],
    has_details: bool,
) -> dict[str, object]:
    """Return the arguments by their own names, each as its field takes it.

    A null is an argument that was not given, another name is the argument's own, a single value
    is a list of one and the reverse. Unknown names stay.

    Raises:
        InvalidInputError: two names of one argument have different values.

    """
    values: dict[str, object] = {}
    for name, value in _flatten(given, has_details=has_details):
        own = _own_name(name, accepted)
        if value is None:
            continue
        if own in values and values[own] != value:
            raise InvalidInputError(
                f"{own} is given twice, with different values.", hint="Give it once."
            )
        values[own] = value
    shapes = _shapes(request)
    return {name: _fit(name, value, shape=shapes.get(name)) for name, value in values.items()}


def _flatten(given: Mapping[str, object], *, has_details: bool) -> Iterator[tuple[str, object]]:
    """Yield the arguments, with the details among them."""
    for name, value in given.items():
        details = _parsed(value, dict) if name == DETAILS and has_details else None
        if isinstance(details, dict):
            yield from cast("Mapping[str, object]", details).items()
        elif details is not None:
            raise InvalidInputError("details is not an object.", hint="Give names and values.")
        else:
            yield name, value


def _own_name(name: str, accepted: Collection[str]) -> str:
    """Return the name of the argument that is meant; the same name if none is."""
    if name in accepted:
        return name
    number = name.removesuffix("s") if name.endswith("s") else f"{name}s"
    return next((one for one in (number, *_OTHER_NAMES.get(name, ())) if one in accepted), name)


class _Shape(Enum):
    """What a field takes, as far as models get it wrong."""

    LIST = auto()
    OBJECT = auto()
    TEXT = auto()


@cache
def _shapes(request: type[BaseModel]) -> Mapping[str, _Shape]:
    shapes = {name: _shape(field.annotation) for name, field in request.model_fields.items()}
    return {name: shape for name, shape in shapes.items() if shape is not None}


def _shape(annotation: Any) -> _Shape | None:  # noqa: ANN401 annotations are of any sort
    choices = [one for one in get_args(annotation) if one is not NoneType]
    plain = choices[0] if NoneType in get_args(annotation) and len(choices) == 1 else annotation
    origin = get_origin(plain) or plain
    texts = {str: _Shape.TEXT, Literal: _Shape.TEXT}
    return {list: _Shape.LIST, dict: _Shape.OBJECT, **texts}.get(origin)


def _fit(name: str, value: object, *, shape: _Shape | None) -> object:
    """Return a value in the shape of its field, if it can be meant by it."""
    match shape:
        case _Shape.LIST:
            return _to_list(name, _parsed(value, list))
        case _Shape.OBJECT:
            return _parsed(value, dict)
        case _Shape.TEXT:
            return _only_one(value)
        case _:
            return value


def _only_one(value: object) -> object:
    """Return the value of a list of one; else the value itself."""
    listed = cast("list[object]", value) if isinstance(value, list) else []
    return listed[0] if len(listed) == 1 else cast("object", value)


def _to_list(name: str, value: object) -> object:
    """Return a list of one; a text with commas may mean one or several, so most stay wrong."""
    match value:
        case list():
            return cast("list[object]", value)
        case str() if "," in value and name in _WITHOUT_COMMAS:
            return [one.strip() for one in value.split(",") if one.strip()]
        case str() if "," in value:
            return value
        case _:
            return [value]


def _parsed(value: object, kind: type[list[Any]] | type[dict[str, Any]]) -> object:
    """Return a list or object that was sent as JSON in a text; else the value itself."""
    if not isinstance(value, str) or value.lstrip()[:1] not in {"[", "{"}:
        return value
    try:
        parsed: object = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return cast("object", parsed) if isinstance(parsed, kind) else value


def list_arguments(names: Collection[str]) -> str:
    """Return the first arguments as a short text."""
    first = ", ".join(list(names)[:_LISTED_MAX]) or "none"
    return f"{first}, .." if len(names) > _LISTED_MAX else first
