"""Settings from the environment and from a folder of secrets, with readable errors."""

import getpass
import os
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_settings import BaseSettings, SettingsError

from commonbrain.config import ServerSettings, Settings
from commonbrain.model.errors import InvalidInputError

_SettingsT = TypeVar("_SettingsT", bound=BaseSettings)


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
    try:
        return model(_secrets_dir=folder, **overrides)
    except ValidationError as error:
        first = error.errors()[0]
        name, *keys = (str(part) for part in first["loc"])
        where = f" of {keys[0]}" if keys else ""
        prefix = model.model_config.get("env_prefix", "")
        is_hidden = name in _HIDDEN
        shown = "not valid" if is_hidden else repr(str(first["input"])[:80])
        raise InvalidInputError(
            f"{prefix}{name.upper()}{where} is {shown}: {first['msg']}.",
            hint="Correct or unset it.",
        ) from (None if is_hidden else error)
    except SettingsError as error:
        # The library names the field and repeats no value.
        raise InvalidInputError(
            f"A setting is not valid JSON: {error}.",
            hint='Write it like {"fact": 14}, or like ["one", "two"] for a list.',
        ) from error


def login_name() -> str:
    """Return the name of the current user."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A container may run under a user id without a name.
        return "user"
