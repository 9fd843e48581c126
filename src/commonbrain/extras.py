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
        raise InvalidInputError(
            f"This needs {name.partition('.')[0]}, which is not installed.",
            code="extra_missing",
            hint=f"Install it with: pip install 'commonbrain[{extra}]'",
        ) from error
