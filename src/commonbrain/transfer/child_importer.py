"""Importers in a child process, whose pieces come as lines of JSON and are checked on arrival.

Formats of packages are read there, because they bring parsers and databases in native code, and so
is every source of a job, because others run in its process. A command or a program that reads
Markdown or transcripts, which the core parses in Python, does it itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast, get_args

from commonbrain.child_process import ChildFailedError, run_in_child
from commonbrain.extras import load_row
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import KINDS
from commonbrain.model.limits import CHILD_LINE_BYTES_MAX, ChildLimits
from commonbrain.model.memory import Draft
from commonbrain.transfer.importer import (
    Content,
    Importer,
    ImportItem,
    Unreadable,
    shown_source,
)

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_CONTENTS: Final = {one.__name__: one for one in get_args(Content)}
_DETAILS: Final = {policy.detail.__name__: policy.detail for policy in KINDS.values()}


@contextmanager
def read_in_child(
    format_: str,
    source: Path,
    *,
    projects: Mapping[str, str] | None,
    limits: ChildLimits,
    check: Callable[[], None],
) -> Generator[Iterator[ImportItem]]:
    """Yield an iterator of the pieces of a source, which an importer reads in a child process.

    Args:
        format_: the name of an importer of the core or of an installed package.
        source: what it reads.
        projects: for a copy, see `Importer`; None if the source is in its place.
        limits: what the child may take.
        check: called twice a second while the iterator waits; may raise to stop.

    The iterator raises what the importer does, and `InvalidInputError` if the child fails.

    Raises:
        UnavailableError: `io_error`, no process could be started.

    """
    arguments = {"format_": format_, "source": str(source), "projects": projects}
    with run_in_child(
        f"{__name__}:lines_of_source", arguments, limits=limits, check=check
    ) as lines:
        yield _pieces(lines, source)


def _pieces(lines: Iterator[bytes], source: Path) -> Iterator[ImportItem]:
    try:
        for number, line in enumerate(lines, 1):
            yield parse_piece(line, number=number)
    except ChildFailedError as error:
        # A job keeps the message alone, so that it contains the next step.
        raise InvalidInputError(
            f"{shown_source(source)} cannot be read to its end: {error}. What was stored of it "
            "stays. It may be damaged, or made to harm: export it again, or import it in parts.",
            code="limit_exceeded" if error.is_over_limit else "",
        ) from error


def parse_piece(line: bytes, *, number: int) -> ImportItem:
    """Make a piece of a line from a child; of one that is malformed, a piece that reports it."""
    try:
        given = json.loads(line)
        content = given["content"]
        if "detail" in given:
            content["detail"] = _form(_DETAILS[given["detail"]]).validate_python(content["detail"])
        made = _form(_CONTENTS[given["type"]]).validate_python(content)
        progress = min(max(float(given["progress"]), 0.0), 1.0)
        return ImportItem(content=made, progress=progress, size=len(line))
    except (ValueError, TypeError, KeyError, RecursionError, InvalidInputError) as error:
        # An error may quote the text, which may contain a secret.
        malformed = Unreadable(
            where=f"piece {number}", reason=f"Its importer gave no piece ({type(error).__name__})."
        )
        return ImportItem(content=malformed, progress=0.0)


@cache
def _form(type_: type) -> TypeAdapter[Any]:
    # The child does not need it.
    from pydantic import TypeAdapter  # noqa: PLC0415

    return TypeAdapter(type_)


def lines_of_source(
    format_: str, source: str, *, projects: Mapping[str, str] | None
) -> Iterator[bytes]:
    """Read a source and yield its pieces as lines of JSON; runs in the child.

    Raises:
        InvalidInputError: as the importer does.

    """
    for piece in _importer(format_, projects).read(Path(source)):
        yield format_piece(piece)


def _importer(format_: str, projects: Mapping[str, str] | None) -> Importer:
    # Each takes a tenth of a second to import, and one of them is needed.
    from commonbrain.transfer.importers import IMPORTERS  # noqa: PLC0415

    known = IMPORTERS.get(format_)
    importer = known or cast("Importer", load_row("importers", format_, extra="import"))
    return importer if projects is None else importer.for_copy(projects)


def format_piece(piece: ImportItem) -> bytes:
    """Return a piece as a line of JSON without its end; one that is too long is reported by it."""
    content = piece.content
    shown = {"type": type(content).__name__, "progress": piece.progress, "content": content}
    if isinstance(content, Draft) and content.detail is not None:
        shown["detail"] = type(content.detail).__name__
    line = json.dumps(shown, ensure_ascii=False, default=_plain).encode("utf-8", "replace")
    if len(line) <= CHILD_LINE_BYTES_MAX:
        return line
    return format_piece(_too_long(content, piece.progress))


def _too_long(content: Content, progress: float) -> ImportItem:
    named = content.source_ref if isinstance(content, Draft) else None
    reason = f"It has more than {CHILD_LINE_BYTES_MAX:,} bytes."
    where = (named or type(content).__name__)[:1000]
    return ImportItem(content=Unreadable(where=where, reason=reason), progress=progress)


def _plain(value: object) -> object:
    """Return what JSON lacks as what it has; without fields that have their default."""
    if is_dataclass(value):
        given = {one: getattr(value, one.name) for one in fields(value)}
        return {one.name: each for one, each in given.items() if each != one.default}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, frozenset):
        return sorted(cast("frozenset[str]", value))
    return str(value)
