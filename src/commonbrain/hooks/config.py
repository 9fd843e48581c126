"""What users say of hooks in the environment, read without loading the settings."""

from collections.abc import Mapping
from typing import Final

from commonbrain.api.project_folder import CAPTURES, Folder
from commonbrain.hooks.table import LIMITS_S, HookAction

_NO: Final = frozenset({"off", "0", "false", "no", "n", "f"})
"""What the settings read as false."""
_SECONDS_MAX: Final = 60
"""The bound of the settings."""


def is_off(environment: Mapping[str, str]) -> bool:
    """Say whether the user switched all hooks off."""
    return environment.get("COMMONBRAIN_HOOKS", "").strip().lower() in _NO


def limit_s(deed: HookAction, environment: Mapping[str, str]) -> float:
    """Give the seconds that a deed has, from the start of the process."""
    variable, usual = LIMITS_S[deed]
    try:
        given = float(environment.get(variable, ""))
    except ValueError:
        return usual
    return given if 0 < given <= _SECONDS_MAX else usual


def capture_of(folder: Folder, environment: Mapping[str, str]) -> str:
    """Say what is kept of messages: as the folder says, else the user, else what is usual."""
    given = environment.get("COMMONBRAIN_CAPTURE", "")
    return folder.capture or (given if given in CAPTURES else CAPTURES[-1])
