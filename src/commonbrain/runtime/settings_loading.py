"""Settings from the environment and from a folder of secrets, with readable errors."""

import getpass
import json
import os
from pathlib import Path
from typing import Any, TypeVar, get_origin

from pydantic import ValidationError

from commonbrain.config import ServerSettings, Settings
from commonbrain.model.errors import InvalidInputError
from commonbrain.setting_types import parse_store

_SettingsT = TypeVar("_SettingsT", Settings, ServerSettings)


_HIDDEN = frozenset(
    {
        "embedder_api_key",
        "embedder_next_api_key",
        "embedder_next_url",
        "embedder_url",
        "extractor_api_key",
        "extractor_url",
        "oidc_client_secret",
        "redis_url",
        "store",
        "store_replicas",
    }
)
"""Settings that may hold a secret: errors do not repeat their values."""


def load_settings() -> Settings:
    """Load the settings from the environment and from the files of `COMMONBRAIN_SECRETS_DIR`.

    Each file there is named after a variable, as container secrets are; variables take precedence.

    Raises:
        InvalidInputError: A setting is invalid, or the folder does not exist.

    """
    return _load(Settings)


def load_server_settings(**overrides: Any) -> ServerSettings:  # noqa: ANN401 settings of any type
    """Load the server settings from the environment; arguments take precedence.

    Raises:
        InvalidInputError: A setting is invalid.

    """
    return _load(ServerSettings, **overrides)


def _load(model: type[_SettingsT], **overrides: Any) -> _SettingsT:  # noqa: ANN401 the same
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
        is_hidden = name in _HIDDEN
        shown = "not valid" if is_hidden else repr(str(first["input"])[:80])
        raise InvalidInputError(
            f"{model.prefix}{name.upper()}{where} is {shown}: {first['msg']}.",
            hint="Correct or unset it.",
        ) from (None if is_hidden else error)


def _read(model: type[Settings | ServerSettings], folder: str | None) -> dict[str, Any]:
    """Read the variables of a model, or else its files; names in any case."""
    files = {path.name.upper(): path for path in (Path(folder).iterdir() if folder else ())}
    variables = {name.upper(): text for name, text in os.environ.items()}
    read: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        key = model.prefix + name.upper()
        text = variables.get(key)
        if text is None and key in files and files[key].is_file():
            text = files[key].read_text("utf-8").strip()
        if text is not None:
            has_parts = get_origin(field.annotation) in {dict, list}
            read[name] = _parse_json(name, text) if has_parts else text
    return read


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
