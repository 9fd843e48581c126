"""Libraries that only evaluations need: they come with the extra `eval`, and load when called."""

from importlib import import_module
from types import ModuleType

from commonbrain.model.errors import InvalidInputError


def needed(name: str) -> ModuleType:
    """Load a library of the extra.

    Raises:
        InvalidInputError: it is not installed.

    """
    try:
        return import_module(name)
    except ImportError as error:
        raise InvalidInputError(
            f"This evaluation needs {name.partition('.')[0]}, which is not installed.",
            code="extra_missing",
            hint="Install it with: pip install 'commonbrain[eval]'",
        ) from error
