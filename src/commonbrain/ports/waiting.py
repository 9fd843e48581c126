"""Until when somebody waits for what is done here: whoever waits in turn waits no longer."""

from contextvars import ContextVar
from typing import Final

UNTIL: Final[ContextVar[float | None]] = ContextVar("until", default=None)
"""A moment by `time.monotonic`; None where nobody has set one, as in work behind everybody's back.

It goes with the context of a call, so that what talks to a database far below knows it.
"""
