"""How much a briefing shows: the defaults of the settings whose names begin with `boot_`."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from commonbrain.model.limits import HANDOFF_CHARS_MAX
from commonbrain.model.values import dataclass, field

BOOT_TOKENS: Final = 2000
"""Tokens of a briefing, unless a setting says otherwise."""
BOOT_NOTE_CHARS: Final = 200
"""Characters of a pinned note in a briefing."""
BOOT_CAPS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "blockers": 20,
        "skills": 5,
        "notes": 10,
        "action_items": 10,
        "urgent": 5,
        "siblings": 10,
        "patterns": 40,
        "tasks": 20,
        "changes": 3,
    }
)
"""Entries shown of each section of a briefing; of rules, as many as its tokens allow."""
BOOT_SHARES: Final[Mapping[str, float]] = MappingProxyType(
    {
        "blockers": 0.2,
        "skills": 0.1,
        "notes": 0.1,
        "action_items": 0.1,
        "handoff": 0.12,
        "urgent": 0.05,
        "siblings": 0.05,
        "patterns": 0.12,
        "tasks": 0.04,
        "changes": 0.04,
    }
)
"""Share of the tokens of a briefing that each section gets before what is unused is given away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BriefingLimits:
    """How much a briefing shows; caps and shares are those of its sections."""

    tokens: int = BOOT_TOKENS
    caps: Mapping[str, int] = field(default_factory=lambda: BOOT_CAPS)
    shares: Mapping[str, float] = field(default_factory=lambda: BOOT_SHARES)
    handoff_chars: int = HANDOFF_CHARS_MAX
    note_chars: int = BOOT_NOTE_CHARS
