"""Hook settings from environment variables, read without loading the settings."""

from collections.abc import Mapping
from typing import Final

from commonbrain.api.project_folder import CAPTURE_MODES, FolderConfig
from commonbrain.hooks.table import LIMITS_S, HookAction

_NO: Final = frozenset({"off", "0", "false", "no", "n", "f"})
"""Values that the settings read as false."""
_SECONDS_MAX: Final = 60
"""The maximum in the settings."""


def is_disabled(environment: Mapping[str, str]) -> bool:
    """Return whether the user switched all hooks off."""
    return environment.get("COMMONBRAIN_HOOKS", "").strip().lower() in _NO


def limit_s(action: HookAction, environment: Mapping[str, str]) -> float:
    """Return the timeout of an action in seconds, from the start of the process."""
    variable, default = LIMITS_S[action]
    try:
        seconds = float(environment.get(variable, ""))
    except ValueError:
        return default
    return seconds if 0 < seconds <= _SECONDS_MAX else default


def capture_mode(folder: FolderConfig, environment: Mapping[str, str]) -> str:
    """Return what to store of messages: the folder's mode, else the user's, else the default."""
    mode = environment.get("COMMONBRAIN_CAPTURE", "")
    return folder.capture or (mode if mode in CAPTURE_MODES else CAPTURE_MODES[-1])
