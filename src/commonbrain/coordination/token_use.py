"""What the memory costs in tokens beyond what agents asked for: by session, or in all."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, cast

from commonbrain.model.limits import EVENTS_WINDOW
from commonbrain.model.scope import Caller, Role
from commonbrain.observability.hook_events import HOOK_TRANSPORT, Shown
from commonbrain.storage.interface import JobFilter

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

WINDOW: Final = timedelta(days=30)
"""How far back hooks and background jobs are counted."""
_REFLECT: Final = "reflect"
"""The jobs that may spend tokens of a language model."""
_JOBS_MAX: Final = 200
_SPENT: Final = ("tokens_in", "tokens_out")


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


def token_use(tx: Transaction, caller: Caller, *, now: datetime, session: str | None) -> TokenUse:
    """Count the tokens of a session, or those of the last 30 days that the caller may see."""
    events = tx.events.by_transport(
        HOOK_TRANSPORT, limit=EVENTS_WINDOW, since=now - WINDOW, session=session
    )
    own = None if caller.role is Role.ADMIN and session is None else caller.agent
    jobs = tx.jobs.listed(JobFilter(kind=_REFLECT, agent=own), before=None, limit=_JOBS_MAX)
    return TokenUse(
        shown=sum(Shown.read(one.args).tokens for one in events if own in {None, one.agent}),
        background=sum(
            cast("int", one.reached.get(name, 0))
            for one in jobs
            if one.created_at >= now - WINDOW and session in {None, one.caller.session}
            for name in _SPENT
        ),
    )
