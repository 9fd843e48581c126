"""Optional libraries and packages of our own, which extras install and which load on first use.

A package fills tables of the core by entry points, whose groups are `commonbrain.cli`,
`commonbrain.importers` and so on. To read them takes some milliseconds, so that nothing does it
before something is asked for that the core itself does not have.
"""

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from commonbrain.model.errors import InvalidInputError


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
        return point.load()
    raise extra_missing(f"commonbrain[{extra}]", extra=extra)


def load_rows(table: str) -> Mapping[str, object]:
    """Load the rows that installed packages add to a table of the core, by their names."""
    from importlib.metadata import entry_points  # noqa: PLC0415 it takes 20 ms

    points = entry_points(group=f"commonbrain.{table}")
    return {point.name: point.load() for point in sorted(points, key=lambda point: point.name)}


def is_installed(package: str) -> bool:
    """Return whether a package such as `commonbrain_learn` is installed; imports nothing."""
    return find_spec(package) is not None


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
