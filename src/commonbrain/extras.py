"""Optional libraries, which extras install and which load on first use."""

from importlib import import_module
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
