"""Health: how fast and how well the memory answers, how it grows, and what failed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from commonbrain.administration.trends import RecallTrend, Trends
from commonbrain.api.operations.audit import AUDIT, AuditRequest
from commonbrain.api.operations.job import JOB, JobRequest
from commonbrain.api.operations.status import STATUS, StatusReply, StatusRequest
from commonbrain.jobs.service import JobView
from commonbrain.model.jobs import JobState
from commonbrain.model.scope import Role
from commonbrain.web.screens.screen import Screen, load_cards
from commonbrain.web.visit import Visit

_ERRORS: Final = 10
_DEAD_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """What was last done for the store; None if it is not known or never was."""

    backed_up_at: datetime | None
    maintained_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthView:
    """The state of the store and of what serves it."""

    status: StatusReply
    summaries: Mapping[str, str]
    """By plot, what it shows in a sentence."""
    dead: tuple[JobView, ...]
    """Jobs that failed for good; empty for readers."""
    cards: Mapping[str, object]
    """What packages show, by template; empty unless the person is an admin."""
    upkeep: Upkeep | None
    """None unless the person is an admin."""


def _load(visit: Visit) -> HealthView:
    request = StatusRequest(health=True, metrics=True, trends=True, errors=_ERRORS)
    status = visit.call(STATUS, request)
    is_admin = visit.can(Role.ADMIN)
    return HealthView(
        status=status,
        summaries=_summaries(status.trends) if status.trends else {},
        dead=_jobs(visit, JobState.DEAD, limit=_DEAD_SHOWN) if visit.can(JOB.role) else (),
        cards=load_cards(visit, "health") if is_admin else {},
        upkeep=_upkeep(visit) if is_admin else None,
    )


def _jobs(
    visit: Visit, state: JobState, *, limit: int, kind: str | None = None
) -> tuple[JobView, ...]:
    request = JobRequest(op="list", state=state.value, kind=kind, limit=limit)
    return visit.call(JOB, request).jobs


def _upkeep(visit: Visit) -> Upkeep:
    backups = visit.call(AUDIT, AuditRequest(action="backup", limit=1)).lines
    done = _jobs(visit, JobState.DONE, limit=1, kind="maintain")
    return Upkeep(
        backed_up_at=next((one.at for one in backups), None),
        maintained_at=next((one.finished_at for one in done), None),
    )


def _summaries(trends: Trends) -> Mapping[str, str]:
    stored = sum(sum(one.by_kind.values()) for one in trends.stored)
    shown = sum(one.tokens for one in trends.tokens)
    return {
        "calls": _of_calls(trends),
        "stored": f"{stored:,} memories in {len(trends.stored)} of the last 30 days.",
        "recalls": _of_recalls(trends.recalls),
        "tokens": f"{shown:,} tokens shown in {sum(one.runs for one in trends.tokens):,} runs "
        "of hooks.",
    }


def _of_calls(trends: Trends) -> str:
    if not trends.calls:
        return "No call in the last three days."
    last = trends.calls[-1]
    slowest = max(trends.calls, key=lambda one: one.p95_ms)
    return (
        f"In the latest hour 95% of calls took at most {last.p95_ms:,.0f} ms; the slowest hour, "
        f"{slowest.at:%d %B %H:00} UTC, had {slowest.p95_ms:,.0f} ms."
    )


def _of_recalls(recalls: Sequence[RecallTrend]) -> str:
    count = sum(one.recalls for one in recalls)
    if not count:
        return "No recall in the last 30 days."
    helped = sum(one.helped for one in recalls) / count
    unanswered = sum(one.unanswered for one in recalls) / count
    return f"{count:,} recalls: {helped:.0%} helped, {unanswered:.0%} found no answer."


HEALTH: Final = Screen(name="health", path="/health", title="Health", load=_load, key="e")
