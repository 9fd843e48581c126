"""Where a memory's confidence and strength start and how they move."""

import re
from datetime import datetime
from typing import Final

from commonbrain.domain.kinds import KINDS, Kind
from commonbrain.domain.memory import Memory
from commonbrain.domain.trust import Trust

_CONFIDENCE: Final = {
    Trust.TRUSTED_TOOL: 0.82,
    Trust.USER_CLAIM: 0.66,
    Trust.UNTRUSTED_WEB: 0.38,
}
_PER_HEDGE: Final = 0.05
_UNSOURCED_FACT_MAX: Final = 0.6
_FLOOR: Final = 0.1
_HEDGE: Final = re.compile(
    r"\b(?:maybe|perhaps|possibly|probably|might|could be|i think|i guess|seems?|apparently"
    r"|not sure|unclear|roughly|likely)\b",
    re.IGNORECASE,
)


def confidence(kind: Kind, text: str, *, trust: Trust, is_sourced: bool) -> float:
    """Say how likely a text is true, 0..1: by trust, less for each hedge, capped unsourced."""
    hedged = _CONFIDENCE[trust] - _PER_HEDGE * len(_HEDGE.findall(text))
    ceiling = 1.0 if is_sourced or kind is not Kind.FACT else _UNSOURCED_FACT_MAX
    return round(max(_FLOOR, min(hedged, ceiling)), 4)


def strength(memory: Memory, now: datetime) -> float:
    """Say how fresh a memory is, 0..1: 2^(-age / half-life), age since it was last touched.

    Age runs from the later of recording and last access, so imported history is not born faded.
    """
    half_life = KINDS[memory.kind].half_life
    if half_life is None or memory.pinned:
        return 1.0
    touched = max(memory.recorded_at, memory.last_access_at or memory.recorded_at)
    return 2.0 ** -(max((now - touched) / half_life, 0.0))
