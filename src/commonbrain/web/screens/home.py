"""Home: what was learnt, what waits for a decision, who is at work, and whether all is well."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from commonbrain.api.operations.list import LIST, ListRequest
from commonbrain.api.operations.review import REVIEW, ReviewRequest, rows_of
from commonbrain.api.operations.session import SESSION, SessionRequest
from commonbrain.api.operations.status import STATUS, StatusReply, StatusRequest
from commonbrain.coordination.session_views import ActiveSession, OpenTask
from commonbrain.history.review_queue import ReviewCategory
from commonbrain.model.scope import Role
from commonbrain.retrieval.listing import ListedMemory
from commonbrain.web.screens.screen import Screen
from commonbrain.web.visit import Visit

_SHOWN: Final = 8
_SESSIONS_SHOWN: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Learnt:
    """The newest memories of a period, and their number."""

    memories: tuple[ListedMemory, ...]
    count: int
    """1,000 more than the memories shown means that or more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that the operator should look at."""

    text: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeView:
    """The start page."""

    today: Learnt
    week: Learnt
    waiting: Mapping[str, int]
    """Open decisions by category; 1,000 means 1,000 or more."""
    sessions: tuple[ActiveSession, ...]
    tasks: tuple[OpenTask, ...]
    status: StatusReply
    faults: tuple[Fault, ...]


def _load(visit: Visit) -> HomeView:
    midnight = visit.now.replace(hour=0, minute=0, second=0, microsecond=0)
    status = visit.call(STATUS, StatusRequest())
    sessions, tasks = _at_work(visit) if visit.can(Role.WRITER) else ((), ())
    return HomeView(
        today=_learnt(visit, since=midnight.isoformat()),
        week=_learnt(visit, since=(midnight - timedelta(days=6)).isoformat()),
        waiting={
            category.value: len(rows_of(queue)) + queue.more
            for category in ReviewCategory
            for queue in [visit.call(REVIEW, ReviewRequest(category=category.value, limit=1))]
        },
        sessions=sessions,
        tasks=tasks,
        status=status,
        faults=tuple(_faults(status)),
    )


def _learnt(visit: Visit, *, since: str) -> Learnt:
    page = visit.call(LIST, ListRequest(recorded_since=since, limit=_SHOWN))
    return Learnt(memories=page.memories, count=len(page.memories) + page.more)


def _at_work(visit: Visit) -> tuple[tuple[ActiveSession, ...], tuple[OpenTask, ...]]:
    sessions = visit.call(SESSION, SessionRequest(op="list", limit=_SESSIONS_SHOWN))
    tasks = visit.call(SESSION, SessionRequest(op="tasks", limit=_SESSIONS_SHOWN))
    return sessions.sessions or (), tasks.tasks or ()


def _faults(status: StatusReply) -> Iterator[Fault]:
    if dead := status.jobs.get("dead", 0):
        yield Fault(text=f"{dead} jobs failed for good.", hint="brain job list --state dead")
    if status.embedding_pending:
        yield Fault(
            text=f"{status.embedding_pending} memories wait for their vectors.",
            hint="Until then, search finds them by words alone.",
        )
    for client in status.silent_clients:
        yield Fault(text=f"{client.client} is silent: no hook ran.", hint=client.advice)
    if lost := status.traces_dropped + status.accesses_dropped + status.heartbeats_dropped:
        yield Fault(text=f"{lost} log entries were dropped.", hint="The store was too slow.")


HOME: Final = Screen(name="home", path="/", title="Home", load=_load, key="h")
