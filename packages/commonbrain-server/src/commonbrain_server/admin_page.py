"""The page's parts of a tenant and of tenants: agents, keys, policy, refusals, quotas."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from commonbrain.client import Brain
from commonbrain.model.limits import KEYS_MAX
from commonbrain.model.parameters import POLICY_PARAMETERS
from commonbrain.model.scope import Policy, Role, Trust
from commonbrain.storage.interface import AccessEntry, Tenant
from commonbrain.web.screens.screen import NewSecret, PagePart, admin_screen
from commonbrain.web.visit import Visit
from commonbrain_server.operations.admin import ADMIN, AdminReply, AdminRequest, KeyView
from commonbrain_server.operations.tenant import TENANT, TenantRequest
from commonbrain_server.security.keys import Agent, KeyScope
from commonbrain_server.tenants import Usage, admin_of, tenants_of

_REFUSALS_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """How much of something is used."""

    name: str
    used: int
    most: int | None
    """None if it is not limited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantCardView:
    """What the tenant uses, its policy, and the latest refusals and changes."""

    tenant: str
    usage: Usage
    quotas: tuple[Quota, ...]
    is_owner: bool
    """Whether the person owns the store, and so may set quotas."""
    parameters: tuple[str, ...]
    """The names that a policy may set."""
    refusals: tuple[AccessEntry, ...]


def _load_card(visit: Visit) -> TenantCardView:
    reply = visit.call(ADMIN, AdminRequest(op="usage"))
    usage = reply.usage
    assert usage is not None  # noqa: S101 the verb returns it
    refusals = visit.call(ADMIN, AdminRequest(op="refusals", limit=_REFUSALS_SHOWN)).refusals
    return TenantCardView(
        tenant=reply.tenant,
        usage=usage,
        quotas=(
            Quota(name="Memories", used=usage.memories, most=usage.policy.memories_max),
            Quota(name="Agents", used=usage.agents, most=KEYS_MAX),
            Quota(name="Valid keys", used=usage.keys, most=KEYS_MAX),
        ),
        is_owner=visit.brain.caller.admission is None,
        parameters=POLICY_PARAMETERS,
        refusals=refusals or (),
    )


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
class RefusalsView:
    """A page of refusals and administrative changes."""

    refusals: tuple[AccessEntry, ...]
    next: str | None
    more: int


def _load_refusals(visit: Visit) -> RefusalsView:
    reply = visit.call(ADMIN, visit.request(AdminRequest, op="refusals"))
    return RefusalsView(refusals=reply.refusals or (), next=reply.next, more=reply.more)


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


def _new_secret(reply: AdminReply) -> NewSecret | None:
    if reply.secret is None or not reply.keys:
        return None
    [key] = reply.keys
    return NewSecret(text=reply.secret, prefix=key.key, agent=key.agent)


def _of_admin(brain: Brain, request: AdminRequest) -> Mapping[str, str] | None:
    match request.op:
        case "agent_set":
            name = request.agent or ""
            known = next((one for one in admin_of(brain).agents() if one.name == name), None)
            if known is None:
                return {"op": "agent_set", "agent": name, "disabled": "true"}
            return {
                "op": "agent_set",
                "agent": name,
                "role": known.role.value,
                "trust_default": known.trust_default.value,
                "trust_ceiling": known.trust_ceiling.value,
                "disabled": _flag(is_set=known.disabled_at is not None),
            }
        case "policy":
            changed = _policy_fields(admin_of(brain).policy(), request)
            return {"op": "policy", **changed} if changed else None
        case _:
            # The text of a key is shown once, and a revoked key never works again.
            return None


def _of_tenant(brain: Brain, request: TenantRequest) -> Mapping[str, str] | None:
    match request.op:
        case "suspend" | "resume":
            is_suspended = tenants_of(brain).get(request.name).suspended_at is not None
            return {"op": "suspend" if is_suspended else "resume", "name": request.name}
        case "policy":
            changed = _policy_fields(tenants_of(brain).get(request.name).policy, request)
            return {"op": "policy", "name": request.name, **changed} if changed else None
        case _:
            return None


def _policy_fields(policy: Policy, request: AdminRequest | TenantRequest) -> dict[str, str]:
    """Return the present values of the fields that a request changes."""
    present: dict[str, str] = {
        "boot_required": _flag(is_set=policy.is_boot_required),
        "auto_promote": _flag(is_set=policy.is_promotion_automatic),
        "audit_reads": _flag(is_set=policy.are_reads_audited),
        "retention": ",".join(policy.retention) or "none",
        "parameters": ",".join(_present_parameters(policy, request.parameters)),
        "key_calls_per_minute": str(policy.key_calls_per_minute or 0),
        "tenant_calls_per_minute": str(policy.tenant_calls_per_minute or 0),
        "memories_max": str(-1 if policy.memories_max is None else policy.memories_max),
    }
    given = request.model_dump(exclude_defaults=True)
    return {name: value for name, value in present.items() if name in given}


def _present_parameters(policy: Policy, changed: list[str]) -> list[str]:
    """Return `NAME=VALUE` for each changed parameter; without a value it is the server's."""
    values = dict(one.split("=", 1) for one in policy.parameters)
    names = dict.fromkeys(one.partition("=")[0].strip() for one in changed)
    return [f"{name}={values.get(name, '')}" for name in names if name in POLICY_PARAMETERS]


def _flag(*, is_set: bool) -> str:
    return "true" if is_set else "false"


ADMIN_PART: Final = PagePart(
    operation="admin",
    package="commonbrain_server",
    screens=(
        admin_screen("Agents", _load_agents),
        admin_screen("Keys", _load_keys),
        admin_screen("Refusals", _load_refusals),
    ),
    undo_fields=_of_admin,
    new_secret=_new_secret,
    cards={"admin": _load_card},
)
TENANT_PART: Final = PagePart(
    operation="tenant",
    package="commonbrain_server",
    screens=(admin_screen("Tenants", _load_tenants, is_for_owner=True),),
    undo_fields=_of_tenant,
)
