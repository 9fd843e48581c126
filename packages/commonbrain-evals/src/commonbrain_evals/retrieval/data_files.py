"""Files of public data sets, read with an error that names the file and the place."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, TypeAdapter, ValidationError

from commonbrain.model.errors import InvalidInputError

Shape = TypeVar("Shape")


def require_file(path: Path, *, expects: str) -> Sequence[Path]:
    """Take a path for one file.

    Raises:
        InvalidInputError: there is none.

    """
    if not path.is_file():
        raise InvalidInputError(f"There is no file {path}.", hint=f"Give {expects}")
    return [path]


def files_in(path: Path, pattern: str, *, expects: str) -> Sequence[Path]:
    """Take a path for one file, or for a folder of files of one pattern, by name.

    Raises:
        InvalidInputError: there is none.

    """
    files_found = sorted(path.glob(pattern)) if path.is_dir() else [path] if path.is_file() else []
    if not files_found:
        raise InvalidInputError(f"There is no {pattern} at {path}.", hint=f"Give {expects}")
    return files_found


def named_files_in(path: Path, names: Sequence[str], *, expects: str) -> Sequence[Path]:
    """Return the files of these names in a folder, in that order.

    Raises:
        InvalidInputError: one is missing.

    """
    paths = [path / name for name in names]
    missing = [one.name for one in paths if not one.is_file()]
    if missing:
        raise InvalidInputError(f"{path} has no {', '.join(missing)}.", hint=f"Give {expects}")
    return paths


UtcTime = Annotated[
    datetime, AfterValidator(lambda time: time if time.tzinfo else time.replace(tzinfo=UTC))
]
"""A time of a data file; without a zone it is in UTC."""


def validate_as(shape: type[Shape], value: object, *, where: str) -> Shape:
    """Take a value for what it has to be.

    Raises:
        InvalidInputError: something in it is missing or of another type; told by its place, not its
            value.

    """
    try:
        return TypeAdapter(shape).validate_python(value)
    except ValidationError as error:
        raise _shape_error(error, where) from None


def read_json(shape: type[Shape], path: Path) -> Shape:
    """Read a file that is one JSON value.

    Raises:
        InvalidInputError: it is not JSON, or not of this shape.

    """
    try:
        value = json.loads(path.read_text("utf-8-sig"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        line = getattr(error, "lineno", 1)
        raise InvalidInputError(f"{path.name}, line {line}: it is not JSON.") from error
    return validate_as(shape, value, where=path.name)


def read_json_lines(shape: type[Shape], path: Path) -> Iterator[Shape]:
    """Read a file of JSON lines, one at a time.

    Raises:
        InvalidInputError: a line is not JSON, or not of this shape.

    """
    adapter = TypeAdapter(shape)
    with path.open(encoding="utf-8-sig") as stream:
        for number, line in enumerate(stream, 1):
            if line.strip():
                try:
                    yield adapter.validate_json(line)
                except ValidationError as error:
                    raise _shape_error(error, f"{path.name}, line {number}") from None


def read_json_list(shape: type[Shape], path: Path) -> Iterator[Shape]:
    """Read a file that is one long JSON list, one element at a time.

    Raises:
        InvalidInputError: it is not JSON, no list, or an element is not of this shape.

    """
    ijson: Any = import_module("ijson")  # It brings no types.
    adapter = TypeAdapter(shape)
    number = 0
    with path.open("rb") as stream:
        try:
            for number, value in enumerate(ijson.items(stream, "item", use_float=True), 1):
                try:
                    yield adapter.validate_python(value)
                except ValidationError as error:
                    raise _shape_error(error, f"{path.name}, element {number}") from None
        except ijson.JSONError as error:
            raise InvalidInputError(
                f"{path.name}, after element {number}: it is not JSON."
            ) from error
    if not number:
        raise InvalidInputError(f"{path.name}: it is no list, or an empty one.")


def _shape_error(error: ValidationError, where: str) -> InvalidInputError:
    first = error.errors(include_input=False, include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return InvalidInputError(f"{where}: {place or 'it'} is wrong: {first['msg']}.")
