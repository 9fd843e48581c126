"""What the memory costs in tokens beyond what agents asked for: by session, or in all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from commonbrain.model.limits import EVENTS_WINDOW
from commonbrain.model.scope import Caller, Role
from commonbrain.storage.interface import JobFilter
from commonbrain.storage.job_queue import REFLECT

if TYPE_CHECKING:
    from commonbrain.storage.repositories.records import HookRun
    from commonbrain.storage.store import Transaction

WINDOW: Final = timedelta(days=30)
"""How far back hooks and background jobs are counted."""
_SPENT: Final = ("tokens_in", "tokens_out")
"""What jobs record that use a language model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUse:
    """Tokens that a session or all sessions cost in addition to what agents asked for."""

    shown: int = 0
    """Tokens that hooks showed to agents."""
    background: int = 0
    """Tokens of a language model that background jobs spent."""

    @property
    def line(self) -> str:
        """One line for people."""
        return f"{self.background:,} tokens spent in the background, {self.shown:,} shown"


def token_use(
    tx: Transaction,
    caller: Caller,
    *,
    now: datetime,
    session: str | None,
    runs: Sequence[HookRun] | None = None,
) -> TokenUse:
    """Count the tokens of a session, or those of the last 30 days that the caller may see.

    Args:
        tx: a transaction of the caller's tenant.
        caller: who asks.
        now: the current time.
        session: only this session; None for all.
        runs: the runs of hooks to count, if they were read already.

    """
    own = None if caller.role is Role.ADMIN and session is None else caller.agent
    since = now - WINDOW
    if runs is None:
        runs = tx.events.of_hooks(limit=EVENTS_WINDOW, since=since, session=session, agent=own)
    reflections = JobFilter(kind=REFLECT, agent=own, session=session, since=since)
    reached = tx.jobs.progress(reflections, limit=EVENTS_WINDOW)
    return TokenUse(
        shown=sum(one.shown.tokens for one in runs),
        background=sum(one.get(name, 0) for one in reached for name in _SPENT),
    )
