"""What hooks of clients did, which clients are silent, and the tokens that the memory costs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from commonbrain.model.limits import EVENTS_WINDOW, HOOK_SILENT_DAYS
from commonbrain.model.scope import Caller, Role
from commonbrain.observability.hook_runs import BY_WORDS, TIMED_OUT, HookRuns, hook_of
from commonbrain.storage.interface import JobFilter
from commonbrain.storage.job_queue import REFLECT

if TYPE_CHECKING:
    from commonbrain.services import Services
    from commonbrain.storage.repositories.records import HookRun
    from commonbrain.storage.store import Transaction

WINDOW: Final = timedelta(days=30)
"""How far back hooks and background jobs are counted."""
_SPENT: Final = ("tokens_in", "tokens_out")
"""What jobs record that use a language model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUse:
    """Tokens that the memory cost a session, or all sessions."""

    shown: int = 0
    """Tokens of the replies and hooks that a session was shown; of all sessions, of hooks alone."""
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
    runs: Sequence[HookRun] = (),
) -> TokenUse:
    """Count the tokens of a session, or those of the last 30 days that the caller may see.

    Args:
        tx: a transaction of the caller's tenant.
        caller: who asks.
        now: the current time.
        session: only this session; None for all.
        runs: the runs of hooks to count if it is None.

    """
    own = None if caller.role is Role.ADMIN and session is None else caller.agent
    since = now - WINDOW
    reflections = JobFilter(kind=REFLECT, agent=own, session=session, since=since)
    reached = tx.jobs.progress(reflections, limit=EVENTS_WINDOW)
    return TokenUse(
        shown=sum(one.shown.tokens for one in runs)
        if session is None
        else tx.events.tokens_shown(caller.agent, session, limit=EVENTS_WINDOW),
        background=sum(one.get(name, 0) for one in reached for name in _SPENT),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HookActivity:
    """One hook of one client in the last 30 days."""

    client: str
    event: str
    last_run: datetime
    """When it last ran, also if it found nothing to do."""
    shown: int = 0
    """Memories that it showed, each time counted."""
    tokens: int = 0
    """Tokens that it showed."""
    last_ids: tuple[str, ...] = ()
    """The first memories of the last run that showed any."""
    timed_out: int = 0
    """Runs on this machine whose time was over before they had an answer."""
    by_words: int = 0
    """Prompts on this machine that were searched by words alone: the model was not loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentClient:
    """A client with hooks, none of which ran for a week."""

    client: str
    since: datetime
    """When a hook last ran, or when the client was connected."""

    @property
    def advice(self) -> str:
        """The commands that check and repair it."""
        return f"Check with brain hook status; repair with brain connect {self.client} --hooks."


def first_day(now: datetime) -> datetime:
    """Return the midnight, in UTC, with which the last 30 days begin; today is one of them."""
    return now.replace(hour=0, minute=0, second=0, microsecond=0) - WINDOW + timedelta(days=1)


def recent_runs(tx: Transaction, caller: Caller, *, now: datetime) -> Sequence[HookRun]:
    """List the runs of hooks in the last 30 days; agents other than admins see their own."""
    agent = None if caller.role is Role.ADMIN else caller.agent
    return tx.events.of_hooks(limit=EVENTS_WINDOW, since=first_day(now), agent=agent)


def hook_activity(
    recorded: Iterable[HookRun],
    *,
    runs: Mapping[tuple[str, str], datetime],
    outcomes: Mapping[tuple[str, str, str], int],
) -> tuple[HookActivity, ...]:
    """List the hooks that ran, by client and event.

    Args:
        recorded: the runs that the store knows, newest first.
        runs: when hooks last ran on this machine, with those that found nothing to do.
        outcomes: how often a hook timed out or did less, by client, event and outcome.

    """
    events: defaultdict[tuple[str, str], list[HookRun]] = defaultdict(list)
    for one in recorded:
        events[hook_of(one.tool)].append(one)
    known = {**events, **{key: events.get(key, []) for key in runs}}
    return tuple(
        _activity(key, known[key], last_run=runs.get(key), outcomes=outcomes)
        for key in sorted(known)
    )


def silent_clients(
    hooks: Iterable[HookActivity], *, clients: Mapping[str, datetime], now: datetime
) -> tuple[SilentClient, ...]:
    """List the clients whose hooks did not run for a week; `clients` are those of this machine."""
    latest = dict(clients)
    for hook in hooks:
        latest[hook.client] = max(hook.last_run, latest.get(hook.client, hook.last_run))
    oldest = now - timedelta(days=HOOK_SILENT_DAYS)
    return tuple(
        SilentClient(client=client, since=latest[client])
        for client in sorted(latest)
        if latest[client] <= oldest
    )


def _activity(
    key: tuple[str, str],
    events: Sequence[HookRun],
    *,
    last_run: datetime | None,
    outcomes: Mapping[tuple[str, str, str], int],
) -> HookActivity:
    """Sum up one hook; its events are newest first."""
    shown = [one.shown for one in events]
    times = [one.at for one in events[:1]] + ([last_run] if last_run else [])
    return HookActivity(
        client=key[0],
        event=key[1],
        last_run=max(times),
        shown=sum(one.memories for one in shown),
        tokens=sum(one.tokens for one in shown),
        last_ids=next((one.ids for one in shown if one.ids), ()),
        timed_out=outcomes.get((*key, TIMED_OUT), 0),
        by_words=outcomes.get((*key, BY_WORDS), 0),
    )


def report_hooks(
    recorded: Iterable[HookRun], *, services: Services, caller: Caller
) -> tuple[tuple[HookActivity, ...], tuple[SilentClient, ...]]:
    """Return the hooks that ran and the clients that are silent.

    The marks of this machine are of no concern to callers from the network.
    """
    now = services.clock.now()
    here = services.hook_runs if caller.admission is None else HookRuns()
    outcomes = here.outcomes(first_day(now))
    hooks = hook_activity(recorded, runs=here.last(), outcomes=outcomes)
    return hooks, silent_clients(hooks, clients=here.clients(), now=now)
