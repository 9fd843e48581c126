"""Leases: a task is claimed for a while, so that two agents do not do it twice."""

from datetime import datetime, timedelta
from typing import Final

from commonbrain.domain.errors import Invalid
from commonbrain.domain.kinds import TaskDetail
from commonbrain.domain.scope import Caller

LEASE_MINUTES_DEFAULT: Final = 30
LEASE_MINUTES_MAX: Final = 24 * 60
"""Whoever needs longer claims again; whoever is gone does not keep it from others for days."""


def holder_of(caller: Caller) -> str:
    """Give the name a caller claims tasks under: its session's key, else the agent's own."""
    return caller.session or caller.agent


def is_leased(detail: TaskDetail, *, now: datetime) -> bool:
    """Say whether somebody has claimed a task whose time is not up."""
    holder, until = detail.lease_holder, detail.lease_until
    return holder is not None and until is not None and until > now


def lease_end(minutes: int, *, now: datetime) -> datetime:
    """Give the moment at which a lease of so many minutes ends.

    Raises:
        Invalid: it is none, or too long.

    """
    if not 1 <= minutes <= LEASE_MINUTES_MAX:
        raise Invalid(
            f"minutes is {minutes}; 1 to {LEASE_MINUTES_MAX} are allowed.",
            hint="Claim again before the time is up to keep it for longer.",
        )
    return now + timedelta(minutes=minutes)
