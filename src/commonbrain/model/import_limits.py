"""How much one import may read."""

from __future__ import annotations

from typing import Final

from commonbrain.model.limits import (
    PACKED_RATIO_MAX,
    SENT_FILES_MAX,
    SENT_PIECES_MAX,
    SENT_UNPACKED_BYTES_MAX,
    STAGED_FILES_MAX,
    UNPACKED_BYTES_MAX,
)
from commonbrain.model.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportLimits:
    """The limits of an upload to a server, whose sender does not own the machine."""

    unpacked_bytes_max: int = SENT_UNPACKED_BYTES_MAX
    files_max: int = SENT_FILES_MAX
    packed_ratio_max: int | None = PACKED_RATIO_MAX
    """Unpacked bytes for each byte of a zip."""
    pieces_max: int | None = SENT_PIECES_MAX
    """Pieces to read; None without a limit."""


LOCAL_IMPORT: Final = ImportLimits(
    unpacked_bytes_max=UNPACKED_BYTES_MAX,
    files_max=STAGED_FILES_MAX,
    packed_ratio_max=None,
    pieces_max=None,
)
"""The limits of a file that `brain import --background` read on this machine."""
