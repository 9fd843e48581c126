"""What users say of hooks in the environment, read without loading the settings."""

from collections.abc import Mapping
from typing import Final

from commonbrain.api.project_folder import CAPTURE_MODES, FolderConfig
from commonbrain.hooks.table import LIMITS_S, HookAction

_NO: Final = frozenset({"off", "0", "false", "no", "n", "f"})
"""What the settings read as false."""
_SECONDS_MAX: Final = 60
"""The bound of the settings."""


def is_disabled(environment: Mapping[str, str]) -> bool:
    """Say whether the user switched all hooks off."""
    return environment.get("COMMONBRAIN_HOOKS", "").strip().lower() in _NO


def limit_s(action: HookAction, environment: Mapping[str, str]) -> float:
    """Give the timeout of an action in seconds, from the start of the process."""
    variable, default = LIMITS_S[action]
    try:
        seconds = float(environment.get(variable, ""))
    except ValueError:
        return default
    return seconds if 0 < seconds <= _SECONDS_MAX else default


def capture_mode(folder: FolderConfig, environment: Mapping[str, str]) -> str:
    """Say what is kept of messages: as the folder says, else the user, else what is usual."""
    mode = environment.get("COMMONBRAIN_CAPTURE", "")
    return folder.capture or (mode if mode in CAPTURE_MODES else CAPTURE_MODES[-1])
