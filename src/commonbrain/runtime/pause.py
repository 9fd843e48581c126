"""A pause of the memory on this machine: a person begins it, and it ends by itself.

The file is the client's own, so that a pause also holds where the store is on a server. Imports
must be fast: every hook asks first.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import Final

from commonbrain.folders import make_private_folder
from commonbrain.model.errors import InvalidInputError, RejectedError, UnavailableError
from commonbrain.observability.hook_runs import state_folder
from commonbrain.text.patterns import lazy_pattern

_FILE: Final = "paused"
_BYTES_MAX: Final = 64
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_LENGTH: Final = lazy_pattern(r"(\d{1,6})\s?([smhd])")
_DAYS_MAX: Final = 366


def pause_in(environment: Mapping[str, str]) -> str | None:
    """Describe the pause that holds now, such as "until 2026-03-01 12:00:00 UTC"; or None.

    A file that cannot be read as a time is a pause without an end: a person wanted one.
    """
    try:
        with _file(environment).open("rb") as file:
            text = file.read(_BYTES_MAX).decode(errors="replace").strip()
    except OSError:
        return None
    with suppress(ValueError, OverflowError, OSError):
        until = float(text)
        if until <= time():
            return None
        return f"until {datetime.fromtimestamp(until, UTC):%Y-%m-%d %H:%M:%S} UTC"
    return "until `brain resume`"


def begin_pause(environment: Mapping[str, str], *, length: str | None) -> None:
    """Begin a pause of a length such as 30m, 1h or 2d, or one until it is ended.

    Raises:
        InvalidInputError: the length is not valid.
        UnavailableError: it cannot be recorded.

    """
    file = _file(environment)
    until = "" if length is None else f"{time() + _seconds(length):.0f}"
    try:
        make_private_folder(file.parent)
        # A reader sees the old file or the new one.
        new = file.with_name(f"{_FILE}.{os.getpid()}")
        new.write_text(until, "ascii")
        new.replace(file)
    except OSError as error:
        raise _not_recorded(error) from error


def end_pause(environment: Mapping[str, str]) -> None:
    """End the pause, if there is one.

    Raises:
        UnavailableError: the file cannot be removed.

    """
    try:
        _file(environment).unlink(missing_ok=True)
    except OSError as error:
        raise _not_recorded(error) from error


def paused_error(pause: str) -> RejectedError:
    """Return the error of a write of an agent during a pause."""
    return RejectedError(
        f"The user paused the memory {pause}; nothing is stored.",
        code="paused",
        hint="Go on without it. Only the user ends the pause: `brain resume` in a terminal.",
    )


def _seconds(length: str) -> int:
    match = _LENGTH.fullmatch(length.strip().lower())
    seconds = int(match[1]) * _SECONDS[match[2]] if match else 0
    if not 0 < seconds <= _DAYS_MAX * _SECONDS["d"]:
        raise InvalidInputError(
            f"{length[:40]!r} is not a length of time of at most {_DAYS_MAX} days.",
            hint="Give one such as 30m, 1h or 2d.",
        )
    return seconds


def _not_recorded(error: OSError) -> UnavailableError:
    return UnavailableError(
        f"The pause cannot be recorded: {error.strerror}.",
        hint="Set COMMONBRAIN_STATE to a folder that you can write.",
    )


def _file(environment: Mapping[str, str]) -> Path:
    return state_folder(environment) / _FILE
