"""Several requests in one file: a JSON object a line, each with the fields of one request."""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

from pydantic import BaseModel, ValidationError

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.limits import ITEMS_PER_CALL_MAX, TEXT_BYTES_MAX

_BYTES_MAX: Final = 4 * ITEMS_PER_CALL_MAX * TEXT_BYTES_MAX
"""Far more than as many items as one call takes, written with every letter escaped."""
_HINT: Final = 'Give one JSON object a line, such as {"text": "...", "kind": "fact"}.'


def read_requests(file: Path, request: type[BaseModel], *, shared: Mapping[str, Any]) -> list[Any]:
    """Read every line of a file, or of stdin for `-`, as a request; `shared` fills what it omits.

    Raises:
        InvalidInputError: the file cannot be read, is too large, or a line is no such request.

    """
    raw = _read(file)
    if len(raw) > _BYTES_MAX:
        raise InvalidInputError(
            f"The file has over {_BYTES_MAX:,} bytes.", hint="Send it in parts, or import it."
        )
    # An encoding that is none reads as replaced letters, as it does in a text from stdin.
    lines = raw.decode("utf-8", "replace").split("\n")
    return [
        _parse_request(request, {**shared, **value}, number=number)
        for number, value in _parse_objects(lines)
    ]


def _read(file: Path) -> bytes:
    if str(file) == "-":
        return sys.stdin.buffer.read(_BYTES_MAX + 1)
    try:
        with file.open("rb") as opened:
            return opened.read(_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidInputError(f"{file} cannot be read: {error.strerror}.", hint=_HINT) from error


def _parse_objects(lines: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise InvalidInputError(f"Line {number} is no JSON object.", hint=_HINT)
        yield number, cast("dict[str, Any]", value)


def _parse_request(request: type[BaseModel], value: Mapping[str, Any], *, number: int) -> BaseModel:
    try:
        return request.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = [at for at in first["loc"] if at != "details"]
        name = str(path[0]) if path else "the object"
        raise InvalidInputError(
            f"Line {number}, {name[:40]!r}: {first['msg']}.", hint=_HINT
        ) from error
