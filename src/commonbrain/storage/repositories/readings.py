"""The reading of a text as it is stored: a JSON array with the version of the reader first."""

import json
from typing import Final

from commonbrain.model.memory import Reading

_VERSION: Final = 2
"""To be raised when the same text is read otherwise; older readings are then made anew."""
_START: Final = f"[{_VERSION},"
CURRENT: Final = f"{_START}%"
"""What a current reading is like in SQL."""
_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def encode_reading(reading: Reading) -> str:
    """Write a reading."""
    return _encode(
        [
            _VERSION,
            reading.question_share,
            int(reading.names_time),
            reading.times,
            reading.subject_words,
            reading.words,
        ]
    )


def decode_reading(stored: str | None) -> Reading | None:
    """Read what `encode_reading` wrote; None if it is missing, damaged or of another version."""
    if stored is None or not stored.startswith(_START):
        return None
    try:
        _, share, names_time, times, subject, words = json.loads(stored)
    except (ValueError, TypeError):
        return None
    return Reading(
        words=words,
        subject_words=subject,
        question_share=share,
        names_time=bool(names_time),
        times=tuple((since, until) for since, until in times),
    )
