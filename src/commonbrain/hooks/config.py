"""The environment variables of hooks, read without loading the settings."""

from collections.abc import Mapping
from typing import Final

from commonbrain.api.project_folder import CAPTURE_MODES, FolderConfig
from commonbrain.hooks.table import LIMITS_S, HookAction

_NO: Final = frozenset({"off", "0", "false", "no", "n", "f"})
"""What the settings parse as false."""
_SECONDS_MAX: Final = 60
"""The same bound as in the settings."""


def is_disabled(environment: Mapping[str, str]) -> bool:
    """Return whether the user disabled all hooks."""
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
    """Return what to store of messages.

    By the folder's setting, then the user's, then the default.
    """
    mode = environment.get("COMMONBRAIN_CAPTURE", "")
    return folder.capture or (mode if mode in CAPTURE_MODES else CAPTURE_MODES[-1])
