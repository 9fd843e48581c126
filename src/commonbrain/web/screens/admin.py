"""Admin: agents, keys, policy, audit and jobs of a tenant, and the tenants of a store."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from commonbrain.administration.tenants import Usage
from commonbrain.api.operations.admin import ADMIN, AdminRequest, KeyView
from commonbrain.api.operations.audit import AUDIT, AuditRequest
from commonbrain.api.operations.job import JOB, JobRequest
from commonbrain.api.operations.tenant import TENANT, TenantRequest
from commonbrain.history.audit import AuditPage
from commonbrain.jobs.registry import JOBS
from commonbrain.jobs.service import JobsReply
from commonbrain.model.agents import Agent, KeyScope
from commonbrain.model.jobs import JobState
from commonbrain.model.limits import KEYS_MAX
from commonbrain.model.parameters import POLICY_PARAMETERS
from commonbrain.model.scope import Role, Trust
from commonbrain.storage.interface import AccessEntry, Tenant
from commonbrain.web.screens.screen import Screen, admin_screen
from commonbrain.web.visit import Visit

_REFUSALS_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """How much of something is used."""

    name: str
    used: int
    most: int | None
    """None if it is not limited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminView:
    """What the tenant uses, its policy, and what needs an admin."""

    tenant: str
    usage: Usage
    quotas: tuple[Quota, ...]
    is_owner: bool
    """Whether the person owns the store, and so may set quotas."""
    parameters: tuple[str, ...]
    """The names that a policy may set."""
    refusals: tuple[AccessEntry, ...]
    dead_jobs: int


def _load_admin(visit: Visit) -> AdminView:
    reply = visit.call(ADMIN, AdminRequest(op="usage"))
    usage = reply.usage
    assert usage is not None  # noqa: S101 the verb returns it
    refusals = visit.call(ADMIN, AdminRequest(op="refusals", limit=_REFUSALS_SHOWN)).refusals
    dead = visit.call(JOB, JobRequest(op="list", state=JobState.DEAD.value, limit=1))
    return AdminView(
        tenant=reply.tenant,
        usage=usage,
        quotas=(
            Quota(name="Memories", used=usage.memories, most=usage.policy.memories_max),
            Quota(name="Agents", used=usage.agents, most=KEYS_MAX),
            Quota(name="Valid keys", used=usage.keys, most=KEYS_MAX),
        ),
        is_owner=_is_owner(visit),
        parameters=POLICY_PARAMETERS,
        refusals=refusals or (),
        dead_jobs=len(dead.jobs) + dead.more,
    )


def _is_owner(visit: Visit) -> bool:
    """Return whether the person reaches the store itself rather than a server."""
    return visit.brain.caller.admission is None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentsView:
    """A page of agents."""

    agents: tuple[Agent, ...]
    next: str | None
    more: int
    roles: tuple[Role, ...] = tuple(Role)
    trusts: tuple[Trust, ...] = tuple(Trust)


def _load_agents(visit: Visit) -> AgentsView:
    reply = visit.call(ADMIN, visit.request(AdminRequest, op="agents"))
    return AgentsView(agents=reply.agents or (), next=reply.next, more=reply.more)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysView:
    """A page of keys, valid ones first."""

    agent: str
    """The agent whose keys they are; empty for all."""
    keys: tuple[KeyView, ...]
    next: str | None
    more: int
    roles: tuple[Role, ...] = tuple(Role)
    scopes: tuple[KeyScope, ...] = tuple(KeyScope)


def _load_keys(visit: Visit) -> KeysView:
    request = visit.request(AdminRequest, op="keys")
    reply = visit.call(ADMIN, request)
    return KeysView(
        agent=request.agent or "", keys=reply.keys or (), next=reply.next, more=reply.more
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditView:
    """A page of the audit."""

    filters: Mapping[str, str]
    """The filters as given."""
    page: AuditPage


_AUDIT_FILTERS: Final = ("agent", "action", "memory", "request_id", "since", "until")


def _load_audit(visit: Visit) -> AuditView:
    page = visit.call(AUDIT, visit.request(AuditRequest))
    return AuditView(filters={name: visit.text(name) for name in _AUDIT_FILTERS}, page=page)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalsView:
    """A page of refusals and administrative changes."""

    refusals: tuple[AccessEntry, ...]
    next: str | None
    more: int


def _load_refusals(visit: Visit) -> RefusalsView:
    reply = visit.call(ADMIN, visit.request(AdminRequest, op="refusals"))
    return RefusalsView(refusals=reply.refusals or (), next=reply.next, more=reply.more)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantsView:
    """A page of the tenants of the store, and one of them with its usage."""

    tenants: tuple[Tenant, ...]
    next: str | None
    more: int
    shown: Tenant | None
    usage: Usage | None


def _load_tenants(visit: Visit) -> TenantsView:
    reply = visit.call(TENANT, TenantRequest(cursor=visit.text("cursor") or None))
    shown: Tenant | None = None
    usage: Usage | None = None
    if name := visit.text("name"):
        one = visit.call(TENANT, TenantRequest(op="show", name=name))
        [shown], usage = one.tenants, one.usage
    return TenantsView(
        tenants=reply.tenants, next=reply.next, more=reply.more, shown=shown, usage=usage
    )


ADMIN_SCREENS: Final[tuple[Screen, ...]] = (
    Screen(name="admin", path="/admin", title="Admin", load=_load_admin, key="a", role=Role.ADMIN),
    admin_screen("Agents", _load_agents),
    admin_screen("Keys", _load_keys),
    admin_screen("Audit", _load_audit),
    admin_screen("Refusals", _load_refusals),
    admin_screen("Jobs", _load_jobs),
    admin_screen("Tenants", _load_tenants),
)
