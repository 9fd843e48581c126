"""Attachments: JSON objects that programs store with a text, exact and unsearched."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

from commonbrain.model.errors import InvalidInputError

ATTACHMENT: Final = "attachment"
"""The name of the field, and the key in the payload of a memory."""

TextTransform = Callable[[str, str], str]
"""Returns the new text from the name of the field and the text."""


def attachment_in(payload: Mapping[str, object]) -> dict[str, object] | None:
    """Return the attachment in the payload of a memory."""
    stored = payload.get(ATTACHMENT)
    return None if stored is None else json.loads(cast("str", stored))


def with_attachment(
    payload: Mapping[str, object], attachment: Mapping[str, object] | None
) -> Mapping[str, object]:
    """Add an attachment to a payload, as a text, which no engine reorders or rounds."""
    if attachment is None:
        return payload
    return {**payload, ATTACHMENT: attachment_text(attachment)}


def attachment_text(attachment: Mapping[str, object]) -> str:
    """Return an attachment as JSON.

    Raises:
        InvalidInputError: it has a value that JSON in UTF-8 cannot express, such as NaN.

    """
    try:
        text = json.dumps(attachment, ensure_ascii=False, allow_nan=False)
        # A lone surrogate would be accepted here and fail where it is sent on.
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            "The attachment cannot be written as JSON.",
            hint="Give an object of texts, finite numbers, booleans, nulls, lists and objects.",
        ) from error
    return text


def texts_in_attachment(value: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 any JSON
    """Yield the texts of an attachment, its names included, each with the name of the field."""
    match value:
        case str():
            yield ATTACHMENT, value
        case tuple() | list():
            for one in cast("list[object]", value):
                yield from texts_in_attachment(one)
        case Mapping():
            for key, one in cast("Mapping[object, object]", value).items():
                yield ATTACHMENT, str(key)
                yield from texts_in_attachment(one)
        case _:
            pass


def named_texts(value: Any, name: str = "") -> Iterator[tuple[str, str]]:  # noqa: ANN401 any JSON
    """Yield the texts of an attachment, each after the name that it has; lists share one."""
    match value:
        case str():
            yield name, value
        case tuple() | list():
            for one in cast("list[object]", value):
                yield from named_texts(one, name)
        case Mapping():
            for key, one in cast("Mapping[object, object]", value).items():
                yield from named_texts(one, str(key))
        case _:
            pass


def as_assigned(name: str, text: str) -> str:
    """Return a text after its name, as prose and settings write it."""
    return f"{name}: {text}"


def changed_attachment(attachment: Mapping[str, object] | None, change: TextTransform) -> Any:  # noqa: ANN401 any JSON
    """Change the texts of an attachment, alone and after their names; names and empty texts stay.

    A program looks values up by name, so a changed name would lose them.
    """
    return _changed(attachment, change, name="")


def _changed(value: Any, change: TextTransform, *, name: str) -> Any:  # noqa: ANN401 any JSON
    match value:
        case str():
            text = change(ATTACHMENT, value)
            before = as_assigned(name, "")
            assigned = change(ATTACHMENT, as_assigned(name, text))
            return assigned.removeprefix(before) if assigned.startswith(before) else text
        case tuple() | list():
            return [_changed(one, change, name=name) for one in cast("list[object]", value)]
        case Mapping():
            members = cast("Mapping[object, object]", value).items()
            return {key: _changed(one, change, name=str(key)) for key, one in members}
        case _:
            return value
