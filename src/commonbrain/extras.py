"""Optional libraries and packages of our own, which extras install and which load on first use.

A package fills tables of the core by entry points, whose groups are `commonbrain.cli`,
`commonbrain.importers` and so on. To read them takes some milliseconds, so that nothing does it
before something is asked for that the core itself does not have.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Final

from commonbrain.model.errors import InvalidInputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_LOG: Final = logging.getLogger(__name__)
IMPORT_FORMATS: Final = (
    *("basic-memory", "brain-db", "brainstem", "chatgpt", "claude-ai", "claude-mem"),
    *("conversations", "graphiti", "letta", "mcp-memory", "mcp-memory-service", "mem0"),
    *("obsidian", "open-brain", "openbrain"),
)
"""The formats that the extra `import` adds to `brain import`."""


def load_extra(name: str, *, extra: str) -> ModuleType:
    """Import a library of an extra.

    Raises:
        InvalidInputError: The library is not installed.

    """
    try:
        return import_module(name)
    except ImportError as error:
        raise extra_missing(name.partition(".")[0], extra=extra) from error


def load_row(table: str, name: str, *, extra: str) -> object:
    """Load one row that a package adds to a table of the core, such as `cli` or `importers`.

    Raises:
        InvalidInputError: No installed package has it; the message names the extra.

    """
    from importlib.metadata import entry_points  # noqa: PLC0415 it takes 20 ms

    for point in entry_points(group=f"commonbrain.{table}", name=name):
        try:
            return point.load()
        except (ImportError, AttributeError) as error:
            raise InvalidInputError(
                f"{_installed(point)} cannot be loaded: {error}.",
                code="extra_missing",
                hint=f"Install it again: pip install --upgrade 'commonbrain[{extra}]'",
            ) from error
    raise extra_missing(f"commonbrain[{extra}]", extra=extra)


def load_rows(table: str) -> Mapping[str, object]:
    """Load the rows that installed packages add to a table of the core, by their names.

    One that cannot be loaded is left out, and logged: it must not stop what needs none of it.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 it takes 20 ms

    rows: dict[str, object] = {}
    for point in sorted(entry_points(group=f"commonbrain.{table}"), key=lambda one: one.name):
        try:
            rows[point.name] = point.load()
        except (ImportError, AttributeError) as error:
            _LOG.warning("%s cannot be loaded: %s", _installed(point), error)
    return rows


def _installed(point: EntryPoint) -> str:
    """Name the installed distribution that an entry point is of."""
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value


def is_installed(package: str) -> bool:
    """Return whether a package such as `commonbrain_learn` is installed; imports nothing."""
    spec = find_spec(package)
    # What a removed package leaves behind is a folder without a file to import.
    return spec is not None and spec.origin is not None


def extra_missing(library: str, *, extra: str) -> InvalidInputError:
    """Return the error for a library that is not installed, which names the extra."""
    return InvalidInputError(
        f"This needs {library}, which is not installed.",
        code="extra_missing",
        hint=f"Install it with: pip install 'commonbrain[{extra}]'",
    )


def package_missing(name: str) -> InvalidInputError:
    """Return the error for a package that is not installed and that no extra brings."""
    return InvalidInputError(
        f"This needs {name}, which is not installed.",
        code="extra_missing",
        hint=f"Install it with: pip install {name}",
    )
