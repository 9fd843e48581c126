"""Admin: the audit and the jobs of a tenant; packages add screens, and cards to the overview."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from commonbrain.api.operations.audit import AUDIT, AuditRequest
from commonbrain.api.operations.job import JOB, JobRequest
from commonbrain.history.audit import AuditPage
from commonbrain.jobs.registry import JOBS
from commonbrain.jobs.service import JobsReply
from commonbrain.model.jobs import JobState
from commonbrain.model.scope import Role
from commonbrain.web.screens.screen import Screen, admin_screen, load_cards
from commonbrain.web.visit import Visit


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminView:
    """What needs an admin, and what packages show of a tenant."""

    tenant: str
    dead_jobs: int
    cards: Mapping[str, object]
    """What packages show, by template."""


def _load_admin(visit: Visit) -> AdminView:
    dead = visit.call(JOB, JobRequest(op="list", state=JobState.DEAD.value, limit=1))
    return AdminView(
        tenant=visit.brain.caller.tenant,
        dead_jobs=len(dead.jobs) + dead.more,
        cards=load_cards(visit, "admin"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditView:
    """A page of the audit."""

    filters: Mapping[str, str]
    """The filters as given."""
    page: AuditPage


_AUDIT_FILTERS: Final = ("agent", "action", "memory", "request_id", "since", "until")


def _load_audit(visit: Visit) -> AuditView:
    return AuditView(
        filters={name: visit.text(name) for name in _AUDIT_FILTERS},
        page=visit.call(AUDIT, visit.request(AuditRequest)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsView:
    """A page of jobs."""

    state: str
    kind: str
    page: JobsReply
    states: tuple[JobState, ...] = tuple(JobState)
    kinds: tuple[str, ...] = tuple(JOBS)


def _load_jobs(visit: Visit) -> JobsView:
    page = visit.call(JOB, visit.request(JobRequest, op="list"))
    return JobsView(state=visit.text("state"), kind=visit.text("kind"), page=page)


ADMIN_SCREENS: Final[tuple[Screen, ...]] = (
    Screen(name="admin", path="/admin", title="Admin", load=_load_admin, key="a", role=Role.ADMIN),
    admin_screen("Audit", _load_audit),
    admin_screen("Jobs", _load_jobs),
)
