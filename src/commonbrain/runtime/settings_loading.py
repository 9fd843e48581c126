"""Settings read from the environment and from folders of secrets, and what is wrong told."""

import getpass
import os
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_settings import BaseSettings

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
        "redis_url",
        "store",
        "store_replicas",
    }
)
"""Settings that may hold a secret: errors do not repeat what they were given."""


def load_settings() -> Settings:
    """Read the settings from the environment, and secrets from the files of a folder it names.

    A file there has the name of the variable in whose place it stands: that is how containers are
    handed secrets. A variable beats it.

    Raises:
        InvalidInputError: one of them is out of bounds, or there is no such folder.

    """
    return _load(Settings)


def load_server_settings(**overrides: Any) -> ServerSettings:  # noqa: ANN401 settings of any type
    """Read how to serve from the environment, but for what is given.

    Raises:
        InvalidInputError: something is out of bounds.

    """
    return _load(ServerSettings, **overrides)


def _load(model: type[_SettingsT], **overrides: Any) -> _SettingsT:  # noqa: ANN401 the same
    folder = os.environ.get("COMMONBRAIN_SECRETS_DIR") or None
    if folder is not None and not Path(folder).is_dir():
        raise InvalidInputError(
            "COMMONBRAIN_SECRETS_DIR is no folder.", hint="Name one that holds files, or unset it."
        )
    try:
        return model(_secrets_dir=folder, **overrides)
    except ValidationError as error:
        first = error.errors()[0]
        name = "_".join(str(part) for part in first["loc"])
        prefix = model.model_config.get("env_prefix", "")
        is_hidden = name in _HIDDEN
        shown = "not valid" if is_hidden else repr(str(first["input"])[:80])
        raise InvalidInputError(
            f"{prefix}{name.upper()} is {shown}: {first['msg']}.",
            hint="Mend or unset it.",
        ) from (None if is_hidden else error)


def login_name() -> str:
    """Give the name of the user whose machine this is."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A container may run under a number that no name belongs to.
        return "user"
