"""Settings from the environment and from a folder of secrets, with readable errors."""

import getpass
import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, TypeVar, get_origin

from pydantic import ValidationError

from commonbrain.config import EnvironmentSettings, Settings
from commonbrain.model.errors import InvalidInputError
from commonbrain.setting_types import parse_store

_SettingsT = TypeVar("_SettingsT", bound=EnvironmentSettings)


def load_settings() -> Settings:
    """Load the settings from the environment and from the files of `COMMONBRAIN_SECRETS_DIR`.

    Each file there is named after a variable, as container secrets are; variables take precedence.

    Raises:
        InvalidInputError: A setting is invalid, or the folder does not exist.

    """
    return load(Settings)


def load(model: type[_SettingsT], **overrides: Any) -> _SettingsT:  # noqa: ANN401 of any type
    """Load the settings of a model from the environment; arguments take precedence.

    Raises:
        InvalidInputError: A setting is invalid, or the folder of secrets does not exist.

    """
    folder = os.environ.get("COMMONBRAIN_SECRETS_DIR") or None
    if folder is not None and not Path(folder).is_dir():
        raise InvalidInputError(
            "COMMONBRAIN_SECRETS_DIR is not a folder.",
            hint="Name one that holds files, or unset it.",
        )
    given = _read(model, folder) | overrides
    if given.keys() <= {"store"}:
        # The defaults are valid, and building the model takes longer than opening a store.
        parsed: dict[str, Any] = {name: parse_store(text) for name, text in given.items()}
        return model.model_construct(**parsed)
    try:
        return model(**given)
    except ValidationError as error:
        first = error.errors()[0]
        name, *keys = (str(part) for part in first["loc"])
        where = f" of {keys[0]}" if keys else ""
        is_hidden = name in model.hidden
        shown = "not valid" if is_hidden else repr(str(first["input"])[:80])
        raise InvalidInputError(
            f"{model.prefix}{name.upper()}{where} is {shown}: {first['msg']}.",
            hint="Correct or unset it.",
        ) from (None if is_hidden else error)


def _read(model: type[EnvironmentSettings], folder: str | None) -> dict[str, Any]:
    """Read the variables of a model, or else its files; names in any case, empty ones are unset."""
    keys = {name: model.prefix + name.upper() for name in model.model_fields}
    files = _texts(folder, names=keys.values()) if folder else {}
    texts = files | {name.upper(): text for name, text in os.environ.items() if text}
    read: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        text = texts.get(keys[name])
        if text is None:
            continue
        has_parts = get_origin(field.annotation) in {dict, list}
        value = _parse_json(name, text) if has_parts else text
        if value is not None:
            read[name] = value
    return read


def _texts(folder: str, *, names: Collection[str]) -> dict[str, str]:
    """Read the files of a folder of secrets that are named as settings."""
    try:
        paths = {path.name.upper(): path for path in sorted(Path(folder).iterdir())}
    except OSError as error:
        raise _unreadable(folder, error) from None
    texts: dict[str, str] = {}
    for name, path in paths.items():
        try:
            if name in names and path.is_file():
                texts[name] = path.read_text("utf-8").strip()
        except (OSError, UnicodeError) as error:
            raise _unreadable(path.name, error) from None
    return texts


def _unreadable(name: str, error: Exception) -> InvalidInputError:
    # What a decoding error names is part of the secret.
    why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
    return InvalidInputError(
        f"The secrets cannot be read, {name}: {why}.", hint="Correct or remove it."
    )


def _parse_json(name: str, text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"A setting is not valid JSON: {name}.",
            hint='Write it like {"fact": 14}, or like ["one", "two"] for a list.',
        ) from error


def login_name() -> str:
    """Return the name of the current user."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A container may run under a user id without a name.
        return "user"
