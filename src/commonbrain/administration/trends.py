"""Trends: memories, recalls, calls and tokens over time, for people who look for a shape."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Final

from commonbrain.coordination.hook_activity import first_day, recent_runs
from commonbrain.model.limits import EVENTS_WINDOW
from commonbrain.model.query import ExclusionReason, ShownExtent
from commonbrain.model.recall_result import ResultStatus
from commonbrain.model.scope import Caller, Role
from commonbrain.text.tokens import estimate_by_sample

if TYPE_CHECKING:
    from commonbrain.services import Services
    from commonbrain.storage.repositories.records import HookRun
    from commonbrain.storage.repositories.trends import RecallRow, StoredRow
    from commonbrain.storage.store import Transaction

HOURS: Final = 72
"""Hours of the latencies: three days, so that today can be compared with yesterday."""
_SAMPLE: Final = 20
"""Latest recalls whose tokens are compared; each has about 40 texts to estimate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTrend:
    """The memories stored on one UTC day, whatever became of them."""

    day: date
    by_kind: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallTrend:
    """The recalls with a query of one UTC day."""

    day: date
    recalls: int
    helped: int
    """Those of which a memory was used or rated useful."""
    misled: int
    """Those of which a memory was rated wrong."""
    unanswered: int
    """Those that abstained: nothing stored seemed to answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTrend:
    """The calls of agents in one hour."""

    at: datetime
    """The beginning of the hour."""
    calls: int
    errors: int
    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenTrend:
    """What hooks showed to agents on one UTC day."""

    day: date
    runs: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Savings:
    """Tokens of the latest recalls, compared with handing over all that they considered."""

    recalls: int
    shown: int
    considered: int

    @property
    def share(self) -> float:
        """The share saved, 0 to 1."""
        return 1 - self.shown / self.considered if self.considered else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trends:
    """Figures over time, oldest first; days and hours without any are absent.

    Recalls and calls are the latest ten thousand. Agents other than admins see their own recalls
    and tokens only.
    """

    stored: tuple[StoredTrend, ...]
    recalls: tuple[RecallTrend, ...]
    calls: tuple[CallTrend, ...]
    tokens: tuple[TokenTrend, ...]
    savings: Savings


def read_trends(services: Services, caller: Caller) -> Trends:
    """Read the trends of the caller's tenant.

    Raises:
        UnavailableError: the store cannot be read.

    """
    now = services.clock.now()
    own = None if caller.role is Role.ADMIN else caller.agent
    # Days are whole, so that the first one is comparable with the others.
    since = first_day(now)
    hour = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=HOURS - 1)
    with services.store.snapshot(caller.tenant) as tx:
        trends, limit = tx.trends, EVENTS_WINDOW
        return Trends(
            stored=_stored(trends.stored(since=since)),
            recalls=_recalls(trends.recalls(since=since, agent=own, limit=limit)),
            calls=tuple(
                CallTrend(
                    at=one.at,
                    calls=one.calls,
                    errors=one.failed,
                    p50_ms=round(one.p50_ms, 3),
                    p95_ms=round(one.p95_ms, 3),
                )
                for one in trends.calls(since=hour, limit=limit)
            ),
            tokens=_tokens(recent_runs(tx, caller, now=now)),
            savings=_savings(tx, agent=own),
        )


def _stored(rows: Sequence[StoredRow]) -> tuple[StoredTrend, ...]:
    days: defaultdict[date, dict[str, int]] = defaultdict(dict)
    for row in rows:
        days[row.at.date()][row.kind.value] = row.memories
    return tuple(StoredTrend(day=day, by_kind=by_kind) for day, by_kind in days.items())


def _recalls(rows: Sequence[RecallRow]) -> tuple[RecallTrend, ...]:
    days: defaultdict[date, list[RecallRow]] = defaultdict(list)
    for row in rows:
        days[row.at.date()].append(row)
    return tuple(
        RecallTrend(
            day=day,
            recalls=sum(one.recalls for one in of_day),
            helped=sum(one.helped for one in of_day),
            misled=sum(one.misled for one in of_day),
            unanswered=sum(
                one.recalls for one in of_day if one.verdict == ResultStatus.BELOW_THRESHOLD
            ),
        )
        for day, of_day in days.items()
    )


def _tokens(newest_first: Sequence[HookRun]) -> tuple[TokenTrend, ...]:
    days: defaultdict[date, list[int]] = defaultdict(list)
    for row in reversed(newest_first):
        days[row.at.date()].append(row.shown.tokens)
    return tuple(
        TokenTrend(day=day, runs=len(tokens), tokens=sum(tokens)) for day, tokens in days.items()
    )


def _savings(tx: Transaction, *, agent: str | None) -> Savings:
    """Estimate from the present texts; an excerpt counts as the whole text, so nothing is claimed.

    A memory without text counts as nothing on both sides.
    """
    recalls = tx.trends.considered(agent=agent, limit=_SAMPLE)
    allowed = [
        (int(one["id"]), str(one.get("shown")))
        for considered in recalls
        for one in considered
        if one.get("left_out") != ExclusionReason.NOT_ALLOWED
    ]
    texts = tx.memories.texts(sorted({id_ for id_, _ in allowed}))
    whole = {id_: estimate_by_sample(text) for id_, text in texts.items()}
    headline = {id_: estimate_by_sample(text.partition("\n")[0]) for id_, text in texts.items()}
    nothing: Mapping[int, int] = {}
    sizes: Mapping[str, Mapping[int, int]] = {
        ShownExtent.WHOLE: whole,
        ShownExtent.EXCERPT: whole,
        ShownExtent.HEADLINE: headline,
    }
    return Savings(
        recalls=len(recalls),
        shown=sum(sizes.get(shown, nothing).get(id_, 0) for id_, shown in allowed),
        considered=sum(whole.get(id_, 0) for id_, _ in allowed),
    )
